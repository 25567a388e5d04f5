"""Tests for the output type of a single run."""

import asyncio
import copy
import pickle
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from agentkit import Agent, Approval, ConfigError, RunFinished, RunResult, Session, tool
from agentkit.agents.result import Resumption
from agentkit.events import PartialOutput
from agentkit.messages import Request
from agentkit.testing import ScriptedLLM, call

MODES = ["run", "arun", "stream", "astream"]
GOOD = '{"number": "A1", "total": 30}'


@dataclass
class Invoice:
    """An invoice."""

    number: str
    total: float


@tool(level="SYSTEM")
def pay(number: str) -> str:
    """Pay an invoice."""
    return f"{number} is paid"


def run(agent: Agent[Any], mode: str, prompt: Any, **given: Any) -> RunResult[Any]:
    """Return the result of a run in one of the four ways to run an agent."""

    async def awaited() -> Any:
        if mode == "arun":
            return await agent.arun(prompt, **given)
        return [event async for event in agent.astream(prompt, **given)]

    value: Any = asyncio.run(awaited()) if mode in ("arun", "astream") else getattr(agent, mode)(prompt, **given)
    return value if isinstance(value, RunResult) else list(value)[-1].result


def asked_types(llm: ScriptedLLM) -> list[str | None]:
    """Return the name of the type requested in each request."""
    requests: list[Request] = llm.requests
    return [None if each.output_schema is None else each.output_schema.name for each in requests]


@pytest.mark.parametrize("mode", MODES)
def test_output_type_of_a_run(mode):
    """Each run has the output type passed to it, or else the agent's output type."""
    llm = ScriptedLLM("Hello.", GOOD, '{"result": [1, 2]}', "Bye.")
    helper = Agent("helper", llm=llm)
    outputs = [run(helper, mode, "Go on.", output_type=kind).output for kind in (None, Invoice, list[int], str)]
    assert outputs == ["Hello.", Invoice("A1", 30), [1, 2], "Bye."]
    assert asked_types(llm) == [None, "Invoice", "list_of_int", None]


@pytest.mark.parametrize("mode", MODES)
def test_typed_agent_returns_text_for_one_run(mode):
    """`output_type=str` overrides the agent's output type for one run."""
    clerk = Agent("clerk", output_type=Invoice, llm=ScriptedLLM("Nothing is due.", GOOD))
    assert run(clerk, mode, "What is due?", output_type=str).output == "Nothing is due."
    assert run(clerk, mode, "Read A1.").output == Invoice("A1", 30)


def test_invalid_answer_is_retried():
    """An invalid answer is returned to the model with the error; after the last retry there is no value."""
    helper = Agent("helper", llm=ScriptedLLM("A1 over 30.", GOOD, "No.", "No.", "No."))
    assert helper.run("Read A1.", output_type=Invoice).output == Invoice("A1", 30)
    failed = helper.run("Read A2.", output_type=Invoice)
    assert (failed.status, failed.value, failed.text) == ("failed", None, "")


def test_guardrails_receive_the_value():
    """The agent's guardrails receive the value of the run's output type."""

    def is_small(output: Invoice) -> None:
        if output.total > 100:
            raise ValueError("Too much.")

    helper = Agent("helper", guardrails=[is_small], llm=ScriptedLLM(GOOD.replace("30", "300"), GOOD))
    assert helper.run("Read A1.", output_type=Invoice).output.total == 30


@pytest.mark.parametrize("own", [None, list[int]])
def test_output_type_applies_after_a_handoff(own):
    """The output type of the run overrides that of the agent after a handoff."""
    other = Agent("clerk", output_type=own, llm=ScriptedLLM(GOOD, '{"result": [1]}'))
    desk = Agent("desk", handoffs=[other], llm=ScriptedLLM(call("hand_off_to_clerk")))
    result = desk.run("Read A1.", output_type=Invoice)
    assert (result.agent, result.output) == ("clerk", Invoice("A1", 30))


def test_stream_emits_partial_output():
    """A streamed run emits partial values of its output type."""
    events = list(Agent(llm=ScriptedLLM(GOOD)).stream("Read A1.", output_type=Invoice))
    assert [event.value for event in events if isinstance(event, PartialOutput)][-1] == {"number": "A1", "total": 30}
    assert isinstance(events[-1], RunFinished)


@pytest.mark.parametrize("goes_on", ["result", "agent", "elsewhere"])
def test_paused_run_keeps_its_output_type(goes_on):
    """A paused run keeps its output type; another agent that resumes it must be given the type."""
    llm = ScriptedLLM(call("pay", number="A1"), GOOD)
    clerk = Agent("clerk", [pay], llm=llm, approve=lambda _: Approval.LATER)
    paused = clerk.run("Pay A1.", output_type=Invoice)
    assert (paused.status, paused.text) == ("paused", "")
    if goes_on == "result":
        done = paused.resume(True)
    elif goes_on == "agent":
        done = clerk.resume(paused, True)
    else:
        other = Agent("clerk", [pay], llm=llm)
        done = other.run(Resumption(paused.to_json(), True), output_type=Invoice)
    assert done.output == Invoice("A1", 30)


def test_text_of_a_resumed_typed_run_is_streamed_once():
    """The text of a resumed run with an output type is streamed in one piece."""
    llm = ScriptedLLM(call("pay", number="A1"), GOOD)
    clerk = Agent("clerk", [pay], llm=llm, approve=lambda _: Approval.LATER)
    paused = clerk.run("Pay A1.", output_type=Invoice)
    assert list(clerk.stream_text(paused.resumption(True))) == ['{"number": "A1", "total": 30.0}']


def test_run_resumed_after_a_limit_keeps_its_type():
    """A run resumed after a limit keeps its output type."""
    llm = ScriptedLLM(call("pay", number="A1"), "It was paid.", GOOD)
    clerk = Agent("clerk", [pay], llm=llm, safety="SYSTEM")
    stopped = clerk.run("Pay A1.", output_type=Invoice, max_iterations=1)
    assert stopped.status == "limit"
    assert stopped.resume().output == Invoice("A1", 30)


@pytest.mark.parametrize("kind", [7, "Invoice", lambda: None, Invoice("A1", 1)])
def test_invalid_output_type_is_rejected(kind):
    """An invalid output type raises ConfigError before any request, and nothing is stored."""
    llm, session = ScriptedLLM("Hello."), Session()
    with pytest.raises(ConfigError):
        Agent(llm=llm, session=session).run("Hello", output_type=kind)
    assert (llm.requests, session.messages) == ([], ())


@pytest.mark.parametrize(
    ("kind", "message", "text"),
    [
        (None, "Hello.", "Hello."),
        (Invoice, GOOD, '{"number": "A1", "total": 30.0}'),
        (list[int], '{"result": [1, 2]}', "[1, 2]"),
        (Literal["good", "bad"], '{"result": "good"}', "good"),
        (Invoice | None, '{"result": null}', "null"),
    ],
)
def test_typed_result_has_the_answer_as_text(kind, message, text):
    """`result.text` is the answer as text, also for a result that was pickled or copied."""
    result = Agent(llm=ScriptedLLM(message)).run("Go on.", output_type=kind)
    others = [pickle.loads(pickle.dumps(result)), copy.deepcopy(result)]
    assert [each.text for each in (result, *others)] == [text] * 3
