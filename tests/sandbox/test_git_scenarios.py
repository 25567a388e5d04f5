"""Tests for everyday git commands in the sandbox, in every kind of repository, with both ways to start a command."""

import os
import shutil
import subprocess

import pytest

from agentkit.decisions import SafetyLevel, Verdict
from agentkit.sandbox import bubblewrap
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.process import Confinement, command_boundary
from agentkit.tools.system import shell_tool_in
from agentkit.workspace.workspace import Workspace

MODES = {"bubblewrap": Confinement(), "worker": Confinement(available=MECHANISMS - {"bubblewrap"})}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (bubblewrap.mechanisms(MECHANISMS) and command_boundary(MODES["worker"]).is_strong),
        reason="bubblewrap is not installed" if shutil.which("bwrap") is None else "this machine lacks user namespaces",
    ),
]
CANARY = "CANARY-77aa"
SCENARIOS = ("top", "subfolder", "worktree", "submodule", "secrets")
COMMANDS = {
    "status": ("git status --short", "M a.txt"),
    "diff": ("git diff", "+changed"),
    "add": ("git add -A && git status --short", "M  a.txt"),
    "commit": (
        "git add a.txt && git commit -q -m next && git log --format='%an <%ae>%n%s'",
        "Ann <ann@example.org>\nnext",
    ),
    "commit all": ("git commit -q -a -m next && git log --format=%s", "next"),
    "stash": ("git stash && git status --short && git stash pop", "Dropped"),
    "rebase": ("git commit -q -a -m next && git rebase -q other && git log --format=%s", "next\nother"),
    "checkout": ("git stash -q && git checkout -q other && cat b.txt && git checkout -q -", "other"),
    "switch": ("git stash -q && git switch -q other && cat b.txt && git switch -q -", "other"),
    "merge": ("git commit -q -a -m next && git merge -q -m merged other && git log --format=%s", "merged"),
    "restore": ("git restore a.txt && git status --short", ""),
    "branch": ("git checkout -b topic && git commit -q -a -m next && git tag v1 && git branch", "* topic"),
}
ASKED = {"checkout", "rebase"}
"""Commands that need approval: they rewrite commits or lose changes (`git checkout NAME` may name a file)."""
UNDOABLE = {"restore": {"top", "secrets"}}
"""Commands that the journal can undo in these repositories only; elsewhere they need approval."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder whose git configuration has a name, and an alias that must not reach a command."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text(
        f'[user]\n\tname = Ann\n\temail = "ann@example.org"\n[alias]\n\tst = status\n[x]\n\ty = {CANARY}\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


def git(folder, *words):
    """Return the output of a git command of the user."""
    command = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def made(folder, files):
    """Return a repository with two branches that differ in one file, and these other files."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in {"a.txt": "one\n", "b.txt": "one\n", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "checkout", "-q", "-b", "other")
    for name in [name for name in ("sub/b.txt", "b.txt") if (folder / name).exists()][:1]:
        (folder / name).write_text("other\n")
    git(folder, "commit", "-q", "-a", "-m", "other")
    git(folder, "checkout", "-q", "main")
    return folder


def workspace_of(scenario, tmp_path):
    """Return the workspace of a scenario, with one changed file."""
    repository = made(tmp_path / "project", FILES.get(scenario, {}))
    folder = repository
    if scenario == "subfolder":
        folder = repository / "sub"
    elif scenario == "worktree":
        folder = tmp_path / "linked"
        git(repository, "worktree", "add", "-q", "-b", "linked", str(folder))
    elif scenario == "submodule":
        outer = made(tmp_path / "outer", {})
        git(outer, "submodule", "--quiet", "add", "-b", "main", str(repository), "inner")
        folder = outer / "inner"
        git(folder, "branch", "-q", "other", "origin/other")
    elif scenario == "secrets":
        (folder / ".env").write_text(CANARY)
        (folder / ".env.link").symlink_to("real.pem")
        (folder / ".npmrc").write_text(f"{CANARY} changed by the user\n")
    (folder / "a.txt").write_text("changed\n")
    return folder


FILES = {
    "subfolder": {"sub/a.txt": "one\n", "sub/b.txt": "one\n", ".npmrc": CANARY},
    "secrets": {
        ".npmrc": CANARY,
        ".env.test": CANARY,
        "real.pem": CANARY,
        "deep/credentials.json": CANARY,
        ".aws/config": CANARY,
        "[x] y.key": CANARY,
    },
}


def tool_in(folder, mode):
    """Return the shell tool of an agent at level SYSTEM, and its workspace."""
    workspace = Workspace(folder)
    return shell_tool_in(workspace, MODES[mode]), workspace


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", COMMANDS)
def test_everyday_git(mode, scenario, name, tmp_path):
    """Every Git command works in every kind of repository, exposes no secret and can be undone."""
    folder = workspace_of(scenario, tmp_path)
    before = state(folder)
    command, expected = COMMANDS[name]
    shell, workspace = tool_in(folder, mode)
    decision = shell.judge({"command": command})
    result = shell.function(command=command)
    assert result["return_code"] == 0, result["output"]
    assert expected in result["output"]
    assert CANARY not in result["output"]
    assert "note" not in result
    is_asked = name in ASKED or scenario not in UNDOABLE.get(name, {scenario})
    verdict = Verdict.ASK if is_asked else Verdict.ALLOW
    assert decision.verdict is verdict
    if decision.level is not SafetyLevel.NETWORK:
        assert no_secret_lost(scenario, folder)
    if workspace.changes:
        workspace.undo()
    assert state(folder) == before


def state(folder):
    """Return the visible state: branches, the current one, changes, and stashes."""
    words = [["for-each-ref"], ["symbolic-ref", "HEAD"], ["status", "--short"], ["stash", "list"], ["diff"]]
    return [git(folder, *each) for each in words]


def no_secret_lost(scenario, folder):
    """Return whether the hidden files are unchanged, on the disk and in the current commit."""
    if scenario != "secrets":
        return True
    on_disk = [".npmrc", ".env", ".env.test", "real.pem", "deep/credentials.json", ".aws/config", "[x] y.key"]
    committed = git(folder, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    return (
        all(CANARY in (folder / name).read_text() for name in on_disk)
        and ".env" not in git(folder, "ls-files").splitlines()
        and {".npmrc", ".env.test", "real.pem", "deep/credentials.json", ".aws/config"} <= {*committed}
        and git(folder, "show", "HEAD:.npmrc") == CANARY
    )
