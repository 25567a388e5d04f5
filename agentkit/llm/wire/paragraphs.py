"""How is a text told whose pieces stand apart, with thoughts, calls or searches between them? Pure."""

from __future__ import annotations

_GAP = "\n\n"


class Paragraphs:
    """Joins the pieces of a text. What stood apart stays apart: otherwise a heading would begin within a sentence."""

    def __init__(self) -> None:
        self._end = ""
        self._is_interrupted = False

    def interrupt(self) -> None:
        """What comes next does not go on with what was said before."""
        self._is_interrupted = bool(self._end)

    def add(self, piece: str) -> str:
        """The next piece, behind an empty line where it stands apart and has no line of its own yet."""
        if not piece:
            return ""
        is_apart = self._is_interrupted and not (self._end == "\n" or piece.startswith("\n"))
        self._is_interrupted, self._end = False, piece[-1]
        return f"{_GAP}{piece}" if is_apart else piece
