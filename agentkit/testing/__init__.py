"""For testing programs that use agentkit."""
