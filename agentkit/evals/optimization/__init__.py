"""Prompt optimisation: a search for better texts, guided by failures."""
