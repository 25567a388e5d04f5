"""What do a run and a recording cost, beside the model?

First a run without tools. Then what one iteration with a tool call takes in runs of 1, 50 and 200 of them, and by how
much the iterations of long runs are dearer. Last what recording adds to an iteration, when the model is a script that
answers at once, when it is a server on this machine that does, and when that takes 20 ms. What is compared takes
turns, so that all share the noise; the least of the times is what the program itself takes, the median what it takes
on this machine now.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from agentkit import LLM, Agent, Limits, Tool
from agentkit.testing import FakeServer, ScriptedLLM, call, record, slow
from benchmarks.own.times import both, measured, microseconds, repeated

RUNS = 1_000
LENGTHS, LONG_RUNS = (1, 50, 200), 15
RECORDED_ITERATIONS, RECORDED_RUNS = 20, 25
LIMITS = Limits(tool_calls=None, repeated_calls=None)


def tables(_: argparse.Namespace) -> Iterator[str]:
    """The tables."""
    yield from ["### Runs and recordings", "", *alone(), "", *iterations(), "", *recordings()]


def alone() -> Iterator[str]:
    """The table of what a run takes in which nothing happens."""
    yield "| what | median | least |"
    yield "|---|---|---|"
    agent = Agent("x", [], llm=ScriptedLLM("hi", repeat=True))
    yield f"| a run without tools | {both(repeated(lambda: agent.run('go'), RUNS, agent.reset))} |"


def iterations() -> Iterator[str]:
    """The table of iterations with a tool call, by how many the run has."""
    yield "| a run of | an iteration, median | least | ratio to the shortest run |"
    yield "|---|---|---|---|"
    times: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(LONG_RUNS):
        for length, taken in times.items():
            taken.append(seconds_of_run(scripted(length)) / length)
    first = min(times[LENGTHS[0]])
    for length, taken in times.items():
        yield f"| {length} {'call' if length == 1 else 'calls'} | {both(taken)} | {min(taken) / first:.2f} |"


def recordings() -> Iterator[str]:
    """The table of what a recording adds."""
    yield "| the model | an iteration, median | least | more with a recording, median | least | ratio of medians |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        models = (
            ("a script", seconds_scripted),
            ("a server here", seconds_served),
            ("a server here that takes 20 ms", partial(seconds_served, before_seconds=0.02)),
        )
        for name, seconds in models:
            without, recorded = [], []
            for _ in range(RECORDED_RUNS):
                without.append(seconds(None) / RECORDED_ITERATIONS)
                recorded.append(seconds(Path(folder) / "run.jsonl") / RECORDED_ITERATIONS)
            more = [statistics.median(recorded) - statistics.median(without), min(recorded) - min(without)]
            ratio = statistics.median(recorded) / statistics.median(without)
            yield f"| {name} | {both(without)} | {' | '.join(map(microseconds, more))} | {ratio:.2f} |"


def seconds_scripted(path: Path | None) -> float:
    """How long a run takes with a model that is a script."""
    return seconds_of_run(scripted(RECORDED_ITERATIONS), path)


def seconds_served(path: Path | None, before_seconds: float = 0.0) -> float:
    """How long a run takes with a model that a server on this machine serves, after a while."""
    replies = [slow(reply, before_seconds=before_seconds) for reply in said(RECORDED_ITERATIONS)]
    with FakeServer(*replies) as server, closing(client_of(server)) as llm:
        return seconds_of_run(llm, path)


def client_of(server: FakeServer) -> LLM:
    """A client of the server."""
    return LLM("openai", model="m", api_key="a-key", base_url=server.base_url)


def seconds_of_run(llm: LLM, path: Path | None = None) -> float:
    """How long a run takes in which the model wishes for a tool again and again; recorded where there is a path."""

    def double(number: int) -> int:
        return 2 * number

    def run() -> None:
        with nullcontext() if path is None else record(path):
            agent.run("Double them all.").raise_for_status()

    agent = Agent("x", [Tool(double)], max_iterations=300, llm=llm, limits=LIMITS)
    return measured(run)


def scripted(length: int) -> ScriptedLLM:
    """A model that wishes for a tool so many times, and then answers."""
    return ScriptedLLM(*said(length))


def said(length: int) -> list[Any]:
    """What such a model says."""
    return [*(call("double", number=number) for number in range(length)), "Done."]
