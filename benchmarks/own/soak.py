"""Soak test: memory of a process after many runs, as many as two a second for an hour, without pauses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.catalog import LIBRARIES
from benchmarks.processes import Server, Worker, cores

_RUNS_OF_AN_HOUR = 7_200
_MIX = (
    ({"does": "ask", "options": {"tools": "lookup"}, "times": 100}, "turns-2", 1),
    ({"does": "aask", "options": {"tools": "lookup", "together": 20}, "times": 10}, "turns-2", 20),
    ({"does": "stream", "times": 100}, "words-100", 1),
)
"""The repeated work of a worker: the task, the script, and the runs per repetition."""


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of memory after a number of runs: sync, 20 in parallel, and streamed."""
    yield from ["### The soak", "", "| runs | memory | open files | threads |", "|---|---|---|---|"]
    agentkit = next(library for library in LIBRARIES if library.kind == "own")
    a_sample = sum(int(str(task["times"])) * runs for task, _, runs in _MIX)
    samples = 1 if options.quick else _RUNS_OF_AN_HOUR // a_sample
    kept: list[int] = []
    with Server() as server:
        worker = Worker(Path(sys.executable), agentkit.adapter, cores()[1], server.variables)
        for number in range(samples):
            for task, script, _ in _MIX:
                result = worker.do({**task, "url": server.url(script)})
                if "error" in result:
                    yield f"| failed: {result['error']} | | | |"
                    return
            kept.append(result["resident"])
            if number in {0, samples - 1} or number % 4 == 3:
                runs = (number + 1) * a_sample
                yield f"| {runs:,} | {kept[-1] / 1e6:.1f} MB | {result['descriptors']} | {result['threads']} |"
        worker.close()
    if samples > 1:
        yield ""
        yield f"From the second half of the runs on: {(kept[-1] - kept[samples // 2]) / 1e3:+,.0f} KB."
