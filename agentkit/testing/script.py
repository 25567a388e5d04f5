"""What are the lines of a script, and in which order are they said?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Generic, TypeVar, cast

from agentkit.messages import AssistantMessage, FinishReason, Response, ToolCall
from agentkit.usage import Usage, unreported
from agentkit.wording import cut

LINE_USAGE = Usage(input_tokens=10, output_tokens=5, requests=1)
"""What a line costs that does not say what it costs."""

Saying = str | ToolCall | Sequence[ToolCall] | AssistantMessage | Response
"""What a model may say: a text, a tool call or several, a message, or a whole response."""

_MAX_SHOWN = 10

_Asked = TypeVar("_Asked")
_Line = TypeVar("_Line")


class ScriptError(AssertionError):
    """The program did not keep to the script: a question too many, or a line that was never asked for."""


def call(name: str, arguments: Mapping[str, Any] | str | None = None, /, **named: Any) -> ToolCall:
    """A line in which the model calls a tool: `call("calculator", expression="2+2")`.

    `arguments` is a dictionary, or JSON text that is said verbatim, right or wrong; `named` is merged into a
    dictionary. The call gets its id when the line is said: `call_{request}_{position}`, both counted from 1.
    """
    if isinstance(arguments, str):
        if named:
            raise TypeError("Give the arguments as a text or by name, not both")
        return ToolCall("", name, arguments)
    if not isinstance(arguments, Mapping | None):
        raise TypeError(f'The arguments of a call have names: call("{name}", name=value). Got {arguments!r:.200}')
    return ToolCall("", name, json.dumps({**(arguments or {}), **named}, ensure_ascii=False))


def say(
    text: str = "",
    *calls: ToolCall,
    reasoning: str = "",
    usage: Usage | None = LINE_USAGE,
    finish_reason: FinishReason | None = None,
    model: str = "",
) -> Response:
    """A line with all that a model can say at once: text, tool calls, reasoning and what it cost.

    `usage=None` is a server that reports no figures. `finish_reason` follows from the calls unless it is given;
    `"length"` is an answer cut off at its token limit. `model` is the model that was asked for unless it is given.
    """
    return Response(
        AssistantMessage(text, calls, reasoning),
        finish_reason or ("tool_calls" if calls else "stop"),
        usage or unreported(1),
        model,
    )


def response_of(saying: object) -> Response:
    """The response that a line stands for. Raises TypeError for what no model can say."""
    match saying:
        case str():
            return say(saying)
        case ToolCall():
            return say("", saying)
        case AssistantMessage():
            return Response(saying, "tool_calls" if saying.tool_calls else "stop", LINE_USAGE)
        case Response():
            return saying
        case [ToolCall(), *_] if all(isinstance(entry, ToolCall) for entry in saying):
            return say("", *cast("Sequence[ToolCall]", saying))
    raise TypeError(
        f"{saying!r} is no line of a script. A line is a text, call(...), a list of calls, say(...), an "
        "AssistantMessage, a Response, or a function from the request to a line."
    )


def with_call_ids(response: Response, number: int) -> Response:
    """The response to request `number` with an id on every tool call that has none."""
    calls = tuple(
        entry if entry.id else replace(entry, id=f"call_{number}_{position}")
        for position, entry in enumerate(response.tool_calls, start=1)
    )
    message = replace(response.message, tool_calls=calls) if calls else response.message
    return replace(response, message=message)


def pieces(text: str) -> list[str]:
    """The text as it is streamed: word by word, each with the space that follows it."""
    return re.findall(r"\s*\S+\s*|\s+", text)


def is_function(line: object) -> bool:
    """Whether a line is a function that makes the line from the request."""
    return callable(line) and not isinstance(line, type)


def resolve(line: object, request: object) -> object:
    """The line itself, or what the function that stands for it makes of the request."""
    while is_function(line):
        line = cast("Callable[[object], object]", line)(request)
    return line


def describe(line: object) -> str:
    """A line in at most a hundred characters."""
    if isinstance(line, Response):
        words = [repr(line.text)] if line.text or not line.tool_calls else []
        text = ", ".join(words + [f"{entry.name}({entry.arguments})" for entry in line.tool_calls])
    else:
        text = f"{getattr(line, '__name__', 'function')}(request)" if is_function(line) else repr(line)
    return cut(text, 100)


class Script(Generic[_Asked, _Line]):
    """Lines that are said in order, one a request, whatever thread asks; with `repeat` the last one for ever.

    `question` puts into words what a request asks.
    """

    def __init__(self, lines: Iterable[_Line], question: Callable[[_Asked], str], *, repeat: bool = False) -> None:
        self.requests: list[_Asked] = []
        self._lines = tuple(lines)
        self._question = question
        self._repeat = repeat
        self._taken = 0
        self._lock = Lock()
        if repeat and not self._lines:
            raise ValueError("There is no line to repeat")

    def take(self, request: _Asked) -> tuple[int, _Line]:
        """The number of the request, counted from 1, and its line. Raises ScriptError when all lines are said."""
        with self._lock:
            self.requests.append(request)
            self._taken += 1
            number = self._taken
        if number > len(self._lines) and not self._repeat:
            raise ScriptError(
                f"Request {number} finds no line: the script has {len(self._lines)}.\n"
                f"  asked: {cut(self._question(request), 400)}\n{self._shown(0)}"
            )
        return number, self._lines[min(number, len(self._lines)) - 1]

    def done(self) -> None:
        """Raise ScriptError when there are lines that nobody asked for."""
        if self._taken < len(self._lines):
            raise ScriptError(
                f"Only {self._taken} of the script's {len(self._lines)} lines were asked for. Unsaid:\n"
                f"{self._shown(self._taken)}"
            )

    def _shown(self, first: int) -> str:
        last = first + _MAX_SHOWN
        lines = enumerate(self._lines[first:last], start=first + 1)
        shown = [f"  {number}. {describe(line)}" for number, line in lines]
        if len(self._lines) > last:
            shown.append(f"  … and {len(self._lines) - last} more")
        return "\n".join(shown or ["  (the script is empty)"])
