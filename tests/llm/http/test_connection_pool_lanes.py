"""Tests for connections shared by concurrent requests."""

import asyncio
from contextlib import aclosing

import httpx2
import pytest

from agentkit.errors import Unreachable
from agentkit.llm.client import LLM
from agentkit.llm.http.connection_pool import ConnectionPool
from agentkit.testing import FakeServer, drop, slow

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


class Counted:
    """A pool over real connections that records the connections it opens."""

    def __init__(self, **options):
        self.made = []
        self.lanes = ConnectionPool(self._make, **options)

    def _make(self):
        self.made.append(_Closing(verify=False))
        return self.made[-1]

    @property
    def open(self):
        """Return the number of connections that are not closed."""
        return sum(not lane.is_closed for lane in self.made)


class _Closing(httpx2.AsyncHTTPTransport):
    """A transport that records whether it was closed."""

    is_closed = False

    async def aclose(self):
        self.is_closed = True
        await super().aclose()


async def send(client, server, count=1):
    """Send the given number of requests concurrently."""
    url = f"{server.base_url}/chat/completions"
    return await asyncio.gather(*(client.post(url, json=BODY) for _ in range(count)), return_exceptions=True)


def test_connection_is_reused_by_consecutive_requests():
    """Consecutive requests use the same connection; concurrent requests have one each."""

    async def made():
        counted, counts = Counted(), []
        async with aclosing(httpx2.AsyncClient(transport=counted.lanes)) as client:
            for count in (1, 1, 3, 3, 1):
                answers = await send(client, server, count)
                assert [answer.status_code for answer in answers] == [200] * count
                counts.append(len(counted.made))
        return counts, counted.open

    with FakeServer("Hi", repeat=True) as server:
        assert asyncio.run(made()) == ([1, 1, 3, 3, 3], 0)


def test_broken_connection_is_not_used_again():
    """A connection that fails is closed, and the next request opens another."""

    async def made():
        counted = Counted()
        async with aclosing(httpx2.AsyncClient(transport=counted.lanes)) as client:
            (error,) = await send(client, server)
            (answer,) = await send(client, server)
            return type(error), answer.status_code, len(counted.made), counted.open

    with FakeServer(drop(), "Hi") as server:
        assert asyncio.run(made()) == (httpx2.RemoteProtocolError, 200, 2, 1)


def test_idle_connections_are_closed():
    """Connections that stay idle after concurrent requests are closed."""

    async def left():
        counted = Counted(keepalive_seconds=0.0)
        async with aclosing(httpx2.AsyncClient(transport=counted.lanes)) as client:
            await send(client, server, 4)
            return len(counted.made), counted.open

    with FakeServer("Hi", repeat=True) as server:
        assert asyncio.run(left()) == (4, 1)


def test_number_of_open_connections_is_limited():
    """Requests beyond the connection limit wait, and a cancelled request releases its connection."""

    async def made():
        counted = Counted(max_connections=2)
        async with aclosing(httpx2.AsyncClient(transport=counted.lanes)) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await send(client, server, 6)
            given_up = len(counted.made)
            answers = await send(client, server, 6)
            return [answer.status_code for answer in answers], given_up, counted.open

    with FakeServer(slow("Hi", before_seconds=0.1), repeat=True) as server:
        assert asyncio.run(made()) == ([200] * 6, 2, 2)


def test_active_connection_is_closed_after_its_response():
    """Closing the pool lets an active response finish, and then closes its connection."""

    async def left():
        counted = Counted()
        client = httpx2.AsyncClient(transport=counted.lanes)
        async with client.stream("POST", f"{server.base_url}/chat/completions", json=BODY) as answer:
            await client.aclose()
            still_open = counted.open
            text = (await answer.aread()).decode()
        await answer.stream.aclose()  # a closed connection stays closed
        return still_open, "Hi" in text, counted.open

    with FakeServer("Hi") as server:
        assert asyncio.run(left()) == (1, True, 0)


def test_proxy_of_the_environment_is_used(monkeypatch):
    """Requests use the proxy of the environment, sync and async."""
    with FakeServer() as unused:
        monkeypatch.setenv("HTTP_PROXY", unused.origin)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(Unreachable, match="Is the server running"):
        asyncio.run(LLM(base_url="http://model.example/v1", model="m", max_retries=0).achat("Hi"))
