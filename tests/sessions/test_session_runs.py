"""Tests for the runs in progress of a session: their storage, locks and records."""

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.errors import SessionError
from agentkit.events import ResponseReceived, RunEnded, RunStarted, Summarised, ToolCallFinished, ToolCallStarted
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.sessions.session import Session, is_record_of
from agentkit.sessions.state import Summary
from agentkit.sessions.stores.sqlite import SQLiteSessionStore

ALLOWED = Decision(Verdict.ALLOW, "level", "It is safe.")
CALL = ToolCall("call_1", "clock", "{}")


def record(run, *events):
    """Apply and store stored events of a run, as its loop and driver do."""
    for event in events:
        run.progress.apply(event)
        run.keep(event)


def reply(text, *calls):
    """Return an answer of the model."""
    return ResponseReceived(Response(AssistantMessage(text, calls)))


def test_record_id_belongs_to_its_run():
    """A record id can be matched to the run that created it."""
    session = Session()
    run, other = session.begin(), session.begin()
    assert is_record_of(run.id, run.new_record_id())
    assert not is_record_of(other.id, run.new_record_id())
    assert run.new_record_id() != run.new_record_id()


def test_result_stored_before_close_is_resumed():
    """A run closed between storing and applying a result has the result when resumed."""
    session = Session()
    run = session.begin()
    record(run, RunStarted("helper", "Hi"), reply("", CALL), ToolCallStarted(CALL, ALLOWED))
    run.keep(ToolCallFinished(CALL, ToolResult("clock", "ok", "12:00")))
    run.close()
    again = session.reopen()
    assert again.progress.messages[-1] == ToolMessage("call_1", "clock", "12:00")
    again.leave()
    again.close()  # closing again does nothing


def test_summary_of_this_run_or_of_the_session():
    """A run uses its own newest summary, or else the session's."""
    session = Session()
    session.append([UserMessage("Hi"), AssistantMessage("Hello")])
    run = session.begin()
    assert run.summary is None
    record(run, RunStarted("helper", "Go on", 2), Summarised("They met.", 2), reply("Yes?"), RunEnded("done"))
    assert run.summary == Summary(2, AssistantMessage("Hello"), "They met.")
    run.close()
    assert session.begin().summary == run.summary


def test_nothing_is_stored_after_a_failed_write(tmp_path):
    """After a failed write, nothing more is stored, neither immediately nor when the run is closed."""
    place = tmp_path / "sessions.db"
    session = Session.open(place, "trip")
    run = session.begin()
    record(run, RunStarted("helper", "Hi"))
    place.rename(tmp_path / "moved.db")
    for text in ("removed or replaced during this run", "An earlier event of this run could not be stored"):
        with pytest.raises(SessionError, match=text):
            run.keep(reply("Hello"))
    run.progress.apply(reply("Hello"))
    run.close()
    assert not place.exists()
    moved = SQLiteSessionStore(tmp_path / "moved.db")
    assert [type(entry.event) for entry in moved.read("trip")[0]] == [RunStarted]
    moved.close()
