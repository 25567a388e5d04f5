"""Rendering of tools, calls, results and schemas as text (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.llm.compat import OF_TOOLS
from agentkit.llm.prompted_tools.arguments import input_of, text_parameter
from agentkit.llm.prompted_tools.markup import quoted
from agentkit.messages import AssistantMessage, Message, Request, ToolMessage, UserMessage, parts_of
from agentkit.text_encoding import split_lines

if TYPE_CHECKING:
    from agentkit.messages import Content, OutputSchema, ToolSpec

STOP = "<RESULT"
"""Stop sequence: anything after it would be an invented result."""

_MOST_STOPS = 4

_PROTOCOL = """\
# Tools

You can use the tools below. To use one, write this, exactly so and not in a code block:

<TOOL: NAME>input</TOOL>

Then stop writing. The next message brings you what came of it, as <RESULT: NAME>…</RESULT>. Never write a RESULT \
yourself. {several} When you need no tool, just answer, without any TOOL.

The tools:

{tools}"""

_SEVERAL = "You may use several tools at once, one after the other."
_ONE = "Use one tool at a time."

_NONE_LEFT = "Tools cannot be used now: answer from what you know and from the results so far, without any TOOL."

_SCHEMA = """\
# Answer

Your {answer} must be one JSON value that fits this JSON schema, with no code block and no words before or after it:

{schema}"""


def has_tools(request: Request) -> bool:
    """Whether a request has tools, or tool calls and results in its history."""
    return bool(request.tools) or any(
        isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls)
        for message in request.messages
    )


def is_single(request: Request) -> bool:
    """Whether the request allows at most one call per response."""
    return request.settings.get("parallel_tool_calls") is False


def tools_as_text(request: Request) -> Request:
    """The request without tools: described in the instruction, with calls and results in the history as text.

    Hosted tools are kept.
    """
    hosted = tuple(spec for spec in request.tools if spec.hosted is not None)
    request = replace(request, tools=tuple(spec for spec in request.tools if spec.hosted is None))
    specs = {spec.name: spec for spec in request.tools}
    parts = [request.instruction, _tools_part(request)]
    return replace(
        request,
        messages=_joined([_told(message, specs) for message in _named(request.messages)]),
        instruction="\n\n".join(filter(None, parts)),
        tools=hosted,
        settings=_settings(request.settings),
    )


def schema_as_text(request: Request, output: OutputSchema) -> Request:
    """The request without its output schema, which is described in the instruction instead."""
    part = _schema_part(output, beside_tools=bool(request.tools))
    instruction = "\n\n".join(filter(None, [request.instruction, part]))
    return replace(request, instruction=instruction, output_schema=None)


def _schema_part(output: OutputSchema, *, beside_tools: bool) -> str:
    answer = "final answer, the one without a TOOL," if beside_tools else "answer"
    return _SCHEMA.format(answer=answer, schema=json.dumps(output.schema, ensure_ascii=False))


def _tools_part(request: Request) -> str:
    choice = request.settings.get("tool_choice", "auto")
    if not request.tools or choice == "none":
        return _NONE_LEFT
    several = _ONE if is_single(request) else _SEVERAL
    text = _PROTOCOL.format(several=several, tools="\n".join(map(_described, request.tools)))
    if choice == "auto":
        return text
    name = choice if isinstance(choice, str) and choice != "required" else ""
    return f"{text}\n\nYou must use {f'the tool {name}' if name else 'a tool'} now."


def _described(spec: ToolSpec) -> str:
    """Describe a tool and its input for the instruction."""
    description = "\n  ".join(line for line in split_lines(spec.description) if line.strip())
    return f"- {spec.name}: {description}\n  {_described_input(spec)}"


def _described_input(spec: ToolSpec) -> str:
    properties: Mapping[str, Any] = spec.parameters.get("properties") or {}
    if not properties:
        return f"Input: none. <TOOL: {spec.name}></TOOL>"
    schema = json.dumps(spec.parameters, ensure_ascii=False)
    name = text_parameter(spec)
    if name is None:
        return f"Input: a JSON object that fits {schema}"
    about = properties[name].get("description") if isinstance(properties[name], Mapping) else None
    told = f"Input: {about or name}, as it is. <TOOL: {spec.name}>{name}</TOOL>"
    return told if len(properties) == 1 else f"{told} Or a JSON object that fits {schema}"


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those for tools, and with a stop sequence before the first invented result."""
    kept = {name: value for name, value in settings.items() if name not in OF_TOOLS}
    stops = kept.get("stop") or []
    stops = [stops] if isinstance(stops, str) else list(stops)
    return {**kept, "stop": [*stops, STOP]} if len(stops) < _MOST_STOPS else kept


def _named(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, with the name of the tool added to every result."""
    names: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            names.update((call.id, call.name) for call in message.tool_calls)
        if isinstance(message, ToolMessage) and not message.name:
            yield replace(message, name=names.get(message.call_id, "tool"))
        else:
            yield message


def _told(message: Message, specs: Mapping[str, ToolSpec]) -> Message:
    """Convert a message to text. Markup in results and user content is escaped, so that only real results have it."""
    match message:
        case ToolMessage(_, name, content):
            result = f"<RESULT: {quoted(name)}>\n{quoted(content)}\n</RESULT>"
            return UserMessage((result, *message.beside) if message.beside else result)
        case UserMessage(content):
            return UserMessage(_quoted_content(content))
        case AssistantMessage(text, (_, *_) as calls):
            told = [f"<TOOL: {call.name}>{input_of(call.arguments, specs.get(call.name))}</TOOL>" for call in calls]
            return AssistantMessage("\n".join(filter(None, [text, *told])))
    return message


def _quoted_content(content: Content) -> Content:
    if isinstance(content, str):
        return quoted(content)
    return tuple(quoted(part) if isinstance(part, str) else part for part in content)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Join consecutive user messages, because some models require alternating roles."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            joined[-1] = UserMessage(_both(last.content, message.content))
        else:
            joined.append(message)
    return joined


def _both(first: Content, second: Content) -> Content:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return (*parts_of(first), *parts_of(second))
