"""Tests for the table of wire protocols, and for a protocol with a framing other than server-sent events."""

import asyncio
import json
from typing import get_args

import pytest

from agentkit.errors import BadResponse, ConfigError, Rejected
from agentkit.events import TextDelta
from agentkit.llm.client import LLM
from agentkit.llm.compat import rules
from agentkit.llm.detection import PROVIDERS
from agentkit.llm.endpoint import Endpoint, ProtocolName
from agentkit.llm.protocols import PROTOCOLS, WireProtocol, hosted_tools, wire_named
from agentkit.llm.remote_model import RemoteModel
from agentkit.messages import AssistantMessage, Request, Response, UserMessage
from agentkit.testing import FakeServer, raw
from agentkit.tracing import semantic_conventions
from agentkit.usage import NO_USAGE, Usage

REQUEST = Request([UserMessage("Hi")])


def test_protocols_are_listed_once():
    """The type of `protocol=`, the table of loaders and the protocols themselves have the same names."""
    assert get_args(ProtocolName) == tuple(PROTOCOLS) == tuple(wire_named(name).name for name in PROTOCOLS)


def test_unknown_protocol_is_an_error():
    """An unknown name is rejected with the known ones, by the table and by an endpoint."""
    for load in (wire_named, lambda name: Endpoint(provider="p", model="m", protocol=name)):
        with pytest.raises(ConfigError, match=r"'responses', 'chat', 'messages' or 'gemini', not 'grpc'"):
            load("grpc")


def test_every_protocol_is_in_the_tables_of_other_modules():
    """The tables of other modules contain each protocol, and no unknown ones."""
    assert set(rules._PROTOCOLS) == set(PROTOCOLS)
    assert {protocol for protocol, _ in hosted_tools._DECLARED} <= set(PROTOCOLS)


def test_other_names_are_those_of_known_providers():
    """Each provider with another name in traces exists."""
    assert set(semantic_conventions._PROVIDERS) <= set(PROVIDERS)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_fake_server_answers_in_every_protocol(protocol):
    """The fake server answers requests of each protocol, whole and streamed."""
    with FakeServer("Hello", "Hello") as server:
        llm = LLM(protocol=protocol, base_url=server.base_url, model="m", max_retries=0)
        *_, last = llm.stream("Hi")
        assert (llm.complete("Hi").text, last.response.text) == ("Hello", "Hello")


class Lines:
    """The framing of a stream with one JSON object per line."""

    def __init__(self):
        self.closed, self.body, self._rest = False, bytearray(), b""

    def feed(self, piece):
        """Return the objects in the lines that this chunk completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                raise BadResponse(f"The stream contains invalid JSON: {line[:80]!r}.") from None

    def flush(self):
        """Return the object in a last line without an end."""
        return self.feed(b"\n") if self._rest else ()


class LineReader:
    """Reads objects such as `{"text": "Hello"}`; the last one has the token counts."""

    is_whole = is_answered = False
    usage = NO_USAGE

    def __init__(self):
        self.text = ""

    def feed(self, chunk):
        """Return the events in an object."""
        if "tokens" in chunk:
            self.is_whole = self.is_answered = True
            self.usage = Usage(requests=1, input_tokens=chunk["tokens"][0], output_tokens=chunk["tokens"][1])
            return
        self.text += chunk["text"]
        yield TextDelta(chunk["text"])

    def finish(self, **_options):
        """Return the response."""
        if not self.is_whole:
            raise BadResponse("The stream ended early.")
        return Response(AssistantMessage(self.text), usage=self.usage)


class LineProtocol(WireProtocol):
    """A small protocol whose streams consist of lines of JSON."""

    name, headers, streaming = "lines", {}, {"stream": True}

    def url(self, _model, /, **_options):
        """Return the path of a request."""
        return "/chat/completions"  # a path that the server has

    def error(self, body, **_options):
        """Return an error."""
        return Rejected(str(body))

    def encode(self, request, _model, **_options):
        """Return the body of a request."""
        return {"prompt": request.messages[-1].content}

    def decode(self, data):
        """Return the response in a body."""
        return Response(AssistantMessage(data["text"]))

    def reader(self):
        """Return a reader of objects."""
        return LineReader()

    def framing(self, _scrub):
        """Return the framing of lines."""
        return Lines()


def model_at(server):
    """Return a model that speaks the small protocol."""
    endpoint = Endpoint(provider="p", model="m", base_url=server.base_url)
    return RemoteModel(endpoint, timeout_seconds=10, max_retries=0, wire=LineProtocol())


def lines(*pieces):
    """Return an answer in these pieces."""
    return raw(*pieces, content_type="application/x-ndjson")


PIECES = b'{"text": "Hel', b'lo"}\n{"text": " world"}\n', b'{"tokens": [3, 2]}'


def test_protocol_owns_the_framing_of_its_streams():
    """A stream that begins with a brace is split by the framing of its protocol, wherever it is cut."""

    async def astream(model):
        return [event async for event in model.astream(REQUEST)]

    for read in (lambda model: list(model.stream(REQUEST)), lambda model: asyncio.run(astream(model))):
        with FakeServer(lines(*PIECES)) as server:
            *events, last = read(model_at(server))
            assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello", " world"]
            assert (last.response.text, last.response.usage.output_tokens) == ("Hello world", 2)
            assert server.requests[0].json == {"stream": True, "prompt": "Hi"}


def test_faults_in_other_framings_are_errors():
    """A stream with another framing that is invalid or ends early is an error with the partial answer."""
    for pieces, message in ((PIECES[:2], "ended early"), ((*PIECES[:2], b"<html>\n"), "invalid JSON")):
        with FakeServer(lines(*pieces)) as server, pytest.raises(BadResponse, match=message) as caught:
            list(model_at(server).stream(REQUEST))
        assert caught.value.partial.text == "Hello world"


def test_answers_without_a_stream_need_no_framing():
    """A request that is not streamed is decoded from its body."""
    with FakeServer(lines(b'{"text": "Hello"}')) as server:
        assert model_at(server).complete(REQUEST).text == "Hello"
