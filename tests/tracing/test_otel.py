"""Tests for OpenTelemetry: current spans, embeddings, and failures of tracers."""

import asyncio
import http.client
import http.server
import logging
import subprocess
import sys

import pytest

from agentkit import Agent, tool
from agentkit.errors import MissingExtra
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, ScriptedLLM, call
from agentkit.tracing import OpenTelemetry

WITHOUT_IT = """
import sys
sys.modules["opentelemetry"] = None
from agentkit.errors import MissingExtra
from agentkit.tracing import OpenTelemetry
try:
    OpenTelemetry()
except MissingExtra as error:
    print(error)
"""

LIGHT = """
import sys
import agentkit.tracing
print([name for name in sys.modules if name.partition(".")[0] == "opentelemetry"])
"""


class Web(http.server.BaseHTTPRequestHandler):
    """A server that records the `traceparent` of each request."""

    def do_GET(self):
        """Record the header that names the span of the request."""
        self.server.parents.append(self.headers["traceparent"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def web(serving):
    """A running server on this machine."""
    server = serving(Web)
    server.parents = []
    return server


def get(server):
    """Send a request like an instrumented client, with a header that names the current span."""
    from opentelemetry.propagate import inject

    headers = {}
    inject(headers)
    connection = http.client.HTTPConnection(*server.server_address)
    connection.request("GET", "/", headers=headers)
    connection.getresponse().read()
    connection.close()


@pytest.mark.parametrize("mode", ["run", "arun", "stream"])
def test_requests_of_tools_belong_to_their_spans(mode, sdk, web):
    """An HTTP request in a tool has the id of the call's span, in threads, event loops and concurrent calls."""

    @tool
    def fetch(number: int) -> str:
        """Fetch in a thread."""
        get(web)
        return str(number)

    @tool
    async def afetch(number: int) -> str:
        """Fetch on an event loop."""
        await asyncio.sleep(0)
        await asyncio.to_thread(get, web)
        return str(number)

    calls = [call(name, number=number) for name in ("fetch", "afetch") for number in range(3)]
    agent = Agent("helper", [fetch, afetch], llm=ScriptedLLM(calls, "Done."), listeners=[sdk.listener()])
    if mode == "arun":
        asyncio.run(agent.arun("go"))
    else:
        agent.run("go") if mode == "run" else list(agent.stream("go"))
    spans = [span for span in sdk.spans if span.name in ("execute_tool fetch", "execute_tool afetch")]
    wanted = {f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}" for span in spans}
    assert len(wanted) == 6
    assert {parent.rpartition("-")[0] for parent in web.parents} == wanted


@pytest.mark.parametrize("streaming", [False, True])
def test_run_belongs_to_the_span_around_it(streaming, sdk):
    """A run within a span of the program is its child, and the program's span stays the current one."""
    from opentelemetry import trace

    agent = Agent("helper", llm=ScriptedLLM("Done."), listeners=[sdk.listener()])
    with sdk.tracers.get_tracer("program").start_as_current_span("request") as outer:
        for _ in agent.stream("go") if streaming else [agent.run("go")]:
            assert trace.get_current_span() is outer
    assert sdk.tree()[:2] == ["request", "  invoke_agent helper"]


def test_request_of_the_model_is_the_current_span(sdk):
    """During a model request, the span of the request is the current one, and the parent of the client's spans."""
    from opentelemetry import trace

    seen = []

    def answer(request):
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "Done."

    agent = Agent("helper", llm=ScriptedLLM(answer, answer), listeners=[sdk.listener()])
    agent.run("go")
    list(agent.stream("go"))
    assert seen == [span.context.span_id for span in sdk.spans if span.name == "chat scripted"]


def test_request_has_its_server_address(sdk):
    """A request over the network has the address and port of its server."""
    with FakeServer("Hi.") as server:
        llm = LLM(base_url=server.base_url, model="any", protocol="chat")
        Agent("helper", llm=llm, listeners=[sdk.listener()]).run("go")
        attributes = sdk.span("chat any").attributes
        assert f"http://{attributes['server.address']}:{attributes['server.port']}/v1" == server.base_url
        assert attributes["gen_ai.usage.input_tokens"] > 0


def test_runs_of_a_map_have_separate_traces(sdk):
    """Each run of map() has its own trace with its own spans."""
    agent = Agent(
        "helper",
        [tool(lambda: "seen", name="look", description="Look.")],
        llm=ScriptedLLM(lambda request: call("look") if len(request.messages) == 1 else "Done.", repeat=True),
        listeners=[sdk.listener()],
    )
    agent.map(["a", "b", "c", "d"])
    traces = {}
    for span in sdk.spans:
        traces.setdefault(span.context.trace_id, []).append(span.name)
    assert len(traces) == 4
    assert {tuple(sorted(names)) for names in traces.values()} == {
        ("chat scripted", "chat scripted", "execute_tool look", "invoke_agent helper", "iteration 1", "iteration 2")
    }


def test_failing_processor_does_not_end_the_run(sdk, caplog):
    """A span processor that raises does not end the run, and one warning is logged."""
    from opentelemetry.sdk.trace import SpanProcessor

    class Broken(SpanProcessor):
        def on_start(self, *_, **__):
            raise OSError("The collector is closed.")

    sdk.tracers.add_span_processor(Broken())
    agent = Agent("helper", llm=ScriptedLLM("Done."), listeners=[sdk.listener()])
    with caplog.at_level(logging.WARNING, "agentkit.tracing"):
        assert agent("go") == "Done."
    (record,) = [record for record in caplog.records if record.name == "agentkit.tracing"]
    assert "Cannot report a run to OpenTelemetry (OSError: The collector is closed.)" in record.getMessage()


def test_nothing_is_recorded_without_an_sdk(make_agent):
    """Without an SDK, a run succeeds and no span is recorded."""
    from opentelemetry import trace

    received = []
    look = tool(lambda: received.append(trace.get_current_span().is_recording()), name="look", description="Look.")
    agent = Agent("helper", [look], llm=ScriptedLLM(call("look"), "Done."), listeners=[OpenTelemetry(content=True)])
    assert (agent("go"), received) == ("Done.", [False])


def test_missing_extra_is_named():
    """Without the package the error names the command that installs it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_IT], capture_output=True, text=True, check=True, timeout=60)
    assert str(MissingExtra("otel", "OpenTelemetry")) in done.stdout


def test_importing_loads_nothing():
    """Importing `agentkit.tracing` loads nothing of OpenTelemetry."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_embeddings_in_a_tool_have_spans(sdk):
    """Embeddings requested in a tool have a span below that of the call, with tokens, and count in the metrics."""
    with FakeServer(call("look_up", text="tides"), "Done.") as server:
        llm = LLM("openai", model="m", api_key="a-key", base_url=server.base_url)

        def look_up(text: str) -> int:
            """Look a text up."""
            return len(llm.embed([text, "other"], dimensions=3)[0])

        agent = Agent("helper", [look_up], llm=llm, description="Looks things up.", listeners=[sdk.listener()])
        assert agent.run("Look up tides.").status == "done"
    span = sdk.span("embeddings m")
    parent = sdk.span("execute_tool look_up")
    assert span.parent.span_id == parent.context.span_id
    assert span.attributes["gen_ai.operation.name"] == "embeddings"
    assert span.attributes["gen_ai.embeddings.dimension.count"] == 3
    assert span.attributes["gen_ai.usage.input_tokens"] > 0
    operations = [point.attributes["gen_ai.operation.name"] for point in sdk.points("gen_ai.client.operation.duration")]
    assert sorted(operations) == ["chat", "embeddings"]
    run = sdk.span("invoke_agent helper").attributes
    assert (run["gen_ai.agent.id"], run["gen_ai.agent.description"]) == ("helper", "Looks things up.")


def test_embeddings_outside_of_tools_have_no_spans(sdk):
    """An LLM used outside of a run reports to no listener."""
    sdk.listener()
    with FakeServer() as server:
        llm = LLM("openai", model="m", api_key="a-key", base_url=server.base_url)
        assert len(llm.embed(["tides"])) == 1
    assert sdk.spans == []


def test_failed_embeddings_have_an_error(sdk):
    """A failed embeddings request has its error type."""
    with FakeServer(call("look_up", text="tides"), "Done.") as server:
        dead = LLM("openai", model="m", api_key="a-key", base_url="http://127.0.0.1:9/v1", max_retries=0)

        def look_up(text: str) -> int:
            """Look a text up."""
            return len(dead.embed([text]))

        llm = LLM("openai", model="m", api_key="a-key", base_url=server.base_url)
        Agent("helper", [look_up], llm=llm, listeners=[sdk.listener()]).run("Look up tides.")
    assert sdk.span("embeddings m").attributes["error.type"] == "Unreachable"
    assert sdk.span("execute_tool look_up").attributes["error.type"] == "Unreachable"
