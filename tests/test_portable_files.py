"""Tests for file-system features that some platforms lack, and the portable tests on a limited platform."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.portable_files import is_own, lock, set_mode

ROOT = Path(__file__).parents[1]
PORTABLE = (
    *(
        "tests/test_portable_files.py",
        "tests/tools/test_core.py",
        "tests/tools/test_files.py",
        "tests/tools/web/test_fetch.py",
    ),
    *("tests/workspace/test_workspace.py", "tests/workspace/test_journal.py", "tests/workspace/test_text.py"),
    *("tests/sessions/test_stores.py", "tests/sessions/test_session.py"),
)
LIMITED = (
    *(
        "killed_process",
        "after_fork",
        "forked_process",
        "failed_write_leaves_no_folders",
    ),  # they fork, or need the current user
    *("document", "limited_platform"),  # documents are parsed in a worker process
    *("path_is_located", "agentkit_records_are_inaccessible"),  # links are not followed
)
LINKS = "tests/tools/test_files.py::test_call_is_judged"
DROPPED = (
    f"{LINKS}[write-hooks/pre-commit-deny-workspace.protected]",
    f"{LINKS}[read-link-deny-workspace.secret]",
)


@pytest.fixture
def opened(tmp_path):
    """Two descriptors of one file."""
    (tmp_path / "file").write_text("text")
    descriptors = [os.open(tmp_path / "file", os.O_RDWR) for _ in range(2)]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("first", "second", "is_free"),
    [(False, False, False), (False, True, False), (True, False, False), (True, True, True)],
)
def test_locks_exclude_each_other_unless_both_are_shared(first, second, is_free, opened):
    """Shared locks can be held together, and any other second lock is rejected."""
    lock(opened[0], shared=first)
    if is_free:
        lock(opened[1], shared=second)
    else:
        with pytest.raises(BlockingIOError):
            lock(opened[1], shared=second)
    assert os.read(opened[1], 9) == b"text"


def test_own_files_are_recognised(opened, tmp_path):
    """A new file belongs to the current user and has the given permissions."""
    set_mode(opened[0], 0o600)
    assert is_own(os.fstat(opened[0]))
    assert not hasattr(os, "fchmod") or (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_platform_without_locks():
    """Without the modules for locks, parts of files cannot be locked, and locking a file raises OSError."""
    program = (
        "import sys; sys.modules['fcntl'] = sys.modules['msvcrt'] = None\n"
        "from agentkit.portable_files import has_range_locks, lock\n"
        "print(has_range_locks())\n"
        "lock(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n"
    assert done.stderr.endswith("OSError: this platform has no file locks\n")


@pytest.mark.slow
def test_portable_tests_pass_on_a_limited_platform():
    """The portable tests pass without POSIX modules, folder descriptors and fchmod."""
    chosen = " and ".join(f"not {name}" for name in LIMITED)
    dropped = [f"--deselect={name}" for name in DROPPED]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.limited_platform", "-m", "not slow", "-k", chosen]
    done = subprocess.run([*command, *dropped, *PORTABLE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 350
