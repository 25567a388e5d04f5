"""Overheads: processor time of a run with one feature switched on, as a ratio to the same run without it.

Each run has one tool call; the model is a local server that answers at once. The features take turns, so that all share
the noise of the machine, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentkit import LLM, Agent
from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, call, record
from agentkit.tracing import Console, JSONLines
from benchmarks.own.times import microseconds

ROUNDS = 60


@dataclass(frozen=True)
class Overhead:
    """One feature: `run` performs a run with it."""

    title: str
    must: str
    run: Callable[[LLM, Path, int], object]


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def tables(wishes: argparse.Namespace) -> Iterator[str]:
    """The table of all features."""
    yield from ["### Overheads", "", "| a run with | CPU, least | ratio to plain | must |", "|---|---|---|---|"]
    times: dict[str, list[float]] = {overhead.title: [] for overhead in OVERHEADS}
    rounds = 2 if wishes.quick else ROUNDS
    lines = [call("double", number=2), "It is 4."] * (rounds * len(OVERHEADS))
    with FakeServer(*lines) as server, closing(client_of(server)) as llm, tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for overhead in OVERHEADS:
                begin = time.process_time()
                overhead.run(llm, Path(folder), number)
                times[overhead.title].append(time.process_time() - begin)
    plain = min(times[OVERHEADS[0].title])
    for overhead in OVERHEADS:
        least = min(times[overhead.title])
        yield f"| {overhead.title} | {microseconds(least)} | {least / plain:.2f} | {overhead.must} |"


def client_of(server: FakeServer) -> LLM:
    """A client of the local server."""
    return LLM("openai", model="m", api_key="a-key", base_url=server.base_url)


def plain(llm: LLM, **options: Any) -> None:
    """A run of a new agent."""
    Agent("helper", [double], llm=llm, **options).run("Double 2.").raise_for_status()


def recorded(llm: LLM, folder: Path, number: int) -> None:
    """A run that is recorded in a new cassette."""
    with record(folder / f"{number}.jsonl"):
        plain(llm)


def awaited(llm: LLM) -> None:
    """A run of `arun` in a new event loop."""
    result = asyncio.run(Agent("helper", [double], llm=llm).arun("Double 2."))
    result.raise_for_status()


OVERHEADS = (
    Overhead("nothing else", "", lambda llm, _, __: plain(llm)),
    Overhead("a session in memory", "1.05", lambda llm, _, __: plain(llm, session=Session())),
    Overhead(
        "a SQLite session, opened each time",
        "1.5",
        lambda llm, folder, number: plain(llm, session=Session.open(folder / "sessions.db", f"{number}")),
    ),
    Overhead("a recording", "1.15", recorded),
    Overhead("JSON lines", "1.15", lambda llm, folder, _: plain(llm, listeners=[JSONLines(folder / "trace.jsonl")])),
    Overhead(
        "lines at the console",
        "1.15",
        lambda llm, _, __: plain(llm, listeners=[Console(io.StringIO())]),
    ),
    Overhead("`arun` in a new event loop", "1.2", lambda llm, _, __: awaited(llm)),
)
