"""The Messages protocol of Anthropic, and of the servers that speak it too (pure)."""
