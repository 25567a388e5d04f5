"""Tests for copies of an LLM with other settings or another model, and for its attributes."""

import pytest

from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.client import LLM
from agentkit.messages import OutputSchema, Request, ToolSpec, UserMessage
from agentkit.testing import FakeServer, ScriptedLLM
from agentkit.usage import Price

KEY = "sk-test-0123456789"
WEATHER = ToolSpec("weather", "The weather", {"type": "object", "properties": {}})


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


def test_with_settings_sends_the_new_settings():
    """`with_settings` returns an LLM that sends the new settings, and the original is unchanged."""
    with FakeServer("Hi", repeat=True) as server:
        first = connect(server, temperature=0.5, settings={"seed": 7})
        other = first.with_settings(temperature=0, max_tokens=20)
        for llm in (other, first):
            llm.chat("Hello")
        output, before = (request.json for request in server.requests)
    assert (output["temperature"], output["seed"], output["max_tokens"]) == (0, 7, 20)
    assert (before["temperature"], before["seed"], "max_tokens" in before) == (0.5, 7, False)
    assert (other.max_tokens, first.max_tokens) == (20, None)
    assert (type(other), other.model, other.provider) == (LLM, "m", "openai")


def test_none_removes_a_setting():
    """None removes a setting, and `max_tokens` also replaces its other name."""
    llm = LLM(api_key=KEY, temperature=0, settings={"max_completion_tokens": 50})
    assert llm.with_settings(temperature=None).settings == {"max_completion_tokens": 50}
    assert llm.with_settings(max_tokens=None).settings == {"temperature": 0}
    assert llm.with_settings(max_tokens=9).settings == {"temperature": 0, "max_tokens": 9}
    with pytest.raises(ConfigError, match="stream=True is not a setting"):
        llm.with_settings(stream=True)


def test_scripted_llm_shares_its_script():
    """Copies of a scripted LLM with other settings share its script."""
    llm = ScriptedLLM("One.", "Two.")
    other = llm.with_settings(temperature=0)
    assert [llm.chat("Count"), other.chat("Count")] == ["One.", "Two."]
    assert [dict(request.settings) for request in llm.requests] == [{}, {"temperature": 0}]


def test_with_model_uses_the_same_server():
    """`with_model` uses the same server and settings for another model, and removes the price."""
    with FakeServer("Hi", repeat=True) as server:
        first = connect(server, temperature=0.5, price=Price(1, 2))
        other = first.with_model(" big ")
        assert other.chat("Hello") == first.chat("Hello") == "Hi"
        assert [request.model for request in server.requests] == ["big", "m"]
        assert [request.json["temperature"] for request in server.requests] == [0.5, 0.5]
    assert (first.price, other.price, other.settings) == (Price(1, 2), None, first.settings)


def test_with_model_accepts_a_provider(monkeypatch):
    """`with_model` accepts a provider in the name, which may require another key."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    llm = LLM(model="ollama:qwen3")
    assert llm.with_model("vllm:phi").provider == "vllm"
    with pytest.raises(NoProvider):
        llm.with_model("groq:qwen3")


def test_llm_exposes_its_arguments():
    """An LLM exposes its arguments with the key hidden, and its settings as a copy."""
    llm = LLM(model="m", api_key=KEY, temperature=0)
    arguments = llm.arguments
    assert (arguments.model, arguments.provider, arguments.base_url) == ("m", None, None)
    assert KEY not in repr(arguments)
    assert llm.price is None
    llm.settings["temperature"] = 1
    assert llm.settings == {"temperature": 0}


def test_request_of_returns_the_request():
    """`request_of` returns the request without sending it, including the LLM's settings."""
    llm = ScriptedLLM("Hi").with_settings(temperature=0)
    schema = {"title": "Told", "type": "object"}
    request = llm.request_of("Hello", tools=[WEATHER], output_schema=schema, seed=7)
    assert (list(request.messages), request.tools) == ([UserMessage("Hello")], (WEATHER,))
    assert (request.output_schema, request.settings) == (OutputSchema("Told", schema), {"temperature": 0, "seed": 7})
    assert llm.requests == []
    full_text = Request([UserMessage("Hello")])
    assert ScriptedLLM("Hi").request_of(full_text) is full_text


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"extra_headers": {"X-Team": "blue"}}, r"Pass headers= to LLM\(\)"),
        ({"timeout": 30}, r"Pass timeout_seconds= to LLM\(\)"),
        ({"max_retries": 0}, r"LLM\(max_retries=0\)"),
        ({"extra_body": "top_k"}, "extra_body= takes a dictionary"),
    ],
)
def test_connection_arguments_are_rejected_as_settings(settings, advice):
    """Connection arguments are rejected as settings of a call or an LLM."""
    llm = LLM(model="m", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match=advice):
        llm.chat("Hi", **settings)
    with pytest.raises(ConfigError, match=advice):
        LLM(model="m", base_url="http://127.0.0.1:1/v1", settings=settings)


def test_extra_body_is_sent():
    """The fields of extra_body= are sent in the request, as in the openai package."""
    with FakeServer("Hi") as server:
        LLM(model="m", base_url=server.base_url).chat("Hi", extra_body={"top_k": 5}, timeout=None)
        assert server.requests[0].json["top_k"] == 5
        assert "extra_body" not in server.requests[0].json
