"""Tests for servers that violate HTTP: invalid bytes, resets and delays over real sockets."""

import gzip
import json
import socket
import struct
from contextlib import suppress
from threading import Thread

import pytest

from agentkit.errors import BadResponse, Rejected, Unreachable
from agentkit.llm.client import LLM

KEY = "sk-test-0123456789"
RESET = struct.pack("ii", 1, 0)
JSON = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
WHOLE = {
    "chat": JSON,
    "responses": json.dumps(
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}]}
    ).encode(),
    "messages": json.dumps({"type": "message", "content": [{"type": "text", "text": "Hello"}]}).encode(),
}
ANSWERED = b'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\n'
HALF = b'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'


class FaultServer:
    """A server that answers every request with the same bytes, and then closes, resets or holds the connection."""

    def __init__(self, *pieces, ending="close", reads=True):
        self._pieces, self._ending, self._reads = pieces, ending, reads
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._kept = []
        self._thread = Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (self._listener, *self._kept):
            each.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._kept.append(connection)
            with suppress(OSError):  # a client may disconnect before the end of the answer
                self._answer(connection)

    def _answer(self, connection):
        if self._reads:
            data = b""
            while b"\r\n\r\n" not in data or b"}" not in data.partition(b"\r\n\r\n")[2][-1:]:
                data += connection.recv(65536)
        for piece in self._pieces:
            connection.sendall(piece)
        if self._ending == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if self._ending in {"reset", "close"}:
            connection.close()
        if self._ending == "half-closed":
            connection.shutdown(socket.SHUT_WR)


def http(body, *headers, length=None):
    """Return a response with this body as bytes."""
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(body, size=None):
    """Return a chunked response without the last chunk."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%b\r\n%b\r\n" % (size or b"%x" % len(body), body)


def asked(ask, url, **options):
    """Return the answer of an LLM at the URL."""
    return ask(
        LLM(**{"base_url": url, "model": "m", "api_key": KEY, "max_retries": 0, "timeout_seconds": 20, **options})
    )


LOST = {
    "no answer": (b"",),
    "half a status line": (b"HTTP/1.1 20",),
    "half of the headers": (b"HTTP/1.1 200 OK\r\nContent-Ty",),
    "no body": (http(b"", length=20),),
    "half of the body": (http(JSON[:-20], length=len(JSON)),),
    "length too large": (http(JSON, length=len(JSON) + 9),),
    "invalid length": (http(JSON, length="many"),),
    "a negative length": (http(JSON, length=-1),),
    "two lengths": (http(JSON, "Content-Length: 3"),),
    "a wrong chunk": (chunked(JSON, b"ZZ"),),
    "no last chunk": (chunked(JSON),),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000,),
}


@pytest.mark.for_each("ending", ["close", "reset", "half-closed"])
@pytest.mark.for_each("pieces", LOST.values(), ids=LOST)
def test_lost_connection_raises_unreachable(ask, pieces, ending):
    """A lost connection raises Unreachable with the URL, and counts as an unanswered attempt."""
    with FaultServer(*pieces, ending=ending) as url, pytest.raises(Unreachable) as caught:
        asked(ask, url)
    assert f"The connection to openai at {url} broke: " in str(caught.value)
    assert str(caught.value).endswith(". Try again.")
    assert (caught.value.status, caught.value.unanswered) == (None, 1)


@pytest.mark.for_each(
    "greeting", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x50", b"+OK POP3\r\n\r\n"]
)
def test_server_without_http_raises_unreachable(ask, greeting):
    """A server that does not speak HTTP raises an error that asks for the correct scheme."""
    with FaultServer(greeting) as url, pytest.raises(Unreachable, match="Is it an HTTP server, and is http:// or"):
        asked(ask, url)


def test_server_without_tls_raises_unreachable(ask):
    """An https URL of a server without TLS raises an error that asks for the correct scheme."""
    with FaultServer(http(JSON), reads=False) as url, pytest.raises(Unreachable, match="Does the server speak https"):
        asked(ask, url.replace("http:", "https:"))


def test_corrupt_compressed_body_raises_bad_response(ask):
    """A body that cannot be decompressed raises BadResponse."""
    with FaultServer(http(JSON, "Content-Encoding: gzip")) as url, pytest.raises(BadResponse, match="not compressed"):
        asked(ask, url)


def test_truncated_compressed_body_raises_bad_response(ask):
    """A truncated compressed body raises BadResponse."""
    packed = gzip.compress(JSON)[:-20]
    with (
        FaultServer(http(packed, "Content-Encoding: gzip")) as url,
        pytest.raises(BadResponse, match="is invalid JSON"),
    ):
        asked(ask, url)


@pytest.mark.parametrize("status", [b"200 OK", b"204 No Content"])
def test_empty_response_raises_bad_response(ask_whole, status):
    """An empty success response raises BadResponse."""
    answer = b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status
    with FaultServer(answer) as url, pytest.raises(BadResponse, match="sent an empty response"):
        asked(ask_whole, url)


UNUSUAL = {
    "blanks around it": http(b"\r\n\n  " + JSON + b"\n\n"),
    "a byte order mark": http(b"\xef\xbb\xbf" + JSON),
    "compressed": http(gzip.compress(JSON), "Content-Encoding: gzip"),
    "an unknown charset": http(JSON, "Content-Type: application/json; charset=klingon"),
    "an unknown encoding": http(JSON, "Content-Encoding: frob"),
    "no length": b"HTTP/1.1 200 OK\r\n\r\n" + JSON,
    "an old version": b"HTTP/1.0 200 OK\r\n\r\n" + JSON,
    "bare line feeds": http(JSON).replace(b"\r\n", b"\n"),
    "text before": b"HTTP/1.1 100 Continue\r\n\r\n" + http(JSON),
    "chunks": chunked(JSON) + b"0\r\nX-Trailer: 1\r\n\r\n",
}


@pytest.mark.for_each("answer", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_response_is_accepted(ask, answer):
    """An unusual but readable HTTP response is accepted."""
    with FaultServer(answer) as url:
        assert asked(ask, url).text == "Hello"


def dripped(*, named):
    """Return the same streamed answer in each protocol, with event names if `named`."""
    streams = {
        "chat": [{"choices": [{"delta": {"content": "Hel"}}]}, {"choices": [{"delta": {"content": "lo"}}]}],
        "responses": [
            *({"type": "response.output_text.delta", "delta": text} for text in ("Hel", "lo")),
            {"type": "response.completed", "response": {"output": []}},
        ],
        "messages": [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hel"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ],
    }
    streams["chat"].append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    return {protocol: [_event(dict(each), named=named) for each in events] for protocol, events in streams.items()}


def _event(fields, *, named):
    kind = fields.pop("type", None) if named else None
    return (f"event: {kind}\n" if kind else "").encode() + b"data: " + json.dumps(fields).encode() + b"\n\n"


def packed(events):
    """Return events that are compressed separately."""
    return b"".join(map(gzip.compress, events))


FRAMES = {
    "plainly": b"".join,
    "with a bare colon": lambda events: b":\n\n" + b"".join(events),
    "with a pause": lambda events: b"retry: 3000\nid: 1\n\n" + b"".join(events),
    "with CRLF": lambda events: b"".join(events).replace(b"\n", b"\r\n"),
    "with a byte order mark": lambda events: b"\xef\xbb\xbf" + b"".join(events),
    "with pings": b'event: ping\ndata: {"type": "ping"}\n\n'.join,
    "with a mark of another kind": lambda events: b"".join(events) + b"data: [EOF]\n\n",
    "with garbage at the end": lambda events: b"".join(events) + b"data: <html>\n\n",
    "with an empty event at the end": lambda events: b"".join(events) + b"event: done\ndata: {}\n\n",
}
STREAMED = {
    f"{protocol}, {frame}": (protocol, make(events))
    for protocol, events in dripped(named=False).items()
    for frame, make in FRAMES.items()
} | {f"{protocol}, types as names": (protocol, b"".join(events)) for protocol, events in dripped(named=True).items()}


@pytest.mark.for_each(("protocol", "body"), STREAMED.values(), ids=STREAMED)
def test_stream_is_parsed_however_it_is_framed(ask, protocol, body):
    """A streamed answer is parsed in every protocol, however it is framed."""
    with FaultServer(chunked(body) + b"0\r\n\r\n") as url:
        assert asked(ask, url, protocol=protocol).text == "Hello"


@pytest.mark.for_each(("protocol", "events"), dripped(named=False).items())
def test_separately_compressed_events(ask, protocol, events):
    """A stream of several compressed members is decompressed to its end."""
    with FaultServer(http(packed(events), "Content-Encoding: gzip")) as url:
        assert asked(ask, url, protocol=protocol).text == "Hello"


def test_unknown_compression_raises_bad_response(ask):
    """A body that is not text raises BadResponse that suggests compression as the cause."""
    body = b"\x28\xb5\x2f\xfd\x00" + bytes(range(128, 255))
    with (
        FaultServer(http(body, "Content-Encoding: zstd")) as url,
        pytest.raises(BadResponse, match="may be compressed"),
    ):
        asked(ask, url)


@pytest.mark.for_each("protocol", WHOLE)
@pytest.mark.for_each("around", [b"[%b]", b"%b", b"data: %b\n\n"], ids=["list", "object", "event"])
def test_complete_answer_in_another_shape(ask, protocol, around):
    """A complete answer may be inside a list, or the only event of a stream."""
    with FaultServer(http(around % WHOLE[protocol])) as url:
        assert asked(ask, url, protocol=protocol).text == "Hello"


@pytest.mark.for_each(
    "extra", [b'"x": "a\x01\tb"', b'"x": ' + b"9" * 5_000, b'"x": NaN'], ids=["control", "digits", "NaN"]
)
@pytest.mark.for_each("protocol", WHOLE)
def test_nearly_valid_json_is_accepted(ask, protocol, extra):
    """Slightly invalid JSON around an answer is accepted."""
    body = WHOLE[protocol][:-1] + b", " + extra + b"}"
    with FaultServer(http(body)) as url:
        assert asked(ask, url, protocol=protocol).text == "Hello"


FAILED = {
    "empty error": (b'{"type": "error"}', Rejected),
    "code and message": (b'{"success": false, "code": 50000, "msg": "Boom"}', Rejected),
    "a timeout": (b'{"type": "error", "error": {"type": "timeout_error", "message": "Boom"}}', Unreachable),
}


@pytest.mark.for_each(("body", "kind"), FAILED.values(), ids=FAILED)
@pytest.mark.for_each("protocol", WHOLE)
def test_error_inside_a_success_is_raised(ask, protocol, body, kind):
    """An error inside a success response is raised in every protocol, whole or in a stream."""
    started = dripped(named=False)[protocol][0]
    for answer in (http(body), http(started + b"data: " + body + b"\n\ndata: [DONE]\n\n")):
        with FaultServer(answer) as url, pytest.raises(kind):
            asked(ask, url, protocol=protocol)


@pytest.mark.for_each("protocol", WHOLE)
def test_lost_answer_is_retried(ask, protocol):
    """A request whose answer was lost is sent again, and counted as unreported."""
    with FaultServer(http(WHOLE[protocol])) as good, FaultServer(ending="reset") as bad:
        assert asked(ask, good, protocol=protocol).text == "Hello"
        with pytest.raises(Unreachable) as caught:
            asked(ask, bad, protocol=protocol, max_retries=1)
    assert caught.value.unanswered == 2


@pytest.mark.parametrize("ending", ["close", "reset", "keep"])
def test_connection_failure_after_the_finish_reason(ask_streamed, ending):
    """An answer with a finish reason is complete, even if the connection then fails."""
    with FaultServer(chunked(ANSWERED), ending=ending) as url:
        response = asked(ask_streamed, url, timeout_seconds=0.3)
    assert (response.text, response.finish_reason, response.usage.unreported) == ("Hello", "stop", 1)


@pytest.mark.parametrize(
    ("ending", "words"), [("close", "broke"), ("reset", "broke"), ("keep", "stopped in the middle")]
)
def test_incomplete_stream_raises_unreachable(ask_streamed, ending, words):
    """A stream that ends before its finish reason raises an error."""
    with FaultServer(chunked(HALF), ending=ending) as url, pytest.raises(Unreachable, match=words):
        asked(ask_streamed, url, timeout_seconds=0.3)


def test_key_quoted_in_a_page_is_redacted(ask):
    """A key quoted in a server's page is redacted in the error."""
    page = f"<html>{KEY}</html>".encode()
    with FaultServer(http(page)) as url, pytest.raises(BadResponse, match=r"not JSON \('<html>\*\*\*</html>'\)"):
        asked(ask, url)
