"""Stores for chunks: SQLite and PostgreSQL."""
