"""Tests for the `edit` function of a context window."""

import re
from dataclasses import replace

import pytest

from agentkit import Agent, Tool
from agentkit.errors import ConfigError
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage
from agentkit.sessions.context_window import Window
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call


def look(number: int) -> str:
    """Look something up."""
    return f"Entry {number}."


def newest_only(messages):
    """Return only the newest exchange."""
    last = max(index for index, message in enumerate(messages) if isinstance(message, UserMessage))
    return messages[last:]


@pytest.mark.parametrize("mode", ["run", "arun", "stream", "astream"])
def test_edit_changes_the_messages_that_are_sent(mode, drive):
    """`edit` changes the messages that are sent, but not the history."""
    llm = ScriptedLLM("One.", call("look", number=2), "Two.")
    agent = Agent("helper", [look], llm=llm, window=Window(edit=newest_only))
    drive(agent, mode, "First?")
    drive(agent, mode, "Second?")
    assert [len(request.messages) for request in llm.requests] == [1, 1, 3]
    assert len(agent.history) == 6


def test_flow_rule_considers_edited_messages():
    """The flow rule still considers messages that were edited out."""

    def diary() -> str:
        return "Monday: dentist."

    def send(text: str) -> str:
        return text

    tools = [
        Tool(diary, description="Read.", labels=["private", "untrusted"]),
        Tool(send, description="Send.", level="network"),
    ]
    llm = ScriptedLLM(call("diary"), "Read.", call("send", text="dentist"), "No.")
    agent = Agent("helper", tools, llm=llm, window=Window(edit=newest_only))
    agent.run("Read my diary.")
    result = agent.run("Send what is said there.")
    assert [used.result.status for used in result.tool_calls] == ["denied"]


def test_summary_request_contains_edited_messages():
    """A summary request contains only edited messages."""

    def hidden(messages):
        return [replace(each, content="-") if isinstance(each, UserMessage) else each for each in messages]

    session, llm = Session(), ScriptedLLM("It was about numbers.", "Yes.")
    for number in range(40):
        session.append([UserMessage(f"Question {number}. " + "word " * 40), AssistantMessage(f"Answer {number}.")])
    agent = Agent("helper", llm=llm, session=session, window=Window(tokens=2_000, summarise=True, edit=hidden))
    agent.run("My word is tulip.")
    assert len(llm.requests) == 2
    assert "Question" not in str(llm.requests[0].messages)
    assert "tulip" not in str(llm.requests)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda _: None, "It must return a list of messages"),
        (lambda messages: messages.clear(), "It must return a list of messages"),
        (lambda _: ["Hello"], "It must return a list of messages"),
        (lambda messages: [*messages, ToolMessage("c1", "look", "2")], "A call and its result must stay together"),
    ],
)
def test_invalid_result_of_edit_fails_the_run(edit, says):
    """An `edit` function that returns invalid messages fails the run, and the error names it."""
    llm = ScriptedLLM("One.")
    result = Agent("helper", llm=llm, window=Window(edit=edit)).run("First?")
    assert (result.status, type(result.error), llm.requests) == ("failed", ConfigError, [])
    assert re.search(says, str(result.error))


async def later(messages):
    """Async `edit` function."""
    return messages


@pytest.mark.parametrize("edit", ["newest", 3, later])
def test_invalid_edit_argument_is_rejected(edit):
    """An invalid `edit` argument raises ConfigError when the window is created."""
    with pytest.raises(ConfigError, match="takes a synchronous function"):
        Window(edit=edit)
