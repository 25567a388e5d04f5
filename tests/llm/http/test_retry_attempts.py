"""How often was a request sent for nothing?"""

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
    """An LLM at the server."""
    return LLM(**{"base_url": server.base_url, "model": "m", **options})


@pytest.mark.for_each(("line", "seconds"), [(drop(), 20), (slow("Hi", before_seconds=9), 0.5)])
def test_attempts_that_nobody_answered_are_in_the_usage(ask, line, seconds):
    """A response says how often its request was sent for nothing, as requests whose server gave no figures."""
    with FakeServer(line, say("Hi", usage=FIGURES)) as server:
        response = ask(connect(server, timeout_seconds=seconds))
    assert response.usage == FIGURES + Usage(requests=1, unreported=1)
    assert response.usage.tariff.model == "m"
    assert response.usage.parts == ()


def test_refusal_by_status_took_nothing(ask):
    """A request that was refused, and is sent again, is counted once."""
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
def test_errors_say_how_often_nobody_answered(ask, lines, kind, count):
    """The error of a request that got no answer says how often it was sent, and not answered whole."""
    with FakeServer(*lines) as server, pytest.raises(kind) as caught:
        ask(connect(server, max_retries=len(lines) - 1))
    assert caught.value.unanswered == count


def test_answer_that_broke_was_not_answered(ask):
    """A connection that is lost in the middle of an answer is an attempt that was not answered whole."""
    with FakeServer(drop("One two three", after=1)) as server, pytest.raises(ModelError) as caught:
        ask(connect(server, max_retries=0))
    assert caught.value.unanswered == 1


def test_nothing_was_sent_where_nobody_listens(ask):
    """Attempts to connect are none: no server was at work."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Unreachable) as caught:
        ask(LLM(base_url=f"http://127.0.0.1:{port}/v1", model="m", max_retries=0))
    assert caught.value.unanswered == 0


def test_what_a_refusal_teaches_forgets_no_attempt(ask):
    """Attempts that nobody answered are counted also when the request is then sent otherwise."""
    taught = fail(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", parameter="max_tokens")
    with FakeServer(drop(), taught, say("Hi", usage=FIGURES)) as server:
        response = ask(connect(server, protocol="chat", max_tokens=50))
    assert response.usage == FIGURES + Usage(requests=1, unreported=1)


def test_requests_of_one_client_are_counted_apart():
    """Many requests at once each know their own attempts."""

    def line(request):
        first = "odd" in request.question and len([1 for each in server.requests if each.question == request.question])
        return drop() if first == 1 else say("Hi", usage=FIGURES)

    async def ask_all(llm):
        return await asyncio.gather(*(llm.acomplete(f"{'odd' if n % 2 else 'even'} {n}") for n in range(8)))

    with FakeServer(line, repeat=True) as server:
        counts = [response.usage.unreported for response in asyncio.run(ask_all(connect(server)))]
    assert counts == [0, 1] * 4
