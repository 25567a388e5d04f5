"""Reasoning text in answers, between tags or in separate parts (pure)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.events import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from agentkit.events import Event
    from agentkit.messages import AssistantMessage


_CLOSING_TAGS = {f"<{name}>": f"</{name}>" for name in ("think", "thinking", "thought", "reasoning", "seed:think")}
_CLOSING_TAGS["[THINK]"] = "[/THINK]"
"""Opening tags of reasoning, with their closing tags."""

_OPENING_TAG = re.compile(rf"\s*({'|'.join(map(re.escape, _CLOSING_TAGS))})\s*")

_CLOSING_TAG = re.compile(r"</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]")
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

_MAX_BUFFERED_BLANKS = 1_000
"""Maximum number of blanks held back until more text arrives: each chunk scans all of them."""


class ReasoningSplitter:
    """Splits leading reasoning, such as `<think>…</think>`, from the text of a stream, wherever the chunks are cut.

    Such tags are plain text anywhere else. If the reasoning is not closed, for example in a truncated response, all of
    the text is reasoning.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._end = ""
        self._is_over = self._has_text = False
        self._is_in_channels, self._channel = False, ""
        self._paragraphs: dict[bool, ParagraphJoiner] = {}

    def _is_harmony(self) -> bool:
        """Whether the answer begins in the harmony format, whose channels separate reasoning from text."""
        if not self._end and not self._is_over and self._buffer.lstrip().startswith(_HARMONY):
            self._is_in_channels, self._paragraphs = True, {True: ParagraphJoiner(), False: ParagraphJoiner()}
        return self._is_in_channels

    def _split_channels(self, *, is_last: bool) -> tuple[str, str]:
        """Reasoning and text in the buffer. A tool call in the commentary channel is text, with its markup."""
        parts: dict[bool, list[str]] = {True: [], False: []}
        while self._buffer and (self._channel or self._read_channel_header(is_last=is_last)):
            end = (_CALL_END if self._channel == _CALL else _SEGMENT_END).search(self._buffer)
            if end is None:
                length = len(self._buffer) if is_last else _length_before_token(self._buffer)
            else:
                length = end.end() if self._channel == _CALL else end.start()
            is_reasoning = self._channel == "analysis"
            parts[is_reasoning].append(self._paragraphs[is_reasoning].add(self._buffer[:length]))
            self._buffer = self._buffer[end.end() if end else length :]
            if end is None:
                break
            self._channel = ""
        return "".join(parts[True]), "".join(parts[False])

    def _read_channel_header(self, *, is_last: bool) -> bool:
        """Whether the header of a channel is complete; it is removed, unless it is that of a tool call."""
        header = _HEADER.match(self._buffer)
        if header is not None:
            self._channel = _CALL if "to=" in header["rest"] else header["channel"]
            if self._channel != _CALL:
                self._paragraphs[self._channel == "analysis"].interrupt()
            self._buffer = self._buffer[self._buffer.index("<|channel|>") if self._channel == _CALL else header.end() :]
            return True
        start_of_text = self._buffer.lstrip()
        if is_last or not any(start.startswith(start_of_text) or start_of_text.startswith(start) for start in _HARMONY):
            self._channel, self._buffer = "final", _TOKEN.sub("", self._buffer)
            return True
        return False

    def split(self, chunk: str, *, is_last: bool = False) -> tuple[str, str]:
        """Reasoning and text in the next chunk; the possible start of a tag is held back until the last chunk."""
        if self._has_text:
            return "", chunk
        self._buffer += chunk
        if self._is_in_channels or self._is_harmony():
            return self._split_channels(is_last=is_last)
        reasoning = "" if self._is_over else self._take_reasoning(is_last=is_last)
        return reasoning, self._take_text() if self._is_over else ""

    def events(self, chunk: str) -> list[Event]:
        """Like `split`, as events."""
        reasoning, text = self.split(chunk)
        events: list[Event] = [ReasoningDelta(reasoning)] if reasoning else []
        return [*events, TextDelta(text)] if text else events

    def _take_reasoning(self, *, is_last: bool) -> str:
        """The reasoning in the buffer."""
        if not self._end and not self._read_opening_tag(is_last=is_last):
            return ""
        reasoning, end, remainder = self._buffer.partition(self._end)
        length = len(reasoning) if end or is_last else _safe_length(reasoning, self._end)
        self._is_over = bool(end)
        self._buffer = remainder if end else reasoning[length:]
        return reasoning.rstrip() if end else reasoning[:length]

    def _read_opening_tag(self, *, is_last: bool) -> bool:
        """Whether reasoning starts here. Blanks can follow the tag, so that it is held until other text arrives."""
        opening = _OPENING_TAG.match(self._buffer)
        if opening is None:
            start_of_text = self._buffer.lstrip()
            is_open = len(self._buffer) < _MAX_BUFFERED_BLANKS and any(
                tag.startswith(start_of_text) for tag in (*_CLOSING_TAGS, *_HARMONY)
            )
            self._is_over = self._has_text = is_last or not is_open
            return False
        if opening.end() == len(self._buffer) < _MAX_BUFFERED_BLANKS and not is_last:
            return False
        self._buffer, self._end = self._buffer[opening.end() :], _CLOSING_TAGS[opening[1]]
        return True

    def _take_text(self) -> str:
        """The text in the buffer, without the blanks that follow the reasoning."""
        text = self._buffer if self._has_text else self._buffer.lstrip()
        self._buffer, self._has_text = "", bool(text) or self._has_text
        return text


def _length_before_token(text: str) -> int:
    """Number of leading characters that cannot be the start of a token of the harmony format."""
    start = text.rfind("<")
    is_open = start >= 0 and re.fullmatch(r"<(?:\|\w*\|?)?", text[start:]) is not None
    return start if is_open else len(text)


class UnopenedReasoningHolder:
    """Holds back the text of a stream until its reasoning is closed, for a model that closes what it did not open.

    Nothing is held back once the server itself has separated reasoning from text.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._is_over = self._has_text = False

    def events(self, event: Event) -> list[Event]:
        """The events to emit for an event."""
        self._has_text = self._has_text or (not self._buffer and isinstance(event, ReasoningDelta))
        if self._has_text or not isinstance(event, TextDelta):
            return [event]
        self._buffer += event.text
        parts = ("", self._buffer.lstrip()) if self._is_over else split_unopened_reasoning(self._buffer)
        if parts is None:
            return []
        self._is_over, self._has_text, self._buffer = True, bool(parts[1]), ""
        return [*([ReasoningDelta(parts[0])] if parts[0] else []), *([TextDelta(parts[1])] if parts[1] else [])]


def split_unopened_reasoning(text: str) -> tuple[str, str] | None:
    """Reasoning and text of an answer whose reasoning is closed but not opened; None for any other answer.

    Some chat templates put the opening tag into the prompt. A tag in code or amid a sentence is text.
    """
    if "</" not in text and "[/" not in text:
        return None
    masked = _CODE.sub(lambda match: " " * len(match[0]), text)
    closing = _CLOSING_TAG.search(masked)
    if closing is None or any(tag in masked[: closing.start()] for tag in _CLOSING_TAGS):
        return None
    after = masked[closing.end() : closing.end() + 1]
    before = masked[: closing.start()][-1:]
    if before in (" ", "\t") and after in (" ", "\t", *".,;:!?)"):
        return None
    return text[: closing.start()].strip(), text[closing.end() :].lstrip()


def move_reasoning(message: AssistantMessage) -> AssistantMessage:
    """The message with leading reasoning moved from its text to `reasoning`."""
    if message.text.lstrip()[:1] not in ("<", "["):  # the first characters of all opening tags
        return message
    reasoning, text = ReasoningSplitter().split(message.text, is_last=True)
    return replace(message, text=text, reasoning=message.reasoning + reasoning) if text != message.text else message


def has_same_text(text: str, original: str) -> bool:
    """Whether `text` equals `original`, with or without the reasoning that `original` starts with."""
    return text == original or text == ReasoningSplitter().split(original, is_last=True)[1]


def _safe_length(reasoning: str, end: str) -> int:
    """Number of leading characters that are neither trailing blanks nor the start of the closing tag."""
    start = reasoning.rfind(end[0])
    is_open = start >= 0 and end.startswith(reasoning[start:])
    head = reasoning[:start] if is_open else reasoning
    bare = head.rstrip()
    return len(bare) if len(head) - len(bare) < _MAX_BUFFERED_BLANKS else len(head)


_GAP = "\n\n"


class ParagraphJoiner:
    """Joins chunks of text, with an empty line between separate blocks: otherwise a heading could start mid-line."""

    def __init__(self) -> None:
        self._end = ""
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Mark the end of a block: the next chunk starts a new paragraph."""
        self._is_interrupted = bool(self._end)

    def add(self, chunk: str) -> str:
        """The next chunk, preceded by an empty line if it starts a new block and is not on a new line already."""
        if not chunk:
            return ""
        needs_gap = self._is_interrupted and not (self._end == "\n" or chunk.startswith("\n"))
        self._is_interrupted, self._end = False, chunk[-1]
        return f"{_GAP}{chunk}" if needs_gap else chunk
