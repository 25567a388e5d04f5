"""Time of session storage.

All figures are medians in microseconds. The first table shows the time per message of an agent's run, without and with
a store, with a scripted model and an empty tool. The second shows the time to store an event, to start a run, to
read new events, and to read all, with sessions of 100 and of 10,000 messages. The third shows the time of an append
with parallel writers: threads that share a store, threads with separate stores, and processes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from agentkit import Agent
from agentkit.events import ResponseReceived, RunEnded, RunStarted
from agentkit.messages import AssistantMessage, Message, Response, ToolCall, UserMessage
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry, SessionStore
from agentkit.sessions.stores import StoreLocation, store_at
from agentkit.testing import ScriptedLLM, call
from agentkit.usage import Usage
from benchmarks.own.times import measured, median, microseconds

WRITERS, APPENDS, ROUNDS = 4, 250, 500
RUNS, ITERATIONS = 25, 20
MESSAGES = 2 * ITERATIONS + 2
CALL = ToolCall("call_0123456789", "calculator", '{"expression": "0.17 * 2400"}')
ANSWER = ResponseReceived(
    Response(AssistantMessage("It is 408. " * 50, (CALL,)), usage=Usage(1_200, 80, requests=1), model="a-model")
)


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables; `postgres` is the URL of a database to measure as well, which keeps two new sessions."""
    yield from ["### Sessions", ""]
    with tempfile.TemporaryDirectory() as folder:
        places: dict[str, StoreLocation] = {"memory": ":memory:", "SQLite": Path(folder) / "sessions.db"}
        if options.postgres:
            places["PostgreSQL"] = options.postgres
        yield from [*runs({"none": None, **places}), "", *costs(places), "", *contention(Path(folder) / "shared.db")]


def runs(places: dict[str, StoreLocation]) -> Iterator[str]:
    """Yield the table of the time per message of an agent's run. The variants alternate."""
    yield "| store of an agent's session | time per message | difference | ratio |"
    yield "|---|---|---|---|"
    stores = {name: None if place is None else store_at(place) for name, place in places.items()}
    times: dict[tuple[str, int], list[float]] = {(name, count): [] for name in stores for count in (0, 1_000)}
    for _ in range(RUNS):
        for (name, count), taken in times.items():
            taken.append(run_seconds(talked(stores[name], count)) / MESSAGES)
    for (name, count), taken in times.items():
        own, without = statistics.median(taken), statistics.median(times["none", count])
        more = f"{microseconds(own - without)} | {own / without:.2f}"
        yield f"| {name}, {count} messages before | {microseconds(own)} | {more} |"


def talked(store: SessionStore | None, count: int) -> Session:
    """A new session with `size` messages, which were read."""
    session = Session(f"{count} messages, {time.time_ns()}", store)
    for _ in range(count // 100):
        turns = [(UserMessage(f"What is {number}?"), AssistantMessage(f"It is {number}.")) for number in range(50)]
        session.append([message for pair in turns for message in pair])
    _ = session.messages
    return session


def run_seconds(session: Session) -> float:
    """The time of a run in which the model calls a tool repeatedly."""

    def double(number: int) -> int:
        return 2 * number

    lines = [call("double", number=number) for number in range(ITERATIONS)]
    llm = ScriptedLLM(*lines, "Done.")
    agent = Agent("helper", [double], llm=llm, max_iterations=ITERATIONS + 1, session=session)
    return measured(lambda: agent.run("Double them all.").raise_for_status())


def costs(places: dict[str, StoreLocation]) -> Iterator[str]:
    """Yield the table of single operations."""
    yield "| store, messages | store an event | start a run | read new events | open and read all |"
    yield "|---|---|---|---|---|"
    for name, place in places.items():
        for count in (100, 10_000):
            store = store_at(place)
            session = talked(store, count)
            whole = median(partial(read_all, session.name, store), 5)
            yield f"| {name}, {count} | {keeping(session)} | {beginning(session)} | {reading(session)} | {whole} |"
            store.close()


def read_all(name: str, store: SessionStore) -> tuple[Message, ...]:
    """Open a session and read all of it."""
    return Session(name, store).messages


def keeping(session: Session) -> str:
    """Store a response of the model."""
    run = session.begin()
    run.keep(RunStarted("helper", "How much?"))
    figure = median(lambda: run.keep(ANSWER), ROUNDS)
    run.keep(RunEnded("done"))
    run.leave()
    return figure


def beginning(session: Session) -> str:
    """Start a run, and close it without work."""
    return median(lambda: session.begin().close(), ROUNDS)


def reading(session: Session) -> str:
    """Read the events appended since the last time, one message each."""
    runs = iter([SessionEntry(f"run-{number}", 1.0, RunEnded("done")) for number in range(ROUNDS)])
    times = []
    for entry in runs:
        if session.store is not None:
            session.store.append(session.name, [entry])
        times.append(measured(lambda: session.unfinished))
    return microseconds(statistics.median(times))


def contention(path: Path) -> Iterator[str]:
    """Yield the table of parallel writers to one file."""
    yield f"| {WRITERS} writers on one file | an append |"
    yield "|---|---|"
    shared = store_at(path)
    yield f"| one alone | {microseconds(append_often(path) / APPENDS)} |"
    with ThreadPoolExecutor(WRITERS) as pool:
        begin = time.perf_counter()
        list(pool.map(lambda number: append_to(shared, number), range(WRITERS)))
        yield f"| threads, one store | {microseconds((time.perf_counter() - begin) / APPENDS / WRITERS)} |"
        begin = time.perf_counter()
        list(pool.map(append_often, [path] * WRITERS))
        yield f"| threads, separate stores | {microseconds((time.perf_counter() - begin) / APPENDS / WRITERS)} |"
    with ProcessPoolExecutor(WRITERS, get_context("spawn")) as processes:
        list(processes.map(append_often, [path] * WRITERS))  # the processes have started
        begin = time.perf_counter()
        list(processes.map(append_often, [path] * WRITERS))
        yield f"| processes | {microseconds((time.perf_counter() - begin) / APPENDS / WRITERS)} |"
    shared.close()


def append_often(path: Path) -> float:
    """Append many times with a separate store; returns the time."""
    store = store_at(path)
    begin = time.perf_counter()
    append_to(store, 0)
    taken = time.perf_counter() - begin
    store.close()
    return taken


def append_to(store: SessionStore, number: int) -> None:
    """Append many times."""
    for _ in range(APPENDS):
        store.append("shared", [SessionEntry(f"run-{number}", 1.0, ANSWER)])
