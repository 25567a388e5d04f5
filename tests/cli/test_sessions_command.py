"""Tests for `agentkit sessions`: list, search, show, rename, fork, export, import, delete, prune."""

import json
import os
import pty

import pytest

from agentkit.events import HistoryGiven, RunEnded
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry


@pytest.fixture
def trip():
    """A stored session."""
    session = Session.open(name="trip")
    session.append([UserMessage("Where to?"), AssistantMessage("To \x1b[31mHanoi.")])
    return session


def test_sessions_are_listed(typed_line, trip):
    """`list` prints a line for each session; `--json` prints one document."""
    out, _, code = typed_line("sessions", "list")
    assert (code, out.startswith("trip  20"), out.endswith("  1 run\n")) == (0, True, True)
    (entry,) = json.loads(typed_line("sessions", "list", "--json")[0])["sessions"]
    assert (entry["name"], entry["runs"], entry["entries"]) == ("trip", 1, 2)


def test_list_without_sessions(typed_line):
    """Without a stored session, `list` reports this on stderr."""
    out, err, code = typed_line("sessions", "list")
    assert (out, code, "No session is stored yet" in err) == ("", 0, True)


def test_session_is_shown(typed_line, trip):
    """`show` prints the messages without escape sequences; `--json` prints the entries."""
    out = typed_line("sessions", "show", "trip")[0]
    assert "user: Where to?" in out
    assert "\x1b" not in out
    document = json.loads(typed_line("sessions", "show", "trip", "--json")[0])
    assert [entry["event"] for entry in document["entries"]] == ["history_given", "run_ended"]


def test_session_is_renamed_and_forked(typed_line, trip):
    """`rename` renames a session, and `fork --at` copies its first messages to a new session."""
    assert typed_line("sessions", "rename", "trip", "tour")[1] == "The session 'trip' is now 'tour'.\n"
    assert "begins with 1 message of 'tour'" in typed_line("sessions", "fork", "tour", "tour-2", "--at", "1")[1]
    assert {each.name: each.entries for each in Session.summaries()} == {"tour": 2, "tour-2": 2}
    _, err, code = typed_line("sessions", "rename", "tour", "tour-2")
    assert (code, "The session 'tour-2' already exists" in err) == (1, True)


def test_session_is_exported_and_imported(typed_line, trip, tmp_path):
    """`export` writes a file that `import` stores under the old name or another, also in another --store."""
    assert typed_line("sessions", "export", "trip", "trip.jsonl")[2] == 0
    _, err, code = typed_line("sessions", "import", "trip.jsonl", "--store", tmp_path / "other.db")
    assert (code, 'agentkit --session trip "..."' in err) == (0, True)
    assert typed_line("sessions", "list", "--store", tmp_path / "other.db")[0].startswith("trip")
    assert "--session 'my trip'" in typed_line("sessions", "import", "trip.jsonl", "my trip")[1]


@pytest.mark.parametrize("command", [["show"], ["delete", "-y"], ["export"]])
def test_unknown_session_suggests_the_closest(command, typed_line, trip):
    """An unknown session name is an error that suggests the closest name."""
    words = ["x.jsonl"] if command == ["export"] else []
    _, err, code = typed_line("sessions", command[0], "tripp", *words, *command[1:])
    assert (code, err) == (1, "Error: No session is named 'tripp'.\nDid you mean 'trip'?\n")
    assert "sessions list" in typed_line("sessions", command[0], "other", *words, *command[1:])[1]


def test_deleting_without_a_terminal_needs_yes(typed_line, trip):
    """Without a terminal, `delete` requires -y."""
    _, err, code = typed_line("sessions", "delete", "trip")
    assert (code, "add -y" in err) == (2, True)
    assert typed_line("sessions", "delete", "trip", "-y")[2] == 0
    assert Session.summaries() == []


@pytest.mark.parametrize(("keys", "is_deleted"), [(b"y\n", True), (b"n\n", False)])
def test_deleting_needs_confirmation(keys, is_deleted, spawn, trip):
    """At a terminal, `delete` asks for confirmation."""
    keyboard, screen = pty.openpty()
    with os.fdopen(keyboard, "wb", buffering=0) as fingers:
        process = spawn("sessions", "delete", "trip", stdin=screen)
        os.close(screen)
        fingers.write(keys)
        _, err = process.communicate(timeout=60)
    assert process.returncode == (0 if is_deleted else 130)
    assert "Delete 'trip' with its 2 messages?" in err
    assert (Session.summaries() == []) is is_deleted


def test_sessions_are_searched(typed_line, trip):
    """`search` finds the sessions that contain all words, ignoring case, and shows the text around the first."""
    Session.open(name="other").append([UserMessage("Where to eat?"), AssistantMessage("In Hue.")])
    out, _, code = typed_line("sessions", "search", "hanoi", "WHERE")
    assert (code, out.splitlines()[0].startswith("trip  20"), "Hanoi." in out) == (0, True, True)
    found = json.loads(typed_line("sessions", "search", "where", "--json", "-n", "1")[0])["sessions"]
    assert [(each["name"], each["title"]) for each in found] == [("other", "other")]
    _, err, code = typed_line("sessions", "search", "saigon")
    assert (code, "No session contains these words." in err) == (1, True)


def test_old_sessions_are_pruned(typed_line, trip, monkeypatch):
    """`prune` deletes sessions unchanged for the given time, after a confirmation or with -y."""
    store = trip.store
    old = SessionEntry("r", 1_000.0, HistoryGiven((UserMessage("Old?"), AssistantMessage("Yes."))))
    store.create("old", [old, SessionEntry("r", 1_001.0, RunEnded("done"))])
    assert typed_line("sessions", "prune", "--older-than", "30d")[2] == 2
    assert (
        "1970-01-01  old\n1 session have not changed for 30d; none was deleted."
        in (typed_line("sessions", "prune", "--older-than", "30d", "--dry-run")[1])
    )
    assert typed_line("sessions", "prune", "--older-than", "30d", "-y")[1].endswith("Deleted: 1 session.\n")
    assert [each.name for each in Session.summaries()] == ["trip"]
    assert typed_line("sessions", "prune", "--older-than", "8w")[1] == "0 sessions have not changed for 8w.\n"
    for age in ("30", "d", "-1d", "0d", "1y"):
        _, err, code = typed_line("sessions", "prune", "--older-than", age)
        assert (code, "--older-than takes a number" in err) == (2, True)
