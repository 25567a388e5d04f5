"""An LLM that answers from a script and records requests."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from types import TracebackType
from typing import Any, Generic, Never, Self, TypeVar, cast

from agentkit.event_rendering import cut
from agentkit.events import Event, ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.embeddings import Embeddings
from agentkit.llm.endpoint import Endpoint
from agentkit.messages import AssistantMessage, FinishReason, Request, Response, ToolCall
from agentkit.testing.fake_embeddings import LENGTH, vector_of, words_in
from agentkit.usage import Usage, unreported

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


Line = Saying | BaseException | Callable[[Request], "Line"]
"""A line of a ScriptedLLM: what the model says, an exception to raise, or a function from the request to a line."""


class ScriptedProvider:
    """A provider that says its lines in order, one a request, and records the requests. Any thread may ask."""

    def __init__(self, *lines: Line, repeat: bool = False, model: str = "scripted") -> None:
        prepared = [line if is_function(line) else _prepared(line) for line in lines]
        self._script: Script[Request, object] = Script(prepared, _question, repeat=repeat)
        self._model = model

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order in which they came."""
        return self._script.requests

    def done(self) -> None:
        """Raise ScriptError when there are lines that nobody asked for."""
        self._script.done()

    def complete(self, request: Request) -> Response:
        """The next line. Raises the exception that the line is, or ScriptError when there is no line left."""
        schema, settings = request.output_schema, request.settings
        asked = Request(tuple(request.messages), request.instruction, request.tools, schema, settings)
        number, line = self._script.take(asked)
        said = _prepared(resolve(line, asked))
        if isinstance(said, BaseException):
            raise said.with_traceback(None)
        return with_call_ids(said if said.model else replace(said, model=self._model), number)

    async def acomplete(self, request: Request) -> Response:
        """Like `complete`; other tasks run first, as they do while a real model thinks."""
        from asyncio import sleep

        await sleep(0)
        return self.complete(request)

    def stream(self, request: Request) -> Iterator[Event]:
        """The next line in pieces, then whole."""
        response = self.complete(request)
        yield from _deltas(response)
        yield ResponseReceived(response)

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        """Like `stream`; other tasks run before each piece."""
        from asyncio import sleep

        for event in self.stream(request):
            await sleep(0)
            yield event

    def embed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """A vector of each text, the same each time, as a FakeServer makes them; no line is taken."""
        length = settings.get("dimensions", LENGTH)
        usage = Usage(input_tokens=sum(map(words_in, texts)), requests=1)
        return Embeddings([vector_of(text, length) for text in texts], self._model, usage)

    async def aembed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Like `embed`; other tasks run first."""
        from asyncio import sleep

        await sleep(0)
        return self.embed(texts, settings)


class ScriptedLLM(LLM):
    """An LLM that needs no network: it says its lines in order, one a request, and records the requests.

    A line is a text, `call(...)` or a list of them, `say(...)`, an `AssistantMessage` or a `Response`; an exception,
    which is raised; or a function from the `Request` to a line. With `repeat` the last line is said for ever.

        with ScriptedLLM(call("calculator", expression="2+2"), "It is 4.") as llm:
            agent = Agent("helper", core_tools, llm=llm)

    A request too many raises ScriptError, and so does the end of the block when lines are unsaid, unless the block
    failed by itself. Lines stream word by word; tool calls get ids such as `call_1_1`; a line costs 10 tokens in
    and 5 out unless it says otherwise. Vectors of texts need no line. `model` is the name that responses bear,
    `fallback` is as in `LLM`.
    """

    def __init__(
        self,
        *lines: Line,
        repeat: bool = False,
        model: str = "scripted",
        fallback: LLM | str | Sequence[LLM | str] | None = None,
    ) -> None:
        self._scripted = ScriptedProvider(*lines, repeat=repeat, model=model)
        super().__init__("scripted", model, fallback=fallback)

    def _connect(self) -> None:
        self._endpoint = Endpoint(provider="scripted", model=self._wishes.model or "")
        self._decided_by, self._ignored, self._behind = "the script", (), ()
        self._provider = self._scripted

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order in which they came."""
        return self._scripted.requests

    def done(self) -> None:
        """Raise ScriptError when there are lines that nobody asked for."""
        self._scripted.done()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.done()

    def __getstate__(self) -> Never:
        raise TypeError("A ScriptedLLM cannot be copied or pickled: two of them would say the same lines")


def _prepared(line: Any) -> Response | BaseException:
    return line if isinstance(line, BaseException) else response_of(line)


def _question(request: Request) -> str:
    return repr(request.messages[-1]) if request.messages else "nothing"


def _deltas(response: Response) -> Iterator[Event]:
    yield from (ReasoningDelta(piece) for piece in pieces(response.message.reasoning))
    yield from (TextDelta(piece) for piece in pieces(response.text))
    for index, call in enumerate(response.tool_calls):
        yield ToolCallDelta(index, call.name, "")
        yield from (ToolCallDelta(index, "", piece) for piece in pieces(call.arguments))
