"""Accuracy benchmarks of the offline model, with their questions."""
