"""Session stores: in memory, SQLite and PostgreSQL."""
