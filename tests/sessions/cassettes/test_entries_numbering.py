"""Tests for the numbering of messages in cassettes, which are written once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import SessionError
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage
from agentkit.sessions.cassettes.entries import MessageNumbers, NumberedMessages


def texts(*words):
    """Return a message for each word."""
    return [UserMessage(word) for word in words]


def test_known_messages_are_written_as_ranges():
    """A new message is written in full; known messages are written as a range of numbers."""
    numbers = MessageNumbers()
    output = texts("a", "b", "c")
    assert numbers.row(output[:1]) == [{"number": 1, "role": "user", "content": "a"}]
    assert numbers.row(output) == [
        "1",
        {"number": 2, "role": "user", "content": "b"},
        {"number": 3, "role": "user", "content": "c"},
    ]
    assert numbers.row(output) == ["1-3"]
    assert numbers.row([*output, output[0]]) == ["1-3", "1"]
    assert numbers.row([output[2], output[1]]) == ["3", "2"]


def test_equal_messages_share_a_number():
    """A new message with the same content gets the number of the earlier one."""
    numbers = MessageNumbers()
    numbers.row(texts("a", "b"))
    assert numbers.row(texts("a", "b", "a")) == ["1-2", "1"]


def test_conversations_side_by_side_stay_short():
    """Alternating conversations are each written as few ranges."""
    numbers = MessageNumbers()
    rows = [texts("a"), texts("b")]
    for turn in range(10):
        for row in rows:
            row.extend(texts(f"{row[0].content} {turn}"))
            written = numbers.row(row)
    assert sum(isinstance(part, dict) for part in written) == 1
    assert len(json.dumps(numbers.row(rows[0]))) < 200


def test_conversations_with_common_prefix_stay_separate():
    """Conversations with a common beginning are read back without messages of each other."""
    numbers, numbered = MessageNumbers(), NumberedMessages()
    a, b, c = texts("a", "b", "c")
    for row in ([a], [a, b], [a], [a, b], [a, b, c], [a, b]):
        found = numbered.row(json.loads(json.dumps(numbers.row(row))))
        assert [numbered[number]["content"] for number in found] == [message.content for message in row]


def test_instructions_and_schemas_are_numbered():
    """Instructions and schemas are written once and then by number, even if they have a `number` key."""
    numbers, numbered = MessageNumbers(), NumberedMessages()
    schema = {"type": "object", "number": {"type": "integer"}}
    written = [numbers.one(item) for item in ("Be brief.", schema, "Be brief.", dict(schema))]
    assert written[2:] == ["1", "2"]
    found = [numbered[number] for number in numbered.row(written)]
    assert found == [{"text": "Be brief."}, {"schema": schema}] * 2


MESSAGES = st.one_of(
    st.builds(UserMessage, st.text(max_size=3)),
    st.builds(AssistantMessage, st.text(max_size=3)),
    st.builds(ToolMessage, st.sampled_from("ab"), st.just("tool"), st.text(max_size=2)),
)


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.lists(st.lists(st.integers(0, 7), max_size=8), max_size=6))
def test_rows_round_trip(messages, rows):
    """Any rows that are written are read back as the same messages."""
    numbers, numbered = MessageNumbers(), NumberedMessages()
    for row in rows:
        texts = [messages[place % len(messages)] for place in row]
        written = json.loads(json.dumps(numbers.row(texts)))
        found = [numbered[number] for number in numbered.row(written)]
        assert [(data["role"], data.get("content") or data.get("text", "")) for data in found] == [
            (
                MessageNumbers().row([message])[0]["role"],
                getattr(message, "text", None) or getattr(message, "content", ""),
            )
            for message in texts
        ]


@pytest.mark.parametrize("row", [[{"role": "user"}], ["1"], ["x"], ["1-"], [7], ["-1"], ["1-x"]])
def test_damaged_rows_are_rejected(row):
    """An unknown number, or an item that is neither number nor message, raises a SessionError."""
    with pytest.raises(SessionError, match="damaged"):
        NumberedMessages().row(row)


def test_range_beyond_known_numbers_is_rejected():
    """A range that exceeds the known numbers raises an error immediately."""
    numbered = NumberedMessages()
    numbered.row([{"number": 1, "text": "a"}])
    with pytest.raises(SessionError, match="number 2"):
        numbered.row(["1-999999999999"])


def test_row_that_is_too_long_is_rejected():
    """A row that expands to more than 100,000 messages raises a SessionError."""
    numbered = NumberedMessages()
    numbered.row([{"number": number, "text": ""} for number in range(1, 1001)])
    with pytest.raises(SessionError, match="more than 100,000 messages"):
        numbered.row(["1-1000"] * 101)


def test_too_many_long_ranges_are_rejected():
    """Ranges that expand to too many messages in total raise a SessionError."""
    numbered = NumberedMessages(max_in_all=1_000)
    numbered.row([{"number": number, "text": "a"} for number in range(1, 101)])
    assert len([numbered.row(["1-100"]) for _ in range(9)]) == 9
    with pytest.raises(SessionError, match="too many messages"):
        numbered.row(["1-100"])
