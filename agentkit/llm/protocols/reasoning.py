"""Reasoning text in answers, between tags or in separate parts (pure)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.events import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from agentkit.events import Event
    from agentkit.messages import AssistantMessage


_ENDS = {f"<{name}>": f"</{name}>" for name in ("think", "thinking", "thought", "reasoning", "seed:think")}
_ENDS["[THINK]"] = "[/THINK]"
"""What thoughts begin with, and what ends them."""

_BEGINNING = re.compile(rf"\s*({'|'.join(map(re.escape, _ENDS))})\s*")

_MOST_HELD = 1_000
"""How many blanks wait for what follows them: each piece looks through all of them."""


class ReasoningSplitter:
    """Parts a text into the `<think>…</think>` or the like that it begins with and the rest, however it is cut.

    Anywhere else such tags are text. Thoughts that do not end, as in an answer that was cut, are all that there is.
    """

    def __init__(self) -> None:
        self._held = ""
        self._end = ""
        self._is_over = self._has_text = False

    def part(self, piece: str, *, is_last: bool = False) -> tuple[str, str]:
        """The thoughts and the text in the next piece; what may still become a tag waits, unless nothing follows."""
        if self._has_text:
            return "", piece
        self._held += piece
        thought = "" if self._is_over else self._think(is_last=is_last)
        return thought, self._speak() if self._is_over else ""

    def events(self, piece: str) -> list[Event]:
        """The same as events."""
        thought, text = self.part(piece)
        told: list[Event] = [ReasoningDelta(thought)] if thought else []
        return [*told, TextDelta(text)] if text else told

    def _think(self, *, is_last: bool) -> str:
        """The thoughts in what is held."""
        if not self._end and not self._begin(is_last=is_last):
            return ""
        thought, end, rest = self._held.partition(self._end)
        kept = len(thought) if end or is_last else _certain(thought, self._end)
        self._is_over = bool(end)
        self._held = rest if end else thought[kept:]
        return thought.rstrip() if end else thought[:kept]

    def _begin(self, *, is_last: bool) -> bool:
        """Whether thoughts begin here. Blanks after the tag may come later, so that it waits for what follows them."""
        beginning = _BEGINNING.match(self._held)
        if beginning is None:
            begun = self._held.lstrip()
            is_open = len(self._held) < _MOST_HELD and any(tag.startswith(begun) for tag in _ENDS)
            self._is_over = self._has_text = is_last or not is_open
            return False
        if beginning.end() == len(self._held) < _MOST_HELD and not is_last:
            return False
        self._held, self._end = self._held[beginning.end() :], _ENDS[beginning[1]]
        return True

    def _speak(self) -> str:
        """The text in what is held: all of it, without the blanks that follow thoughts."""
        text = self._held if self._has_text else self._held.lstrip()
        self._held, self._has_text = "", bool(text) or self._has_text
        return text


def without_thoughts(message: AssistantMessage) -> AssistantMessage:
    """The message whose text has no thoughts at its beginning any more: they are its reasoning."""
    thought, text = ReasoningSplitter().part(message.text, is_last=True)
    return replace(message, text=text, reasoning=message.reasoning + thought) if text != message.text else message


def is_spoken(text: str, said: str) -> bool:
    """Whether a text is what was said, perhaps without the thoughts that it began with."""
    return text == said or text == ReasoningSplitter().part(said, is_last=True)[1]


def _certain(thought: str, end: str) -> int:
    """How many characters of a thought can neither be its last blanks nor belong to what ends it."""
    start = thought.rfind(end[0])
    is_open = start >= 0 and end.startswith(thought[start:])
    head = thought[:start] if is_open else thought
    bare = head.rstrip()
    return len(bare) if len(head) - len(bare) < _MOST_HELD else len(head)


_GAP = "\n\n"


class ParagraphJoiner:
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
