"""Tests for records of changes by runs, and their undo."""

import copy
import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentkit.errors import ConfigError, ToolError
from agentkit.workspace.journal import Journal, Record
from agentkit.workspace.journal_store import InMemoryJournalStore
from agentkit.workspace.root import Root
from agentkit.workspace.snapshots import ABSENT, FileChange, State
from agentkit.workspace.workspace import Workspace


@pytest.fixture(params=["memory", "files"])
def journal(request, tmp_path):
    """A journal in memory or in files."""
    return Journal(tmp_path / "journal" if request.param == "files" else None)


@pytest.fixture
def folder(tmp_path):
    """The folder of a workspace with a few files."""
    folder = tmp_path / "ws"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "sub/b.txt").write_text("b\n")
    return folder


def contents(folder):
    """Return every path below a folder, with its kind, content and permissions."""
    return {
        str(place.relative_to(folder)): (
            stat.S_IMODE(place.lstat().st_mode),
            place.readlink() if place.is_symlink() else place.read_bytes() if place.is_file() else None,
        )
        for place in folder.rglob("*")
    }


def test_run_is_recorded_and_undone_as_a_whole(journal, folder):
    """All changes of a run form one diff and are undone together."""
    before = contents(folder)
    run = Workspace(folder, journal=journal).for_run("r1", "tidy up")
    run.write("a.txt", "one\nTWO\n")
    run.write("a.txt", "one\nTHREE\n")
    run.write("new/deep/c.txt", "c\n")
    run.edit("sub/b.txt", "b", "B")
    record = journal.last()
    assert (record.id, record.label) == ("r1", "tidy up")
    assert [change.path for change in record.changes] == ["a.txt", "new", "new/deep", "new/deep/c.txt", "sub/b.txt"]
    assert "-two\n+THREE\n" in record.diff
    assert "TWO" not in record.diff

    undone = record.undo()
    assert contents(folder) == before
    assert (undone.restored, undone.removed) == (("a.txt", "sub/b.txt"), ("new/deep/c.txt",))
    assert str(undone) == "Restored 'a.txt', 'sub/b.txt' and removed 'new/deep/c.txt'."
    assert journal.last() is None
    with pytest.raises(ToolError, match="already undone"):
        record.undo()


def test_changed_file_prevents_the_undo(journal, folder):
    """If a file was changed since, an undo raises an error with its name and changes nothing."""
    run = Workspace(folder, journal=journal).for_run()
    run.write("a.txt", "mine")
    run.write("sub/b.txt", "mine")
    (folder / "sub/b.txt").write_text("somebody else's")
    before = contents(folder)
    with pytest.raises(ToolError, match=r"Nothing was undone: 'sub/b.txt' was changed since"):
        run.undo()
    assert contents(folder) == before
    (folder / "sub/b.txt").write_text("mine")
    run.undo()
    assert (folder / "a.txt").read_text() == "one\ntwo\n"


def test_folder_with_other_files_is_not_removed(journal, folder):
    """An undo does not remove a created folder that contains other files."""
    run = Workspace(folder, journal=journal).for_run()
    run.write("new/c.txt", "c")
    (folder / "new/other.txt").write_text("other")
    run.undo()
    assert contents(folder)["new/other.txt"][1] == b"other"
    assert not (folder / "new/c.txt").exists()


def test_failed_change_is_not_recorded(journal, folder):
    """A failed change is not recorded, and the folders created for it are removed."""
    (folder / "l").symlink_to("a.txt")
    run = Workspace(folder, journal=journal).for_run()
    with pytest.raises(ToolError):
        run.write("l", "x")
    assert (run.changes, run.record.changes) == ("", ())
    run.write("a.txt", "new")
    assert [change.path for change in run.record.changes] == ["a.txt"]


def test_failed_direct_change_is_an_error(folder):
    """A change without a run that could not be made raises its error and leaves no record; later ones are recorded."""
    (folder / "l").symlink_to("a.txt")
    direct = Workspace.for_direct_calls(folder)
    with pytest.raises(ToolError):
        direct.write("l", "x")
    assert direct.journal.runs() == []
    direct.write("a.txt", "new")
    assert [run.changes[0].path for run in direct.journal.runs()] == ["a.txt"]


def test_runs_are_listed_in_order(journal, folder):
    """Runs with changes are listed, the oldest first, and can be found by their id."""
    workspace = Workspace(folder, journal=journal)
    for number in range(3):
        workspace.for_run(f"r{number}").write("a.txt", f"{number}")
    workspace.for_run("idle")
    assert [record.id for record in journal.runs()] == ["r0", "r1", "r2"]
    assert journal.find("r1").changes[0].after.content == b"1"
    with pytest.raises(ToolError, match="no run 'idle'"):
        journal.find("idle")


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", "x" * 101, "é"])
def test_id_of_a_run_is_a_valid_file_name(run_id, tmp_path):
    """A run ID that is not a valid file name is rejected."""
    journal = Journal(tmp_path)
    if run_id:
        with pytest.raises(ConfigError, match="cannot be the id of a run"):
            journal.begin("", run_id)
    else:
        assert journal.begin("", run_id).id


def test_journal_is_private(tmp_path, folder):
    """A journal can be read only by its owner."""
    journal = Journal(tmp_path / "j/k")
    Workspace(folder, journal=journal).for_run("r").write("a.txt", "x")
    assert stat.S_IMODE((tmp_path / "j/k").stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "j/k").iterdir()] == [0o600]


def test_journal_needs_a_folder(folder):
    """Without a writable journal nothing is changed, and a run without changes is not affected."""
    before = contents(folder)
    workspace = Workspace(folder, journal=Journal(folder / "a.txt")).for_run("r")
    assert workspace.read("a.txt").size
    with pytest.raises(ToolError, match="journal cannot be stored"):
        workspace.write("b.txt", "x")
    assert contents(folder) == before


def test_run_without_changes_leaves_no_journal(tmp_path, folder):
    """Nothing is written, not even a folder, until a run changes something."""
    Workspace(folder, journal=Journal(tmp_path / "j")).for_run("r").read("a.txt")
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_record_can_be_copied(tmp_path, folder, duplicate):
    """A copy of a record, in this or another process, shows and undoes the same changes."""
    before = contents(folder)
    workspace = Workspace(folder, journal=Journal(tmp_path / "j")).for_run("r")
    workspace.write("a.txt", "x")
    record = duplicate(workspace.record)
    assert record.diff == workspace.changes
    record.undo()
    assert contents(folder) == before


def test_journal_can_be_reopened(tmp_path, folder):
    """A run stored in a journal can be found and undone by another journal object."""
    before = contents(folder)
    Workspace(folder, journal=Journal(tmp_path / "j")).for_run("r", "first").write("a.txt", "x")
    later = Journal(tmp_path / "j").find("r")
    assert later.label == "first"
    later.undo()
    assert contents(folder) == before
    assert Journal(tmp_path / "j").find("r").is_undone


def test_invalid_record_is_skipped(tmp_path, folder):
    """An invalid file in the journal folder is ignored."""
    journal = Journal(tmp_path / "j")
    Workspace(folder, journal=journal).for_run("r").write("a.txt", "x")
    (tmp_path / "j/0.journal").write_text("nonsense")
    (tmp_path / "j/1.journal").write_text('{"note": "x", "sizes": []}\n\n')
    assert [record.id for record in journal.runs()] == ["r"]


def test_number_of_stored_runs_is_limited(tmp_path, folder):
    """The number of stored runs is limited, but runs that may still be active stay."""
    journal = Journal(tmp_path / "j", max_runs=3)
    workspace = Workspace(folder, journal=journal)
    for number in range(6):
        workspace.for_run(f"r{number}").write("a.txt", f"{number}")
    assert len(journal.runs()) == 6
    for file in (tmp_path / "j").iterdir():
        os.utime(file, (1, 1))
    workspace.for_run("last").write("a.txt", "x")
    assert [record.id for record in journal.runs()] == ["r3", "r4", "r5", "last"]
    for file in (tmp_path / "j").iterdir():
        os.utime(file, (1, 1))
    Journal(tmp_path / "j", max_bytes=1).begin(run_id="new").note("x")
    assert [record.id for record in journal.runs()] == ["new"]


def test_default_journal_is_looked_up_on_use(tmp_path, monkeypatch):
    """The default location of the journal is looked up on each use, and creating a journal costs nothing."""
    journal = Journal.of_this_machine()
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path / "state"))
    assert journal.folder == tmp_path / "state/journal"
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path / "other"))
    assert journal.folder == tmp_path / "other/journal"


def test_number_of_runs_in_memory_is_limited(folder):
    """The number of runs in memory is limited."""
    journal = Journal(max_runs=2)
    workspace = Workspace(folder, journal=journal)
    for number in range(4):
        workspace.for_run(f"r{number}").write("a.txt", f"{number}")
    assert [record.id for record in journal.runs()] == ["r2", "r3"]


CRASH = """
import os, signal, sys
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace
run = Workspace(sys.argv[1], journal=Journal(sys.argv[2])).for_run("r")
run.write("a.txt", "changed")
"""


def run_until_killed(folder, journal, rest):
    """Run a program that is killed at its end."""
    program = CRASH + rest + "\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run([sys.executable, "-c", program, str(folder), str(journal)], check=False)
    assert done.returncode == -signal.SIGKILL
    return Journal(journal).find("r")


def test_changes_of_a_killed_process_can_be_undone(tmp_path, folder):
    """Changes made before a process was killed can be undone."""
    before = contents(folder)
    record = run_until_killed(folder, tmp_path / "j", "")
    assert "+changed" in record.diff
    record.undo()
    assert contents(folder) == before


@pytest.mark.parametrize("was_made", [True, False])
def test_disk_shows_whether_the_last_change_was_made(was_made, tmp_path, folder):
    """If a process was killed while making a recorded change, the disk shows whether it was made."""
    before = contents(folder)
    rest = f"""
from agentkit.workspace.snapshots import ABSENT, FileChange, State
change = FileChange({str(folder)!r}, "n.txt", ABSENT, State.of("file", b"n"), "write_file", 1.0)
with run.record.making([change]):
    if {was_made}:
        open({str(folder / "n.txt")!r}, "w").write("n")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    record = run_until_killed(folder, tmp_path / "j", rest)
    assert ("n.txt" in [change.path for change in record.changes]) is was_made
    record.undo()
    assert contents(folder) == before


def test_interrupted_change_is_undone_with_a_later_one(tmp_path, folder):
    """An interrupted change is undone together with a later change of the same file."""
    before = contents(folder)
    rest = """
from agentkit.workspace.snapshots import FileChange, State
change = FileChange(run.folder, "a.txt", run._root().inspect("a.txt"), State.of("file", b"half way"), "write_file", 1.0)
with run.record.making([change]):
    open(f"{run.folder}/a.txt", "w").write("half way")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    run_until_killed(folder, tmp_path / "j", rest)
    run = Workspace(folder, journal=Journal(tmp_path / "j")).for_run("r")
    run.write("a.txt", "the end")
    run.undo()
    assert contents(folder) == before


@pytest.fixture
def room_for(tmp_path):
    """Limit the size of files from now on, or remove the limit."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def leave(size=None):
        resource.setrlimit(resource.RLIMIT_FSIZE, limits if size is None else (size, limits[1]))

    yield leave
    leave()


def journal_size(folder):
    """Return the length of the only journal in a folder."""
    return next(folder.glob("*.journal")).stat().st_size


def by_tool(workspace):
    """Make a change with a file tool."""
    workspace.write("a.txt", "changed")


def by_command(workspace):
    """Make a change with a command."""
    with workspace.observing("run_shell"):
        Path(workspace.folder, "a.txt").write_text("changed")


@pytest.mark.parametrize("change", [by_tool, by_command])
def test_full_disk_leaves_consistent_records(change, tmp_path, folder, room_for):
    """On a full disk a change either raises an error and is not made, or is made and can be undone."""
    before = contents(folder)
    first = Workspace(folder, journal=Journal(tmp_path / "whole")).for_run("r")
    change(first)
    full_text, after = journal_size(tmp_path / "whole"), contents(folder)
    first.undo()
    for size in range(full_text - 400, full_text, 25):
        run = Workspace(folder, journal=Journal(tmp_path / str(size))).for_run("r")
        room_for(size)
        try:
            change(run)
        except ToolError:
            made = before
        else:
            made = after
        room_for()
        assert contents(folder) == made
        run.undo()
        assert contents(folder) == before


def test_undo_works_on_a_full_disk(tmp_path, folder, room_for):
    """An undo is reported as done even if the journal cannot record it."""
    before = contents(folder)
    run = Workspace(folder, journal=Journal(tmp_path / "j")).for_run("r")
    by_tool(run)
    room_for(journal_size(tmp_path / "j"))
    undone = run.undo()
    room_for()
    assert (contents(folder), undone.restored) == (before, ("a.txt",))
    assert "so the change is not recorded" in str(undone)


def test_incomplete_note_of_a_killed_process_is_ignored(tmp_path, folder):
    """An incomplete note belongs to a change that was not made."""
    before = contents(folder)
    record = run_until_killed(folder, tmp_path / "j", "")
    (file,) = (tmp_path / "j").iterdir()
    with file.open("ab") as stream:
        stream.write(b'{"root": "/", "path": "x", "si')
    assert [change.path for change in record.changes] == ["a.txt"]
    record.undo()
    assert contents(folder) == before
    assert Journal(tmp_path / "j").find("r").is_undone


def test_command_of_a_killed_process_can_be_undone(tmp_path, folder):
    """The changes of a command whose process was killed are found by its snapshot and undone."""
    before = contents(folder)
    rest = f"""
with run.observing("run_shell"):
    os.remove({str(folder / "sub/b.txt")!r})
    open({str(folder / "made.txt")!r}, "w").write("made")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    record = run_until_killed(folder, tmp_path / "j", rest)
    assert sorted(change.path for change in record.changes) == ["a.txt", "made.txt", "sub/b.txt"]
    record.undo()
    assert contents(folder) == before


def test_lost_snapshot_is_not_taken_for_an_empty_folder(tmp_path, folder):
    """If the snapshot of a command is lost, existing files do not count as new."""
    record = run_until_killed(
        folder, tmp_path / "j", 'with run.observing("x"):\n    os.kill(os.getpid(), signal.SIGKILL)'
    )
    assert record.notes == ("x was interrupted: all changes since its start are attributed to it",)
    (spool,) = (tmp_path / "j").glob("*.before")
    spool.write_bytes(spool.read_bytes()[:-20])
    assert [change.path for change in record.changes] == ["a.txt"]
    record.undo()
    assert (folder / "sub/b.txt").exists()


def test_missing_workspace_of_a_command(tmp_path, folder):
    """If the workspace of a command no longer exists, the rest of its record can be read."""
    record = run_until_killed(
        folder, tmp_path / "j", 'with run.observing("x"):\n    os.kill(os.getpid(), signal.SIGKILL)'
    )
    folder.rename(tmp_path / "elsewhere")
    assert [change.path for change in record.changes] == ["a.txt"]


def test_unconfirmed_change_in_a_missing_folder_is_ignored(tmp_path):
    """An unconfirmed change in a workspace that no longer exists is ignored."""
    record = Journal(tmp_path / "j").begin()
    change = FileChange(str(tmp_path / "gone"), "a", ABSENT, State.of("file", b"a"))
    with pytest.raises(RuntimeError), record.making([change]):
        raise RuntimeError
    assert record.changes == ()


def test_unstored_content_cannot_be_restored(folder):
    """A change without stored previous content cannot be undone, which is reported before anything is done."""
    record = Journal().begin()
    root = Root(folder)
    before = root.inspect("a.txt", 2)
    with record.making([FileChange(str(folder), "a.txt", before, State.of("file", b"x"))]):
        root.write("a.txt", b"x")
    with pytest.raises(ToolError, match=r"the earlier content of 'a.txt' is not stored"):
        record.undo()


def test_concurrent_runs_are_independent(journal, folder):
    """Runs that change files concurrently are undone independently."""
    before = contents(folder)
    workspace = Workspace(folder, journal=journal)
    runs = [workspace.for_run(f"r{number}") for number in range(4)]

    def work(number):
        for index in range(15):
            runs[number].write(f"{number}/{index % 5}.txt", f"{number} {index}")

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (2, 0, 3, 1):
        assert len(runs[number].record.changes) == 6
        runs[number].undo()
        assert not (folder / str(number)).exists()
    assert contents(folder) == before


HEADER = '{"run": "r", "label": "", "started": 1.0, "sizes": []}\n\n'
STATE = '{"kind": "absent", "mode": 0, "fingerprint": "", "size": 0, "links": 1}'


@pytest.mark.parametrize(
    "text",
    [
        *('{"run": "x", "sizes": []}\n\n', '{"run": "r", "sizes": [99999999999999]}\n\n', "[" * 200_000, ""),
        *(HEADER.replace('"r"', '"../x"'), HEADER.replace("1.0", '"now"'), HEADER.replace('"r"', "7")),
        HEADER + '{"root": "/", "path": "a", "sizes": [null, null]}\n\n',
        HEADER + f'{{"root":"/","path":"a","tool":"","time":1,"before":{STATE},"after":{{}},"sizes":[null,null]}}\n\n',
        HEADER + f'{{"root":"/","path":"a","tool":"","time":1,"before":{STATE},"after":{STATE},"sizes":[]}}\n\n',
        HEADER + '{"done": "0", "count": 1, "sizes": []}\n\n',
        HEADER + '{"watch": 1, "places": 1, "root": "/", "tool": "", "sizes": []}\n\n',
        None,
    ],
)
def test_damaged_record_is_skipped_and_reported(text, tmp_path, folder):
    """A damaged record is skipped and reported."""
    journal = Journal(tmp_path / "j")
    Workspace(folder, journal=journal).for_run("whole").write("a.txt", "x")
    damaged = tmp_path / "j/1~x.journal"
    damaged.mkdir() if text is None else damaged.write_text(text)
    assert [(record.id, len(record.changes)) for record in journal.runs()] == [("whole", 1)]
    assert len(journal.damaged) == 1
    assert "1~x.journal" in journal.damaged[0]
    os.utime(damaged, (1, 1))
    Journal(tmp_path / "j", max_runs=1).begin(run_id="new").note("x")
    assert journal.last().id == "whole"


def test_record_is_found_without_reading_others(tmp_path, folder):
    """Finding or resuming a run by its ID does not read the records of other runs."""
    journal = Journal(tmp_path / "j")
    Workspace(folder, journal=journal).for_run("mine").write("a.txt", "x")
    for number in range(3):
        (tmp_path / f"j/{number}~other{number}.journal").write_text("damaged")
    assert journal.find("mine").id == "mine"
    assert len(journal.continued("label", "mine").changes) == 1
    assert journal.damaged == (), "no other record was read"
    assert journal.continued("label", "other1").changes == ()
    for unknown in ("none", "*", "min?", "../mine"):
        with pytest.raises(ToolError, match="no run"):
            journal.find(unknown)


def test_counts_in_a_record_are_bounded_by_it(tmp_path):
    """Counts of completed changes are bounded by the recorded ones."""
    (tmp_path / "1~r.journal").write_text(
        HEADER + f'{{"done": -5, "count": {10**22}, "modes": 3, "sizes": []}}\n\n{{"undone": 1, "sizes": []}}\n\n'
    )
    (record,) = Journal(tmp_path).runs()
    assert (record.changes, record.is_undone) == ((), True)


def test_impossible_workspace_in_a_record_is_an_error(tmp_path):
    """Undoing a record whose workspace cannot exist raises a readable error."""
    change = f'"path":"a","tool":"","time":1,"before":{STATE},"after":{STATE.replace("absent", "folder")}'
    text = HEADER + f'{{"root":"a\\u0000b",{change},"sizes":[null,null]}}\n\n{{"done":0,"count":1,"sizes":[]}}\n\n'
    (tmp_path / "1~r.journal").write_text(text)
    (record,) = Journal(tmp_path).runs()
    with pytest.raises(ToolError, match="cannot be used as the workspace folder"):
        record.undo()


def test_changed_permissions_prevent_an_undo(journal, folder):
    """A file whose permissions were changed since is not undone."""
    run = Workspace(folder, journal=journal).for_run()
    run.write("a.txt", "secret now")
    run.write("n.txt", "new")
    (folder / "a.txt").chmod(0o600)
    with pytest.raises(ToolError, match=r"'a.txt' was changed since"):
        run.undo()
    (folder / "a.txt").chmod(0o644)
    (folder / "n.txt").chmod(0o600)
    with pytest.raises(ToolError, match=r"'n.txt' was changed since"):
        run.undo()
    (folder / "n.txt").chmod(0o644)
    run.undo()
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o644


def test_text_restored_by_a_person_is_not_undone(journal, folder):
    """An intermediate state that the user restored is not undone."""
    run = Workspace(folder, journal=journal).for_run()
    run.write("a.txt", "v1")
    run.write("a.txt", "v2")
    (folder / "a.txt").write_text("v1")
    with pytest.raises(ToolError, match=r"'a.txt' was changed since"):
        run.undo()
    assert (folder / "a.txt").read_text() == "v1"


class Immutable(Root):
    """A root in which some files cannot be written."""

    def __init__(self, folder, *stuck):
        super().__init__(folder)
        self.stuck = dict.fromkeys(stuck, 0)

    def write(self, place, content, mode=None):
        """Reject one path from the first time on, and another from the second."""
        if place in self.stuck:
            self.stuck[place] -= 1
            if self.stuck[place] < 0:
                raise ToolError(f"{place} may not be touched.")
        super().write(place, content, mode)


@pytest.mark.parametrize(
    ("tries", "problem", "left"),
    [
        (9, "Nothing was undone: sub/b.txt may not", "mine"),
        (1, r"Only a part was undone, and 'a.txt' cannot", "one\ntwo\n"),
    ],
)
def test_failed_undo_is_rolled_back(tries, problem, left, folder):
    """If a file cannot be restored, the others are rolled back where possible and the error is raised."""
    root = Immutable(folder, "a.txt", "sub/b.txt")
    record = Record("r", "", InMemoryJournalStore(), roots=lambda _: root)
    run = Workspace(folder, run=record)
    run.write("a.txt", "mine")
    run.write("sub/b.txt", "mine")
    root.stuck["a.txt"] = tries
    with pytest.raises(ToolError, match=problem):
        record.undo()
    assert (folder / "a.txt").read_text() == left
    assert (folder / "sub/b.txt").read_text() == "mine"
    assert not record.is_undone


def test_unstored_content_is_reported(folder):
    """A file whose earlier content was not stored is reported, and the others are restored."""
    record = Journal().begin()
    root = Root(folder)
    before = root.inspect("a.txt", 2)
    with record.making([FileChange(str(folder), "a.txt", before, State.of("file", b"x"))]):
        root.write("a.txt", b"x")
    Workspace(folder, run=record).write("sub/b.txt", "mine")
    undone = record.undo()
    assert (undone.restored, undone.notes) == (("sub/b.txt",), ("the earlier content of 'a.txt' is not stored",))
    assert ((folder / "a.txt").read_text(), (folder / "sub/b.txt").read_text()) == ("x", "b\n")


def test_continued_run_can_be_undone_again(tmp_path, folder):
    """Changes made after another process has undone a run can be undone separately."""
    before = contents(folder)
    journal = Journal(tmp_path / "j")
    run = Workspace(folder, journal=journal).for_run("r")
    run.write("a.txt", "first")
    change = FileChange(str(folder), "late.txt", ABSENT, State.of("file", b"late"), "write_file", 1.0)
    with run.record.making([change]):  # started, but not visible on the disk yet
        Journal(tmp_path / "j").last().undo()
        assert contents(folder) == before
        (folder / "late.txt").write_text("late")
    run.write("sub/b.txt", "second")
    later = Journal(tmp_path / "j").last()
    assert not later.is_undone
    assert later.undo().restored == ("sub/b.txt",)
    assert contents(folder) == before
    with pytest.raises(ToolError, match="already undone"):
        later.undo()
