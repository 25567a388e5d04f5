"""Baselines without an agent library: the openai package, its low-level API, and plain HTTP clients."""
