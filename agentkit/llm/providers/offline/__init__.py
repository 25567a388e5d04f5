"""The offline model: a small local model that selects tools and fills in their arguments."""
