"""Tolerant parsing of response fields, shared by all protocols (pure)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.messages import AssistantMessage, well_formed, with_distinct_ids
from agentkit.usage import Usage, unreported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentkit.messages import ToolCall

_INVALID = object()

REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thinking_content", "thought")
"""Fields for reasoning; the first non-empty one is used, because some servers fill several."""

CUT_SHORT = {
    "length",
    "max_tokens",
    "model_length",
    "max_output_tokens",
    "max_completion_tokens",
    "max_length",
    "length_limit",
    "token_limit",
    "incomplete",
    "model_context_window_exceeded",
}
"""Finish reasons of a response that reached its token limit."""

_GROWING_FIELDS = {*REASONING_FIELDS, "text", "summary", "data", "transcript"}
"""Fields that are concatenated when streamed; any other field is sent whole, possibly repeatedly."""

_REASONING_PART_TYPES = ("thinking", "reasoning", "reasoning_text")
REASONING_PART_FIELDS = ("thinking", "reasoning", "summary", "content", "text")
"""Types of content parts that are reasoning, and the fields that contain its text."""

_COUNTS = (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))
_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens", "cache_read_input_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens")
_REASONING = ("reasoning_tokens", "thinking_tokens")
"""Names of detailed token counts, found in the details object or next to the main counts."""

_MAX_TOKENS = 10**12
"""Larger numbers, as sent by broken servers, are ignored."""


def json_or_text(text: str) -> object:
    """Parse a text as JSON; return the text itself if it is invalid. NaN and infinities become null."""
    try:
        return parse_json_leniently(text)
    except (ValueError, RecursionError):
        return text


def parse_json_leniently(text: str) -> Any:
    """Parse a text as JSON; NaN and infinities become null. Raises ValueError or RecursionError.

    Line breaks and other control characters inside strings are accepted, although JSON forbids them.
    """
    text = text.strip()
    try:
        value, end = _raw_decode_leniently(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number with more digits than Python converts
        value, end = _raw_decode_without_integers(text)
    if end < len(text):
        raise ValueError(f"The JSON value is followed by {text[end : end + 20]!r}.")
    return value


def well_formed_json(value: Any) -> Any:
    """Make a JSON value serialisable: well-formed text, finite numbers. Raises BadResponse if it is nested too deep."""
    try:
        return _well_formed_value(value)
    except RecursionError:
        raise BadResponse("The JSON of the response is nested too deeply. Try again.") from None


def _well_formed_value(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else well_formed(value)
    if kind is dict:
        return {_well_formed_value(name): _well_formed_value(entry) for name, entry in value.items()}
    if kind is float:
        return value if math.isfinite(value) else None
    return kind([_well_formed_value(entry) for entry in value]) if kind in (list, tuple) else value


class TextBuffer:
    """A text that arrives in chunks."""

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._high_surrogate = ""

    def add(self, chunk: str) -> str:
        """Add a chunk; returns the part that can be displayed: a high surrogate waits for its low surrogate."""
        if not chunk.isascii() or self._high_surrogate:
            chunk = self._join_surrogates(chunk)
        if chunk:
            self._chunks.append(chunk)
        return chunk

    def _join_surrogates(self, chunk: str) -> str:
        chunk, self._high_surrogate = self._high_surrogate + chunk, ""
        if chunk and "\ud800" <= chunk[-1] <= "\udbff":
            chunk, self._high_surrogate = chunk[:-1], chunk[-1]
        return well_formed(chunk)

    def ends_like_an_object(self) -> bool:
        """Whether the text so far could be a whole JSON object, possibly encoded twice, judging by its end."""
        return "".join(self._chunks[-2:]).rstrip('" \t\r\n').endswith("}")

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __str__(self) -> str:
        """The text so far."""
        return "".join(self._chunks)


def text_of(content: object) -> str:
    """The text of a content field: a string, null, a part, or a list of parts; parts without text are skipped."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def answer_text(content: object) -> str:
    """The text of a response's content, without its reasoning parts.

    For structured output some servers send the object itself instead of text; it is serialised as JSON.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return text_of([part for part in content if not is_reasoning_part(part)])
    if content is None or isinstance(content, bool) or (isinstance(content, dict) and _is_part(content)):
        return text_of(content)
    return json.dumps(content, ensure_ascii=False)


def _is_part(fields: Mapping[str, Any]) -> bool:
    """Whether an object is a content part: it has a type and the field for that type."""
    kind = fields.get("type")
    return fields.keys() == {"text"} or (isinstance(kind, str) and (kind in fields or kind.endswith("text")))


def reasoning_of_parts(content: object) -> str:
    """The reasoning that some servers send as content parts, each with a text or a list of parts."""
    reasoning = filter(is_reasoning_part, content if isinstance(content, list) else ())
    return "".join(
        next(filter(None, (text_of(part.get(name)) for name in REASONING_PART_FIELDS)), "") for part in reasoning
    )


def reasoning_in_field(field: object) -> str:
    """The reasoning in a separate field: a text, a list of parts, or an object with a text field."""
    if isinstance(field, dict):
        return next(filter(None, (text_of(field.get(name)) for name in REASONING_PART_FIELDS)), "")
    return text_of(field) or reasoning_of_parts(field)


def reasoning_of_details(details: object) -> str:
    """The reasoning in `reasoning_details`, which some routers send exclusively."""
    return "".join(text_of(detail.get("text") or detail.get("summary")) for detail in dictionaries(details))


def is_reasoning_part(part: object) -> bool:
    """Whether a content part is reasoning."""
    return isinstance(part, dict) and ("thinking" in part or part.get("type") in _REASONING_PART_TYPES)


def dictionary(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def dictionaries(value: object) -> list[dict[str, Any]]:
    """The JSON objects in a list; empty if the value is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def has_content(value: object) -> bool:
    """Whether a field has content at any depth: some servers send every possible field, empty."""
    try:
        if isinstance(value, dict):
            return any(map(has_content, value.values()))
        return any(map(has_content, value)) if isinstance(value, list) else bool(value)
    except RecursionError:
        return True


def word(value: object) -> str:
    """A name or id as well-formed text: servers also send numbers and null."""
    return "" if value is None else well_formed(str(value))


def arguments_text(arguments: object) -> str:
    """Tool-call arguments as JSON text: servers send text, objects, null, or text encoded twice."""
    if arguments is None:
        return ""
    if not isinstance(arguments, str):
        return well_formed(json.dumps(arguments, ensure_ascii=False))
    if arguments.strip() == "null":
        return ""
    inner = _parse_or_invalid(arguments) if arguments.lstrip().startswith('"') else None
    return well_formed(inner if isinstance(inner, str) else arguments)


def arguments_chunk(chunk: object) -> str:
    """A chunk of arguments as text; servers with complete arguments can send an object."""
    return chunk if isinstance(chunk, str) else arguments_text(chunk)


def without_empty(arguments: str) -> str:
    """Arguments without the empty object that some servers send before or after them."""
    if len(arguments) == len("{}") or is_complete_json(arguments):
        return arguments
    candidates = (arguments.removeprefix("{}"), arguments.removesuffix("{}"))
    return next(filter(is_complete_json, candidates), arguments)


def sendable_arguments(arguments: str) -> str:
    """Arguments as a JSON object, as servers require in history; invalid arguments are wrapped in an object."""
    if not arguments.strip():
        return "{}"
    is_object = isinstance(_parse_or_invalid(arguments), dict)
    return well_formed(arguments) if is_object else json.dumps({"malformed_arguments": arguments})


def sendable_name(name: str) -> str:
    """A tool name limited to the characters that servers accept in history, even if the model invented it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def camel_case(name: str) -> str:
    """A parameter's name as servers written in other languages spell it: `reasoningEffort`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def is_complete_json(text: str) -> bool:
    """Whether `text` is a complete JSON value."""
    return _parse_or_invalid(text) is not _INVALID


def _parse_or_invalid(text: str) -> object:
    """Parse JSON text; a marker if it is invalid, nested too deep, or has NaN or overlong numbers."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return _INVALID


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_reject_constant).decode
_raw_decode_leniently = json.JSONDecoder(parse_constant=lambda _: None, strict=False).raw_decode
_raw_decode_without_integers = json.JSONDecoder(parse_constant=lambda _: None, parse_int=float, strict=False).raw_decode


def usage_of(usage: object, names: tuple[str, str], details: tuple[str, str]) -> Usage:
    """Parse a usage object whose input and output counts are called `names`, or by the names of the other protocol.

    `details` are the names of the details objects. If the total exceeds the sum of both, the difference is added: some
    servers leave cached tokens out of the input, or reasoning out of the output. If the details match neither, it is
    counted as output, which costs more.
    """
    figures = dictionary(usage)
    names = next((pair for pair in (names, *_COUNTS) if any(figures.get(name) is not None for name in pair)), names)
    counts = [_count(figures.get(name)) for name in names]
    if counts == [None, None]:
        return unreported(1)
    input_details, output_details = (dictionary(figures.get(name)) for name in details)
    input_tokens, output_tokens = (count or 0 for count in counts)
    cached, written = (_first_count(names, input_details, figures) for names in (_CACHED, _WRITTEN))
    reasoning = _first_count(_REASONING, output_details, figures)
    if (missing := (_count(figures.get("total_tokens")) or 0) - input_tokens - output_tokens) > 0:
        if missing == cached + written:
            input_tokens += missing
        elif missing == reasoning or not reasoning or counts[1] is None:
            output_tokens += missing
    return Usage(input_tokens, output_tokens, cached, reasoning, requests=1, written_tokens=written)


def _first_count(names: Iterable[str], *objects: Mapping[str, Any]) -> int:
    """The first of these counts that is present and not 0."""
    return next(filter(None, (_count(fields.get(name)) for fields in objects for name in names)), 0)


def _count(value: object) -> int | None:
    """Parse a token count, which some servers send as text; None if it is invalid."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < len(str(_MAX_TOKENS)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MAX_TOKENS else None


def merge_field(name: str, old: object, new: object) -> Any:
    """Merge two chunks of an unknown field: growing fields are concatenated, list entries merged by index."""
    if isinstance(old, str) and isinstance(new, str) and name in _GROWING_FIELDS:
        return old + new
    if isinstance(old, list) and isinstance(new, list):
        return _merge_entries(old, new)
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merge_field(key, old.get(key), value) for key, value in new.items() if value is not None}
    return new


def _merge_entries(old: list[Any], new: list[Any]) -> list[Any]:
    """Merge list entries: a new entry with the index and type of the last one is merged into it."""
    entries = list(old)
    for entry in new:
        last, chunk = (dictionary(value) for value in (entries[-1] if entries else None, entry))
        if last.get("index") is not None and all(last.get(name) == chunk.get(name) for name in ("index", "type")):
            entries[-1] = merge_field("", last, chunk)
        else:
            entries.append(entry)
    return entries


def assistant_message(
    text: str, calls: Iterable[ToolCall], reasoning: str, extra: Mapping[str, Any]
) -> AssistantMessage:
    """Build a message with well-formed text and unique tool-call ids; empty tool calls are dropped."""
    complete = (call for call in calls if call.id or call.name or call.arguments)
    calls = tuple(replace(call, extra=well_formed_json(call.extra)) for call in complete)
    message = AssistantMessage(well_formed(text), calls, well_formed(reasoning), well_formed_json(extra))
    return with_distinct_ids(message, set())
