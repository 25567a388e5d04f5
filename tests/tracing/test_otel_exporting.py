"""Tests for exported spans and metrics: an OTLP receiver, and the parsers of published viewers."""

import http.server
import json

import pytest

from agentkit import Agent, core_tools
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, call
from agentkit.tracing import OpenTelemetry


class Receiver(http.server.BaseHTTPRequestHandler):
    """A receiver of traces and metrics over OTLP/HTTP, which parses them with the protocol's own messages."""

    def do_POST(self):
        """Store the request of an exporter."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        kind = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}[self.path]
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append(kind.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def receiver(serving):
    """A running local receiver that stores the received requests."""
    server = serving(Receiver)
    server.received = []
    return server


def value_of(attribute):
    """Return the value of an attribute of the protocol."""
    return getattr(attribute.value, attribute.value.WhichOneof("value"))


def run(listener):
    """Run an agent with one tool call, over the network."""
    with FakeServer(call("calculator", expression="6*7"), "It is 42.") as server:
        llm = LLM(base_url=server.base_url, model="any", protocol="chat")
        Agent("helper", core_tools, llm=llm, listeners=[listener]).run("How much is 6*7?")


def test_otlp_exporter_sends_spans_and_metrics(receiver):
    """The official OTLP exporter sends the spans and metrics of a run."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the exporter is not installed")
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    url = f"http://127.0.0.1:{receiver.server_address[1]}"
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics"))])
    run(OpenTelemetry(tracer_provider=tracers, meter_provider=meters))
    tracers.shutdown()
    meters.shutdown()

    sent = [each for each in receiver.received if hasattr(each, "resource_spans")]
    scopes = [scope for each in sent for resource in each.resource_spans for scope in resource.scope_spans]
    spans = {span.name: span for scope in scopes for span in scope.spans}
    assert {scope.scope.name for scope in scopes} == {"agentkit"}
    assert set(spans) == {"invoke_agent helper", "iteration 1", "iteration 2", "chat any", "execute_tool calculator"}
    assert spans["execute_tool calculator"].parent_span_id == spans["iteration 1"].span_id
    fields = {each.key: value_of(each) for each in spans["execute_tool calculator"].attributes}
    assert (fields["gen_ai.tool.name"], fields["agentkit.decision.verdict"]) == ("calculator", "allow")

    measured = [each for each in receiver.received if hasattr(each, "resource_metrics")]
    metrics = {
        metric.name: metric
        for each in measured
        for resource in each.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert set(metrics) == {"gen_ai.client.token.usage", "gen_ai.client.operation.duration", "agentkit.tool.duration"}
    assert metrics["gen_ai.client.operation.duration"].histogram.data_points[0].count == 2


def test_unreachable_collector_does_not_end_the_run(caplog):
    """An unreachable collector does not end the run, and agentkit logs nothing."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the exporter is not installed")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter("http://127.0.0.1:9/v1/traces", timeout=0.05)))
    run(OpenTelemetry(tracer_provider=tracers))
    tracers.shutdown()
    assert [record for record in caplog.records if record.name.startswith("agentkit")] == []


def test_openinference_converter_reads_the_spans():
    """Phoenix's converter recognises agents, models, tools, tokens and messages in the spans."""
    pytest.importorskip("openinference.instrumentation.agent_framework", reason="the converter is not installed")
    from openinference.instrumentation.agent_framework import AgentFrameworkToOpenInferenceProcessor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(AgentFrameworkToOpenInferenceProcessor())
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    run(OpenTelemetry(content=True, tracer_provider=tracers))
    seen = {}
    for span in exporter.get_finished_spans():
        seen.setdefault(span.name, span.attributes)
    kinds = {name: text["openinference.span.kind"] for name, text in seen.items()}
    assert (kinds["invoke_agent helper"], kinds["chat any"]) == ("AGENT", "LLM")
    assert kinds["execute_tool calculator"] == "TOOL"
    assert (seen["chat any"]["llm.model_name"], seen["chat any"]["llm.token_count.prompt"] > 0) == ("any", True)
    assert seen["chat any"]["llm.input_messages.1.message.content"] == "How much is 6*7?"
    assert seen["chat any"]["llm.output_messages.0.message.tool_calls.0.tool_call.function.name"] == "calculator"
    assert seen["execute_tool calculator"]["tool.name"] == "calculator"
    assert "6*7" in seen["execute_tool calculator"]["input.value"]
    assert "42" in seen["execute_tool calculator"]["output.value"]
    assert "How much is 6*7?" in seen["invoke_agent helper"]["input.value"]


@pytest.fixture
def finished():
    """Return the finished spans of a run, with content."""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    run(OpenTelemetry(content=True, tracer_provider=tracers))
    return {span.name: span for span in reversed(exporter.get_finished_spans())}


@pytest.mark.slow
def test_mlflow_translates_the_spans(finished):
    """MLflow's translator of GenAI spans finds types, models, tokens, inputs and outputs."""
    translation = pytest.importorskip("mlflow.tracing.otel.translation", reason="mlflow-tracing is not installed")
    from mlflow.entities.span import Span

    seen = {}
    for name, span in finished.items():
        attributes = translation.translate_span_when_storing(Span(span))["attributes"]
        seen[name] = {key.removeprefix("mlflow."): value for key, value in attributes.items()}
    types = {name: json.loads(seen[name]["spanType"]) for name in finished if "spanType" in seen[name]}
    assert types == {"invoke_agent helper": "AGENT", "chat any": "CHAT_MODEL", "execute_tool calculator": "TOOL"}
    chat = seen["chat any"]
    assert json.loads(chat["llm.model"]) == "any"
    usage = json.loads(chat["chat.tokenUsage"])
    assert usage["input_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert "How much is 6*7?" in chat["spanInputs"]
    assert "calculator" in chat["spanOutputs"]
    assert "6*7" in seen["execute_tool calculator"]["spanInputs"]
    assert "42" in seen["execute_tool calculator"]["spanOutputs"]


@pytest.mark.slow
def test_langfuse_exports_every_span(finished):
    """Langfuse's default filter keeps all spans of a run, so that its tree has no gaps."""
    filters = pytest.importorskip("langfuse.span_filter", reason="langfuse is not installed")
    assert [name for name, span in finished.items() if not filters.is_default_export_span(span)] == []
    assert any(name.startswith("iteration") for name in finished)
