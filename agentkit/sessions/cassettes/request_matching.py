"""Matching of requests with recorded ones (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.content import File, Image
from agentkit.messages import (
    AssistantMessage,
    EmbeddingQuery,
    Message,
    Request,
    SystemMessage,
    ToolMessage,
    arguments_of,
)
from agentkit.recording import PersonAsked, Question
from agentkit.redaction import MARK
from agentkit.text_encoding import split_lines

_KINDS = {Image: "image", File: "file"}
_MARK_ENDS = "]"
_MAX_TOKENS = "max_tokens"
_NOT_COUNTED = {"model", _MAX_TOKENS}
_MAX_DIFFERENT_LINES = 60
_MAX_LINE_CHARS = 400


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The fields of a question that must match the recording; ids, models and descriptions are ignored.

    `head` contains everything but the messages, `parts` the messages. `room` is the token limit of the answer. It is
    not compared, since with limits it depends on what other runs have used; it only distinguishes questions that are
    equal otherwise.
    """

    kind: str
    head: str
    parts: Sequence[str] = ()
    max_tokens: str = ""

    def fits(self, key: RequestKey) -> bool:
        """Whether `key` matches this recorded question. Redacted texts match anything."""
        if (self.kind, len(self.parts)) != (key.kind, len(key.parts)):
            return False
        if self.head == key.head and self.parts == key.parts:
            return True
        pairs = zip((self.head, *reversed(self.parts)), (key.head, *reversed(key.parts)), strict=True)
        return all(recorded is text or _fits(recorded, text) for recorded, text in pairs)

    def shared(self, key: RequestKey) -> int:
        """The number of leading messages that match `key`; -1 for a question of another kind."""
        if self.kind != key.kind:
            return -1
        pairs = zip(self.parts, key.parts, strict=False)
        return next((count for count, pair in enumerate(pairs) if not _fits(*pair)), min(map(len, (self, key))))

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        """Render the question for people."""
        return "\n".join(line for text in (self.head, *self.parts) for line in _lines(text))


def question_key(question: Question) -> RequestKey:
    """Compute the matching key of a question."""
    match question:
        case Request():
            return request_key(question, [message_key(message) for message in question.messages])
        case PersonAsked(call, decision):
            return RequestKey(
                "person", _text({"may": call.name, "arguments": arguments_of(call), "rule": decision.rule})
            )
        case EmbeddingQuery(texts, settings):
            return RequestKey("vectors", _text({"vectors of": len(texts), "settings": settings}), texts)
        case call:
            return RequestKey("tool", _text({"call": call.name, "arguments": arguments_of(call)}))


def request_key(request: Request, parts: Sequence[str]) -> RequestKey:
    """Compute the matching key of a request, given the keys of its messages."""
    schema = request.output_schema
    head = {
        "instruction": request.instruction,
        "tools": sorted(tool.name for tool in request.tools),
        "settings": {name: value for name, value in request.settings.items() if name not in _NOT_COUNTED},
        "output_schema": None if schema is None else schema.schema,
    }
    max_tokens = str(request.settings.get(_MAX_TOKENS, ""))
    return RequestKey("model", _text({name: value for name, value in head.items() if value}), parts, max_tokens)


def message_key(message: Message) -> str:
    """Compute the matching key of a message."""
    match message:
        case SystemMessage(text):
            return _text({"system": text})
        case AssistantMessage(text, calls):
            parts = {"assistant": text} if text or not calls else {}
            return _text(parts | {f"call {n}": [call.name, arguments_of(call)] for n, call in enumerate(calls, 1)})
        case ToolMessage(name=name):
            return _text({f"result of {name}": _content(message.parts_content)})
        case user:
            return _text({"user": _content(user.content)})


def difference(recorded: RequestKey | None, key: RequestKey) -> str:
    """Render a diff from the recorded question to the one asked, at most 60 lines."""
    before = [] if recorded is None else split_lines(str(recorded))
    lines = [*unified_diff(before, split_lines(str(key)), lineterm="", n=2)][2:]
    shown = [line[:_MAX_LINE_CHARS] for line in lines if not line.startswith("@@")][:_MAX_DIFFERENT_LINES]
    rest = len(lines) - len(shown) - sum(line.startswith("@@") for line in lines)
    return "\n".join([*shown, *([f"… {rest} more lines"] if rest > 0 else [])])


def _content(content: str | Iterable[str | Image | File]) -> Any:
    if isinstance(content, str):
        return content
    return [part if isinstance(part, str) else {_KINDS[type(part)]: part.url} for part in content]


def _text(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (ValueError, TypeError, RecursionError):
        return repr(value)


def _fits(recorded: str, text: str) -> bool:
    """Whether the texts are equal, with redacted parts matching anything."""
    if recorded == text or MARK not in recorded:
        return recorded == text
    first, *others = recorded.split(MARK)
    pieces = [first, *(other.partition(_MARK_ENDS)[2] for other in others)]
    if not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return False
    return _in_order(text, pieces)


def _in_order(text: str, pieces: Sequence[str]) -> bool:
    """Whether the text starts with the first piece, ends with the last, and contains the others in order in between."""
    start, end = len(pieces[0]), len(text) - len(pieces[-1])
    for piece in pieces[1:-1]:
        start = text.find(piece, start, end)
        if start < 0:
            return False
        start += len(piece)
    return start <= end


def _lines(text: str) -> Iterator[str]:
    """Render a key's text as lines of name and value."""
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        yield text
        return
    for name, value in data.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = split_lines(shown) or [""]
        yield f"{name}: {first}"
        yield from (f"  {line}" for line in rest)
