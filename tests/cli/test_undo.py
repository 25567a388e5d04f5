"""Does `agentkit undo` take back what an earlier process changed?"""


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
    assert (code, err) == (0, "")
    assert "note.txt" in out
    assert not (tmp_path / "note.txt").exists()


def test_nothing_to_undo_is_said(command):
    """Without changes an undo fails and says why."""
    out, err, code = command("undo")
    assert (code, out) == (1, "")
    assert "nothing to undo" in err


def test_undo_refuses_what_was_changed_since(command, tmp_path, monkeypatch):
    """A file that somebody changed after the tool is left as it is."""
    monkeypatch.chdir(tmp_path)
    command("tools", "run", "write_file", "path=note.txt", "content=hello")
    (tmp_path / "note.txt").write_text("mine")
    _, err, code = command("undo")
    assert code != 0
    assert "note.txt" in err
    assert (tmp_path / "note.txt").read_text() == "mine"
