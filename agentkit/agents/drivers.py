"""Who answers the loop's questions? Two drivers of one shape, blocking and awaiting."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from agentkit.agents.loop import Steps
from agentkit.agents.questions import AskModel, AskPerson, Question, UseTools
from agentkit.agents.tool_call import JudgedCall
from agentkit.events import Event, ResponseReceived, ToolCallFinished
from agentkit.llm.client import LLM
from agentkit.safety.approval import Approver, approval_of
from agentkit.tooling import running
from agentkit.tooling.signature import is_asynchronous

MAX_THREADS = 32
"""How many calls of one response run at the same time, in threads or as tasks."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class World:
    """What a driver asks: a model, perhaps a person. `streaming` wants the model's answer in pieces."""

    llm: LLM
    approve: Approver | None
    streaming: bool


def drive(steps: Steps, world: World) -> Generator[Event, None, None]:
    """Run the loop to its end, blocking; yields its events and those on the way to an answer."""
    with closing(steps):
        for step in steps:
            if isinstance(step, Event):
                yield step
            else:
                yield from _answer(step, world)


async def adrive(steps: Steps, world: World) -> AsyncGenerator[Event, None]:
    """Like `drive`, awaiting."""
    with closing(steps):
        for step in steps:
            if isinstance(step, Event):
                yield step
            else:
                async with aclosing(_aanswer(step, world)) as events:
                    async for event in events:
                        yield event


def _answer(question: Question, world: World) -> Iterator[Event]:
    """Enter the world's answer in the question; yields what happens meanwhile."""
    match question:
        case AskModel(request) if world.streaming:
            with question.asking():
                for event in world.llm.stream(request):
                    if isinstance(event, ResponseReceived):
                        question.answer = event.response
                    else:
                        yield event
        case AskModel(request):
            with question.asking():
                question.answer = world.llm.complete(request)
        case AskPerson(request) if world.approve is not None:
            with question.asking():
                question.answer = approval_of(running.call(partial(world.approve, request), None))
        case UseTools():
            yield from _use_tools(question)


async def _aanswer(question: Question, world: World) -> AsyncGenerator[Event, None]:
    """Like `_answer`, awaiting."""
    match question:
        case AskModel(request) if world.streaming:
            with question.asking():
                async with _closed(world.llm.astream(request)) as events:
                    async for event in events:
                        if isinstance(event, ResponseReceived):
                            question.answer = event.response
                        else:
                            yield event
        case AskModel(request):
            with question.asking():
                question.answer = await world.llm.acomplete(request)
        case AskPerson(request) if world.approve is not None:
            with question.asking():
                is_async = is_asynchronous(world.approve)
                said = await running.acall(partial(world.approve, request), None, is_async=is_async)
                question.answer = approval_of(said)
        case UseTools():
            async with aclosing(_ause_tools(question)) as finished:
                async for event in finished:
                    yield event


@asynccontextmanager
async def _closed(events: AsyncIterator[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    """Close a stream that is left early here and now, and with it its connection."""
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def _use_tools(question: UseTools) -> Iterator[Event]:
    """Run the calls at the same time, and report each as it ends. A single one runs in the caller's thread."""
    uses = [partial(copy_context().run, _use, judged, question) for judged in question.calls]
    return _concurrently(uses) if len(uses) > 1 else (use() for use in uses)


def _use(judged: JudgedCall, question: UseTools) -> ToolCallFinished:
    result = question.results[judged.call.id] = judged.run()
    return ToolCallFinished(judged.call, result)


def _concurrently(functions: Sequence[Callable[[], _Value]]) -> Iterator[_Value]:
    """The values of the functions, as they end. The threads are daemons: one that hangs cannot keep a process."""
    waiting = deque(functions)
    ended: queue.SimpleQueue[tuple[_Value] | BaseException] = queue.SimpleQueue()
    try:
        for _ in range(min(len(functions), MAX_THREADS)):
            threading.Thread(target=_work, args=(waiting, ended), daemon=True).start()
        for _ in functions:
            outcome = ended.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome[0]
    finally:
        waiting.clear()


def _work(waiting: deque[Callable[[], _Value]], ended: queue.SimpleQueue[tuple[_Value] | BaseException]) -> None:
    """Call what is waiting until nothing is. Even SystemExit ends the run, not just this thread."""
    while True:
        try:
            function = waiting.popleft()
        except IndexError:
            return
        try:
            ended.put((function(),))
        except BaseException as error:  # noqa: BLE001 - raised again where the run is waiting
            ended.put(error)


async def _ause_tools(question: UseTools) -> AsyncGenerator[Event, None]:
    """Run the calls as tasks at the same time, and report each as it ends."""
    room = asyncio.Semaphore(MAX_THREADS)
    tasks = [asyncio.create_task(_ause(judged, question, room)) for judged in question.calls]
    try:
        for ended in asyncio.as_completed(tasks):
            yield await ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ause(judged: JudgedCall, question: UseTools, room: asyncio.Semaphore) -> ToolCallFinished:
    async with room:
        result = question.results[judged.call.id] = await judged.arun()
    return ToolCallFinished(judged.call, result)
