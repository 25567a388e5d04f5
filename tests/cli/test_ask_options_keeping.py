"""In which session is a question asked?"""

import os
from pathlib import Path

import pytest

from agentkit.sessions.session import Session
from agentkit.testing import FakeServer


def test_continue_goes_on_with_the_last_session(typed_line):
    """A question is kept in a session of its own, named by its first words; -c goes on with the last one."""
    with FakeServer("Paris.", "Two million.") as server:
        typed_line("What is the capital of France?", server=server)
        typed_line("-c", "How many live there?", server=server)
    assert [message["content"] for message in server.requests[1].json["messages"][1:]] == [
        "What is the capital of France?",
        "Paris.",
        "How many live there?",
    ]
    (only,) = Session.summaries()
    assert (only.name[:-4], only.runs) == ("what-is-the-capital-", 2)


def test_a_named_session_is_gone_on_with(typed_line, tmp_path):
    """--session NAME asks in that session, in another place with --place."""
    place = str(tmp_path / "mine.db")
    with FakeServer("1", "2") as server:
        for _ in range(2):
            assert typed_line("--session", "trip", "--place", place, "Go.", server=server)[2] == 0
    assert Session.open(place, "trip").messages[-1].text == "2"
    assert Session.summaries() == []


@pytest.mark.parametrize("how", ["flag", "file"])
def test_nothing_is_kept_when_nothing_should_be(how, typed_line, own_user_file):
    """--no-session, or session = false, keeps nothing."""
    if how == "file":
        own_user_file("session = false")
    with FakeServer("ok") as server:
        assert typed_line(*(["--no-session"] if how == "flag" else []), "hi", server=server)[2] == 0
    assert Session.summaries() == []


def test_nothing_to_continue_is_told(typed_line):
    """-c without any session says how to begin one."""
    _, err, code = typed_line("-c", "More.")
    assert (code, "There is no session to continue" in err) == (2, True)


def test_where_nothing_can_be_kept_the_question_is_answered(typed_line, tmp_path):
    """Sessions that cannot be written cost the session, not the answer; a place that was named is an error."""
    (tmp_path / "file").write_text("")
    with FakeServer("ok", repeat=True) as server:
        _, err, code = typed_line("--place", tmp_path / "file" / "x.db", "hi", server=server)
        assert (code, "x.db" in err) == (1, True)
        (Path(os.environ["AGENTKIT_STATE"]) / "sessions.db").mkdir()
        out, err, code = typed_line("--no-tools", "hi", server=server)
    assert (out, code) == ("ok\n", 0)
    assert "This conversation is not kept" in err


def test_a_secret_is_no_part_of_a_name(typed_line):
    """A session is not named after a key in its question."""
    with FakeServer("ok") as server:
        typed_line("Is sk-abcdefghij0123456789ABCDEFG a key?", server=server)
    assert "abcdefghij" not in Session.summaries()[0].name


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "There is no question"), (["-c"], "no run in the session"), (["--no-session"], "There is no question")],
)
def test_without_a_question_there_must_be_a_run_that_waits(words, said, typed_line):
    """An empty question goes on with a run that was left; where none was, that is told."""
    with FakeServer("ok") as server:
        typed_line("hi", server=server)
    _, err, code = typed_line("ask", *words)
    assert (code, said in err) == (2, True)
