"""Anthropic's Messages protocol (pure).

Content blocks, including calls and results of hosted tools, keep their order and are sent back unchanged.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentkit.content import File, Image
from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.protocols import WireProtocol, error_mapping, parsing
from agentkit.llm.protocols.encoding import EncodedEntry, EncodingCache, PartEncoders, base64_source
from agentkit.llm.protocols.hosted_tools import declaration_of, uses_in_blocks
from agentkit.llm.protocols.parsing import ParagraphJoiner, ReasoningSplitter, has_same_text, move_reasoning
from agentkit.messages import (
    AssistantMessage,
    FinishReason,
    Response,
    ToolCall,
    ToolMessage,
    UserMessage,
    parts_of,
    well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentkit.events import Event
    from agentkit.messages import Content, Message, Request, ToolSpec
    from agentkit.usage import Usage


_RENAMED = {"max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens", "stop": "stop_sequences"}
_PARALLEL = "parallel_tool_calls"

LIMIT_NAMES = frozenset({"max_tokens", *(name for name, own in _RENAMED.items() if own == "max_tokens")})
"""The names under which a setting can limit the length of a response."""

_TOOL_CHOICES = {"required": "any"}
_EFFORTS = {"minimal": "low"}

MAX_TOKENS = 16_000
"""Default token limit, because this protocol requires one."""

_MAX_TOKENS_WITH_THINKING = 32_000
"""Default token limit with thinking, whose tokens count, too."""

_MIN_BUDGET_TOKENS = 1_024
_THINKS_ON_REQUEST = r"claude-(?:[23]|instant|\w+-4)|^(?!.*claude)"
"""Models that think only on request."""

_THINKING = {"type": "adaptive", "display": "summarized"}
"""Sent with an effort: as much thinking as the model chooses, with summaries."""


def with_settings(body: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the settings and a token limit, which this protocol requires."""
    sent = {_RENAMED.get(name, name): value for name, value in settings.items()}
    effort, choice, parallel = (sent.pop(name, None) for name in ("reasoning_effort", "tool_choice", _PARALLEL))
    if isinstance(sent.get("stop_sequences"), str):
        sent["stop_sequences"] = [sent["stop_sequences"]]
    effort_config = {"effort": _EFFORTS.get(str(effort), effort)} if effort and effort != "none" else {}
    config = {**effort_config, **body.get("output_config", {}), **sent.pop("output_config", {})}
    if config:
        sent["output_config"] = config
    if effort:
        sent.setdefault("thinking", {"type": "disabled"} if effort == "none" else _THINKING)
    if "container" in body and isinstance(sent.get("container"), dict):
        sent["container"] = {"id": body["container"], **sent["container"]}
    if tool_choice := _tool_choice(choice, parallel):
        sent["tool_choice"] = tool_choice
    return _with_token_limit({**body, **sent})


def _tool_choice(choice: object, parallel: object) -> dict[str, Any] | None:
    """The `tool_choice`, including whether parallel calls are allowed; None if neither setting is given."""
    chosen = _encode_tool_choice(choice)
    if parallel is None or (chosen or {}).get("type") == "none":
        return chosen
    return {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": not parallel}


def _encode_tool_choice(choice: object) -> dict[str, Any] | None:
    if isinstance(choice, dict):
        function = choice.get("function")
        return {"type": "tool", "name": function["name"]} if isinstance(function, dict) else choice
    if not isinstance(choice, str):
        return None
    if choice in {"auto", "none", "required", "any"}:
        return {"type": _TOOL_CHOICES.get(choice, choice)}
    return {"type": "tool", "name": choice}


def _with_token_limit(body: dict[str, Any]) -> dict[str, Any]:
    """The body with a token limit, and with a thinking budget below that limit."""
    budget = _thinking_of(body).get("budget_tokens")
    if "max_tokens" in body:
        return limit_thinking_budget(body) if isinstance(budget, int) else body
    if not _thinks(body):
        return {**body, "max_tokens": MAX_TOKENS}
    return {**body, "max_tokens": budget + MAX_TOKENS if isinstance(budget, int) else _MAX_TOKENS_WITH_THINKING}


def _thinking_of(body: dict[str, Any]) -> dict[str, Any]:
    return body["thinking"] if isinstance(body.get("thinking"), dict) else {}


def _thinks(body: dict[str, Any]) -> bool:
    """Whether the model thinks before it answers, by setting or by default."""
    if thinking := _thinking_of(body):
        return bool(thinking.get("type") != "disabled")
    return not re.search(_THINKS_ON_REQUEST, body["model"])


def limit_thinking_budget(body: dict[str, Any]) -> dict[str, Any]:
    """Limit the thinking budget to half of the token limit; thinking is removed if that is below the minimum.

    A budget that is below the limit already is not changed.
    """
    max_tokens, thinking = body["max_tokens"], body["thinking"]
    if thinking["budget_tokens"] < max_tokens:
        return body
    if max_tokens // 2 < _MIN_BUDGET_TOKENS:
        return {name: value for name, value in body.items() if name != "thinking"}
    return {**body, "thinking": {**thinking, "budget_tokens": max_tokens // 2}}


_ENFORCED_KEYWORDS = frozenset({"$ref", "$defs", "type", "title", "description", "enum", "const", "required"})
_NESTED = {"properties": True, "$defs": True, "items": False, "anyOf": False, "allOf": False}
"""Keywords that contain schemas; true if the schemas are named."""

_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"),
)
_IGNORED_KEYWORDS = frozenset({"$schema", "$id", "additionalProperties", "discriminator"})


_COMBINERS = ("anyOf", "oneOf", "allOf")


def object_schema(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The schema of a tool's input with an object at its root, as required, and a note on the keywords removed."""
    if schema.get("type") == "object" and not any(name in schema for name in _COMBINERS):
        return schema, ""
    note = "; ".join(f"{name}: {json.dumps(schema[name])}" for name in _COMBINERS if name in schema)
    remaining = {name: value for name, value in schema.items() if name not in _COMBINERS}
    return {**remaining, "type": "object"}, f"(Arguments fit {note})" if note else ""


def enforceable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a schema to keywords that the server can enforce. Others are moved to the description for the model.

    Objects are closed, except those with arbitrary property names: these cannot be closed, and the server rejects them.
    """
    schema = _with_one_type(schema)
    if "$ref" in schema:
        reference = {"$ref": schema["$ref"]}
        return reference | ({"$defs": _convert_named(schema["$defs"])} if "$defs" in schema else {})
    enforced = {name: value for name, value in schema.items() if name in _ENFORCED_KEYWORDS}
    enforced |= {name: _convert_keyword(name, schema[name]) for name in _NESTED if name in schema}
    if schema.get("type") == "object":
        enforced["additionalProperties"] = schema.get("additionalProperties", False)
    constraints: dict[str, Any] = {}
    for name, value in schema.items():
        if (name == "format" and value in _FORMATS) or (name == "minItems" and value in (0, 1)):
            enforced[name] = value
        elif name not in enforced and name not in _IGNORED_KEYWORDS:
            constraints[name] = value
    return _with_note(enforced, constraints)


def _with_one_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with `anyOf` in place of several types, and in place of `oneOf`."""
    converted: dict[str, Any] = {("anyOf" if name == "oneOf" else name): value for name, value in schema.items()}
    types = converted.get("type")
    if not isinstance(types, list):
        return converted
    annotations: dict[str, Any] = {name: converted.pop(name) for name in ("title", "description") if name in converted}
    return annotations | {"anyOf": [{**(converted if kind != "null" else {}), "type": kind} for kind in types]}


def _convert_keyword(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_convert_nested(each) for each in value]
    return _convert_named(value) if _NESTED[name] else _convert_nested(value)


def _convert_named(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _convert_nested(each) for name, each in schemas.items()}


def _convert_nested(schema: Any) -> Any:
    """Convert a nested schema; True, which allows any value, is left for the server to reject."""
    return enforceable_schema(schema) if isinstance(schema, dict) else schema


def _with_note(schema: dict[str, Any], constraints: Mapping[str, Any]) -> dict[str, Any]:
    """Append keywords that cannot be enforced to the description, as `minimum: 1, maximum: 10`."""
    if not constraints:
        return schema
    note = ", ".join(f"{name}: {value}" for name, value in constraints.items())
    description = f"{schema['description']} " if schema.get("description") else ""
    return {**schema, "description": f"{description}({note})"}


_MARK = {"type": "ephemeral"}
_CACHE_CONTROL = "cache_control"
_MARKED_TURNS = 2
"""Number of user turns with a cache mark: the last turn, and the last turn of the previous request."""


def with_cache_marks(body: dict[str, Any]) -> dict[str, Any]:
    """Set cache marks if another request is likely to start with the same prefix.

    That is the case with tools or an earlier response. A cache write costs 25% more than normal input, a cache read 10%
    of it, so that a single question without tools is not marked. The setting `cache_control` overrides this; False
    disables the marks.
    """
    if _CACHE_CONTROL in body:
        return body if body[_CACHE_CONTROL] else {name: value for name, value in body.items() if name != _CACHE_CONTROL}
    turns = body["messages"]
    if "tools" not in body and all(turn["role"] == "user" for turn in turns):
        return body
    return {**body, **_mark_prefix(body), "messages": _mark_last_turns(turns)}


def _mark_prefix(body: dict[str, Any]) -> dict[str, Any]:
    """Mark the instruction, which the server places after the tools, or else the last tool."""
    if isinstance(body.get("system"), str):
        return {"system": [{"type": "text", "text": body["system"], _CACHE_CONTROL: _MARK}]}
    if "tools" in body:
        return {"tools": [*body["tools"][:-1], {**body["tools"][-1], _CACHE_CONTROL: _MARK}]}
    return {}


def _mark_last_turns(turns: list[Any]) -> list[Any]:
    """Mark the end of the last user turns.

    The server looks for cached prefixes only a few blocks before a mark, and one response can have more calls.
    """
    indexes = [at for at, turn in enumerate(turns) if turn["role"] == "user"][-_MARKED_TURNS:]
    return [_mark_turn(turn) if at in indexes else turn for at, turn in enumerate(turns)]


def _mark_turn(turn: dict[str, Any]) -> dict[str, Any]:
    *blocks, last = turn["content"]
    return {**turn, "content": [*blocks, {**last, _CACHE_CONTROL: _MARK}]}


BLOCKS = "content"
"""The key in `AssistantMessage.extra` for the original content blocks."""

_SENDABLE_ID = re.compile(r"[a-zA-Z0-9_-]+")
_DIGEST_CHARS = 8
_EMPTY_TURN = EncodedEntry({"role": "user", "content": [{"type": "text", "text": "(empty message)"}]})
"""First turn of a conversation that does not start with a user message, which the protocol requires."""


def encode_message(message: Message) -> tuple[dict[str, Any], ...]:
    """Encode a message as a turn; empty if it has no content, because blank texts are rejected."""
    match message:
        case UserMessage(content):
            role, blocks = "user", _encode_content(content)
        case AssistantMessage():
            role, blocks = "assistant", encode_answer(message)
        case ToolMessage():
            role, blocks = "user", [_encode_result(message)]
        case _:
            role, blocks = "system", _encode_content(message.text)
    return ({"role": role, "content": blocks},) if blocks else ()


def group_turns(entries: Sequence[EncodedEntry]) -> tuple[list[str], list[EncodedEntry]]:
    """Split the leading system messages, as texts, from the turns; adjacent messages of the same role are joined.

    Later system messages become user messages: only some models accept them elsewhere.
    """
    first = next((at for at, entry in enumerate(entries) if entry["role"] != "system"), len(entries))
    instructions = [block["text"] for entry in entries[:first] for block in entry["content"]]
    turns = [_join_turn(role, list(group)) for role, group in groupby(entries[first:], _turn_role)]
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, _EMPTY_TURN)
    return instructions, turns


def encode_answer(message: AssistantMessage) -> list[dict[str, Any]]:
    """The original blocks with the current call ids; rebuilt if the message was changed since."""
    blocks = message.extra.get(BLOCKS, ())
    if (
        blocks
        and has_same_text(message.text, text_of_blocks(blocks))
        and sum(map(is_call, blocks)) == len(message.tool_calls)
    ):
        calls = iter(message.tool_calls)
        sent = [{**block, **_encode_call(next(calls))} if is_call(block) else block for block in blocks]
        return [block for block in sent if not _is_blank(block)]
    return [*_encode_content(message.text), *map(_encode_call, message.tool_calls)]


def text_of_blocks(blocks: Iterable[Any]) -> str:
    """The text of content blocks: adjacent text blocks are concatenated, others are separate paragraphs."""
    paragraphs, texts = ParagraphJoiner(), []
    for block in blocks:
        if _has_type(block, "text"):
            texts.append(paragraphs.add(parsing.text_of(block)))
        else:
            paragraphs.interrupt()
    return "".join(texts)


def is_call(block: object) -> bool:
    """Whether a block is a tool call to execute; hosted tools are executed by the server."""
    return _has_type(block, "tool_use")


def _has_type(block: object, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


def _is_blank(block: object) -> bool:
    return _has_type(block, "text") and not parsing.text_of(block).strip()


def _turn_role(entry: EncodedEntry) -> str:
    return "assistant" if entry["role"] == "assistant" else "user"


def _join_turn(role: str, entries: list[EncodedEntry]) -> EncodedEntry:
    """Join adjacent entries into one turn. Its JSON is assembled from the entries, which are encoded already."""
    if len(entries) == 1 and entries[0]["role"] == role:
        return entries[0]
    blocks = [block for entry in entries for block in entry["content"]]
    texts = b",".join(entry.json[entry.json.index(b"[") + 1 : -len(b"]}")] for entry in entries)
    return EncodedEntry({"role": role, "content": blocks}, b'{"role":"%b","content":[%b]}' % (role.encode(), texts))


def _without_trailing_blanks(turn: EncodedEntry) -> EncodedEntry:
    """The last turn of the model, to be continued, without blanks at its end, which the server refuses."""
    *blocks, last = turn["content"]
    if not _has_type(last, "text") or last["text"] == last["text"].rstrip():
        return turn
    return EncodedEntry({**turn, "content": [*blocks, {**last, "text": last["text"].rstrip()}]})


def _encode_content(content: Content) -> list[dict[str, Any]]:
    blocks = (_ENCODERS.part(part) for part in parts_of(content))
    return [block for block in blocks if not _is_blank(block)]


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _encode_image(image: Image) -> dict[str, Any]:
    return {"type": "image", "source": _source(image.url)}


def _encode_file(file: File) -> dict[str, Any]:
    return {"type": "document", "source": _source(file.url), **({"title": file.name} if file.name else {})}


_ENCODERS = PartEncoders(_encode_text, _encode_image, _encode_file)


def _source(url: str) -> dict[str, Any]:
    """The source of an image or file: its URL, or its data in base64."""
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    media_type, data = base64_source(url)
    return {"type": "base64", "media_type": media_type, "data": data}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    arguments = parsing.well_formed_json(json.loads(parsing.sendable_arguments(call.arguments)))
    return {
        "type": "tool_use",
        "id": _sendable_id(call.id),
        "name": parsing.sendable_name(call.name),
        "input": arguments,
    }


def _encode_result(message: ToolMessage) -> dict[str, Any]:
    """Encode a tool result, marked if it is an error. Images and files follow the text."""
    encoded: Any = _encode_content(message.parts_content) if message.attachments else well_formed(message.content)
    content = {"content": encoded} if encoded else {}
    failed = {"is_error": True} if _is_failure(message.content) else {}
    return {"type": "tool_result", "tool_use_id": _sendable_id(message.call_id), **content, **failed}


def _is_failure(content: str) -> bool:
    """Whether a result is the error format of a failed call, `{"error": …, "tool": …}`."""
    if not content.startswith('{"error"'):
        return False
    value = parsing.json_or_text(content)
    return isinstance(value, dict) and value.keys() == {"error", "tool"}


def _sendable_id(call_id: str) -> str:
    """An id with allowed characters only; a changed id gets a digest, so that ids stay distinct."""
    if _SENDABLE_ID.fullmatch(call_id):
        return call_id
    from hashlib import sha256

    digest = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', call_id)}_{digest}"


CONTAINER = "container"
"""The key, here and in requests and responses, for the id of the container in which the server runs code."""

PAUSED = "pause_turn"
"""Stop reason of a paused response, which the server continues when it is sent back: its tools took long."""


def is_paused(data: Mapping[str, Any]) -> bool:
    """Whether the server paused and continues once the response is sent back."""
    return data.get("stop_reason") == PAUSED


def without_pending_calls(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The blocks without hosted calls that never got a result: the server rejects those in a conversation."""
    finished_ids = {block.get("tool_use_id") for block in blocks}
    return [block for block in blocks if not _is_hosted_call(block) or block.get("id") in finished_ids]


def container_entry(message: Message) -> tuple[dict[str, Any], ...]:
    """The container of a response, if any."""
    container = message.extra.get(CONTAINER) if isinstance(message, AssistantMessage) else None
    return ({CONTAINER: container},) if container else ()


def unfinished_answer(messages: Sequence[Message]) -> Sequence[Message]:
    """The unfinished response at the end of a conversation, which waits for tool results or was paused.

    Its container is needed to continue it. Earlier containers could have expired, which shows only when code fails.
    """
    at = next((at for at in range(len(messages), 0, -1) if not isinstance(messages[at - 1], ToolMessage)), 0)
    return messages[max(at - 1, 0) : at]


def _is_hosted_call(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("_tool_use")


_INCOMPLETE_REASONS = {*parsing.CUT_SHORT, PAUSED}
"""Stop reasons of an incomplete response."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP statuses by type of error, for errors in the middle of a stream, which have no status."""

_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def decode_answer(data: Mapping[str, Any]) -> Response:
    """Decode a complete body. Raises ModelError if it contains no response."""
    _raise_error_in(data)
    content = data.get("content")
    if not isinstance(content, list | str):
        raise error_mapping.missing_field_error("content", data)
    return _response(data, blocks_in(content))


def blocks_in(content: object) -> list[dict[str, Any]]:
    """Normalise content to blocks; some servers abbreviate text blocks to strings, as requests can."""
    parts = content if isinstance(content, list) else [content]
    blocks = [{"text": part} if isinstance(part, str) else part for part in parts]
    return [{"type": "text", **block} if "text" in block else block for block in parsing.dictionaries(blocks)]


def _raise_error_in(data: Mapping[str, Any]) -> None:
    """Raise the error that a body or event contains."""
    error = parsing.dictionary(data.get("error"))
    if data.get("type") == "error" and error:
        raise error_mapping.error_from_body(data, status=_STATUSES.get(parsing.word(error.get("type"))))
    error_mapping.raise_error_in(data)


def _response(data: Mapping[str, Any], blocks: list[dict[str, Any]]) -> Response:
    reason = parsing.word(data.get("stop_reason"))
    if reason == "refusal":
        raise error_mapping.refusal_error(_refusal_reason(data))
    calls = [_read_call(block) for block in blocks if is_call(block)]
    message = parsing.assistant_message(text_of_blocks(blocks), calls, _reasoning(blocks), {})
    sendable = blocks if calls or is_paused(data) else without_pending_calls(blocks)
    extra = {CONTAINER: container} if (container := parsing.dictionary(data.get(CONTAINER)).get("id")) else {}
    sent = [{name: value for name, value in block.items() if value is not None} for block in sendable]
    if encode_answer(message) != sent:  # the blocks contain more than the message represents
        extra = {BLOCKS: tuple(sendable), **extra}
    message = move_reasoning(replace(message, extra=parsing.well_formed_json(extra)))
    finish: FinishReason = (
        "length" if reason.lower() in _INCOMPLETE_REASONS else "tool_calls" if message.tool_calls else "stop"
    )
    usage = _usage(parsing.dictionary(data.get("usage")))
    model, raw = parsing.word(data.get("model")), parsing.well_formed_json(data)
    return Response(message, finish, usage, model, raw, hosted=uses_in_blocks(blocks))


def _refusal_reason(data: Mapping[str, Any]) -> str:
    """The reason for a refusal, if given."""
    details = parsing.dictionary(data.get("stop_details"))
    category = parsing.word(details.get("category"))
    return parsing.word(details.get("explanation")) or (f"for {category}" if category else "no reason was given")


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    arguments = parsing.arguments_text(block.get("input"))
    return ToolCall(parsing.word(block.get("id")), parsing.word(block.get("name")), arguments)


def _reasoning(blocks: Iterable[Mapping[str, Any]]) -> str:
    reasoning = (parsing.text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking")
    return "\n".join(filter(None, reasoning))


def _usage(figures: dict[str, Any]) -> Usage:
    """Convert usage figures; their input count excludes tokens read from or written to the cache.

    With figures per iteration these are summed: the totals omit compaction and calls to other models.
    """
    if iterations := parsing.dictionaries(figures.get("iterations")):
        names = {
            name
            for iteration in iterations
            for name in (*_INPUT_COUNTS, "output_tokens")
            if isinstance(iteration.get(name), int)
        }
        figures = figures | {name: sum(iteration.get(name) or 0 for iteration in iterations) for name in names}
    counts = [figures[name] for name in _INPUT_COUNTS if isinstance(figures.get(name), int)]
    input_count = {"input_tokens": sum(counts)} if counts else {}
    return parsing.usage_of(
        {**figures, **input_count}, ("input_tokens", "output_tokens"), ("", "output_tokens_details")
    )


class _Block:
    """A content block being streamed, with chunks for several fields."""

    def __init__(self, fields: Mapping[str, Any], index: object = None) -> None:
        self._fields, self.index = dict(fields), index
        self._chunks: dict[str, parsing.TextBuffer] = {}
        for name in ("text", "thinking"):
            if isinstance(self._fields.get(name), str):
                self.add(name, self._fields[name])

    @property
    def kind(self) -> str:
        """The type of the block."""
        return parsing.word(self._fields.get("type"))

    @property
    def name(self) -> str:
        """The name of the tool, for a call."""
        return parsing.word(self._fields.get("name"))

    def add(self, name: str, chunk: str) -> str:
        """Add a chunk to a field; returns the part that can be displayed."""
        return self._chunks.setdefault(name, parsing.TextBuffer()).add(chunk)

    def set(self, name: str, value: object) -> None:
        """Set a field that is sent whole."""
        self._fields[name] = value

    def merge(self, fields: Mapping[str, Any]) -> None:
        """Merge the fields of an unknown type of delta."""
        self._fields = parsing.merge_field("", self._fields, {**fields, "type": None})

    def arguments(self) -> str:
        """The arguments of a call, if they were sent with its start instead of in chunks."""
        arguments = self._fields.get("input")
        return parsing.arguments_text(arguments) if arguments and not self._chunks.get("partial_json") else ""

    def append(self, name: str, value: object) -> None:
        """Append an entry to a field that is a list."""
        self._fields[name] = [*(self._fields.get(name) or ()), value]

    def assembled(self) -> dict[str, Any]:
        """The complete block. The input of a call can be invalid JSON if the response was cut."""
        fields = self._fields | {name: str(chunks) for name, chunks in self._chunks.items()}
        if arguments := parsing.without_empty(fields.pop("partial_json", "")):
            parsed = parsing.json_or_text(arguments)
            fields["input"] = parsed if isinstance(parsed, dict) else arguments
        return fields


class AnthropicReader:
    """Collects the events of one streamed response. Events of unknown types, including pings, are ignored."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._splitter, self._paragraphs = ReasoningSplitter(), ParagraphJoiner()
        self._content: list[dict[str, Any]] = []
        self._blocks: list[_Block] = []
        self._by_index: dict[object, _Block] = {}
        self._calls: dict[int, int] = {}
        self._has_started = self._has_stopped = False
        self._feeds: dict[str, Callable[[Mapping[str, Any]], Event | None]] = {
            "message": self._feed_message_body,
            "message_start": self._begin,
            "content_block_start": self._begin_block,
            "content_block_delta": self._feed_block,
            "content_block_stop": self._end_block,
            "message_delta": self._feed_message,
            "message_stop": self._stop,
        }
        self._deltas: dict[str, Callable[[_Block, Mapping[str, Any]], Event | None]] = {
            "text": self._feed_text,
            "thinking": self._feed_thinking,
            "partial_json": self._feed_arguments,
            "signature": self._feed_signature,
            "citation": self._feed_citation,
        }

    @property
    def is_whole(self) -> bool:
        """Whether the response is complete and nothing can follow."""
        return self._has_stopped

    @property
    def is_answered(self) -> bool:
        """Whether the response is complete; the event with the stop reason includes the token counts."""
        return self._has_stopped or bool(self._message.get("stop_reason"))

    @property
    def usage(self) -> Usage:
        """The token counts received so far."""
        return _usage(self._usage)

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError if it is an error."""
        feed = self._feeds.get(parsing.word(chunk.get("type")))
        if feed is None:
            _raise_error_in(chunk)
            return ()
        event = feed(chunk)
        if isinstance(event, TextDelta):
            return self._splitter.events(event.text)
        return () if event is None else (event,)

    def _begin(self, chunk: Mapping[str, Any]) -> Event | None:
        message = parsing.dictionary(chunk.get("message"))
        if self._blocks and message.get("id") != self._message.get("id"):
            raise BadResponse("The server started a second answer before the first one was complete. Try again.")
        self._has_started = True
        self._merge(message)
        return None

    def _feed_message_body(self, chunk: Mapping[str, Any]) -> Event | None:
        """Take a complete message from a server that ignores the stream setting."""
        self._has_started = self._has_stopped = True
        self._merge(chunk)
        return None

    def _merge(self, fields: Mapping[str, Any]) -> None:
        """Merge the fields of a message event; token counts are running totals, so that the last one is used.

        A null or 0 never replaces a known value. The content of the event is used if no blocks are streamed.
        """
        self._content = blocks_in(fields.get("content")) or self._content
        present = {name for name, value in self._message.items() if value is not None}
        new = {name: value for name, value in fields.items() if value is not None or name not in present}
        self._message |= {name: value for name, value in new.items() if name not in {"content", "usage"}}
        usage = parsing.dictionary(fields.get("usage"))
        self._usage |= {name: value for name, value in usage.items() if value or self._usage.get(name) is None}

    def _begin_block(self, chunk: Mapping[str, Any]) -> Event | None:
        block = self._by_index[_key(chunk.get("index"))] = _Block(
            parsing.dictionary(chunk.get("content_block")), chunk.get("index")
        )
        self._blocks.append(block)
        if block.kind == "text":
            return self._text_event(parsing.word(block.assembled().get("text")))
        self._paragraphs.interrupt()
        if block.kind == "thinking":
            return ReasoningDelta(reasoning) if (reasoning := parsing.word(block.assembled().get("thinking"))) else None
        if block.kind != "tool_use":
            return None
        self._calls[id(block)] = len(self._calls)
        return ToolCallDelta(self._calls[id(block)], block.name, "")

    def _end_block(self, chunk: Mapping[str, Any]) -> Event | None:
        block = self._by_index.get(_key(chunk.get("index")))
        number = self._calls.get(id(block))
        arguments = block.arguments() if block and number is not None else ""
        return ToolCallDelta(number or 0, "", arguments) if arguments else None

    def _text_event(self, text: str) -> Event | None:
        return TextDelta(self._paragraphs.add(text)) if text else None

    def _feed_block(self, chunk: Mapping[str, Any]) -> Event | None:
        delta = parsing.dictionary(chunk.get("delta"))
        if not delta.get("type"):
            field = next(filter(delta.__contains__, self._deltas), "")
        else:
            field = _FIELDS.get(parsing.word(delta["type"]), "")
        if not field:
            if block := self._by_index.get(_key(chunk.get("index"))):
                block.merge(delta)
            return None
        block = self._block(chunk.get("index"), field)
        return self._deltas[field](block, delta) if block else None

    def _block(self, index: object, field: str) -> _Block | None:
        """The block for a chunk: by index, otherwise the last block, otherwise a new block whose start was not sent."""
        kinds = _BLOCK_TYPES[field]
        candidates = (self._by_index.get(_key(index)), *self._blocks[-1:])
        block = next((block for block in candidates if block and block.kind.endswith(kinds)), None)
        if block is None and field in _IMPLICIT_BLOCKS:
            block = self._by_index[_key(index)] = _Block({"type": field})
            self._blocks.append(block)
            if field != "text":
                self._paragraphs.interrupt()
        return block

    def _feed_text(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        return self._text_event(block.add("text", parsing.text_of(delta.get("text"))))

    def _feed_thinking(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        text = block.add("thinking", parsing.text_of(delta.get("thinking")))
        return ReasoningDelta(text) if text else None

    def _feed_arguments(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        text = block.add("partial_json", parsing.arguments_chunk(delta.get("partial_json")))
        number = self._calls.get(id(block))
        return ToolCallDelta(number, "", text) if text and number is not None else None

    def _feed_signature(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        block.set("signature", delta.get("signature"))
        return None

    def _feed_citation(self, block: _Block, delta: Mapping[str, Any]) -> Event | None:
        block.append("citations", delta.get("citation"))
        return None

    def _feed_message(self, chunk: Mapping[str, Any]) -> Event | None:
        self._merge({**parsing.dictionary(chunk.get("delta")), "usage": chunk.get("usage")})
        return None

    def _stop(self, _: Mapping[str, Any]) -> Event | None:
        self._has_stopped = True
        return None

    def finish(self, *, closed: bool) -> Response:
        """The complete response. Raises BadResponse if the stream was cut short, Rejected on a refusal."""
        blocks = [block.assembled() for block in _by_block_index(self._blocks)] or self._content
        if not (self.is_answered or (closed and blocks)):
            raise error_mapping.cut_short_error(len(text_of_blocks(blocks)))
        if not (self._has_started or blocks):
            raise BadResponse("The stream ended without an answer. Try again.")
        return _response({**self._message, "content": blocks, "usage": self._usage}, blocks)


def _by_block_index(blocks: list[_Block]) -> list[_Block]:
    """The blocks by index if all indexes are distinct, otherwise in order of arrival."""
    indexes = [block.index for block in blocks if isinstance(block.index, int)]
    by_index = dict(zip(indexes, blocks, strict=False))
    return [by_index[index] for index in sorted(indexes)] if len(by_index) == len(blocks) else blocks


def _key(index: object) -> object:
    """The key of a block in a stream; servers can send anything as index."""
    return index if isinstance(index, int) else parsing.word(index)


_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "signature_delta": "signature",
    "citations_delta": "citation",
}
"""The field in each type of delta."""

_BLOCK_TYPES = {
    "text": ("text",),
    "thinking": ("thinking",),
    "partial_json": ("tool_use",),
    "signature": ("thinking",),
    "citation": ("text",),
}
"""Suffixes of the block types to which each field can belong."""

_IMPLICIT_BLOCKS = ("text", "thinking")
"""Block types that a chunk can start without a start event."""


class AnthropicMessages(WireProtocol):
    """The Messages protocol, with turns of content blocks and explicit prompt caching.

    The older of its two versions is used: they differ only in features that are not used here, no model accepts a
    temperature in the newer one, and every server supports the older one.
    """

    name = "messages"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    streaming: Mapping[str, Any] = {"stream": True}
    can_pause = True
    error = staticmethod(error_mapping.error_from_body)

    def url(self, _model: str, /, **_streaming: bool) -> str:
        """The path of a request, relative to the base URL."""
        return "/messages"

    def encode(
        self, request: Request, model: str, *, strict: bool, cache: EncodingCache | None = None
    ) -> dict[str, Any]:
        """Encode a request as the body of a POST. The token limit is always sent, because it is required."""
        cache = cache or EncodingCache()
        instructions, turns = group_turns(cache.entries(request.messages, encode_message))
        if turns[-1]["role"] == "assistant":
            turns[-1] = _without_trailing_blanks(turns[-1])
        body: dict[str, Any] = {"model": model, "messages": turns}
        for container in cache.entries(unfinished_answer(request.messages), container_entry):
            body |= container
        instruction = "\n\n".join(text for text in (request.instruction, *instructions) if text.strip())
        if instruction:
            body["system"] = well_formed(instruction)
        if request.tools:
            body["tools"] = cache.entries(request.tools, _strict_tool if strict else _plain_tool)
        if request.output_schema:
            body["output_config"] = {
                "format": {"type": "json_schema", "schema": enforceable_schema(request.output_schema.schema)}
            }
        return with_cache_marks(with_settings(body, request.settings))

    def decode(self, data: Mapping[str, Any]) -> Response:
        """Decode a complete body. Raises ModelError if it contains no response."""
        return decode_answer(data)

    def reader(self) -> AnthropicReader:
        """Create a reader for one streamed response."""
        return AnthropicReader()


def _plain_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if tool.hosted is not None:
        return (declaration_of(tool, AnthropicMessages.name),)
    schema, note = object_schema(tool.parameters)
    description = " ".join(filter(None, (tool.description, note)))
    return ({"name": tool.name, **({"description": description} if description else {}), "input_schema": schema},)


def _strict_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    (plain,) = _plain_tool(tool)
    if (strict := tool.strict) is None:
        return (plain,)
    return ({**plain, "input_schema": enforceable_schema(strict), "strict": True},)
