"""What did a model mean that wrote something else? Pure functions from what was written to what was meant."""
