"""Tests for locations in manifests, which are the same on every machine."""

import shlex
import sys
import tempfile
from pathlib import Path

import pytest
from openai import OpenAI

from agentkit import LLM, Session
from agentkit.manifest.identity import format_command, format_folder, format_url, model_facts, session_kind
from agentkit.sessions.stores.in_memory import InMemorySessionStore
from agentkit.testing import ScriptedLLM
from agentkit.usage import Price

TOLD_KEY = "sk-" + "a1b2c3d4" * 5


def test_folders(tmp_path, monkeypatch):
    """A folder is listed relative to the program; unrelated folders by kind or hash."""
    monkeypatch.setenv("HOME", "/home/somebody")
    program = tmp_path / "bots"
    assert format_folder(program, program) == "."
    assert format_folder(program / "data" / "in", program) == "data/in"
    assert format_folder(tmp_path, program) == ".."
    assert format_folder(tmp_path / "data", program) == "../data"
    assert format_folder(Path(tempfile.gettempdir()) / "of-this-run", Path("/srv/bots")) == "a temporary folder"
    assert format_folder("/home/somebody/notes/in", program) == "~/notes/in"
    assert format_folder("/home/somebody", Path("/home/somebody/bots")) == "~"


def test_folders_elsewhere(tmp_path):
    """An unrelated folder is listed by the hash of its name."""
    output = format_folder("/srv/data", tmp_path)
    assert output.startswith("elsewhere sha256:")
    assert output == format_folder("/srv/data", tmp_path / "bots")
    assert output != format_folder("/srv/other", tmp_path)
    assert "srv" not in output


def test_commands(tmp_path):
    """A command is listed without keys, with the interpreter's name and relative files."""
    words = [
        sys.executable,
        "-m",
        "server",
        str(tmp_path / "server.py"),
        str(tmp_path / "bin" / "run"),
        "a b",
        TOLD_KEY,
    ]
    parts = shlex.split(format_command(words, tmp_path))
    assert parts[:-1] == ["python", "-m", "server", "server.py", "bin/run", "a b"]
    assert "a1b2" not in parts[-1]


def test_addresses():
    """A URL is listed without user, password, query and keys."""
    assert format_url("https://me:word@example.com/mcp?token=abc") == "https://example.com/mcp"
    assert "a1b2" not in format_url(f"https://example.com/{TOLD_KEY}/mcp")


def test_sessions(tmp_path):
    """A session is listed by the kind of its store, without name or content."""
    assert session_kind(None) == session_kind(Session()) == "in memory"
    assert session_kind(Session("trips", InMemorySessionStore())) == "in memory"
    assert session_kind("trips") == session_kind(Session.open(tmp_path / "s.db", "trips")) == "kept on this machine"


@pytest.fixture
def of_model(monkeypatch):
    """Return the facts of a model: host, name, provider and the variable of its key."""
    for variable in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(variable, TOLD_KEY)

    def tell(**options):
        fields = dict(model_facts(LLM(**options)))
        assert TOLD_KEY not in str(fields)
        return fields["host"], fields["key"], fields["name"], fields["provider"]

    return tell


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("environment", "environment", "environment", "environment")),
        ({"model": "gpt-5.4"}, ("environment", "environment", "gpt-5.4", "environment")),
        ({"provider": "openai"}, ("api.openai.com", "OPENAI_API_KEY", "environment", "openai")),
        ({"api_key": TOLD_KEY}, ("api.openai.com", "given by the program", "environment", "openai")),
        ({"model": "groq:qwen3"}, ("api.groq.com", "GROQ_API_KEY", "qwen3", "groq")),
        ({"model": "ollama:qwen3"}, ("127.0.0.1:11434", None, "qwen3", "ollama")),
        (
            {"base_url": "https://me:word@models.example.com/v1?key=abc", "model": "mistral:7b"},
            ("models.example.com", "OPENAI_API_KEY", "mistral:7b", "openai"),
        ),
        (
            {"azure_endpoint": "https://our.openai.azure.com", "model": "gpt"},
            ("our.openai.azure.com", "AZURE_OPENAI_API_KEY", "gpt", "azure"),
        ),
        (
            {"azure_token_provider": lambda: "token", "azure_endpoint": "https://our.openai.azure.com"},
            ("our.openai.azure.com", "given by the program", "environment", "azure"),
        ),
        (
            {"client": OpenAI(api_key=TOLD_KEY, base_url="https://gate.example.com/v1"), "model": "m"},
            ("gate.example.com", "given by the program", "m", "openai"),
        ),
    ],
    ids=["nothing", "model", "provider", "key", "service", "local", "base-url", "azure", "token", "client"],
)
def test_models(of_model, options, expected):
    """Facts of a model are those of the program, without the environment; its key is listed by name."""
    assert of_model(**options) == expected


def test_azure_that_the_environment_completes(of_model, monkeypatch):
    """If the environment provides the endpoint, the manifest says so."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://our.openai.azure.com")
    assert of_model(provider="azure", model="gpt") == ("environment", "AZURE_OPENAI_API_KEY", "gpt", "azure")


def test_other_models():
    """An agent without a client is listed as decided by the environment, and other clients by class name."""
    assert dict(model_facts("offline:needle3"))["host"] is None
    assert dict(model_facts(None))["provider"] == "environment"
    assert dict(model_facts(ScriptedLLM("Yes.")))["client"] == "agentkit.testing.scripted_llm.ScriptedLLM"
    assert dict(model_facts(None))["client"] is None


def test_fallbacks(of_model):
    """Every host that may receive the conversation is listed once, in order, with the name of each key."""
    inner = LLM(model="ollama:qwen3", fallback="offline")
    output = of_model(model="groq:llama", fallback=[inner, "groq:gemma"])
    assert output == (
        "api.groq.com, then 127.0.0.1:11434",
        "GROQ_API_KEY",
        "llama, then qwen3, then environment, then gemma",
        "groq, then ollama, then offline",
    )


def test_fallbacks_of_a_name(monkeypatch):
    """Fallbacks of a named model are listed; those of the environment are not."""
    fields = dict(model_facts("groq:llama | gemma | offline"))
    assert (fields["host"], fields["provider"]) == ("api.groq.com", "groq, then offline")
    monkeypatch.setenv("AGENTKIT_MODEL", "ollama:qwen3 | lmstudio:gemma")
    assert dict(model_facts(LLM()))["host"] == "environment"


def test_fallback_of_another_class():
    """Clients of other classes are named at any position; settings that may be tools are listed for all."""
    fallback = ScriptedLLM("Yes.").with_settings(tools=[])
    fields = dict(model_facts(LLM(model="ollama:qwen3", fallback=fallback, price=Price(1, 2))))
    assert fields["client"] == "agentkit.testing.scripted_llm.ScriptedLLM"
    assert fields["settings"].startswith("tools sha256:")
    assert fields["price"] == "1 and 2 US dollars per million tokens"
