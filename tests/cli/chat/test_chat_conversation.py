"""Who is talked to, and what is known of what was said?"""

import pytest

from agentkit.agents.result import Resumption
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage
from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, say


def test_what_is_stopped_before_it_began_leaves_nothing(room_with):
    """A prompt that never got to a session is not in one."""
    with FakeServer() as server:
        conversation = room_with(server).conversation
        conversation.interrupt("one")
    assert (conversation.session, conversation.name, conversation.messages) == (None, "", ())
    assert Session.summaries() == []


def test_a_session_is_named_after_the_first_prompt(room_with):
    """Before the first prompt there is no session; then one that bears its first words."""
    with FakeServer("ok") as server:
        conversation = room_with(server).conversation
        assert not conversation.has_left_run
        list(conversation.stream("Where to in May?"))
    assert conversation.name.startswith("where-to-in-may-")


def test_the_last_prompt_of_an_opened_session_is_known(room_with):
    """What was asked last in a session that was opened can be asked again, images and all else left out."""
    session = Session.open(name="trip")
    session.append([UserMessage("first"), AssistantMessage("One."), UserMessage(("second", "part"))])
    session.append([AssistantMessage("Two.")])
    with FakeServer() as server:
        conversation = room_with(server, session="trip").conversation
    assert conversation.retry() == "second part"
    assert [message.text for message in conversation.messages[1:]] == ["One."]


def test_a_run_that_goes_on_and_is_stopped_keeps_its_prompt(room_with):
    """What is stopped while it goes on is marked as interrupted, and its prompt is not entered once more."""
    with FakeServer("One.", "Two.") as server:
        conversation = room_with(server).conversation
        list(conversation.stream("first"))
        conversation.interrupt("")
        assert [type(message) for message in conversation.messages] == [UserMessage, AssistantMessage, AssistantMessage]
        list(conversation.stream("second"))
    assert ToolMessage not in map(type, conversation.messages)


def test_nothing_to_go_on_with(room_with):
    """A run that got to its answer does not go on."""
    from agentkit.errors import SessionError

    with FakeServer(say("One.")) as server:
        conversation = room_with(server).conversation
        list(conversation.stream("first"))
        with pytest.raises(SessionError, match="There is nothing to resume"):
            conversation.resumption()
        with pytest.raises(SessionError):
            list(conversation.stream(Resumption()))
