"""Tests for the encoding of requests and answers in cassettes."""

import json

import pytest

from agentkit.decisions import Decision, Label
from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, SessionError
from agentkit.events import Approved, ResponseReceived, RunStarted, ToolCallFinished, ToolCallPostponed
from agentkit.messages import (
    AssistantMessage,
    EmbeddingAnswer,
    EmbeddingQuery,
    OutputSchema,
    Request,
    Response,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from agentkit.recording import PersonAsked
from agentkit.sessions.cassettes.entries import (
    MessageNumbers,
    Reader,
    TimeUp,
    encode_answer,
    encode_charge,
    encode_event,
    encode_question,
)
from agentkit.usage import Charge, Usage

CALL = ToolCall("c1", "add", '{"a": 1}')
RESPONSE = Response(
    AssistantMessage("Yes.", (CALL,), reasoning="So.", extra={"id": 1}, origin="x"), "tool_calls", Usage(3, 4)
)
DECISION = Decision("ask", "level", "It is dear.")
REQUEST = Request(
    (UserMessage("Add."), AssistantMessage("", (CALL,)), ToolMessage("c1", "add", "1")),
    "Be brief.",
    (ToolSpec("add", "", {}),),
    OutputSchema("answer", {"type": "integer"}),
    {"temperature": 0.5},
)
HEAD = {"id": 1, "at": 12.5, "seconds": 0.5}


def back(question, answer, **more):
    """Encode a request and its answer, and decode them again."""
    numbers = MessageNumbers()
    line = {**HEAD, **encode_question(question, numbers), **encode_answer(answer, numbers), **more}
    return Reader().read(json.loads(json.dumps(line)))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (REQUEST, RESPONSE),
        (Request((UserMessage("Hi."),)), Response(AssistantMessage("Hi."))),
        (CALL, ToolResult("add", "ok", "1", seconds=0.1, labels=frozenset({Label.PRIVATE}), decision=DECISION)),
        (PersonAsked(CALL, DECISION), Approved("c1", "once", arguments='{"a": 2}')),
        (
            EmbeddingQuery(("a", "b"), {"dimensions": 2}),
            EmbeddingAnswer([[0.5, -1.0], [0.0, 2.0]], "m", Usage(2, requests=1)),
        ),
    ],
    ids=["request", "short request", "tool", "person", "vectors"],
)
def test_question_and_answer_round_trip(question, answer):
    """Requests, tool calls, approvals and embeddings survive a round trip with their answers."""
    exchange = back(question, answer, inside=3, live=True)
    assert (exchange.question, exchange.answer) == (question, answer)
    assert (exchange.number, exchange.at, exchange.seconds, exchange.inside) == (1, 12.5, 0.5, 3)
    assert exchange.is_live is (question is CALL)  # only a tool call can be live


def lost(error, unanswered):
    """Return the error of a request that was sent this many times in vain."""
    error.unanswered = unanswered
    return error


@pytest.mark.parametrize(
    "error",
    [
        ModelError("Something."),
        lost(RateLimited("Slow down.", status=429), 2),
        RateLimited("Slow down.", status=429, code="limit", parameter="tokens", retry_after_seconds=1.5),
        Rejected("Too long.", status=400, code="context_length_exceeded", limit_tokens=8_192),
        BadResponse("Cut."),
    ],
)
def test_model_errors_round_trip(error):
    """A ModelError survives a round trip with its type, message and attributes."""
    found = back(REQUEST, error).answer
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_unknown_error_type_is_a_model_error():
    """An unknown type of error is read as a ModelError with the same message."""
    line = {**HEAD, "ask": "model", "messages": [], "error": {"kind": "Overloaded", "text": "Too much.", "new": 1}}
    assert type(Reader().read(line).answer) is ModelError


@pytest.mark.for_each(
    ("content", "value", "expected"),
    [
        ('{"a": [1, 2]}', {"a": [1, 2]}, {"a": [1, 2]}),
        ("3", 3, 3),
        ("3", "3", "3"),
        ("text", "text", "text"),
        ("shown", {"other": "value"}, {"other": "value"}),
        ("shown", None, None),
        ("shown", {1: "number as a key"}, None),
        ("shown", object(), None),
        ("shown", "x" * 200_000, None),
    ],
)
def test_values_of_results(content, value, expected):
    """The value of a tool result survives a round trip if it is plain data of moderate size."""
    assert back(CALL, ToolResult("add", "ok", content, value)).answer.value == expected


def test_value_of_redacted_content_is_none():
    """A tool result whose content is no longer valid JSON has no value."""
    line = {**HEAD, "ask": "tool", "call": {"id": "c", "name": "n", "arguments": ""}, "value": "content"}
    assert Reader().read({**line, "answer": {"tool": "n", "status": "ok", "content": "{oops"}}).answer.value is None


def test_charge_round_trip():
    """The charge of an answer survives a round trip; an empty charge is not written."""
    charge = Charge(30, 4, {"tool_calls": 2}, (0.25, 0.5))
    assert back(CALL, ToolResult("add", "ok", "1"), **encode_charge(charge)).charge == charge
    assert back(CALL, ToolResult("add", "ok", "1")).charge is None
    assert encode_charge(None) == encode_charge(Charge()) == {}


@pytest.mark.parametrize("charge", [3, [1], [1, 2, {"tool_calls": "x"}], [-1, 0, {}], [1, 2, 3], [1, 2, {}, "much"]])
def test_invalid_charge_is_rejected(charge):
    """An invalid charge raises a SessionError."""
    with pytest.raises(SessionError, match="damaged"):
        back(CALL, ToolResult("add", "ok", "1"), charge=charge)


def test_time_up_is_parsed():
    """A line with the watch and the reading at which its time was up is parsed as a TimeUp."""
    assert Reader().read({"watch": "1/2", "up": 3, "at": 12.5}) == TimeUp("1/2", 3, 12.5)


def test_event_refers_to_its_answer():
    """A stored event that refers to a recorded answer by number is read with that answer."""
    reader, numbers = Reader(), MessageNumbers()
    result = ToolResult("add", "ok", "1")
    reader.read({**HEAD, **encode_question(REQUEST, numbers), **encode_answer(RESPONSE, numbers)})
    reader.read({**HEAD, "id": 2, **encode_question(CALL, numbers), **encode_answer(result, numbers)})
    response_told = reader.read(encode_event("run", 13.0, ResponseReceived(RESPONSE), 1))
    result_told = reader.read({**encode_event("run", 14.0, ToolCallFinished(CALL, result), 2), "inside": 9})
    assert (response_told.event, response_told.exchange.number) == (ResponseReceived(RESPONSE), 1)
    waits = ToolCallPostponed(CALL, "May I?", DECISION)
    assert reader.read(encode_event("run", 15.0, waits, 0)).event == waits
    assert (result_told.event, result_told.inside) == (ToolCallFinished(CALL, result), 9)


def test_event_without_answer_is_written_in_full():
    """A stored event without a recorded answer is written in full, as in a session."""
    line = encode_event("run", 13.0, RunStarted("helper", "Hi."), 0)
    assert line == {"run": "run", "at": 13.0, "event": "run_started", "agent": "helper", "prompt": "Hi."}
    output = Reader().read(line)
    assert (output.run, output.at, output.event, output.exchange) == ("run", 13.0, RunStarted("helper", "Hi."), None)


@pytest.mark.for_each(
    "line",
    [
        {"ask": "model"},
        {"ask": "oracle", "id": 1},
        {"ask": "tool", "call": 3},
        {"ask": "tool", **HEAD, "call": {"id": "c", "name": "n", "arguments": ""}},
        {"ask": "person", "call": {"id": "c", "name": "n", "arguments": ""}, "decision": {"verdict": "maybe"}},
        {"ask": "vectors", **HEAD, "texts": ["a"], "settings": {}, "answer": {"vectors": ["much"]}},
        {"ask": "vectors", **HEAD, "texts": ["a"], "settings": 3, "answer": {"vectors": []}},
        {"run": "r", "at": 1, "event": "response_received", "of": 5},
        {"run": "r", "at": "noon", "event": "run_resumed"},
        {"event": "run_resumed"},
        {"event": "miracle", "run": "r", "at": 1},
        {},
    ],
)
def test_damaged_lines_are_rejected(line):
    """A line that is not a valid entry raises a SessionError."""
    with pytest.raises(SessionError):
        Reader().read(line)


@pytest.mark.parametrize("packed", ["0000803f 00", "0000803f 000080", "00"])
def test_damaged_vector_is_rejected(packed):
    """A vector with an incomplete last number raises an error."""
    numbers = MessageNumbers()
    question = encode_question(EmbeddingQuery(("a",), {}), numbers)
    answer = encode_answer(EmbeddingAnswer([[1.0]], "m", Usage(1, requests=1)), numbers)
    assert Reader().read({**HEAD, **question, **answer}).answer.vectors == [[1.0]]
    answer["answer"]["vectors"] = [packed]
    with pytest.raises(SessionError):
        Reader().read({**HEAD, **question, **answer})


def test_event_cannot_refer_to_an_approval():
    """A stored event that refers to a person's answer raises a SessionError."""
    reader, numbers = Reader(), MessageNumbers()
    answer = encode_answer(Approved("c1", "once"), numbers)
    reader.read({**HEAD, **encode_question(PersonAsked(CALL, DECISION), numbers), **answer})
    with pytest.raises(SessionError, match="neither"):
        reader.read({"run": "r", "at": 1, "event": "response_received", "of": 1})


@pytest.mark.for_each("number", [float("nan"), float("inf"), -1, 1e12, 10**400, "12", True, None])
@pytest.mark.for_each("name", ["id", "at", "seconds", "inside"])
def test_invalid_numbers_are_rejected(name, number):
    """An invalid time or question number raises a SessionError."""
    with pytest.raises(SessionError):
        back(REQUEST, RESPONSE, **{name: number})
