"""Tests for approvals at the terminal, and for stored approvals."""

import fcntl
import json
import os
import pty
import termios

import pytest

from agentkit.settings import state_folder
from agentkit.testing import FakeServer, call

WRITE = call("write_file", path="note.txt", content="hello")


def own_terminal(screen):
    """Make this terminal the controlling terminal of the new process, so that Ctrl-C reaches it."""

    def take():
        os.setsid()
        fcntl.ioctl(screen, termios.TIOCSCTTY, 0)

    return take


@pytest.fixture
def typed(spawn, tmp_path):
    """Run a command line in an empty folder with these keys typed at its terminal."""

    def run(keys, *arguments, server):
        keyboard, screen = pty.openpty()
        with os.fdopen(keyboard, "wb", buffering=0) as fingers:
            process = spawn(*arguments, server=server, stdin=screen, cwd=tmp_path, preexec_fn=own_terminal(screen))
            os.close(screen)
            question = ""
            while not question.endswith(("[N] ", "[y/N]: ")) and (letter := process.stderr.read(1)):
                question += letter
            fingers.write(keys)
            out, err = process.communicate(timeout=120)
        return out, question + err, process.returncode

    return run


@pytest.mark.parametrize(("keys", "written"), [(b"y\n", True), (b"n\n", False), (b"\n", False)])
def test_person_approves_or_denies_a_call(typed, tmp_path, keys, written):
    """Approving a call runs it and shows the change; denying it reports the refusal to the model."""
    with FakeServer(WRITE, "Done.") as server:
        out, err, code = typed(keys, "Write it.", server=server)
        text = server.requests[-1].body.decode()
    assert (out.strip(), code) == ("Done.", 0 if written else 4)
    assert "agentkit wants to call write_file" in err
    assert (tmp_path / "note.txt").exists() is written
    assert ("\n+hello" in err) is written
    assert ("Approval was refused" in text) is not written


def test_approval_can_be_postponed(typed, command, tmp_path):
    """Ctrl-C at an approval question stores the run and shows the command that continues it."""
    with FakeServer(WRITE, "Done.") as server:
        _, err, code = typed(b"\x03", "Write it.", server=server)
        assert code == 130
        assert "The run waits for your answer about write_file.\nContinue with: agentkit -c   (later: " in err
        assert not (tmp_path / "note.txt").exists()
        assert typed(b"y\n", "-c", server=server)[2] == 0
    assert (tmp_path / "note.txt").read_text() == "hello"


def test_approval_without_a_session_cannot_be_postponed(typed):
    """Without a session, Ctrl-C at an approval question ends the run."""
    with FakeServer(WRITE) as server:
        _, err, code = typed(b"\x03", "--no-session", "Write it.", server=server)
    assert (code, err.endswith("\nInterrupted.\n")) == (130, True)


def test_dry_run_shows_the_diff_and_changes_nothing(command, tmp_path, monkeypatch):
    """With --dry-run, the diff is shown on stderr without approval, and no file is changed."""
    monkeypatch.chdir(tmp_path)
    with FakeServer(WRITE, "Done.") as server:
        _, err, code = command("--dry-run", "Write it.", server=server)
    assert (code, "+hello" in err) == (0, True)
    assert err.endswith("No changes were made: --dry-run.\n")
    assert list(tmp_path.iterdir()) == []


def test_call_without_an_approver_is_denied(command):
    """Without a terminal, the call is denied, and the model receives "There is no approver."."""
    with FakeServer(WRITE, "Done.") as server:
        _, err, code = command("Write it.", server=server)
        text = server.requests[-1].body.decode()
    assert (code, "There is no approver." in text) == (4, True)
    assert "safety-level" in err


EDIT = call("edit_file", path="note.txt", old_text="absent", new_text="x")


def test_failing_edit_does_not_ask_for_approval(command, tmp_path, monkeypatch):
    """An edit that cannot succeed fails with its error without asking for approval."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("old\n")
    with FakeServer(EDIT, "Done.") as server:
        _, err, code = command("-t", "files", "Edit it.", server=server)
        text = server.requests[-1].body.decode()
    assert (code, "old_text does not occur in 'note.txt'." in text) == (0, True)
    assert "approv" not in err


def test_diff_is_shown_before_a_file_is_replaced(typed, tmp_path):
    """The question shows the size of the old file and the diff against it."""
    (tmp_path / "note.txt").write_text("old\nsame\n")
    with FakeServer(call("write_file", path="note.txt", content="new\nsame\n"), "Done.") as server:
        _, err, _ = typed(b"n\n", "Write it.", server=server)
    question = err.partition("Allow it?")[0]
    assert "  replaces note.txt (2 lines)\n" in question
    assert "  │ -old\n" in question
    assert "  │ +new\n" in question
    assert "write_file changes files, so it needs your approval.\n" in question


def test_permanent_approval_is_listed_and_revoked(typed, command, tmp_path, monkeypatch):
    """A permanent approval applies to later runs until it is revoked."""
    monkeypatch.chdir(tmp_path)
    with FakeServer(WRITE, "Done.") as server:
        typed(b"a\n", "Write it.", server=server)
    assert command("approvals")[0].splitlines()[0].endswith('write_file(path="note.txt", content=…)')
    (tmp_path / "note.txt").unlink()
    with FakeServer(call("write_file", path="note.txt", content="again"), "Done.") as server:
        assert command("Write it.", server=server)[2] == 0
    assert (tmp_path / "note.txt").read_text() == "again"
    with FakeServer(call("write_file", path="other.txt", content="x"), "Done.") as server:
        assert command("Write it.", server=server)[2] == 4
    number = json.loads(command("approvals", "list", "--json")[0])["approvals"][0]["id"]
    _, err, code = command("approvals", "revoke", "zzz")
    assert (code, "No approval has the id 'zzz'." in err) == (2, True)
    assert command("approvals", "revoke")[2] == 2
    assert command("approvals", "revoke", number) == ("", "Revoked: 1 approval.\n", 0)
    assert "No approval is stored." in command("approvals")[1]
    with FakeServer(WRITE, "Done.") as server:
        assert command("Write it.", server=server)[2] == 4


def test_command_pattern_approval_is_stored(typed, command, tmp_path, monkeypatch):
    """`p` stores an approval for later commands that begin with the same words."""
    monkeypatch.chdir(tmp_path)
    with FakeServer(call("run_shell", command="touch a.txt"), "Done.") as server:
        _, err, _ = typed(b"p\n", "Make a file.", server=server)
    assert "p  always for commands like 'touch *', stored; to revoke it: agentkit" in err
    assert command("approvals")[0].splitlines()[0].endswith('run_shell(command="touch *")')
    for line, code in (("touch b.txt", 0), ("touch c.txt; touch d.txt", 4), ("mkdir e", 4)):
        with FakeServer(call("run_shell", command=line), "Done.") as server:
            assert command("Make another.", server=server)[2] == code
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == ["a.txt", "b.txt"]


def test_damaged_file_of_approvals_approves_nothing(command, tmp_path, monkeypatch):
    """Calls are denied while the file of approvals cannot be read, and the list states why."""
    monkeypatch.chdir(tmp_path)
    path = state_folder() / "approvals.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[{"id": 1}]')
    with FakeServer(WRITE, "Done.") as server:
        assert command("Write it.", server=server)[2] == 4
    _, err, code = command("approvals")
    assert (code, "cannot be read" in err) == (2, True)


def test_all_changes_in_the_folder_are_approved_until_the_run_ends(typed, tmp_path):
    """After w, other files are written without another question."""
    other = call("write_file", path="b/other.txt", content="more")
    with FakeServer(WRITE, other, "Done.") as server:
        _, err, code = typed(b"w\n", "Write it.", server=server)
    assert (code, err.count("Allow it?")) == (0, 1)
    assert (tmp_path / "b/other.txt").read_text() == "more"


def test_undo_asks_at_a_terminal(typed, command, tmp_path, monkeypatch):
    """The prompt, the time and the files are shown, and nothing is undone without a yes."""
    monkeypatch.chdir(tmp_path)
    with FakeServer(WRITE, "Done.") as server:
        command("-y", "Write it.", server=server)
    _, err, code = typed(b"n\n", "undo", server=None)
    shown = "agentkit: Write it.\n  created  note.txt\nUndo this? [y/N]: Nothing was undone.\n"
    assert (code, err.split("  ", 1)[1]) == (130, shown)
    assert (tmp_path / "note.txt").exists()
    assert typed(b"", "undo", "-y", server=None)[2] == 0
    assert not (tmp_path / "note.txt").exists()
