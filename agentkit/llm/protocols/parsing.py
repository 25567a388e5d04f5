"""Tolerant parsing of responses, shared by all protocols: fields, and reasoning text inside answers (pure)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta
from agentkit.messages import AssistantMessage, well_formed, with_distinct_ids
from agentkit.usage import Usage, unreported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentkit.events import Event
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
    if content is None or isinstance(content, bool):
        return ""
    if isinstance(content, dict) and _is_part(content):
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
            is_thought = self._channel == "analysis"
            parts[is_thought].append(self._paragraphs[is_thought].add(self._buffer[:length]))
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
        thought = "" if self._is_over else self._take_reasoning(is_last=is_last)
        return thought, self._take_text() if self._is_over else ""

    def events(self, chunk: str) -> list[Event]:
        """Like `split`, as events."""
        thought, text = self.split(chunk)
        events: list[Event] = [ReasoningDelta(thought)] if thought else []
        return [*events, TextDelta(text)] if text else events

    def _take_reasoning(self, *, is_last: bool) -> str:
        """The reasoning in the buffer."""
        if not self._end and not self._read_opening_tag(is_last=is_last):
            return ""
        thought, end, remainder = self._buffer.partition(self._end)
        length = len(thought) if end or is_last else _safe_length(thought, self._end)
        self._is_over = bool(end)
        self._buffer = remainder if end else thought[length:]
        return thought.rstrip() if end else thought[:length]

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
    thought, text = ReasoningSplitter().split(message.text, is_last=True)
    return replace(message, text=text, reasoning=message.reasoning + thought) if text != message.text else message


def has_same_text(text: str, original: str) -> bool:
    """Whether `text` equals `original`, with or without the reasoning that `original` starts with."""
    return text == original or text == ReasoningSplitter().split(original, is_last=True)[1]


def _safe_length(thought: str, end: str) -> int:
    """Number of leading characters that are neither trailing blanks nor the start of the closing tag."""
    start = thought.rfind(end[0])
    is_open = start >= 0 and end.startswith(thought[start:])
    head = thought[:start] if is_open else thought
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
