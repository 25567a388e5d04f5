"""The workspace: safe file access, a journal of changes, and undo."""
