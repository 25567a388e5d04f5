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
"""Opening tags of reasoning, with their closing tags."""

_BEGINNING = re.compile(rf"\s*({'|'.join(map(re.escape, _ENDS))})\s*")

_MOST_HELD = 1_000
"""Maximum number of blanks held back until more text arrives: each chunk scans all of them."""


class ReasoningSplitter:
    """Splits leading reasoning, such as `<think>…</think>`, from the text of a stream, wherever the chunks are cut.

    Such tags are plain text anywhere else. If the reasoning is not closed, for example in a truncated response, all of
    the text is reasoning.
    """

    def __init__(self) -> None:
        self._held = ""
        self._end = ""
        self._is_over = self._has_text = False

    def part(self, piece: str, *, is_last: bool = False) -> tuple[str, str]:
        """Reasoning and text in the next chunk; the possible start of a tag is held back until the last chunk."""
        if self._has_text:
            return "", piece
        self._held += piece
        thought = "" if self._is_over else self._think(is_last=is_last)
        return thought, self._speak() if self._is_over else ""

    def events(self, piece: str) -> list[Event]:
        """Like `part`, as events."""
        thought, text = self.part(piece)
        told: list[Event] = [ReasoningDelta(thought)] if thought else []
        return [*told, TextDelta(text)] if text else told

    def _think(self, *, is_last: bool) -> str:
        """The reasoning in the buffer."""
        if not self._end and not self._begin(is_last=is_last):
            return ""
        thought, end, rest = self._held.partition(self._end)
        kept = len(thought) if end or is_last else _certain(thought, self._end)
        self._is_over = bool(end)
        self._held = rest if end else thought[kept:]
        return thought.rstrip() if end else thought[:kept]

    def _begin(self, *, is_last: bool) -> bool:
        """Whether reasoning starts here. Blanks can follow the tag, so that it is held until other text arrives."""
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
        """The text in the buffer, without the blanks that follow the reasoning."""
        text = self._held if self._has_text else self._held.lstrip()
        self._held, self._has_text = "", bool(text) or self._has_text
        return text


def without_thoughts(message: AssistantMessage) -> AssistantMessage:
    """The message with leading reasoning moved from its text to `reasoning`."""
    thought, text = ReasoningSplitter().part(message.text, is_last=True)
    return replace(message, text=text, reasoning=message.reasoning + thought) if text != message.text else message


def is_spoken(text: str, said: str) -> bool:
    """Whether `text` equals `said`, with or without the reasoning that `said` starts with."""
    return text == said or text == ReasoningSplitter().part(said, is_last=True)[1]


def _certain(thought: str, end: str) -> int:
    """Number of leading characters that are neither trailing blanks nor the start of the closing tag."""
    start = thought.rfind(end[0])
    is_open = start >= 0 and end.startswith(thought[start:])
    head = thought[:start] if is_open else thought
    bare = head.rstrip()
    return len(bare) if len(head) - len(bare) < _MOST_HELD else len(head)


_GAP = "\n\n"


class ParagraphJoiner:
    """Joins chunks of text, with an empty line between separate blocks: otherwise a heading could start mid-line."""

    def __init__(self) -> None:
        self._end = ""
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Mark the end of a block: the next chunk starts a new paragraph."""
        self._is_interrupted = bool(self._end)

    def add(self, piece: str) -> str:
        """The next chunk, preceded by an empty line if it starts a new block and is not on a new line already."""
        if not piece:
            return ""
        is_apart = self._is_interrupted and not (self._end == "\n" or piece.startswith("\n"))
        self._is_interrupted, self._end = False, piece[-1]
        return f"{_GAP}{piece}" if is_apart else piece
