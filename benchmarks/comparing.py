"""Comparison of libraries: each in its own process, measured in turns, with a part of the runs in every round."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.catalog import Library, Scenario
from benchmarks.figures import Spread, ratios
from benchmarks.processes import WORKERS, Process, Server, Worker, cores

_IMPORTED = """
import time
begin, cpu_begin = time.perf_counter_ns(), time.process_time_ns()
{statement}
print(time.perf_counter_ns() - begin, time.process_time_ns() - cpu_begin)
"""
_WARMING = 2


@dataclass
class Outcome:
    """The result of a library in a scenario: one figure per round, or the reason why it has none."""

    library: Library
    rounds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: int = 0
    connections: float = 0.0
    refusal: str = ""

    @property
    def spread(self) -> Spread | None:
        """The median and the quartiles of the figures."""
        return Spread.of(self.rounds) if self.rounds else None

    def against(self, reference: Outcome | None) -> Spread | None:
        """The ratio to the reference."""
        return ratios(self.rounds, reference.rounds) if reference and self.rounds else None

    def cpu_against(self, reference: Outcome | None) -> Spread | None:
        """The ratio to the reference in CPU time."""
        return ratios(self.cpu, reference.cpu) if reference and self.cpu else None


@dataclass(frozen=True)
class Bench:
    """The server, and the interpreter of each library."""

    server: Server
    pythons: Mapping[str, Path]
    quick: bool = False
    most_rounds: int = 1_000

    def compare(self, scenario: Scenario, libraries: Sequence[Library]) -> list[Outcome]:
        """Measure a scenario with each library, in turns; each round starts with another library."""
        outcomes = [Outcome(library) for library in libraries if self._takes_part(library, scenario)]
        runner = self._new if scenario.is_fresh else self._warm
        running = [runner(scenario, outcome) for outcome in outcomes]
        rounds = 1 if self.quick else min(scenario.rounds, self.most_rounds)
        for number in range(rounds):
            start = number % len(running) if running else 0
            for process in [*running[start:], *running[:start]]:
                process.go()
        for process in running:
            process.close()
        return outcomes

    def _takes_part(self, library: Library, scenario: Scenario) -> bool:
        is_importable = bool(library.program) or scenario.does not in {"import", "program"}
        return library.name in self.pythons and library.kind in scenario.kinds and is_importable

    def profile(self, scenario: Scenario, library: Library) -> dict[str, Any]:
        """Profile a scenario by package."""
        with WarmProcess(self, scenario, Outcome(library)) as process:
            return process.worker.do(process.task(max(scenario.times, 5)) | {"profile": True})

    def urls(self, scenario: Scenario) -> dict[str, Any]:
        """The URL of a scenario's script, and the options of its task."""
        scheme = "https" if scenario.tls else "http"
        options = dict(scenario.options)
        if scenario.does == "stall":
            options["other_url"] = self.server.url("turns-1")
        return {"url": self.server.url(scenario.script, scheme), "options": options}

    def _warm(self, scenario: Scenario, outcome: Outcome) -> WarmProcess:
        return WarmProcess(self, scenario, outcome)

    def _new(self, scenario: Scenario, outcome: Outcome) -> NewProcess:
        return NewProcess(self, scenario, outcome)


class WarmProcess:
    """A library whose process runs, warmed up, for all rounds of a scenario."""

    def __init__(self, bench: Bench, scenario: Scenario, outcome: Outcome) -> None:
        self._bench, self._scenario, self._outcome = bench, scenario, outcome
        library = outcome.library
        python = bench.pythons[library.name]
        self.worker = Worker(python, library.adapter, cores()[1], bench.server.variables)
        is_short = scenario.rounds > 1
        self._ask(_WARMING if is_short and not bench.quick else 1, kept=not is_short)

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def task(self, times: int) -> dict[str, Any]:
        """The request to the worker."""
        scenario = self._scenario
        return {"does": scenario.does, "times": times, "inner": scenario.inner, **self._bench.urls(scenario)}

    def go(self) -> None:
        """Measure one round."""
        if not self._outcome.refusal and self._scenario.rounds > 1:
            self._ask(1 if self._bench.quick else self._scenario.times, kept=True)

    def close(self) -> None:
        """End the process."""
        self.worker.close()

    def _ask(self, times: int, *, kept: bool) -> None:
        outcome, scenario = self._outcome, self._scenario
        self._bench.server.tally()
        result = self.worker.do(self.task(times))
        tally = self._bench.server.tally()
        runs = times * scenario.inner
        outcome.refusal = invalid_reason(result, tally, scenario, runs)
        if kept and not outcome.refusal:
            counted = [tally.get(scenario.metric, 0) / runs] if scenario.is_counted else result[scenario.metric]
            outcome.rounds.append(statistics.median(counted) / scenario.per)
            outcome.cpu.append(statistics.median(result["cpu"]) / scenario.per)
            outcome.peak = result["peak"]
            outcome.connections = max(outcome.connections, (tally.get("connections", 1) - 1) / runs)


def invalid_reason(result: Mapping[str, Any], tally: Mapping[str, Any], scenario: Scenario, runs: int) -> str:
    """The reason why a result is invalid: the worker failed, or it did less than required. None if it is valid."""
    if "missing" in result or "error" in result:
        return str(result.get("missing") or result["error"])
    if tally["refusals"]:
        return f"the server refused: {tally['refusals'][0]}"
    asked = tally.get("requests", 0)
    if scenario.requests and asked != runs * scenario.requests:
        return f"sent {asked} requests instead of {runs * scenario.requests}"
    if tally["most_messages"] < scenario.messages:
        return f"sent {tally['most_messages']} messages of history instead of {scenario.messages}"
    if scenario.value is not None and result["values"][-1] != scenario.value:
        return f"gave {result['values'][-1]} instead of {scenario.value}"
    return ""


class NewProcess:
    """A library that is measured with new processes; the first one only warms the disk cache."""

    def __init__(self, bench: Bench, scenario: Scenario, outcome: Outcome) -> None:
        self._bench, self._scenario, self._outcome = bench, scenario, outcome
        self.go()
        outcome.rounds.clear()
        outcome.cpu.clear()

    def go(self) -> None:
        """Start a process, and wait for its output."""
        command = self._command()
        if self._outcome.refusal:
            return
        self._bench.server.tally()
        python = self._bench.pythons[self._outcome.library.name]
        process = Process([python, *command], cores()[1], self._bench.server.variables)
        try:
            output, wall = process.read(b"\n"), process.stopwatch_ns()
        except TimeoutError:
            output, wall = b"", 0
        status, cpu_seconds = process.wait()
        tally = self._bench.server.tally()
        result = {"values": [None]} if output and status == 0 else {"error": f"ended with status {status}"}
        self._outcome.refusal = invalid_reason(result, tally, self._scenario, 1)
        if not self._outcome.refusal:
            in_process = [] if self._scenario.does == "first" else [float(word) for word in output.split()[-2:]]
            wall_ns, cpu_ns = in_process or (wall, cpu_seconds * 1e9)
            self._outcome.rounds.append(wall_ns)
            self._outcome.cpu.append(cpu_ns)

    def close(self) -> None:
        """Do nothing: each process has ended already."""

    def _command(self) -> list[str | Path]:
        library, does = self._outcome.library, self._scenario.does
        if does == "first":
            return [WORKERS / "worker.py", library.adapter, self._bench.urls(self._scenario)["url"]]
        statement = library.module if does == "import" else library.program
        return ["-c", _IMPORTED.format(statement=statement)]
