"""Tests for the fake OpenAI server with the real openai package over a real connection."""

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import openai
import pytest

from agentkit.llm.client import LLM
from agentkit.testing import (
    FakeServer,
    ScriptedLLM,
    ScriptError,
    call,
    cut,
    drop,
    fail,
    filtered,
    raw,
    refuse,
    say,
    slow,
)
from agentkit.usage import Usage

_HI = [{"role": "user", "content": "Hi"}]
_LONG_ANSWER = say("Let me compute.", call("calculator", expression="2+2"), call("clock"), reasoning="Two tools")


@contextmanager
def _client(server, **settings):
    with openai.OpenAI(base_url=server.base_url, api_key="key", **{"max_retries": 0, **settings}) as client:
        yield client


@contextmanager
def _azure(server):
    settings = {"api_key": "key", "api_version": "2024-02-01", "max_retries": 0}
    with openai.AzureOpenAI(azure_endpoint=server.origin, **settings) as client:
        yield client


def _chat(client, **settings):
    return client.chat.completions.create(model="gpt", messages=_HI, **settings)


def _respond(client, **settings):
    return client.responses.create(model="gpt", input="Hi", **settings)


def _streamed_chat(client, **settings):
    with client.chat.completions.stream(model="gpt", messages=_HI, **settings) as stream:
        return stream.get_final_completion()


def _streamed_response(client, **settings):
    with client.responses.stream(model="gpt", input="Hi", **settings) as stream:
        return stream.get_final_response()


every_way = pytest.mark.parametrize("ask", [_chat, _streamed_chat, _respond, _streamed_response])
both_protocols = pytest.mark.parametrize("ask", [_chat, _respond])


def _ask_in_vain(ask, server, *, times, message):
    """Send this many requests; the last one must fail with a reason and without a retry."""
    with _client(server, max_retries=2) as client:
        for _ in range(times - 1):
            ask(client)
        with pytest.raises(openai.InternalServerError, match=message):
            ask(client)


def _content(answer):
    """Return the text, and the ID, name and arguments of each call, for either protocol."""
    if answer.object == "response":
        calls = [item for item in answer.output if item.type == "function_call"]
        return answer.output_text, [(item.call_id, item.name, item.arguments) for item in calls]
    message = answer.choices[0].message
    calls = message.tool_calls or []
    return message.content or "", [(entry.id, entry.function.name, entry.function.arguments) for entry in calls]


@every_way
def test_openai_client_parses_every_line(ask):
    """The same lines are served over both protocols, complete and streamed."""
    with FakeServer(_LONG_ANSWER, call("clock"), "It is 4.", "") as server, _client(server) as client:
        answers = [_content(ask(client)) for _ in range(4)]
    calculator = ("call_1_1", "calculator", '{"expression": "2+2"}')
    assert answers == [
        ("Let me compute.", [calculator, ("call_1_2", "clock", "{}")]),
        ("", [("call_2_1", "clock", "{}")]),
        ("It is 4.", []),
        ("", []),
    ]


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_fake_server_and_scripted_llm_agree(protocol):
    """An LLM connected to the fake server gives the same answer as a scripted LLM."""
    with FakeServer(_LONG_ANSWER, repeat=True) as server, ScriptedLLM(_LONG_ANSWER) as scripted:
        llm = LLM(base_url=server.base_url, model="gpt", protocol=protocol)
        full_text, streamed, expected = llm.complete("Hi"), list(llm.stream("Hi"))[-1].response, scripted.complete("Hi")
        llm.close()
    for response in (full_text, streamed):
        assert (response.text, response.message.reasoning) == (expected.text, expected.message.reasoning)
        assert (response.finish_reason, response.usage) == (expected.finish_reason, expected.usage)
        assert [(entry.name, entry.arguments) for entry in response.tool_calls] == [
            (entry.name, entry.arguments) for entry in expected.tool_calls
        ]


@pytest.mark.parametrize("mode", ["chat", "responses"])
def test_streamed_text_arrives_in_pieces(mode):
    """Streamed text reaches the openai client word by word."""
    with FakeServer("one two three") as server, _client(server) as client:
        if mode == "chat":
            pieces = [chunk.choices[0].delta.content for chunk in _chat(client, stream=True)][1:-1]
        else:
            events = _respond(client, stream=True)
            pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert pieces == ["one ", "two ", "three"]


def test_async_client_receives_the_same_lines():
    """The openai package's async client receives the same lines, complete and streamed."""

    async def ask_all(base_url):
        async with openai.AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0) as client:
            complete = await client.chat.completions.create(model="gpt", messages=_HI)
            stream = await client.responses.create(model="gpt", input="Hi", stream=True)
            pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            return complete.choices[0].message.content, pieces

    with FakeServer("Hello.", "one two") as server:
        assert asyncio.run(ask_all(server.base_url)) == ("Hello.", ["one ", "two"])


def test_azure_deployments_are_served():
    """Azure's dated paths are served with content filter results, version and key header."""
    with FakeServer("Hi", "one two") as server, _azure(server) as client:
        complete = _chat(client)
        chunks = list(_chat(client, stream=True))
    assert complete.choices[0].model_extra["content_filter_results"]["violence"]["filtered"] is False
    assert chunks[0].choices == []
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[1:]) == "one two"
    request = server.requests[0]
    assert (request.path, request.query) == (
        "/openai/deployments/gpt/chat/completions",
        {"api-version": "2024-02-01"},
    )
    assert request.headers["api-key"] == "key"


def test_azure_v1_path_is_served():
    """Azure's v1 style is served at another base URL."""
    with FakeServer("Hi", "Ho") as server, openai.OpenAI(base_url=f"{server.origin}/openai/v1/", api_key="k") as client:
        assert [_content(_chat(client))[0], _content(_respond(client))[0]] == ["Hi", "Ho"]


@every_way
def test_usage_is_reported(ask):
    """The usage of a line reaches the client in either protocol."""
    line = say("Hi", usage=Usage(100, 50, 80, 20, requests=1))
    with FakeServer(line) as server, _client(server) as client:
        streamed = {"stream_options": {"include_usage": True}} if ask is _streamed_chat else {}
        usage = ask(client, **streamed).usage.to_dict()
    details = [entry for entry in usage.values() if isinstance(entry, dict)]
    assert (usage["total_tokens"], sorted(value for value in usage.values() if isinstance(value, int))[:2]) == (
        150,
        [50, 100],
    )
    assert {entry.get("cached_tokens") or entry.get("reasoning_tokens") for entry in details} == {80, 20}


def test_reasoning_items_can_be_sent_back():
    """A reasoning item has encrypted content, and may be sent back with the next request."""
    with FakeServer(say("4", reasoning="two and two"), "Yes.") as server, _client(server) as client:
        first = _respond(client, store=False, include=["reasoning.encrypted_content"])
        sent = [item.to_dict() for item in first.output]
        client.responses.create(model="gpt", input=sent)
    assert first.output[0].encrypted_content
    assert first.output[0].summary[0].text == "two and two"
    assert server.requests[1].json["input"] == sent


def test_refusal_reaches_the_client():
    """A refusal is returned in the field that the protocol defines."""
    with FakeServer(refuse("I cannot."), refuse("Nor can I.")) as server, _client(server) as client:
        assert _chat(client).choices[0].message.refusal == "I cannot."
        assert _respond(client).output[0].content[0].refusal == "Nor can I."


def test_content_filter_reaches_the_client():
    """An answer that a content filter stopped has that finish reason."""
    with FakeServer(filtered("Once"), filtered()) as server, _client(server) as client:
        assert _chat(client).choices[0].finish_reason == "content_filter"
        assert _respond(client).incomplete_details.reason == "content_filter"


@both_protocols
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
def test_errors_reach_the_client(ask, status, error):
    """Any status becomes an error of the client with message, code, parameter and headers."""
    line = fail(status, "Not so", code="c", parameter="p", headers={"Retry-After": "7"})
    with FakeServer(line) as server, _client(server) as client, pytest.raises(error, match="Not so") as caught:
        ask(client)
    assert (caught.value.code, caught.value.param) == ("c", "p")
    assert caught.value.response.headers["retry-after"] == "7"


@both_protocols
def test_client_retries_after_an_error(ask):
    """A client that retries receives the answer after an error."""
    with (
        FakeServer(fail(500, headers={"Retry-After-Ms": "1"}), "Hi") as server,
        _client(server, max_retries=1) as client,
    ):
        assert _content(ask(client))[0] == "Hi"
    assert len(server.requests) == 2


def test_error_with_status_200():
    """An error body may come with status 200."""
    with FakeServer(fail(200, "Overloaded")) as server, _client(server) as client:
        assert _chat(client).to_dict()["error"]["message"] == "Overloaded"


def test_html_with_status_200():
    """A `raw` line can return an HTML page with status 200."""
    with FakeServer(raw("<html>", content_type="text/html")) as server, _client(server) as client:
        assert _chat(client) == "<html>"


def test_raw_bytes_are_served():
    """Recorded deviations are served byte by byte: CRLF, comments, empty choices, a missing end."""
    quirks = raw(
        b": keep-alive\r\n\r\n",
        {"choices": []},
        b'data: {"choices": [{"delta": {"tool_calls": [{"function": {"name": "a"}}]}}]}\r\n\r\n',
        b'data: {"choices": [], "usage"',
        b': {"prompt_tokens": 1}}\n\n',
    )
    with FakeServer(quirks) as server, _client(server) as client:
        chunks = [chunk.to_dict() for chunk in _chat(client, stream=True)]
    assert [chunk["choices"] for chunk in chunks] == [
        [],
        [{"delta": {"tool_calls": [{"function": {"name": "a"}}]}}],
        [],
    ]
    assert chunks[2]["usage"] == {"prompt_tokens": 1}


def test_stream_can_be_truncated():
    """A truncated stream ends without a finish reason, and the connection stays usable."""
    with FakeServer(cut("one two three", after=2), "Hi") as server, _client(server) as client:
        chunks = list(_chat(client, stream=True))
        assert _content(_chat(client))[0] == "Hi"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "one two "
    assert {chunk.choices[0].finish_reason for chunk in chunks} == {None}


@both_protocols
def test_connection_can_be_dropped_before_the_answer(ask):
    """A connection that closes before the answer raises a connection error."""
    with FakeServer(drop()) as server, _client(server) as client, pytest.raises(openai.APIConnectionError):
        ask(client)


@both_protocols
def test_connection_can_be_dropped_during_the_answer(ask):
    """A connection that closes during an answer raises an error, streamed or not."""
    with FakeServer(drop("Hi"), drop("one two", after=1)) as server, _client(server) as client:
        with pytest.raises(openai.APIConnectionError):
            ask(client)
        with pytest.raises(Exception, match=r"peer closed connection|Connection error"):
            list(ask(client, stream=True))


def test_answer_can_be_delayed():
    """A line may delay its first byte, so that a timeout can be tested."""
    line = slow("Hi", before_seconds=60)
    with FakeServer(line) as server, _client(server, timeout=0.2) as client, pytest.raises(openai.APITimeoutError):
        _chat(client)


def test_answer_can_have_delays():
    """A line may have delays between its pieces."""
    with FakeServer(slow("one two three", between_seconds=0.02)) as server, _client(server) as client:
        began = time.monotonic()
        assert len(list(_chat(client, stream=True))) == 5
    assert time.monotonic() - began >= 0.1


def test_closing_does_not_wait():
    """Leaving the block does not wait for delayed lines or open connections."""
    with FakeServer(slow("Hi", before_seconds=600)) as server:
        connection = socket.create_connection(("127.0.0.1", int(server.origin.rpartition(":")[2])))
        connection.sendall(b"POST /v1/responses HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        while not server.requests:
            time.sleep(0.01)
        began = time.monotonic()
    assert time.monotonic() - began < 60
    connection.close()


def test_requests_are_recorded():
    """Each request is recorded with its method, path, headers and JSON body."""
    with FakeServer("Hi") as server, _client(server) as client:
        _chat(client, temperature=0.5)
    [request] = server.requests
    assert (request.method, request.path, request.query) == ("POST", "/v1/chat/completions", {})
    assert request.headers["authorization"] == "Bearer key"
    assert request.json == {"model": "gpt", "messages": _HI, "temperature": 0.5}


def test_function_returns_a_line_for_the_request():
    """A line may be a function of the recorded request, which may choose any other line."""

    def echo(request):
        return slow(f"{request.model} heard {request.json['messages'][-1]['content']}")

    with FakeServer(echo, lambda _: fail(404)) as server, _client(server) as client:
        assert _content(_chat(client))[0] == "gpt heard Hi"
        with pytest.raises(openai.NotFoundError):
            _chat(client)


@every_way
def test_request_without_a_line_is_an_error(ask):
    """A request without a remaining line gets an error with the request and the script, which `done` raises."""
    server = FakeServer("Only this.")
    with pytest.raises(ScriptError, match="The script has no line for request 2"), server:
        _ask_in_vain(ask, server, times=2, message="request 2; it has 1")
    assert len(server.requests) == 2


def test_exception_in_a_function_is_reported():
    """A function that raises returns status 500, and `done` raises its exception."""

    def check(request):
        assert request.json.get("tools"), "no tools were sent"

    server = FakeServer(check)
    with pytest.raises(ScriptError, match="no tools were sent") as caught, server:
        _ask_in_vain(_chat, server, times=1, message="no tools were sent")
    assert isinstance(caught.value.__cause__, AssertionError)


def test_function_returning_an_invalid_line_is_reported():
    """A function that returns an invalid line returns status 500 and raises an error in the script."""
    server = FakeServer(lambda _: 7)
    with pytest.raises(ScriptError, match="is not a valid script line"), server:
        _ask_in_vain(_chat, server, times=1, message="is not a valid script line")


def test_unused_lines_fail_the_block():
    """Leaving the block with unused lines raises an error that shows them."""
    server = FakeServer("Hi", "Never asked")
    with pytest.raises(ScriptError, match="'Never asked'"), server, _client(server) as client:
        _chat(client)


def test_error_of_the_block_is_raised():
    """An exception in the block is not replaced by the error about unused lines."""
    with pytest.raises(KeyError), FakeServer("Never asked"):
        raise KeyError


@pytest.mark.parametrize("line", [7, None, [], ValueError("no")])
def test_invalid_line_is_rejected(line):
    """An invalid line raises an error when the script is created."""
    with pytest.raises(TypeError, match="is not a valid script line"):
        FakeServer(line)


def test_unknown_path_uses_no_line():
    """A request to an unknown path is answered as by OpenAI, recorded, and uses no line."""
    with FakeServer("Hi") as server, _client(server) as client:
        with pytest.raises(openai.NotFoundError, match="Unknown request URL: GET /v1/models"):
            client.models.list()
        assert _content(_chat(client))[0] == "Hi"
    assert [questions.method for questions in server.requests] == ["GET", "POST"]


def test_non_http_data_returns_status_400():
    """Data that is not HTTP returns status 400, and the connection is closed."""
    with FakeServer() as server, socket.create_connection(("127.0.0.1", _port(server)), timeout=10) as connection:
        connection.sendall(b"hello\r\n\r\n")
        with connection.makefile("rb") as stream:
            answer = stream.read()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert b"Not an HTTP/1.1 request" in answer


def _port(server):
    return int(server.origin.rpartition(":")[2])


def test_server_has_no_url_before_it_starts():
    """Without `with` or `start` the server has no URL, and closing twice is allowed."""
    server = FakeServer()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.base_url
    server.start()
    assert server.base_url == f"{server.origin}/v1"
    server.close()
    server.close()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.origin


def test_server_can_be_restarted():
    """A closed server can be started again and continues its script."""
    server = FakeServer("Hi", "Ho")
    for expected in ("Hi", "Ho"):
        server.start()
        with _client(server) as client:
            assert _content(_chat(client))[0] == expected
        server.close()
    server.done()


def test_two_hundred_concurrent_connections():
    """Two hundred clients are served concurrently, each over a separate connection."""
    body = json.dumps({"model": "gpt", "messages": _HI, "stream": True}).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return b"Hello" in answer

    async def ask_all(port):
        return await asyncio.wait_for(asyncio.gather(*(ask(port) for _ in range(200))), 60)

    with FakeServer(slow("Hello there", before_seconds=0.5), repeat=True) as server:
        assert all(asyncio.run(ask_all(_port(server))))
    assert len(server.requests) == 200


def test_connection_is_reused():
    """A connection is reused until the client sends `Connection: close`."""
    body = b'{"model": "gpt", "input": "Hi"}'
    head = b"POST /v1/responses HTTP/1.1\r\nContent-Length: %d\r\n" % len(body)
    with FakeServer("Hi", "Ho") as server, socket.create_connection(("127.0.0.1", _port(server)), timeout=10) as peer:
        peer.sendall(head + b"\r\n" + body + head + b"Connection: close\r\n\r\n" + body)
        with peer.makefile("rb") as stream:
            answers = stream.read()
    assert answers.count(b"HTTP/1.1 200 OK") == 2


def test_threads_share_the_script():
    """Clients in several threads share the script."""
    with FakeServer(*map(str, range(40))) as server, _client(server) as client, ThreadPoolExecutor(8) as pool:
        items = list(pool.map(lambda _: _content(_chat(client))[0], range(40)))
    assert sorted(items, key=int) == [str(number) for number in range(40)]


def test_repeated_line_need_not_be_requested():
    """A server that repeats its last line accepts any number of requests, including none."""
    with FakeServer("Hi!", repeat=True) as server:
        assert server.requests == []
