"""Tests for the folders of a repository that are outside of the workspace of a command."""

import subprocess

import pytest

from agentkit.sandbox.git_access import Git, repository_of


@pytest.mark.parametrize(("workspace", "outside"), [("", []), ("sub", [".git"]), ("../app-2", [".git"])])
def test_folders_of_the_repository_outside_the_workspace(workspace, outside, tmp_path):
    """Only a repository above or next to the workspace has folders outside of it."""
    top = tmp_path / "app"
    (top / "sub").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (tmp_path / "app-2").mkdir()
    git = Git(str((top / workspace).resolve()), str(tmp_path), True, repository_of(str(top)))
    assert git.outside == [str(top / name) for name in outside]
