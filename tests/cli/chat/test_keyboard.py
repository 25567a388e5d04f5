"""What a person types at a terminal: questions in place, and a history that cannot be written."""

import os
import stat

import pytest

from agentkit.settings import state_folder
from agentkit.testing import FakeServer, call, slow

pytestmark = pytest.mark.slow

WRITE = call("write_file", path="note.txt", content="hello")


def test_a_call_is_approved_with_other_arguments(at_terminal, tmp_path):
    """A question stands in place; what was typed before it is no answer; its arguments can be edited on the spot."""
    with FakeServer(slow(WRITE, before_seconds=1), "Done.") as server:
        chat = at_terminal(server=server)
        chat.say("Write it.")
        chat.until("asking")
        chat.type("y\r")
        shown = chat.until("Allow it? [N]")
        assert "agentkit wants to call write_file" in shown
        assert "r  exactly this call, until the run ends" in shown
        chat.type("e\r")
        chat.until('"content": "hello"')
        chat.type("\x1b[A\x1b[A\x1b[F\x1b[D\x1b[D.old\r")
        chat.until("Done.")
        chat.until("+hello")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt.old"]


@pytest.mark.parametrize(
    "keys",
    [
        ("Write it.\ry\r",),
        ("Write it.\r", *["y\r"] * 20),
        ("Write it.\ra\ra\r",),
        ("\x1b[200~Write it.\x1b[201~\ry\r",),
    ],
)
def test_what_was_typed_ahead_approves_nothing(at_terminal, tmp_path, keys):
    """What was typed before a question could be read answers none, though it came in one piece with the prompt."""
    with FakeServer(WRITE, "I see.") as server:
        chat = at_terminal(server=server)
        chat.until("> ")
        for some in keys:
            chat.type(some)
        chat.until("Allow it? [N]")
        chat.type("n because nobody has read it\r")
        chat.until("I see.")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert "because nobody has read it" in server.requests[1].body.decode()
    assert list(tmp_path.iterdir()) == []


def test_what_was_typed_ahead_edits_nothing(at_terminal, tmp_path):
    """Keys that came in one piece with the wish to edit do not send the arguments that nobody has seen."""
    with FakeServer(WRITE) as server:
        chat = at_terminal(server=server)
        chat.say("Write it.")
        chat.until("Allow it? [N]")
        chat.type("e\r\r\r")
        chat.until('"content": "hello"')
        chat.type("\x03\x03")
        chat.until("Stopped.")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_who_edits_arguments_can_still_say_no(at_terminal, tmp_path):
    """Ctrl-D is a no also while the arguments stand there to be edited, and the conversation goes on."""
    with FakeServer(WRITE, "I see.") as server:
        chat = at_terminal(server=server)
        chat.say("Write it.")
        chat.until("Allow it? [N]")
        chat.type("e\r")
        chat.until('"content": "hello"')
        chat.type("\x04")
        chat.until("I see.")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_no_text_are_a_prompt(at_terminal):
    """Bytes that are no UTF-8 reach the model with a mark in their place, and stop nothing."""
    with FakeServer("ok") as server:
        chat = at_terminal(server=server)
        chat.until("> ")
        os.write(chat.keyboard, b"caf\xe9 \xff\r")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert server.requests[0].json["messages"][-1]["content"].startswith("caf")


@pytest.mark.parametrize("kind", ["link", "second name", "pipe"])
def test_the_history_is_a_file_of_its_own(at_terminal, tmp_path, kind):
    """Where the history's file is a link, a file with a second name or a pipe, nothing is written through it."""
    history, other = state_folder() / "chat-history", tmp_path / "other"
    history.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("mine")
    other.chmod(0o644)
    if kind == "link":
        history.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(history)
    else:
        history.hardlink_to(other)
    with FakeServer("ok") as server:
        chat = at_terminal(server=server)
        chat.say("hi there")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert (other.read_text(), stat.S_IMODE(other.stat().st_mode)) == ("mine", 0o644)


@pytest.mark.parametrize("editor", ["false", "/nowhere/editor", "'"])
def test_an_editor_that_fails_leaves_the_conversation_open(at_terminal, editor):
    """An editor that is not there or fails is told, and the conversation goes on."""
    with FakeServer("ok") as server:
        chat = at_terminal(server=server, variables={"VISUAL": editor})
        chat.say("/edit hello")
        chat.until("The editor failed")
        chat.say("hi")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0


def test_a_no_can_say_why(at_terminal, tmp_path):
    """The model is told why a call was refused; Ctrl-C at the question stops the run instead."""
    with FakeServer(WRITE, "I see.", WRITE) as server:
        chat = at_terminal(server=server)
        chat.say("Write it.")
        chat.until("Allow it? [N]")
        chat.type("n because it is late\r")
        chat.until("[deny: safety-level")
        chat.say("Write it.")
        chat.until("Allow it? [N]")
        chat.type("\x03")
        chat.until("Stopped.")
        chat.say("/quit")
        assert chat.ends()[0] == 0
        assert "Approval was refused: because it is late." in server.requests[1].body.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_cannot_be_kept_keeps_nobody_from_talking(at_terminal):
    """Where the history's file cannot be written, what was typed is remembered until the end only."""
    (state_folder() / "chat-history").mkdir(parents=True)
    with FakeServer("ok", "ok") as server:
        chat = at_terminal(server=server)
        chat.say("hi there")
        chat.until("ok")
        chat.until("> ")
        chat.type("\x1b[A\r")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert server.requests[1].json["messages"][-1]["content"] == "hi there"


def test_an_editor_finds_the_terminal_as_programs_do(at_terminal, tmp_path):
    """/edit runs $VISUAL at a terminal that shows what is typed, and asks what was written there."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nstty -a | grep -o " echo " > "$1"\nread line\necho "$line" >> "$1"\n')
    editor.chmod(0o700)
    with FakeServer("ok") as server:
        chat = at_terminal(server=server, variables={"VISUAL": str(editor)})
        chat.say("/edit")
        chat.until("/edit")
        chat.type("typed in the editor\n")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert server.requests[0].json["messages"][-1]["content"] == "echo \ntyped in the editor"
