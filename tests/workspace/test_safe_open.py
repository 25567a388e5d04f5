"""Tests for the safe resolution and opening of paths."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentkit.errors import Blocked, ToolError
from agentkit.workspace.safe_open import (
    OPEN_FILE,
    best_opener,
    components,
    open_beneath,
    open_by_component,
    quote_path,
    real_path,
    to_tool_error,
)

ROOT = "/home/user/work"


@pytest.mark.for_each(
    ("path", "names"),
    [
        ("a.txt", ("a.txt",)),
        (".", ()),
        ("./sub//a.txt/", ("sub", "a.txt")),
        ("sub/../a.txt", ("a.txt",)),
        (f"{ROOT}/a.txt", ("a.txt",)),
        (ROOT, ()),
        ("/link/to/work/a.txt", ("a.txt",)),
        ("~/a.txt", ("~", "a.txt")),
        ("%2e%2e/a", ("%2e%2e", "a")),
        ("名.txt", ("名.txt",)),
    ],
)
def test_path_is_parsed_without_access(path, names):
    """A path is relative to the workspace or absolute and inside it, and its names are literal."""
    assert components(path, ROOT, "/link/to/work") == names


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("sub\\a.txt", ("sub", "a.txt")),
        (r"C:\work\sub\..\a.txt", ("a.txt",)),
        ("C:/work", ()),
        ("sub/.\\a.b", ("sub", "a.b")),
    ],
)
def test_backslashes_separate_names_on_windows(path, names):
    """On Windows, both slashes separate names, and a path may start with the drive of the workspace."""
    assert components(path, r"C:\work", windows=True) == names


@pytest.mark.for_each(
    ("path", "error"),
    [
        *((path, Blocked) for path in (r"..\x", r"a\..\..\x", r"D:\work\a", r"C:\works", r"\\host\a", r"\a", "C:a")),
        *((path, ToolError) for path in ("a.txt:stream", "a.", "b /a", "NUL", "sub/con.txt", "COM1", "a?", "lpt1.log")),
    ],
)
def test_special_paths_of_windows_are_rejected(path, error):
    """On Windows, other drives and shares are outside; streams, devices and dropped suffixes are rejected."""
    with pytest.raises(error):
        components(path, r"C:\work", windows=True)


@pytest.mark.parametrize("path", ["..", "/etc/passwd", f"{ROOT}2/a", f"{ROOT}/../a", "a/../../work/a"])
def test_path_outside_the_workspace_is_blocked(path):
    """A path that leaves the workspace, even temporarily, is blocked with a remedy."""
    with pytest.raises(Blocked, match=r"is outside the workspace\. .*workspace="):
        components(path, ROOT)


@pytest.mark.parametrize(
    ("path", "problem"),
    [("", "empty"), ("a\0b", "control"), ("\ud800", "characters"), ("a" * 256, "too long"), ("a/" * 101, "deep")],
)
def test_malformed_path_is_rejected(path, problem):
    """A malformed path raises an error that states the reason."""
    with pytest.raises(ToolError, match=problem):
        components(path, ROOT)


def test_root_of_the_file_system_can_be_the_workspace():
    """If the workspace is the root of the file system, every absolute path is inside."""
    assert components("/etc/hostname", "/") == ("etc", "hostname")


def test_long_path_is_truncated_in_errors():
    """An error shows only the beginning of a long path, without control characters."""
    assert len(quote_path("a" * 5_000)) < 130
    assert quote_path("a\x1b[2J") == r"'a\x1b[2J'"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError(errno.ENOENT, ""), ToolError, "'f' does not exist."),
        (OSError(errno.ENOSPC, ""), ToolError, "The disk is full; 'f' is unchanged."),
        (OSError(errno.EXDEV, ""), Blocked, "leads out of the workspace"),
        (OSError(errno.ELOOP, ""), Blocked, "symbolic link"),
        (OSError(errno.EIO, ""), ToolError, "Input/output error"),
        (OSError("odd"), ToolError, "odd"),
    ],
)
def test_os_errors_are_explained(error, kind, text):
    """An OSError becomes a sentence about the path, and an escape from the root becomes Blocked."""
    output = to_tool_error(error, "f")
    assert type(output) is kind
    assert text in str(output)


@pytest.fixture
def folder(tmp_path):
    """An open folder with a file in it."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.txt").write_text("a")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("opener", [open_beneath, open_by_component])
def test_both_openers_open_the_same_file(opener, folder, tmp_path):
    """The same path opens the same file with and without kernel support."""
    for names in [(), ("sub",), ("sub", "a.txt")]:
        descriptor = opener(folder, names, OPEN_FILE)
        assert real_path(str(tmp_path), descriptor) == "/".join(names)
        os.close(descriptor)


@pytest.mark.parametrize("opener", [open_beneath, open_by_component])
def test_no_descriptor_is_left_open(opener, folder):
    """Opening a file leaves no other file descriptor open, whether it succeeds or fails."""
    count = len(list(Path("/proc/self/fd").iterdir()))
    os.close(opener(folder, ("sub", "a.txt"), OPEN_FILE))
    for names in [("missing",), ("sub", "a.txt", "x"), ("sub", "b", "c")]:
        with pytest.raises(OSError, match=r"No such file|Not a directory"):
            opener(folder, names, OPEN_FILE)
    assert len(list(Path("/proc/self/fd").iterdir())) == count


def test_kernel_support_is_used():
    """If the kernel can restrict a path to a folder, it is used."""
    assert best_opener() is open_beneath


BLOCKED = """
import ctypes, struct, sys

def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("=HBBI", code, if_true, if_false, value)

load, equal, answer = 0x20, 0x15, 0x06
program = b"".join([
    instruction(load, 0), instruction(equal, 437, 0, 1),
    instruction(answer, 0x00050000 | int(sys.argv[2])), instruction(answer, 0x7FFF0000),
])
libc = ctypes.CDLL(None)
held = ctypes.create_string_buffer(program)
filters = struct.pack("@HP", 4, ctypes.addressof(held))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, filters, 0, 0) == 0
from agentkit.workspace.safe_open import best_opener
from agentkit.workspace.root import Root
print(best_opener().__name__, Root(sys.argv[1]).read("sub/a.txt").content.decode())
"""


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EAGAIN])
def test_path_is_followed_in_steps_without_kernel_support(number, folder, tmp_path):
    """Without kernel support, names are followed one by one."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(tmp_path), str(number)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["open_by_component", "a"]


def test_opening_is_retried_after_a_rename(folder, tmp_path):
    """If folders are renamed while a path goes up, opening still succeeds."""
    (tmp_path / "other").mkdir()
    stop = threading.Event()

    def move():
        while not stop.is_set():
            (tmp_path / "other").rename(tmp_path / "another")
            (tmp_path / "another").rename(tmp_path / "other")

    thread = threading.Thread(target=move)
    thread.start()
    try:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            os.close(open_beneath(folder, ("sub", "..") * 40, OPEN_FILE))
    finally:
        stop.set()
        thread.join()


def test_path_of_a_removed_file(folder, tmp_path):
    """A file removed while open has its former path, and a name ending in `(deleted)` is supported."""
    descriptor = open_beneath(folder, ("sub", "a.txt"), OPEN_FILE)
    (tmp_path / "sub/a.txt").unlink()
    assert real_path(str(tmp_path), descriptor) == "sub/a.txt"
    os.close(descriptor)
    (tmp_path / "b (deleted)").write_text("")
    descriptor = open_beneath(folder, ("b (deleted)",), OPEN_FILE)
    assert real_path(str(tmp_path), descriptor) == "b (deleted)"
    os.close(descriptor)


def test_location_outside_is_unknown(folder):
    """The location of an open file outside the folder is unknown."""
    assert real_path("/somewhere/else", folder) is None
