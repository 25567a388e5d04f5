"""What may be set on an agent, and does it count?"""

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


def test_history_that_was_kept_elsewhere_is_gone_on_with():
    """A program that keeps the conversation as JSON sets it again, and the model reads it."""
    first = Agent("helper", core_tools, llm=ScriptedLLM(call("calculator", expression="6*7"), "It is 42."))
    first("What is 6*7?")
    kept = json.dumps(first.history)

    with ScriptedLLM("21.") as llm:
        second = Agent("helper", core_tools, llm=llm)
        second.history = json.loads(kept)
        assert second.history == json.loads(kept)
        assert second("And half of it?") == "21."
    assert [type(message).__name__ for message in llm.requests[0].messages] == [
        *("UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage", "UserMessage")
    ]


def test_history_takes_typed_messages_and_forgets_what_was_said_before():
    """Typed messages do as well, and take the place of the conversation that there was."""
    helper = Agent("helper", llm=ScriptedLLM("Hello."))
    helper("Hi!")
    helper.history = (UserMessage("Where?"), AssistantMessage("There."))
    assert [message["content"] for message in helper.history] == ["Where?", "There."]
    helper.history = []
    assert helper.history == []


def test_stored_conversation_is_kept_when_another_is_set(tmp_path):
    """A stored conversation is put away under another name, as by a reset, and the new one is stored."""
    place = tmp_path / "sessions.db"
    helper = Agent("helper", session=Session.open(place, "trip"), llm=ScriptedLLM("Hello."))
    helper("Hi!")
    helper.history = KEPT
    assert len(Session.open(place, "trip").messages) == 4
    assert sorted(summary.name[:4] for summary in Session.summaries(place)) == ["trip", "trip"]


def test_labels_of_results_that_were_kept_elsewhere():
    """Of a tool's result the tool's labels hold, of an unknown tool's the worst; a typed message keeps its own."""
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
    ("given", "kind", "told"),
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
def test_what_is_no_history_is_refused_and_nothing_is_forgotten(given, kind, told):
    """What is no conversation is told, and the one that there is stays."""
    helper = Agent("helper", llm=ScriptedLLM("Hello."))
    helper("Hi!")
    with pytest.raises(kind, match=told):
        helper.history = given
    assert len(helper.history) == 2


def test_messages_in_the_place_of_a_prompt():
    """Messages given as a prompt are answered with where a conversation is set."""
    for given in (KEPT, KEPT[0], [UserMessage("Hi!")]):
        with pytest.raises(ConfigError, match=r"To set a conversation, assign agent.history = \[...\]"):
            Agent("helper", llm=ScriptedLLM()).run(given)


def test_tools_that_are_set_are_used():
    """Functions that are set, or added, are tools in the next run."""
    helper = Agent(
        "helper", llm=ScriptedLLM(call("double", number=21), "42.", call("calculator", expression="1+1"), "2.")
    )
    helper.tools = [double]
    assert helper.run("Twice 21?").values("double") == [42]
    helper.tools += core_tools
    assert helper.run("1+1?").tool_calls[0].result.ok
    helper.tools = None
    assert helper.tools.names == ()


def test_what_is_set_is_made_like_an_argument(tmp_path):
    """A folder becomes a workspace, nothing the default, as when the agent is made."""
    helper = Agent("helper", system_tools, policy=Policy(SafetyLevel.SAFE), max_iterations=1)
    helper.workspace, helper.limits, helper.policy, helper.instruction = tmp_path, None, Policy(), None
    assert Path(helper.workspace.folder) == tmp_path
    assert helper.limits == Limits()
    assert helper.policy.level is SafetyLevel.NETWORK
    assert helper.instruction == "You are a helpful assistant."
    helper.name, helper.max_iterations, helper.dry_run = "other", 3, True
    assert (helper.name, helper.max_iterations, helper.dry_run) == ("other", 3, True)


@pytest.mark.for_each(
    ("name", "value", "told"),
    [
        ("name", "", "name= takes a string that is not blank"),
        ("instruction", 5, "instruction= takes a text"),
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
def test_wrong_value_is_told_when_it_is_set(name, value, told):
    """A wrong value is told where it is set, not in a later run, and changes nothing."""
    helper = Agent("helper")
    before = getattr(helper, name)
    with pytest.raises(ConfigError, match=told):
        setattr(helper, name, value)
    assert getattr(helper, name) == before


@pytest.mark.parametrize("name", ["safety", "system_prompt", "max_turns", "output_type", "intruction"])
def test_what_would_change_nothing_is_refused(name):
    """Setting what an agent does not have is an error, as nobody would heed it."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; these can be set: name, "):
        setattr(Agent("helper"), name, "SAFE")


def test_own_class_may_have_more():
    """An agent of a class of one's own has attributes of its own."""

    class Clerk(Agent):
        def __init__(self):
            super().__init__("clerk", llm=ScriptedLLM("Hello."))
            self.state = {"orders": 3}

    clerk = Clerk()
    assert clerk("Hi!") == "Hello."
    assert clerk.state == {"orders": 3}


@pytest.mark.parametrize("kind", [RunEnded, HistoryGiven])
def test_nobody_waits_for_what_is_only_kept(kind):
    """To ask for an event that nobody is told of is an error that names the one to ask for."""
    with pytest.raises(ConfigError, match=f"{kind.__name__} is only stored with the session, and not emitted"):
        Agent("helper").on(kind, print)
