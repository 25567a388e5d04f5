"""Do runs share a conversation without mixing?"""

from concurrent.futures import ThreadPoolExecutor

from agentkit.agents.conversation import Conversation
from agentkit.messages import AssistantMessage, ToolCall, UserMessage


def calls(*ids):
    """A message with a tool call for each id."""
    return AssistantMessage(tool_calls=tuple(ToolCall(call_id, "look", "{}") for call_id in ids))


def test_messages_are_a_copy_in_order():
    """The messages of a conversation are in the order entered, and what was read does not change later."""
    conversation = Conversation()
    conversation.append([UserMessage("one"), UserMessage("two")])
    before = conversation.messages
    conversation.append([UserMessage("three")])
    assert before == (UserMessage("one"), UserMessage("two"))
    assert conversation.messages == (*before, UserMessage("three"))


def test_ids_are_distinct_before_they_are_entered():
    """Two runs that go on at the same time get different ids for their calls, though neither has ended."""
    conversation = Conversation()
    first, second = conversation.tell_apart(calls("a")), conversation.tell_apart(calls("a"))
    assert first.tool_calls[0].id == "a"
    assert second.tool_calls[0].id != "a"


def test_ids_are_distinct_across_threads():
    """Threads that enter calls of one id at the same time get as many different ids."""
    conversation = Conversation()
    with ThreadPoolExecutor(8) as pool:
        messages = list(pool.map(lambda _: conversation.tell_apart(calls("a", "", "b")), range(400)))
    ids = [call.id for message in messages for call in message.tool_calls]
    assert len(set(ids)) == 1200


def test_runs_are_entered_whole():
    """Messages that are entered at the same time from many threads stay beside each other."""
    conversation = Conversation()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: conversation.append([UserMessage(f"{number}")] * 3), range(400)))
    texts = [message.content for message in conversation.messages]
    assert all(len(set(texts[start : start + 3])) == 1 for start in range(0, len(texts), 3))
