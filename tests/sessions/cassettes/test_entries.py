"""Do questions and answers come back from a file as they were?"""

import json

import pytest

from agentkit.decisions import Decision, Label
from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, SessionError
from agentkit.events import Approved, ResponseReceived, RunStarted, ToolCallFinished, ToolCallPostponed
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    Request,
    Response,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    VectorsAsked,
    VectorsMade,
)
from agentkit.recording import PersonAsked
from agentkit.sessions.cassettes.entries import (
    MessageNumbers,
    Reader,
    TimeUp,
    encode_answer,
    encode_charge,
    encode_milestone,
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
    """The question and its answer as they are read from what is written."""
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
            VectorsAsked(("a", "b"), {"dimensions": 2}),
            VectorsMade([[0.5, -1.0], [0.0, 2.0]], "m", Usage(2, requests=1)),
        ),
    ],
    ids=["request", "short request", "tool", "person", "vectors"],
)
def test_question_and_answer_come_back(question, answer):
    """A request, a tool call and what a person was asked come back with their answers, and vectors with their texts."""
    asking = back(question, answer, inside=3, live=True)
    assert (asking.question, asking.answer) == (question, answer)
    assert (asking.number, asking.at, asking.seconds, asking.inside) == (1, 12.5, 0.5, 3)
    assert asking.is_live is (question is CALL)  # only a tool call can be


def lost(error, unanswered):
    """The error of a request that was sent so often in vain."""
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
def test_errors_of_models_come_back(error):
    """A ModelError comes back as what it was, with all that it carried."""
    found = back(REQUEST, error).answer
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_an_error_of_a_later_version_is_a_model_error():
    """An error that this version does not know is a ModelError with the same words."""
    line = {**HEAD, "ask": "model", "messages": [], "error": {"kind": "Overloaded", "text": "Too much.", "new": 1}}
    assert type(Reader().read(line).answer) is ModelError


@pytest.mark.for_each(
    ("content", "value", "kept"),
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
def test_values_of_results(content, value, kept):
    """A result's own value comes back when it is plain data of a moderate size."""
    assert back(CALL, ToolResult("add", "ok", content, value)).answer.value == kept


def test_a_value_whose_text_was_redacted_is_none():
    """When the text that says the value is no JSON any more, there is no value."""
    line = {**HEAD, "ask": "tool", "call": {"id": "c", "name": "n", "arguments": ""}, "value": "content"}
    assert Reader().read({**line, "answer": {"tool": "n", "status": "ok", "content": "{oops"}}).answer.value is None


def test_what_an_answer_has_cost_comes_back():
    """What answering was charged with stands beside the answer; where nothing was, nothing is written."""
    charge = Charge(30, 4, {"tool_calls": 2}, (0.25, 0.5))
    assert back(CALL, ToolResult("add", "ok", "1"), **encode_charge(charge)).charge == charge
    assert back(CALL, ToolResult("add", "ok", "1")).charge is None
    assert encode_charge(None) == encode_charge(Charge()) == {}


@pytest.mark.parametrize("charge", [3, [1], [1, 2, {"tool_calls": "x"}], [-1, 0, {}], [1, 2, 3], [1, 2, {}, "much"]])
def test_a_charge_that_is_none_is_refused(charge):
    """What does not say tokens, tool calls and dollars is a damaged line."""
    with pytest.raises(SessionError, match="damaged"):
        back(CALL, ToolResult("add", "ok", "1"), charge=charge)


def test_when_the_time_was_up_comes_back():
    """At which of its readings a watch said that the time was up is a line of its own."""
    assert Reader().read({"watch": "1/2", "up": 3, "at": 12.5}) == TimeUp("1/2", 3, 12.5)


def test_a_milestone_can_name_its_answer():
    """What a run tells of a recorded answer is not written again, and read as if it were."""
    reader, numbers = Reader(), MessageNumbers()
    result = ToolResult("add", "ok", "1")
    reader.read({**HEAD, **encode_question(REQUEST, numbers), **encode_answer(RESPONSE, numbers)})
    reader.read({**HEAD, "id": 2, **encode_question(CALL, numbers), **encode_answer(result, numbers)})
    response_told = reader.read(encode_milestone("run", 13.0, ResponseReceived(RESPONSE), 1))
    result_told = reader.read({**encode_milestone("run", 14.0, ToolCallFinished(CALL, result), 2), "inside": 9})
    assert (response_told.milestone, response_told.asking.number) == (ResponseReceived(RESPONSE), 1)
    waits = ToolCallPostponed(CALL, "May I?", DECISION)
    assert reader.read(encode_milestone("run", 15.0, waits, 0)).milestone == waits
    assert (result_told.milestone, result_told.inside) == (ToolCallFinished(CALL, result), 9)


def test_a_milestone_can_stand_alone():
    """Any other milestone is written whole, as sessions have it."""
    line = encode_milestone("run", 13.0, RunStarted("helper", "Hi."), 0)
    assert line == {"run": "run", "at": 13.0, "event": "run_started", "agent": "helper", "prompt": "Hi."}
    told = Reader().read(line)
    assert (told.run, told.at, told.milestone, told.asking) == ("run", 13.0, RunStarted("helper", "Hi."), None)


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
def test_damaged_lines_are_refused(line):
    """A line that is no entry is a SessionError, never anything else."""
    with pytest.raises(SessionError):
        Reader().read(line)


@pytest.mark.parametrize("packed", ["0000803f 00", "0000803f 000080", "00"])
def test_a_damaged_vector_is_refused(packed):
    """A vector whose last number is incomplete is a damaged line; nothing is dropped silently."""
    numbers = MessageNumbers()
    question = encode_question(VectorsAsked(("a",), {}), numbers)
    answer = encode_answer(VectorsMade([[1.0]], "m", Usage(1, requests=1)), numbers)
    assert Reader().read({**HEAD, **question, **answer}).answer.vectors == [[1.0]]
    answer["answer"]["vectors"] = [packed]
    with pytest.raises(SessionError):
        Reader().read({**HEAD, **question, **answer})


def test_a_milestone_cannot_tell_of_a_person():
    """A run that tells of an answer which is neither a response nor a result is a damaged line."""
    reader, numbers = Reader(), MessageNumbers()
    answer = encode_answer(Approved("c1", "once"), numbers)
    reader.read({**HEAD, **encode_question(PersonAsked(CALL, DECISION), numbers), **answer})
    with pytest.raises(SessionError, match="neither"):
        reader.read({"run": "r", "at": 1, "event": "response_received", "of": 1})


@pytest.mark.for_each("number", [float("nan"), float("inf"), -1, 1e12, 10**400, "12", True, None])
@pytest.mark.for_each("name", ["id", "at", "seconds", "inside"])
def test_numbers_that_nothing_counts_are_refused(name, number):
    """A time that no clock shows, or a question's number that is none, is a damaged line."""
    with pytest.raises(SessionError):
        back(REQUEST, RESPONSE, **{name: number})
