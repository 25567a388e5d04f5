"""Tests for counting the attempts without an answer."""

import asyncio
import socket

import pytest

from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, cut, drop, fail, refuse, say, slow
from agentkit.usage import Usage

QUICKLY = {"headers": {"Retry-After": "0.01"}}
FIGURES = Usage(10, 5, requests=1)


def connect(server, **options):
    """Return an LLM for the server."""
    return LLM(**{"base_url": server.base_url, "model": "m", **options})


@pytest.mark.for_each(("line", "seconds"), [(drop(), 20), (slow("Hi", before_seconds=9), 0.5)])
def test_unanswered_attempts_are_in_the_usage(ask, line, seconds):
    """A response's usage counts the unanswered attempts as unreported requests."""
    with FakeServer(line, say("Hi", usage=FIGURES)) as server:
        response = ask(connect(server, timeout_seconds=seconds))
    assert response.usage == FIGURES + Usage(requests=1, unreported=1)
    assert response.usage.tariff.model == "m"
    assert response.usage.parts == ()


def test_rejection_by_status_is_not_counted(ask):
    """A rejected request that is sent again is counted once."""
    with FakeServer(fail(503, **QUICKLY), say("Hi", usage=FIGURES)) as server:
        assert ask(connect(server)).usage == FIGURES


@pytest.mark.for_each(
    ("lines", "kind", "count"),
    [
        ([drop(), drop()], Unreachable, 2),
        ([drop(), fail(429)], RateLimited, 1),
        ([fail(401)], Unauthorized, 0),
        ([cut("Hi there")], BadResponse, 1),
        ([refuse("No.")], Rejected, 1),
    ],
)
def test_errors_count_unanswered_attempts(ask, lines, kind, count):
    """An error states the number of attempts that received no complete answer."""
    with FakeServer(*lines) as server, pytest.raises(kind) as caught:
        ask(connect(server, max_retries=len(lines) - 1))
    assert caught.value.unanswered == count


def test_interrupted_answer_is_an_unanswered_attempt(ask):
    """A connection lost in the middle of an answer is an attempt without a complete answer."""
    with FakeServer(drop("One two three", after=1)) as server, pytest.raises(ModelError) as caught:
        ask(connect(server, max_retries=0))
    assert caught.value.unanswered == 1


def test_failed_connection_is_not_an_unanswered_attempt(ask):
    """A failed connection is not counted as an unanswered attempt."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Unreachable) as caught:
        ask(LLM(base_url=f"http://127.0.0.1:{port}/v1", model="m", max_retries=0))
    assert caught.value.unanswered == 0


def test_adapted_request_counts_unanswered_attempts(ask):
    """Unanswered attempts are still counted after the request is adapted to a refusal."""
    taught = fail(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", parameter="max_tokens")
    with FakeServer(drop(), taught, say("Hi", usage=FIGURES)) as server:
        response = ask(connect(server, protocol="chat", max_tokens=50))
    assert response.usage == FIGURES + Usage(requests=1, unreported=1)


def test_concurrent_requests_count_attempts_separately():
    """Concurrent requests of one client count their attempts separately."""

    def line(request):
        first = "odd" in request.question and len([1 for each in server.requests if each.question == request.question])
        return drop() if first == 1 else say("Hi", usage=FIGURES)

    async def ask_all(llm):
        return await asyncio.gather(*(llm.acomplete(f"{'odd' if n % 2 else 'even'} {n}") for n in range(8)))

    with FakeServer(line, repeat=True) as server:
        counts = [response.usage.unreported for response in asyncio.run(ask_all(connect(server)))]
    assert counts == [0, 1] * 4
