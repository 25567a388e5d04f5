"""Tests for `agentkit undo`, which reverts the changes of earlier processes."""

import re

from agentkit.settings import state_folder


def test_undo_from_another_process(command, tmp_path, monkeypatch):
    """A file written in one process is shown as a diff and removed by `undo` in another."""
    monkeypatch.chdir(tmp_path)
    _, err, code = command("tools", "run", "write_file", "path=note.txt", "content=hello")
    assert (code, err) == (0, "")
    assert (tmp_path / "note.txt").read_text() == "hello"
    listed, _, _ = command("undo", "--list")
    shown, _, _ = command("undo", "--diff")
    assert "write_file" in listed
    assert "+hello" in shown
    out, err, code = command("undo")
    assert (code, err.split("  ", 1)[1]) == (0, "tools run write_file\n  created  note.txt\n")
    assert "note.txt" in out
    assert not (tmp_path / "note.txt").exists()


def test_undo_without_changes_is_an_error(command):
    """`undo` without changes is an error (exit code 1)."""
    out, err, code = command("undo")
    assert (code, out) == (1, "")
    assert "nothing to undo" in err


def test_undo_suggests_changes_in_another_folder(command, tmp_path, monkeypatch):
    """`undo` in a folder without changes suggests the command that undoes the latest run elsewhere."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "there")
    command("tools", "run", "write_file", "path=note.txt", "content=hello")
    monkeypatch.chdir(tmp_path / "here")
    _, err, code = command("undo")
    assert (code, f"(in {tmp_path / 'there'})" in err) == (1, True)
    run = re.search(r"elsewhere: agentkit undo (\S+)", err)[1]
    assert command("undo", run)[2] == 0
    assert not (tmp_path / "there/note.txt").exists()


def test_undo_rejects_files_changed_since(command, tmp_path, monkeypatch):
    """`undo` does not revert a file that was changed after the tool wrote it."""
    monkeypatch.chdir(tmp_path)
    command("tools", "run", "write_file", "path=note.txt", "content=hello")
    (tmp_path / "note.txt").write_text("mine")
    _, err, code = command("undo")
    assert code != 0
    assert "note.txt" in err
    assert (tmp_path / "note.txt").read_text() == "mine"


def test_damaged_record_is_skipped(command, tmp_path, monkeypatch):
    """A damaged record is reported and skipped; the others are listed and undone."""
    monkeypatch.chdir(tmp_path)
    command("tools", "run", "write_file", "path=note.txt", "content=hello")
    (state_folder() / "journal/1~x.journal").write_text('{"run":"x","sizes":[]}\n\n')
    (state_folder() / "journal/2~x.journal").mkdir()
    listed, err, code = command("undo", "--list")
    assert ("write_file" in listed, code) == (True, 0)
    assert [line.startswith("Skipped: ") for line in err.splitlines()] == [True, True]
    _, err, code = command("undo")
    assert (code, "1~x.journal" in err, (tmp_path / "note.txt").exists()) == (0, True, False)


def test_diff_redacts_secrets(command, tmp_path, monkeypatch):
    """Keys are redacted in the diff of a run."""
    monkeypatch.chdir(tmp_path)
    token = f"ghp_{'a1' * 20}"
    command("tools", "run", "write_file", "path=note.txt", f"content=token {token}")
    shown, _, _ = command("undo", "--diff")
    assert "+token [redacted" in shown
    assert token not in shown
