"""An LLM that answers from a script, with deterministic embeddings; recording and replay of runs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from hashlib import blake2b
from os import PathLike
from os.path import lexists
from threading import Lock
from types import TracebackType
from typing import Any, Generic, Literal, Never, Self, TypeVar, cast

from agentkit.event_rendering import truncate
from agentkit.events import Event, ReasoningDelta, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.llm.client import LLM
from agentkit.llm.embeddings import Embeddings
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.prompted_tools.adapter import PromptedToolsProvider
from agentkit.messages import AssistantMessage, FinishReason, Request, Response, ToolCall
from agentkit.recording import active
from agentkit.sessions.cassettes.playback import Player
from agentkit.sessions.cassettes.recorder import Recorder
from agentkit.usage import Usage, unreported

LINE_USAGE = Usage(input_tokens=10, output_tokens=5, requests=1)
"""The default usage of a line."""

ModelAnswer = str | ToolCall | Sequence[ToolCall] | AssistantMessage | Response
"""A model's answer: a text, one or more tool calls, a message, or a whole response."""

_MAX_SHOWN = 10

_Asked = TypeVar("_Asked")
_Line = TypeVar("_Line")


class ScriptError(AssertionError):
    """The program deviated from the script: a request without a line, or a line without a request."""


def call(name: str, arguments: Mapping[str, Any] | str | None = None, /, **named: Any) -> ToolCall:
    """A line in which the model calls a tool: `call("calculator", expression="2+2")`.

    `arguments` is a dictionary, or JSON text that is sent unchanged, valid or not; `named` is merged into a dictionary.
    The call gets its id when the line is used: `call_{request}_{position}`, both counted from 1.
    """
    if isinstance(arguments, str):
        if named:
            raise TypeError("Pass the arguments as a string or by name, not both")
        return ToolCall("", name, arguments)
    if not isinstance(arguments, Mapping | None):
        raise TypeError(
            f'Arguments of a call must be passed by name: call("{name}", name=value). Got {arguments!r:.200}'
        )
    return ToolCall("", name, json.dumps({**(arguments or {}), **named}, ensure_ascii=False))


def say(
    text: str = "",
    *calls: ToolCall,
    reasoning: str = "",
    usage: Usage | None = LINE_USAGE,
    finish_reason: FinishReason | None = None,
    model: str = "",
) -> Response:
    """A line with everything that a model can return at once: text, tool calls, reasoning and usage.

    `usage=None` simulates a server that reports no usage. `finish_reason` defaults to one that fits the calls;
    `"length"` is an answer cut off at its token limit. `model` defaults to the requested model.
    """
    return Response(
        AssistantMessage(text, calls, reasoning),
        finish_reason or ("tool_calls" if calls else "stop"),
        usage or unreported(1),
        model,
    )


def to_response(answer: object) -> Response:
    """Convert a line to a response. Raises TypeError if the line is invalid."""
    match answer:
        case str():
            return say(answer)
        case ToolCall():
            return say("", answer)
        case AssistantMessage():
            return Response(answer, "tool_calls" if answer.tool_calls else "stop", LINE_USAGE)
        case Response():
            return answer
        case [ToolCall(), *_] if all(isinstance(entry, ToolCall) for entry in answer):
            return say("", *cast("Sequence[ToolCall]", answer))
    raise TypeError(
        f"{answer!r} is not a valid script line. A line is a string, call(...), a list of calls, say(...), an "
        "AssistantMessage, a Response, or a function from the request to a line."
    )


def with_call_ids(response: Response, number: int) -> Response:
    """The response to request `number`, with an id for every tool call that lacks one."""
    calls = tuple(
        entry if entry.id else replace(entry, id=f"call_{number}_{position}")
        for position, entry in enumerate(response.tool_calls, start=1)
    )
    message = replace(response.message, tool_calls=calls) if calls else response.message
    return replace(response, message=message)


def split_words(text: str) -> list[str]:
    """Split a text as it is streamed: word by word, each with the following space."""
    return re.findall(r"\s*\S+\s*|\s+", text)


def is_function(line: object) -> bool:
    """Whether a line is a function from the request to a line."""
    return callable(line) and not isinstance(line, type)


def resolve(line: object, request: object) -> object:
    """Return the line, or the result of its function for the request."""
    while is_function(line):
        line = cast("Callable[[object], object]", line)(request)
    return line


def describe(line: object) -> str:
    """Render a line in at most a hundred characters."""
    if isinstance(line, Response):
        words = [repr(line.text)] if line.text or not line.tool_calls else []
        text = ", ".join(words + [f"{entry.name}({entry.arguments})" for entry in line.tool_calls])
    else:
        text = f"{getattr(line, '__name__', 'function')}(request)" if is_function(line) else repr(line)
    return truncate(text, 100)


class Script(Generic[_Asked, _Line]):
    """Lines that are used in order, one per request, from any thread; with `repeat` the last one is repeated forever.

    `question` renders a request for error messages.
    """

    def __init__(self, lines: Iterable[_Line], question: Callable[[_Asked], str], *, repeat: bool = False) -> None:
        self.requests: list[_Asked] = []
        self._lines = tuple(lines)
        self._question = question
        self._repeat = repeat
        self._used = 0
        self._lock = Lock()
        if repeat and not self._lines:
            raise ValueError("The script has no line to repeat")

    def take(self, request: _Asked) -> tuple[int, _Line]:
        """The number of the request, counted from 1, and its line. Raises ScriptError if all lines are used."""
        with self._lock:
            self.requests.append(request)
            self._used += 1
            number = self._used
        if number > len(self._lines) and not self._repeat:
            raise ScriptError(
                f"The script has no line for request {number}; it has {len(self._lines)}.\n"
                f"  asked: {truncate(self._question(request), 400)}\n{self._list_lines(0)}"
            )
        return number, self._lines[min(number, len(self._lines)) - 1]

    def done(self) -> None:
        """Raise ScriptError if lines are unused; a script that repeats its last line fits any number of requests."""
        if self._used < len(self._lines) and not self._repeat:
            raise ScriptError(
                f"Only {self._used} of the script's {len(self._lines)} lines were used. Unused:\n"
                f"{self._list_lines(self._used)}"
            )

    def _list_lines(self, first: int) -> str:
        last = first + _MAX_SHOWN
        lines = [
            f"  {number}. {describe(line)}" for number, line in enumerate(self._lines[first:last], start=first + 1)
        ]
        if len(self._lines) > last:
            lines.append(f"  … and {len(self._lines) - last} more")
        return "\n".join(lines or ["  (the script is empty)"])


Line = ModelAnswer | BaseException | Callable[[Request], "Line"]
"""A line of a ScriptedLLM: the model's answer, an exception to raise, or a function from the request to a line."""


class ScriptedProvider:
    """A provider that answers each request with its next line, and records the requests. It is thread-safe."""

    def __init__(self, *lines: Line, repeat: bool = False, model: str = "scripted") -> None:
        prepared = [line if is_function(line) else _to_answer(line) for line in lines]
        self._script: Script[Request, object] = Script(prepared, _question, repeat=repeat)
        self._model = model

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in the order in which they came."""
        return self._script.requests

    def done(self) -> None:
        """Raise ScriptError if lines are unused."""
        self._script.done()

    def complete(self, request: Request) -> Response:
        """Return the next line. Raises the line if it is an exception, or ScriptError if all lines are used."""
        schema, settings = request.output_schema, request.settings
        asked = Request(tuple(request.messages), request.instruction, request.tools, schema, settings)
        number, line = self._script.take(asked)
        said = _to_answer(resolve(line, asked))
        if isinstance(said, BaseException):
            raise said.with_traceback(None)
        return with_call_ids(said if said.model else replace(said, model=self._model), number)

    async def acomplete(self, request: Request) -> Response:
        """Like `complete`, but yield to other tasks first, as with a real model."""
        from asyncio import sleep

        await sleep(0)
        return self.complete(request)

    def stream(self, request: Request) -> Iterator[Event]:
        """Yield the next line as deltas, then the whole response."""
        response = self.complete(request)
        yield from _deltas(response)
        yield ResponseReceived(response)

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        """Like `stream`, but yield to other tasks before each event."""
        from asyncio import sleep

        for event in self.stream(request):
            await sleep(0)
            yield event

    def embed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Embed texts as deterministic vectors, as a FakeServer does; no line is used."""
        length = settings.get("dimensions", VECTOR_LENGTH)
        usage = Usage(input_tokens=sum(map(count_words, texts)), requests=1)
        return Embeddings([deterministic_vector(text, length) for text in texts], self._model, usage)

    async def aembed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Like `embed`, but yield to other tasks first."""
        from asyncio import sleep

        await sleep(0)
        return self.embed(texts, settings)


class ScriptedLLM(LLM):
    """An LLM without network access that answers each request with its next line, and records requests.

    A line is a text, `call(...)` or a list of them, `say(...)`, an `AssistantMessage` or a `Response`; an exception,
    which is raised; or a function from the `Request` to a line. With `repeat` the last line is repeated forever.

        with ScriptedLLM(call("calculator", expression="2+2"), "It is 4.") as llm:
            agent = Agent("helper", core_tools, llm=llm)

    A request beyond the last line raises ScriptError, and so does the end of the block if lines are unused, unless the
    block itself raised. Lines are streamed word by word; tool calls get ids such as `call_1_1`; a line counts as 10
    input and 5 output tokens by default. Embeddings use no line. `model` is the model name in responses, `fallback` is
    as in `LLM`.
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
        self._endpoint = Endpoint(provider="scripted", model=self._arguments.model or "")
        self._decided_by, self._ignored, self._environment_names = "the script", (), ()
        self._provider = self._scripted

    def with_text_tools(self) -> Self:
        """Return a client with the same script that describes tools as text, and allows one call in each response."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _settings={**self._settings, "parallel_tool_calls": False})
        other._provider = PromptedToolsProvider(self._scripted, "text")
        return other

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in the order in which they came."""
        return self._scripted.requests

    def done(self) -> None:
        """Raise ScriptError if lines are unused."""
        self._scripted.done()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.done()

    def __getstate__(self) -> Never:
        raise TypeError("A ScriptedLLM cannot be copied or pickled: the copies would return the same lines")


def _to_answer(line: Any) -> Response | BaseException:
    return line if isinstance(line, BaseException) else to_response(line)


def _question(request: Request) -> str:
    return repr(request.messages[-1]) if request.messages else "nothing"


def _deltas(response: Response) -> Iterator[Event]:
    yield from (ReasoningDelta(piece) for piece in split_words(response.message.reasoning))
    yield from (TextDelta(piece) for piece in split_words(response.text))
    for index, call in enumerate(response.tool_calls):
        yield ToolCallDelta(index, call.name, "")
        yield from (ToolCallDelta(index, "", piece) for piece in split_words(call.arguments))


VECTOR_LENGTH = 64
"""The default number of dimensions."""

_PIECE_CHARS = 4


def deterministic_vector(text: str, length: int = VECTOR_LENGTH) -> list[float]:
    """A deterministic unit vector of a text. Texts that share words, or most of their letters, have similar vectors."""
    numbers = [0.0] * length
    for piece, times in Counter(_letter_groups(text.lower()) or [text]).items():
        found = int.from_bytes(blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        numbers[(found >> 1) % length] += times if found & 1 else -times
    size = math.hypot(*numbers)
    return [number / size for number in numbers] if size else [1.0, *numbers[1:]]


def count_words(text: str) -> int:
    """The number of words in a text, used as its token count."""
    return len(re.findall(r"\w+", text)) or 1


def _letter_groups(text: str) -> list[str]:
    words = [f" {word} " for word in re.findall(r"\w+", text)]
    return [word[at : at + _PIECE_CHARS] for word in words for at in range(max(1, len(word) - _PIECE_CHARS + 1))]


_Cassette = TypeVar("_Cassette", Recorder, Player, Recorder | Player)

Mode = Literal["none", "once", "all"]
"""Always replay; record if the cassette does not exist; always record."""


def record(path: str | PathLike[str]) -> AbstractContextManager[Recorder]:
    """Record the answers of models, tools and people in the block in the cassette `path`, in async code too.

    At the end of the block the cassette replaces an older one; if the block raises, the older one stays, and the
    recording is next to it as `PATH.part`. Secrets are redacted. Raises SessionError if it cannot be written.
    """
    return activated(Recorder(path))


def replay(path: str | PathLike[str], *, partial: bool = False) -> AbstractContextManager[Player]:
    """Answer the requests of the block from the cassette `path`, in async code too: without model, network or key.

    Raises ReplayError if a request differs from the recording, and at the end of the block if recorded answers are
    unused, unless `partial`; SessionError if the cassette cannot be read.
    """
    return activated(Player(path, partial=partial))


def record_or_replay(path: str | PathLike[str], mode: Mode = "once") -> AbstractContextManager[Recorder | Player]:
    """`record` or `replay`, depending on the mode."""
    return activated(open_cassette(path, mode))


def open_cassette(path: str | PathLike[str], mode: Mode) -> Recorder | Player:
    """Create the recorder or player for the mode."""
    is_recorded = mode == "all" or (mode == "once" and not lexists(path))
    return Recorder(path) if is_recorded else Player(path)


@contextmanager
def activated(tape: _Cassette) -> Iterator[_Cassette]:
    """Activate a recorder or player for the block, and finish it at the end."""
    try:
        with active(tape):
            yield tape
    except BaseException as error:
        tape.finish(keep=False)
        if tape.divergence is not None and tape.divergence is not error:
            error.add_note(str(tape.divergence))
        raise
    tape.finish()
