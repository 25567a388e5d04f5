"""Tests for repositories in the sandbox: what they cannot expose, and how branches are protected."""

import shutil
import sqlite3
import subprocess

import pytest

from agentkit.decisions import Verdict
from agentkit.errors import ToolError
from agentkit.sandbox import bubblewrap
from agentkit.sandbox.git_access import repository_of
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.process import Confinement, command_boundary, run_command
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
CANARY = "CANARY-31fe"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder with a name for git."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def git(folder, *words):
    """Return the output of a git command of the user."""
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def made(folder):
    """Return a repository with one commit and a second branch."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "branch", "other")
    git(folder, "tag", "v1")
    return folder


def pointer_to_other(tmp_path, folder):
    """A .git file that names the repository of another folder."""
    (folder / ".git").write_text(f"gitdir: {made(tmp_path / 'victim')}/.git\n")


def pointer_to_admin(tmp_path, folder):
    """A .git file that names a work tree of another repository, which belongs to another folder."""
    victim = made(tmp_path / "victim")
    git(victim, "worktree", "add", "-q", "-b", "w", str(tmp_path / "elsewhere"))
    (folder / ".git").write_text(f"gitdir: {victim}/.git/worktrees/elsewhere\n")


def pointer_to_forged_admin(tmp_path, folder):
    """A .git file that names a forged work tree in the workspace, which names another repository."""
    victim = made(tmp_path / "victim")
    admin = folder / "forged/worktrees/x"
    admin.mkdir(parents=True)
    (admin / "HEAD").write_text("ref: refs/heads/main\n")
    (admin / "commondir").write_text(f"{victim}/.git\n")
    (admin / "gitdir").write_text(f"{folder}/.git\n")
    (folder / ".git").write_text(f"gitdir: {admin}\n")


def link_in_forged_admin(tmp_path, folder):
    """A .git file like the one above, with the folder of work trees behind a link."""
    pointer_to_forged_admin(tmp_path, folder)
    (folder / "linked").symlink_to(tmp_path / "victim/.git")
    (folder / "forged/worktrees/x/commondir").write_text("../../../linked\n")


def pointer_to_anything(tmp_path, folder):
    """A .git file that names a folder without a repository."""
    made(tmp_path / "victim")
    (folder / ".git").write_text(f"gitdir: {tmp_path}\n")


def link(tmp_path, folder):
    """A link called .git to another repository."""
    (folder / ".git").symlink_to(made(tmp_path / "victim") / ".git")


def commondir(tmp_path, folder):
    """A repository in the workspace that names another one as its common folder."""
    victim = made(tmp_path / "victim")
    git(folder, "init", "-q")
    (folder / ".git/commondir").write_text(f"{victim}/.git\n")


def alternates(tmp_path, folder):
    """A repository that uses the objects of another one."""
    victim = made(tmp_path / "victim")
    git(folder, "init", "-q")
    (folder / ".git/objects/info/alternates").write_text(f"{victim}/.git/objects\n")


def links_of_settings(tmp_path, folder):
    """Names that are locked in every workspace, as links to another place."""
    victim = made(tmp_path / "victim")
    git(folder, "init", "-q")
    (folder / ".vscode").symlink_to(victim)
    (folder / ".envrc").symlink_to(victim / "notes.txt")
    (folder / "sub").mkdir()
    (folder / "sub/.git").symlink_to(victim / ".git")


def settings_behind_links(tmp_path, folder):
    """A repository whose folders of settings are links to another place."""
    made(tmp_path / "victim")
    git(folder, "init", "-q")
    (folder / ".git/info/exclude").unlink()
    (folder / ".git/info").rmdir()
    (folder / ".git/info").symlink_to(tmp_path / "victim")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "attack",
    [
        links_of_settings,
        pointer_to_other,
        pointer_to_admin,
        pointer_to_forged_admin,
        link_in_forged_admin,
        pointer_to_anything,
        link,
        commondir,
        alternates,
        settings_behind_links,
    ],
)
def test_pointer_does_not_expose_another_folder(mode, attack, tmp_path):
    """Whatever a workspace states about its repository, another folder is neither exposed nor written."""
    folder = tmp_path / "work"
    folder.mkdir()
    attack(tmp_path, folder)
    victim = tmp_path / "victim"
    (victim / "notes.txt").write_text(CANARY)
    (victim / ".git/description").write_text(CANARY)
    before = {path: path.stat().st_mtime_ns for path in victim.rglob("*")}
    command = (
        f"cat {victim}/notes.txt {victim}/.git/description .envrc .vscode/notes.txt sub/.git/description; "
        f"ls {victim} {victim}/.git; git status; "
        f"git log; touch {victim}/x {victim}/.git/x; touch x; git add -A; git commit -m x; git branch -D other"
    )
    outcome = run_command(command, folder, MODES[mode])
    assert CANARY not in outcome.output
    assert "first" not in outcome.output
    assert {path: path.stat().st_mtime_ns for path in victim.rglob("*")} == before
    assert (folder / "x").exists()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["top", "subfolder", "worktree"])
def test_command_leaves_no_program_for_git_to_run(mode, kind, tmp_path):
    """Settings, hooks, attributes and pointers of the repository, present or not, are unchanged."""
    repository = made(tmp_path / "project")
    for name in ("hooks", "info"):
        for path in (repository / ".git" / name).iterdir():
            path.unlink()
        (repository / ".git" / name).rmdir()
    git(repository, "worktree", "add", "-q", "-b", "w", str(tmp_path / "linked"))
    (repository / "sub").mkdir()
    folder = {"top": repository, "subfolder": repository / "sub", "worktree": tmp_path / "linked"}[kind]
    config = (repository / ".git/config").read_text()
    main_head = (repository / ".git/HEAD").read_text()
    common = repository / ".git"
    command = f"""
        for f in config config.worktree commondir info/attributes hooks/pre-commit hooks/post-checkout \
                worktrees/linked/gitdir worktrees/linked/commondir worktrees/linked/config.worktree; do
            mkdir -p {common}/$(dirname $f); echo evil >> {common}/$f; rm -f {common}/$f
            echo evil > /tmp/e; mv /tmp/e {common}/$f; ln -sf /etc/passwd {common}/$f
        done
        git config core.fsmonitor ./evil; mv {common}/hooks {common}/h; mv {common} {common}2
        echo evil > {repository}/x
    """
    run_command(command, folder, MODES[mode])
    assert (common / "config").read_text() == config
    assert (common / "HEAD").read_text() == main_head
    assert not list((common / "hooks").iterdir())
    assert not (common / "commondir").exists()
    linked = common / "worktrees/linked"
    texts = [path.read_text() for path in (common / "info/attributes", linked / "gitdir", linked / "commondir")]
    assert texts == ["", f"{tmp_path}/linked/.git\n", "../..\n"]
    assert kind == "top" or not (repository / "x").exists()
    assert git(folder, "status", "--short").replace("?? x", "") == ""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("kind", ["subfolder", "worktree"])
def test_secrets_of_the_outer_repository_are_hidden(mode, writable, kind, tmp_path):
    """Hidden files are covered at any depth and in any number, also inside the repository."""
    repository = made(tmp_path / "project")
    git(repository, "worktree", "add", "-q", "-b", "w", str(tmp_path / "linked"))
    folder = {"subfolder": repository / "sub", "worktree": tmp_path / "linked"}[kind]
    deep = repository / "/".join("abcdefgh")
    for path in (folder, deep, repository / "many"):
        path.mkdir(parents=True, exist_ok=True)
    for number in range(250):
        (repository / f"many/{number}.pem").write_text(CANARY)
    secret_paths = [
        ".env",
        "a/b/c/d/e/f/g/h/.env",
        ".git/credentials",
        ".git/hooks/x.pem",
        ".git/worktrees/linked/x.key",
    ]
    for name in secret_paths:
        (repository / name).write_text(CANARY)
    command = f"cat {repository}/many/*; cd {repository}; cat {' '.join(secret_paths)}; git status --short"
    outcome = run_command(command, folder, Confinement(available=MODES[mode].available, writable=writable))
    assert CANARY not in outcome.output
    assert outcome.return_code == 0
    assert "a.txt" in run_command(f"ls {repository} {folder}", folder, MODES[mode]).output
    assert {(repository / name).read_text() for name in secret_paths} == {CANARY}


@pytest.mark.parametrize("mode", MODES)
def test_created_repository_with_hooks_is_removed(mode, tmp_path):
    """Files created in the surrounding repository stay, except settings and hooks that run programs."""
    repository = made(tmp_path / "project")
    (repository / "sub").mkdir()
    evil = f"{repository}/.git/modules/evil"
    command = (
        f"git init -q --bare {evil} && echo x > {evil}/hooks/pre-commit && git -C {evil} config core.fsmonitor x; "
        f"git init -q --bare {repository}/.git/modules/good; git worktree add -q -b new tree"
    )
    outcome = run_command(command, repository / "sub", MODES[mode])
    assert {*outcome.created.removed} == {f"{evil}/hooks", f"{evil}/config"}
    assert outcome.created.left == ()
    assert (repository / ".git/modules/good/config").exists()
    assert git(repository / "sub/tree", "status", "--short") == ""


@pytest.mark.parametrize("mode", MODES)
def test_submodule_preserves_its_settings(mode, tmp_path):
    """Cloning into the workspace and working in a submodule preserve the settings that git needs."""
    outer, inner = made(tmp_path / "outer"), made(tmp_path / "inner")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    git(outer, "commit", "-q", "-m", "submodule")
    command = (
        "git -C inner commit -q --allow-empty -m next && git commit -q -a -m moved && git submodule status && "
        "git clone -q inner copy && git -C copy status"
    )
    outcome = run_command(command, outer, MODES[mode])
    assert outcome.return_code == 0, outcome.output
    assert (outcome.created.left, outcome.created.removed) == ((), ())
    assert git(outer / "copy", "log", "-1", "--format=%s") == "next"
    assert git(outer, "status", "--short") == "?? copy/"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "script",
    ["git branch -f other HEAD~1", "git branch -D other", "git tag -f v1 HEAD~1", "git tag -d v1; git pack-refs --all"],
)
def test_other_branches_are_restored(mode, script, tmp_path):
    """Other branches and tags moved or deleted by a script are restored, unless that was approved."""
    folder = made(tmp_path / "project")
    git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    git(folder, "branch", "-q", "-f", "other", "main")
    git(folder, "tag", "-f", "v1", "main")
    before = git(folder, "for-each-ref")
    (folder / "release.sh").write_text(script)
    shell = shell_tool_in(Workspace(folder), MODES[mode])
    assert shell.judge({"command": "bash release.sh"}).verdict is Verdict.ALLOW
    assert "which was restored" in shell.function(command="bash release.sh")["note"]
    assert git(folder, "for-each-ref") == before
    assert shell.judge({"command": script}).verdict is Verdict.ASK
    assert "note" not in shell.function(command=script)
    assert git(folder, "for-each-ref") != before


def test_other_branch_may_be_fast_forwarded(tmp_path):
    """A branch that only gains commits is not restored."""
    folder = made(tmp_path / "project")
    (folder / "forward.sh").write_text("git commit -q --allow-empty -m next && git branch -f other main")
    result = shell_tool_in(Workspace(folder))(command="bash forward.sh")
    assert "note" not in result
    assert git(folder, "rev-parse", "other") == git(folder, "rev-parse", "main")


def test_commit_is_undone_unless_another_one_followed(tmp_path):
    """Undo reverts a commit and leaves its changes staged; it is rejected if the user committed since."""
    folder = made(tmp_path / "project")
    first = git(folder, "rev-parse", "main")
    (folder / "a.txt").write_text("two\n")
    git(folder, "add", "a.txt")
    workspace = Workspace(folder)
    shell_tool_in(workspace)(command="git commit -q -m next")
    assert "refs/heads/main" in workspace.changes
    git(folder, "status")  # rewrites the index
    workspace.undo()
    assert (git(folder, "rev-parse", "main"), git(folder, "status", "--short")) == (first, "M  a.txt")
    later = Workspace(folder)
    shell_tool_in(later)(command="git commit -q -m next")
    git(folder, "commit", "-q", "--allow-empty", "-m", "by the user")
    last = git(folder, "rev-parse", "main")
    with pytest.raises(ToolError, match="'refs/heads/main' was changed since"):
        later.undo()
    assert git(folder, "rev-parse", "main") == last


def test_repository_of_the_home_is_not_exposed(tmp_path):
    """A home folder that is a repository is not exposed to commands in its subfolders."""
    made(tmp_path / "home/dotfiles").rename(tmp_path / "moved")
    (tmp_path / "moved/.git").rename(tmp_path / "home/.git")
    (tmp_path / "home/work").mkdir()
    assert repository_of(str(tmp_path / "home/work")) is None


def test_commit_without_identity_returns_a_hint(tmp_path, monkeypatch):
    """A commit without a configured name and e-mail address returns a note with a hint."""
    folder = made(tmp_path / "project")
    (tmp_path / "home/.gitconfig").unlink()
    result = shell_tool_in(Workspace(folder))(command="git commit -m x --allow-empty")
    assert "has no name and e-mail address" in result["note"]


@pytest.mark.parametrize(
    ("setting", "verdict"),
    [
        (("core.fsmonitor", "./evil"), Verdict.ASK),
        (("diff.x.textconv", "./evil"), Verdict.ASK),
        (("filter.x.clean", "./evil"), Verdict.ASK),
        (("diff.external", "./evil"), Verdict.ASK),
        (("core.hooksPath", "hooks"), Verdict.ASK),
        (("include.path", "../more"), Verdict.ASK),
        (("color.ui", "auto"), Verdict.ALLOW),
    ],
)
@pytest.mark.parametrize("where", ["work", "nested"])
def test_git_that_runs_programs_needs_approval_without_a_sandbox(setting, verdict, where, tmp_path):
    """Without a sandbox, reading git commands need approval if the repository's settings name programs."""
    folder = made(tmp_path / "work")
    repository = folder if where == "work" else made(folder / "nested")
    (repository / "more").write_text("[core]\n\tpager = ./evil\n")
    git(repository, "config", *setting)
    shell = shell_tool_in(Workspace(folder), Confinement(available=frozenset({"seccomp"})))
    for command in ("git status", "git log --oneline", "git diff", "git grep one", "git blame a.txt", "git fsck"):
        assert shell.judge({"command": command}).verdict is verdict, command
    assert shell.judge({"command": "cat a.txt"}).verdict is Verdict.ALLOW
    assert shell_tool_in(Workspace(folder)).judge({"command": "git status"}).verdict is Verdict.ALLOW


@pytest.mark.parametrize("mode", MODES)
def test_wal_database_is_read_without_changes(mode, tmp_path):
    """A reading command opens a database in WAL mode, and leaves it and its folder unchanged."""
    for path in (tmp_path / "app.db", tmp_path / "data/b.db"):
        path.parent.mkdir(exist_ok=True)
        with sqlite3.connect(path) as database:
            database.execute("pragma journal_mode=wal")
            database.execute("create table t as select 42 as x")
        database.close()
    (tmp_path / ".env").write_text(CANARY)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.db")}
    names = sorted(tmp_path.iterdir())
    shell = shell_tool_in(Workspace(tmp_path), MODES[mode])
    for command in ("sqlite3 app.db 'select x from t'", "cd data && sqlite3 -readonly b.db 'select x from t'"):
        assert shell.judge({"command": command}).verdict is Verdict.ALLOW
        assert shell(command=command)["output"] == "42\n"
    command = "sqlite3 app.db 'insert into t values (1)'; echo x > app.db; rm -f app.db; cat .env; echo x > new"
    outcome = run_command(command, tmp_path, Confinement(available=MODES[mode].available, writable=False))
    assert CANARY not in outcome.output
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.db")} == before
    assert sorted(tmp_path.iterdir()) == names
