"""Tests for the attributes of Agent: history, tools, and other values that can be set after creation."""

import json
from pathlib import Path

import pytest

from agentkit import Agent, ConfigError, Limits, Policy, SafetyLevel, Session, core_tools, system_tools
from agentkit.decisions import Label
from agentkit.errors import SessionError
from agentkit.events import HistoryGiven, RunEnded
from agentkit.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from agentkit.testing import ScriptedLLM, call

CALL = {"id": "call_1", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "6*7"}'}}
KEPT = [
    {"role": "user", "content": "What is 6*7?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": '{"result": 42}'},
    {"role": "assistant", "content": "It is 42."},
]


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def test_history_from_json_is_continued():
    """A history loaded from JSON can be set, and the model receives its messages."""
    first = Agent("helper", core_tools, llm=ScriptedLLM(call("calculator", expression="6*7"), "It is 42."))
    first("What is 6*7?")
    text = json.dumps(first.history)

    with ScriptedLLM("21.") as llm:
        second = Agent("helper", core_tools, llm=llm)
        second.history = json.loads(text)
        assert second.history == json.loads(text)
        assert second("And half of it?") == "21."
    assert [type(message).__name__ for message in llm.requests[0].messages] == [
        *("UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage", "UserMessage")
    ]


def test_setting_typed_messages_replaces_the_history():
    """Setting the history accepts typed messages and replaces the conversation."""
    helper = Agent("helper", llm=ScriptedLLM("Hello."))
    helper("Hi!")
    helper.history = (UserMessage("Where?"), AssistantMessage("There."))
    assert [message["content"] for message in helper.history] == ["Where?", "There."]
    helper.history = []
    assert helper.history == []


def test_setting_the_history_archives_the_stored_session(tmp_path):
    """Setting the history stores the previous conversation under another name."""
    place = tmp_path / "sessions.db"
    helper = Agent("helper", session=Session.open(place, "trip"), llm=ScriptedLLM("Hello."))
    helper("Hi!")
    helper.history = KEPT
    assert len(Session.open(place, "trip").messages) == 4
    assert sorted(summary.name[:4] for summary in Session.summaries(place)) == ["trip", "trip"]


def test_labels_of_results_in_a_set_history():
    """Results in a set history get the labels of their tool, or all labels if the tool is unknown."""
    helper = Agent("helper", core_tools)
    helper.history = KEPT
    assert (helper.messages[2].name, helper.messages[2].labels) == ("calculator", frozenset())

    stranger = Agent("stranger")
    stranger.history = KEPT
    assert stranger.messages[2].labels == frozenset(Label)

    renamed = [{**message, "name": "string_length"} if "tool_call_id" in message else message for message in KEPT]
    helper.history = renamed
    assert (helper.messages[2].name, helper.messages[2].labels) == ("calculator", frozenset(Label))

    own = ToolMessage("call_1", "calculator", "42", frozenset({Label.UNTRUSTED}))
    helper.history = [*helper.messages[:2], own]
    assert helper.messages[2].labels == {Label.UNTRUSTED}


@pytest.mark.for_each(
    ("given", "kind", "message"),
    [
        ("Hi!", ConfigError, "A history is a list of messages"),
        ({"role": "user", "content": "Hi!"}, ConfigError, "A history is a list of messages"),
        (5, ConfigError, "The history is invalid"),
        ([5], ConfigError, "The history is invalid"),
        ([{"role": "robot", "content": "Hi!"}], ConfigError, "not 'robot'"),
        ([SystemMessage("Be brief.")], ConfigError, "cannot contain system messages. Remove them and set instruction="),
        (KEPT[:2], SessionError, "The result of the call 'call_1' of 'calculator' is missing"),
        (KEPT[2:], SessionError, "a result of the call 'call_1', which does not exist"),
    ],
)
def test_invalid_history_is_rejected(given, kind, message):
    """Setting an invalid history raises an error and leaves the conversation unchanged."""
    helper = Agent("helper", llm=ScriptedLLM("Hello."))
    helper("Hi!")
    with pytest.raises(kind, match=message):
        helper.history = given
    assert len(helper.history) == 2


def test_messages_as_the_prompt_are_rejected():
    """Passing messages as the prompt raises an error that says how to set the history."""
    for given in (KEPT, KEPT[0], [UserMessage("Hi!")]):
        with pytest.raises(ConfigError, match=r"To set a conversation, assign agent.history = \[...\]"):
            Agent("helper", llm=ScriptedLLM()).run(given)


def test_assigned_tools_are_used():
    """Functions assigned or added to the tools are used by the next run."""
    helper = Agent(
        "helper", llm=ScriptedLLM(call("double", number=21), "42.", call("calculator", expression="1+1"), "2.")
    )
    helper.tools = [double]
    assert helper.run("Twice 21?").values("double") == [42]
    helper.tools += core_tools
    assert helper.run("1+1?").tool_calls[0].result.ok
    helper.tools = None
    assert helper.tools.names == ()


def test_attributes_are_converted_like_arguments(tmp_path):
    """Attributes accept the same values as the arguments: a path for a workspace, None for the default."""
    helper = Agent("helper", system_tools, policy=Policy(SafetyLevel.SAFE), max_iterations=1)
    helper.workspace, helper.limits, helper.policy, helper.instruction = tmp_path, None, Policy(), None
    assert Path(helper.workspace.folder) == tmp_path
    assert helper.limits == Limits()
    assert helper.policy.level is SafetyLevel.NETWORK
    assert helper.instruction == "You are a helpful assistant."
    helper.name, helper.max_iterations, helper.dry_run = "other", 3, True
    assert (helper.name, helper.max_iterations, helper.dry_run) == ("other", 3, True)


@pytest.mark.for_each(
    ("name", "value", "message"),
    [
        ("name", "", "name= takes a string that is not blank"),
        ("instruction", 5, "instruction= takes a string"),
        ("tools", "web", "pass the tool itself, not its name"),
        ("max_iterations", 0, "max_iterations= takes a whole number"),
        ("policy", "SAFE", r"policy= takes a Policy, as in Policy\(rules=\[...\]\); a level goes into safety="),
        ("policy", None, "An agent has a policy"),
        ("approve", True, "e.g. approve=lambda request: True"),
        ("limits", 5, r"limits= takes Limits\(...\)"),
        ("workspace", 5, "workspace= takes the path of a folder"),
        ("listeners", print, "listeners= takes a list"),
        ("dry_run", "no", "dry_run= takes True or False"),
    ],
)
def test_invalid_value_is_rejected_when_set(name, value, message):
    """Setting an invalid value raises ConfigError and leaves the attribute unchanged."""
    helper = Agent("helper")
    before = getattr(helper, name)
    with pytest.raises(ConfigError, match=message):
        setattr(helper, name, value)
    assert getattr(helper, name) == before


@pytest.mark.parametrize("name", ["safety", "system_prompt", "max_turns", "output_type", "intruction"])
def test_unknown_attribute_is_rejected(name):
    """Setting an unknown attribute raises AttributeError."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; these can be set: name, "):
        setattr(Agent("helper"), name, "SAFE")


def test_subclass_may_have_its_own_attributes():
    """A subclass of Agent may have its own attributes."""

    class Clerk(Agent):
        def __init__(self):
            super().__init__("clerk", llm=ScriptedLLM("Hello."))
            self.state = {"orders": 3}

    clerk = Clerk()
    assert clerk("Hi!") == "Hello."
    assert clerk.state == {"orders": 3}


@pytest.mark.parametrize("kind", [RunEnded, HistoryGiven])
def test_listening_for_a_stored_event_is_rejected(kind):
    """Listening for an event that is only stored and never emitted raises ConfigError."""
    with pytest.raises(ConfigError, match=f"{kind.__name__} is only stored with the session, and not emitted"):
        Agent("helper").on(kind, print)
