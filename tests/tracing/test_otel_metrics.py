"""Tests for the metrics of runs."""

import pytest

from agentkit import Agent
from agentkit.decisions import Decision
from agentkit.errors import RateLimited
from agentkit.messages import AssistantMessage, Request, Response, ToolCall
from agentkit.testing import ScriptedLLM
from agentkit.tracing import semantic_conventions as names
from agentkit.tracing.listeners import OUTSIDE_RUNS, ModelRequest, ToolUse
from agentkit.usage import Usage


def test_tokens_and_seconds_are_counted(sdk, make_agent):
    """Each request counts its input and output tokens and its seconds, by provider and model."""
    result = make_agent(listeners=[sdk.listener()]).run("go")
    tokens = {point.attributes["gen_ai.token.type"]: point for point in sdk.points("gen_ai.client.token.usage")}
    assert {kind: point.count for kind, point in tokens.items()} == {"input": 3, "output": 3}
    assert tokens["input"].sum == result.usage.input_tokens
    assert tokens["output"].sum == result.usage.output_tokens
    assert tokens["input"].explicit_bounds == names.TOKEN_BUCKETS
    (seconds,) = sdk.points("gen_ai.client.operation.duration")
    assert (seconds.count, seconds.explicit_bounds) == (3, names.SECOND_BUCKETS)
    assert dict(seconds.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "scripted",
    }


def test_tool_calls_are_counted(sdk, make_agent):
    """The duration of each executed tool call is recorded by tool, verdict and outcome."""
    make_agent(listeners=[sdk.listener()]).run("go")
    points = {
        point.attributes["gen_ai.tool.name"]: dict(point.attributes) for point in sdk.points("agentkit.tool.duration")
    }
    assert points == {
        "calculator": {
            "gen_ai.tool.name": "calculator",
            "agentkit.decision.verdict": "allow",
            "agentkit.tool.status": "ok",
        },
        "fail": {
            "gen_ai.tool.name": "fail",
            "agentkit.decision.verdict": "allow",
            "agentkit.tool.status": "failed",
            "error.type": "ValueError",
        },
    }


def test_failures_are_counted_by_kind(sdk):
    """The duration of a failed request is recorded under its error, without tokens."""
    Agent("helper", llm=ScriptedLLM(RateLimited("Slow down.")), listeners=[sdk.listener()]).run("go")
    (seconds,) = sdk.points("gen_ai.client.operation.duration")
    assert seconds.attributes["error.type"] == "RateLimited"
    assert sdk.points("gen_ai.client.token.usage") == []


def test_unreported_tokens_are_not_counted(sdk):
    """A response without reported tokens is not counted in the token metric."""
    work = ModelRequest(OUTSIDE_RUNS, Request([]), "openai", "any")
    with sdk.listener().around(work):
        work.response = Response(AssistantMessage("Hi."), usage=Usage(requests=1, unreported=1))
    assert sdk.points("gen_ai.client.token.usage") == []
    assert len(sdk.points("gen_ai.client.operation.duration")) == 1


def test_interrupted_tool_call_is_counted(sdk):
    """The duration of an interrupted tool call is recorded with its error type."""
    work = ToolUse(OUTSIDE_RUNS, ToolCall("c1", "look", "{}"), Decision("allow", "level", "It is SAFE."))
    with pytest.raises(KeyboardInterrupt), sdk.listener().around(work):
        raise KeyboardInterrupt
    (seconds,) = sdk.points("agentkit.tool.duration")
    assert seconds.attributes["error.type"] == "KeyboardInterrupt"
