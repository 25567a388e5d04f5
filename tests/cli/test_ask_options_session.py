"""Tests for the session of a question: temporary, continued, named, or not stored."""

import os
from pathlib import Path

import pytest

from agentkit.sessions.session import Session
from agentkit.testing import FakeServer


def test_question_becomes_a_session_when_continued(typed_line):
    """A question is listed as a session only after -c continues it."""
    with FakeServer("Paris.", "Two million.") as server:
        typed_line("What is the capital of France?", server=server)
        assert Session.summaries() == []
        _, err, _ = typed_line("-c", "How many live there?", server=server)
    assert err.startswith("Continues 'what-is-the-capital-")
    assert err.endswith(": What is the capital of France?\n")
    assert [message["content"] for message in server.requests[1].json["messages"][1:]] == [
        "What is the capital of France?",
        "Paris.",
        "How many live there?",
    ]
    (only,) = Session.summaries()
    assert (only.name[:-4], only.runs) == ("what-is-the-capital-", 2)


def test_named_session_is_continued(typed_line, tmp_path):
    """--session NAME continues that session, in the database given with --store."""
    place = str(tmp_path / "mine.db")
    with FakeServer("1", "2") as server:
        for _ in range(2):
            assert typed_line("--session", "trip", "--store", place, "Go.", server=server)[2] == 0
    assert Session.open(place, "trip").messages[-1].text == "2"
    assert Session.summaries() == []


@pytest.mark.parametrize("how", ["flag", "file"])
def test_no_session_is_stored(how, typed_line, own_user_file):
    """With --no-session or session = false, no session is stored."""
    if how == "file":
        own_user_file("session = false")
    with FakeServer("ok") as server:
        assert typed_line(*(["--no-session"] if how == "flag" else []), "hi", server=server)[2] == 0
    assert Session.summaries() == []


def test_continue_without_a_session_is_an_error(typed_line):
    """-c without a stored session is an error."""
    _, err, code = typed_line("-c", "More.")
    assert (code, "No conversation can be continued." in err) == (2, True)


def test_each_folder_has_its_own_last_conversation(typed_line, tmp_path, monkeypatch):
    """-c continues the last conversation of the current folder, and is an error in other folders."""
    for folder in ("one", "two", "three"):
        (tmp_path / folder).mkdir()
    with FakeServer("ok", repeat=True) as server:
        monkeypatch.chdir(tmp_path / "one")
        typed_line("First question", server=server)
        monkeypatch.chdir(tmp_path / "two")
        typed_line("--session", "second", "Second question", server=server)
        monkeypatch.chdir(tmp_path / "one")
        assert "Continues 'first-question-" in typed_line("-c", "More.", server=server)[1]
        typed_line("Third question", server=server)
        assert "Continues 'third-question-" in typed_line("-c", "More.", server=server)[1]
        monkeypatch.chdir(tmp_path / "two")
        assert "Continues 'second': Second question" in typed_line("-c", "More.", server=server)[1]
        monkeypatch.chdir(tmp_path / "three")
        _, err, code = typed_line("-c", "More.", server=server)
    assert (code, "This folder has no conversation to continue." in err, "--session" in err) == (2, True, True)


def test_next_question_replaces_the_previous_one(typed_line):
    """The next question in the same folder replaces the stored unnamed conversation."""
    with FakeServer("ok", repeat=True) as server:
        for question in ("One secret", "Two"):
            typed_line(question, server=server)
    (file,) = (Path(os.environ["AGENTKIT_STATE"]) / "latest").glob("*.db")
    assert [each.name[:-5] for each in Session.summaries(file)] == ["two"]


def test_question_is_answered_without_storage(typed_line, tmp_path):
    """A question is answered if its session cannot be stored, unless --store was given."""
    (tmp_path / "file").write_text("")
    with FakeServer("ok", repeat=True) as server:
        _, err, code = typed_line("--store", tmp_path / "file" / "x.db", "hi", server=server)
        assert (code, "x.db" in err) == (1, True)
        state = Path(os.environ["AGENTKIT_STATE"])
        state.mkdir(parents=True, exist_ok=True)
        (state / "latest").write_text("")
        out, err, code = typed_line("--no-tools", "hi", server=server)
    assert (out, code) == ("ok\n", 0)
    assert "This conversation is not stored: " in err


def test_session_name_contains_no_secret(typed_line):
    """The name of a session does not contain a key from the question."""
    with FakeServer("ok", "ok") as server:
        typed_line("Is sk-abcdefghij0123456789ABCDEFG a key?", server=server)
        typed_line("-c", "Well?", server=server)
    assert "abcdefghij" not in Session.summaries()[0].name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "The question is missing"),
        (["-c"], "no run in the session"),
        (["--no-session"], "is missing.\nExample: agentkit "),
    ],
)
def test_empty_question_resumes_a_run(words, expected, typed_line):
    """An empty question resumes an unfinished run; without one, the error asks for a question."""
    with FakeServer("ok") as server:
        typed_line("hi", server=server)
    _, err, code = typed_line("ask", *words)
    assert (code, expected in err) == (2, True)
