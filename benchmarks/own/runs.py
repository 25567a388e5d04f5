"""Time of a run and of a recording, without the model.

Measures a run without tools; one iteration with a tool call in runs of 1, 50 and 200 iterations; and the additional
time of a recording per iteration, with a scripted model, with a local server that answers immediately, and with one
that takes 20 ms. The variants alternate, so that noise affects all of them. The minimum shows the time of the program
itself, the median its time on the machine under load.
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
    """Yield the tables."""
    yield from ["### Runs and recordings", "", *alone(), "", *iterations(), "", *recordings()]


def alone() -> Iterator[str]:
    """Yield the table of a run without tools."""
    yield "| operation | median | minimum |"
    yield "|---|---|---|"
    agent = Agent("x", [], llm=ScriptedLLM("hi", repeat=True))
    yield f"| a run without tools | {both(repeated(lambda: agent.run('go'), RUNS, agent.reset))} |"


def iterations() -> Iterator[str]:
    """Yield the table of iterations with a tool call, by the length of the run."""
    yield "| length of the run | an iteration, median | minimum | ratio to the shortest run |"
    yield "|---|---|---|---|"
    times: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(LONG_RUNS):
        for length, taken in times.items():
            taken.append(seconds_of_run(scripted(length)) / length)
    first = min(times[LENGTHS[0]])
    for length, taken in times.items():
        yield f"| {length} {'call' if length == 1 else 'calls'} | {both(taken)} | {min(taken) / first:.2f} |"


def recordings() -> Iterator[str]:
    """Yield the table of the additional time of a recording."""
    yield "| model | an iteration, median | minimum | difference recorded, median | minimum | ratio of medians |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        models = (
            ("a script", seconds_scripted),
            ("a local server", seconds_served),
            ("a local server that takes 20 ms", partial(seconds_served, before_seconds=0.02)),
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
    """The time of a run with a scripted model."""
    return seconds_of_run(scripted(RECORDED_ITERATIONS), path)


def seconds_served(path: Path | None, before_seconds: float = 0.0) -> float:
    """The time of a run with a model on a local server that answers after a delay."""
    replies = [slow(reply, before_seconds=before_seconds) for reply in lines_of_run(RECORDED_ITERATIONS)]
    with FakeServer(*replies) as server, closing(client_of(server)) as llm:
        return seconds_of_run(llm, path)


def client_of(server: FakeServer) -> LLM:
    """A client of the server."""
    return LLM("openai", model="m", api_key="a-key", base_url=server.base_url)


def seconds_of_run(llm: LLM, path: Path | None = None) -> float:
    """The time of a run in which the model calls a tool repeatedly; recorded if a path is given."""

    def double(number: int) -> int:
        return 2 * number

    def run() -> None:
        with nullcontext() if path is None else record(path):
            agent.run("Double them all.").raise_for_status()

    agent = Agent("x", [Tool(double)], max_iterations=300, llm=llm, limits=LIMITS)
    return measured(run)


def scripted(length: int) -> ScriptedLLM:
    """A model that calls a tool `calls` times, and then answers."""
    return ScriptedLLM(*lines_of_run(length))


def lines_of_run(length: int) -> list[Any]:
    """The lines of this model."""
    return [*(call("double", number=number) for number in range(length)), "Done."]
