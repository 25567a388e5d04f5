"""Tests for the detection of changes made by commands."""

import subprocess
import time

import pytest

from agentkit.errors import ToolError
from agentkit.workspace.change_detection import WorkspaceSnapshot, differences, take_snapshot
from agentkit.workspace.journal import Journal
from agentkit.workspace.journal_store import InMemoryJournalStore
from agentkit.workspace.root import Root
from agentkit.workspace.workspace import Workspace


@pytest.fixture
def folder(tmp_path):
    """The folder of a workspace with files, a link and a script."""
    folder = tmp_path / "ws"
    (folder / "src/deep").mkdir(parents=True)
    (folder / "src/a.py").write_text("a = 1\n")
    (folder / "src/deep/b.py").write_text("b = 1\n")
    (folder / "run.sh").write_text("true\n")
    (folder / "link").symlink_to("src/a.py")
    (folder / ".git").mkdir()
    (folder / ".git/HEAD").write_text("x")
    return folder


def contents(folder):
    """Return every path below a folder, with its permissions and content."""
    return {
        str(place.relative_to(folder)): (
            place.lstat().st_mode,
            place.readlink() if place.is_symlink() else place.read_bytes() if place.is_file() else None,
        )
        for place in folder.rglob("*")
    }


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("true", []),
        ("echo 'b = 2' > src/deep/b.py", ["src/deep/b.py"]),
        ("rm -r src", ["src", "src/a.py", "src/deep", "src/deep/b.py"]),
        ("mkdir -p x/y && echo 1 > x/y/z", ["x", "x/y", "x/y/z"]),
        ("mv src/a.py src/c.py", ["src/a.py", "src/c.py"]),
        ("chmod +x run.sh", ["run.sh"]),
        ("ln -sf run.sh link", ["link"]),
        ("rm link && echo real > link", ["link"]),
        ("rm run.sh && mkdir run.sh && echo 1 > run.sh/x", ["run.sh", "run.sh/x"]),
        ("rm -r src && echo file > src", ["src", "src/a.py", "src/deep", "src/deep/b.py"]),
        ("rm run.sh && mkfifo run.sh", ["run.sh"]),
        ("touch src/a.py; echo x > .git/HEAD; mkdir node_modules; echo x > node_modules/m", []),
        ("chmod 700 src", ["src"]),
        ("rm -r src && mkdir src && echo 'a = 1' > src/a.py", ["src/deep", "src/deep/b.py"]),
    ],
)
@pytest.mark.parametrize("in_files", [True, False])
def test_command_changes_are_recorded_and_undone(command, paths, in_files, folder, tmp_path):
    """All changes of a command are recorded and undone exactly."""
    before = contents(folder)
    run = Workspace(folder, journal=Journal(tmp_path / "j" if in_files else None)).for_run("r")
    with run.observing("run_shell"):
        subprocess.run(["sh", "-c", command], cwd=folder, check=True)
    assert sorted(change.path for change in run.record.changes) == paths
    assert not list(tmp_path.glob("j/*.before"))
    run.undo()
    after = contents(folder)
    skipped = (".git", "node_modules")
    assert {p: s for p, s in after.items() if not p.startswith(skipped)} == {
        p: s for p, s in before.items() if not p.startswith(skipped)
    }


def test_changes_of_a_failed_command_are_recorded(folder):
    """The changes of a command that fails are recorded."""
    run = Workspace(folder).for_run()

    def fail():
        with run.observing("run_shell"):
            (folder / "run.sh").write_text("changed")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "+changed" in run.changes


def test_removed_folder_is_created_again(folder):
    """A file is restored even if its folder was removed afterwards."""
    run = Workspace(folder).for_run()
    with run.observing("run_shell"):
        (folder / "src/deep/b.py").unlink()
    (folder / "src/deep").rmdir()
    run.undo()
    assert (folder / "src/deep/b.py").read_text() == "b = 1\n"


def test_too_large_folder_cannot_be_undone(folder):
    """If there is too much to record, the record and the undo state that the command cannot be undone."""
    for number in range(2_001):
        (folder / f"{number}").touch()
    run = Workspace(folder).for_run()
    with run.observing("run_shell"):
        (folder / "run.sh").write_text("changed")
    run.write("src/a.py", "new")
    (note,) = run.record.notes
    assert note.startswith("The changes of run_shell cannot be undone: the folder has more than 2,000 files or 20 MB")
    undone = run.undo()
    assert undone.notes == (note,)
    assert str(undone).endswith(f"{note}.")
    assert (folder / "run.sh").read_text() == "changed"


def test_limit_applies_to_bytes(folder):
    """The limit applies to bytes as well as files."""
    with pytest.raises(ToolError, match="more than 10 files or 0 MB"):
        take_snapshot(Root(folder), max_files=10, max_bytes=10)


def test_unrecordable_file_names_are_counted(folder):
    """Files whose names contain control characters are counted but not recorded."""
    (folder / "old\nname").write_text("x")
    run = Workspace(folder).for_run()
    with run.observing("run_shell"):
        (folder / "new\nname").write_text("x")
    assert run.record.changes == ()
    assert "2 new files have names that cannot be recorded" in run.record.notes[0]


def test_too_many_new_files_are_not_all_compared(folder):
    """If a command creates too many files, the record states that not all were compared."""
    snapshot = take_snapshot(Root(folder))
    (folder / "many").mkdir()
    for number in range(30):
        (folder / "many" / str(number)).touch()
    changes, left_out = differences(snapshot, Root(folder), "run_shell", max_paths=20)
    assert "more than 20 files" in left_out
    assert len(changes) < 20


def test_snapshot_round_trips(folder):
    """A snapshot that is encoded and decoded is equal."""
    store = InMemoryJournalStore()
    snapshot = take_snapshot(Root(folder))
    snapshot.keep(store)
    assert WorkspaceSnapshot.load(store) == snapshot


def test_snapshot_is_quick(folder, tmp_path):
    """A snapshot of two thousand small files takes a fraction of a second."""
    for number in range(1_900):
        (folder / f"{number}.txt").write_text("x" * 5_000)
    run = Workspace(folder, journal=Journal(tmp_path / "j")).for_run("r")
    started = time.perf_counter()
    with run.observing("run_shell"):
        (folder / "1.txt").write_text("changed")
    assert time.perf_counter() - started < 10
    assert [change.path for change in run.record.changes] == ["1.txt"]


def test_agentkit_files_are_not_recorded(folder, monkeypatch):
    """Files that agentkit writes to its state folder are not recorded as changes of a command."""
    monkeypatch.setenv("AGENTKIT_STATE", str(folder / "state"))
    (folder / "state").mkdir()
    snapshot = take_snapshot(Root(folder))
    (folder / "state/x.journal").write_text("x")
    assert not any(place.startswith("state") for place in snapshot.places)
    assert differences(snapshot, Root(folder), "run_shell") == ([], "")
