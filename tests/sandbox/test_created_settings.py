"""Tests that commands leave no settings behind that other programs run, and that ordinary work is not affected."""

import pytest

from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.process import Confinement, command_boundary, run_command

MODES = {"bubblewrap": Confinement(), "worker": Confinement(available=MECHANISMS - {"bubblewrap"})}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not command_boundary().is_strong, reason="this machine lacks user namespaces"),
]
SETTINGS = (
    ".mcp.json",
    ".vscode/tasks.json",
    ".bashrc",
    ".devcontainer/devcontainer.json",
    ".idea/workspace.xml",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".github/workflows/x.yml",
    ".husky/pre-commit",
    ".exrc",
    ".gdbinit",
    "sitecustomize.py",
    "x.pth",
    ".envrc",
    "sub/.vscode/tasks.json",
    "a/b/.envrc",
    ".npmrc",
    ".ssh/authorized_keys",
    ".aws/config",
    "x.code-workspace",
    ".devcontainer.json",
    ".git/hooks/pre-commit",
    "sub/.git/hooks/post-checkout",
    ".VSCode/tasks.json",
    ".vimrc",
    "agentkit.toml",
    "sub/agentkit.toml",
    "sitecustomize/__init__.py",
    "sub/usercustomize.so",
    ".hg/hgrc",
    ".dir-locals.el",
    ".woodpecker.yml",
    "sub/.run/x.run.xml",
    "opencode.json",
)
HARMFUL_REPOSITORIES = {
    "git init -q . && git config core.fsmonitor evil": ".git/config",
    "git init -q . && git config alias.x '!sh'": ".git/config",
    "git init -q . && git config include.path ../evil": ".git/config",
    "git init -q . && printf '[core] fsmonitor=x\n' > .git/config": ".git/config",
    "git init -q . && printf '[core]\nbare = \\\\\n\tx\n' > .git/config": ".git/config",
    "git init -q . && echo x > .git/hooks/pre-commit": ".git/hooks",
    "mkdir -p e/objects e/refs && echo x > e/HEAD && printf '[core]\nfsmonitor=x\n' > e/config": "e/config",
    "mkdir -p e && echo 'ref: refs/heads/x' > e/HEAD && echo ../evil > e/commondir": "e/commondir",
}
ORDINARY = {
    "git init -q . && git init -q sub && git init -q --bare b.git && cd sub && git -c user.name=a -c user.email=a@b "
    "commit -q --allow-empty -m x && git worktree add -q ../tree && git -C ../tree status": (
        *(".git/config", "sub/.git/hooks", "b.git/config", "tree/.git"),
    ),
    "python3 -m venv --without-pip .venv && echo import os > $(echo .venv/lib/python3*/site-packages)/x.pth": (
        ".venv/pyvenv.cfg",
    ),
    "mkdir -p node_modules/x/.github/workflows && cd node_modules/x && touch .github/workflows/ci.yml .npmrc": (
        *("node_modules/x/.github/workflows/ci.yml", "node_modules/x/.npmrc"),
    ),
    "touch package.json Makefile README.md .gitignore .env.example && mkdir .github": (".gitignore", ".github"),
}


@pytest.mark.parametrize("mode", MODES)
def test_new_settings_of_programs_are_removed(mode, tmp_path):
    """A script's new settings of editors, shells, hooks and build servers are removed and reported, at any depth."""
    for number, name in enumerate(SETTINGS):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = run_command(f"mkdir -p $(dirname {name}); echo x > {name}", str(folder), MODES[mode])
        assert len(outcome.created.removed) == 1, name
        assert [each.content for each in outcome.created.contents] == [b"x\n"], name
        assert not (folder / name).exists(), name


@pytest.mark.parametrize("command", HARMFUL_REPOSITORIES)
def test_new_repository_that_runs_programs_is_disarmed(command, tmp_path):
    """Settings and hooks of a new repository, also a bare one, are removed if they name a program."""
    assert run_command(command, str(tmp_path)).created.removed == (HARMFUL_REPOSITORIES[command],)
    assert not (tmp_path / HARMFUL_REPOSITORIES[command]).exists()


@pytest.mark.parametrize("command", ORDINARY)
def test_new_repositories_environments_and_packages_are_unchanged(command, tmp_path):
    """New repositories, worktrees, virtual environments and package folders are unchanged."""
    outcome = run_command(command, str(tmp_path))
    assert (outcome.return_code, outcome.created.removed) == (0, ()), outcome.output
    assert [name for name in ORDINARY[command] if not (tmp_path / name).exists()] == []


@pytest.mark.parametrize("mode", MODES)
def test_existing_settings_are_read_only_at_any_depth(mode, tmp_path):
    """Settings in subfolders cannot be changed, also after a folder is moved, and links to them are restored."""
    for name in ("pkg/.vscode/tasks.json", ".github/workflows/x.yml", "rc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("kept")
    (tmp_path / ".bashrc").symlink_to("rc")
    command = (
        "echo x > .github/workflows/x.yml; echo x > .github/workflows/y.yml; mv pkg moved; echo x > rc; rm .bashrc; "
        "echo x > .bashrc; echo x > moved/.vscode/tasks.json; rm -rf moved/.vscode"
    )
    outcome = run_command(command, str(tmp_path), MODES[mode])
    assert outcome.created.removed == (".bashrc",)
    assert (tmp_path / "moved" / ".vscode" / "tasks.json").read_text() == "kept"
    assert [path.name for path in (tmp_path / ".github" / "workflows").iterdir()] == ["x.yml"]
    assert (tmp_path / ".bashrc").is_symlink()
    assert (tmp_path / ".bashrc").read_text() == "kept"


def test_code_is_not_added_to_an_existing_environment(tmp_path):
    """In an existing virtual environment, a path file may add folders but not code."""
    site = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    command = f"cd {site} && echo /srv/src > good.pth && echo import os > bad.pth && touch sitecustomize.py"
    outcome = run_command(command, str(tmp_path))
    assert sorted(path.name for path in site.iterdir()) == ["good.pth"]
    assert len(outcome.created.removed) == 2


def test_settings_with_changed_permissions_are_removed(tmp_path):
    """Settings are also removed if a command has changed their permissions."""
    command = "mkdir -p a/.idea a/.husky/x; chmod 000 a/.idea a/.husky; chmod 555 a"
    outcome = run_command(command, str(tmp_path))
    assert len(outcome.created.removed) == 2
    assert not {".idea", ".husky"} & {path.name for path in (tmp_path / "a").iterdir()}
    (tmp_path / "a").chmod(0o700)
