"""Tests for keyboard input at a terminal: approvals, editing, and the prompt history."""

import os
import stat

import pytest

from agentkit.settings import state_folder
from agentkit.testing import FakeServer, call, slow

pytestmark = pytest.mark.slow

WRITE = call("write_file", path="note.txt", content="hello")


def test_arguments_can_be_edited_before_approval(at_terminal, tmp_path):
    """Arguments can be edited before approval; text typed before the question is not an answer."""
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
def test_typeahead_does_not_approve_a_call(at_terminal, tmp_path, keys):
    """Keys typed before the approval question appears do not answer it."""
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


def test_typeahead_does_not_submit_edited_arguments(at_terminal, tmp_path):
    """Keys sent together with the edit command do not submit the arguments."""
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


def test_ctrl_d_while_editing_denies_the_call(at_terminal, tmp_path):
    """Ctrl-D while editing the arguments denies the call, and the conversation continues."""
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


def test_invalid_utf8_is_replaced_in_a_prompt(at_terminal):
    """Invalid UTF-8 in a prompt is replaced, and the prompt is sent."""
    with FakeServer("ok") as server:
        chat = at_terminal(server=server)
        chat.until("> ")
        os.write(chat.keyboard, b"caf\xe9 \xff\r")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert server.requests[0].json["messages"][-1]["content"].startswith("caf")


@pytest.mark.parametrize("kind", ["link", "second name", "pipe"])
def test_history_is_not_written_through_links_or_pipes(at_terminal, tmp_path, kind):
    """Nothing is written if the history path is a symbolic link, a hard link or a pipe."""
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
def test_editor_failure_does_not_end_the_conversation(at_terminal, editor):
    """A missing or failing editor is reported, and the conversation continues."""
    with FakeServer("ok") as server:
        chat = at_terminal(server=server, variables={"VISUAL": editor})
        chat.say("/edit hello")
        chat.until("The editor failed")
        chat.say("hi")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0


def test_denial_with_a_reason(at_terminal, tmp_path):
    """The reason of a denial is sent to the model; Ctrl-C at the question stops the run."""
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


def test_unwritable_history_does_not_prevent_chatting(at_terminal):
    """If the history file cannot be written, prompts are remembered until the process ends."""
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


def test_editor_runs_with_terminal_echo(at_terminal, tmp_path):
    """/edit runs $VISUAL with terminal echo enabled, and sends the text it wrote."""
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


def test_lines_typed_before_the_start_are_prompts(at_terminal):
    """Each line that is typed while the chat still starts is a prompt."""
    with FakeServer("One.", "Two.") as server:
        chat = at_terminal(server=server)
        chat.type("First?\rSecond?\r")
        chat.until("One.")
        chat.until("Two.")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert [request.json["messages"][-1]["content"] for request in server.requests] == ["First?", "Second?"]


def test_results_are_shown_after_an_open_question(at_terminal):
    """While a worker's question is open, the results of other workers are not written into it."""

    def reply(request):
        messages = request.json["messages"]
        asked, has_results = messages[1]["content"], messages[-1]["role"] == "tool"
        if asked == "Both.":
            both = [call("task", agent="worker", request=f"Write {name}.") for name in ("one", "two")]
            return "Done." if has_results else both
        return f"{asked} Over." if has_results else call("write_file", path=asked.split()[1] + "txt", content="x")

    with FakeServer(reply, repeat=True) as server:
        chat = at_terminal("--tools", "code", server=server)
        chat.say("Both.")
        chat.until("for the task: Write ")
        chat.until("Allow it?")
        chat.type("n because it is late\r")
        chat.until("for the task: Write ")
        chat.until("Allow it?")
        for _ in range(3):
            chat.type("x\r")
            assert "Over." not in chat.until("Answer with one of the letters")
            chat.until("Allow it?")
        chat.type("n\r")
        chat.until("Over.")
        chat.until("Over.")
        chat.until("Done.")
        chat.say("/quit")
        assert chat.ends()[0] == 0
