"""What does an agent do when the model says exactly this? A scripted LLM."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Never, Self

from agentkit.events import Event, ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.embedding.vectors import Embeddings
from agentkit.llm.endpoint import Endpoint
from agentkit.messages import Request, Response
from agentkit.testing.script import Saying, Script, is_function, pieces, resolve, response_of, with_call_ids
from agentkit.testing.spelling import LENGTH, vector_of, words_in
from agentkit.usage import Usage

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
