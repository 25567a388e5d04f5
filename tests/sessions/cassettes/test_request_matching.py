"""When do two questions ask the same?"""

import pytest

from agentkit.content import Image
from agentkit.decisions import Decision
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    Request,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from agentkit.recording import PersonAsked
from agentkit.sessions.cassettes.request_matching import RequestKey, difference, message_form, question_form

CALL = ToolCall("c1", "add", '{"a": 1, "b": 2}')
ASKED = Request(
    (
        SystemMessage("Be brief."),
        UserMessage(("Look:", Image("https://example.org/a.png"))),
        AssistantMessage("I will.", (CALL,)),
        ToolMessage("c1", "add", "3"),
    ),
    "You are a helper.",
    (ToolSpec("add", "Adds.", {"type": "object"}), ToolSpec("see", "Sees.", {})),
    OutputSchema("answer", {"type": "integer"}),
    {"temperature": 0, "model": "one"},
)
PERSON = PersonAsked(CALL, Decision("ask", "level", "It is dear."))


def request(**changes):
    """The request with some of its fields changed."""
    fields = {name: changes.get(name, getattr(ASKED, name)) for name in Request.__slots__}
    return Request(**fields)


def fits(recorded, asked):
    """Whether the asked question is the recorded one."""
    return question_form(recorded).fits(question_form(asked))


@pytest.mark.parametrize(
    "same",
    [
        request(tools=(ToolSpec("see", "", {}), ToolSpec("add", "Adds two numbers.", {"type": "object"}))),
        request(settings={"model": "another", "temperature": 0}),
        request(
            messages=[
                *ASKED.messages[:2],
                AssistantMessage("I will.", (ToolCall("other", "add", '{"b":2,"a":1}'),)),
                ToolMessage("other", "add", "3"),
            ]
        ),
        request(
            messages=[
                *ASKED.messages[:2],
                AssistantMessage("I will.", (CALL,), reasoning="So…", extra={"id": 1}, origin="chat:x"),
                ToolMessage("c1", "add", "3"),
            ]
        ),
        request(output_schema=OutputSchema("another_name", {"type": "integer"}, strict=True)),
    ],
    ids=["descriptions", "model", "call ids", "the provider's own", "schema's name"],
)
def test_what_does_not_count(same):
    """A tool's description, the model's name, ids and what a provider keeps for itself may change."""
    assert fits(ASKED, same)


@pytest.mark.for_each(
    "other",
    [
        request(instruction="You are no helper."),
        request(tools=()),
        request(settings={"temperature": 1}),
        request(output_schema=None),
        request(messages=ASKED.messages[:3]),
        request(messages=[*ASKED.messages[:3], ToolMessage("c1", "add", "4")]),
        request(messages=[SystemMessage("Be long."), *ASKED.messages[1:]]),
        request(messages=[ASKED.messages[0], UserMessage("Look:"), *ASKED.messages[2:]]),
        CALL,
    ],
    ids=["instruction", "tools", "settings", "schema", "fewer", "result", "order", "image", "kind"],
)
def test_what_counts(other):
    """Instruction, messages, names of tools, settings and the schema of the answer must be the same."""
    assert not fits(ASKED, other)


def test_tool_calls_are_told_apart_by_name_and_arguments():
    """A call is the same when its arguments are, in whatever spelling; what is no JSON must be the same text."""
    assert fits(CALL, ToolCall("x", "add", '{"b":2,"a":1}'))
    assert not fits(CALL, ToolCall("c1", "add", '{"a": 1, "b": 3}'))
    assert not fits(CALL, ToolCall("c1", "sub", CALL.arguments))
    assert fits(ToolCall("x", "add", "{oops"), ToolCall("y", "add", "{oops"))
    assert fits(ToolCall("x", "add", "[" * 100_000), ToolCall("y", "add", "[" * 100_000))


def test_persons_are_asked_the_same_about_the_same_call():
    """What a person is asked is told apart by call and rule, not by how the reason is worded."""
    assert fits(PERSON, PersonAsked(CALL, Decision("ask", "level", "It is very dear.")))
    assert not fits(PERSON, PersonAsked(CALL, Decision("ask", "flow", "It is dear.")))
    assert not fits(PERSON, CALL)


@pytest.mark.for_each(
    ("recorded", "asked", "same"),
    [
        ("key [redacted: API key] end", "key sk-secret end", True),
        ("key [redacted: API key] end", "key [redacted: API key] end", True),
        ("[redacted: a][redacted: b]", "anything", True),
        ("a [redacted: x] b [redacted: y] c", "a 1 b 2 c", True),
        ("a [redacted: x] b [redacted: y] c", "a 1 2 c", False),
        ("a [redacted: x] b", "a 1 c", False),
        ("a [redacted: x] b", "c 1 b", False),
        ("ab[redacted: x]ba", "aba", False),
        ("no mark", "no  mark", False),
    ],
)
def test_what_was_redacted_fits_anything(recorded, asked, same):
    """The mark of a redaction stands for any text; the text around it must be there, in its order."""
    assert fits(Request((UserMessage(recorded),)), Request((UserMessage(asked),))) is same


def test_settings_may_be_of_any_kind():
    """A setting that is no JSON counts by how it is shown, and what is nested without end is still compared."""
    endless = []
    endless.append(endless)
    assert fits(request(settings={"stop": {1}}), request(settings={"stop": {1}}))
    assert fits(request(settings={"stop": endless}), request(settings={"stop": endless}))


def test_room_for_the_answer_does_not_count():
    """How long an answer may be is not compared, as limits decide it; it tells questions apart that are alike."""
    narrow, wide = (question_form(request(settings={"max_tokens": most, "seed": 1})) for most in (100, 200))
    assert narrow.fits(wide)
    assert wide.fits(question_form(request(settings={"seed": 1})))
    assert not narrow.fits(question_form(request(settings={"max_tokens": 100})))
    assert (narrow.room, wide.room) == ("100", "200")
    assert "max_tokens" not in str(narrow)


def test_most_of_a_conversation_can_be_shared():
    """Of recorded questions the one with the most messages in common is the nearest."""
    one, two = (
        question_form(ASKED),
        question_form(request(messages=[*ASKED.messages[:3], ToolMessage("c1", "add", "4")])),
    )
    assert (one.shared(two), one.shared(one), one.shared(question_form(CALL))) == (3, 4, -1)


def test_difference_is_readable():
    """A difference names what is gone and what is new, with the lines around it."""
    asked = request(messages=[*ASKED.messages[:3], ToolMessage("c1", "add", "4\nor so")])
    told = difference(question_form(ASKED), question_form(asked)).splitlines()
    assert told[-3:] == ["-result of add: 3", "+result of add: 4", "+  or so"]
    assert [line[0] for line in told[:-3]] == [" ", " "]
    assert difference(None, question_form(CALL)) == '+arguments: {"a": 1, "b": 2}\n+call: add'


def test_difference_is_bounded():
    """Of a long difference the first sixty lines are shown, and how many more there are."""
    told = difference(None, RequestKey("model", "", [message_form(UserMessage("line\n" * 100))])).splitlines()
    assert len(told) == 61
    assert told[-1].endswith("more lines")


def test_empty_texts_are_shown():
    """A message without text is a line too, and a form that is no object is shown as it is."""
    assert str(RequestKey("model", "plain", [message_form(UserMessage(""))])) == "plain\nuser: "
    assert str(RequestKey("model", "[1]")) == "[1]"
