"""Benchmarks of retrieval quality."""
