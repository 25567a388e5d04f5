"""Token estimates, calibrated by the counts that servers report (pure)."""

from __future__ import annotations

import json
import math
import re
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import islice
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.content import File, Image
from agentkit.messages import (
    AssistantMessage,
    Content,
    Message,
    OutputSchema,
    ToolMessage,
    ToolSpec,
    UserMessage,
    parts_of,
)

Entry = Message | ToolSpec | OutputSchema
"""A part of a request that takes tokens."""

_MESSAGE_TOKENS = 4
_CALL_TOKENS = 12
_IMAGE_TOKENS = {None: 1_000, "auto": 1_000, "high": 1_000, "low": 100}
_FILE_TOKENS = 5_000
"""Estimate for a file of which only the URL is known."""

_TOKENS_PER_PAGE, _BYTES_PER_PAGE = 1_500, 50_000
_TOKENS_PER_SECOND, _BYTES_PER_OTHER_SECOND = 25, 12_000
_BYTES_PER_SECOND = {"wav": 64_000, "flac": 50_000, "mp3": 16_000}
"""Typical bitrates: speech at 32 kHz, MP3 at 128 kbit/s. Providers count 10 to 32 tokens per second."""

_CHARS_PER_DATA_TOKEN = 5.0
"""Characters per token of opaque provider data sent back, such as encrypted reasoning in base64."""

_PICTURES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "data:image/")
_PDFS = ("JVBERi0", "data:application/pdf")
_MIN_CHARS_OF_DATA = 1_000
"""Prefixes of encoded pictures and PDFs in provider data; their cost depends on the content, not the length."""

_MAX_LEAVES = 1_000
_MAX_RATIOS = 9
_LOWEST_RATIO, _HIGHEST_RATIO = 0.4, 4.0

_COSTS: tuple[tuple[str, float, tuple[tuple[int, int], ...]], ...] = (
    ("a", 0.22, ((0x41, 0x5A), (0x61, 0x7A))),
    ("0", 0.55, ((0x30, 0x39),)),
    (".", 0.95, ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))),
    ("n", 0.6, ((0x09, 0x0D),)),
    ("c", 0.8, ((0x00, 0x08), (0x0E, 0x1F), (0x7F, 0x7F))),
    ("e", 0.6, ((0xC2, 0xCD), (0xE1, 0xE1))),  # accented Latin letters, including Vietnamese
    ("s", 0.35, ((0xCE, 0xDF), (0xE0, 0xE0))),  # Greek, Cyrillic, Hebrew, Arabic, Indic, Thai
    ("q", 0.8, ((0xE2, 0xE2),)),  # quotation marks, dashes, arrows, symbols
    ("z", 0.5, ((0xE3, 0xEF),)),  # Chinese, Japanese, Korean
    ("w", 2.0, ((0xF0, 0xF4),)),  # emoji
)
"""Tokens per character, by the first byte of its UTF-8 encoding; a single space costs nothing.

Measured characters per token: English 5.2, Vietnamese 3.8, Python 3.4, Chinese 2.0, JSON 1.9.
"""

_BLANKS, _BLANKS_COST = b" " * 8, 0.25
"""Runs of eight spaces, as in indentation, cost a quarter of a token each."""


def _kinds() -> bytes:
    table = bytearray(b" " * 256)
    for kind, _, ranges in _COSTS:
        for first, last in ranges:
            table[first : last + 1] = kind.encode() * (last + 1 - first)
    return bytes(table)


_KINDS = _kinds()


_COUNTED = [(kind.encode(), cost) for kind, cost, _ in _COSTS]
_COUNTED_IN_ASCII = [(kind.encode(), cost) for kind, cost, ranges in _COSTS if ranges[0][0] < 0x80]


def tokens_in(text: str) -> float:
    """Estimate the tokens of a text."""
    kinds = text.encode("utf-8", "surrogatepass").translate(_KINDS)
    tokens = kinds.count(_BLANKS) * _BLANKS_COST
    for kind, cost in _COUNTED_IN_ASCII if text.isascii() else _COUNTED:
        tokens += kinds.count(kind) * cost
    return tokens


def tokens_of(entry: Entry) -> int:
    """Estimate the tokens that a message, an offered tool or the output schema takes in a request."""
    match entry:
        case UserMessage(content):
            tokens = tokens_in(content) if isinstance(content, str) else _content_tokens(content)
        case AssistantMessage(text, calls):
            tokens = tokens_in(text)
            for call in calls:
                tokens += _CALL_TOKENS + tokens_in(f"{call.id}{call.name}{call.arguments}")
            for extra in filter(None, (entry.extra, *(call.extra for call in calls))):
                tokens += _extra_tokens(extra)
        case ToolMessage(call_id, name, content):
            tokens = tokens_in(f"{call_id}{name}{content}")
            tokens += _content_tokens(entry.attachments) if entry.images or entry.files else 0.0
        case ToolSpec(name, description, parameters, strict):
            schema = parameters if strict is None or callable(strict) else strict
            tokens = tokens_in(name) + tokens_in(description) + tokens_in(_schema_text(schema))
        case OutputSchema(name, schema):
            tokens = tokens_in(name) + tokens_in(_schema_text(schema))
        case _:
            tokens = tokens_in(entry.text)
    return math.ceil(tokens) + _MESSAGE_TOKENS


_schema_text = json.JSONEncoder(default=str, ensure_ascii=False).encode


def _content_tokens(content: Content) -> float:
    tokens = 0.0
    for part in parts_of(content):
        if isinstance(part, str):
            tokens += tokens_in(part)
        else:
            tokens += _IMAGE_TOKENS[part.detail] if isinstance(part, Image) else _file_tokens(part)
    return tokens


def _file_tokens(file: File) -> float:
    """Estimate the tokens of a file: by the pages of a PDF or the seconds of a recording, judged by its bytes."""
    text, data = file.quoted_text, file.data
    if text is not None:
        return tokens_in(text)
    if data is None:
        return _FILE_TOKENS
    if file.audio_format:
        return len(data) / _BYTES_PER_SECOND.get(file.audio_format, _BYTES_PER_OTHER_SECOND) * _TOKENS_PER_SECOND
    pages = len(re.findall(rb"/Type\s*/Page\b", data)) or math.ceil(len(data) / _BYTES_PER_PAGE)
    return pages * _TOKENS_PER_PAGE


def _extra_tokens(extra: Mapping[str, Any]) -> float:
    """Estimate the tokens of provider data that is sent back."""
    return sum(map(_extra_text_tokens, islice(_texts(extra), _MAX_LEAVES)))


def _extra_text_tokens(text: str) -> float:
    if len(text) >= _MIN_CHARS_OF_DATA and text.startswith(_PICTURES):
        return _IMAGE_TOKENS[None]
    if len(text) >= _MIN_CHARS_OF_DATA and text.startswith(_PDFS):
        return math.ceil(len(text) * 3 / 4 / _BYTES_PER_PAGE) * _TOKENS_PER_PAGE
    return len(text) / _CHARS_PER_DATA_TOKEN


def _texts(value: Any) -> Iterable[str]:
    """Yield all texts inside a value, at any depth."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)


class _EntryRef(weakref.ref[Entry]):
    """A weak reference to an entry, with its estimate and the messages derived from it."""

    __slots__ = ("derived", "key", "tokens")

    key: int
    tokens: int
    derived: dict[Hashable, Message] | None


class Estimates:
    """Caches token estimates of messages, since a conversation is measured at every request.

    An estimate lives as long as its message: the cache keeps no text of a conversation that is gone. Thread-safe.
    """

    def __init__(self) -> None:
        known: dict[int, _EntryRef] = {}

        def forget(ref: Any) -> None:
            """Remove an entry from the cache before its id can be reused. Uses no global: it runs at exit, too."""
            known.pop(ref.key, None)

        self._known, self._forget = known, forget
        self._ordered: tuple[str, tuple[ToolSpec, ...], OutputSchema | None, int] = ("", (), None, 0)
        self._measured: tuple[list[Message], int] = ([], 0)

    def __reduce__(self) -> tuple[type[Estimates], tuple[()]]:
        return type(self), ()  # a copy in another process starts with an empty cache

    def of(self, entry: Entry) -> int:
        """Estimate the tokens of a message, an offered tool or the output schema."""
        known = self._known.get(id(entry))
        return self._cached(entry).tokens if known is None else known.tokens

    def _cached(self, entry: Entry) -> _EntryRef:
        found = self._known.get(id(entry))
        if found is None:
            found = _EntryRef(entry, self._forget)
            found.key, found.tokens, found.derived = id(entry), tokens_of(entry), None
            self._known[found.key] = found
        return found

    def cached_value(self, message: Message, key: Hashable, make: Callable[[], Message]) -> Message:
        """Return the result of `make` for a message, cached under `key`, since it is sent in many requests."""
        known = self._cached(message)
        derived = known.derived = {} if known.derived is None else known.derived
        if key not in derived:
            derived[key] = make()
        return derived[key]

    def forget(self) -> None:
        """Release the messages of the latest request."""
        self._measured = [], 0

    @property
    def count(self) -> int:
        """The number of cached estimates."""
        return len(self._known)

    def total(
        self,
        messages: Iterable[Message],
        instruction: str = "",
        tools: Iterable[ToolSpec] = (),
        output: OutputSchema | None = None,
    ) -> int:
        """Estimate the tokens of a request."""
        # What precedes the conversation seldom changes between requests, most of which only add a few messages.
        messages, tools = list(messages), tuple(tools)
        *known, ordered = self._ordered
        if known != [instruction, tools, output]:
            before = math.ceil(tokens_in(instruction)) + _MESSAGE_TOKENS if instruction else 0
            ordered = before + sum(map(self.of, tools)) + (self.of(output) if output is not None else 0)
            self._ordered = instruction, tools, output, ordered
        if not messages:
            return ordered
        measured, tokens = self._measured
        if messages[: len(measured)] != measured:
            measured, tokens = [], 0
        tokens += sum(map(self.of, messages[len(measured) :]))
        self._measured = messages, tokens
        return ordered + tokens


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ratio of the server's token count to our estimate, learnt from its responses.

    The median of the last nine ratios, limited to 0.4 to 4, so that an outlier has no effect.
    """

    ratios: tuple[float, ...] = ()

    @property
    def ratio(self) -> float:
        """The server's tokens per estimated token; 1 without data."""
        ordered, half = sorted(self.ratios), len(self.ratios) // 2
        return (ordered[half] + ordered[~half]) / 2 if ordered else 1.0

    def updated(self, estimated: int, reported: int) -> Calibration:
        """The calibration after a request with `reported` input tokens; 0 means that the server reported nothing."""
        if estimated <= 0 or reported <= 0:
            return self
        ratio = min(max(reported / estimated, _LOWEST_RATIO), _HIGHEST_RATIO)
        return Calibration((*self.ratios, ratio)[-_MAX_RATIOS:])

    def to_server(self, estimated: int) -> int:
        """Convert an estimate to the server's expected count."""
        return math.ceil(estimated * self.ratio)

    def to_estimate(self, counted: int) -> int:
        """Convert a count of the server to our estimate."""
        return math.floor(counted / self.ratio)
