"""Tests for the semantic conventions of span and metric names."""

import pytest

from agentkit.decisions import Decision
from agentkit.errors import LimitExceeded, Unauthorized
from agentkit.messages import AssistantMessage, FailedModel, OutputSchema, Request, Response, ToolCall, ToolResult
from agentkit.tracing import semantic_conventions as names
from agentkit.tracing.listeners import ModelRequest, Origin, ToolUse
from agentkit.usage import Tariff, Usage

CONSTANTS = {name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
OURS = {name: value for name, value in CONSTANTS.items() if value.startswith("agentkit")}
SOURCE = Origin("r1", "helper", iteration=2)


def published():
    """Return all names of attributes and metrics in the published conventions."""
    pytest.importorskip("opentelemetry.semconv", reason="opentelemetry-semantic-conventions is not installed")
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
    from opentelemetry.semconv.attributes import error_attributes, server_attributes

    homes = (gen_ai_attributes, gen_ai_metrics, error_attributes, server_attributes)
    return {value for home in homes for value in vars(home).values() if isinstance(value, str)}, gen_ai_attributes


def test_every_name_is_one_of_the_conventions():
    """All attribute and metric names are defined by the conventions and not deprecated, except our own."""
    known, home = published()
    reference = {name for name, value in CONSTANTS.items() if name not in OURS and "." in value and "/" not in value}
    assert {CONSTANTS[name] for name in reference} <= known
    assert len(reference) >= 30
    assert {home.GEN_AI_SYSTEM, home.GEN_AI_PROMPT, home.GEN_AI_USAGE_PROMPT_TOKENS}.isdisjoint(CONSTANTS.values())


def test_operations_and_providers_are_those_of_the_conventions():
    """Operations, token types and providers have the names of the conventions, if any."""
    _, home = published()
    operations = {vars(each)["_value_"] for each in home.GenAiOperationNameValues}
    assert {names.CHAT, names.INVOKE_AGENT, names.EXECUTE_TOOL} <= operations
    providers = {each.value for each in home.GenAiProviderNameValues}
    known = ("openai", "azure", "groq", "mistral", "deepseek", "gemini")
    assert {names.of_model(name, "any")[names.PROVIDER_NAME] for name in known} <= providers
    assert names.of_model("ollama", "any")[names.PROVIDER_NAME] == "ollama"


def test_buckets_are_the_recommended_ones():
    """Histograms have the buckets that the conventions recommend."""
    assert names.TOKEN_BUCKETS[:4] == (1, 4, 16, 64)
    assert names.TOKEN_BUCKETS[-1] == 67_108_864
    assert names.SECOND_BUCKETS[:4] == (0.01, 0.02, 0.04, 0.08)
    assert names.SECOND_BUCKETS[-1] == 81.92


def test_run_has_its_id_and_agent():
    """A run has its id and agent, and its parent and session if they are known."""
    assert names.of_run(SOURCE) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "helper",
        "gen_ai.agent.name": "helper",
        "agentkit.run.id": "r1",
    }
    output = names.of_run(Origin("r1", "helper", "r0", "trip", is_elsewhere=True))
    assert (output["agentkit.run.parent"], output["gen_ai.conversation.id"]) == ("r0", "trip")
    assert output["agentkit.run.is_elsewhere"] is True


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://api.openai.com/v1", ("api.openai.com", 443)),
        ("http://127.0.0.1:8000/v1", ("127.0.0.1", 8000)),
        ("http://box/v1", ("box", 80)),
        ("this machine", (None, None)),
        ("://", (None, None)),
    ],
)
def test_server_address_and_port(url, server):
    """A request has the address and port of its server, if its base URL contains a host."""
    output = names.of_model("openai", "any", url)
    assert (output.get("server.address"), output.get("server.port")) == server


def test_request_has_its_settings():
    """A request has the settings known to the conventions and the output type."""
    settings = {"temperature": 0.5, "max_completion_tokens": 9, "user": "ada"}
    request = Request([], output_schema=OutputSchema("row", {}), settings=settings)
    output = names.of_request(ModelRequest(Origin("r1", "helper", "", "trip", 2), request, "openai", "any", "", True))
    assert output == {
        "gen_ai.agent.name": "helper",
        "agentkit.iteration": 2,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.output.type": "json",
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": "trip",
    }
    assert names.of_request(ModelRequest(SOURCE, Request([]), "openai", "any"))["gen_ai.output.type"] == "text"


def test_response_has_its_usage():
    """A response has its model, id and tokens; unreported tokens are omitted."""
    usage = Usage(10, 5, cached_tokens=4, reasoning_tokens=2, requests=1, written_tokens=1)
    output = names.of_response(Response(AssistantMessage("Hi."), usage=usage, model="any-1", raw={"id": "resp_1"}))
    assert output == {
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.model": "any-1",
        "gen_ai.response.id": "resp_1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 1,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    uncounted = Response(AssistantMessage("Hi."), usage=Usage(requests=1, unreported=1))
    assert names.of_response(uncounted) == {"gen_ai.response.finish_reasons": ("stop",)}


@pytest.mark.parametrize(("tariff", "provider"), [(Tariff("gemini", "any"), "gcp.gemini"), (None, None)])
def test_provider_after_a_fallback(tariff, provider):
    """After a fallback, the response has the provider that answered, if it is known."""
    lost = Usage(requests=1, unreported=1, tariff=Tariff("groq", "first"))
    answered = Usage(10, 5, requests=1, tariff=tariff)
    missed = (FailedModel("groq:first", "Unreachable", "gone", lost),)
    response = Response(AssistantMessage("Hi."), usage=lost + answered, missed=missed)
    assert names.of_response(response).get("gen_ai.provider.name") == provider


def test_call_has_the_description_of_its_tool():
    """A tool call has the description of its tool, if it has one."""
    work = ToolUse(SOURCE, ToolCall("c1", "look", "{}"), Decision("ask", "level", "It is SYSTEM."))
    assert "gen_ai.tool.description" not in names.of_call(work)
    work.description = "Look."
    assert names.of_call(work)["gen_ai.tool.description"] == "Look."


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("ok", None, {}),
        ("waiting", "Who?", {}),
        ("timed_out", "Late.", {"error.type": "timed_out"}),
        ("failed", "ValueError: no", {"error.type": "ValueError"}),
        ("failed", "KeyError", {"error.type": "KeyError"}),
        ("failed", "The disk is full.", {"error.type": "failed"}),
    ],
)
def test_failure_of_a_tool(status, error, expected):
    """A failed tool call has an error type; a pending call has none."""
    assert names.of_failure(ToolResult("look", status, "", error=error)) == expected


def test_errors_without_content():
    """Messages of provider and limit errors are not content; GeneratorExit is not an error."""
    assert names.is_without_content(Unauthorized("No."))
    assert names.is_without_content(LimitExceeded("Too long."))
    assert not names.is_without_content(ValueError("tulip"))
    assert names.of_error(ValueError("tulip")) == {"error.type": "ValueError"}
    assert names.of_error(GeneratorExit()) == {}
