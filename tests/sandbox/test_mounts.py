"""Tests for the folders that a sandboxed command sees: homes, and folders of databases."""

import os
from pathlib import Path

import pytest

from agentkit.sandbox.mounts import command_mounts, database_mounts, home_folders


@pytest.fixture
def home(monkeypatch, tmp_path):
    """The folder in HOME, with programs and notes, outside of the real homes."""
    folder = tmp_path.resolve() / "people" / "ann"
    for name in (".cargo", "notes"):
        (folder / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    return str(folder)


def test_homes_of_the_system_and_of_the_variable(home):
    """The homes are /root, /home and the folder in HOME."""
    system = {str(path.resolve()) for path in (Path("/root"), Path("/home")) if path.is_dir()}
    assert {*system, home} <= set(home_folders())


@pytest.mark.for_each("value", ["/", "/usr", "/home/nobody-of-this-name"])
def test_home_that_is_a_system_folder_or_missing_is_ignored(value, monkeypatch):
    """A HOME that is the root folder, a folder directly below it, or missing is not hidden."""
    monkeypatch.setenv("HOME", value)
    assert value not in home_folders()


def test_homes_are_empty_except_for_programs(home, tmp_path):
    """A home is shown as an empty folder that contains its folders of programs, read-only."""
    desk = tmp_path.resolve() / "desk"
    desk.mkdir()
    mounts = command_mounts(str(desk), str(tmp_path), writable=False, scratch_bytes=1_000_000).mounts
    places = [(kind, path) for kind, path, _ in mounts]
    assert places.index(("tmpfs", home)) < places.index(("ro", f"{home}/.cargo"))
    assert f"{home}/notes" not in [path for _, path in places]
    assert ("ro", str(desk)) in places


def test_folder_of_a_database_can_be_written_but_not_its_entries(tmp_path):
    """The folder of a database is replaced by one in memory, with its files and folders read-only and its links."""
    for name in ("data.db", "notes.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("/etc/hosts")
    os.mkfifo(tmp_path / "pipe")
    shown = [("ro", f"{tmp_path}/{name}", f"{tmp_path}/{name}") for name in ("data.db", "notes.txt", "sub")]
    link = ("link", f"{tmp_path}/link", "/etc/hosts")
    assert database_mounts(str(tmp_path), 4096) == [("tmpfs", str(tmp_path), "4096"), shown[0], link, *shown[1:]]
