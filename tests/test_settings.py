"""Tests for environment variables, secrets, and folders of settings and state."""

import copy
import json
import os
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from agentkit import settings
from agentkit.settings import Secret


def test_empty_variables_count_as_unset(monkeypatch):
    """Empty variables count as unset, and surrounding whitespace is removed."""
    monkeypatch.setenv("AGENTKIT_MODEL", " gpt-6\n")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("OPENAI_BASE_URL", "  ")
    environment = settings.environment()
    assert environment["AGENTKIT_MODEL"] == "gpt-6"
    assert not {"OPENAI_API_KEY", "OPENAI_BASE_URL"} & environment.keys()


def test_empty_variables_are_listed(monkeypatch):
    """Empty variables of agentkit are listed, and those of other programs are not."""
    for name in os.environ:
        if name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_")):
            monkeypatch.delenv(name)
    for name in ("OPENAI_BASE_URL", "AGENTKIT_MODEL", "SOMEBODY_ELSES"):
        monkeypatch.setenv(name, " ")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert settings.empty_variables() == ("AGENTKIT_MODEL", "OPENAI_BASE_URL")


@pytest.mark.parametrize(
    "show", [str, repr, "{}".format, "{!s:>20}".format, lambda secret: f"%s %r {secret}" % (secret, secret)]
)
def test_secret_is_masked_in_text(show):
    """A secret is masked in any string formatting."""
    assert "s3cret" not in show(Secret("s3cret"))


def test_secret_is_not_serialized_as_json():
    """A secret cannot be serialized as JSON."""
    with pytest.raises(TypeError):
        json.dumps({"key": Secret("s3cret")})


def test_secret_is_revealed_only_on_request():
    """A secret has `reveal`, is compared by value, and can be copied and pickled."""
    secret = Secret("s3cret")
    assert secret.reveal() == "s3cret"
    assert secret == Secret("s3cret") == copy.deepcopy(secret) == ForkingPickler.loads(ForkingPickler.dumps(secret))
    assert secret != Secret("other")
    assert secret != "s3cret"
    assert len({secret, Secret("s3cret")}) == 1


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("sk-0123456789", "key sk-0123456789, again (sk-0123456789)", "key ***, again (***)"),
        ("sk-0123456789", "xsk-0123456789x", "x***x"),
        ("a.c*", "a.c* abc", "*** abc"),
        ("x", "x-ray, max, x", "***-ray, max, ***"),
        ("", "nothing", "nothing"),
    ],
)
def test_secret_is_removed_from_a_text(value, text, expected):
    """A secret is removed from a text, a short one only as a separate word."""
    assert Secret(value).scrub(text) == expected


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {}, "~/.local/state/agentkit"),
        ("linux", {"XDG_STATE_HOME": "/x"}, "/x/agentkit"),
        ("darwin", {"XDG_STATE_HOME": "/x"}, "~/Library/Application Support/agentkit"),
        ("win32", {}, "~/AppData/Local/agentkit"),
        ("win32", {"LOCALAPPDATA": "/x"}, "/x/agentkit"),
        ("linux", {"AGENTKIT_STATE": "/y", "XDG_STATE_HOME": "/x"}, "/y"),
    ],
)
def test_state_folder_depends_on_the_platform(platform, variables, folder, monkeypatch):
    """The state folder depends on the platform and on environment variables."""
    for name in ("AGENTKIT_STATE", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert settings.state_folder(platform) == Path(folder).expanduser()


@pytest.mark.parametrize(
    ("platform", "variables", "file"),
    [
        ("linux", {}, "~/.config/agentkit/config.toml"),
        ("darwin", {"XDG_CONFIG_HOME": "/x", "APPDATA": "/y"}, "/x/agentkit/config.toml"),
        ("win32", {"XDG_CONFIG_HOME": "/x"}, "~/AppData/Roaming/agentkit/config.toml"),
        ("win32", {"APPDATA": "/y"}, "/y/agentkit/config.toml"),
    ],
)
def test_settings_folder_depends_on_the_platform(platform, variables, file, monkeypatch):
    """The settings folder depends on the platform."""
    for name in ("XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert settings.settings_file(platform) == Path(file).expanduser()


def test_secret_values_are_sorted_by_length(monkeypatch):
    """Secret values are stripped, unique and sorted by length, longest first."""
    monkeypatch.setenv("SHOP_PASS", "swordfish-77\n")
    monkeypatch.setenv("SHOP_PWD", "swordfish-77")
    monkeypatch.setenv("SHOP_TOKEN", "swordfish-77-and-more")
    found = [value for value in settings.secret_values() if value.startswith("swordfish")]
    assert found == ["swordfish-77-and-more", "swordfish-77"]


class Terminal:
    """A stream that is a terminal."""

    def isatty(self):
        """Return True."""
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb", "FORCE_COLOR": "1"}, True)],
)
def test_colours_depend_on_the_terminal(variables, coloured, monkeypatch):
    """Colours depend on the terminal, NO_COLOR and FORCE_COLOR."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert settings.has_colour(Terminal()) is coloured


def test_missing_stream_is_not_a_terminal():
    """A missing stream is not a terminal."""
    assert not settings.is_terminal(None)
