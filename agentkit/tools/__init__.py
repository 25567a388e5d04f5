"""The tools that ship with agentkit."""
