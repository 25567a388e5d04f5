"""The Chat Completions protocol, which most servers speak."""
