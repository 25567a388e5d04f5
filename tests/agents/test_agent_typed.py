"""Tests for typed outputs: parsing, corrections, partial outputs, and pauses."""

from dataclasses import dataclass
from typing import Literal, TypedDict

import pytest
from pydantic import BaseModel

from agentkit import LLM, Agent, Approval, RunError, Tool
from agentkit.errors import Rejected
from agentkit.events import AnswerRefused, PartialOutput
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, say
from agentkit.tools.human import finish_tool

MODES = ["run", "arun", "stream", "astream"]
GOOD = '{"number": "A1", "total": 30}'
BAD = '{"number": "A1", "total": "thirty"}'


@dataclass
class Invoice:
    """An invoice."""

    number: str
    total: float


class Bill(BaseModel):
    """An invoice as a pydantic model."""

    number: str
    total: float


class Slip(TypedDict):
    """An invoice as a TypedDict."""

    number: str
    total: float


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.for_each(
    ("kind", "text", "value"),
    [
        (Invoice, GOOD, Invoice("A1", 30)),
        (Bill, GOOD, Bill(number="A1", total=30)),
        (Slip, GOOD, {"number": "A1", "total": 30}),
        (Literal["good", "bad"], '{"result": "good"}', "good"),
        (list[int], '{"result": [1, 2]}', [1, 2]),
        (Invoice | None, '{"result": null}', None),
        (int | str, '{"result": "a"}', "a"),
        (list[Invoice], f'{{"result": [{GOOD}]}}', [Invoice("A1", 30)]),
        (str, "any text", "any text"),
        (None, "any text", "any text"),
    ],
)
@pytest.mark.for_each("mode", MODES)
def test_types_of_answers(mode, kind, text, value, drive):
    """An answer has the type: a dataclass, model, TypedDict, Literal, list, union or string."""
    result = drive(Agent("helper", output_type=kind, llm=ScriptedLLM(text)), mode)
    assert (result.output, result.status, result.error) == (value, "done", None)


@pytest.mark.parametrize("mode", MODES)
def test_invalid_answer_is_corrected(mode, drive, find_faults):
    """An invalid answer is returned to the model with the error, and both are in the history."""
    llm = ScriptedLLM(BAD, "I cannot say.", GOOD)
    agent = Agent("helper", output_type=Invoice, llm=llm)
    result = drive(agent, mode)
    assert (result.output, result.iterations) == (Invoice("A1", 30), 3)
    assert "'total' should be a valid number" in llm.requests[1].messages[-1].content
    assert "The answer should be JSON" in llm.requests[2].messages[-1].content
    assert [message["role"] for message in agent.history] == ["user", "assistant"] * 3
    assert find_faults(agent.history) == []


@pytest.mark.parametrize("mode", MODES)
def test_repeated_invalid_answers_fail_the_run(mode, drive, find_faults):
    """After two corrections, the run fails with the last error, and resuming tries again."""
    llm = ScriptedLLM(BAD, BAD, BAD, GOOD)
    agent = Agent("helper", output_type=Invoice, llm=llm)
    result = drive(agent, mode)
    assert (result.value, result.status, len(llm.requests)) == (None, "failed", 3)
    assert "refused 3 times" in str(result.error)
    assert "'total' should be a valid number" in str(result.error)
    assert find_faults(agent.history) == []
    assert drive(agent, mode, result.resumption()).output == Invoice("A1", 30)
    assert find_faults(agent.history) == []


def test_invalid_answer_raises_an_error():
    """Calling an agent raises the error; otherwise the text is the value as JSON."""
    with pytest.raises(RunError, match="valid number"):
        Agent("helper", output_type=Invoice, llm=ScriptedLLM(BAD, repeat=True))("go")
    assert Agent("helper", output_type=Invoice, llm=ScriptedLLM(f"Here: {GOOD}!"))("go") == (
        '{"number": "A1", "total": 30.0}'
    )


@pytest.mark.parametrize("mode", MODES)
def test_tools_and_type_in_one_run(mode, drive, find_faults):
    """A typed run can use tools, and text that accompanies a tool call is not an answer."""
    llm = ScriptedLLM(say("Let me see.", call("add", a=10, b=20)), BAD, call("add", a=1, b=2), GOOD)
    agent = Agent("helper", [add], output_type=Invoice, llm=llm)
    result = drive(agent, mode)
    assert (result.output, len(result.tool_calls)) == (Invoice("A1", 30), 2)
    assert {request.output_schema.name for request in llm.requests} == {"Invoice"}
    assert find_faults(agent.history) == []


def test_finish_returns_a_typed_answer():
    """The argument of `finish` is parsed like any other answer."""
    llm = ScriptedLLM(call("finish", answer="thirty"), call("finish", answer=GOOD))
    assert Agent("helper", [finish_tool], output_type=Invoice, llm=llm).run("go").output == Invoice("A1", 30)


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_partial_output(mode, drive):
    """Partial output grows with each event and starts again with a new answer."""
    llm = ScriptedLLM('{"number": "A 1 b", "total": "x"}', '{"number": "A 1", "total": 30}')
    agent, seen = Agent("helper", output_type=Invoice, llm=llm), []
    agent.on(PartialOutput, lambda event: seen.append(event.value))
    agent.on(AnswerRefused, lambda _: seen.append("refused"))
    assert drive(agent, mode).output == Invoice("A 1", 30)
    place = seen.index("refused")
    assert seen[:place][-1] == {"number": "A 1 b", "total": "x"}
    assert seen[place + 1 :][-1] == {"number": "A 1", "total": 30}
    assert {"number": "A "} in seen[place:]
    numbers = [len(str(value)) for value in seen[:place]]
    assert numbers == sorted(numbers)


def test_no_partial_output():
    """Without an output type or without streaming, no partial output is emitted."""
    typed, plain = Agent("helper", output_type=Invoice, llm=ScriptedLLM(GOOD)), Agent("helper", llm=ScriptedLLM(GOOD))
    received = []
    typed.on(PartialOutput, received.append)
    plain.on(PartialOutput, received.append)
    typed.run("go")
    list(plain.stream("go"))
    assert received == []


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("protocol", ["chat", "responses"])
def test_schema_is_sent_to_the_server(protocol, mode, drive):
    """The request to a server contains the schema."""
    with FakeServer(BAD, GOOD) as server:
        llm = LLM(base_url=server.base_url, model="any", protocol=protocol)
        agent = Agent("helper", output_type=Invoice, llm=llm)
        assert drive(agent, mode).output == Invoice("A1", 30)
        assert "Invoice" in str(server.requests[0].body)


def test_paused_typed_run():
    """A paused typed run has no output, and returns it after resuming."""
    agent = Agent(
        "helper",
        [Tool(add, level="SYSTEM")],
        output_type=Invoice,
        llm=ScriptedLLM(call("add", a=1, b=2), GOOD),
        approve=lambda _: Approval.LATER,
    )
    paused = agent.run("go")
    assert (paused.status, paused.value) == ("paused", None)
    with pytest.raises(RunError, match="waits for a person"):
        _ = paused.output
    assert paused.resume(True).output == Invoice("A1", 30)


def test_finished_typed_run_returns_its_value():
    """A finished typed run returns its value when it is resumed from JSON."""
    agent = Agent("helper", output_type=Invoice, llm=ScriptedLLM(GOOD))
    assert agent.resume(agent.run("go").to_json()).output == Invoice("A1", 30)


def test_failed_request_of_a_typed_run():
    """Reading the output of a failed run raises the error."""
    with FakeServer(fail(400, "Bad question.")) as server:
        result = Agent("helper", output_type=Invoice, llm=LLM(base_url=server.base_url, model="any")).run("go")
        assert (result.value, result.status) == (None, "failed")
        with pytest.raises(Rejected, match="Bad question"):
            _ = result.output
