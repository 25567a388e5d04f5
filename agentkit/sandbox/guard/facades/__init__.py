"""What do imports give? Facades of modules, name by name, never modules."""
