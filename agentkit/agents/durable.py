"""Durable functions: steps and runs of agents are stored once, and not repeated when the function runs again."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import math
import textwrap
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, contextmanager
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, cast, get_type_hints, overload

from agentkit._dataclass import dataclass
from agentkit.agents.budget import Spending
from agentkit.agents.options import Prompt, content_from
from agentkit.agents.prompt_run import answers_under, rebuild_result
from agentkit.agents.result import Pending, Resumption, RunFinished, RunResult
from agentkit.agents.run_config import DURABLE, LINEAGE, BatchScope, BudgetScope, DurableScope
from agentkit.agents.runner import Runner
from agentkit.errors import ConfigError, ModelError, RunError, SessionError, StepFailed
from agentkit.event_rendering import error_text
from agentkit.events import (
    Event,
    FunctionStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    StepRecorded,
    StoredEvent,
    ToolCallFinished,
)
from agentkit.llm.pricing import cost_of
from agentkit.sessions.session import Session, entries_of_run
from agentkit.sessions.state import RunState
from agentkit.sessions.store import SessionEntry, SessionStore
from agentkit.tooling.output_types import OutputType
from agentkit.tooling.signature import is_asynchronous
from agentkit.usage import NO_USAGE, UNLIMITED, Limits, Usage

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_PLAIN = (None, type(None), Any, inspect.Parameter.empty)
"""Annotations of values that are stored as plain JSON."""

_ASK, _WAIT = "ask_person", "wait_until"


_SAME_STEPS = (
    "A durable function must take the same steps each time: move values that differ between runs, such as the time, "
    "into a step."
)


class _Pause(BaseException):
    """Leaves a function that must wait. A function that handles every Exception does not stop it."""


@dataclass(frozen=True, slots=True)
class DurableResult(Generic[T]):
    """The result of a durable function. `status` is `paused` while it waits for a person, or for the time `until`.

    `pending` lists the questions and the calls of agents that wait; `usage` is that of all agents so far.
    """

    status: Literal["done", "paused"]
    value: T | None
    session: str
    pending: tuple[Pending, ...] = ()
    until: datetime | None = None
    usage: Usage = NO_USAGE

    @property
    def output(self) -> T:
        """The returned value. Raises RunError while the function waits."""
        if self.status != "done":
            waits = "; ".join(each.question for each in self.pending) or f"until {self.until}"
            raise RunError(f"The function is waiting: {waits}. Continue with resume({self.session!r}, answers).", self)
        return cast("T", self.value)


class DurableFunction(Generic[P, R]):
    """A function made durable by `@durable`. A plain call of it stores nothing."""

    def __init__(self, function: Callable[P, R], version: str, limits: Limits | None, max_wait_seconds: float) -> None:
        functools.update_wrapper(self, function)
        self.function, self.name = function, function.__qualname__
        self.version = version or _version_of(function)
        self.limits = limits or UNLIMITED
        self.max_wait_seconds = 0.0 if is_asynchronous(function) else max_wait_seconds

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function without a session: its steps are called, and nothing is stored."""
        return self.function(*args, **kwargs)

    def run(self, session: Session | str, /, *args: P.args, **kwargs: P.kwargs) -> DurableResult[Any]:
        """Run the function in a stored session, or continue it where it was cut off; a finished one returns its result.

        Raises what the function raises: run again, it continues before the step that failed. Raises SessionError if the
        session belongs to another function, version or arguments, or if another process runs it.
        """
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        return self._run(session, bound.arguments)

    def resume(self, session: Session | str, /, answers: Any = None) -> DurableResult[Any]:
        """Continue a stored run with its stored arguments, blocking.

        `answers` maps the ids in `DurableResult.pending` to answers, or is one answer to all that waits. Raises
        SessionError if the session has no run of this function.
        """
        return self._run(session, None, answers)

    async def arun(self, session: Session | str, /, *args: P.args, **kwargs: P.kwargs) -> DurableResult[Any]:
        """Async version of `run`, for a coroutine function."""
        return await self._arun(session, inspect.signature(self.function).bind(*args, **kwargs).arguments)

    async def aresume(self, session: Session | str, /, answers: Any = None) -> DurableResult[Any]:
        """Async version of `resume`, for a coroutine function."""
        return await self._arun(session, None, answers)

    def _run(
        self, session: Session | str, arguments: Mapping[str, Any] | None, answers: Any = None
    ) -> DurableResult[Any]:
        if is_asynchronous(self.function):
            raise ConfigError(f"{self.name} is a coroutine function. Call arun() or aresume().")
        with self._open_run(session, arguments, answers) as run:
            if run.result is None:
                with run.within():
                    value = self._bind_call(run.arguments)()
                run.finish(value)
        return cast("DurableResult[Any]", run.result)

    async def _arun(
        self, session: Session | str, arguments: Mapping[str, Any] | None, answers: Any = None
    ) -> DurableResult[Any]:
        if not is_asynchronous(self.function):
            raise ConfigError(f"{self.name} is not a coroutine function. Call run() or resume().")
        with self._open_run(session, arguments, answers) as run:
            if run.result is None:
                with run.within():
                    made: Any = self._bind_call(run.arguments)()
                    value = await made
                run.finish(value)
        return cast("DurableResult[Any]", run.result)

    @contextmanager
    def _open_run(
        self, session: Session | str, arguments: Mapping[str, Any] | None, answers: Any
    ) -> Generator[DurableRun, None, None]:
        """The locked run in a session, with what is known of it; a pause in the block becomes its result."""
        session = Session.open(name=session) if isinstance(session, str) else session
        store = session.store
        if store is None:
            raise ConfigError("A durable function needs a stored session: Session.open(store, name), or its name.")
        identity = hashlib.sha256(self.name.encode()).hexdigest()[:32]
        release = store.lock(session.name, identity)
        if release is None:
            raise SessionError(
                f"{self.name} runs in the session {session.name!r} already, in another thread or process."
            )
        try:
            encoded = (
                None
                if arguments is None
                else {name: self._argument_codec(name).encode(value) for name, value in arguments.items()}
            )
            run = DurableRun(self, session, store, identity, encoded, answers)
            try:
                yield run
            except _Pause:
                run.pause()
            except Exception as error:
                run.keep(RunEnded("failed", "", error_text(error)))
                raise
        finally:
            release()

    def _bind_call(self, arguments: Mapping[str, str]) -> Callable[[], Any]:
        """The call of the function with its stored arguments."""
        values = {name: self._argument_codec(name).decode(text) for name, text in arguments.items()}
        bound = inspect.signature(self.function).bind_partial()
        bound.arguments.update(values)
        return functools.partial(self.function, *bound.args, **bound.kwargs)

    def _argument_codec(self, name: str) -> ValueCodec:
        kind = inspect.signature(self.function).parameters[name].kind
        is_rest = kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return ValueCodec(self.function, "" if is_rest else name)


@overload
def durable(function: Callable[P, R], /) -> DurableFunction[P, R]: ...
@overload
def durable(
    *, version: str = ..., limits: Limits | None = ..., max_wait_seconds: float = ...
) -> Callable[[Callable[P, R]], DurableFunction[P, R]]: ...
def durable(
    function: Callable[..., Any] | None = None,
    /,
    *,
    version: str = "",
    limits: Limits | None = None,
    max_wait_seconds: float = math.inf,
) -> Any:
    """Make a function durable: `@durable`, or `@durable(limits=...)`.

    `trip.run("session", ...)` stores each step (`step`, `ask_person`, `wait_until`) and each run of an agent in a
    session. Run again after a kill, the function gets the stored results of what it had done. It must take the same
    steps again: what differs from run to run, such as the time or a random number, belongs in a step.

    `version` replaces the version computed from the source of the function; a run continues only under the version
    under which it began. `limits` apply to all agents in the function together, also across kills, except `seconds`,
    which counts from each start. `wait_until` blocks up to `max_wait_seconds`; before a longer wait the run pauses.
    """
    if function is None:
        return functools.partial(DurableFunction, version=version, limits=limits, max_wait_seconds=max_wait_seconds)
    return DurableFunction(function, version, limits, max_wait_seconds)


def _version_of(function: Callable[..., Any]) -> str:
    """A digest of what a function does: its source without comments, layout, decorators and docstring."""
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        tree.decorator_list = []
        tree.body = tree.body[ast.get_docstring(tree) is not None :]
        text = ast.dump(tree)
    except (OSError, TypeError, SyntaxError, AttributeError):  # the source is not available
        code = function.__code__
        text = f"{code.co_code.hex()} {code.co_names} {[each for each in code.co_consts if not inspect.iscode(each)]}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class ValueCodec:
    """Converts a value of a function to text and back: by its annotation, or as JSON without one.

    `name` is a parameter, or `return`. Raises ConfigError for a value that cannot be stored.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        bare = inspect.unwrap(getattr(function, "function", function))
        try:
            hint = get_type_hints(bare).get(name)
        except (NameError, TypeError, AttributeError):
            hint = None
        self._type = None if any(hint is each for each in _PLAIN) else OutputType.of(hint)
        self._owner = f"{name or 'the arguments'} of {getattr(function, '__qualname__', function)}"

    def encode(self, value: Any) -> str:
        """Encode a value."""
        try:
            text = json.dumps(value, ensure_ascii=False) if self._type is None else self._type.encode(value)
            self.decode(text)
        except (TypeError, ValueError, AttributeError, ModelError) as error:
            raise ConfigError(
                f"{self._owner} cannot be stored: {error}. Give JSON values, or annotate the type of the value. "
                f"Got {value!r:.100}."
            ) from error
        return text

    def decode(self, text: str) -> Any:
        """Decode a value."""
        return json.loads(text) if self._type is None else self._type.parse(text)


class FunctionRun(DurableScope):
    """One execution of a durable function: its sessions, its budget, and the number of its next step.

    Subclasses decide where steps are stored, and how the function waits.
    """

    def __init__(self, function: DurableFunction[..., Any], session: Session, store: SessionStore) -> None:
        self.function, self.session, self._store = function, session, store
        self._lock = threading.Lock()
        self._number = 0
        self._conversations: dict[int, tuple[Runner, Session, int]] = {}
        self.depth = LINEAGE.get().depth
        self.budget = BudgetScope(function.limits, self._spending())

    @abstractmethod
    def step(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function once; its result is returned without a call when the run is repeated."""

    @abstractmethod
    def step_map(self, function: Callable[[Any], Any], items: Sequence[Any], concurrency: int) -> list[Any]:
        """A step for each item; returns results in the order of the items."""

    @abstractmethod
    def ask(self, question: str) -> str:
        """Wait for a person, and return the answer."""

    @abstractmethod
    def wait(self, time_: datetime) -> None:
        """Wait until a time, which is stored at the first call."""

    @property
    def is_here(self) -> bool:
        """Whether the current code is that of the function, and not of a tool that an agent in it uses."""
        return LINEAGE.get().depth == self.depth

    @contextmanager
    def within(self) -> Generator[None, None, None]:
        """The block in which steps and agents belong to this run."""
        token = DURABLE.set(self)
        try:
            with self.budget:
                yield
        finally:
            DURABLE.reset(token)

    def next_number(self) -> int:
        """The number of the next step."""
        with self._lock:
            number, self._number = self._number, self._number + 1
        return number

    def _agent_runs(self) -> list[RunState]:
        """The states of all runs of agents in sessions below this one."""
        below = [each.name for each in self._store.summaries() if each.name.startswith(f"{self.session.name}/")]
        return [state for name in below for _, state in _runs_in(self._store.read(name)[0])]

    def _usage(self) -> Usage:
        return sum((each.usage for each in self._agent_runs()), NO_USAGE)

    def _spending(self) -> Spending:
        """What earlier executions have spent of the limits."""
        usage = self._usage()
        cost = cost_of(usage)
        calls = sum(isinstance(each, ToolCallFinished) for state in self._agent_runs() for each in state.events)
        dollars = 0.0 if cost is None else cost.dollars
        return Spending(usage.input_tokens, usage.output_tokens, dollars, Counter(tool_calls=calls))

    def conversation(
        self, number: int, agent: Runner, prompt: Prompt
    ) -> tuple[Session, Callable[[], RunResult[Any] | None]]:
        """The session of a run of an agent, and a function that returns its stored result so far.

        An agent that remembers has one session for all its runs. The function raises SessionError for another prompt.
        """
        entry = self._conversations.get(id(agent)) if agent.remember else None
        session = entry[1] if entry else self.agent_session(number)
        position = entry[2] if entry else 0
        self._conversations[id(agent)] = agent, session, position + 1
        return session, partial(self._stored_result, number, agent, prompt, session, position)

    def _stored_result(
        self, number: int, agent: Runner, prompt: Prompt, session: Session, position: int
    ) -> RunResult[Any] | None:
        runs = _runs_in(session.entries)
        if position >= len(runs):
            return None
        run, state = runs[position]
        began = next((each for each in state.events if isinstance(each, RunStarted)), None)
        if began is None or (began.prompt != content_from(prompt) and not agent.answer_validator.of("prompt")):
            raise SessionError(
                f"Step {number} of {self.function.name} in the session {self.session.name!r} gives {agent.name} "
                f"another prompt than before. {_SAME_STEPS}"
            )
        return rebuild_result(agent, session, run, state)

    def agent_session(self, number: int) -> Session:
        """The session of the agent's run, or batch, of this number."""
        return Session(f"{self.session.name}/{number:04d}", self._store)


class DurableRun(FunctionRun):
    """The execution of a durable function whose steps are stored in its session."""

    def __init__(
        self,
        function: DurableFunction[..., Any],
        session: Session,
        store: SessionStore,
        identity: str,
        arguments: Mapping[str, str] | None,
        answers: Any,
    ) -> None:
        super().__init__(function, session, store)
        self._identity, self._answers = identity, answers
        self.failed: list[StepRecorded] = []
        self.pending: list[Pending] = []
        self.until: datetime | None = None
        self.result: DurableResult[Any] | None = None
        events = [entry.event for entry in session.entries if entry.run == identity]
        self.steps = {each.number: each for each in events if isinstance(each, StepRecorded)}
        started = next((each for each in events if isinstance(each, FunctionStarted)), None)
        self._is_known = started is not None
        self.arguments = self._begin_run(started, arguments)
        ended = next((each for each in reversed(events) if isinstance(each, RunEnded)), None)
        if ended is not None and ended.status == "done":
            value = ValueCodec(function.function, "return").decode(ended.output)
            self.result = DurableResult("done", value, session.name, usage=self._usage())

    def _begin_run(self, started: FunctionStarted | None, arguments: Mapping[str, str] | None) -> Mapping[str, str]:
        """The arguments of the run, which is stored if it is new. Raises SessionError if it is another run."""
        function, name = self.function, self.session.name
        if started is None:
            if arguments is None:
                raise SessionError(
                    f"The session {name!r} has no run of {function.name}. Start one: run({name!r}, ...)."
                )
            if self.session.entries:
                raise SessionError(
                    f"The session {name!r} belongs to another function or agent. Run {function.name} in another "
                    f"session."
                )
            self.keep(FunctionStarted(function.name, function.version, arguments))
            return arguments
        if started.version != function.version:
            raise SessionError(
                f"{function.name} was changed since its run in the session {name!r} began: {started.version} "
                f"is now {function.version}, and its stored steps may not fit. Finish it with the old function, run "
                "the new one in another session, or, if it takes the same steps, give it "
                f"@durable(version={started.version!r})."
            )
        if arguments is not None and dict(arguments) != dict(started.arguments):
            raise SessionError(
                f"The run of {function.name} in the session {name!r} has other arguments: {dict(started.arguments)}. "
                "Use another session, or continue it with resume()."
            )
        return started.arguments

    @contextmanager
    def within(self) -> Generator[None, None, None]:
        """Like the block of any run; raises _Pause at its end if the function has swallowed one."""
        if self._is_known:
            self.keep(RunResumed())
        with super().within():
            yield
        if self.pending or self.until:
            raise _Pause

    def keep(self, event: StoredEvent) -> None:
        """Store an event."""
        self._store.append(self.session.name, entries_of_run(self._identity, [event]))

    def record(self, step: StepRecorded) -> None:
        """Store a step."""
        with self._lock:
            self.keep(step)
            self.steps[step.number] = step

    def finish(self, value: Any) -> None:
        """Store the value of the function and set the result."""
        codec = ValueCodec(self.function.function, "return")
        text = codec.encode(value)
        self.keep(RunEnded("done", text))
        self.result = DurableResult("done", codec.decode(text), self.session.name, usage=self._usage())

    def pause(self) -> None:
        """Set the result of a run that waits."""
        self.keep(RunEnded("paused"))
        self.result = DurableResult("paused", None, self.session.name, tuple(self.pending), self.until, self._usage())

    def begin(self, name: str, digest: str = "") -> tuple[int, StepRecorded | None]:
        """The number of the next step, and what is stored of it. Raises SessionError if that is another step.

        Failed steps are stored first, as the function has handled their errors.
        """
        while self.failed:
            self.record(self.failed.pop())
        number = self.next_number()
        known = self.steps.get(number)
        if known is not None and (known.name, known.digest) != (name, digest):
            difference = "has other arguments" if known.name == name else f"is {name}, and was {known.name}"
            raise SessionError(
                f"Step {number} of {self.function.name} in the session {self.session.name!r} "
                f"{difference} when it was stored. {_SAME_STEPS}"
            )
        return number, known

    def step(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function, or return its stored result. Raises StepFailed."""
        call = StepCall.begin(self, function, args, kwargs)
        return call.aperform() if is_asynchronous(function) else call.perform()

    def step_map(self, function: Callable[[Any], Any], items: Sequence[Any], concurrency: int) -> list[Any]:
        """A step for each item, in threads."""
        calls = [StepCall.begin(self, function, (each,), {}) for each in items]
        with ThreadPoolExecutor(max(1, min(concurrency, len(calls))), "agentkit-step") as pool:
            futures = [pool.submit(copy_context().run, call.perform) for call in calls]
        return [future.result() for future in futures]

    def ask(self, question: str) -> str:
        """The person's answer; without one, leaves the function."""
        digest = _digest(question)
        number, known = self.begin(_ASK, digest)
        if known is None:
            self.record(StepRecorded(number, _ASK, "asks", digest, question))
        elif known.status == "done":
            return known.value
        elif (answer := self.answer_to(number)) is not None:
            self.record(replace(known, status="done", value=str(answer)))
            return str(answer)
        self.pending.append(Pending(str(number), _ASK, "{}", question, needs_answer=True))
        raise _Pause

    def wait(self, time_: datetime) -> None:
        """Block until a time, or leave the function before a longer wait than it may block."""
        number, known = self.begin(_WAIT)
        if known is not None and known.status == "done":
            return
        if known is None:
            known = StepRecorded(number, _WAIT, "sleeps", value=time_.astimezone().isoformat())
            self.record(known)
        until = datetime.fromisoformat(known.value)
        left = until.timestamp() - time.time()
        if left > self.function.max_wait_seconds:
            self.until = until
            raise _Pause
        time.sleep(max(left, 0.0))
        self.record(replace(known, status="done"))

    def answer_to(self, number: int) -> Any:
        """The person's answers to what waits at a step."""
        return answers_under(self._answers, str(number))

    def settle(self, number: int, agent: Runner, session: Session, result: RunResult[Any]) -> None:
        """Store that a run of an agent ended. Raises _Pause if it waits for a person."""
        if result.status == "paused":
            with self._lock:
                self.pending += pending_in({str(number): result})
            raise _Pause
        if self.steps.get(number) is None and result.status == "done":
            self.record(StepRecorded(number, agent.name, "done", "", result.text, session.name))

    def events(self, agent: Runner, prompt: Prompt, **arguments: Any) -> Generator[Event, None, None]:
        """The events of a run of an agent in this function; of a finished one only the last."""
        number, _ = self.begin(agent.name)
        session, stored_result = self.conversation(number, agent, prompt)
        earlier = stored_result()
        arguments["session"] = session
        work = work_of(prompt, earlier, self.answer_to(number))
        with closing(_finished_events(earlier) or agent.events(work, **arguments)) as events:
            for event in events:
                if isinstance(event, RunFinished):
                    self.settle(number, agent, session, event.result)
                yield event

    async def aevents(self, agent: Runner, prompt: Prompt, **arguments: Any) -> AsyncGenerator[Event, None]:
        """Async version of `events`."""
        number, _ = self.begin(agent.name)
        session, stored_result = self.conversation(number, agent, prompt)
        earlier = stored_result()
        arguments["session"] = session
        if earlier is not None and earlier.status == "done":
            self.settle(number, agent, session, earlier)
            yield RunFinished(earlier)
            return
        work = work_of(prompt, earlier, self.answer_to(number))
        async with aclosing(agent.aevents(work, **arguments)) as events:
            async for event in events:
                if isinstance(event, RunFinished):
                    self.settle(number, agent, session, event.result)
                yield event

    def map_runs(self, agent: Runner) -> BatchScope:
        """The session of a batch, whose runs are in sessions below it, and what becomes of its waiting calls."""
        number, known = self.begin(f"{agent.name}.map")
        session = self.agent_session(number)
        if known is None:
            self.record(StepRecorded(number, f"{agent.name}.map", "done", "", "", session.name))

        def run(start: Callable[[], list[RunResult[Any]]]) -> list[RunResult[Any]]:
            results = start()
            self.pending += pending_in({f"{number}/{index}": result for index, result in enumerate(results)})
            if any(result.status == "paused" for result in results):
                raise _Pause
            return results

        return BatchScope(session, partial(self.answer_to, number), run)


def pending_in(results: Mapping[str, RunResult[Any]]) -> list[Pending]:
    """The calls that wait in paused runs, under ids that begin with the place of their run."""
    paused = {index: result for index, result in results.items() if result.status == "paused"}
    return [replace(each, id=f"{index}/{each.id}") for index, result in paused.items() for each in result.pending]


def work_of(prompt: Prompt, earlier: RunResult[Any] | None, answers: Any) -> Prompt | Resumption:
    """The prompt of a new run, or the run to continue, with the person's answers if it waits."""
    return prompt if earlier is None else Resumption(earlier, answers if earlier.status == "paused" else None)


def _finished_events(result: RunResult[Any] | None) -> Generator[RunFinished[Any], None, None] | None:
    """The last event of a run that is done, without running it; None for any other run."""
    return (each for each in (RunFinished(result),)) if result is not None and result.status == "done" else None


def _runs_in(entries: Iterable[SessionEntry]) -> list[tuple[str, RunState]]:
    """The runs of a session and their states, in the order in which they began."""
    runs: dict[str, list[StoredEvent]] = {}
    for entry in entries:
        runs.setdefault(entry.run, []).append(entry.event)
    return [(run, RunState.of(events)) for run, events in runs.items()]


def _current_run() -> FunctionRun | None:
    """The durable run of the current code; None outside of one, and in what a step or a tool calls."""
    found = DURABLE.get()
    return found if isinstance(found, FunctionRun) and found.is_here else None


@dataclass(frozen=True, slots=True)
class StepCall:
    """The call of a function as a step of a durable run, with its number and what is stored of it."""

    run: DurableRun
    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    name: str
    digest: str
    number: int
    known: StepRecorded | None

    @classmethod
    def begin(
        cls, run: DurableRun, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Self:
        """Give the call the next number. Raises SessionError if another step is stored under it."""
        name, digest = name_of(function), _digest([args, kwargs])
        return cls(run, function, args, kwargs, name, digest, *run.begin(name, digest))

    def perform(self) -> Any:
        """Return the stored result, or call the function and store what it returns. Raises StepFailed."""
        if self.known is not None:
            return self._stored_value(self.known)
        try:
            with outside_of_run():
                value = self.function(*self.args, **self.kwargs)
        except Exception as error:
            raise self._record_failure(error) from error
        return self._record_value(value)

    async def aperform(self) -> Any:
        """Async version of `perform`."""
        if self.known is not None:
            return self._stored_value(self.known)
        try:
            with outside_of_run():
                value = await self.function(*self.args, **self.kwargs)
        except Exception as error:
            raise self._record_failure(error) from error
        return self._record_value(value)

    def _stored_value(self, known: StepRecorded) -> Any:
        """The stored result. Raises StepFailed if the step failed before the function went on."""
        if known.status == "failed":
            raise StepFailed(known.value)
        return ValueCodec(self.function, "return").decode(known.value)

    def _record_value(self, value: Any) -> Any:
        """Store the value and return it as it will be returned again."""
        codec = ValueCodec(self.function, "return")
        text = codec.encode(value)
        self.run.record(self._step_recorded("done", text))
        return codec.decode(text)

    def _record_failure(self, error: Exception) -> StepFailed:
        """The error for the function; it is stored when the function continues, and the step is retried otherwise."""
        text = f"{self.name} failed: {error_text(error)}"
        self.run.failed.append(self._step_recorded("failed", text))
        return StepFailed(text)

    def _step_recorded(self, status: Any, value: str) -> StepRecorded:
        return StepRecorded(self.number, self.name, status, self.digest, value)


class StepDecorator:
    """The function `step`. Outside of a durable run it calls the function and stores nothing."""

    def __call__(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function once: its result is stored, and returned without a call when the run is repeated.

        A coroutine function is awaited: `await step(f, x)`. The result is JSON, or of the annotated type. A call that
        was cut off by a kill is made again. An exception becomes StepFailed; if the function handles it and continues,
        that is stored too. Agents need no step: their runs are stored event by event. Raises ConfigError for a result
        that cannot be stored.
        """
        run = _current_run()
        if run is None or isinstance(getattr(function, "__self__", function), Runner):
            return function(*args, **kwargs)
        return cast("R", run.step(function, args, kwargs))

    def map(self, function: Callable[[T], R], items: Iterable[T], concurrency: int = 8) -> list[R]:
        """A step for each item, `concurrency` at a time in threads; returns results in the order of the items.

        Raises StepFailed for the first item that failed, after the others have ended.
        """
        arguments, run = list(items), _current_run()
        return [function(each) for each in arguments] if run is None else run.step_map(function, arguments, concurrency)


step = StepDecorator()
"""Calls functions in a durable function: `step(f, x)`, `step.map(f, items)`."""


def name_of(function: Callable[..., Any]) -> str:
    """The name of a step that calls a function."""
    return getattr(function, "__qualname__", None) or getattr(function, "name", None) or type(function).__qualname__


def _digest(value: Any) -> str:
    """A digest of arguments; values that are not JSON count by their type."""
    text = json.dumps(value, sort_keys=True, default=lambda value: type(value).__qualname__)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def outside_of_run() -> Generator[None, None, None]:
    """Within a step, other steps and agents are not stored: the step is, as a whole."""
    token = DURABLE.set(None)
    try:
        yield
    finally:
        DURABLE.reset(token)


def ask_person(question: str) -> str:
    """Pause the durable function until a person has answered: `resume(session, "yes")`. Returns the answer.

    Raises ConfigError outside of a durable run.
    """
    return _require_run(_ASK).ask(question)


def wait_until(time_: datetime) -> None:
    """Wait until a time, which is stored at the first call; a time without a zone is local.

    Blocks, or pauses the run if the wait is longer than `max_wait_seconds` and in coroutine functions. Raises
    ConfigError outside of a durable run.
    """
    _require_run(_WAIT).wait(time_)


def _require_run(name: str) -> FunctionRun:
    run = _current_run()
    if run is None:
        raise ConfigError(
            f"{name}() can only be called inside a durable function while it runs: decorate it with "
            f"@durable and call run(session, ...)."
        )
    return run
