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

_CLOSING = re.compile(r"</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]")
_CODE = re.compile(r"(`{3,}).*?(?:\1|\Z)|`[^`\n]*`", re.DOTALL)

_HARMONY = ("<|channel|>", "<|start|>assistant<|channel|>")
"""The beginnings of an answer in OpenAI's harmony format, as written by gpt-oss."""

_HEADER = re.compile(
    r"\s*(?:<\|start\|>assistant)?<\|channel\|>(?P<channel>\w+)(?P<rest>[^<]*(?:<\|constrain\|>\w*)?)<\|message\|>"
)
_SEGMENT_END = re.compile(r"<\|(?:end|return)\|>|(?=<\|(?:start|channel)\|>)")
_CALL_END = re.compile(r"<\|call\|>")
_CALL = "call"
_TOKEN = re.compile(r"<\|\w+\|>(?:assistant)?")

_MAX_HELD = 1_000
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
        self._is_in_channels, self._channel = False, ""
        self._paragraphs: dict[bool, ParagraphJoiner] = {}

    def _is_harmony(self) -> bool:
        """Whether the answer begins in the harmony format, whose channels separate reasoning from text."""
        if not self._end and not self._is_over and self._held.lstrip().startswith(_HARMONY):
            self._is_in_channels, self._paragraphs = True, {True: ParagraphJoiner(), False: ParagraphJoiner()}
        return self._is_in_channels

    def _in_channels(self, *, is_last: bool) -> tuple[str, str]:
        """Reasoning and text in the buffer. A tool call in the commentary channel is text, with its markup."""
        parts: dict[bool, list[str]] = {True: [], False: []}
        while self._held and (self._channel or self._enter_channel(is_last=is_last)):
            end = (_CALL_END if self._channel == _CALL else _SEGMENT_END).search(self._held)
            if end is None:
                kept = len(self._held) if is_last else _before_token(self._held)
            else:
                kept = end.end() if self._channel == _CALL else end.start()
            is_thought = self._channel == "analysis"
            parts[is_thought].append(self._paragraphs[is_thought].add(self._held[:kept]))
            self._held = self._held[end.end() if end else kept :]
            if end is None:
                break
            self._channel = ""
        return "".join(parts[True]), "".join(parts[False])

    def _enter_channel(self, *, is_last: bool) -> bool:
        """Whether the header of a channel is complete; it is removed, unless it is that of a tool call."""
        header = _HEADER.match(self._held)
        if header is not None:
            self._channel = _CALL if "to=" in header["rest"] else header["channel"]
            if self._channel != _CALL:
                self._paragraphs[self._channel == "analysis"].interrupt()
            self._held = self._held[self._held.index("<|channel|>") if self._channel == _CALL else header.end() :]
            return True
        begun = self._held.lstrip()
        if is_last or not any(start.startswith(begun) or begun.startswith(start) for start in _HARMONY):
            self._channel, self._held = "final", _TOKEN.sub("", self._held)
            return True
        return False

    def part(self, piece: str, *, is_last: bool = False) -> tuple[str, str]:
        """Reasoning and text in the next chunk; the possible start of a tag is held back until the last chunk."""
        if self._has_text:
            return "", piece
        self._held += piece
        if self._is_in_channels or self._is_harmony():
            return self._in_channels(is_last=is_last)
        thought = "" if self._is_over else self._think(is_last=is_last)
        return thought, self._speak() if self._is_over else ""

    def events(self, piece: str) -> list[Event]:
        """Like `part`, as events."""
        thought, text = self.part(piece)
        events: list[Event] = [ReasoningDelta(thought)] if thought else []
        return [*events, TextDelta(text)] if text else events

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
            is_open = len(self._held) < _MAX_HELD and any(tag.startswith(begun) for tag in (*_ENDS, *_HARMONY))
            self._is_over = self._has_text = is_last or not is_open
            return False
        if beginning.end() == len(self._held) < _MAX_HELD and not is_last:
            return False
        self._held, self._end = self._held[beginning.end() :], _ENDS[beginning[1]]
        return True

    def _speak(self) -> str:
        """The text in the buffer, without the blanks that follow the reasoning."""
        text = self._held if self._has_text else self._held.lstrip()
        self._held, self._has_text = "", bool(text) or self._has_text
        return text


def _before_token(text: str) -> int:
    """Number of leading characters that cannot be the start of a token of the harmony format."""
    start = text.rfind("<")
    is_open = start >= 0 and re.fullmatch(r"<(?:\|\w*\|?)?", text[start:]) is not None
    return start if is_open else len(text)


class ThoughtsHolder:
    """Holds back the text of a stream until its reasoning is closed, for a model that closes what it did not open.

    Nothing is held back once the server itself has separated reasoning from text.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_over = self._has_text = False

    def events(self, event: Event) -> list[Event]:
        """The events to emit for an event."""
        self._has_text = self._has_text or (not self._held and isinstance(event, ReasoningDelta))
        if self._has_text or not isinstance(event, TextDelta):
            return [event]
        self._held += event.text
        parts = ("", self._held.lstrip()) if self._is_over else closed_thoughts(self._held)
        if parts is None:
            return []
        self._is_over, self._has_text, self._held = True, bool(parts[1]), ""
        return [*([ReasoningDelta(parts[0])] if parts[0] else []), *([TextDelta(parts[1])] if parts[1] else [])]


def closed_thoughts(text: str) -> tuple[str, str] | None:
    """Reasoning and text of an answer whose reasoning is closed but not opened; None for any other answer.

    Some chat templates put the opening tag into the prompt. A tag in code or amid a sentence is text.
    """
    if "</" not in text and "[/" not in text:
        return None
    hidden = _CODE.sub(lambda match: " " * len(match[0]), text)
    found = _CLOSING.search(hidden)
    if found is None or any(tag in hidden[: found.start()] for tag in _ENDS):
        return None
    after = hidden[found.end() : found.end() + 1]
    before = hidden[: found.start()][-1:]
    if before in (" ", "\t") and after in (" ", "\t", *".,;:!?)"):
        return None
    return text[: found.start()].strip(), text[found.end() :].lstrip()


def without_thoughts(message: AssistantMessage) -> AssistantMessage:
    """The message with leading reasoning moved from its text to `reasoning`."""
    if message.text.lstrip()[:1] not in ("<", "["):  # the first characters of all opening tags
        return message
    thought, text = ReasoningSplitter().part(message.text, is_last=True)
    return replace(message, text=text, reasoning=message.reasoning + thought) if text != message.text else message


def is_text_of(text: str, original: str) -> bool:
    """Whether `text` equals `original`, with or without the reasoning that `original` starts with."""
    return text == original or text == ReasoningSplitter().part(original, is_last=True)[1]


def _certain(thought: str, end: str) -> int:
    """Number of leading characters that are neither trailing blanks nor the start of the closing tag."""
    start = thought.rfind(end[0])
    is_open = start >= 0 and end.startswith(thought[start:])
    head = thought[:start] if is_open else thought
    bare = head.rstrip()
    return len(bare) if len(head) - len(bare) < _MAX_HELD else len(head)


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
