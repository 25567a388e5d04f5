"""The Chat Completions protocol (pure)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from agentkit.content import File, Image
from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.protocols import WireProtocol, parsing
from agentkit.llm.protocols.encoding import EncodedEntry, EncodingCache, PartEncoders
from agentkit.llm.protocols.error_mapping import (
    FILTERED,
    cut_short_error,
    error_from_body,
    filtered_error,
    missing_field_error,
    raise_error_in,
    refusal_error,
    unfinished_error,
)
from agentkit.llm.protocols.hosted_tools import declaration_of, uses_in_message
from agentkit.llm.protocols.parsing import REASONING_FIELDS, ReasoningSplitter, has_content, move_reasoning
from agentkit.messages import AssistantMessage, FinishReason, Response, ToolCall, ToolMessage, UserMessage, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentkit.events import Event
    from agentkit.messages import Message, OutputSchema, Request, ToolSpec
    from agentkit.usage import Usage


_CALL_FIELDS = {"index", "id", "type", "function", "name", "arguments"}
_MAX_COMPLETENESS_CHECKS = 100
"""How often the arguments of one call are parsed to check whether they are complete."""


def calls_in(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tool calls in a message or delta, complete or in chunks: a list or a single one, also in the older form."""
    if "tool_calls" not in message and "function_call" not in message:
        return []
    calls = message.get("tool_calls")
    if found := [calls] if isinstance(calls, dict) else parsing.dictionaries(calls):
        return found
    function_call = parsing.dictionary(message.get("function_call"))
    return [{"index": "function_call", "function": function_call}] if any(function_call.values()) else []


def _function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name and arguments of a call, which some servers do not put under `function`."""
    return parsing.dictionary(call.get("function")) or call


def read_call(call: Mapping[str, Any]) -> ToolCall:
    """Decode a complete tool call."""
    function = _function_of(call)
    extra = {name: value for name, value in call.items() if name not in _CALL_FIELDS and has_content(value)}
    arguments = parsing.arguments_text(function.get("arguments"))
    return ToolCall(parsing.word(call.get("id")), parsing.word(function.get("name")), arguments, extra)


class _CallChunks:
    """A tool call being streamed."""

    def __init__(self, index: str) -> None:
        self.index = index
        self.id = self.name = ""
        self.arguments = parsing.TextBuffer()
        self._checks_left = _MAX_COMPLETENESS_CHECKS
        self.extra: dict[str, Any] = {}
        self.is_named_again = False

    def add(self, part: Mapping[str, Any], name: str, arguments: str) -> str:
        """Add a chunk; returns its arguments, as far as they can be displayed. Id and name can be repeated."""
        self.id = self.id or parsing.word(part.get("id"))
        self.is_named_again = self.is_named_again or bool(self.name and name)
        if not self.arguments:
            self.name = _extend_name(self.name, name)
        self.name = self.name or name
        self.extra |= {key: value for key, value in part.items() if key not in _CALL_FIELDS and has_content(value)}
        return self.arguments.add(arguments)

    def is_complete(self) -> bool:
        """Whether the arguments are complete. Each check parses the whole text, so that their number is limited."""
        if not (self._checks_left and self.arguments.ends_like_an_object()):
            return False
        self._checks_left -= 1
        return parsing.is_complete_json(str(self.arguments))

    def assembled(self) -> ToolCall:
        """The complete call."""
        return ToolCall(
            self.id, self.name, parsing.arguments_text(parsing.without_empty(str(self.arguments))), self.extra
        )


def _extend_name(name: str, chunk: str) -> str:
    """Append a chunk to a name; some servers repeat the name instead, or send all of it so far."""
    return chunk if chunk.startswith(name) else name if name.startswith(chunk) else name + chunk


class CallChunks:
    """The tool calls of one streamed response."""

    def __init__(self) -> None:
        self._calls: list[_CallChunks] = []
        self._by_index: dict[str, int] = {}
        self._by_id: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, parts: list[dict[str, Any]]) -> list[Event]:
        """The events in the next chunks."""
        return [self._feed_call(part) for part in parts] if len(parts) < 2 else self._feed_calls(parts)

    def assembled(self) -> list[ToolCall]:
        """The calls by index if all indexes are distinct, otherwise in order of arrival."""
        return [call.assembled() for call in _by_call_index(self._calls)]

    def _feed_calls(self, parts: list[dict[str, Any]]) -> list[Event]:
        """Feed several chunks at once. Without index, id and name they are matched to the last calls in order."""
        first = len(self._calls) - len(parts)
        names = (name for part in parts for name in (part.get("index"), part.get("id"), _function_of(part).get("name")))
        if first < 0 or any(name not in (None, "") for name in names):
            return [self._feed_call(part) for part in parts]
        return [self._feed_call(part, first + place) for place, part in enumerate(parts)]

    def _feed_call(self, part: Mapping[str, Any], default_position: int | None = None) -> ToolCallDelta:
        function = _function_of(part)
        name, arguments = parsing.word(function.get("name")), parsing.arguments_chunk(function.get("arguments"))
        position = self._position(part, name, arguments) if default_position is None else default_position
        if position == len(self._calls):
            self._calls.append(_CallChunks(parsing.word(part.get("index"))))
            self._by_index[self._calls[position].index] = position
        call = self._calls[position]
        if _is_repeated_call(call, part, arguments):
            return ToolCallDelta(position, "", "")
        old_id, new_arguments = call.id, call.add(part, name, arguments)
        if call.id != old_id:
            self._by_id[call.id] = position
        return ToolCallDelta(position, name, new_arguments)

    def _position(self, part: Mapping[str, Any], name: str, arguments: str) -> int:
        """The call for a chunk. Indexes can be missing, and a second complete call can be sent with index 0."""
        index, call_id, count = parsing.word(part.get("index")), parsing.word(part.get("id")), len(self._calls)
        if index:
            match = self._by_index.get(index, count)
            if match == count and count and not name:
                match = self._by_index[index] = self._call_without_index(call_id)
        else:
            match = self._by_id.get(call_id, count) if call_id else count
            if match == count and count and not (name and self._calls[-1].name):
                return count - 1
        if match == count or _is_repeated_call(self._calls[match], part, arguments):
            return match
        return count if _starts_call(self._calls[match], part, name, arguments) else match

    def _call_without_index(self, call_id: str) -> int:
        """The call for a chunk without a name and with an unknown index: the call with its id, or the last one."""
        if call_id:
            return self._by_id.get(call_id, len(self._calls))
        return len(self._calls) - (not self._calls[-1].is_complete())


def _by_call_index(calls: list[_CallChunks]) -> list[_CallChunks]:
    """The calls by index if all indexes are distinct, otherwise in order of arrival."""
    indexes = {call.index for call in calls if call.index.isdecimal()}
    return sorted(calls, key=lambda call: (len(call.index), call.index)) if len(indexes) == len(calls) else calls


def _starts_call(call: _CallChunks, part: Mapping[str, Any], name: str, arguments: str) -> bool:
    """Whether a chunk with the index of `call` starts a new call; ids can change per chunk, and names be repeated."""
    if not (name and call.name):
        return False
    has_id, has_other_id = bool(part.get("id")), bool(part.get("id")) and parsing.word(part["id"]) != call.id
    if call.is_complete():
        # An empty object can precede the arguments; then this is only a chunk of them.
        is_all = not has_id or str(call.arguments) != "{}" or parsing.is_complete_json(arguments)
        return (bool(arguments) and is_all) or has_other_id or not (call.id or call.is_named_again)
    return has_other_id and name != call.name


def _is_repeated_call(call: _CallChunks, part: Mapping[str, Any], arguments: str) -> bool:
    """Whether a chunk repeats a complete call: it has the same id and arguments."""
    if not (part.get("id") and parsing.word(part["id"]) == call.id and call.is_complete()):
        return False
    return arguments == str(call.arguments)


FIELD = "content"
"""The key in `extra` for reasoning parts of the content."""

_MAX_PART_LEVELS = 2
"""Nesting depth of reasoning parts: texts, or lists of parts."""

_REASONING_SETTINGS = (("clear_thinking", False), ("preserve_thinking", True), ("keep", "all"))
_SETTING_OBJECTS = ("thinking", "chat_template_kwargs")
"""Settings with which Z.ai, Qwen and Kimi read the reasoning of all messages, and the objects that can contain them."""

_Parts = list[dict[str, Any]]


def reasoning_parts(content: object) -> _Parts:
    """The reasoning parts of a content."""
    return [part for part in parsing.dictionaries(content) if parsing.is_reasoning_part(part)]


def join_parts(old: Sequence[Any], new: Sequence[Any], levels: int = _MAX_PART_LEVELS) -> list[Any]:
    """Join the parts so far with those of the next chunk; a part of the same type as the last one extends it.

    Servers that stream reasoning send one part per word, and require the joined part when it is sent back.
    """
    parts = list(old)
    for part in new:
        last = parsing.dictionary(parts[-1] if parts else None)
        if last and isinstance(part, dict) and last.get("type") == part.get("type"):
            parts[-1] = last | {
                name: _extend_field(name, last.get(name), value, levels) for name, value in part.items()
            }
        else:
            parts.append(part)
    return parts


def _extend_field(name: str, old: object, new: Any, levels: int) -> Any:
    """Join a field with its next chunk: text is concatenated, any other field, such as a signature, is replaced."""
    if isinstance(old, list) and isinstance(new, list) and levels > 1:
        return join_parts(old, new, levels - 1)
    is_text = name in parsing.REASONING_PART_FIELDS and isinstance(old, str) and isinstance(new, str)
    return f"{old}{new}" if is_text else new or old


def server_reads_reasoning(settings: Mapping[str, Any]) -> bool:
    """Whether a setting makes the server read the reasoning of all messages, not only of those with tool calls."""
    objects = [settings, *(parsing.dictionary(settings.get(name)) for name in _SETTING_OBJECTS)]
    return any(fields.get(name) == value for fields in objects for name, value in _REASONING_SETTINGS)


_MESSAGE_FIELDS = {"role", "content", "tool_calls", "refusal", "function_call", "name"}
_ALL_REASONING_FIELDS = {*REASONING_FIELDS, "reasoning_details", "thinking_blocks"}

_FILTERED_REASONS = {
    FILTERED,
    "content_filtered",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "image_safety",
    "sensitive",
    "guardrail_intervened",
    "refusal",
}
_FAILED_REASONS = {
    "error",
    "abort",
    "aborted",
    "cancelled",
    "canceled",
    "network_error",
    "insufficient_system_resource",
    "function_call_filter",
    "malformed_function_call",
    "unexpected_tool_call",
    "load",
    "unload",
}
"""Finish reasons of a response that the server could not finish, or whose tool call it could not parse."""


def decode_answer(data: Mapping[str, Any]) -> Response:
    """Decode a complete body. Raises ModelError if it contains no response."""
    raise_error_in(data)
    choice = _first_choice(data)
    fields = None if choice is None else _message_in(choice, "message", "delta")
    if choice and fields is None and choice.get("finish_reason"):
        fields = {}  # some servers omit the message if it was filtered or cut before any text
    if choice is None or fields is None:
        raise missing_field_error("choices", data)
    if fields.get("refusal"):
        raise refusal_error(parsing.word(fields["refusal"]))
    message = read_message(fields)
    return _response(move_reasoning(message), _ending(choice), _usage_figures(data, choice), data)


def read_message(message: Mapping[str, Any]) -> AssistantMessage:
    """Decode a model's message in any known shape; unknown fields are stored so that they can be sent back."""
    calls = [read_call(call) for call in calls_in(message)]
    extra = {name: value for name, value in message.items() if name not in _MESSAGE_FIELDS and has_content(value)}
    content = message.get("content")
    if isinstance(content, list) and (reasoning := reasoning_parts(content)):
        extra[FIELD] = reasoning
    text = parsing.answer_text(content) or (_transcript(message) if "audio" in message else "")
    return parsing.assistant_message(text, calls, _reasoning(message), extra)


def _transcript(fields: Mapping[str, Any]) -> str:
    """The transcript of an audio response."""
    return parsing.text_of(parsing.dictionary(fields.get("audio")).get("transcript"))


def _reasoning(message: Mapping[str, Any]) -> str:
    if _ALL_REASONING_FIELDS.isdisjoint(message) and not isinstance(message.get("content"), list):
        return ""
    reasoning = next(filter(None, (parsing.reasoning_in_field(message.get(name)) for name in REASONING_FIELDS)), "")
    reasoning = reasoning or parsing.reasoning_of_details(message.get("reasoning_details"))
    return (
        reasoning
        or parsing.reasoning_of_parts(message.get("thinking_blocks"))
        or parsing.reasoning_of_parts(message.get("content"))
    )


def _first_choice(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The choice with the lowest index, if any. Raises the error that a choice can contain instead of a message."""
    choices = data.get("choices")
    single = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    choice = single if isinstance(single, dict) else _merge_choices(parsing.dictionaries(choices))
    if choice and choice.get("error"):
        raise error_from_body(choice)
    return choice


def _merge_choices(choices: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The choice with the lowest index. Some servers send tool calls as further choices, which are merged into it."""
    first = min(choices, key=_index, default=None)
    if first is None or first.get("finish_reason") != "tool_calls":
        return first
    messages = [_message_in(choice, "message", "delta") or {} for choice in choices if _index(choice) == _index(first)]
    calls = [call for message in messages for call in calls_in(message)]
    return {**first, "delta" if "delta" in first else "message": {**messages[0], "tool_calls": calls}}


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _message_in(choice: Mapping[str, Any], *names: str) -> dict[str, Any] | None:
    """The message or delta of a choice, under the first of `names` that it has; some servers send only a text."""
    for name in names:
        if isinstance(choice.get(name), dict):
            message: dict[str, Any] = choice[name]
            return message
    text = next((choice[name] for name in ("message", "text") if isinstance(choice.get(name), str)), None)
    return None if text is None else {"content": text}


def _usage_figures(data: Mapping[str, Any], choice: Mapping[str, Any] | None) -> dict[str, Any]:
    """The token counts, in any of the places where servers put them; empty if they are missing."""
    if not (data.get("usage") or data.get("x_groq") or (choice and choice.get("usage"))):
        return {}
    for container in (data, choice, data.get("x_groq")):
        figures = container.get("usage") if isinstance(container, dict) else None
        if figures and isinstance(figures, dict):
            return figures
    return {}


_usage = partial(
    parsing.usage_of,
    names=("prompt_tokens", "completion_tokens"),
    details=("prompt_tokens_details", "completion_tokens_details"),
)


class _Ending(NamedTuple):
    """The finish reasons of a response in lower case: the server's, and the one of the provider behind a router."""

    reason: str
    upstream: str


def _ending(choice: Mapping[str, Any]) -> _Ending:
    reasons = (parsing.word(choice.get(name)) for name in ("finish_reason", "native_finish_reason"))
    return _Ending(*(reason.lower().partition(":")[0] for reason in reasons))


def _response(
    message: AssistantMessage, ending: _Ending, figures: Mapping[str, Any], raw: Mapping[str, Any]
) -> Response:
    """The response. Raises ModelError if it was filtered or failed; routers report both as an error or emptiness."""
    reason, upstream = ending
    is_empty = not (message.text or message.tool_calls)
    is_failed = reason in _FAILED_REASONS or (is_empty and upstream in _FAILED_REASONS | _FILTERED_REASONS)
    if reason in _FILTERED_REASONS or (is_failed and upstream in _FILTERED_REASONS):
        raise filtered_error()
    if is_failed:
        raise unfinished_error(upstream or reason)
    finish: FinishReason = "length" if reason in parsing.CUT_SHORT else "tool_calls" if message.tool_calls else "stop"
    model, hosted = parsing.word(raw.get("model")), uses_in_message(message.extra) if message.extra else ()
    return Response(message, finish, _usage(figures), model, parsing.well_formed_json(raw), hosted=hosted)


class ChatReader:
    """Collects the chunks of one streamed response."""

    def __init__(self) -> None:
        self._text, self._reasoning, self._refusal = parsing.TextBuffer(), parsing.TextBuffer(), parsing.TextBuffer()
        self._splitter = ReasoningSplitter()
        self._calls = CallChunks()
        self._extra: dict[str, Any] = {}
        self._ending = _Ending("", "")
        self._has_choice = self._has_ended = False
        self._index = 0
        self._usage_figures: Mapping[str, Any] = {}
        self._raw: dict[str, Any] = {}

    @property
    def is_whole(self) -> bool:
        """Whether nothing can follow; in this protocol only the stream itself can mark its end."""
        return False

    @property
    def is_answered(self) -> bool:
        """Whether the response is complete; only token counts can follow."""
        return bool(self._ending.reason)

    @property
    def usage(self) -> Usage:
        """The token counts received so far."""
        return _usage(self._usage_figures)

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError if it is an error and the response is not complete yet."""
        if (
            not self._ending.reason or self._ending.reason in _FILTERED_REASONS | _FAILED_REASONS
        ):  # an error after the end is ignored
            raise_error_in(chunk)
        if chunk.get("model"):
            self._raw.update(chunk)
        else:  # chunks of Azure's content filter are otherwise blank and must not overwrite earlier values
            self._raw.update((name, value) for name, value in chunk.items() if value or name not in self._raw)
        choice = _first_choice(chunk)
        figures = _usage_figures(chunk, choice)
        self._usage_figures = figures if has_content(figures) else self._usage_figures or figures
        if choice is None:
            self._has_ended = self._has_ended or bool(figures)
            return ()
        if not self._has_choice:
            self._has_choice, self._index = True, _index(choice)
        return self._feed_choice(choice) if _index(choice) == self._index else ()

    def _feed_choice(self, choice: Mapping[str, Any]) -> list[Event]:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = self._message_without_delta(choice)
        calls, reason = calls_in(delta), choice.get("finish_reason")
        if reason:
            self._ending = _ending(choice)
        # An empty finish reason ends the response only if nothing follows; some servers send it with every chunk.
        is_blank_end = reason == "" and not delta.get("content") and not calls
        self._has_ended = bool(self._ending.reason) or (is_blank_end and self._has_answer())
        events = self._feed_text(delta)
        if calls:
            events += self._calls.feed(calls)
        if not _MESSAGE_FIELDS.issuperset(delta):
            self._feed_extra(delta)
        if reasoning := reasoning_parts(delta.get("content")):
            self._extra[FIELD] = join_parts(self._extra.get(FIELD, ()), reasoning)
        return events

    def _message_without_delta(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """The message of a choice without a delta; empty if it only repeats the whole response at its end."""
        message = _message_in(choice, "message") or {}
        return {} if choice.get("finish_reason") and self._is_repeated(message) else message

    def _is_repeated(self, message: Mapping[str, Any]) -> bool:
        """Whether a message repeats exactly what was received so far."""
        complete, received = (
            [(call.name, call.arguments) for call in calls]
            for calls in (map(read_call, calls_in(message)), self._calls.assembled())
        )
        _, text = ReasoningSplitter().split(parsing.answer_text(message.get("content")), is_last=True)
        is_same = text == str(self._text) and (complete == received or not complete)
        return is_same and self._has_answer()

    def _feed_extra(self, delta: Mapping[str, Any]) -> None:
        """Store unknown fields."""
        for name in delta.keys() - _MESSAGE_FIELDS:
            if has_content(delta[name]):
                self._extra[name] = parsing.merge_field(name, self._extra.get(name), delta[name])

    def _has_answer(self) -> bool:
        return bool(self._calls or self._text)

    def _feed_text(self, delta: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        reasoning_text, new_text = self._splitter.split(parsing.answer_text(delta.get("content")))
        reasoning_text = _reasoning(delta) + reasoning_text
        if reasoning_text and (reasoning := self._reasoning.add(reasoning_text)):
            events.append(ReasoningDelta(reasoning))
        if new_text and (text := self._text.add(new_text)):
            events.append(TextDelta(text))
        if refusal := delta.get("refusal"):
            self._refusal.add(parsing.text_of(refusal))
        return events

    def finish(self, *, closed: bool) -> Response:
        """The complete response. `closed` means that the server marked the end of its stream.

        Raises BadResponse if the stream was cut short, Rejected on a refusal.
        """
        if refusal := str(self._refusal):
            raise refusal_error(refusal)
        reasoning, new_text = self._splitter.split("", is_last=True)
        self._reasoning.add(reasoning)
        self._text.add(new_text)
        text = str(self._text) or _transcript(self._extra)
        if not (self._has_ended or closed):
            raise cut_short_error(len(text))
        if not (self._has_choice and (self._has_ended or text or self._reasoning or self._calls)):
            raise BadResponse("The stream ended without an answer. Try again.")
        message = parsing.assistant_message(text, self._calls.assembled(), str(self._reasoning), self._extra)
        raw = {name: value for name, value in self._raw.items() if name != "choices"}
        return _response(message, self._ending, self._usage_figures, raw)


_UNSENT_FIELDS = {"audio", "executed_tools", "channel", FIELD}
"""Fields of a response that are not sent back, such as OpenAI's audio and Groq's executed tools.

Reasoning parts of the content are sent back in the content.
"""

RESULT_CONTENT_PREFIX = "[The following content belongs to the result of"
"""The start of a user message with the images and files of a tool result."""


class ChatCompletions(WireProtocol):
    """The Chat Completions protocol, which nearly every server supports."""

    name = "chat"
    headers: Mapping[str, str] = {}
    streaming: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    error = staticmethod(error_from_body)
    decode = staticmethod(decode_answer)

    def url(self, _model: str, /, **_streaming: bool) -> str:
        """The path of a request, relative to the base URL."""
        return "/chat/completions"

    def encode(
        self, request: Request, model: str, *, strict: bool, cache: EncodingCache | None = None
    ) -> dict[str, Any]:
        """Encode a request as the body of a POST."""
        cache = cache or EncodingCache()
        encode = (
            _encode_with_reasoning if request.settings and server_reads_reasoning(request.settings) else _encode_message
        )
        messages = cache.entries(request.messages, encode)
        if len(messages) > len(request.messages):
            messages = _move_attachments_last(request.messages, messages)
        if request.instruction:
            messages.insert(0, EncodedEntry({"role": "system", "content": well_formed(request.instruction)}))
        body: dict[str, Any] = {"model": model, "messages": messages}
        if request.tools:
            body["tools"] = cache.entries(request.tools, _strict_tool if strict else _plain_tool)
        if request.output_schema:
            body["response_format"] = _response_format(request.output_schema)
        for name, value in request.settings.items():
            body[name] = _tool_choice(value) if name == "tool_choice" else value
        return body

    def reader(self) -> ChatReader:
        """Create a reader for one streamed response."""
        return ChatReader()


def encode_message(message: Message) -> dict[str, Any]:
    """Encode a message as a plain dictionary in the chat format."""
    match message:
        case UserMessage(content):
            name = {"name": message.name} if message.name else {}
            return {"role": "user", **name, "content": _ENCODERS.content(content)}
        case AssistantMessage():
            return _encode_answer(message, with_reasoning=bool(message.tool_calls))
        case ToolMessage(call_id):
            return {"role": "tool", "tool_call_id": call_id, "content": _ENCODERS.content(message.parts_content)}
    return {"role": "system", "content": well_formed(message.text)}


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _encode_image(image: Image) -> dict[str, Any]:
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def _encode_file(file: File) -> dict[str, Any]:
    """Encode a file. OpenAI does not accept a URL here; other servers accept it in place of the data."""
    return {"type": "file", "file": {"filename": file.file_name, "file_data": file.url}}


_ENCODERS = PartEncoders(_encode_text, _encode_image, _encode_file)


def _encode_answer(message: AssistantMessage, *, with_reasoning: bool) -> dict[str, Any]:
    """Encode a model's message; `with_reasoning` includes its reasoning.

    Some servers require reasoning with tool calls and reject it elsewhere. Fields that only describe the response are
    omitted: servers ignore or reject them.
    """
    extra: Mapping[str, Any] = message.extra
    if extra:
        unsent = _UNSENT_FIELDS if with_reasoning else _UNSENT_FIELDS.union(REASONING_FIELDS)
        extra = {name: value for name, value in extra.items() if name not in unsent}
    text = well_formed(message.text) or (None if message.tool_calls else "")
    reasoning = message.extra.get(FIELD) if with_reasoning else None
    content = [*reasoning, *([_encode_text(text)] if text else [])] if reasoning else text
    calls = {"tool_calls": [_encode_call(call) for call in message.tool_calls]} if message.tool_calls else {}
    name = {"name": message.name} if message.name else {}
    return {"role": "assistant", **name, "content": content, **extra, **calls}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": parsing.sendable_name(call.name), "arguments": parsing.sendable_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function, **call.extra}


def _encode_message(message: Message) -> tuple[dict[str, Any], ...]:
    """Encode a message. Tool results are text only in this protocol; their images and files go into a user message."""
    if not isinstance(message, ToolMessage) or not message.attachments:
        return (encode_message(message),)
    note = (
        f"{RESULT_CONTENT_PREFIX} the call {message.call_id} of {message.name or 'a tool'}, in its order. "
        "No user said this.]"
    )
    attachments = UserMessage((note, *message.attachments))
    return encode_message(replace(message, images=(), files=())), encode_message(attachments)


def _encode_with_reasoning(message: Message) -> tuple[dict[str, Any], ...]:
    """Like `_encode_message`, for a server that reads the reasoning of every message."""
    if isinstance(message, AssistantMessage):
        return (_encode_answer(message, with_reasoning=True),)
    return _encode_message(message)


def _move_attachments_last(messages: Sequence[Message], entries: Sequence[EncodedEntry]) -> list[EncodedEntry]:
    """Move the images and files of tool results after consecutive results, which must not be separated."""
    ordered: list[EncodedEntry] = []
    waiting: list[EncodedEntry] = []
    remaining = iter(entries)
    for message in messages:
        if not isinstance(message, ToolMessage):
            ordered += waiting
            waiting = []
        ordered.append(next(remaining))
        if isinstance(message, ToolMessage) and message.attachments:
            waiting.append(next(remaining))
    return ordered + waiting


def _plain_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if tool.hosted is not None:
        return (declaration_of(tool, ChatCompletions.name),)
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return ({"type": "function", "function": function},)


def _strict_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if (strict := tool.strict) is None:
        return _plain_tool(tool)
    function = {"name": tool.name, "description": tool.description, "parameters": strict}
    return ({"type": "function", "function": {**function, "strict": True}},)


def _response_format(output: OutputSchema) -> dict[str, Any]:
    strict = {"strict": True} if output.strict else {}
    return {"type": "json_schema", "json_schema": {"name": output.name, "schema": output.schema, **strict}}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, str) and choice not in {"auto", "none", "required"}:
        return {"type": "function", "function": {"name": choice}}
    return choice
