"""Tests for LLM: requests, settings, streams, and copies."""

import asyncio
import copy
import math
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import pytest

from agentkit.content import Image
from agentkit.errors import BadResponse, ConfigError, NoProvider
from agentkit.events import ResponseReceived, TextDelta
from agentkit.llm.client import LLM
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    Request,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from agentkit.settings import Secret
from agentkit.testing import FakeServer, ScriptedLLM, call, say

KEY = "sk-test-0123456789"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
WEATHER = ToolSpec("weather", "The weather", {"type": "object", "properties": {}})


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


def body_of(server):
    """Return the JSON body of the last request."""
    return server.requests[-1].json


def test_chat_returns_the_text(ask):
    """`chat` and `achat` return the text of the answer."""
    with FakeServer("Hi", "Hi", "Hi") as server:
        llm = connect(server)
        assert (llm.chat("Hello"), asyncio.run(llm.achat("Hello")), ask(llm).text) == ("Hi", "Hi", "Hi")


def test_answer_truncated_before_its_text():
    """An answer truncated before its first text is an error in `chat`, and a response in `complete`."""
    with FakeServer(*[say("", finish_reason="length")] * 3, say("So f", finish_reason="length")) as server:
        llm = connect(server)
        with pytest.raises(BadResponse, match="allow more max_tokens"):
            llm.chat("Hi")
        with pytest.raises(BadResponse, match="allow more max_tokens"):
            asyncio.run(llm.achat("Hi"))
        assert llm.complete("Hi").finish_reason == "length"
        assert llm.chat("Hi") == "So f"


@pytest.mark.for_each("protocol", ["chat", "responses"])
def test_messages_of_every_kind(ask, protocol):
    """Typed messages and plain dictionaries, with text and images, give the same request."""
    typed = [
        SystemMessage("Be brief"),
        UserMessage(("Look:", Image(PIXEL, "low"), Image("https://x.example/a.png"))),
        AssistantMessage("I see", (ToolCall("a", "weather", "{}"),)),
        ToolMessage("a", "weather", "sun"),
        AssistantMessage("Sunny"),
        UserMessage("Thanks"),
    ]
    plain = [
        {"role": "developer", "content": "Be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                {"type": "input_image", "image_url": "https://x.example/a.png"},
            ],
        },
        {
            "role": "assistant",
            "content": "I see",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "name": "weather", "content": "sun"},
        {"role": "assistant", "content": "Sunny"},
        {"role": "user", "content": "Thanks"},
    ]
    with FakeServer("Hi", "Hi") as server:
        llm = connect(server, protocol=protocol)
        ask(llm, typed)
        ask(llm, iter(plain))
        first, second = (request.json for request in server.requests)
    assert first == second
    assert PIXEL in str(first)


def test_tools_and_schema_are_sent(ask):
    """Tools, tool choice and output schema are sent in the format of the protocol."""

    class Spoken:
        spec = WEATHER

    schema = {"title": "An answer!", "type": "object", "properties": {}}
    with FakeServer(call("weather"), call("weather")) as server:
        options = {"tools": [Spoken()], "output_schema": schema, "tool_choice": "weather", "verbosity": "low"}
        assert ask(connect(server), **options).tool_calls[0].name == "weather"
        chat = body_of(server)
        ask(connect(server, protocol="responses"), **options)
        responses = body_of(server)
    assert chat["tools"][0]["function"] == {
        "name": "weather",
        "description": "The weather",
        "parameters": WEATHER.parameters,
    }
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert chat["response_format"] == {"type": "json_schema", "json_schema": {"name": "An_answer", "schema": schema}}
    assert responses["tools"][0]["strict"] is False
    assert responses["tool_choice"] == {"type": "function", "name": "weather"}
    assert responses["text"] == {
        "format": {"type": "json_schema", "name": "An_answer", "schema": schema},
        "verbosity": "low",
    }


def test_output_schema_may_be_strict():
    """An OutputSchema is sent with its own name, and as strict if requested."""
    output = OutputSchema("answer", {"type": "object"}, strict=True)
    with FakeServer("{}", "{}") as server:
        connect(server).complete("Hi", output_schema=output)
        assert body_of(server)["response_format"]["json_schema"]["strict"] is True
        connect(server, protocol="responses").complete("Hi", output_schema=output)
        assert body_of(server)["text"]["format"]["strict"] is True


def test_settings_of_the_llm_and_of_the_call(ask):
    """Settings of the LLM are sent with every request, those of a call override them, and None removes one."""
    with FakeServer("Hi", "Hi") as server:
        llm = connect(
            server, temperature=0.5, max_tokens=9, reasoning_effort="low", settings={"seed": 1, "top_p": None}
        )
        ask(llm)
        assert {"temperature": 0.5, "max_tokens": 9, "reasoning_effort": "low", "seed": 1}.items() <= body_of(
            server
        ).items()
        assert "top_p" not in body_of(server)
        ask(llm, tools=[WEATHER], temperature=0, tool_choice="none")
        assert (body_of(server)["temperature"], body_of(server)["tool_choice"]) == (0, "none")


def test_settings_in_the_responses_protocol(ask):
    """Settings have the same names in both protocols, and are merged with the existing fields."""
    with FakeServer("Hi") as server:
        llm = connect(server, protocol="responses", max_tokens=9, reasoning_effort="low")
        settings = {"include": ["message.output_text.logprobs"], "tool_choice": "auto", "user": "u"}
        ask(llm, tools=[WEATHER], reasoning={"summary": "auto"}, **settings)
        body = body_of(server)
    assert (body["max_output_tokens"], body["tool_choice"], body["user"]) == (9, "auto", "u")
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]


@pytest.mark.for_each("protocol", ["chat", "responses"])
def test_request_object_is_sent(ask, protocol):
    """A Request is sent unchanged, and the call's tools and settings are added to it."""
    request = Request([UserMessage("Hi")], "Be brief", settings={"seed": 1})
    with FakeServer("Hi", "Hi") as server:
        llm = connect(server, protocol=protocol, temperature=0.5)
        ask(llm, request)
        plain = body_of(server)
        ask(llm, request, tools=[WEATHER], seed=2)
        added = body_of(server)
    assert "Be brief" in (plain.get("instructions"), plain.get("messages", [{}])[0].get("content"))
    assert (plain["seed"], plain["temperature"], "tools" in plain) == (1, 0.5, False)
    assert (added["seed"], len(added["tools"])) == (2, 1)


def test_stream_is_not_a_setting():
    """`stream=True` raises an error that names LLM.stream, and `stream=False` is accepted."""
    with FakeServer("Hi") as server:
        with pytest.raises(ConfigError, match=r"LLM\.stream"):
            connect(server).complete("Hi", stream=True)
        assert connect(server).chat("Hi", stream=False) == "Hi"
        assert "stream" not in body_of(server)


def test_streams():
    """`stream` and `astream` yield events, and the last one contains the whole response."""

    async def collect(events):
        return [event async for event in events]

    with FakeServer("one two", "one two") as server:
        llm = connect(server)
        for events in (list(llm.stream("Hi")), asyncio.run(collect(llm.astream("Hi")))):
            assert events[:-1] == [TextDelta("one "), TextDelta("two")]
            assert isinstance(events[-1], ResponseReceived)


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan, "3", True])
def test_invalid_timeout_raises_config_error(timeout):
    """An invalid timeout raises ConfigError."""
    with pytest.raises(ConfigError, match=r"timeout_seconds= takes a number of seconds above 0\. Got"):
        LLM(api_key=KEY, timeout_seconds=timeout)


@pytest.mark.parametrize("retries", [-1, 1.5])
def test_invalid_max_retries_raises_config_error(retries):
    """An invalid number of retries raises ConfigError."""
    with pytest.raises(ConfigError, match=r"max_retries= takes a whole number, 0 or more\. Got"):
        LLM(api_key=KEY, max_retries=retries)


def test_maximum_length_of_an_answer():
    """The smallest of several settings for the maximum length applies, under any name."""
    assert LLM(api_key=KEY, max_tokens=9, settings={"max_output_tokens": 7}).max_tokens == 7
    assert LLM(api_key=KEY, settings={"max_completion_tokens": 5}).max_tokens == 5
    assert LLM(api_key=KEY).max_tokens is None


def test_blank_arguments_are_ignored(monkeypatch):
    """Blank arguments are ignored, and whitespace around a key is stripped."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm = LLM(" ", "", "", " ", base_url="")
    assert llm.describe().decided_by == "OPENAI_API_KEY"
    assert LLM(api_key=f" {KEY}\n").equals(LLM(api_key=KEY))


def test_describe_reports_everything_but_secrets(monkeypatch):
    """`describe` reports the choices, their reasons and the ignored settings, and no key."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.example")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    described = LLM(model="gpt").describe()
    assert (described.provider, described.model, described.protocol) == ("azure", "gpt", "chat")
    assert (described.endpoint, described.api_version) == (
        "https://r.example/openai/deployments/gpt",
        "2024-02-01",
    )
    assert described.decided_by == "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT"
    assert described.ignored == (
        "OPENAI_API_KEY (names openai; AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT decides first)",
        "OPENAI_BASE_URL (empty)",
    )
    assert KEY not in f"{described} {described!r} {LLM()!r} {vars(LLM())}"


def test_positional_arguments():
    """Provider, model, key, Azure endpoint and version can be passed by position, in this order."""
    llm = LLM("azure", "gpt", KEY, "https://r.example", "2025-01-01")
    assert (llm.provider, llm.model, llm.describe().api_version) == ("azure", "gpt", "2025-01-01")
    assert repr(llm) == "LLM(provider='azure', model='gpt')"


def test_no_provider_is_a_value_error():
    """A missing key or an unknown provider raises NoProvider, which is a ValueError."""
    with pytest.raises(NoProvider, match="No API key found"):
        LLM()
    with pytest.raises(ValueError, match="Unknown provider"):
        LLM("bogus")


def test_equality_of_llms():
    """Two LLMs are equal if they send the same requests to the same endpoint."""
    llm = LLM(api_key=KEY, temperature=0)
    assert llm.equals(LLM("openai", api_key=KEY, settings={"temperature": 0}))
    others = [LLM(api_key="other"), LLM(api_key=KEY), LLM(api_key=KEY, temperature=0, max_retries=1)]
    assert not any(llm.equals(other) for other in others)


def test_llms_can_be_copied():
    """A copied, deep-copied or pickled LLM is equal to the original and has its own connections."""
    llm = LLM(api_key=KEY, temperature=0)
    for twin in (copy.copy(llm), copy.deepcopy(llm), ForkingPickler.loads(ForkingPickler.dumps(llm))):
        assert twin.equals(llm)
        assert twin._provider is not llm._provider


def test_pickled_llm_reads_the_environment_again(monkeypatch):
    """A pickled LLM reads the environment again when it is loaded."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    pickled = ForkingPickler.dumps(LLM())
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    assert ForkingPickler.loads(pickled)._endpoint.api_key == Secret("other")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(NoProvider):
        ForkingPickler.loads(pickled)


PREPARED = """
import sys
from agentkit import LLM

with_tools = LLM(model="m", api_key="k", base_url=sys.argv[1], tool_calling="text")
assert "httpx2" not in sys.modules
with_tools.prepare()
assert "httpx2" in sys.modules
print(with_tools.chat("hi"))
"""


def test_prepare_loads_the_client():
    """`prepare` loads the client before the first request, and sends nothing."""
    with FakeServer("Hello.") as server:
        command = [sys.executable, "-c", PREPARED, server.base_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.stderr) == ("Hello.\n", "")
        assert len(server.requests) == 1


def test_llm_without_connections_can_be_closed():
    """Preparing and closing an LLM without connections does nothing."""
    with ScriptedLLM("Hi") as llm:
        llm.prepare()
        llm.close()
        asyncio.run(llm.aclose())
        assert llm.chat("Hi") == "Hi"


def test_creating_an_llm_imports_no_packages():
    """Creating an LLM imports only the standard library; the first request imports more."""
    program = (
        "import sys; from agentkit import LLM; LLM(base_url='http://127.0.0.1:1/v1').describe(); "
        "print({'openai', 'httpx2', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


def test_offline_model_needs_no_key():
    """The offline model is selected by its name, runs locally, and has no URL."""
    described = LLM("offline").describe()
    assert (described.provider, described.endpoint, described.api_version) == ("offline", "this machine", None)


@pytest.mark.parametrize(("tool", "hint"), [(len, "Write Tool(len)."), ("len", "Got str.")])
def test_value_that_is_not_a_tool_raises_config_error(tool, hint):
    """A value that is not a tool raises ConfigError with a hint."""
    with pytest.raises(ConfigError, match="takes tools") as caught:
        LLM(model="m", base_url="http://127.0.0.1:9/v1").request_of("Hi", tools=[tool])
    assert hint in str(caught.value)
