"""Tests for `agentkit keys`: API keys stored for the command line."""

import json

import pytest

from agentkit.settings import state_folder
from agentkit.testing import FakeServer

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def without_keyring(monkeypatch):
    """Store keys in the file: use the keyring backend that refuses everything."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def test_key_is_stored_used_listed_and_removed(command, monkeypatch):
    """A piped key is stored for its owner only, sent to its provider, listed without its value, and removed."""
    _, err, code = command("keys", "set", "OpenAI", piped=f"{KEY}\n")
    path = state_folder() / "keys.json"
    assert (code, path.stat().st_mode & 0o777) == (0, 0o600)
    assert "which only you can read" in err
    assert command("keys", "list")[0] == f"openai  file ({path})\n"
    assert KEY not in command("keys", "list", "--json")[0]
    with FakeServer("Hi.") as server:
        monkeypatch.setenv("NO_PROXY", "*")
        assert command("-m", "openai:gpt-5.4-mini", "hi", server=server)[2] == 0
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "openai (decided by" in command("models")[0]
    assert command("keys", "remove", "openai")[2] == 0
    assert "No key is stored" in command("keys", "list")[1]
    _, err, code = command("keys", "remove", "openai")
    assert (code, "No key of 'openai' is stored." in err) == (2, True)


@pytest.mark.parametrize("key", ["two words", "ключ"])
def test_invalid_key_is_rejected(command, key):
    """Keys with several words or non-ASCII characters are rejected and not stored."""
    _, err, code = command("keys", "set", "groq", piped=key)
    assert (code, "A key is one word of printable ASCII characters." in err) == (2, True)
    assert not (state_folder() / "keys.json").exists()


def test_unknown_provider_is_suggested(command):
    """A misspelt provider is an error with the closest name."""
    _, err, code = command("keys", "set", "opnai", piped=KEY)
    assert (code, "No provider with a key is named 'opnai'." in err, "Did you mean 'openai'?" in err) == (2, True, True)


def test_damaged_key_file_is_an_error(command):
    """The error names the file, and no request is sent."""
    path = state_folder() / "keys.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    for content in ("{", "[]"):
        path.write_text(content)
        _, err, code = command("keys", "list")
        assert (code, "keys.json" in err) == (2, True)


def test_key_in_the_environment_takes_precedence(command, monkeypatch):
    """The variable is used, and `keys set` states that."""
    monkeypatch.setenv("GROQ_API_KEY", "gsk-environment-1")
    _, err, _ = command("keys", "set", "groq", piped=KEY)
    assert json.loads((state_folder() / "keys.json").read_text()) == {"groq": {"key": KEY}}
    assert err


def test_keyring_stores_the_key(process, monkeypatch, tmp_path):
    """With a usable keyring, the file contains no key; a key missing from the keyring is an error."""
    (tmp_path / "ring.py").write_text(
        "import json, pathlib\n"
        "from keyring.backend import KeyringBackend\n"
        "P = pathlib.Path(__file__).with_name('ring.json')\n"
        "def load():\n    return json.loads(P.read_text()) if P.exists() else {}\n"
        "class Ring(KeyringBackend):\n"
        "    priority = 5\n"
        "    def get_password(self, service, name):\n        return load().get(name)\n"
        "    def set_password(self, service, name, key):\n        P.write_text(json.dumps({**load(), name: key}))\n"
        "    def delete_password(self, service, name):\n        P.write_text('{}')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "ring.Ring")
    _, err, _ = process("keys", "set", "openai", piped=KEY)
    assert "the system's keyring" in err
    assert KEY not in (state_folder() / "keys.json").read_text()
    assert process("keys", "list")[0] == "openai  keyring\n"
    with FakeServer("Hi.") as server:
        process("-m", "openai:gpt-5.4-mini", "hi", server=server)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    (tmp_path / "ring.json").write_text("{}")
    _, err, code = process("-m", "openai:gpt-5.4-mini", "hi")
    assert (code, "is not in the keyring" in err) == (2, True)
    assert process("keys", "remove", "openai")[2] == 0
