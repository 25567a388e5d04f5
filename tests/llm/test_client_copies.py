"""What does an LLM tell of itself, and how is one made that differs in one thing only?"""

import pytest

from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.client import LLM
from agentkit.messages import OutputSchema, Request, ToolSpec, UserMessage
from agentkit.testing import FakeServer, ScriptedLLM
from agentkit.usage import Price

KEY = "sk-test-0123456789"
WEATHER = ToolSpec("weather", "The weather", {"type": "object", "properties": {}})


def connect(server, **options):
    """An LLM at the server that gives up at once."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


def test_other_settings_are_sent():
    """A client with other settings sends them, and what it shares with the first; the first one stays as it is."""
    with FakeServer("Hi", repeat=True) as server:
        first = connect(server, temperature=0.5, settings={"seed": 7})
        other = first.with_settings(temperature=0, max_tokens=20)
        for llm in (other, first):
            llm.chat("Hello")
        told, before = (request.json for request in server.requests)
    assert (told["temperature"], told["seed"], told["max_tokens"]) == (0, 7, 20)
    assert (before["temperature"], before["seed"], "max_tokens" in before) == (0.5, 7, False)
    assert (other.max_tokens, first.max_tokens) == (20, None)
    assert (type(other), other.model, other.provider) == (LLM, "m", "openai")


def test_a_setting_is_left_to_the_server():
    """None takes a setting out of the requests, also the length of an answer by whichever name it goes."""
    llm = LLM(api_key=KEY, temperature=0, settings={"max_completion_tokens": 50})
    assert llm.with_settings(temperature=None).settings == {"max_completion_tokens": 50}
    assert llm.with_settings(max_tokens=None).settings == {"temperature": 0}
    assert llm.with_settings(max_tokens=9).settings == {"temperature": 0, "max_tokens": 9}
    with pytest.raises(ConfigError, match="stream=True is not a setting"):
        llm.with_settings(stream=True)


def test_a_scripted_llm_goes_on_with_its_lines():
    """Clients that differ in settings ask the same model: a scripted one says its lines to both in turn."""
    llm = ScriptedLLM("One.", "Two.")
    other = llm.with_settings(temperature=0)
    assert [llm.chat("Count"), other.chat("Count")] == ["One.", "Two."]
    assert [dict(request.settings) for request in llm.requests] == [{}, {"temperature": 0}]


def test_another_model_at_the_same_place():
    """A client for another model asks it at the same place with the same settings, and has no price of its own."""
    with FakeServer("Hi", repeat=True) as server:
        first = connect(server, temperature=0.5, price=Price(1, 2))
        other = first.with_model(" big ")
        assert other.chat("Hello") == first.chat("Hello") == "Hi"
        assert [request.model for request in server.requests] == ["big", "m"]
        assert [request.json["temperature"] for request in server.requests] == [0.5, 0.5]
    assert (first.price, other.price, other.settings) == (Price(1, 2), None, first.settings)


def test_another_model_may_name_its_provider(monkeypatch):
    """A model that names its provider is had from there, which may need a key of its own."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    llm = LLM(model="ollama:qwen3")
    assert llm.with_model("vllm:phi").provider == "vllm"
    with pytest.raises(NoProvider):
        llm.with_model("groq:qwen3")


def test_what_it_was_made_with():
    """A client tells what was said when it was made, with the key hidden; to change what it gave changes nothing."""
    llm = LLM(model="m", api_key=KEY, temperature=0)
    wishes = llm.wishes
    assert (wishes.model, wishes.provider, wishes.base_url) == ("m", None, None)
    assert KEY not in repr(wishes)
    assert llm.price is None
    llm.settings["temperature"] = 1
    assert llm.settings == {"temperature": 0}


def test_the_request_that_would_be_sent():
    """What a request says can be read before anything is sent, with the client's own settings in it."""
    llm = ScriptedLLM("Hi").with_settings(temperature=0)
    schema = {"title": "Told", "type": "object"}
    request = llm.request_of("Hello", tools=[WEATHER], output_schema=schema, seed=7)
    assert (list(request.messages), request.tools) == ([UserMessage("Hello")], (WEATHER,))
    assert (request.output_schema, request.settings) == (OutputSchema("Told", schema), {"temperature": 0, "seed": 7})
    assert llm.requests == []
    whole = Request([UserMessage("Hello")])
    assert ScriptedLLM("Hi").request_of(whole) is whole


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"extra_headers": {"X-Team": "blue"}}, r"Pass headers= to LLM\(\)"),
        ({"timeout": 30}, r"Pass timeout_seconds= to LLM\(\)"),
        ({"max_retries": 0}, r"LLM\(max_retries=0\)"),
        ({"extra_body": "top_k"}, "extra_body= takes a dictionary"),
    ],
)
def test_arguments_of_other_clients_are_refused(settings, advice):
    """Settings of the connection are no fields of a request, in a call as in the settings of an LLM."""
    llm = LLM(model="m", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match=advice):
        llm.chat("Hi", **settings)
    with pytest.raises(ConfigError, match=advice):
        LLM(model="m", base_url="http://127.0.0.1:1/v1", settings=settings)


def test_an_extra_body_is_sent():
    """The fields of extra_body= are fields of the request, as in the client of OpenAI's package."""
    with FakeServer("Hi") as server:
        LLM(model="m", base_url=server.base_url).chat("Hi", extra_body={"top_k": 5}, timeout=None)
        assert server.requests[0].json["top_k"] == 5
        assert "extra_body" not in server.requests[0].json
