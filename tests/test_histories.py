"""Is a history valid? Each tool call has an id of its own, and one result."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.histories import fault_in, with_distinct_calls, with_distinct_ids
from agentkit.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage


def message_with(*ids):
    """A message with a tool call for each id."""
    return AssistantMessage("Look.", tuple(ToolCall(each, "look", "{}") for each in ids))


def ids_of(message):
    """The ids of a message's tool calls."""
    return [call.id for call in message.tool_calls]


def test_distinct_ids_are_kept():
    """A message whose ids are new is the message itself, and its ids count as taken."""
    taken, message = {"a"}, message_with("b", "c")
    assert with_distinct_ids(message, taken) is message
    assert taken == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("taken", "ids"),
    [
        (set(), ["", ""]),
        (set(), ["a", "a", "a"]),
        ({"a"}, ["a"]),
        ({"a", "a_2"}, ["a", "a"]),
        ({"call_1", "call_2"}, ["", "call_2", ""]),
        ({"call_4"}, ["", "", "call_4"]),
    ],
)
def test_missing_and_repeated_ids_are_replaced(taken, ids):
    """Missing ids and those already used get another one; everything else of a call stays as it is."""
    before, message = set(taken), message_with(*ids)
    changed = with_distinct_ids(message, taken)
    assert len({*ids_of(changed), *before}) == len(ids) + len(before)
    assert taken == {*ids_of(changed), *before}
    assert [(call.name, call.arguments) for call in changed.tool_calls] == [("look", "{}")] * len(ids)
    assert changed.text == "Look."


@given(st.lists(st.lists(st.sampled_from(["", "a", "a_2", "call", "call_1", "call_2_3"]), max_size=5), max_size=8))
def test_ids_are_always_distinct(batches):
    """Whatever ids a model gives, no two calls of a conversation share one, and none is empty."""
    taken = set()
    ids = [each for batch in batches for each in ids_of(with_distinct_ids(message_with(*batch), taken))]
    assert len(ids) == len(set(ids)) == len(taken)
    assert all(ids)


def test_repeated_ids_cost_in_proportion():
    """Ten thousand calls under one id, as some servers give them, take no search through all earlier ones."""
    taken = set()
    ids = [ids_of(with_distinct_ids(message_with("call_0"), taken))[0] for _ in range(10_000)]
    assert ids[-1] == "call_0_10000"


def told(call_id):
    """The result of a call."""
    return ToolMessage(call_id, "look", "seen")


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], None),
        ([UserMessage("Hi"), message_with("a", "b"), told("b"), told("a"), message_with("c"), told("c")], None),
        ([told("a")], r"messages[0] is a result of 'a', and no such call waits for one."),
        ([message_with("a"), told("a"), told("a")], r"messages[2] is a result of 'a', and no such call waits for one."),
        ([message_with("a"), UserMessage("?")], "messages[1] stands where the result of the call 'a' of 'look' must"),
        ([UserMessage("?"), message_with("a")], "No result follows the call 'a' of 'look' at its end."),
        ([message_with("a"), told("a"), message_with("a")], "messages[2] has a call with the id 'a', which another"),
        ([message_with("a", "a"), told("a")], "messages[0] has a call with the id 'a', which another call has."),
    ],
)
def test_valid_conversation(messages, fault):
    """In a valid conversation each call has an id of its own and one result, before anything else is said."""
    found = fault_in(messages)
    assert found == fault if fault is None else found.startswith(fault)


def test_calls_get_ids_of_their_own():
    """Where ids come twice, each call gets its own, and its result the same; the order tells which is which."""
    messages = [message_with("a", "a"), told("a"), told("a"), message_with("a", ""), told(""), told("a")]
    distinct = with_distinct_calls(messages)
    assert fault_in(distinct) is None
    assert [each.call_id for each in distinct if isinstance(each, ToolMessage)] == ["a", "a_2", "call_4", "a_3"]
    assert with_distinct_calls([told("a")]) == [told("a")]
