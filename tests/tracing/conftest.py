"""Fixtures for tracing: agents, servers, and an OpenTelemetry SDK in memory."""

import contextlib
import http.server
import os
import threading

import pytest

from agentkit import Agent, Policy, Rule, core_tools, tool
from agentkit.testing import ScriptedLLM, call, say
from agentkit.tracing import OpenTelemetry


@pytest.fixture(autouse=True)
def no_provider(monkeypatch):
    """Remove all variables that name a provider or a collector from the environment."""
    for name in os.environ:
        if (
            name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "OTEL_"))
            and name != "AGENTKIT_STATE"
        ):
            monkeypatch.delenv(name)


@tool
def fail(reason: str) -> str:
    """Fail with a reason."""
    raise ValueError(reason)


@tool
def refused() -> str:
    """A tool whose calls are denied."""
    return "never"


def make_agent(*lines, name="helper", **options):
    """Return an agent with tools that compute, that fail, and that are denied."""
    chosen = lines or (
        say("Let me see.", call("calculator", expression="6*7"), call("fail", reason="sk-abcdefghij0123456789ABCDEFG")),
        call("refused"),
        "It is 42.",
    )
    tools = [*core_tools, fail, refused]
    policy = Policy(rules=[Rule("deny", "refused", reason="Nobody may do this.", name="no-refused")])
    return Agent(name, tools, llm=ScriptedLLM(*chosen), policy=policy, **options)


@pytest.fixture(name="make_agent", scope="session")
def make_agent_fixture():
    """Return the function that creates such an agent."""
    return make_agent


@pytest.fixture
def serving():
    """Return a function that starts a local server with a class of handlers, which stops after the test."""
    with contextlib.ExitStack() as ends:

        def start(handler):
            server = ends.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            ends.callback(thread.join)
            ends.callback(server.shutdown)
            return server

        yield start


class Kept:
    """The OpenTelemetry SDK with everything in memory, and listeners that report to it."""

    def __init__(self):
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def listener(self, *, content=False):
        """Return a listener that reports to this SDK."""
        return OpenTelemetry(content=content, tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self):
        """Return the finished spans, in the order in which they started."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time)

    def span(self, name):
        """Return the only span with this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def tree(self):
        """Return the names of the spans, indented by depth."""
        depths = {None: -1}
        received = []
        for span in self.spans:
            depths[span.context.span_id] = depths[span.parent.span_id if span.parent else None] + 1
            received.append(f"{'  ' * depths[span.context.span_id]}{span.name}")
        return received

    def points(self, name):
        """Return the data points of one metric."""
        found = self.reader.get_metrics_data()
        metrics = [
            metric for each in found.resource_metrics for scope in each.scope_metrics for metric in scope.metrics
        ]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def sdk():
    """An OpenTelemetry SDK that stores spans and metrics in memory."""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    sdk = Kept()
    yield sdk
    sdk.tracers.shutdown()
    sdk.meters.shutdown()
