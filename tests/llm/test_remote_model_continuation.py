"""Tests for the continuation of answers that the server has paused."""

import json

import pytest

from agentkit.agents.agent import Agent
from agentkit.errors import ModelError
from agentkit.events import TextDelta
from agentkit.llm.client import LLM
from agentkit.llm.compat.anthropic import MAX_PAUSES
from agentkit.llm.protocols.anthropic import BLOCKS
from agentkit.testing import FakeServer, fail, raw

SEARCH = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "Paris"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}
CALL = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


def text(text):
    """Return a text block."""
    return {"type": "text", "text": text}


def paused(*blocks, reason="pause_turn", **fields):
    """Return an answer that was paused or ended for another reason."""
    usage = {"input_tokens": 7, "output_tokens": 3}
    answer = {"type": "message", "model": "claude", "content": blocks, "stop_reason": reason, "usage": usage, **fields}
    return raw(json.dumps(answer), content_type="application/json")


def streamed(*blocks, reason="pause_turn"):
    """Return the answer as a stream."""
    begins = [{"type": "content_block_start", "index": at, "content_block": block} for at, block in enumerate(blocks)]
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}}
    return raw(start, *begins, end, {"type": "message_stop"})


def connect(server, **options):
    """Return an LLM for the server, in the protocol with pauses."""
    return LLM(protocol="messages", base_url=server.base_url, model="claude", max_retries=0, **options)


def sent(server):
    """Return the blocks of the turns in each request."""
    return [[turn["content"] for turn in request.json["messages"]] for request in server.requests]


def test_paused_answer_is_continued(ask):
    """The parts of a paused answer are sent back unchanged and form one answer, whose usage is their sum."""
    parts = [
        [text("I look."), SEARCH],
        [FOUND, SEARCH | {"id": "two"}],
        [FOUND | {"tool_use_id": "two"}, text("Paris")],
    ]
    with FakeServer(*(paused(*part) for part in parts[:2]), paused(*parts[2], reason="end_turn")) as server:
        response = ask(connect(server))
    assert (response.text, response.finish_reason, response.model) == ("I look.\n\nParis", "stop", "claude")
    assert response.message.extra[BLOCKS] == tuple(block for part in parts for block in part)
    assert (response.usage.requests, response.usage.input_tokens, response.usage.output_tokens) == (3, 21, 9)
    assert response.message.origin
    assert response.usage.tariff
    assert [turns[1:] for turns in sent(server)] == [[], [parts[0]], [[*parts[0], *parts[1]]]]


def test_all_parts_are_streamed(ask_streamed):
    """The deltas of all parts form the text of the whole answer."""
    rest = (FOUND, text("Paris"), text("."))
    with FakeServer(streamed(text("I look."), SEARCH), streamed(*rest, reason="end_turn")) as server:
        items = list(connect(server).stream("Hi"))
    assert [event.text for event in items[:-1]] == ["I look.", "\n\nParis", "."]
    assert items[-1].response.text == "I look.\n\nParis."
    with FakeServer(streamed(text("I look")), streamed(text(" here."), reason="end_turn")) as server:
        assert ask_streamed(connect(server)).text == "I look here."


def test_error_in_a_later_part_is_raised(ask):
    """An error in a later part is raised."""
    with FakeServer(paused(SEARCH), fail(500)) as server, pytest.raises(ModelError):
        ask(connect(server))


def test_number_of_pauses_is_limited(ask):
    """After the maximum number of pauses, the answer is returned with finish_reason `length`."""
    with FakeServer(paused(text("I look."), SEARCH), repeat=True) as server:
        response = ask(connect(server))
    assert len(server.requests) == MAX_PAUSES + 1
    assert response.finish_reason == "length"
    assert {block["type"] for block in response.message.extra[BLOCKS]} == {"text"}


def test_call_after_a_pause():
    """A client tool called after a pause is run, and the container is sent with its result."""

    def f() -> int:
        """Give a number."""
        return 1

    parts = paused(SEARCH), paused(FOUND, CALL, reason="tool_use", container={"id": "c"})
    with FakeServer(*parts, paused(text("One."), reason="end_turn")) as server:
        result = Agent("a", [f], llm=connect(server)).run("Hi")
    assert (result.output, result.iterations) == ("One.", 2)
    assert [request.json.get("container") for request in server.requests] == [None, None, "c"]
    assert [len(turns) for turns in sent(server)] == [1, 2, 3]


def test_paused_text_is_joined():
    """A pause within or after a text does not change the text."""
    with FakeServer(paused(text("I look")), paused(text(" here."), reason="end_turn")) as server:
        texts = [event.text for event in connect(server).stream("Hi") if isinstance(event, TextDelta)]
    assert "".join(texts) == "I look here."
