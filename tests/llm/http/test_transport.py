"""Tests for the HTTP transport: statuses, retries, timeouts, secrets, headers, threads and event loops."""

import asyncio
import gc
import json
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from multiprocessing.reduction import ForkingPickler

import pytest

from agentkit.errors import (
    AgentKitError,
    BadResponse,
    ConfigError,
    ModelError,
    RateLimited,
    Rejected,
    Unauthorized,
    Unreachable,
)
from agentkit.llm.client import LLM
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.http.connection_pool import PoolRegistry
from agentkit.llm.http.transport import Transport
from agentkit.llm.protocols import wire_named
from agentkit.llm.remote_model import RemoteModel
from agentkit.settings import Secret
from agentkit.testing import FakeServer, drop, fail, raw, say, slow

KEY = "sk-test-0123456789"


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


ANSWER = {"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}

ERRORS = {
    "401": (fail(401, "Wrong key", code="invalid_api_key"), Unauthorized, "401: Wrong key. Check the API key"),
    "402": (fail(402, "Insufficient balance"), Rejected, "Check the account's balance"),
    "403": (fail(403, "Not you"), Unauthorized, "403: Not you"),
    "404": (fail(404, "No such model"), Rejected, "Check the model's name and the base URL"),
    "408": (fail(408, "Slow"), Unreachable, "408: Slow"),
    "409": (fail(409, "Locked"), Rejected, "409: Locked"),
    "413": (fail(413, "Too long"), Rejected, "413: Too long"),
    "429": (fail(429, "Slow down"), RateLimited, "429: Slow down"),
    "500": (fail(500, "Boom"), Unreachable, "500: Boom"),
    "503 in HTML": (
        raw("<html><head><style>p {}</style></head><h1>503 Busy</h1></html>", status=503, content_type="text/html"),
        Unreachable,
        "503: 503 Busy. Try again later.$",
    ),
    "500 without a body": (raw("", status=500, content_type="text/plain"), Unreachable, "no explanation was given"),
    "500 in broken JSON": (raw('{"error"', status=500, content_type="application/json"), Unreachable, "error"),
    "422 of FastAPI": (
        raw(
            json.dumps({"detail": [{"loc": ["body", "seed"], "msg": "Input should be a number", "input": "secret"}]}),
            status=422,
            content_type="application/json",
        ),
        Rejected,
        "422: seed: Input should be a number$",
    ),
    "422 with a text": (raw('{"detail": "No"}', status=422, content_type="application/json"), Rejected, "422: No"),
    "400 of Gemini": (
        raw(
            json.dumps(
                [{"error": {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}}]
            ),
            status=400,
            content_type="application/json",
        ),
        Unauthorized,
        "API key not valid",
    ),
    "error as text": (raw('{"error": "No", "message": "Why"}', status=400, content_type="a/json"), Rejected, "Why"),
    "307": (
        raw("", status=307, headers={"Location": "https://user:secret@elsewhere.example/v1?key=secret"}),
        BadResponse,
        "redirects to https://elsewhere.example/v1, and redirects are not followed",
    ),
    "304": (raw("", status=304), BadResponse, "redirects to nowhere"),
}


@pytest.mark.for_each(("line", "kind", "words"), ERRORS.values(), ids=ERRORS)
def test_statuses_are_errors(ask, line, kind, words):
    """An error status raises the mapped error with the server's message and advice; redirects are not followed."""
    with FakeServer(line) as server, pytest.raises(kind, match=words) as caught:
        ask(connect(server))
    assert type(caught.value) is kind
    assert "secret" not in str(caught.value)


@pytest.mark.for_each("status", [429, 500, 503, 408, 409, 425, 499])
def test_requests_are_sent_again(ask, status):
    """After 408, 409, 429 and 5xx a request is sent again, up to the limit."""
    with FakeServer(fail(status, headers={"Retry-After": "0.01"}), "Hi") as server:
        assert ask(connect(server, max_retries=1)).text == "Hi"


def test_exhausted_quota_is_not_retried(ask):
    """A 429 for an exhausted quota is raised without a retry."""
    with FakeServer(fail(429, "You exceeded your current quota", code="insufficient_quota")) as server:
        with pytest.raises(RateLimited, match="waiting does not help") as caught:
            ask(connect(server, max_retries=2))
        assert len(server.requests) == 1
    assert (caught.value.code, caught.value.unanswered) == ("insufficient_quota", 0)


def test_retry_after_is_respected(ask):
    """The delay requested by a server is waited for before the request is sent again."""
    with FakeServer(fail(429, headers={"Retry-After": "1"}), "Hi") as server:
        started = time.monotonic()
        assert ask(connect(server, max_retries=1)).text == "Hi"
        assert time.monotonic() - started >= 0.99


@pytest.mark.for_each(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After-Ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After-Ms": "soon", "Retry-After": "7"}, 7),
        ({"Retry-After": "-5"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_reported(headers, expected):
    """RateLimited.retry_after_seconds contains the server's delay in any of the supported formats."""
    with FakeServer(fail(429, headers=headers)) as server, pytest.raises(RateLimited) as caught:
        connect(server).chat("Hi")
    assert caught.value.retry_after_seconds == (expected and pytest.approx(expected, abs=120))


@pytest.mark.parametrize(("hours", "expected"), [(1, 3_600), (-1, 0)])
def test_retry_after_may_be_a_date(hours, expected):
    """A Retry-After date is converted to seconds from now, and a past date to zero."""
    date = format_datetime(datetime.now(UTC) + timedelta(hours=hours))
    with FakeServer(fail(429, headers={"Retry-After": date})) as server, pytest.raises(RateLimited) as caught:
        connect(server).chat("Hi")
    assert caught.value.retry_after_seconds == pytest.approx(expected, abs=120)


def test_dropped_connection_is_retried(ask):
    """A connection that closes without a response is opened again."""
    with FakeServer(drop(), "Hi") as server:
        assert ask(connect(server, max_retries=1)).text == "Hi"


@pytest.mark.for_each("line", [drop(), drop("one two three", after=1)], ids=["silently", "in the middle"])
@pytest.mark.for_each("protocol", ["chat", "responses", "messages"])
def test_incomplete_answer_raises_unreachable(ask, line, protocol):
    """A connection that closes before the end of the answer raises Unreachable."""
    with FakeServer(line) as server, pytest.raises(Unreachable, match=r"The connection to openai at .* broke"):
        ask(connect(server, protocol=protocol))


def test_timeout_before_the_answer(ask):
    """A server that does not answer in time raises Unreachable with the timeout."""
    with FakeServer(slow("Hi", before_seconds=30), repeat=True) as server:
        with pytest.raises(
            Unreachable, match=r"No answer from openai at .* within 0\.2 seconds\. Try again later, or "
        ):
            ask(connect(server, timeout_seconds=0.2))
        with pytest.raises(Unreachable, match=r"within 0\.2 seconds, asked 2 times\. Try again"):
            ask(connect(server, timeout_seconds=0.2, max_retries=1))


def test_timeout_in_the_middle_of_a_stream(ask_streamed):
    """A stalled stream raises an error after the timeout."""
    stalled = r"stopped in the middle of the response: no data for 0\.3 seconds"
    with FakeServer(slow("one two", between_seconds=30)) as server, pytest.raises(Unreachable, match=stalled):
        ask_streamed(connect(server, timeout_seconds=0.3))


def test_connection_refused_raises_unreachable(ask):
    """A server that is not running raises Unreachable with its name and address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match=rf"Cannot reach ollama at http://127.0.0.1:{port}/v1: .*running"):
        ask(LLM(model="ollama:m", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0))


@pytest.mark.for_each("host", ["a..example", f"{'a' * 64}.example"])
def test_invalid_host_name_raises_unreachable(ask, host):
    """An invalid host name raises Unreachable, like one that is not found."""
    with pytest.raises(Unreachable, match=r"Cannot reach openai at .* Check the network and the host's name"):
        ask(LLM(base_url=f"http://{host}/v1", model="m", max_retries=0))


def test_connect_timeout_raises_unreachable(ask):
    """A connection that does not open within the timeout raises Unreachable."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(address)
        url = f"http://127.0.0.1:{address[1]}/v1"
        with pytest.raises(Unreachable, match=r"no connection within 0\.3 seconds"):
            ask(LLM(base_url=url, model="m", timeout_seconds=0.3, max_retries=0))
        for client in waiting:
            client.close()


def test_unusable_address_raises_config_error(ask):
    """An address that the HTTP library rejects raises ConfigError."""
    with pytest.raises(ConfigError, match="not a usable address"):
        ask(LLM(base_url="http://☃☃.example/v1", model="m", max_retries=0))


def test_lone_surrogates(ask):
    """A lone surrogate is replaced in a message, and rejected in a setting."""
    with FakeServer("Hi") as server:
        llm = connect(server)
        assert ask(llm, "a\ud83d").text == "Hi"
        assert server.requests[0].json["messages"][0]["content"] == "a\ufffd"
        with pytest.raises(Rejected, match="a lone surrogate"):
            ask(llm, user="a\ud83d")


def test_unserializable_setting_raises_type_error(ask):
    """A setting that is not JSON serializable raises TypeError."""
    with FakeServer() as server, pytest.raises(TypeError, match="not JSON serializable"):
        ask(connect(server), user=object())


def is_left_alone(server):
    """Return whether all connections to the server are closed within ten seconds."""
    deadline = time.monotonic() + 10
    while server._connections and time.monotonic() < deadline:
        time.sleep(0.01)
    return not server._connections


class OpenServer:
    """A server that answers one request with bytes and then keeps the connection open."""

    def __init__(self, answer):
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(self._answer)
            self._done.wait(30)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self._listener.close()


DONE = b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\ndata: [DONE]\n\n'


def test_stream_ends_at_its_end_marker(ask_streamed):
    """After [DONE] a stream ends, even if the server keeps the connection open."""
    with OpenServer(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + DONE) as server:
        started = time.monotonic()
        assert ask_streamed(connect(server, timeout_seconds=20)).text == "Hello"
        assert time.monotonic() - started < 10


def test_connection_failure_after_a_complete_answer(ask_streamed):
    """A connection failure after a complete answer is ignored."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with OpenServer(head + b"%x\r\n%b\r\n" % (len(DONE), DONE)) as server:
        assert ask_streamed(connect(server, timeout_seconds=0.3)).text == "Hello"


@pytest.mark.for_each("headers", [b"Content-Length: 99\r\n", b"Content-Length: 8\r\nContent-Encoding: gzip\r\n"])
def test_refusal_with_unreadable_body_is_not_retried(ask, headers):
    """A refusal with a truncated or corrupt body is reported by its status, and is not retried."""
    output = pytest.raises(Unauthorized, match="401: no explanation was given")
    with OpenServer(b"HTTP/1.1 401 Unauthorized\r\n" + headers + b'\r\n{"error"') as server, output as caught:
        ask(connect(server, timeout_seconds=0.3, max_retries=1))
    assert caught.value.unanswered == 0


def test_finished_stream_releases_its_connection():
    """A stream that was read to its end leaves its connection open for the next request."""
    ports = set()
    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server)
        for _ in range(5):
            list(llm.stream("Hi"))
            ports.add(len(server._connections))
    assert ports == {1}


def test_unfinished_stream_closes_its_connection(ask):
    """Breaking out of a stream closes its connection, and the LLM stays usable."""
    with FakeServer(slow("one two three", between_seconds=0.05), "Hi") as server:
        llm = connect(server)
        for _ in llm.stream("Hi"):
            break
        assert ask(llm).text == "Hi"


def test_async_stream_can_be_cancelled():
    """Cancelling a task that reads a stream ends the stream immediately, and the LLM stays usable."""

    async def cancel_and_ask(llm):
        started = asyncio.Event()

        async def read():
            async for _ in llm.astream("Hi"):
                started.set()

        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await llm.achat("Hi")

    pieces = [{"choices": [{"delta": {"content": "x"}}]}] * 100
    with FakeServer(slow(raw(*pieces), between_seconds=0.2), "Hello") as server:
        assert asyncio.run(cancel_and_ask(connect(server))) == "Hello"


def key_in(request):
    """Return the header that contains the key, if any."""
    return request.headers.get("x-api-key") or request.headers.get("authorization")


def echo(request):
    """Return the whole request in an error."""
    return fail(418, f"You sent {request.headers} and {request.query}", code=key_in(request))


def echo_inside(request):
    """Return the whole request in an error with status 200."""
    error = {"error": {"message": f"You sent {request.headers}", "param": key_in(request)}}
    return raw(error) if request.json.get("stream") else raw(json.dumps(error), content_type="application/json")


def echo_as_page(request):
    """Return the whole request in a web page."""
    return raw(f"<p>{key_in(request)}</p>", content_type="text/html")


def everything_in(error):
    """Return an error, its attributes, and all objects that it refers to, as texts."""
    while error is not None:
        yield from (str(error), repr(error), repr(vars(error)))
        yield "".join(traceback.format_exception(error))
        error = error.__cause__ or error.__context__


@pytest.mark.for_each("line", [echo, echo_inside, echo_as_page])
@pytest.mark.for_each("protocol", ["chat", "responses", "messages"])
def test_key_that_the_server_quotes_is_not_shown(ask, line, protocol):
    """Neither an error nor any object that it refers to contains the key, even if the server quotes it."""
    with FakeServer(line) as server, pytest.raises(ModelError) as caught:
        ask(connect(server, api_key=KEY, protocol=protocol))
    texts = list(everything_in(caught.value))
    assert not any(KEY in text for text in texts)
    assert "***" in texts[0]


def test_credentials_in_the_url_are_not_shown(ask):
    """The user, password and query of a base URL are sent, and are in no error or repr."""
    with FakeServer(echo) as server:
        url = server.base_url.replace("//", "//someone:s%20cret-password@") + "?token=t0ken-in-query"
        llm = LLM(base_url=url, model="m", max_retries=0)
        with pytest.raises(ModelError) as caught:
            ask(llm)
        sent = server.requests[0]
    texts = [*everything_in(caught.value), repr(llm), str(llm.describe()), repr(llm.describe()), repr(vars(llm))]
    secrets = ("s%20cret", "s cret", "t0ken", sent.headers["authorization"].removeprefix("Basic "))
    assert not any(secret in text for text in texts for secret in secrets)
    assert sent.query == {"token": "t0ken-in-query"}


def test_no_log_shows_a_secret(ask, caplog):
    """Log records of the HTTP libraries contain no key, password or query at any level."""
    with FakeServer("Hi", "Hi") as server, caplog.at_level(1):
        url = server.base_url.replace("//", "//someone:pass-word@") + "?token=in-query"
        ask(LLM(base_url=url, model="m", api_key=KEY, max_retries=0))
        ask(azure(server, api_key=KEY))
        first, second = server.requests
    logged = "\n".join(record.getMessage() for record in caplog.records)
    secrets = (KEY, "pass-word", "in-query", first.headers["authorization"].removeprefix("Basic "))
    assert "Request" in logged
    assert not any(secret in logged for secret in secrets)
    assert (first.query, second.query["api-version"]) == ({"token": "in-query"}, "2024-02-01")


def test_azure_endpoint_query_is_sent(ask):
    """The query of an Azure endpoint is sent together with the API version."""
    with FakeServer("Hi") as server:
        ask(LLM("azure", "gpt", KEY, f"{server.origin}?team=1", max_retries=0))
        assert server.requests[0].query == {"api-version": "2024-02-01", "team": "1"}


def test_common_word_as_key_is_not_redacted():
    """A common word used as the key, such as `ollama`, is not redacted in errors."""
    with FakeServer(fail(500, "Boom")) as server, pytest.raises(Unreachable, match="500: Boom"):
        LLM(model="ollama:m", base_url=server.base_url, api_key="m", max_retries=0).chat("Hi")


@pytest.mark.for_each(
    ("options", "name", "expected"),
    [
        ({}, "x-team", "blue"),
        ({"api_key": KEY}, "authorization", f"Bearer {KEY}"),
        ({"api_key": KEY, "headers": {"authorization": "Gate 1"}}, "authorization", "Gate 1"),
        ({"headers": {"USER-AGENT": "desk"}}, "user-agent", "desk"),
    ],
)
def test_custom_headers_are_sent(ask, options, name, expected):
    """Custom headers are sent once with each request, and replace the default ones of the same name."""
    with FakeServer("Hi") as server:
        ask(connect(server, **{"headers": {"X-Team": "blue"}, **options}))
        [sent] = server.requests
    assert sent.headers[name] == expected


def test_custom_headers_are_sent_to_one_endpoint():
    """Another model at the same endpoint gets the custom headers, and a fallback at another one does not."""
    with FakeServer("Hi", "Hi") as server:
        llm = connect(server, headers={"X-Team": "blue"}, fallback=["second", "ollama:third"])
        assert llm.with_model("other").chat("Hi") == "Hi"
        assert llm.with_settings(temperature=0).chat("Hi") == "Hi"
        assert [sent.headers["x-team"] for sent in server.requests] == ["blue", "blue"]
    assert [each.arguments.headers for each in llm.fallbacks] == [{"X-Team": "blue"}, {}]


def headers_of(request, *names):
    """Return some headers of a request."""
    return {name: request.headers[name] for name in names if name in request.headers}


def test_cookies_are_not_stored():
    """Cookies set by a server are not sent back to it."""
    line = raw(json.dumps(ANSWER), content_type="application/json", headers={"Set-Cookie": "run=1; Path=/"})
    with FakeServer(line, "Bye") as server:
        llm = connect(server)
        assert (llm.chat("Hi"), llm.chat("Hi")) == ("Hello", "Bye")
        assert "cookie" not in {name.lower() for name in server.requests[1].headers}


def test_account_headers_are_sent_only_to_openai(ask, monkeypatch):
    """The organization, project and custom headers are sent only to OpenAI."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: 1\nAuthorization: Bearer other")
    with FakeServer("Hi", "Hi") as server:
        ask(connect(server))
        endpoint = Endpoint(provider="openai", model="m", base_url=server.base_url, api_key=Secret(KEY), is_openai=True)
        llm = connect(server)
        llm._provider = RemoteModel(endpoint, timeout_seconds=10, max_retries=0)
        ask(llm)
        stranger, openai = server.requests
    names = ("openai-organization", "openai-project", "authorization")
    assert headers_of(stranger, *names, "x-mine") == {}
    assert headers_of(openai, *names) == dict(zip(names, ("org-1", "proj-1", f"Bearer {KEY}"), strict=True))
    assert not any(name.startswith("x-stainless") for name in stranger.headers)


@pytest.mark.parametrize("account", ["\u201corg-1\u201d", "org 1", "org\n1"])
def test_invalid_organization_raises_config_error(ask, monkeypatch, account):
    """An organization with invalid header characters raises a ConfigError that names the setting."""
    monkeypatch.setenv("OPENAI_ORG_ID", account)
    llm = LLM("openai", api_key=KEY, max_retries=0)
    with pytest.raises(ConfigError, match="OPENAI_ORG_ID contains characters"):
        ask(llm)


def azure(server, **options):
    """Return an LLM for an Azure endpoint."""
    return LLM("azure", "gpt", **{"azure_endpoint": server.origin, "max_retries": 0, **options})


def test_azure_receives_the_key_in_a_separate_header(ask):
    """Dated Azure requests have the deployment in the path, the version in the query, and the key in `api-key`."""
    with FakeServer("Hi") as server:
        assert ask(azure(server, api_key=KEY)).text == "Hi"
        (sent,) = server.requests
    assert (sent.path, sent.query) == ("/openai/deployments/gpt/chat/completions", {"api-version": "2024-02-01"})
    assert headers_of(sent, "api-key", "authorization") == {"api-key": KEY}


def test_azure_v1_has_no_deployment_in_its_path(ask):
    """Azure's v1 style is the Responses protocol below /openai/v1."""
    with FakeServer("Hi") as server:
        assert ask(azure(server, api_key=KEY, azure_api_version="v1")).text == "Hi"
        (sent,) = server.requests
    assert (sent.path, sent.query, sent.json["model"]) == ("/openai/v1/responses", {}, "gpt")
    assert headers_of(sent, "api-key", "authorization") == {"api-key": KEY}


def test_token_provider_is_called_for_each_request(ask):
    """An Entra ID token is requested for each request, sent as a bearer token, and contained in no error."""
    tokens = iter(["token-first", "token-second"])
    with FakeServer("Hi", echo) as server:
        llm = azure(server, azure_token_provider=lambda: next(tokens))
        ask(llm)
        with pytest.raises(ModelError) as caught:
            ask(llm)
        sent = [headers_of(questions, "api-key", "authorization") for questions in server.requests]
    assert sent == [{"authorization": "Bearer token-first"}, {"authorization": "Bearer token-second"}]
    assert "token-second" not in str(caught.value)


def test_token_provider_is_called_for_each_attempt(ask):
    """A retried request has a token that is valid at that time."""
    tokens = iter(["token-first", "token-second"])
    with FakeServer(fail(500, headers={"Retry-After-Ms": "1"}), "Hi") as server:
        ask(azure(server, azure_token_provider=lambda: next(tokens), max_retries=1))
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer token-first", "Bearer token-second"]


@pytest.mark.for_each("token", [None, "", "two words", b"bytes"])
def test_invalid_token_from_the_token_provider(ask, token):
    """A token provider that returns no valid token raises an Unauthorized error that names it."""
    with FakeServer() as server, pytest.raises(Unauthorized, match="The token provider returned"):
        ask(azure(server, azure_token_provider=lambda: token))


def test_failing_token_provider_raises_unauthorized(ask):
    """A token provider that raises an error is reported as Unauthorized with its message."""

    def fail_to_log_in():
        raise OSError("az login first")

    with FakeServer() as server, pytest.raises(Unauthorized, match="OSError: az login first"):
        ask(azure(server, azure_token_provider=fail_to_log_in))


def test_one_llm_serves_many_threads():
    """One LLM can be used from many threads concurrently."""
    with FakeServer(lambda request: request.json["messages"][0]["content"], repeat=True) as server:
        llm = connect(server)
        with ThreadPoolExecutor(16) as pool:
            items = list(pool.map(llm.chat, (f"Hi {number}" for number in range(64))))
    assert items == [f"Hi {number}" for number in range(64)]


def test_one_llm_serves_many_tasks():
    """One LLM can serve 200 concurrent tasks."""

    async def ask_all(llm):
        return await asyncio.gather(*(llm.achat(f"Hi {number}") for number in range(200)))

    with FakeServer(lambda request: request.json["messages"][0]["content"], repeat=True) as server:
        result = asyncio.run(ask_all(connect(server)))
    assert result == [f"Hi {number}" for number in range(200)]


def test_llm_can_be_used_in_consecutive_event_loops():
    """One LLM can be used in consecutive event loops, and in sync calls in between."""
    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server)
        messages = [asyncio.run(llm.achat("Hi")), llm.chat("Hi"), asyncio.run(llm.achat("Hi"))]
        with ThreadPoolExecutor(4) as pool:
            messages += pool.map(lambda _: asyncio.run(llm.achat("Hi")), range(8))
    assert messages == ["Hi"] * 11


FORK = """
import os, sys
from agentkit.llm.client import LLM

llm = LLM(base_url=sys.argv[1], model="m", max_retries=0)
assert llm.chat("Hi") == "Hi"
with llm._provider.provider._transport._lock:
    child = os.fork()
    if child == 0:
        sys.exit(llm.chat("Hi") != "Hi")
    _, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert llm.chat("Hi") == "Hi"
"""


def test_llm_can_be_used_in_a_forked_child():
    """A forked child opens its own connections, even after a lock was held, and closes no others."""
    with FakeServer("Hi", repeat=True) as server:
        command = [sys.executable, "-c", FORK, server.base_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr, len(server.requests)) == (0, "", 3)


def test_pickled_llm_can_be_used():
    """A pickled LLM, used before or not, works after loading and opens its own connections."""
    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server, api_key=KEY, temperature=0.5)
        copies = [ForkingPickler.loads(ForkingPickler.dumps(llm))]
        llm.chat("Hi")
        copies.append(ForkingPickler.loads(ForkingPickler.dumps(llm)))
        assert [copy.chat("Hi") for copy in copies] == ["Hi", "Hi"]
        assert all(copy.equals(llm) for copy in copies)
        assert [request.json["temperature"] for request in server.requests] == [0.5] * 3


def test_key_from_the_environment_is_not_pickled(monkeypatch):
    """A pickled LLM contains the values of its arguments, and no values of the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY.encode() not in bytes(ForkingPickler.dumps(LLM()))


COLLECTED = """
import sys

from agentkit import LLM

for _ in range(3):
    assert LLM(base_url=sys.argv[1], model="m", api_key="k").chat("Hi") == "Hi"
"""


def client_ports(server):
    """Return the ports of the clients that are connected to the server."""
    return {connection.getpeername()[1] for connection in list(server._connections)}


def test_connections_outlive_a_collected_llm():
    """The connection of a collected LLM serves the next one, and is closed at the end of the process."""
    with FakeServer("Hi", repeat=True) as server:
        ports = set()
        for _ in range(3):
            assert connect(server).chat("Hi") == "Hi"
            gc.collect()
            ports |= client_ports(server)
        assert len(ports) == 1
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", COLLECTED, server.base_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_llms_of_one_event_loop_share_connections():
    """Async connections serve the next LLM of the same event loop, and are closed when the loop shuts down."""

    async def ask_three_times(server):
        ports = set()
        for _ in range(3):
            assert await connect(server).achat("Hi") == "Hi"
            gc.collect()
            ports |= client_ports(server)
        return ports

    with FakeServer("Hi", repeat=True) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(asyncio.run(ask_three_times(server))) == 1
        assert is_left_alone(server)


def test_closing_an_llm_leaves_the_connections_of_others():
    """`close` closes connections only if no other LLM uses them."""
    with FakeServer("Hi", repeat=True) as server:
        first, second = connect(server), connect(server)
        assert [first.chat("Hi"), second.chat("Hi")] == ["Hi", "Hi"]
        ports = client_ports(server)
        first.close()
        assert second.chat("Hi") == "Hi"
        assert client_ports(server) == ports
        second.close()
        assert is_left_alone(server)


def test_unused_connections_are_closed():
    """Unused connections of an event loop are closed after a while, unused blocking ones when there are many."""

    async def use_and_release(pools, endpoint):
        pool = pools.take(endpoint, asyncio.get_running_loop())
        await pool.start()
        pools.release(pool)
        await asyncio.sleep(0.1)
        assert pool.connections._is_closed
        return pools.take(endpoint, asyncio.get_running_loop()) is not pool

    pools = PoolRegistry(keepalive_seconds=0.01)
    assert asyncio.run(use_and_release(pools, Endpoint(provider="p", model="m", base_url="http://a/v1")))
    taken = [pools.take(Endpoint(provider="p", model="m", base_url=f"http://{n}/v1")) for n in range(10)]
    for pool in taken:
        pools.release(pool)
    pools.take(Endpoint(provider="p", model="m", base_url="http://b/v1"))
    assert [pool.connections._is_closed for pool in taken] == [True] * 2 + [False] * 8


def test_connections_are_closed_with_their_event_loop():
    """When an event loop shuts down, its connections are closed, and the LLM stays usable."""
    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server)
        asyncio.run(llm.achat("Hi"))
        assert is_left_alone(server)
        assert llm.chat("Hi") == "Hi"


def test_closed_event_loops_are_released():
    """An LLM refers only to the last of the closed event loops."""
    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server)
        for _ in range(5):
            asyncio.run(llm.achat("Hi"))
        assert len(llm._provider.provider._transport._leases) == 1


def test_client_released_after_its_event_loop():
    """An LLM that is released after its event loop causes no warning."""
    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server)
        asyncio.run(llm.achat("Hi"))
        del llm
        gc.collect()


def test_llm_can_be_closed_and_used_again():
    """`close` and `aclose` may be called repeatedly, and the LLM stays usable."""

    async def ask_twice(llm):
        await llm.aclose()
        messages = [await llm.achat("Hi")]
        await llm.aclose()
        await llm.aclose()
        return [*messages, await llm.achat("Hi")]

    with FakeServer("Hi", repeat=True) as server:
        llm = connect(server)
        llm.close()
        messages = [llm.chat("Hi")]
        llm.close()
        llm.close()
        messages += [llm.chat("Hi"), *asyncio.run(ask_twice(llm))]
        llm.close()
        assert messages == ["Hi"] * 4
        assert is_left_alone(server)


def test_certificates_are_verified(ask):
    """Certificates of https:// servers are verified, and an invalid one raises Unreachable."""
    with FakeServer() as server, pytest.raises(Unreachable, match="Cannot reach"):
        ask(LLM(base_url=server.base_url.replace("http:", "https:"), model="m", max_retries=0))


def test_nothing_is_opened_before_the_first_request():
    """Making an LLM opens nothing and imports no HTTP library."""
    transport = Transport(
        Endpoint(provider="openai", model="m", base_url="http://127.0.0.1:1/v1"), 1, 0, wire_named("chat")
    )
    assert (transport._lease, transport._leases) == (None, {})


def test_every_error_is_an_agentkit_error():
    """Every connection error is an AgentKitError."""
    with FakeServer(drop(), say("Hi")) as server:
        llm = connect(server)
        with pytest.raises(AgentKitError):
            llm.chat("Hi")
        assert llm.chat("Hi") == "Hi"


@pytest.mark.for_each("charset", ["rot13", "hex", "base64", "zlib", "undefined", "idna", "utf-16"])
@pytest.mark.for_each("status", [200, 400])
def test_json_is_decoded_as_utf_8(ask_whole, charset, status):
    """JSON is decoded as UTF-8, whatever charset the server names."""
    body = {"choices": [{"message": {"content": "é"}}]} if status == 200 else {"error": {"message": "é"}}
    line = raw(json.dumps(body, ensure_ascii=False), status=status, content_type=f"a/json; charset={charset}")
    with FakeServer(line) as server:
        if status == 200:
            assert ask_whole(connect(server)).text == "é"
        else:
            with pytest.raises(Rejected, match="é"):
                ask_whole(connect(server))


def test_invalid_retry_after_date_uses_default_delay(ask):
    """An invalid Retry-After date uses the default delay."""
    line = fail(429, headers={"Retry-After": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"})
    with FakeServer(line, "Hi") as server:
        assert ask(connect(server, max_retries=1)).text == "Hi"


@pytest.mark.for_each(
    "line",
    [
        raw("x " * 85 + KEY, status=401, content_type="text/plain"),
        raw("x" * 110 + KEY, content_type="text/plain"),
        raw('{"a": "' + KEY + '","b":"' + "z" * 62, content_type="application/json"),
        raw(json.dumps({"k": "w" * 185 + KEY}), content_type="application/json"),
        raw(json.dumps({"error": {"message": "y" * 1_990 + KEY}}), status=401, content_type="application/json"),
        raw(json.dumps({"error": {"message": "y" * 2_070 + KEY + "y" * 90}}), content_type="application/json"),
    ],
)
def test_error_quotes_no_part_of_a_key(ask, line):
    """Error messages are redacted before they are truncated, so that no part of a key remains."""
    with FakeServer(line) as server, pytest.raises(ModelError) as caught:
        ask(connect(server, api_key=KEY))
    assert KEY[:8] not in str(caught.value)
    assert KEY[-6:] not in str(caught.value)
    assert len(str(caught.value)) < 2_300


@pytest.mark.parametrize(
    ("name", "value", "scheme"),
    [("HTTP_PROXY", "ftp://x", "http"), ("SSL_CERT_FILE", "/no/file", "https")],
)
def test_unusable_proxy_or_certificate_raises_config_error(ask, monkeypatch, name, value, scheme):
    """An unusable proxy or certificate raises a ConfigError that names the variable."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name):
        ask(LLM(base_url=f"{scheme}://model.invalid/v1", model="m", max_retries=0))


def test_socks_proxy_without_its_package():
    """A SOCKS proxy without the required package raises a ConfigError that names the variable."""
    program = """
import sys
sys.modules["socksio"] = None  # as if it were not installed
from agentkit import LLM, ConfigError
try:
    LLM(base_url="http://model.invalid/v1", model="m", max_retries=0).complete("Hi")
except ConfigError as error:
    print(error)
"""
    variables = os.environ | {"HTTP_PROXY": "socks5://h:1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables, check=True)
    assert "HTTP_PROXY" in done.stdout


def test_unknown_host(ask):
    """The error for an unknown host does not suggest that the server is not running."""
    with pytest.raises(Unreachable, match=r"[^.]\. Check the network and the host's name\.$"):
        ask(LLM(base_url="http://model.invalid/v1", model="m", max_retries=0))
