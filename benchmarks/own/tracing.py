"""Additional time of listeners and tracing per iteration.

An iteration has one tool call; the model is scripted, or on a local server that answers immediately. The listeners
alternate with a run without listeners, so that noise affects all of them. The CPU time of the whole process is
measured, including the exporting thread. OpenTelemetry is measured with its SDK and an exporter that discards the
spans, and with the API alone, as in a program without a collector.
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
    """Yield the table of additional times."""
    yield from ["### Tracing", ""]
    with tempfile.TemporaryDirectory() as folder:
        kinds = kinds_in(Path(folder))
        for name, seconds in (("a script", seconds_scripted), ("a local server", seconds_served)):
            yield f"The model is {name}:"
            yield ""
            yield "| listener | an iteration, median | minimum | difference to none, minimum | ratio of minimums |"
            yield "|---|---|---|---|---|"
            yield from rows(kinds, seconds)
            yield ""


def rows(kinds: Kinds, seconds: Callable[[list[Any]], float]) -> Iterator[str]:
    """The rows of all listeners, which alternate."""
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(RUNS):
        for kind, taken in times.items():
            taken.append(seconds(kinds[kind]()) / ITERATIONS)
    least = min(times["none"])
    for kind, taken in times.items():
        more = "" if kind == "none" else microseconds(min(taken) - least)
        yield f"| {kind} | {both(taken)} | {more} | {min(taken) / least:.2f} |"


def kinds_in(folder: Path) -> Kinds:
    """The measured listeners: factories for the listeners of one agent."""
    kinds = {
        "none": list,
        "an empty function": lambda: [_ignore],
        "console": lambda: [Console((folder / "lines").open("a", encoding="utf-8"))],
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
    """An SDK that exports spans in a thread to an exporter that discards them, and that aggregates metrics."""
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
    """The time of a run with a scripted model."""
    return seconds_of_run(ScriptedLLM(*_said()), listeners)


def seconds_served(listeners: list[Any]) -> float:
    """The time of a run with a model on a local server."""
    with FakeServer(*_said()) as server:
        llm = LLM("openai", model="m", api_key="a-key", base_url=server.base_url)
        with closing(llm):
            return seconds_of_run(llm, listeners)


def seconds_of_run(llm: LLM, listeners: list[Any]) -> float:
    """The time of a run in which the model calls a tool repeatedly."""

    def double(number: int) -> int:
        return 2 * number

    agent = Agent("x", [Tool(double)], max_iterations=300, llm=llm, limits=LIMITS, listeners=listeners)
    begin = time.process_time()
    agent.run("Double them all.").raise_for_status()
    return time.process_time() - begin


def _said() -> list[Any]:
    return [*(call("double", number=number) for number in range(ITERATIONS)), "Done."]
