"""Tests for copying, exporting, importing and naming sessions."""

import json
import resource

import pytest

from agentkit.content import Image
from agentkit.decisions import Decision, Verdict
from agentkit.errors import SessionError
from agentkit.events import (
    Approved,
    HistoryGiven,
    ResponseReceived,
    RunEnded,
    RunStarted,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.sessions.state import RunState
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.transfer import (
    first_messages,
    history_entries,
    new_name,
    read_export,
    validate_messages,
    write_export,
)

CALL, OTHER = ToolCall("1", "calculator", '{"expression": "6*7"}'), ToolCall("2", "clock", "{}")
MESSAGES = (
    UserMessage("What is 6 times 7?"),
    AssistantMessage("", (CALL, OTHER)),
    ToolMessage("1", "calculator", "42"),
    ToolMessage("2", "clock", "12:00"),
    AssistantMessage("It is 42."),
)
ENTRIES = [SessionEntry("run-1", 0.0, event) for event in (RunStarted("helper", "Hi"), RunEnded("done", "Hello"))]


@pytest.mark.parametrize(("at", "count"), [(0, 0), (1, 1), (4, 4), (5, 5), (None, 5)])
def test_cut_between_exchanges(at, count):
    """A conversation can be cut where no call is pending."""
    assert first_messages(MESSAGES, at) == MESSAGES[:count]


@pytest.mark.parametrize("at", [2, 3])
def test_cut_between_call_and_result_is_rejected(at):
    """Cutting between a call and its result raises an error that names the nearest valid positions."""
    with pytest.raises(SessionError, match=f"Between message {at} and the next.*Fork at 1 or 4\\."):
        first_messages(MESSAGES, at)


@pytest.mark.parametrize("at", [-1, 6])
def test_cut_out_of_range_is_rejected(at):
    """Cutting before the first or after the last message raises an error."""
    with pytest.raises(SessionError, match=r"has 5 messages.* Fork at a number from 0 to 5\."):
        first_messages(MESSAGES, at)


def test_export_is_lines_of_json(tmp_path):
    """An export has one line for the session and one for each entry, and is readable by its owner only."""
    write_export(tmp_path / "trip.jsonl", "Hà Nội", ENTRIES)
    lines = (tmp_path / "trip.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0]) == {"session": 1, "name": "Hà Nội", "entries": 2}
    assert json.loads(lines[1]) == {
        "run": "run-1",
        "at": 0.0,
        "event": "run_started",
        "agent": "helper",
        "prompt": "Hi",
    }
    assert (tmp_path / "trip.jsonl").stat().st_mode & 0o777 == 0o600
    assert read_export(tmp_path / "trip.jsonl") == ("Hà Nội", ENTRIES)


def test_export_does_not_overwrite(tmp_path):
    """An existing file is not overwritten."""
    (tmp_path / "trip.jsonl").write_text("mine")
    with pytest.raises(SessionError, match=r"already exists\. Choose another name"):
        write_export(tmp_path / "trip.jsonl", "trip", ENTRIES)
    assert (tmp_path / "trip.jsonl").read_text() == "mine"


def test_failed_export_leaves_no_file(tmp_path):
    """A failed export raises an error and leaves no file behind."""
    with pytest.raises(SessionError, match="No such file or directory"):
        write_export(tmp_path / "none" / "trip.jsonl", "trip", ENTRIES)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        with pytest.raises(SessionError, match="completely: File too large"):
            write_export(tmp_path / "trip.jsonl", "trip", ENTRIES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


HEADER = '{"session": 1, "name": "trip", "entries": 1}\n'
LINE = '{"run": "run-1", "at": 1, "event": "run_resumed"}\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not an exported session. Use a file written by Session.export"),
        ("Dear diary\n", "is not an exported session"),
        ('{"cassette": 1}\n', "is not an exported session"),
        ('{"session": 1, "name": 1}\n', "is not an exported session"),
        ('{"session": 9, "name": "trip"}\n', "it has format 9, and this version reads up to 1"),
        (HEADER, "is truncated: it has 0 entries of 1"),
        (HEADER + LINE + LINE, "has 2 entries of 1"),
        (HEADER + LINE[:-5], "Line 2 of .* is damaged.*not JSON"),
        (HEADER + '{"run": "run-1", "at": 1, "event": "flown"}', "Line 2 .*'flown' is unknown"),
    ],
)
def test_invalid_export_is_rejected(tmp_path, text, problem):
    """An invalid, truncated, damaged or newer export raises an error that says so."""
    (tmp_path / "trip.jsonl").write_text(text)
    with pytest.raises(SessionError, match=problem):
        read_export(tmp_path / "trip.jsonl")


def test_missing_file_raises(tmp_path):
    """A missing file raises an error that names it."""
    with pytest.raises(SessionError, match=r"'.*none' cannot be read: No such file"):
        read_export(tmp_path / "none")


def test_messages_become_a_finished_run():
    """Messages from elsewhere are stored as a finished run."""
    given, ended = history_entries(MESSAGES)
    assert given.event == HistoryGiven(MESSAGES)
    assert ended.event == RunEnded("done")
    assert given.run == ended.run


def test_new_conversation_is_named_after_its_prompt():
    """The name has the first words of the prompt, no secret, and a suffix that makes it unique."""
    assert new_name("What is 17% of 2,400? I ask").startswith("what-is-17-of-")
    assert new_name("same") != new_name("same")
    assert "a1a1" not in new_name("sk-" + "a1" * 20)
    assert len(new_name("")) == 4


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        (5, "takes a list of messages. Got 5."),
        ([UserMessage("Hi"), {"role": "user", "content": "Hi"}], r"messages\[1\] cannot be stored: .* Use UserMessage"),
        ([UserMessage(5)], r"messages\[0\] cannot be stored: UserMessage\(content=5\)"),
        ([AssistantMessage(None)], r"messages\[0\] cannot be stored: .* should be of type str"),
        (MESSAGES[:3], r"none was added. The result of the call '2' of 'clock' is missing"),
        (MESSAGES[2:], r"messages\[0\] is a result of the call '1'"),
    ],
)
def test_invalid_messages_are_rejected(messages, message):
    """Messages that are not a valid conversation raise a SessionError."""
    with pytest.raises(SessionError, match=message):
        validate_messages(messages)


def test_given_messages_equal_their_stored_form():
    """Given messages equal their stored form, and each call gets a unique id."""
    assert validate_messages(MESSAGES) == list(MESSAGES)
    assert validate_messages([UserMessage(["Look:", Image("data:,")])]) == [UserMessage(("Look:", Image("data:,")))]
    assert [
        message.call_id for message in validate_messages([*MESSAGES, *MESSAGES]) if isinstance(message, ToolMessage)
    ] == [*("1", "2", "1_3", "2_4")]


@pytest.mark.parametrize("count", ["1", 1.0, True])
def test_position_of_a_cut_is_a_number(count):
    """A conversation is cut after a number of messages; other values are rejected."""
    with pytest.raises(SessionError, match="fork takes a number of messages"):
        first_messages(MESSAGES, count)


def test_export_with_changed_call_id_is_rejected(tmp_path):
    """An export with a changed call id is not a valid conversation and raises an error."""
    file = tmp_path / "trip.jsonl"
    write_export(
        file, "trip", [SessionEntry("run-1", 0.0, HistoryGiven(MESSAGES)), SessionEntry("run-1", 0.0, RunEnded("done"))]
    )
    file.write_text(file.read_text("utf-8").replace('"call_id":"1"', '"call_id":"9"'), "utf-8")
    with pytest.raises(SessionError, match=r"its run 'run-1' is not a valid conversation. messages\[2\] is a result"):
        read_export(file)


BOOKING = ToolCall("1", "book", '{"hotel": "Aurora"}')
WISH = ResponseReceived(Response(AssistantMessage("", (BOOKING,))))
WAITS = ToolCallPostponed(BOOKING, "May it?", Decision(Verdict.ASK, "safety-level", "It is SYSTEM."))
BEGINS = RunStarted("helper", "Book.")


@pytest.mark.parametrize("answer", ["once", "run", "always"])
@pytest.mark.parametrize("arguments", [None, '{"hotel": "Other"}'])
@pytest.mark.parametrize(
    "around",
    [
        lambda text: [BEGINS, WISH, WAITS, text, RunEnded("paused")],
        lambda text: [BEGINS, WISH, text],
        lambda text: [BEGINS, WISH, text, text],
        lambda text: [BEGINS, WISH, ToolCallStarted(BOOKING, WAITS.decision), text],
    ],
)
def test_approval_of_a_pending_call_is_not_imported(tmp_path, answer, arguments, around):
    """An imported approval of a call that has no result is dropped."""
    approved = Approved("1", answer, "", arguments)
    entries = [SessionEntry("run-1", 0.0, each) for each in around(approved)]
    write_export(tmp_path / "trip.jsonl", "trip", entries)
    read = [entry.event for entry in read_export(tmp_path / "trip.jsonl")[1]]
    open_calls = RunState.of(read).steps.values()
    assert all(step.answer is None for step in open_calls if step.result is None)
    assert [each for each in read if not isinstance(each, Approved)] == [
        each for each in around(approved) if not isinstance(each, Approved)
    ]


def test_approval_of_a_finished_call_is_imported(tmp_path):
    """An imported approval of a finished call is kept."""
    approved, made = Approved("1", "once"), ToolCallFinished(BOOKING, ToolResult("book", "ok", "Done."))
    entries = [SessionEntry("run-1", 0.0, each) for each in (BEGINS, WISH, approved, made, RunEnded("done"))]
    write_export(tmp_path / "trip.jsonl", "trip", entries)
    assert read_export(tmp_path / "trip.jsonl")[1] == entries


@pytest.mark.parametrize(
    "message",
    [UserMessage("Hi"), UserMessage("Check it.", by_person=False), AssistantMessage("Hello", reasoning="A greeting.")],
)
def test_plain_text_message_is_not_copied(message):
    """A message that a store would return unchanged is kept as the same object."""
    assert validate_messages([message])[0] is message


@pytest.mark.parametrize("message", [UserMessage(5), UserMessage("Hi", by_person="no"), AssistantMessage(None)])
def test_message_with_invalid_fields_is_rejected(message):
    """A message whose fields have the wrong types raises an error."""
    with pytest.raises(SessionError, match=r"messages\[0\] cannot be stored"):
        validate_messages([message])
