"""Retrieval: documents with citations, and memory of users."""

from agentkit.knowledge.chunks import AddResult, Between, Chunk, Document
from agentkit.knowledge.knowledge import Knowledge
from agentkit.knowledge.memory import Memory, Note
from agentkit.knowledge.ranking import rerank_with, rewrite_with

__all__ = ["AddResult", "Between", "Chunk", "Document", "Knowledge", "Memory", "Note", "rerank_with", "rewrite_with"]
