"""Benchmarks of prompt optimisation."""
