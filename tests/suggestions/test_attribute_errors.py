"""Is an attribute of another toolkit answered with what it is called here?"""

import copy
import pickle
import re

import pytest

from agentkit import Agent, ApprovalRequest, RunContext, Session, ToolResult, Usage
from agentkit.agents.default import QuickAgent
from agentkit.agents.result import Pending
from agentkit.decisions import Decision, Verdict
from agentkit.events import ToolCallFinished
from agentkit.messages import AssistantMessage, ToolCall
from agentkit.suggestions import other_toolkits
from agentkit.suggestions.other_toolkits import AGENT, CHAT, REQUEST, RESULT, RUN, WAITING
from agentkit.testing import ScriptedLLM


def helper(*lines):
    """An agent that says these lines."""
    return Agent("helper", llm=ScriptedLLM(*lines))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("run_sync", "Write: agent.run(prompt), or agent(prompt)"),
        ("print_response", "Write: print(agent(prompt))"),
        (
            "instructions",
            "Write: agent.instruction; to set it, agent.instruction = '...', or a function that gives the text",
        ),
        ("model", "Write: agent.llm.model;"),
        ("clone", "Write: other = agent.within(Session()), and set what differs on it"),
    ],
)
def test_attributes_of_an_agent(name, meant):
    """What other toolkits' agents have is answered with what to write here."""
    with pytest.raises(AttributeError) as raised:
        getattr(helper(), name)
    assert f"'Agent' object has no attribute {name!r}. {meant}" in str(raised.value)
    assert (raised.value.name, type(raised.value.obj)) == (name, Agent)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("final_output", ". Write: result.output"),
        ("stop_reason", ". Write: result.status and result.limit"),
        ("interruptions", ". Write: result.status and result.pending"),
        ("nothing", ""),
        ("_private", ""),
    ],
)
def test_attributes_of_a_result(name, meant):
    """What other toolkits' results have is answered with what to write here."""
    result = helper("Hello.").run("Hi!")
    with pytest.raises(AttributeError) as raised:
        getattr(result, name)
    assert str(raised.value) == f"'RunResult' object has no attribute {name!r}{meant}"


@pytest.mark.parametrize(
    ("name", "meant"), [("run", "agent(message), or an Agent of your own"), ("clear", "agent.reset()")]
)
def test_attributes_of_the_one_line_chat(name, meant):
    """What the one-line chat does not have is answered with what to write."""
    with pytest.raises(
        AttributeError, match=re.escape(f"'QuickAgent' object has no attribute {name!r}. Write: {meant}")
    ):
        getattr(QuickAgent(), name)


def test_what_is_missing_is_missing():
    """Whoever looks whether there is an attribute is told that there is not."""
    result = helper("Hello.").run("Hi!")
    assert not hasattr(result, "final_output")
    assert not hasattr(helper(), "run_sync")
    assert getattr(QuickAgent(), "messages", None) is None


def test_error_of_a_property_is_its_own():
    """A property that fails for want of an attribute says which one, not that there is no property."""

    class Careless(Agent):
        @property
        def owner(self):
            return self.session.owner

    with pytest.raises(AttributeError, match="'Session' object has no attribute 'owner'"):
        _ = Careless("helper", llm=ScriptedLLM()).owner


def test_copies_are_made_as_before():
    """Agents and results are copied and pickled although they answer for what they do not have."""
    agent = Agent("helper")
    result = helper("Hello.").run("Hi!")
    for duplicate in (copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        assert duplicate(agent).name == "helper"
        assert duplicate(result).output == "Hello."


def test_what_there_is_is_no_foreign_word():
    """Nothing that agents and results have stands among what they do not have."""
    chat = QuickAgent()
    assert [name for name in AGENT if hasattr(Agent("helper"), name)] == []
    assert [name for name in RESULT if hasattr(helper("Hello.").run("Hi!"), name)] == []
    assert [name for name in CHAT if hasattr(chat, name)] == []


def test_what_is_named_instead_exists():
    """Every attribute that an answer names is there."""
    agent, result = helper("Hello."), helper("Hello.").run("Hi!")
    for hints, owner, word in ((AGENT, agent, "agent"), (RESULT, result, "result"), (CHAT, QuickAgent(), "agent")):
        named = {name for hint in hints.values() for name in re.findall(rf"\b{word}\.(\w+)", hint)}
        assert named
        assert [name for name in named if not hasattr(owner, name)] == []


ASKED = ApprovalRequest("helper", "pay", {"euros": 5}, Decision(Verdict.ASK, "money", "It pays."))
CALLED = ToolCallFinished(ToolCall("call_1", "pay", "{}"), ToolResult("pay", "ok", "5", 5))
OTHERS = (
    (RunContext(3), RUN, "run"),
    (ASKED, REQUEST, "request"),
    (Pending("call_1", "pay", "{}", "May it pay?"), WAITING, "pending"),
    (CALLED, other_toolkits.USED, "used"),
    (CALLED.result, other_toolkits.OUTCOME, "result"),
    (AssistantMessage("Hello."), other_toolkits.ANSWERED, "message"),
    (Usage(requests=1), other_toolkits.USAGE, "usage"),
)


@pytest.mark.parametrize(("owner", "hints", "word"), OTHERS, ids=lambda each: type(each).__name__)
def test_what_tools_and_approvers_are_given_answers_too(owner, hints, word):
    """What tools, approvers and listeners are given, and what a result holds, say what another's word is here."""
    for name, written in hints.items():
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError) as raised:
            getattr(owner, name)
        assert str(raised.value) == f"{type(owner).__name__!r} object has no attribute {name!r}. Write: {written}"
    named = {name for hint in hints.values() for name in re.findall(rf"\b{word}\.(\w+)", hint)}
    assert named
    assert [name for name in named if not hasattr(owner, name)] == []
    assert pickle.loads(pickle.dumps(copy.copy(owner))) == owner


def test_a_conversation_answers_too():
    """A session says what another toolkit's word is here, also a copy of one."""
    for session in (Session("trip"), pickle.loads(pickle.dumps(Session("trip")))):
        for name, written in other_toolkits.SESSION.items():
            assert not hasattr(session, name)
            with pytest.raises(AttributeError) as raised:
                getattr(session, name)
            assert str(raised.value) == f"'Session' object has no attribute {name!r}. Write: {written}"
        named = {name for hint in other_toolkits.SESSION.values() for name in re.findall(r"\bsession\.(\w+)", hint)}
        assert [name for name in named if not hasattr(session, name)] == []
