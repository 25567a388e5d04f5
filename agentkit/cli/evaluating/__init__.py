"""`agentkit eval` and `agentkit optimize`: how good an agent is, and how it becomes better."""
