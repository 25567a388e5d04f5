"""Benchmarks of agentkit against the openai client and other agent libraries."""
