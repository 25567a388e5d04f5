"""Tests for undoing `run_shell`: deletions are either restored exactly or need approval."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from agentkit.decisions import Verdict
from agentkit.sandbox.process import Confinement, command_boundary
from agentkit.tools.system import shell_tool_in
from agentkit.workspace.change_detection import MAX_BYTES, MAX_FILES
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

pytestmark = pytest.mark.skipif(not command_boundary().is_strong, reason="this machine lacks a strong boundary")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder, *words):
    """Run git with a fixed user name."""
    names = {f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env=environment)


@pytest.fixture
def folder(tmp_path):
    """The folder of a workspace: files with modes, links, a cache, an ignored folder."""
    folder = tmp_path / "ws"
    for name in ("build/deep/empty", "src/__pycache__", "pkg/__pycache__", "node_modules/x", "logs", "archive"):
        (folder / name).mkdir(parents=True)
    for name in ("build/a.o", "build/deep/b.o", "src/app.py", "src/__pycache__/app.pyc", "pkg/__pycache__/m.pyc"):
        (folder / name).write_bytes(name.encode() * 50 + b"\x00\xff\n")
    for name in ("a.txt", "b.txt", "archive/a.txt", "server.log", "x.log", "logs/old.log", "node_modules/x/i.js"):
        (folder / name).write_text(f"{name}\nsecond line\n")
    (folder / "build/run").write_text("#!/bin/sh\n")
    (folder / "build/run").chmod(0o751)
    (folder / "build/deep").chmod(0o700)
    (folder / "build/link").symlink_to("a.o")
    (folder / "build/dangling").symlink_to("nowhere")
    (folder / "current").symlink_to("server.log")
    (folder / "mods").symlink_to("node_modules")
    return folder


@pytest.fixture
def repository(folder):
    """The folder with a repository, a changed file and a staged one."""
    git(folder, "init", "-q")
    git(folder, "add", "a.txt", "src/app.py")
    git(folder, "commit", "-q", "-m", "x")
    (folder / "a.txt").write_text("changed\n")
    (folder / "b.txt").write_text("staged\n")
    git(folder, "add", "b.txt")
    return folder


PLACEHOLDERS = (".git/config.worktree", ".git/info/attributes")
"""Empty files that the sandbox leaves in a repository, because it mounts their protection on them."""


def contents(folder):
    """Return every path below a folder with mode and content, except objects, logs and empty placeholders of git."""
    found = {
        str(place.relative_to(folder)): (
            place.lstat().st_mode,
            place.readlink() if place.is_symlink() else place.read_bytes() if place.is_file() else None,
        )
        for place in folder.rglob("*")
        if not str(place.relative_to(folder)).startswith((".git/objects", ".git/logs"))
    }
    return {path: state for path, state in found.items() if path not in PLACEHOLDERS or state[1]}


DELETING = [
    *("rm build/a.o", "rm -rf build", "rm -rf build/*", "rm -f *.log", "rm -r build src", "unlink a.txt"),
    *("rm -rf src/__pycache__", "find . -name '*.pyc' -delete", "find build -type f -delete", "find build -delete"),
    "find . -name __pycache__ -type d -prune -exec rm -rf {} +",
    "find . \\( -name '*.log' -o -name '*.o' \\) -delete",
    *("find . -name '*.o' | xargs rm -f", "find . -name '*.o' -print0 | xargs -0 rm"),
    *('for f in *.log; do rm "$f"; done', 'for d in build logs; do rm -rf "$d"; done', "rm -rf mods/x"),
    *("truncate -s 0 a.txt", "truncate -s 3 build/a.o src/app.py", "truncate -s 0 current", "cp /dev/null a.txt"),
    *("rm -rf build && mkdir build && echo new > build/a.o", "mv build old && rm -rf old", "cd build && rm -f *.o"),
    *("dd if=/dev/zero of=a.txt bs=10 count=2 status=none", "rm -rf node_modules", "mv logs/old.log x.log; rm x.log"),
]
REPLACING = [
    *("mv a.txt b.txt", "mv a.txt archive/", "cp a.txt b.txt", "sed -i s/a/b/ a.txt x.log", "> a.txt", ": > x.log"),
    *(
        "echo more >> a.txt",
        "sort x.log -o x.log",
        "ln -sf b.txt current",
        "tee a.txt < b.txt",
        "chmod 600 build/run",
    ),
]
OF_GIT = [
    *("git restore a.txt", "git checkout -- a.txt", "git checkout HEAD -- a.txt", "git rm -q -f a.txt src/app.py"),
    *("git rm -q --cached b.txt", "git reset -q", "git reset -q HEAD b.txt", "git restore --staged --worktree b.txt"),
]


@pytest.mark.parametrize("command", [*DELETING, *REPLACING])
def test_allowed_deletion_is_undone_exactly(command, folder, tmp_path):
    """After an allowed deletion, `undo` restores every content, mode and link."""
    run_and_undo(command, folder, Journal(tmp_path / "journal"))


@needs_git
@pytest.mark.parametrize("command", OF_GIT)
def test_git_changes_are_undone_exactly(command, repository):
    """Files that git replaces or removes are restored exactly, and so are staged changes."""
    run_and_undo(command, repository, Journal())


def run_and_undo(command, folder, journal):
    """Judge, run and undo a command that changes something."""
    run = Workspace(folder, journal=journal).for_run("r")
    shell = shell_tool_in(run)
    before = contents(folder)
    decision = shell.judge({"command": command})
    assert decision.allowed, decision
    result = shell.function(command=command)
    assert (result["return_code"], result["stderr"]) == (0, ""), result
    assert contents(folder) != before
    run.undo()
    assert contents(folder) == before


def make_many(place):
    """Create a folder with more files than can be recorded."""
    place.mkdir()
    for number in range(MAX_FILES + 1):
        (place / str(number)).touch()


def make_large(place):
    """Create a sparse file larger than the recording limit."""
    with place.open("wb") as file:
        file.truncate(MAX_BYTES + 1)


def make_socket(place):
    """Create a socket through a short path."""
    folder = os.open(place.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{folder}/{place.name}")
    os.close(folder)


def make_special(place):
    """Create a setuid file."""
    place.touch()
    place.chmod(0o4755)


LOST = {
    "many": make_many,
    "large": make_large,
    "pipe": os.mkfifo,
    "socket": make_socket,
    "hard link": lambda place: place.hardlink_to(place.parents[1] / "a.txt"),
    "special mode": make_special,
    "control\nname": Path.touch,
}


@pytest.mark.parametrize("name", LOST)
def test_irreversible_deletion_requires_approval(name, folder):
    """Deleting too many or too large files, special files or hard links requires approval."""
    shell = shell_tool_in(Workspace(folder))
    commands = ("rm -rf build", "find build -delete", "rm -rf b*d", "mv build b && rm -rf b")
    assert all(shell.judge({"command": command}).allowed for command in commands)
    LOST[name](folder / "build" / name)
    for command in commands:
        decision = shell.judge({"command": command})
        assert (decision.verdict, decision.rule) == (Verdict.ASK, "shell.delete")
        assert "could not be undone" in decision.reason


def test_small_deletion_in_a_large_workspace_is_recorded(folder, tmp_path):
    """In a workspace too large to snapshot, the files that a command deletes are recorded."""
    for number in range(MAX_FILES + 1):
        (folder / "archive" / str(number)).touch()
    run = Workspace(folder, journal=Journal(tmp_path / "journal")).for_run("r")
    shell, before = shell_tool_in(run), contents(folder)
    command = "rm -rf build && mkdir build && touch build/new"
    assert shell.judge({"command": command}).allowed
    shell.function(command=command)
    (note,) = run.record.notes
    assert "beyond build" in note
    run.undo()
    assert contents(folder) == before


def test_deletion_that_became_too_large_is_not_run(folder):
    """A command is not run if its folder has become too large to record since the decision."""
    shell = shell_tool_in(Workspace(folder))
    decision = shell.judge({"command": "rm -rf build"})
    assert decision.allowed
    make_many(folder / "build/many")
    result = shell.run({"command": "rm -rf build"}, decision)
    assert result.status != "ok"
    assert "It was not run" in result.error
    assert (folder / "build/a.o").exists()
    assert shell.judge({"command": "rm -rf build"}).verdict is Verdict.ASK
    assert shell.function(command="rm -rf build")["return_code"] == 0, "the call was approved"


def test_deletion_without_a_journal_or_isolation_needs_approval(folder):
    """In a dry run, a read-only workspace, or with weak isolation, a deletion needs approval."""
    weak = Confinement(available=frozenset({"seccomp"}))
    shells = (
        shell_tool_in(Workspace(folder, dry_run=True)),
        shell_tool_in(Workspace(folder), Confinement(writable=False)),
        shell_tool_in(Workspace(folder), weak),
    )
    for shell in shells:
        assert shell.judge({"command": "rm -rf build"}).verdict is not Verdict.ALLOW


def test_full_journal_requires_approval(folder):
    """A deletion requires approval if the in-memory journal has no space for the deleted files."""
    run = Workspace(folder).for_run("r")
    shell = shell_tool_in(run)
    (folder / "big").write_bytes(os.urandom(18_000_000))
    for _ in range(2):
        shell.function(command="truncate -s 0 big")
        (folder / "big").write_bytes(os.urandom(18_000_000))
    decision = shell.judge({"command": "rm big"})
    assert decision.verdict is Verdict.ASK
    assert "no room" in decision.reason


@needs_git
@pytest.mark.parametrize("kind", ["none", "worktree"])
def test_git_index_outside_the_workspace_requires_approval(kind, repository, tmp_path):
    """Changing the git index requires approval if the repository is outside the workspace."""
    place = tmp_path / "tree"
    if kind == "worktree":
        git(repository, "worktree", "add", "-q", str(place))
    else:
        place.mkdir()
    (place / "a.txt").write_text("x")
    shell = shell_tool_in(Workspace(place))
    assert shell.judge({"command": "git rm --cached a.txt"}).verdict is Verdict.ASK
    assert shell.judge({"command": "rm a.txt"}).allowed
