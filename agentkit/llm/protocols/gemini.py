"""Gemini's own protocol, `generateContent` (pure).

Thought signatures stay with the call or text that they sign, and sent back with it.
"""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from agentkit.content import File, Image, load_part
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.protocols import WireProtocol, parsing
from agentkit.llm.protocols.encoding import EncodedEntry, EncodingCache, base64_source
from agentkit.llm.protocols.error_mapping import (
    cut_short_error,
    error_from_body,
    filtered_error,
    missing_field_error,
    raise_error_in,
    unfinished_error,
)
from agentkit.llm.protocols.hosted_tools import declaration_of, grounded_search
from agentkit.messages import (
    AssistantMessage,
    FinishReason,
    Response,
    ToolCall,
    ToolMessage,
    UserMessage,
    calls_in,
    parts_of,
    well_formed,
)

if TYPE_CHECKING:
    from agentkit.events import Event
    from agentkit.messages import Content, Message, Request, ToolSpec
    from agentkit.usage import Usage

_Fields = dict[str, Any]

SIGNATURE = "thoughtSignature"
"""The field of a part, and the key in `extra`, for the encrypted reasoning behind it."""

_OTHER_PARTS = "parts"
"""The key in `extra` for parts of other kinds, such as executed code."""

_SIGNATURE_PLACEHOLDER = "skip_thought_signature_validator"
"""The signature that Google documents for calls of other models; without one, a call is refused."""

_EMPTY_TURN = EncodedEntry({"role": "user", "parts": [{"text": "(empty message)"}]})
"""First turn of a conversation that does not start with a user message, which the protocol requires."""

_ATTACHMENTS_NOTE = "[Images and files of the results above, in their order. No user sent them.]"
_TEXT_FIELDS = frozenset({"text", "thought", SIGNATURE, "partMetadata"})
_INCOMPLETE_REASONS = {"MAX_TOKENS"}
_FILTERED_REASONS = {
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
}
_FINISHED_REASONS = {"STOP", "FINISH_REASON_UNSPECIFIED", *_INCOMPLETE_REASONS}

_TOP_LEVEL = frozenset(
    {"safetySettings", "cachedContent", "toolConfig", "labels", "serviceTier", "store", "systemInstruction"}
)
"""Settings that are not part of `generationConfig`."""

_RENAMED = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "maxOutputTokens"),
    "stop": "stopSequences",
    "n": "candidateCount",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
    "modalities": "responseModalities",
}
_WITH_BUDGETS = re.compile(r"gemini-(?:1|2)\b")
_BUDGETS = {"none": 0, "minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
"""Thinking budgets in tokens by effort, for models before Gemini 3."""

_LEVELS = {"none": "minimal", "xhigh": "high", "max": "high"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "any": "ANY"}


class GeminiContents(WireProtocol):
    """Gemini's protocol, in which a conversation consists of contents with parts."""

    name = "gemini"
    embeddings_path = "/openai/embeddings"
    headers: Mapping[str, str] = {}
    streaming: Mapping[str, Any] = {}
    error = staticmethod(error_from_body)

    def url(self, model: str, /, *, streaming: bool) -> str:
        """The path of a request, relative to the base URL, with the model and the kind of answer."""
        path = quote(model if "/" in model else f"models/{model}", safe="/")
        return f"/{path}:streamGenerateContent?alt=sse" if streaming else f"/{path}:generateContent"

    def encode(
        self, request: Request, model: str, *, strict: bool, cache: EncodingCache | None = None
    ) -> dict[str, Any]:
        """Encode a request as the body of a POST. The model is part of the URL; `strict` has no meaning here."""
        del strict
        cache = cache or EncodingCache()
        instructions, turns = _group_turns(cache.entries(_with_call_names(request.messages), _encode_message))
        body: dict[str, Any] = {"contents": turns}
        instruction = "\n\n".join(text for text in (request.instruction, *instructions) if text.strip())
        if instruction:
            body["systemInstruction"] = {"parts": [{"text": well_formed(instruction)}]}
        if request.tools:
            body["tools"] = _tools(cache.entries(request.tools, _encode_tool))
        config = _generation_config(request.settings, model, body, has_tools=bool(request.tools))
        if request.output_schema:
            config = {
                "responseMimeType": "application/json",
                "responseJsonSchema": request.output_schema.schema,
                **config,
            }
        return {**body, "generationConfig": config} if config else body

    def decode(self, data: Mapping[str, Any]) -> Response:
        """Decode a complete body. Raises ModelError if it contains no response."""
        raise_error_in(data)
        reader = GeminiReader()
        for _ in reader.feed(data):
            pass
        if reader.is_missing:
            raise missing_field_error("candidates", data)
        return reader.finish(closed=True)

    def reader(self) -> GeminiReader:
        """Create a reader for one streamed response."""
        return GeminiReader()


def _with_call_names(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages, with the name in every result that its call has; the protocol requires it."""
    names = {call.id: call.name for call in calls_in(messages)}
    return [
        replace(message, name=names[message.call_id])
        if isinstance(message, ToolMessage) and names.get(message.call_id, message.name) != message.name
        else message
        for message in messages
    ]


def _encode_message(message: Message) -> tuple[_Fields, ...]:
    match message:
        case UserMessage(content):
            role, parts = "user", _encode_content(content)
        case AssistantMessage():
            role, parts = "model", _encode_answer(message)
        case ToolMessage():
            role, parts = "user", _encode_result(message)
        case _:
            role, parts = "system", _encode_content(message.text)
    return ({"role": role, "parts": parts},) if parts else ()


def _encode_content(content: Content) -> list[_Fields]:
    return [part for each in parts_of(content) if (part := _encode_part(each))]


def _encode_part(part: str | Image | File) -> _Fields:
    """Encode a text, image or file; empty for a blank text, because blank parts are refused."""
    loaded = load_part(part)
    if isinstance(loaded, str):
        return {"text": well_formed(loaded)} if loaded.strip() else {}
    if loaded.url.startswith("data:"):
        media_type, data = base64_source(loaded.url)
        return {"inlineData": {"mimeType": media_type, "data": data}}
    kind = mimetypes.guess_type(urlsplit(loaded.url).path)[0]
    kind = kind or ("image/jpeg" if isinstance(loaded, Image) else "application/pdf")
    return {"fileData": {"mimeType": kind, "fileUri": loaded.url}}


def _encode_answer(message: AssistantMessage) -> list[_Fields]:
    """The parts of a model's message, each with its signature. The first call has one even if no model signed it."""
    parts: list[_Fields] = [*message.extra.get(_OTHER_PARTS, ())]
    signature = {SIGNATURE: message.extra[SIGNATURE]} if SIGNATURE in message.extra else {}
    if message.text.strip():
        parts.append({"text": well_formed(message.text), **signature})
    calls = [_encode_call(call) for call in message.tool_calls]
    if calls and SIGNATURE not in calls[0]:
        calls[0][SIGNATURE] = _SIGNATURE_PLACEHOLDER
    return [*parts, *calls]


def _encode_call(call: ToolCall) -> _Fields:
    arguments = parsing.well_formed_json(json.loads(parsing.sendable_arguments(call.arguments)))
    signature = {SIGNATURE: call.extra[SIGNATURE]} if SIGNATURE in call.extra else {}
    return {"functionCall": {"id": call.id, "name": _sendable_function_name(call.name), "args": arguments}, **signature}


def _sendable_function_name(name: str) -> str:
    """A function name that the protocol accepts: it starts with a letter or an underscore."""
    sendable = parsing.sendable_name(name)
    return sendable if re.match(r"[a-zA-Z_]", sendable) else f"t_{sendable}"[:63]


def _encode_result(message: ToolMessage) -> list[_Fields]:
    """Encode a tool result, whose content is a JSON object, followed by its images and files."""
    content = well_formed(message.content)
    value = parsing.json_or_text(content) if content.startswith(("{", "[")) else content
    is_failure = isinstance(value, dict) and value.keys() == {"error", "tool"}
    response = {"error": value["error"]} if is_failure and isinstance(value, dict) else {"result": value}
    result: _Fields = {
        "id": message.call_id,
        "name": _sendable_function_name(message.name),
        "response": parsing.well_formed_json(response),
    }
    return [{"functionResponse": result}, *map(_encode_part, message.attachments)]


def _group_turns(entries: Sequence[EncodedEntry]) -> tuple[list[str], list[EncodedEntry]]:
    """Split the leading system messages, as texts, from the turns; adjacent messages of one role are joined."""
    first = next((at for at, entry in enumerate(entries) if entry["role"] != "system"), len(entries))
    instructions = [part["text"] for entry in entries[:first] for part in entry["parts"]]
    turns: list[EncodedEntry] = []
    for role, group in groupby(entries[first:], _turn_role):
        turns.append(_join_turn(role, list(group), turns[-1] if turns else {}))
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, _EMPTY_TURN)
    return instructions, turns


def _turn_role(entry: EncodedEntry) -> str:
    return "model" if entry["role"] == "model" else "user"


def _join_turn(role: str, entries: list[EncodedEntry], previous: Mapping[str, Any]) -> EncodedEntry:
    """Join entries into one turn. Results come first, in the order of their calls, then what is shown with them."""
    if len(entries) == 1 and entries[0]["role"] == role:
        return entries[0]
    parts = [part for entry in entries for part in entry["parts"]]
    results = [part for part in parts if "functionResponse" in part]
    if not results:
        return EncodedEntry({"role": role, "parts": parts})
    call_ids = [part["functionCall"]["id"] for part in previous.get("parts", ()) if "functionCall" in part]
    positions = {call_id: position for position, call_id in enumerate(call_ids)}
    results.sort(key=lambda part: positions.get(part["functionResponse"]["id"], len(call_ids)))
    others = [part for part in parts if "functionResponse" not in part]
    has_attachments = any("functionResponse" in entry["parts"][0] and len(entry["parts"]) > 1 for entry in entries)
    return EncodedEntry(
        {"role": role, "parts": [*results, *([{"text": _ATTACHMENTS_NOTE}] if has_attachments else []), *others]}
    )


def _encode_tool(tool: ToolSpec) -> tuple[_Fields]:
    if tool.hosted is not None:
        return (declaration_of(tool, GeminiContents.name),)
    declaration: _Fields = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        declaration["parametersJsonSchema"] = tool.parameters
    return (declaration,)


def _tools(entries: Sequence[EncodedEntry]) -> list[_Fields]:
    """The tools of a request: all functions in one entry, then hosted tools."""
    functions = [entry for entry in entries if "name" in entry]
    hosted: list[_Fields] = [entry for entry in entries if "name" not in entry]
    return [*([{"functionDeclarations": functions}] if functions else []), *hosted]


def _generation_config(settings: Mapping[str, Any], model: str, body: _Fields, *, has_tools: bool) -> _Fields:
    """The generation settings under the names of this protocol; settings of the whole request are put into `body`."""
    config: _Fields = {}
    for name, value in settings.items():
        key = _RENAMED.get(name, parsing.camel_case(name))
        if name == "tool_choice":
            if has_tools:
                body["toolConfig"] = {"functionCallingConfig": _calling_config(value)}
        elif name == "reasoning_effort":
            config["thinkingConfig"] = {**_thinking_config(str(value), model), **config.get("thinkingConfig", {})}
        elif name == "parallel_tool_calls":
            continue  # the protocol has no such setting
        elif key == "generationConfig":
            config |= value
        elif key in _TOP_LEVEL:
            body[key] = value
        else:
            config[key] = [value] if key == "stopSequences" and isinstance(value, str) else value
    return config


def _calling_config(choice: object) -> object:
    """The function-calling configuration for a `tool_choice`, which can name a tool."""
    if isinstance(choice, dict):
        name = parsing.dictionary(choice.get("function")).get("name")
        return {"mode": "ANY", "allowedFunctionNames": [name]} if name else choice
    if choice in _MODES:
        return {"mode": _MODES[str(choice)]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def _thinking_config(effort: str, model: str) -> _Fields:
    if _WITH_BUDGETS.search(model):
        budget = _BUDGETS.get(effort, _BUDGETS["high"])
        return {"thinkingBudget": budget, "includeThoughts": budget > 0}
    return {"thinkingLevel": _LEVELS.get(effort, effort), "includeThoughts": effort != "none"}


class GeminiReader:
    """Collects the chunks of one response: each is a whole response with the next parts."""

    def __init__(self) -> None:
        self._text, self._reasoning = parsing.TextBuffer(), parsing.TextBuffer()
        self._calls: list[ToolCall] = []
        self._extra: _Fields = {}
        self._grounding: _Fields = {}
        self._reason = self._blocked = self._message = ""
        self._figures: Mapping[str, Any] = {}
        self._raw: _Fields = {}
        self._has_candidate = False

    @property
    def is_missing(self) -> bool:
        """Whether neither a response nor the reason for its absence was received."""
        return not (self._has_candidate or self._blocked)

    @property
    def is_whole(self) -> bool:
        """Whether nothing can follow; only the end of the stream shows this."""
        return False

    @property
    def is_answered(self) -> bool:
        """Whether the response is complete; its last chunk includes the token counts."""
        return bool(self._reason)

    @property
    def usage(self) -> Usage:
        """The token counts received so far."""
        return _usage(self._figures)

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError if it is an error and the response is not complete yet."""
        if not self.is_answered:
            raise_error_in(chunk)
        self._raw |= {name: value for name, value in chunk.items() if value is not None}
        self._figures = parsing.dictionary(chunk.get("usageMetadata")) or self._figures
        self._blocked = (
            parsing.word(parsing.dictionary(chunk.get("promptFeedback")).get("blockReason")) or self._blocked
        )
        candidates = parsing.dictionaries(chunk.get("candidates"))
        candidate = next((each for each in candidates if not each.get("index")), None)
        if candidate is None:
            return []
        self._has_candidate = True
        self._reason = parsing.word(candidate.get("finishReason")) or self._reason
        self._message = parsing.word(candidate.get("finishMessage")) or self._message
        self._grounding |= parsing.dictionary(candidate.get("groundingMetadata"))
        parts = parsing.dictionaries(parsing.dictionary(candidate.get("content")).get("parts"))
        return [event for part in parts for event in self._feed_part(part)]

    def _feed_part(self, part: Mapping[str, Any]) -> Iterator[Event]:
        if call := parsing.dictionary(part.get("functionCall")):
            yield self._feed_call(call, part)
        elif _TEXT_FIELDS.issuperset(part):
            if part.get(SIGNATURE) and not part.get("thought"):
                self._extra[SIGNATURE] = part[SIGNATURE]
            chunks, kind = (self._reasoning, ReasoningDelta) if part.get("thought") else (self._text, TextDelta)
            if text := chunks.add(parsing.text_of(part.get("text"))):
                yield kind(text)
        else:
            self._extra[_OTHER_PARTS] = (*self._extra.get(_OTHER_PARTS, ()), dict(part))

    def _feed_call(self, call: Mapping[str, Any], part: Mapping[str, Any]) -> Event:
        extra = {SIGNATURE: part[SIGNATURE]} if part.get(SIGNATURE) else {}
        arguments = parsing.arguments_text(call.get("args")) or "{}"
        self._calls.append(ToolCall(parsing.word(call.get("id")), parsing.word(call.get("name")), arguments, extra))
        return ToolCallDelta(len(self._calls) - 1, self._calls[-1].name, arguments)

    def finish(self, *, closed: bool) -> Response:
        """The complete response. Raises BadResponse if the stream was cut short, Rejected if it was filtered."""
        if self._blocked or self._reason in _FILTERED_REASONS:
            raise filtered_error()
        text = str(self._text)
        if not self._reason and not (closed and (text or self._calls)):
            raise cut_short_error(len(text))
        if self._reason not in _FINISHED_REASONS and not (text or self._calls):
            raise unfinished_error(self._message or self._reason)
        message = parsing.assistant_message(text, self._calls, str(self._reasoning), self._extra)
        finish: FinishReason = (
            "length" if self._reason in _INCOMPLETE_REASONS else "tool_calls" if message.tool_calls else "stop"
        )
        model, raw = parsing.word(self._raw.get("modelVersion")), parsing.well_formed_json(self._raw)
        hosted = grounded_search(self._grounding)
        return Response(message, finish, _usage(self._figures), model, raw, hosted=hosted)


def _usage(figures: Mapping[str, Any]) -> Usage:
    """Convert usage figures: tokens of tool use are input, and thoughts are output."""

    def count(name: str) -> int:
        value = figures.get(name)
        return value if isinstance(value, int) else 0

    if not isinstance(figures.get("promptTokenCount"), int):
        return parsing.usage_of({}, ("", ""), ("", ""))
    counts = {
        "input_tokens": count("promptTokenCount") + count("toolUsePromptTokenCount"),
        "output_tokens": count("candidatesTokenCount") + count("thoughtsTokenCount"),
        "cached_tokens": count("cachedContentTokenCount"),
        "reasoning_tokens": count("thoughtsTokenCount"),
    }
    return parsing.usage_of(counts, ("input_tokens", "output_tokens"), ("", ""))
