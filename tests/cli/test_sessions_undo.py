"""`agentkit undo`: the changes of earlier processes."""

import re

from agentkit.settings import state_folder


def test_what_a_process_wrote_is_undone_by_another(command, tmp_path, monkeypatch):
    """A file that a tool wrote is shown as a difference, and gone again after an undo."""
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


def test_nothing_to_undo_is_said(command):
    """Without changes an undo fails and says why."""
    out, err, code = command("undo")
    assert (code, out) == (1, "")
    assert "nothing to undo" in err


def test_changes_elsewhere_are_named(command, tmp_path, monkeypatch):
    """In a folder without changes it is said which command takes back those of the latest run elsewhere."""
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


def test_undo_refuses_what_was_changed_since(command, tmp_path, monkeypatch):
    """A file that somebody changed after the tool is left as it is."""
    monkeypatch.chdir(tmp_path)
    command("tools", "run", "write_file", "path=note.txt", "content=hello")
    (tmp_path / "note.txt").write_text("mine")
    _, err, code = command("undo")
    assert code != 0
    assert "note.txt" in err
    assert (tmp_path / "note.txt").read_text() == "mine"


def test_damaged_record_is_named_and_passed_over(command, tmp_path, monkeypatch):
    """A record that cannot be read is told on the error stream, and the others are listed and undone."""
    monkeypatch.chdir(tmp_path)
    command("tools", "run", "write_file", "path=note.txt", "content=hello")
    (state_folder() / "journal/1~x.journal").write_text('{"run":"x","sizes":[]}\n\n')
    (state_folder() / "journal/2~x.journal").mkdir()
    listed, err, code = command("undo", "--list")
    assert ("write_file" in listed, code) == (True, 0)
    assert [line.startswith("Skipped: ") for line in err.splitlines()] == [True, True]
    _, err, code = command("undo")
    assert (code, "1~x.journal" in err, (tmp_path / "note.txt").exists()) == (0, True, False)


def test_difference_hides_secrets(command, tmp_path, monkeypatch):
    """What a run wrote is shown without keys."""
    monkeypatch.chdir(tmp_path)
    token = f"ghp_{'a1' * 20}"
    command("tools", "run", "write_file", "path=note.txt", f"content=token {token}")
    shown, _, _ = command("undo", "--diff")
    assert "+token [redacted" in shown
    assert token not in shown
