"""Is a person at the terminal asked, and does the run do what was answered?"""

import fcntl
import os
import pty
import termios

import pytest

from agentkit.testing import FakeServer, call

WRITE = call("write_file", path="note.txt", content="hello")


def own_terminal(screen):
    """What gives a new process this terminal, so that Ctrl-C typed there reaches it."""

    def take():
        os.setsid()
        fcntl.ioctl(screen, termios.TIOCSCTTY, 0)

    return take


@pytest.fixture
def typed(spawn, tmp_path):
    """Run a command line in a folder of its own, with these keys typed at its terminal."""

    def run(keys, *arguments, server):
        keyboard, screen = pty.openpty()
        with os.fdopen(keyboard, "wb", buffering=0) as fingers:
            process = spawn(*arguments, server=server, stdin=screen, cwd=tmp_path, preexec_fn=own_terminal(screen))
            os.close(screen)
            asked = ""
            while not asked.endswith("[N] no: ") and (letter := process.stderr.read(1)):
                asked += letter
            fingers.write(keys)
            out, err = process.communicate(timeout=120)
        return out, asked + err, process.returncode

    return run


@pytest.mark.parametrize(("keys", "written"), [(b"y\n", True), (b"n\n", False), (b"\n", False)])
def test_person_decides(typed, tmp_path, keys, written):
    """Writing is asked about on stderr; a yes lets it happen and shows the change, a no is told to the model."""
    with FakeServer(WRITE, "Done.") as server:
        out, err, code = typed(keys, "Write it.", server=server)
        told = server.requests[-1].body.decode()
    assert (out.strip(), code) == ("Done.", 0 if written else 4)
    assert "agentkit wants to call write_file" in err
    assert (tmp_path / "note.txt").exists() is written
    assert ("+hello" in err) is written
    assert ("Approval was refused" in told) is not written


def test_a_question_can_wait(typed, command, tmp_path):
    """Ctrl-C at a question leaves it for later: the run is kept, and it is told how it goes on."""
    with FakeServer(WRITE, "Done.") as server:
        _, err, code = typed(b"\x03", "Write it.", server=server)
        assert code == 130
        assert "The run waits for your answer about write_file.\nGo on with: agentkit -c   (later: " in err
        assert not (tmp_path / "note.txt").exists()
        assert typed(b"y\n", "-c", server=server)[2] == 0
    assert (tmp_path / "note.txt").read_text() == "hello"


def test_a_question_that_is_not_kept_cannot_wait(typed):
    """Without a session Ctrl-C at a question ends the run."""
    with FakeServer(WRITE) as server:
        _, err, code = typed(b"\x03", "--no-session", "Write it.", server=server)
    assert (code, err.endswith("\nInterrupted.\n")) == (130, True)


def test_dry_run_shows_and_changes_nothing(command, tmp_path, monkeypatch):
    """With --dry-run the difference is shown on stderr, nobody is asked, and the folder stays as it is."""
    monkeypatch.chdir(tmp_path)
    with FakeServer(WRITE, "Done.") as server:
        _, err, code = command("--dry-run", "Write it.", server=server)
    assert (code, "+hello" in err) == (0, True)
    assert err.endswith("Nothing of this was done: --dry-run.\n")
    assert list(tmp_path.iterdir()) == []


def test_nobody_there_is_told_as_that(command):
    """Without a terminal the model is told that there is nobody to approve, and how it would be allowed."""
    with FakeServer(WRITE, "Done.") as server:
        _, err, code = command("Write it.", server=server)
        told = server.requests[-1].body.decode()
    assert (code, "There is nobody to approve it." in told) == (4, True)
    assert "safety-level" in err
