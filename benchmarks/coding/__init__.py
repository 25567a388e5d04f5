"""Ten small repository tasks, with the actions of a scripted model: tokens of agentkit, deepagents and smolagents."""
