"""The folders that a sandboxed command sees of people's homes."""

from pathlib import Path

import pytest

from agentkit.sandbox.mounts import command_mounts, home_folders


@pytest.fixture
def home(monkeypatch, tmp_path):
    """The home folder of HOME, with programs and notes, outside the real ones."""
    folder = tmp_path.resolve() / "people" / "ann"
    for name in (".cargo", "notes"):
        (folder / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    return str(folder)


def test_homes_are_those_of_the_system_and_of_the_variable(home):
    """The homes are /root, /home and the folder in HOME."""
    system = {str(path.resolve()) for path in (Path("/root"), Path("/home")) if path.is_dir()}
    assert {*system, home} <= set(home_folders())


@pytest.mark.for_each("value", ["/", "/usr", "/home/nobody-of-this-name"])
def test_a_home_that_is_a_system_folder_or_missing_does_not_count(value, monkeypatch):
    """A HOME that is the root folder, a folder directly below it, or missing is not hidden."""
    monkeypatch.setenv("HOME", value)
    assert value not in home_folders()


def test_homes_are_empty_but_for_programs(home, tmp_path):
    """A home is shown as an empty folder, with its folders of programs read-only in it."""
    desk = tmp_path.resolve() / "desk"
    desk.mkdir()
    mounts = command_mounts(str(desk), str(tmp_path), writable=False, scratch_bytes=1_000_000).mounts
    places = [(kind, path) for kind, path, _ in mounts]
    assert places.index(("tmpfs", home)) < places.index(("ro", f"{home}/.cargo"))
    assert f"{home}/notes" not in [path for _, path in places]
    assert ("ro", str(desk)) in places
