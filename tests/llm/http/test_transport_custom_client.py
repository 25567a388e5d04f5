"""Tests for requests over the user's own client of the openai package."""

import asyncio
import gc
import socket
from functools import partial

import openai
import pytest
from openai.providers import bedrock, vertex

from agentkit import Agent
from agentkit.errors import BadResponse, ConfigError, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, call, drop, fail, raw, say

KEY = "sk-test-0123456789"
OWN = {"api_key": KEY, "default_headers": {"X-Team": "blue-or-green"}}
OPTIONS = {"model": "m", "max_retries": 0}


def complete(llm):
    """Return the response in one piece."""
    return llm.complete("Hi")


def stream(llm):
    """Return the streamed response."""
    return [*llm.stream("Hi")][-1].response


async def acomplete(llm):
    """Return the response in one piece, asynchronously."""
    return await llm.acomplete("Hi")


async def astream(llm):
    """Return the streamed response, asynchronously."""
    return [event async for event in llm.astream("Hi")][-1].response


def over_blocking(mode, base_url, **options):
    """Return the response over an OpenAI client, which also supports async calls."""
    with openai.OpenAI(base_url=base_url, **OWN) as client:
        response = mode(LLM(client=client, **OPTIONS | options))
        return asyncio.run(response) if mode in (acomplete, astream) else response


def over_awaiting(mode, base_url, **options):
    """Return the response over an AsyncOpenAI client."""

    async def answer():
        async with openai.AsyncOpenAI(base_url=base_url, **OWN) as client:
            return await mode(LLM(client=client, **OPTIONS | options))

    return asyncio.run(answer())


OVER_BLOCKING = [pytest.param(partial(over_blocking, mode), id=mode.__name__) for mode in (complete, stream)]
IN_THREADS = [
    pytest.param(partial(over_blocking, mode), id=f"{mode.__name__} in threads") for mode in (acomplete, astream)
]
OVER_AWAITING = [pytest.param(partial(over_awaiting, mode), id=mode.__name__) for mode in (acomplete, astream)]


@pytest.fixture(params=[*OVER_BLOCKING, *IN_THREADS, *OVER_AWAITING])
def lend(request):
    """Each combination of a client and a way to request a response."""
    return request.param


def test_request_is_sent_through_the_client(lend):
    """A request is sent once to the client's base URL with its key and headers."""
    with FakeServer(say("Hello")) as server:
        response = lend(server.base_url)
        [sent] = server.requests
    assert (response.text, response.usage.requests) == ("Hello", 1)
    assert (sent.headers["authorization"], sent.headers["x-team"]) == (f"Bearer {KEY}", "blue-or-green")
    assert sent.json["messages"] == [{"role": "user", "content": "Hi"}]


REFUSALS = {
    "401": (fail(401, "Wrong key"), Unauthorized, "401: Wrong key"),
    "429": (fail(429, "Slow down"), RateLimited, "429: Slow down"),
    "400": (fail(400, "No such parameter", code="bad"), Rejected, "400: No such parameter"),
    "500": (fail(500, "Boom"), Unreachable, "500: Boom"),
    "a redirect": (raw("", status=307, headers={"Location": "http://127.0.0.1:1/v1"}), BadResponse, "redirects to"),
    "a drop": (drop(), Unreachable, "broke: "),
    "not JSON": (raw("<p>Hello</p>", content_type="text/html"), BadResponse, "not JSON"),
}


@pytest.mark.for_each(("line", "kind", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_raise_agentkit_errors(lend, line, kind, message):
    """A refusal raises agentkit's own error, and the request is sent once."""
    with FakeServer(line) as server, pytest.raises(kind, match=message):
        lend(server.base_url)
    assert len(server.requests) == 1


def test_requests_are_retried_by_the_llm(lend):
    """Retries are made by the LLM and not by the client, and unanswered attempts are counted."""
    with FakeServer(fail(503, headers={"Retry-After-Ms": "1"}), fail(503, "Boom"), "Hi") as server:
        with pytest.raises(Unreachable, match="Boom"):
            lend(server.base_url, max_retries=1)
        assert len(server.requests) == 2
        assert lend(server.base_url, max_retries=1).text == "Hi"


def test_quoted_credentials_are_redacted(lend):
    """Errors do not contain the client's credentials, even if the server quotes them."""

    def echo(request):
        return fail(418, f"You sent {request.headers}")

    with FakeServer(echo) as server, pytest.raises(Rejected, match="You sent") as caught:
        lend(server.base_url)
    assert KEY not in str(caught.value)
    assert "blue-or-green" not in str(caught.value)


def test_connection_failure_raises_unreachable(lend):
    """A connection failure raises Unreachable with the address and advice."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with pytest.raises(Unreachable, match=f"Cannot reach openai at {address}: .*running"):
        lend(address)


def test_timeout_overrides_that_of_the_client(lend):
    """The LLM's timeout overrides the client's own timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with pytest.raises(Unreachable, match=r"within 0\.2 seconds"):
            lend(address, timeout_seconds=0.2)


def test_azure_client_uses_the_path_of_the_deployment(ask):
    """A dated Azure resource is requested at the deployment's path, with the API version of its client."""
    with FakeServer("Hello") as server:
        root = server.base_url.removesuffix("/v1")
        with openai.AzureOpenAI(api_key=KEY, azure_endpoint=root, api_version="2024-10-21") as client:
            assert ask(LLM(client=client, model="our model")).text == "Hello"
        [sent] = server.requests
    assert sent.path == "/openai/deployments/our model/chat/completions"
    assert (sent.query, sent.headers["api-key"]) == ({"api-version": "2024-10-21"}, KEY)


CLOUDS = {
    "Bedrock": lambda url: bedrock(base_url=url, api_key=KEY),
    "Vertex": lambda url: vertex(base_url=url, token_provider=lambda: KEY),
}


@pytest.mark.for_each("provider", CLOUDS.values(), ids=CLOUDS)
def test_client_with_a_cloud_provider(ask, provider):
    """A client created with a Bedrock or Vertex provider signs in through the package."""
    with FakeServer("Hello") as server, openai.OpenAI(provider=provider(server.base_url)) as client:
        assert ask(LLM(client=client, model="m", protocol="responses")).text == "Hello"
        [sent] = server.requests
    assert (sent.path, sent.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")


def test_agent_uses_the_client():
    """A run of an agent with tools uses the client, sync and async."""

    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    script = (call("double", number=21), "It is 42.")
    with FakeServer(*script, *script) as server:
        agent = Agent(
            "clerk", [double], llm=LLM(client=openai.OpenAI(api_key=KEY, base_url=server.base_url), model="m")
        )
        assert agent("Double 21").endswith("42.")
        assert asyncio.run(agent.arun("Double 21")).output == "It is 42."


def test_async_client_is_rejected_in_sync_calls():
    """An async client cannot be used in a sync call, and the error names an alternative."""
    with pytest.raises(ConfigError, match=r"was created with an AsyncOpenAI client.*client=OpenAI"):
        LLM(client=openai.AsyncOpenAI(api_key=KEY), model="m").complete("Hi")


def test_failing_credential_callback_raises_unauthorized(ask):
    """A failing credential callback raises Unauthorized with the original error message."""

    def refuse():
        raise LookupError("no token today")

    with pytest.raises(Unauthorized, match="could not send the request: LookupError: no token today"):
        ask(LLM(client=openai.OpenAI(api_key=refuse, base_url="http://127.0.0.1:9/v1"), model="m", max_retries=0))


def test_client_of_the_user_stays_open():
    """Closing or deleting an LLM does not close the user's client."""
    with FakeServer("One", "Two") as server:
        client = openai.OpenAI(api_key=KEY, base_url=server.base_url)
        llm = LLM(client=client, model="m")
        llm.chat("Hi")
        llm.close()
        del llm
        gc.collect()
        assert not client.is_closed()
        assert LLM(client=client, model="m").chat("Hi") == "Two"
        client.close()
