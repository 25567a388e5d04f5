"""agentkit: a batteries-included agent toolkit."""
