"""Retrieval: documents with citations, and memory of users.

`Knowledge` searches files, folders, web pages and texts; `Memory` stores notes about one user. Both use one SQLite
file, or a PostgreSQL database.
"""

from agentkit.knowledge.chunks import AddResult, Between, Chunk, Document
from agentkit.knowledge.knowledge import Knowledge
from agentkit.knowledge.memory import Memory, Note
from agentkit.knowledge.ranking import rerank_with, rewrite_with

__all__ = ["AddResult", "Between", "Chunk", "Document", "Knowledge", "Memory", "Note", "rerank_with", "rewrite_with"]
