"""Tests for errors inside responses with status 200, and permanent errors with a temporary status."""

import asyncio
import json

import pytest

from agentkit.errors import BadResponse, ConfigError, ModelError, Rejected, Unauthorized, Unreachable
from agentkit.events import ResponseReceived, TextDelta
from agentkit.llm.client import LLM
from agentkit.messages import AssistantMessage
from agentkit.testing import FakeServer, fail, raw


def delta(text, **fields):
    """Return a chunk of Chat Completions."""
    return {"choices": [{"delta": {"content": text}, **fields}]}


PASSING = {
    "an error with a status": raw(
        '{"error": {"code": 502, "message": "Upstream failed"}}', content_type="application/json"
    ),
    "an overload": raw({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "an error chunk": raw({"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}),
    "a failed generation": raw(delta("", finish_reason="error")),
    "a stream without any piece": raw(),
}


@pytest.mark.for_each("line", PASSING.values(), ids=PASSING)
def test_temporary_error_inside_an_answer_is_retried(ask, line):
    """A temporary error with status 200 before the start of the answer is retried like its status."""
    with FakeServer(line, "Hi") as server:
        response = ask(LLM(base_url=server.base_url, model="m"))
        assert (response.text, len(server.requests)) == ("Hi", 2)
        assert response.usage.requests == 2


@pytest.mark.for_each("error", [{"code": "insufficient_quota"}, {"code": 400, "message": "bad"}], ids=str)
def test_permanent_error_inside_an_answer_is_not_retried(ask, error):
    """An exhausted quota or an invalid request inside an answer is raised without a retry."""
    with FakeServer(raw(json.dumps({"error": error}), content_type="application/json")) as server:
        with pytest.raises(ModelError):
            ask(LLM(base_url=server.base_url, model="m"))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "end",
    [{"error": {"message": "Overloaded", "code": 529}}, delta("", finish_reason="error")],
    ids=["error", "reason"],
)
def test_nothing_is_retried_after_the_first_delta(ask_streamed, end):
    """An error after the start of the answer is raised, and contains the text so far."""
    with FakeServer(raw(delta("Hel"), delta("lo"), end)) as server:
        with pytest.raises(ModelError) as caught:
            ask_streamed(LLM(base_url=server.base_url, model="m"))
        assert (caught.value.partial, len(server.requests)) == (AssistantMessage("Hello"), 1)


def test_started_stream_does_not_use_the_fallback():
    """A stream that has begun is not continued by a fallback model."""
    with FakeServer(raw(delta("Hel"))) as server, FakeServer() as other:
        llm = LLM(base_url=server.base_url, model="m", fallback=LLM(base_url=other.base_url, model="n"))
        events = llm.stream("Hi")
        assert next(events) == TextDelta("Hel")
        with pytest.raises(BadResponse):
            next(events)


PERMANENT = {
    "an image": (500, "image input is not supported - hint: you may need to provide the mmproj", "server_error"),
    "audio": (500, "audio input is not supported - hint: you may need to provide the mmproj", "server_error"),
    "a feature": (501, "This feature is not supported by this server", "not_supported_error"),
}


@pytest.mark.for_each(("status", "message", "code"), PERMANENT.values(), ids=PERMANENT)
def test_permanent_error_is_not_retried(ask, status, message, code):
    """A missing feature is raised without a retry, and the error does not suggest trying again later."""
    with FakeServer(fail(status, message, code=code)) as server:
        with pytest.raises(Rejected) as caught:
            ask(LLM(base_url=server.base_url, model="m"))
        assert len(server.requests) == 1
        assert "later" not in str(caught.value)


def test_input_larger_than_the_batch(ask):
    """llama.cpp's error for a conversation that exceeds its batch is mapped to a context that is too small."""
    message = "input (6001 tokens) is too large to process. increase the physical batch size (current batch size: 512)"
    with FakeServer(fail(500, message, code="server_error")) as server, pytest.raises(Rejected) as caught:
        ask(LLM(base_url=server.base_url, model="m"))
    assert (caught.value.is_too_long, caught.value.limit_tokens) == (True, 512)


def test_missing_feature_calls_the_fallback():
    """The fallback is called if the first model lacks a feature that the request needs."""
    with FakeServer(fail(*PERMANENT["a feature"][:2])) as one, FakeServer("Hi") as two:
        llm = LLM(base_url=one.base_url, model="m", fallback=LLM(base_url=two.base_url, model="n"))
        assert llm.chat("Hi") == "Hi"


def test_outdated_api_version(ask):
    """Azure's rejection of an old API version names the argument that changes it."""
    message = "Azure OpenAI Responses API is enabled only for api-version 2025-03-01-preview and later"
    with FakeServer(fail(400, message, code="BadRequest")) as server:
        llm = LLM("azure", "gpt", "key-0123456789", azure_endpoint=server.origin, max_retries=0)
        with pytest.raises(Rejected, match=r"and later\. Pass a newer azure_api_version="):
            ask(llm)


def azure(server, provider):
    """Return an LLM with a token provider."""
    return LLM("azure", "gpt", azure_endpoint=server.origin, azure_token_provider=provider, max_retries=0)


async def token():
    """Async token provider that returns an Entra ID token."""
    return "token-0123456789"


async def no_token():
    """Token provider that raises an error."""
    raise OSError("offline")


def test_async_token_provider():
    """An async token provider works in async calls; a sync call raises an error that asks for a sync one."""
    with FakeServer("Hi", "Hello") as server:
        llm = azure(server, token)
        with pytest.raises(ConfigError, match="get_bearer_token_provider"):
            llm.chat("Hi")
        assert asyncio.run(llm.achat("Hi")) == "Hi"
        assert server.requests[0].headers["authorization"] == "Bearer token-0123456789"
        assert azure(server, lambda: "token-0123456789").chat("Hi") == "Hello"
        with pytest.raises(Unauthorized, match="OSError: offline"):
            asyncio.run(azure(server, no_token).achat("Hi"))


def test_token_provider_may_return_a_future():
    """A token provider that returns a future works with async calls and is rejected in sync calls."""

    async def ask():
        future = asyncio.get_running_loop().create_future()
        future.set_result("token-0123456789")
        llm = azure(server, lambda: future)
        with pytest.raises(ConfigError):
            llm.chat("Hi")
        return await llm.achat("Hi")

    with FakeServer("Hi") as server:
        assert asyncio.run(ask()) == "Hi"


def test_stream_ends_with_the_response(ask_streamed):
    """The last event of every stream is the response."""
    with FakeServer(raw(delta("Hi", finish_reason="stop"))) as server:
        events = list(LLM(base_url=server.base_url, model="m").stream("Hi"))
    assert isinstance(events[-1], ResponseReceived)


def test_proxy_that_rejects_a_request_is_named(ask, monkeypatch):
    """A proxy that requires a password is named, without the password that was sent."""
    with FakeServer(raw(status=407)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.origin.replace("://", "://me:sesame@"))
        with pytest.raises(Unreachable, match=rf"^The proxy {proxy.origin} refused the connection") as caught:
            ask(LLM(base_url="http://model.example/v1", model="m", max_retries=0))
    assert "sesame" not in str(caught.value)
