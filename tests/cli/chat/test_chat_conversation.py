"""Tests for the conversation of a chat: its session, interruptions, and the last prompt."""

import pytest

from agentkit.agents.result import Resumption
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage
from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, say


def test_prompt_interrupted_before_its_run_is_not_stored(room_with):
    """A prompt that is interrupted before its run starts creates no session."""
    with FakeServer() as server:
        conversation = room_with(server).conversation
        conversation.interrupt("one")
    assert (conversation.session, conversation.name, conversation.messages) == (None, "", ())
    assert Session.summaries() == []


def test_session_is_named_after_the_first_prompt(room_with):
    """The first prompt creates the session, whose name begins with the words of the prompt."""
    with FakeServer("ok") as server:
        conversation = room_with(server).conversation
        assert not conversation.has_unfinished_run
        list(conversation.stream("Where to in May?"))
    assert conversation.name.startswith("where-to-in-may-")


def test_retry_returns_the_last_prompt_of_an_opened_session(room_with):
    """retry() returns the text of the last prompt of an opened session and removes its answer."""
    session = Session.open(name="trip")
    session.append([UserMessage("first"), AssistantMessage("One."), UserMessage(("second", "part"))])
    session.append([AssistantMessage("Two.")])
    with FakeServer() as server:
        conversation = room_with(server, session="trip").conversation
    assert conversation.retry() == "second part"
    assert [message.text for message in conversation.messages[1:]] == ["One."]


def test_interrupted_run_stores_its_prompt_once(room_with):
    """Interrupting without a new prompt marks the answer, and does not store the prompt twice."""
    with FakeServer("One.", "Two.") as server:
        conversation = room_with(server).conversation
        list(conversation.stream("first"))
        conversation.interrupt("")
        assert [type(message) for message in conversation.messages] == [UserMessage, AssistantMessage, AssistantMessage]
        list(conversation.stream("second"))
    assert ToolMessage not in map(type, conversation.messages)


def test_finished_run_cannot_be_resumed(room_with):
    """Resuming a finished run raises an error."""
    from agentkit.errors import SessionError

    with FakeServer(say("One.")) as server:
        conversation = room_with(server).conversation
        list(conversation.stream("first"))
        with pytest.raises(SessionError, match="There is nothing to resume"):
            conversation.resumption()
        with pytest.raises(SessionError):
            list(conversation.stream(Resumption()))
