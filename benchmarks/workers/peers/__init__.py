"""Adapters of other libraries, written as their documentation recommends."""
