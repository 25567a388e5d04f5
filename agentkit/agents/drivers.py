"""Who answers the loop's questions? Two drivers of one shape, blocking and awaiting."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, closing
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

from agentkit.agents.loop import Steps
from agentkit.agents.questions import AskModel, AskPerson, Question, UseTools
from agentkit.agents.tool_call import JudgedCall
from agentkit.errors import ModelError
from agentkit.events import Event, ResponseReceived, ToolCallFinished
from agentkit.llm.client import LLM
from agentkit.messages import ToolResult
from agentkit.safety.approval import Approver
from agentkit.tooling import running

MAX_THREADS = 32
"""How many calls of one response the blocking driver runs at the same time."""


@dataclass(frozen=True, slots=True)
class World:
    """What a driver asks: a model, perhaps a person. `streaming` wants the model's answer in pieces."""

    llm: LLM
    approve: Approver | None
    streaming: bool


def drive(steps: Steps, world: World) -> Iterator[Event]:
    """Run the loop to its end, blocking; yields its events and those on the way to an answer."""
    with closing(steps):
        step = next(steps, None)
        while step is not None:
            try:
                yield from _events(step, world)
            except ModelError as error:
                step = steps.throw(error)
            else:
                step = next(steps, None)


async def adrive(steps: Steps, world: World) -> AsyncGenerator[Event, None]:
    """Like `drive`, awaiting."""
    with closing(steps):
        step = next(steps, None)
        while step is not None:
            try:
                async with aclosing(_aevents(step, world)) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                step = steps.throw(error)
            else:
                step = next(steps, None)


def _events(step: Event | Question, world: World) -> Iterator[Event]:
    """What happens while a step is taken: an event is itself what happens."""
    match step:
        case AskModel(request) if world.streaming:
            for event in world.llm.stream(request):
                if isinstance(event, ResponseReceived):
                    step.response = event.response
                else:
                    yield event
        case AskModel(request):
            step.response = world.llm.complete(request)
        case UseTools():
            yield from _use_tools(step)
        case AskPerson(request):
            step.answer = world.approve and running.call(partial(world.approve, request), None)
        case _:
            yield step


async def _aevents(step: Event | Question, world: World) -> AsyncGenerator[Event, None]:
    match step:
        case AskModel(request) if world.streaming:
            async for event in world.llm.astream(request):
                if isinstance(event, ResponseReceived):
                    step.response = event.response
                else:
                    yield event
        case AskModel(request):
            step.response = await world.llm.acomplete(request)
        case UseTools():
            async with aclosing(_ause_tools(step)) as events:
                async for event in events:
                    yield event
        case AskPerson(request):
            step.answer = world.approve and await running.acall(partial(world.approve, request), None)
        case _:
            yield step


def _use_tools(question: UseTools) -> Iterator[Event]:
    """Run the calls at the same time, and report each as it ends. A single one runs in the caller's thread."""
    only = len(question.calls) == 1
    for judged, result in _in_turn(question.calls) if only else _concurrently(question.calls):
        question.results[judged.call.id] = result
        yield ToolCallFinished(judged.call, result)


def _in_turn(calls: tuple[JudgedCall, ...]) -> Iterator[tuple[JudgedCall, ToolResult]]:
    return ((judged, judged.run()) for judged in calls)


_Outcome = tuple[JudgedCall, ToolResult | BaseException]


def _concurrently(calls: tuple[JudgedCall, ...]) -> Iterator[tuple[JudgedCall, ToolResult]]:
    """Each call with its result, as they end. The threads are daemons: a tool that hangs cannot keep a process."""
    waiting: queue.SimpleQueue[JudgedCall] = queue.SimpleQueue()
    ended: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
    for judged in calls:
        waiting.put(judged)
    for _ in range(min(len(calls), MAX_THREADS)):
        threading.Thread(target=copy_context().run, args=(_work, waiting, ended), daemon=True).start()
    for _ in calls:
        judged, outcome = ended.get()
        if isinstance(outcome, BaseException):
            raise outcome
        yield judged, outcome


def _work(waiting: queue.SimpleQueue[JudgedCall], ended: queue.SimpleQueue[_Outcome]) -> None:
    """Run waiting calls until none is left. Even SystemExit ends the run, not just this thread."""
    while True:
        try:
            judged = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            ended.put((judged, judged.run()))
        except BaseException as error:  # noqa: BLE001 - raised again where the run is waiting
            ended.put((judged, error))


async def _ause_tools(question: UseTools) -> AsyncGenerator[Event, None]:
    """Run the calls as tasks, and report each as it ends."""
    tasks = {asyncio.create_task(judged.arun()): judged.call for judged in question.calls}
    running_tasks = set(tasks)
    try:
        while running_tasks:
            ended, running_tasks = await asyncio.wait(running_tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                question.results[tasks[task].id] = task.result()
            for task in ended:
                yield ToolCallFinished(tasks[task], task.result())
    finally:
        for task in running_tasks:
            task.cancel()
        await asyncio.gather(*running_tasks, return_exceptions=True)
