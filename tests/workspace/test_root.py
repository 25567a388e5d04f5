"""Tests for reading, writing and listing files below a folder."""

import contextlib
import itertools
import os
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from agentkit.errors import Blocked, ConfigError, ToolError
from agentkit.workspace.root import MAX_KEPT_BYTES, DirectoryEntry, Root
from agentkit.workspace.safe_open import open_beneath, open_by_component


@pytest.fixture(params=[open_beneath, open_by_component])
def root(request, tmp_path):
    """A folder, opened with and without kernel support."""
    return Root(tmp_path, opener=request.param)


def names(folder):
    """Return the names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_folder_must_exist(tmp_path):
    """A workspace that is not a folder raises an error."""
    with pytest.raises(ConfigError, match="is not a folder"):
        Root(tmp_path / "missing")


def test_removed_folder_is_reported(tmp_path):
    """Every access to a removed workspace raises an error."""
    (tmp_path / "ws").mkdir()
    root = Root(tmp_path / "ws")
    (tmp_path / "ws").rmdir()
    for access in (root.read, root.locate, root.missing_folders, root.entries):
        with pytest.raises(ToolError, match=r"is gone|does not exist"):
            access("a.txt")


def test_folder_may_be_named_through_a_link(tmp_path):
    """Absolute paths are accepted with the given and with the resolved path of the workspace."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    root = Root(tmp_path / "link")
    root.write("a.txt", b"a")
    for folder in ("real", "link"):
        assert root.read(f"{tmp_path}/{folder}/a.txt").path == "a.txt"


def test_folder_moved_behind_a_link_is_blocked(tmp_path):
    """Reading is blocked if the path of the workspace now leads to another folder."""
    (tmp_path / "x/ws").mkdir(parents=True)
    (tmp_path / "x/ws/a").write_text("a")
    root = Root(tmp_path / "x/ws", opener=open_beneath)
    (tmp_path / "x").rename(tmp_path / "y")
    (tmp_path / "x").symlink_to("y")
    with pytest.raises(Blocked, match="outside the workspace"):
        root.read("a")


@pytest.mark.parametrize(("path", "problem"), [(".", "is the workspace itself"), ("a/", "names a folder")])
def test_only_a_file_can_be_written(path, problem, root):
    """The workspace itself, and paths that end with a slash, are not files."""
    with pytest.raises(ToolError, match=problem):
        root.write(path, b"x")


def test_reading_returns_the_requested_size(root, tmp_path):
    """A read returns the beginning of a file, its size, and its number of links."""
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    found = root.read("a", 2_500_000)
    assert (len(found.content), found.size, found.links) == (2_500_000, 3_000_000, 2)
    assert len(root.read("a").content) == 3_000_000


def test_check_receives_the_resolved_path(root, tmp_path):
    """The check of a read or listing receives the resolved path."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a").write_text("a")
    places = []
    assert root.read("./sub/../sub/a", check=places.append).path == "sub/a"
    root.entries("sub", check=places.append)
    assert places == ["sub/a", "sub"]


def test_link_inside_the_workspace_is_followed(tmp_path):
    """With kernel support, a link inside the workspace is followed, and its target is returned."""
    root = Root(tmp_path, opener=open_beneath)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a").write_text("a")
    (tmp_path / "l").symlink_to("sub/a")
    (tmp_path / "d").symlink_to("sub")
    assert root.read("l").path == root.read("d/a").path == "sub/a"
    assert root.locate("d/new/x") == ("d/new/x", "sub/new/x")
    assert root.missing_folders("d/new/x") == ("sub/new/x", ["sub/new"])
    assert root.entries(".")[1] == [
        DirectoryEntry("d", "folder"),
        DirectoryEntry("l", "link"),
        DirectoryEntry("sub", "folder"),
    ]
    assert root.entries("d")[0] == "sub"


def test_no_link_is_followed_without_kernel_support(tmp_path):
    """Without kernel support, no link is followed, and the error states that."""
    root = Root(tmp_path, opener=open_by_component)
    (tmp_path / "a").write_text("a")
    (tmp_path / "l").symlink_to("a")
    with pytest.raises(Blocked, match="symbolic link"):
        root.read("l")
    assert root.entries(".")[1][1] == DirectoryEntry("l", "link")


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device"])
def test_special_file_is_rejected(kind, root, tmp_path):
    """Special files are neither read nor replaced, and never block."""
    place = tmp_path / "s"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device":
        with contextlib.suppress(PermissionError):
            os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    if not place.exists():
        pytest.skip("devices cannot be created here")
    for access in (root.read, lambda path: root.write(path, b"x")):
        with pytest.raises(ToolError, match=r"not a file"):
            access("s")
    assert root.inspect("s").kind == ("folder" if kind == "folder" else "other")
    assert root.entries(".")[1][0].kind == ("folder" if kind == "folder" else "other")


def test_writing_to_a_link_is_blocked(root, tmp_path):
    """Writing to a link is blocked, and its target is not changed."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "l").symlink_to("a")
    with pytest.raises(Blocked, match="name the file that it leads to"):
        root.write("l", b"new")
    assert (tmp_path / "a").read_text() == "a"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444])
def test_permissions_are_preserved(mode, root, tmp_path):
    """A file that is replaced keeps its permissions."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(mode)
    root.write("a", b"new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode
    assert (tmp_path / "a").read_text() == "new"


def test_new_file_has_the_usual_permissions(root, tmp_path):
    """A new file has default or the requested permissions."""
    (tmp_path / "usual").write_text("")
    root.write("new", b"")
    root.write("private", b"", 0o600)
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner")
def test_owner_is_preserved(root, tmp_path):
    """A file that is replaced keeps its owner."""
    (tmp_path / "a").write_text("a")
    os.chown(tmp_path / "a", 65_534, 65_534)
    root.write("a", b"new")
    assert (tmp_path / "a").stat().st_uid == 65_534


def test_other_hard_links_keep_the_old_content(root, tmp_path):
    """Writing replaces a file by a new one, and its other hard links keep the old content."""
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    root.write("a", b"new")
    assert (tmp_path / "b").read_text() == "old"


def test_failed_write_leaves_no_files(root, tmp_path):
    """A failed write leaves the folder unchanged."""
    (tmp_path / "a").write_text("a")
    with pytest.raises(ToolError, match=r"goes through something that is not a folder"):
        root.write("a/b", b"x")
    with pytest.raises(ToolError, match=r"does not exist"):
        root.write("missing/b", b"x")
    assert names(tmp_path) == ["a"]


def test_file_system_without_space_for_files_is_reported():
    """If no file can be created, the error contains the reason of the operating system."""
    with pytest.raises(ToolError, match=r"'agentkit-test'"):
        Root("/proc/self", opener=open_beneath).write("agentkit-test", b"x")


@pytest.mark.parametrize("opener", [open_beneath, open_by_component])
def test_full_disk_leaves_the_old_file(opener, small_disk):
    """On a full disk the old content remains, and no temporary file is left."""
    root = Root(small_disk, opener=opener)
    root.write("a", b"old")
    with pytest.raises(ToolError, match="The disk is full"):
        root.write("a", b"x" * 200_000)
    assert (small_disk / "a").read_bytes() == b"old"
    assert names(small_disk) == ["a"]


def test_read_only_disk_is_explained(small_disk):
    """On a read-only file system nothing is written, with the reason in the error."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(ToolError, match="read-only"):
        Root(small_disk).write("a", b"x")


WRITER = """
import sys
from agentkit.workspace.root import Root
root = Root(sys.argv[1])
number = 0
print("ready", flush=True)
while True:
    number += 1
    root.write("a", b"%d" % (number % 10) * 2_000_000)
"""


def test_killed_writer_leaves_one_complete_file(tmp_path):
    """A process killed during a write leaves the old or the new file, never a mixture."""
    for round_number in range(6):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(0.05 + 0.013 * round_number)
            writer.send_signal(signal.SIGKILL)
        if (tmp_path / "a").exists():
            content = (tmp_path / "a").read_bytes()
            assert len(content) == 2_000_000
            assert len(set(content)) == 1
        assert len(names(tmp_path)) <= 2


def test_states_describe_paths(root, tmp_path):
    """Inspecting a path does not follow links."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "l").symlink_to("nowhere")
    (tmp_path / "d").mkdir()
    kinds = {name: root.inspect(name).kind for name in ("a", "l", "d", "missing", "missing/x")}
    assert kinds == {"a": "file", "l": "link", "d": "folder", "missing": "absent", "missing/x": "absent"}
    assert root.inspect("l").content == b"nowhere"


def test_large_file_is_identified_by_inode_and_time(root, tmp_path):
    """A change of a file that is too large to store is detected without reading it."""
    (tmp_path / "a").write_bytes(b"12345")
    state = root.inspect("a", 4)
    assert (state.content, state.size, state.was_read) == (None, 5, False)
    assert root.inspect("a", 4).is_like(state)
    os.utime(tmp_path / "a", (1, 1))
    assert not root.inspect("a", 4).is_like(state)
    assert MAX_KEPT_BYTES > 10_000_000


def test_folders_and_links_are_created_and_removed(root, tmp_path):
    """Folders and links can be created and removed; a folder that is not empty is not removed."""
    root.make_folder("d")
    root.link("d/l", b"../x")
    with pytest.raises(ToolError, match="not empty"):
        root.remove("d")
    with pytest.raises(ToolError, match="already exists"):
        root.make_folder("d")
    root.remove("d/l")
    root.remove("d")
    with pytest.raises(ToolError, match="does not exist"):
        root.remove("d")
    assert names(tmp_path) == []


def test_every_file_below_is_found(root, tmp_path):
    """Files are listed in all folders except skipped ones, and links are not followed."""
    for path in ("b/x", "a", "b/c/y", "skip/z"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("12")
    (tmp_path / "loop").symlink_to(".")
    assert list(root.files(skip={"skip"})) == [("a", 2), ("b/x", 2), ("b/c/y", 2)]
    assert list(root.files("b/c")) == [("b/c/y", 2)]
    assert list(root.files("missing")) == []
    assert "loop" in dict(root.walk())


def test_large_folder_is_listed_in_order(root, tmp_path):
    """The entries of a large folder are listed in sorted order."""
    for number in range(500):
        (tmp_path / f"{number:03}").touch()
    assert [entry.name for entry in root.entries(".")[1]] == [f"{number:03}" for number in range(500)]


@pytest.mark.parametrize("path", ["a/.", "a/", "a/y/..", "a//", "./a/./"])
def test_path_of_a_file_ends_with_its_name(path, tmp_path):
    """Paths that end like a folder are not files, as rules could not match their names."""
    root = Root(tmp_path)
    root.write("a", b"a")
    for access in (root.read, root.missing_folders):
        with pytest.raises(ToolError, match="name a file"):
            access(path)


def test_name_is_the_plain_path(tmp_path):
    """A plain name is returned without resolving it, and need not exist."""
    assert Root(tmp_path).name(f"{tmp_path}/x/../y//./z") == "y/z"
    assert Root(tmp_path).name(".") == ""


def test_extended_attributes_are_preserved(tmp_path):
    """A file that is replaced keeps its extended attributes."""
    (tmp_path / "a").write_text("a")
    try:
        os.setxattr(tmp_path / "a", "user.origin", b"web")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    Root(tmp_path).write("a", b"b")
    assert (tmp_path / "a").read_text() == "b"
    assert os.getxattr(tmp_path / "a", "user.origin") == b"web"


KILLED = """
import os, signal, sys
from agentkit.workspace.root import Root
root, left = Root(sys.argv[1]), int(sys.argv[3])
root.write("warm.txt", b"")
def count(frame, event, function):
    global left
    if event == "c_call" and getattr(function, "__module__", "") == "posix":
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(count)
root.write(sys.argv[2], b"new" * 10_000)
"""


@pytest.mark.parametrize("name", ["old.txt", "fresh.txt"])
def test_process_killed_at_any_call_leaves_the_old_file_or_the_new_one(name, tmp_path):
    """Killing a process during a write leaves the old or the new file, never a part."""
    left = []
    for call in itertools.count(1):
        folder = tmp_path / str(call)
        folder.mkdir()
        (folder / "old.txt").write_bytes(b"old")
        done = subprocess.run([sys.executable, "-c", KILLED, str(folder), name, str(call)], check=False)
        place = folder / name
        left.append(place.read_bytes() if place.exists() else None)
        remains = {each.name for each in folder.iterdir()} - {"old.txt", "fresh.txt", "warm.txt"}
        assert name == "old.txt" or not remains
        if done.returncode == 0:
            break
    before = b"old" if name == "old.txt" else None
    assert sorted(set(left), key=left.index) == [before, b"new" * 10_000]
