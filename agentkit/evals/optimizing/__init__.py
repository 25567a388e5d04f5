"""How do an agent's texts get better? A search over failures: a model reads them, and proposes another text."""
