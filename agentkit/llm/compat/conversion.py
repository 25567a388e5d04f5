"""Conversion of requests to the form that a receiver accepts, and of its responses back (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.events import Event, TextDelta, ToolCallDelta
from agentkit.llm.compat.schemas import SchemaRewriter
from agentkit.llm.pipeline import Steps, mapped
from agentkit.llm.protocols.parsing import json_or_text, sendable_name
from agentkit.messages import (
    AssistantMessage,
    Message,
    OutputSchema,
    Request,
    Response,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

if TYPE_CHECKING:
    from agentkit.llm.compat.receivers import Receiver

_MAX_CACHED = 2_000
_DIGEST_CHARS = 8
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_CONTENTS = frozenset({"output", "content", "parts"})
"""Keys of original contents in `extra`, in any protocol."""

_PARTICIPANT = r"[^\s<|\\/>]{1,64}"
_CUT = " […] (continued in the instruction)"
_CONTINUED = "The description of the tool {name} continues:"


def sendable_id(call_id: str, pattern: str, chars: int) -> str:
    """A tool-call id that matches `pattern`: the id itself, or else one of at most `chars` characters derived from it.

    Equal ids have equal replacements, so that results still belong to their calls.
    """
    if re.fullmatch(pattern, call_id):
        return call_id
    from hashlib import sha256

    number = int.from_bytes(sha256(call_id.encode("utf-8", "surrogatepass")).digest(), "big")
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[: chars - _DIGEST_CHARS - 1]
    named = f"{readable}_{_in_digits(number, _DIGEST_CHARS)}"
    return named if re.fullmatch(pattern, named) else _in_digits(number, chars)


def _in_digits(number: int, count: int) -> str:
    digits = []
    for _ in range(count):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


@dataclass(frozen=True, slots=True)
class _ConvertedTool:
    """A tool as sent, the rest of a description that is too long, and original names by sent names of properties."""

    spec: ToolSpec
    rest: str
    renamed: Mapping[str, str]


class Converter:
    """Converts requests for one receiver. Converted tools are cached, so that their encodings can be, too.

    `origin` identifies the endpoint: data of other providers in messages is not sent to it.
    """

    def __init__(self, receiver: Receiver, origin: str = "") -> None:
        self.receiver, self._origin = receiver, origin
        self._tools: dict[int, tuple[ToolSpec, _ConvertedTool]] = {}
        self._outputs: dict[int, tuple[OutputSchema, OutputSchema, Mapping[str, str]]] = {}

    def message(self, message: Message | ToolSpec) -> Message | ToolSpec:
        """A message with ids that the receiver accepts, and without the data of other providers."""
        if isinstance(message, ToolMessage):
            call_id = self._id(message.call_id)
            return message if call_id == message.call_id else replace(message, call_id=call_id)
        if isinstance(message, UserMessage) and message.name and not self._takes(message.name):
            content = message.content
            named = f"{message.name}: {content}" if isinstance(content, str) else (f"{message.name}:", *content)
            return replace(message, content=named, name="")
        return self._answer(message) if isinstance(message, AssistantMessage) else message

    def _answer(self, message: AssistantMessage) -> AssistantMessage:
        if message.origin != self._origin and (message.extra or any(call.extra for call in message.tool_calls)):
            calls = tuple(replace(call, extra={}) for call in message.tool_calls)
            message = replace(message, extra={}, tool_calls=calls)
        if message.name and not self._takes(message.name):
            message = replace(message, name="")
        calls = tuple(replace(call, id=self._id(call.id)) for call in message.tool_calls)
        return message if calls == message.tool_calls else replace(message, tool_calls=calls)

    def _is_empty(self, message: Message) -> bool:
        """Whether nothing of a model's message is sent: no text, no calls, no data; many servers refuse it then."""
        if not isinstance(message, AssistantMessage) or message.tool_calls or message.text.strip():
            return False
        return message.origin != self._origin or _CONTENTS.isdisjoint(message.extra)

    def _takes(self, name: str) -> bool:
        """Whether a participant's name can be sent in a field."""
        return self.receiver.message_names and re.fullmatch(_PARTICIPANT, name) is not None

    def _id(self, call_id: str) -> str:
        return sendable_id(call_id, self.receiver.call_ids, self.receiver.call_id_chars)

    def request(self, request: Request) -> Request:
        """The request with tools, schemas and names that the receiver accepts, and without empty assistant messages."""
        changed: dict[str, Any] = {}
        # An inline check, because it runs over the whole conversation at each request.
        answers = (each for each in request.messages if type(each) is AssistantMessage and not each.tool_calls)
        if any(map(self._is_empty, answers)):
            changed["messages"] = [message for message in request.messages if not self._is_empty(message)]
        if request.tools:
            tools = [self._tool(tool) for tool in request.tools]
            changed["tools"] = tuple(tool.spec for tool in tools)
            if any(tool.rest for tool in tools):
                changed["instruction"] = _with_rests(request.instruction, tools)
        if request.output_schema:
            changed["output_schema"] = self._output(request.output_schema)[1]
        names = self._names(request)
        if names:
            changed |= names.outgoing(changed.get("messages", request.messages), request.settings)
        return replace(request, **changed) if changed else request

    def restored(self, request: Request, steps: Steps[Response], *, streaming: bool) -> Steps[Response]:
        """The steps that answer a request, with the original names in their events and in the response."""
        names = self._names(request)
        if names is None:
            return (yield from steps)
        restoration = Restoration(names)
        response = yield from mapped(steps, restoration.events)
        if streaming:
            yield from restoration.flush()
        return restoration.response(response)

    def _names(self, request: Request) -> _ReceiverNames | None:
        """The names that were changed in a request; None, as usual, if no name was changed."""
        tools = [self._tool(tool) for tool in request.tools]
        properties = {sent: name for tool in tools for sent, name in tool.renamed.items()}
        renamed = zip(request.tools, tools, strict=True)
        names = {tool.spec.name: given.name for given, tool in renamed if tool.spec.name != given.name}
        answers = self._output(request.output_schema)[2] if request.output_schema else {}
        return _ReceiverNames(names, properties, answers) if names or properties or answers else None

    def _tool(self, tool: ToolSpec) -> _ConvertedTool:
        found = self._tools.get(id(tool))
        if found is None:
            if len(self._tools) > _MAX_CACHED:
                self._tools = {}
            found = self._tools[id(tool)] = tool, self._converted(tool)
        return found[1]

    def _converted(self, tool: ToolSpec) -> _ConvertedTool:
        if tool.hosted is not None:
            return _ConvertedTool(tool, "", {})
        receiver, rewriter = self.receiver, SchemaRewriter(self.receiver)
        parameters, note = rewriter.arguments(tool.parameters)
        strict = None
        if tool.strict_parameters is not None and tool.name not in receiver.lenient_tools and not note:
            strict = rewriter.whole(tool.strict_parameters)
        description, rest = _divided(" ".join(filter(None, (tool.description, note))), receiver.description_chars)
        name = tool.name if re.fullmatch(receiver.tool_names, tool.name) else _tool_name(tool.name, receiver.tool_names)
        given = (tool.name, tool.description, tool.parameters, tool.strict_parameters)
        if (name, description, parameters, strict) == given:
            return _ConvertedTool(tool, "", {})
        return _ConvertedTool(ToolSpec(name, description, parameters, strict), rest, rewriter.renamed)

    def _output(self, output: OutputSchema) -> tuple[OutputSchema, OutputSchema, Mapping[str, str]]:
        found = self._outputs.get(id(output))
        if found is None:
            if len(self._outputs) > _MAX_CACHED:
                self._outputs = {}
            rewriter = SchemaRewriter(self.receiver)
            schema = rewriter.whole(output.schema)
            strict = output.strict and not self.receiver.lenient_answers
            is_same = schema == output.schema and strict == output.strict
            sent = output if is_same else OutputSchema(output.name, schema, strict)
            found = self._outputs[id(output)] = output, sent, rewriter.renamed
        return found


def _divided(text: str, most: int) -> tuple[str, str]:
    """The part of a description that a server accepts, cut between words, and the rest."""
    if not most or len(text) <= most:
        return text, ""
    head = text[: most - len(_CUT)]
    end = head.rfind(" ")
    head = head[:end] if end > most // 2 else head
    return f"{head}{_CUT}", text[len(head) :].strip()


def _with_rests(instruction: str, tools: Iterable[_ConvertedTool]) -> str:
    """The instruction, followed by the rests of descriptions that are too long."""
    rests = [f"{_CONTINUED.format(name=tool.spec.name)}\n{tool.rest}" for tool in tools if tool.rest]
    return "\n\n".join(filter(None, [instruction, *rests]))


def _tool_name(name: str, pattern: str) -> str:
    """A tool name that matches `pattern`, with a digest so that names stay distinct."""
    from hashlib import sha256

    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    shortened = f"{sendable_name(name)[: 63 - _DIGEST_CHARS - 1]}_{digest}"
    return shortened if re.fullmatch(pattern, shortened) else f"t_{shortened}"[:63]


class _ReceiverNames:
    """The names changed in a request: original names by sent names of tools, of properties, and in the answer."""

    def __init__(self, tools: Mapping[str, str], properties: Mapping[str, str], answers: Mapping[str, str]) -> None:
        self.tools, self.properties, self.answers = tools, properties, answers
        self._sent_tools = {name: sent for sent, name in tools.items()}
        self._sent_properties = {name: sent for sent, name in properties.items()}

    def outgoing(self, messages: Sequence[Message], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The changed fields of a request whose messages and settings use the original names."""
        changed: dict[str, Any] = {"messages": [self._sent_message(message) for message in messages]}
        choice = settings.get("tool_choice")
        if isinstance(choice, str) and choice in self._sent_tools:
            changed["settings"] = {**settings, "tool_choice": self._sent_tools[choice]}
        return changed

    def _sent_message(self, message: Message) -> Message:
        if isinstance(message, ToolMessage) and message.name in self._sent_tools:
            return replace(message, name=self._sent_tools[message.name])
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            return message
        calls = tuple(map(self._sent_call, message.tool_calls))
        return message if calls == message.tool_calls else replace(message, tool_calls=calls)

    def _sent_call(self, call: ToolCall) -> ToolCall:
        arguments = call.arguments
        if any(name in arguments or json.dumps(name)[1:-1] in arguments for name in self._sent_properties):
            parsed = json_or_text(arguments)
            if not isinstance(parsed, str):
                arguments = json.dumps(_renamed(parsed, self._sent_properties), ensure_ascii=False)
        return replace(call, name=self._sent_tools.get(call.name, call.name), arguments=arguments)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A JSON value with keys replaced at every level."""
    if isinstance(value, dict):
        return {names.get(name, name): _renamed(inner, names) for name, inner in value.items()}
    return [_renamed(each, names) for each in value] if isinstance(value, list) else value


class Restoration:
    """Restores the original names in a response: of tools, of properties in arguments, and of those in an answer."""

    def __init__(self, names: _ReceiverNames) -> None:
        self._names = names
        self._text = _KeyReplacer(names.answers)
        self._calls: dict[int, _KeyReplacer] = {}

    def response(self, response: Response) -> Response:
        """The response with the original names."""
        message = response.message
        calls = tuple(map(self._call, message.tool_calls))
        text = _KeyReplacer(self._names.answers).whole(message.text)
        return replace(response, message=replace(message, text=text, tool_calls=calls))

    def _call(self, call: ToolCall) -> ToolCall:
        arguments = _KeyReplacer(self._names.properties).whole(call.arguments)
        return replace(call, name=self._names.tools.get(call.name, call.name), arguments=arguments)

    def events(self, event: Event) -> Iterator[Event]:
        """The events to emit for an event; text that could be the start of a changed name is held back."""
        if isinstance(event, TextDelta):
            if text := self._text.feed(event.text):
                yield TextDelta(text)
        elif isinstance(event, ToolCallDelta):
            replacer = self._calls.setdefault(event.index, _KeyReplacer(self._names.properties))
            name = self._names.tools.get(event.name, event.name)
            yield replace(event, name=name, arguments=replacer.feed(event.arguments))
        else:
            yield event

    def flush(self) -> Iterator[Event]:
        """The events for the text that was held back."""
        if text := self._text.flush():
            yield TextDelta(text)
        yield from (ToolCallDelta(at, "", rest) for at, each in self._calls.items() if (rest := each.flush()))


class _KeyReplacer:
    """Replaces quoted names in JSON text, whole or in chunks."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._by_token = {f'"{sent}"': json.dumps(name, ensure_ascii=False) for sent, name in names.items()}
        self._longest = max(map(len, self._by_token), default=0)
        self._pattern = re.compile("|".join(map(re.escape, self._by_token)))
        self._held = ""

    def whole(self, text: str) -> str:
        """The text with all names replaced."""
        return self._pattern.sub(lambda found: self._by_token[found[0]], text) if self._by_token else text

    def feed(self, piece: str) -> str:
        """The text that is certain after another chunk."""
        if not self._by_token:
            return piece
        text = self._held + piece
        starts = (at for at in range(max(len(text) - self._longest + 1, 0), len(text)) if text[at] == '"')
        end = next((at for at in starts if self._is_start(text[at:])), len(text))
        self._held = text[end:]
        return self.whole(text[:end])

    def flush(self) -> str:
        """The text held back."""
        held, self._held = self._held, ""
        return held

    def _is_start(self, text: str) -> bool:
        return any(token.startswith(text) and token != text for token in self._by_token)
