"""What do the documents say, and what should be remembered? Passages with their source, so that answers cite.

`Knowledge` answers from files, folders, web pages and texts; `Memory` keeps what an agent is to know of one user. Both
live in one SQLite file, or in a PostgreSQL database.
"""

from agentkit.knowledge.knowledge import Knowledge
from agentkit.knowledge.passages import Between, Document, Passage, Report
from agentkit.knowledge.ranking import rerank_with, rewrite_with
from agentkit.knowledge.remembering import Memory, Note

__all__ = ["Between", "Document", "Knowledge", "Memory", "Note", "Passage", "Report", "rerank_with", "rewrite_with"]
