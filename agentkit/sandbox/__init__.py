"""Isolation of commands and model-written code."""
