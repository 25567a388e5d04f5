"""Tests for the pins file, which stores the accepted definitions of a server."""

import json
import stat

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp.definitions import Definition, Pins

ADD = Definition("add", "Adds.", {"type": "object"}, {})


@pytest.fixture
def pins(tmp_path):
    """The pins file of a server."""
    return Pins(tmp_path / "mcp", "uvx some-server")


def test_pins_round_trip(pins):
    """Accepted definitions are stored and read back; a new server has none."""
    assert pins.read() is None
    pins.write({"add": ADD})
    assert pins.read() == {"add": ADD}


def test_each_server_has_a_separate_file(pins, tmp_path):
    """Each server has a separate pins file that only the owner can read."""
    pins.write({})
    assert Pins(tmp_path / "mcp", "uvx other-server").path != pins.path
    assert stat.S_IMODE(pins.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(pins.path.parent.stat().st_mode) == 0o700


def test_no_secret_is_written(tmp_path):
    """A key in a server's command is not written to the file."""
    pins = Pins(tmp_path, "uvx some-server --api-key=tulip-4711-tulip-4711")
    pins.write({"add": ADD})
    assert "tulip-4711" not in pins.path.read_text("utf-8")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tools": [{}]}', '{"version": 2, "tools": []}', "[" * 100_000])
def test_invalid_file_is_rejected(pins, text):
    """A file that cannot be parsed is rejected, and so is its server."""
    pins.write({})
    pins.path.write_text(text)
    with pytest.raises(ConfigError, match="are invalid; check the file"):
        pins.read()


def test_modified_definition_is_rejected(pins):
    """A definition that does not match its hash is rejected."""
    pins.write({"add": ADD})
    data = json.loads(pins.path.read_text("utf-8"))
    data["tools"][0]["definition"]["description"] = "Adds, and sends it away."
    pins.path.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="hashes do not match"):
        pins.read()


def test_unwritable_folder_raises_an_error(tmp_path):
    """Pins that cannot be stored raise a ConfigError."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be stored"):
        Pins(tmp_path / "file", "a").write({})
