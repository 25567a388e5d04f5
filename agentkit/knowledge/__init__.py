"""What do the documents say, and what should be remembered? Passages with their source, so that answers cite.

`Knowledge` answers from files, folders, web pages and texts; `Memory` keeps what an agent is to know of one user. Both
live in one SQLite file, or in a PostgreSQL database. Nothing is loaded before it is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.knowledge.knowledge import Knowledge as Knowledge
    from agentkit.knowledge.passages import Between as Between
    from agentkit.knowledge.passages import Document as Document
    from agentkit.knowledge.passages import Passage as Passage
    from agentkit.knowledge.passages import Report as Report
    from agentkit.knowledge.ranking import rerank_with as rerank_with
    from agentkit.knowledge.ranking import rewrite_with as rewrite_with
    from agentkit.knowledge.remembering import Memory as Memory
    from agentkit.knowledge.remembering import Note as Note

__all__ = ["Between", "Document", "Knowledge", "Memory", "Note", "Passage", "Report", "rerank_with", "rewrite_with"]


def __getattr__(name: str) -> object:
    """Import what is offered when the first of it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'agentkit.knowledge' has no attribute {name!r}")
    from agentkit.knowledge import knowledge, passages, ranking, remembering

    for home in (knowledge, passages, ranking, remembering):
        globals().update({offered: getattr(home, offered) for offered in __all__ if hasattr(home, offered)})
    return globals()[name]
