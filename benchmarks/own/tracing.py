"""What does it cost to be told what runs do?

What tracing adds to an iteration with one tool call, when the model is a script that answers at once and when it is a
server on this machine that does. The kinds of tracing take turns with a run that nobody listens to, so that all share
the noise; what counts is the processor's time of the whole process, with the thread that exports. The SDK of
OpenTelemetry collects spans for an exporter that throws them away; without it the API alone is there, as in a program
that has listeners and no collector.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from agentkit import LLM, Agent, Limits, Tool
from agentkit.testing import FakeServer, ScriptedLLM, call
from agentkit.tracing import Console, JSONLines, OpenTelemetry
from benchmarks.own.times import both, microseconds

ITERATIONS, RUNS = 20, 25
LIMITS = Limits(tool_calls=None, repeated_calls=None)
Kinds = Mapping[str, Callable[[], list[Any]]]


def tables(_: argparse.Namespace) -> Iterator[str]:
    """The table of what tracing adds."""
    yield from ["### Tracing", ""]
    with tempfile.TemporaryDirectory() as folder:
        kinds = kinds_in(Path(folder))
        for name, seconds in (("a script", seconds_scripted), ("a server here", seconds_served)):
            yield f"The model is {name}:"
            yield ""
            yield "| who listens | an iteration, median | least | more than nobody, least | ratio of the least |"
            yield "|---|---|---|---|---|"
            yield from rows(kinds, seconds)
            yield ""


def rows(kinds: Kinds, seconds: Callable[[list[Any]], float]) -> Iterator[str]:
    """A row for each kind of tracing, all of which take turns."""
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(RUNS):
        for kind, taken in times.items():
            taken.append(seconds(kinds[kind]()) / ITERATIONS)
    least = min(times["nobody"])
    for kind, taken in times.items():
        more = "" if kind == "nobody" else microseconds(min(taken) - least)
        yield f"| {kind} | {both(taken)} | {more} | {min(taken) / least:.2f} |"


def kinds_in(folder: Path) -> Kinds:
    """Who may listen: what makes the listeners of one agent."""
    kinds = {
        "nobody": list,
        "a function that does nothing": lambda: [_ignore],
        "lines for a person": lambda: [Console((folder / "lines").open("a", encoding="utf-8"))],
        "JSON lines": lambda: [JSONLines(folder / "trace.jsonl")],
        "JSON lines with content": lambda: [JSONLines(folder / "trace.jsonl", content=True)],
        "OpenTelemetry without an SDK": lambda: [OpenTelemetry()],
    }
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        return kinds
    providers = _providers()
    return {
        **kinds,
        "OpenTelemetry with its SDK": lambda: [OpenTelemetry(**providers)],
        "OpenTelemetry with its SDK and content": lambda: [OpenTelemetry(content=True, **providers)],
    }


def _ignore(_event: object) -> None:
    """A listener that does nothing."""


def _providers() -> dict[str, Any]:
    """An SDK that collects spans in a thread of its own and throws them away, and that adds up metrics."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, *_: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
    return {"tracer_provider": tracers, "meter_provider": MeterProvider([InMemoryMetricReader()])}


def seconds_scripted(listeners: list[Any]) -> float:
    """How long a run takes with a model that is a script."""
    return seconds_of_run(ScriptedLLM(*_said()), listeners)


def seconds_served(listeners: list[Any]) -> float:
    """How long a run takes with a model that a server on this machine serves."""
    with FakeServer(*_said()) as server:
        llm = LLM("openai", model="m", api_key="a-key", base_url=server.base_url)
        with closing(llm):
            return seconds_of_run(llm, listeners)


def seconds_of_run(llm: LLM, listeners: list[Any]) -> float:
    """How long a run takes in which the model wishes for a tool again and again."""

    def double(number: int) -> int:
        return 2 * number

    agent = Agent("x", [Tool(double)], max_iterations=300, llm=llm, limits=LIMITS, listeners=listeners)
    begin = time.process_time()
    agent.run("Double them all.").raise_for_status()
    return time.process_time() - begin


def _said() -> list[Any]:
    return [*(call("double", number=number) for number in range(ITERATIONS)), "Done."]
