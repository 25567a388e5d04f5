"""Compatibility of requests with what models and servers accept."""
