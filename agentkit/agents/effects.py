"""Effects requested by the run loop, and the blocking and async drivers that perform them."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import queue
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, closing, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import field, replace
from functools import partial
from threading import TIMEOUT_MAX
from typing import Any, TypeVar, get_args

from agentkit._dataclass import dataclass
from agentkit.agents.budget import Budget
from agentkit.agents.guardrails import CallFunction, Middleware, awrap, wrap
from agentkit.agents.run_config import LINEAGE, HandoffCall, HandoffTarget, ParentRun
from agentkit.agents.tool_policy import JudgedCall, encode_arguments
from agentkit.errors import Cancelled, ReplayError, ToolTimeout
from agentkit.events import Approved, Event, ResponseReceived, StoredEvent, ToolCallFinished, response_deltas
from agentkit.llm.client import LLM
from agentkit.llm.pipeline import ABANDONED_USAGE, CANCELLATION, RequestCancellation, too_late
from agentkit.messages import Request, Response, ToolCall, ToolResult
from agentkit.recording import (
    TAPE,
    Attempt,
    PersonAsked,
    active,
    arecord_or_replay,
    is_replaying,
    record_or_replay,
    start_attempt,
)
from agentkit.safety.approval import NOBODY, SILENT, WORDS, Approval, ApprovalRequest, Approver, ApproverAnswer
from agentkit.sessions.session import SessionRun
from agentkit.tooling import execution
from agentkit.tooling.run_context import CONTEXT
from agentkit.tooling.signature import is_asynchronous
from agentkit.tracing.listeners import achunks_within, chunks_within
from agentkit.usage import UNLIMITED, Usage
from agentkit.workspace.root import EXPECTED

_NOT_ANSWERED = "The run reached its time limit before anybody answered."


@dataclass(slots=True)
class AskModel:
    """Send the request to the model; `answer` becomes its response or the error.

    `llm` returns the client, created on first use. An answer that arrives after `seconds_left` is discarded. `around`
    returns the context manager that wraps the whole request, `layers` are its middleware. `guards` are guardrails that
    run at the same time: no event is emitted before all have passed, and an exception of one abandons the request.
    """

    request: Request
    llm: Callable[[], LLM]
    seconds_left: float
    answer: Response | Exception | None = None
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    is_streamed: bool = False
    layers: tuple[Middleware, ...] = ()
    abandoned_usage: list[Usage] = field(default_factory=list)
    guards: tuple[CallFunction, ...] = ()

    @contextmanager
    def collect_usage(self) -> Iterator[None]:
        """Collect in `abandoned_usage` what is known of the usage of a stream that is closed in the block."""
        token = ABANDONED_USAGE.set(self.abandoned_usage.append)
        try:
            yield
        finally:
            ABANDONED_USAGE.reset(token)

    def within(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Wrap a stream in the context manager of the request, which is active while each chunk is awaited."""
        if self.around is nullcontext:
            return events
        self.is_streamed = True
        return chunks_within(self.around(), self._store_answer(events))

    def awithin(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Async version of `within`; the caller sets `answer`."""
        if self.around is nullcontext:
            return events
        self.is_streamed = True
        return achunks_within(self.around(), events)

    def _store_answer(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Yield the chunks, and set `answer` before the context manager exits."""
        with closing(events):
            for event in events:
                if isinstance(event, ResponseReceived):
                    self.answer = event.response
                yield event

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Store the error of the model, of its configuration or of a middleware as the answer."""
        try:
            yield
        except (ReplayError, Cancelled):
            raise
        except Exception as error:
            self.answer = error


@dataclass(slots=True)
class AskPerson:
    """Ask the approver and store its answer or exception; `answer` stays None without an approver.

    An answer that arrives after `seconds_left` is discarded.
    """

    request: ApprovalRequest
    approve: Approver | None = None
    answer: Approved | None = None
    seconds_left: float = math.inf

    @property
    def needs_text(self) -> bool:
        """Whether the tool waits for a text that becomes its result, rather than for approval."""
        return self.request.decision.rule == WORDS

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Convert an exception to an answer: an approver that fails or is too late has not approved."""
        try:
            yield
        except Exception as error:
            is_late = isinstance(error, ToolTimeout) and self.seconds_left < math.inf
            refusal = Approved(self.request.call_id, Approval.NO.value, _NOT_ANSWERED)
            self.answer = refusal if is_late else self.to_approved(error)

    def to_approved(self, answer: object) -> Approved:
        """Convert the return value or exception of an approver to the Approved event that is stored."""
        call_id = self.request.call_id
        if self.needs_text and (answer is None or isinstance(answer, bool | Approval)) and answer is not Approval.NO:
            answer = Approval.LATER  # an approver that approves everything has not answered the question
        if self.needs_text and not isinstance(answer, Exception | Approval | None):
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
            return Approved(call_id, Approval.ONCE, text)
        answer = ApproverAnswer(Approval.NO, SILENT) if answer is None else ApproverAnswer.of(answer)
        arguments = None if answer.arguments is None else json.dumps(dict(answer.arguments), default=str)
        bound = {} if answer.approval is Approval.NO or arguments is not None else self.request.bound
        return Approved(call_id, answer.approval, answer.text, arguments, bound)

    @property
    def unanswered(self) -> Approved:
        """The answer without an approver."""
        return Approved(self.request.call_id, NOBODY.approval, NOBODY.text)

    @property
    def recorded(self) -> PersonAsked:
        """The question as stored in a recording."""
        request = self.request
        return PersonAsked(
            ToolCall(request.call_id, request.tool, encode_arguments(request.arguments)), request.decision
        )


@dataclass(slots=True)
class UseTools:
    """Run the allowed calls, none longer than `timeout_seconds`.

    Each result is stored under its call's id as soon as it arrives, so that finished results survive an interruption of
    the rest. `lineage` constrains the agents that the tools run. `around` returns the context manager that wraps a
    call.
    """

    calls: tuple[JudgedCall, ...]
    results: dict[str, ToolResult]
    timeout_seconds: float | None
    lineage: ParentRun
    around: Callable[[JudgedCall], AbstractContextManager[object]] = nullcontext


Effect = AskModel | AskPerson | UseTools | CallFunction

Steps = Generator[Event | Effect, None, None]
"""The events and effects of a run; the driver performs each effect before the loop continues."""


def emit(run: SessionRun, event: StoredEvent) -> Steps:
    """Apply a stored event to the run, and emit it."""
    run.progress.apply(event)
    yield event


MAX_THREADS = 32
"""Maximum number of concurrent tool calls of one response, as threads or tasks."""

_NO_DEADLINE_SECONDS = 600.0
"""With more time left than this, a single request has no deadline, as the timeouts of the connection are shorter."""

_START_SECONDS = 2.0
"""Maximum wait for an abandoned request to start, as it would otherwise be missing from the recording."""

_Value = TypeVar("_Value")
_Item = tuple[_Value] | CallFunction | BaseException | None
"""What arrives from other threads: a value, a guardrail that is done, or the end of the values, perhaps by an error."""


def drive(steps: Steps, *, streaming: bool) -> Generator[Event, None, None]:
    """Run the loop to its end, blocking; yields its events and those of streamed answers.

    `streaming` requests the model's answers in chunks.
    """
    with closing(steps):
        for step in steps:
            if isinstance(step, Event):
                yield step
            else:
                yield from _perform(step, streaming=streaming)


async def adrive(steps: Steps, *, streaming: bool) -> AsyncGenerator[Event, None]:
    """Async version of `drive`."""
    with closing(steps):
        for step in steps:
            if isinstance(step, Event):
                yield step
            else:
                perform = _aperform_guarded if isinstance(step, AskModel) and step.guards else _aperform
                async with aclosing(perform(step, streaming=streaming)) as events:
                    async for event in events:
                        yield event


def _perform(effect: Effect, *, streaming: bool) -> Iterator[Event]:
    """Perform an effect and store its answer; yields the events emitted meanwhile."""
    match effect:
        case AskModel(request, llm, seconds_left) if streaming and not effect.layers:
            pieces = _until_deadline(partial(llm().stream, request), seconds_left, effect.guards)
            with effect.store_errors():
                events = effect.within(pieces)
                try:
                    for event in events:
                        if isinstance(event, ResponseReceived):
                            effect.answer = event.response
                            break  # a complete answer cannot time out any more
                        yield event
                finally:
                    with effect.collect_usage():
                        events.close()
        case AskModel():
            yield from _request_whole(effect, streaming=streaming)
        case AskPerson() if effect.approve is not None or TAPE.get() is not None:
            effect.answer = record_or_replay(effect.recorded, partial(_ask_approver, effect, effect.approve))
        case CallFunction(function, arguments, seconds_left):
            with effect.store_errors():
                effect.answer = _call_user(partial(function, *arguments), seconds_left)
        case UseTools():
            # A single call runs in this thread, several run concurrently. Each is emitted as it finishes.
            uses = [partial(copy_context().run, partial(_use, judged, effect)) for judged in effect.calls]
            ended = _concurrently(uses) if len(uses) > 1 else (use() for use in uses)
            yield from (event for event in ended if event.result.status != "waiting")


async def _aperform(effect: Effect, *, streaming: bool) -> AsyncGenerator[Event, None]:
    """Async version of `_perform`."""
    match effect:
        case AskModel():
            is_streamed = streaming and not effect.layers
            requested = _arequest_pieces(effect) if is_streamed else _arequest_whole(effect, streaming=streaming)
            async with aclosing(requested) as events:
                async for event in events:
                    yield event
        case AskPerson() if effect.approve is not None or TAPE.get() is not None:
            effect.answer = await arecord_or_replay(effect.recorded, partial(_aask_approver, effect, effect.approve))
        case CallFunction(function, arguments, seconds_left):
            with effect.store_errors():
                effect.answer = await _acall_user(partial(function, *arguments), seconds_left)
        case UseTools():
            async with aclosing(_ause_tools(effect)) as finished:
                async for event in finished:
                    yield event


def _request_whole(effect: AskModel, *, streaming: bool) -> Iterator[Event]:
    """Request a whole response, within its middleware; a stream gets it in one piece."""
    seconds_left, guards = effect.seconds_left, effect.guards
    with effect.store_errors(), effect.around():
        complete = effect.llm().complete
        ask = partial(wrap(effect.layers, complete) if effect.layers else complete, effect.request)
        if seconds_left > _NO_DEADLINE_SECONDS and not guards:
            effect.answer = ask()
        else:  # None if a guardrail refuses first
            effect.answer = next(iter([*_until_deadline(lambda: iter([ask()]), seconds_left, guards)]), None)
    return response_deltas(effect.answer) if streaming and isinstance(effect.answer, Response) else iter(())


async def _arequest_pieces(effect: AskModel) -> AsyncGenerator[Event, None]:
    """Request a response in pieces."""
    with effect.store_errors():
        events = effect.awithin(_astream_events(effect))
        try:
            async for event in events:
                yield event
        finally:
            with effect.collect_usage():
                await events.aclose()


async def _arequest_whole(effect: AskModel, *, streaming: bool) -> AsyncGenerator[Event, None]:
    """Async version of `_request_whole`."""
    with effect.store_errors(), effect.around(), start_attempt() as attempt:
        complete = awrap(effect.layers, effect.llm().acomplete)
        async with _abandon_late(effect.seconds_left, attempt):
            effect.answer = await complete(effect.request)
    for event in response_deltas(effect.answer) if streaming and isinstance(effect.answer, Response) else ():
        yield event


async def _astream_events(effect: AskModel) -> AsyncGenerator[Event, None]:
    ends = time.monotonic() + effect.seconds_left
    with start_attempt() as attempt:
        with _activate(attempt):
            events = effect.llm().astream(effect.request)
        async with _closing(events):
            while effect.answer is None:
                # not across a yield: the timeout would cancel the consumer
                async with _abandon_late(ends - time.monotonic(), attempt):
                    event = await anext(events, None)
                if event is None:
                    return
                if isinstance(event, ResponseReceived):
                    effect.answer = event.response
                else:
                    yield event


def _ask_approver(effect: AskPerson, approve: Approver | None) -> Approved:
    """Call the approver and convert its return value or exception."""
    with effect.store_errors():
        if approve is not None:
            effect.answer = effect.to_approved(_call_user(partial(approve, effect.request), effect.seconds_left))
    return effect.answer or effect.unanswered


async def _aask_approver(effect: AskPerson, approve: Approver | None) -> Approved:
    with effect.store_errors():
        if approve is not None:
            effect.answer = effect.to_approved(await _acall_user(partial(approve, effect.request), effect.seconds_left))
    return effect.answer or effect.unanswered


def _call_user(function: Callable[[], Any], seconds_left: float) -> Any:
    """Call a user's function, sync or async. Raises ToolTimeout if it exceeds the time left.

    A blocking function runs in the caller's thread, which cannot be interrupted, unless a deadline is near.
    """
    is_async = is_asynchronous(function)
    is_watched = seconds_left < math.inf and (is_async or seconds_left <= _NO_DEADLINE_SECONDS)
    return execution.call(function, max(seconds_left, 0.0) if is_watched else None, is_async=is_async)


async def _acall_user(function: Callable[[], Any], seconds_left: float) -> Any:
    """Async version of `_call_user`: on timeout an awaitable is cancelled, and a thread is abandoned."""
    timeout_seconds = None if math.isinf(seconds_left) else max(seconds_left, 0.0)
    return await execution.acall(function, timeout_seconds, is_async=is_asynchronous(function))


@asynccontextmanager
async def _closing(events: AsyncIterator[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    """Close a stream that is left early immediately, and its connection with it."""
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def _use(judged: JudgedCall, effect: UseTools) -> ToolCallFinished:
    budget = _set_lineage(effect.lineage, judged.call.id)
    EXPECTED.set(judged.expected)
    with effect.around(judged):
        if TAPE.get() is None:
            result = _with_usage(judged.run(effect.timeout_seconds), budget)
        else:
            run = partial(_run_recorded, judged, effect.timeout_seconds, budget)
            result = record_or_replay(judged.recorded, run, _holds_an_agent, budget)
        effect.results[judged.call.id] = result
    return ToolCallFinished(judged.call, result)


def _run_recorded(judged: JudgedCall, timeout_seconds: float | None, budget: Budget) -> ToolResult:
    _refuse_live_call(judged)
    return _with_usage(judged.run(timeout_seconds), budget)


async def _arun_recorded(judged: JudgedCall, timeout_seconds: float | None, budget: Budget) -> ToolResult:
    _refuse_live_call(judged)
    return _with_usage(await judged.arun(timeout_seconds), budget)


def _holds_an_agent(result: ToolResult) -> bool:
    """Whether a result is an agent to hand over to, which cannot be serialised."""
    return isinstance(result.value, HandoffTarget)


def _refuse_live_call(judged: JudgedCall) -> None:
    """Raise ReplayError for a live call in a replay that the program does not declare as a handoff.

    A recording cannot make a tool run: the program must declare that the tool returns an agent, and the call must not
    have been approved from the recording.
    """
    if is_replaying() and not _may_be_live(judged):
        raise ReplayError(
            f"The cassette requires {judged.call.name!r} to run again, and during a replay only handoffs run again. If "
            "the tool hands off, annotate its function with `-> Agent` and let it run without approval; or pass the "
            "agent in handoffs= and record the cassette again."
        )


def _may_be_live(judged: JudgedCall) -> bool:
    """Whether the call is declared to return an agent, and no person was asked to approve it."""
    if judged.tool is None or isinstance(judged.tool.function, HandoffCall):
        return True
    try:
        returned = inspect.signature(judged.tool.function, eval_str=True).return_annotation
    except (NameError, AttributeError, TypeError, ValueError, SyntaxError):  # an annotation that cannot be read
        return False
    is_known = any(
        isinstance(kind, type) and issubclass(kind, HandoffTarget) for kind in (returned, *get_args(returned))
    )
    return is_known and not judged.by_person


def _set_lineage(lineage: ParentRun, call: str) -> Budget:
    """Set the lineage and RunContext of the current call; returns the budget that counts what its agents spend."""
    budget = Budget(UNLIMITED, lineage.budget)
    LINEAGE.set(replace(lineage, budget=budget, depth=LINEAGE.get().depth + 1, collected_labels=set()))
    CONTEXT.set(lineage.context.called(call, lineage.context.messages))
    return budget


def _with_usage(result: ToolResult, budget: Budget) -> ToolResult:
    """The result with the usage of the agents run inside the call, and the labels of what they read."""
    labels = LINEAGE.get().collected_labels
    result = replace(result, labels=result.labels | labels) if labels else result
    return replace(result, usage=budget.usage) if budget.usage.requests else result


def _concurrently(functions: Sequence[Callable[[], _Value]]) -> Iterator[_Value]:
    """The values of the functions as they finish. The threads are daemons, so that a hanging one cannot block exit."""
    waiting = deque(functions)
    ended: queue.SimpleQueue[tuple[_Value] | BaseException] = queue.SimpleQueue()
    try:
        for _ in range(min(len(functions), MAX_THREADS)):
            execution.start(partial(_run_queued, waiting, ended))
        for _ in functions:
            outcome = ended.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome[0]
    finally:
        waiting.clear()


def _run_queued(waiting: deque[Callable[[], _Value]], ended: queue.SimpleQueue[tuple[_Value] | BaseException]) -> None:
    """Call queued functions until the queue is empty. Exceptions, even SystemExit, are passed on to the run."""
    while True:
        try:
            function = waiting.popleft()
        except IndexError:
            return
        try:
            ended.put((function(),))
        except BaseException as error:
            ended.put(error)


async def _ause_tools(effect: UseTools) -> AsyncGenerator[Event, None]:
    """Run the calls as concurrent tasks, and emit each as it finishes."""
    slots = asyncio.Semaphore(MAX_THREADS)
    tasks = [asyncio.create_task(_ause(judged, effect, slots)) for judged in effect.calls]
    try:
        for ended in asyncio.as_completed(tasks):
            event = await ended
            if event.result.status != "waiting":
                yield event
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _ause(judged: JudgedCall, effect: UseTools, slots: asyncio.Semaphore) -> ToolCallFinished:
    async with slots:
        budget = _set_lineage(effect.lineage, judged.call.id)
        EXPECTED.set(judged.expected)
        with effect.around(judged):
            if TAPE.get() is None:
                result = _with_usage(await judged.arun(effect.timeout_seconds), budget)
            else:
                run = partial(_arun_recorded, judged, effect.timeout_seconds, budget)
                result = await arecord_or_replay(judged.recorded, run, _holds_an_agent, budget)
            effect.results[judged.call.id] = result
    return ToolCallFinished(judged.call, result)


def _until_deadline(
    ask: Callable[[], Iterator[_Value]], seconds_left: float, guards: Sequence[CallFunction] = ()
) -> Generator[_Value, None, None]:
    """The values yielded by `ask()`, once all guardrails have passed. Raises Unreachable on timeout."""
    ends = time.monotonic() + seconds_left
    if seconds_left > _NO_DEADLINE_SECONDS and not guards:
        yield from until(ask(), ends)
        return
    items: queue.SimpleQueue[_Item[_Value]] = queue.SimpleQueue()
    cancellation = RequestCancellation(seconds_left)
    with start_attempt() as attempt:
        with _activate(attempt):
            context = copy_context()
        context.run(CANCELLATION.set, cancellation)
        execution.start(partial(context.run, _pump, ask, items, cancellation))
        for guard in guards:
            execution.start(partial(copy_context().run, _check, guard, items))
        try:
            yield from _receive(lambda: _next(items, ends - time.monotonic(), attempt), len(guards))
        finally:
            cancellation.cancel()


def _receive(receive: Callable[[], _Item[_Value]], open_guards: int) -> Iterator[_Value]:
    """The values received, held back until all guardrails have passed; ends early if one has not."""
    pending: list[_Value] = []
    ended: Exception | None = None
    is_over = False
    while open_guards or not is_over:
        item = receive()
        if isinstance(item, CallFunction):
            if isinstance(item.answer, Exception):
                return
            open_guards -= 1
        elif isinstance(item, tuple):
            pending.append(item[0])
        elif item is None or isinstance(item, Exception):
            is_over, ended = True, item
        else:
            raise item  # SystemExit and the like end the program at once
        if not open_guards:
            yield from pending
            pending.clear()
    if ended is not None:
        raise ended


def _check(guard: CallFunction, items: queue.SimpleQueue[_Item[Any]]) -> None:
    """Call a guardrail, and report that it is done."""
    try:
        with guard.store_errors():
            guard.answer = _call_user(partial(guard.function, *guard.arguments), guard.seconds_left)
        items.put(guard)
    except BaseException as error:
        items.put(error)


async def _aperform_guarded(effect: Any, *, streaming: bool) -> AsyncGenerator[Event, None]:
    """Perform a request while guardrails run; emits its events once all have passed, and abandons it otherwise."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    async def ask() -> None:
        try:
            async with aclosing(_aperform(effect, streaming=streaming)) as pieces:
                async for event in pieces:
                    events.put_nowait(event)
        finally:
            events.put_nowait(None)

    async def check(guard: CallFunction) -> bool:
        with guard.store_errors():
            guard.answer = await _acall_user(partial(guard.function, *guard.arguments), guard.seconds_left)
        return not isinstance(guard.answer, Exception)

    checks = [asyncio.create_task(check(guard)) for guard in effect.guards]
    request = asyncio.create_task(ask())
    try:
        for done in asyncio.as_completed(checks):
            if not await done:
                return
        while (event := await events.get()) is not None:
            yield event
        await request
    finally:
        for task in (request, *checks):
            task.cancel()
        await asyncio.gather(request, *checks, return_exceptions=True)


def _activate(attempt: Attempt) -> AbstractContextManager[None]:
    """Make the attempt the active recording in the block, unless nothing is recorded."""
    return nullcontext() if TAPE.get() is None else active(attempt)


def until(values: Iterator[_Value], ends: float) -> Iterator[_Value]:
    """Yield the values until the clock passes `ends`, so that a slow stream ends too. Raises Unreachable."""
    for value in values:
        yield value
        if time.monotonic() > ends:
            raise too_late()


def _next(items: queue.SimpleQueue[_Item[_Value]], seconds: float, attempt: Attempt) -> _Item[_Value]:
    try:
        return items.get(timeout=min(max(seconds, 0.0), TIMEOUT_MAX))
    except queue.Empty:
        error = too_late()
        if TAPE.get() is not None:
            attempt.has_started.wait(_START_SECONDS)
        return error if attempt.give_up(error) else items.get()  # the answer arrived just now and is in the queue


def _pump(
    ask: Callable[[], Iterator[_Value]],
    items: queue.SimpleQueue[_Item[_Value]],
    cancellation: RequestCancellation,
) -> None:
    """Put values and exceptions into the queue until the consumer gives up."""
    try:
        events = ask()
        for value in events:
            if cancellation.is_cancelled:
                break
            items.put((value,))
        items.put(None)
    except BaseException as error:
        items.put(error)


@asynccontextmanager
async def _abandon_late(seconds_left: float, attempt: Attempt) -> AsyncIterator[None]:
    """Cancel what is awaited in the block at the deadline. Raises Unreachable."""
    with _activate(attempt):
        if seconds_left > _NO_DEADLINE_SECONDS:
            yield
            return
        try:
            async with asyncio.timeout(max(seconds_left, 0)):
                yield
        except TimeoutError:
            error = too_late()
            attempt.give_up(error)
            raise error from None
