"""Tests for the matching of requests in a replay."""

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
from agentkit.sessions.cassettes.request_matching import RequestKey, difference, message_key, question_key

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
    """Return the request with some fields changed."""
    fields = {name: changes.get(name, getattr(ASKED, name)) for name in Request.__slots__}
    return Request(**fields)


def fits(recorded, request):
    """Return whether the request matches the recorded one."""
    return question_key(recorded).fits(question_key(request))


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
    ids=["descriptions", "model", "call ids", "provider data", "schema's name"],
)
def test_ignored_differences(same):
    """Tool descriptions, the model's name, ids and provider data do not affect matching."""
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
def test_compared_fields(other):
    """Requests match only if instruction, messages, tool names, settings and output schema are equal."""
    assert not fits(ASKED, other)


def test_tool_calls_match_by_name_and_arguments():
    """Tool calls match by name and JSON arguments; arguments that are not JSON must be identical strings."""
    assert fits(CALL, ToolCall("x", "add", '{"b":2,"a":1}'))
    assert not fits(CALL, ToolCall("c1", "add", '{"a": 1, "b": 3}'))
    assert not fits(CALL, ToolCall("c1", "sub", CALL.arguments))
    assert fits(ToolCall("x", "add", "{oops"), ToolCall("y", "add", "{oops"))
    assert fits(ToolCall("x", "add", "[" * 100_000), ToolCall("y", "add", "[" * 100_000))


def test_approval_requests_match_by_call_and_rule():
    """Approval requests match by call and rule, regardless of the reason's wording."""
    assert fits(PERSON, PersonAsked(CALL, Decision("ask", "level", "It is very dear.")))
    assert not fits(PERSON, PersonAsked(CALL, Decision("ask", "flow", "It is dear.")))
    assert not fits(PERSON, CALL)


@pytest.mark.for_each(
    ("recorded", "question", "same"),
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
def test_redaction_mark_matches_any_text(recorded, question, same):
    """A redaction mark matches any text; the text around it must match in order."""
    assert fits(Request((UserMessage(recorded),)), Request((UserMessage(question),))) is same


def test_settings_of_any_type_match():
    """Settings that are not JSON are compared by their repr, and recursive ones are compared too."""
    endless = []
    endless.append(endless)
    assert fits(request(settings={"stop": {1}}), request(settings={"stop": {1}}))
    assert fits(request(settings={"stop": endless}), request(settings={"stop": endless}))


def test_max_tokens_does_not_affect_matching():
    """`max_tokens` does not affect matching, but is stored to distinguish similar requests."""
    narrow, wide = (question_key(request(settings={"max_tokens": most, "seed": 1})) for most in (100, 200))
    assert narrow.fits(wide)
    assert wide.fits(question_key(request(settings={"seed": 1})))
    assert not narrow.fits(question_key(request(settings={"max_tokens": 100})))
    assert (narrow.max_tokens, wide.max_tokens) == ("100", "200")
    assert "max_tokens" not in str(narrow)


def test_similarity_of_requests():
    """The similarity of two requests is the number of messages they have in common."""
    one, two = (
        question_key(ASKED),
        question_key(request(messages=[*ASKED.messages[:3], ToolMessage("c1", "add", "4")])),
    )
    assert (one.shared(two), one.shared(one), one.shared(question_key(CALL))) == (3, 4, -1)


def test_difference_is_readable():
    """A diff shows removed and added lines with the lines around them."""
    question = request(messages=[*ASKED.messages[:3], ToolMessage("c1", "add", "4\nor so")])
    lines = difference(question_key(ASKED), question_key(question)).splitlines()
    assert lines[-3:] == ["-result of add: 3", "+result of add: 4", "+  or so"]
    assert [line[0] for line in lines[:-3]] == [" ", " "]
    assert difference(None, question_key(CALL)) == '+arguments: {"a": 1, "b": 2}\n+call: add'


def test_difference_is_bounded():
    """A long diff shows its first sixty lines and the number of omitted lines."""
    lines = difference(None, RequestKey("model", "", [message_key(UserMessage("line\n" * 100))])).splitlines()
    assert len(lines) == 61
    assert lines[-1].endswith("more lines")


def test_empty_texts_are_shown():
    """A message without text is shown as a line, and a key that is not an object is shown unchanged."""
    assert str(RequestKey("model", "plain", [message_key(UserMessage(""))])) == "plain\nuser: "
    assert str(RequestKey("model", "[1]")) == "[1]"
