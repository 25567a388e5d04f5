"""The LLM client, providers, protocols and transport."""
