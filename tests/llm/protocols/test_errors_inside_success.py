"""Tests for temporary errors inside responses with status 200, which are retried like their status."""

import json

import pytest

from agentkit.errors import ModelError
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, cut, drop, raw

JSON = "application/json"
STARTED = {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
FAILED = {"status": "failed", "error": {"code": "server_is_overloaded", "message": "x"}, "output": []}
GOOGLE = {"error": {"code": 503, "message": "The model is overloaded", "status": "UNAVAILABLE"}}

FAULTS = {
    "Anthropic, first": ("messages", raw(OVERLOADED)),
    "Anthropic, after the start": ("messages", raw({"type": "message_start", "message": STARTED}, OVERLOADED)),
    "an error first": ("chat", raw({"error": {"message": "Overloaded", "code": "overloaded"}})),
    "a status as code": ("chat", raw(json.dumps({"error": {"code": 502, "message": "Bad"}}), content_type=JSON)),
    "a status as text": ("chat", raw({"error": {"code": "429", "message": "Slow"}})),
    "a text": ("chat", raw({"error": "upstream connect error or disconnect/reset before headers"})),
    "a finish reason": ("chat", raw({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]})),
    "an error in a choice": ("chat", raw({"choices": [{"index": 0, "delta": {}, "error": {"code": 502}}]})),
    "a failed response": ("responses", raw({"type": "response.failed", "response": FAILED})),
    "a failed body": ("responses", raw(json.dumps(FAILED), content_type=JSON)),
    "an error event": ("responses", raw({"type": "error", "code": "server_error", "message": "x"})),
    "Google": ("gemini", raw(GOOGLE)),
    "Google, a list": ("gemini", raw(json.dumps([GOOGLE]), content_type=JSON)),
    "a dropped connection": ("chat", drop("ok", after=0)),
    "a cut stream": ("chat", cut("ok", after=0)),
}


def llm_at(server, protocol):
    """Return a client of the fake server for a protocol."""
    return LLM(base_url=server.origin if protocol == "gemini" else server.base_url, model="m", protocol=protocol)


@pytest.mark.for_each(("protocol", "fault"), FAULTS.values(), ids=FAULTS)
def test_temporary_error_is_retried(protocol, fault, ask):
    """A temporary error is retried in every way of requesting a response, before the first delta."""
    with FakeServer(fault, "ok") as server:
        assert ask(llm_at(server, protocol)).text == "ok"


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages", "gemini"])
def test_error_after_the_first_delta_has_the_text(protocol):
    """A stream that fails after its first delta raises an error that contains the text so far."""
    with FakeServer(drop("One two three.", after=2)) as server:
        pieces = []
        with pytest.raises(ModelError) as raised:
            pieces.extend(llm_at(server, protocol).stream("Hi"))
    assert raised.value.partial.text == "One two "
