"""Tests for messages: ids, arguments, tariffs, and well-formed text."""

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import Image, Response, ToolResult
from agentkit.messages import (
    AssistantMessage,
    FailedModel,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    arguments_of,
    calls_in,
    failure_content,
    parts_of,
    read_more_call,
    usage_of,
    well_formed,
    with_distinct_ids,
    without_extra,
)
from agentkit.usage import Tariff, Usage


def test_each_message_has_a_role():
    """Each message has a role, which its repr omits."""
    messages = (
        SystemMessage("Be brief."),
        UserMessage("Hi!"),
        AssistantMessage("Hello."),
        ToolMessage("1", "add", "3"),
    )
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool"]
    assert repr(messages[0]) == "SystemMessage(text='Be brief.')"


def test_response_has_the_reasoning_of_its_message():
    """A response returns the reasoning of its message."""
    assert Response(AssistantMessage("4.", reasoning="2 + 2")).reasoning == "2 + 2"


def message_with(*ids):
    """Return a message with a tool call for each id."""
    return AssistantMessage("Look.", tuple(ToolCall(each, "look", "{}") for each in ids))


def ids_of(message):
    """Return the ids of a message's tool calls."""
    return [call.id for call in message.tool_calls]


def test_distinct_ids_are_unchanged():
    """A message whose ids are new is returned unchanged, and its ids are recorded."""
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
    """Missing and repeated ids are replaced, and the rest of the calls is unchanged."""
    before, message = set(taken), message_with(*ids)
    changed = with_distinct_ids(message, taken)
    assert len({*ids_of(changed), *before}) == len(ids) + len(before)
    assert taken == {*ids_of(changed), *before}
    assert [(call.name, call.arguments) for call in changed.tool_calls] == [("look", "{}")] * len(ids)
    assert changed.text == "Look."


@given(st.lists(st.lists(st.sampled_from(["", "a", "a_2", "call", "call_1", "call_2_3"]), max_size=5), max_size=8))
def test_ids_are_always_unique(batches):
    """The ids of all calls in a conversation are unique and not empty."""
    taken = set()
    ids = [each for batch in batches for each in ids_of(with_distinct_ids(message_with(*batch), taken))]
    assert len(ids) == len(set(ids)) == len(taken)
    assert all(ids)


def test_repeated_ids_cost_in_proportion():
    """Ten thousand calls with the same id are renamed without searching all earlier ids."""
    taken = set()
    ids = [ids_of(with_distinct_ids(message_with("call_0"), taken))[0] for _ in range(10_000)]
    assert ids[-1] == "call_0_10000"


def test_without_extra_removes_extra_data():
    """`without_extra` removes the provider's extra data and nothing else."""
    calls = (ToolCall("a", "look", "{}", {"signature": "x"}), ToolCall("b", "look", "{}"))
    message = AssistantMessage("Look.", calls, "Hm.", {"reasoning_items": []}, "chat:host")
    plain = without_extra(message)
    assert (plain.text, plain.reasoning, plain.origin) == ("Look.", "Hm.", "chat:host")
    assert (dict(plain.extra), [dict(call.extra) for call in plain.tool_calls]) == ({}, [{}, {}])
    assert ids_of(plain) == ["a", "b"]


@pytest.mark.parametrize("message", [UserMessage("Hi!"), ToolMessage("a", "look", "seen")])
def test_other_messages_have_no_extra_data(message):
    """Other messages are returned unchanged."""
    assert without_extra(message) is message


def test_parts_of_a_content():
    """A string is a content of one part."""
    picture = Image("https://example.org/cat.png")
    assert parts_of("Look!") == ("Look!",)
    assert parts_of(("Look:", picture)) == ("Look:", picture)


def test_calls_of_a_conversation():
    """The tool calls of a conversation are returned in order."""
    conversation = [UserMessage("Hi!"), message_with("a", "b"), ToolMessage("a", "look", "seen"), message_with("c")]
    assert [call.id for call in calls_in(conversation)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("written", "value"), [('{"a": [1]}', {"a": [1]}), ("{a}", "{a}"), ("[" * 99_999, "[" * 99_999)]
)
def test_arguments_of_a_call_are_parsed(written, value):
    """The arguments of a call are parsed as JSON or returned as text."""
    assert arguments_of(ToolCall("a", "look", written)) == value


def test_failed_call_is_described_as_json():
    """A failed call is described as JSON without escaping non-ASCII characters."""
    assert failure_content("look", 'không "thấy"') == '{"error": "không \\"thấy\\"", "tool": "look"}'


def test_call_that_reads_the_rest_of_a_result():
    """The call that reads the rest of a result contains its handle and optional start."""
    assert read_more_call('gọi"1') == 'read_more(handle="gọi\\"1")'
    assert read_more_call("call_1", 800) == 'read_more(handle="call_1", start=800)'


def test_result_is_ok_without_an_error():
    """A tool result with the status ok is ok, and one with the status failed is not."""
    assert ToolResult("look", "ok", "null").ok
    assert not ToolResult("look", "failed", "{}", error="Nothing to see.").ok


def test_response_returns_text_and_tool_calls():
    """A response returns the text and tool calls of its message."""
    response = Response(message_with("a"))
    assert (response.text, ids_of(response)) == ("Look.", ["a"])


def test_tariff_is_that_of_the_answering_provider():
    """The tariff of a response is that of the provider that answered, not of those that failed."""
    one, two = Tariff("openai", "a"), Tariff("offline", "b")
    lost, answer = Usage(requests=2, unreported=2, tariff=one), Usage(requests=1, unreported=1, tariff=two)
    missed = (FailedModel("openai:a", "Unreachable", "gone", lost),)
    assert usage_of([*missed, *missed]) == lost + lost
    again = Usage(10, 5, requests=1, tariff=one)
    assert Response(message_with(), usage=answer + lost, missed=missed).tariff == two
    assert Response(message_with(), usage=again + lost, missed=missed).tariff == one
    assert Response(message_with(), usage=answer).tariff == two
    assert Response(message_with(), usage=Usage(requests=1) + lost, missed=missed).tariff is None
    assert Response(message_with(), usage=lost, missed=missed).tariff is None


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_result_with_a_value_that_cannot_be_copied(duplicate):
    """Copying a tool result drops a value that cannot be copied and preserves its content."""
    result = ToolResult("lend", "ok", "a generator", value=(number for number in range(3)))
    assert (duplicate(result).value, duplicate(result).content) == (None, "a generator")
    assert duplicate(ToolResult("look", "ok", "seen", value={"a": [1]})) == ToolResult("look", "ok", "seen", {"a": [1]})


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_every_text_can_be_made_well_formed(text):
    """Any text can be encoded after `well_formed`, and well-formed text is unchanged."""
    made = well_formed(text)
    made.encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert made == text


def test_split_surrogates_are_joined() -> None:
    """A split surrogate pair is joined, and a lone surrogate becomes U+FFFD."""
    assert well_formed("\ud83d\ude00 \ud83d") == "😀 \ufffd"


def test_distinct_ids_take_linear_time():
    """Making ids distinct takes time proportional to the number of calls."""

    def message(count):
        taken = [ToolCall(f"a_{number}", "add", "{}") for number in range(count, 2 * count)]
        return AssistantMessage("", (*taken, *[ToolCall("a", "add", "{}")] * count))

    class Counted(set):
        looked_at = 0

        def __contains__(self, item):
            self.looked_at += 1
            return super().__contains__(item)

    ids = Counted()
    made = with_distinct_ids(message(1_000), ids)
    assert len({call.id for call in made.tool_calls}) == 2_000
    assert ids.looked_at < 8_000


@pytest.mark.parametrize(
    ("message", "content", "text", "agent"),
    [
        (SystemMessage("Be brief."), "Be brief.", "Be brief.", ""),
        (UserMessage("Hi!"), "Hi!", "Hi!", ""),
        (UserMessage(("One.", Image("https://example.org/a.png"), "Two.")), None, "One.\n\nTwo.", ""),
        (AssistantMessage("Hello.", agent="helper"), "Hello.", "Hello.", "helper"),
        (ToolMessage("call_1", "add", "3", agent="helper"), "3", "3", "helper"),
    ],
)
def test_every_message_has_content_text_and_agent(message, content, text, agent):
    """All messages have `content`, `text` and `agent`."""
    assert (message.text, message.agent) == (text, agent)
    assert message.content == (content or message.content)


def test_message_of_another_agent_has_the_same_fields():
    """`with_agent` copies every field, including those added later."""
    values = {field.name: f"the {field.name}" for field in dataclasses.fields(AssistantMessage)}
    message = AssistantMessage(**values)
    for other in ("writer", "the agent"):
        copied = message.with_agent(other)
        assert {name: getattr(copied, name) for name in values} == values | {"agent": other}
