"""Tests for the configuration of models in GGUF files, which needs neither llama.cpp nor a model."""

import pickle
import subprocess
import sys

import pytest

from agentkit import LLM
from agentkit.errors import ConfigError, NoProvider
from agentkit.testing import record, replay


@pytest.fixture
def file(tmp_path):
    """A truncated file with the header of a GGUF file."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00")
    return path


def test_local_model_is_described_without_starting_it(file):
    """A model in a file is local, needs no key and costs nothing."""
    llm = LLM("local", model=str(file), settings={"threads": 2})
    assert (llm.provider, llm.model, llm.describe().endpoint) == ("local", str(file), "this machine")
    assert llm.list_models() == [str(file)]
    assert llm.describe().adjustments == ()
    assert pickle.loads(pickle.dumps(llm)).equals(llm)
    llm.close()


def test_provider_can_be_named_before_the_file(file, monkeypatch):
    """`local:` before a path names the provider, in arguments, variables and fallbacks."""
    assert LLM(model=f"local:{file}").model == str(file)
    assert LLM("offline", fallback=f"local:{file}").fallbacks[0].provider == "local"
    monkeypatch.setenv("AGENTKIT_MODEL", f"local:{file}")
    assert LLM().model == str(file)


def test_relative_path_is_resolved_when_the_llm_is_created(file, monkeypatch):
    """A relative path, or one in the home folder, is resolved when the LLM is made."""
    monkeypatch.chdir(file.parent)
    assert LLM("local", model="model.gguf").model == "model.gguf"
    monkeypatch.setenv("HOME", str(file.parent))
    assert LLM("local", model="~/model.gguf").provider == "local"


def test_missing_model_file_raises_config_error():
    """A missing path of a model file raises ConfigError."""
    with pytest.raises(ConfigError, match=r"^local needs the path of a GGUF file: pass model='model.gguf' or set"):
        LLM("local")
    with pytest.raises(NoProvider, match=r"'local' is a provider, not a model. Use LLM\('local'\)"):
        LLM(model="local")


def test_replay_needs_no_file(tmp_path):
    """A recording of a local model can be replayed without its file."""
    with record(tmp_path / "cassette.jsonl"):
        pass
    with replay(tmp_path / "cassette.jsonl"):
        assert LLM("local", model="missing.gguf").provider == "local"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, r"/m\.gguf' cannot be read: No such file or directory\. Pass the path of a GGUF file, as in LLM\("),
        ("folder", r"/m\.gguf' cannot be read: Is a directory\."),
        (b"", r"/m\.gguf' is not a GGUF file: it begins with b''\. Download the model as a \.gguf file"),
        (b"version https://git-lfs.github.com/spec/v1", r"is not a GGUF file: it begins with b'vers'"),
        (b"PK\x03\x04 a zip archive", r"is not a GGUF file"),
    ],
)
def test_invalid_file_is_rejected_when_the_llm_is_created(tmp_path, content, fault):
    """A missing file, a folder and a file of another format raise an error with advice."""
    path = tmp_path / "m.gguf"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=fault):
        LLM("local", model=str(path))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"context_tokens": 0}, r"^context_tokens= takes a whole number, 1 or more\. Got 0\."),
        ({"threads": "4"}, r"^threads= takes a whole number, 1 or more\. Got '4'\."),
        ({"threads": True}, r"^threads= takes a whole number"),
        ({"gpu_layers": -1}, r"^gpu_layers= takes a whole number, 0 or more\. Got -1\."),
        ({"n_ctx": 4096}, r"^The provider local has no setting 'n_ctx'\. Write context_tokens=4096\."),
        ({"num_thread": 2}, r"Write threads=2\."),
    ],
)
def test_invalid_settings_are_named(file, ask, settings, fault):
    """An invalid value, or the name that a setting has elsewhere, raises an error with the correct one."""
    with pytest.raises(ConfigError, match=fault):
        ask(LLM("local", model=str(file)), **settings)


PROGRAM = """
import asyncio, sys
sys.modules["xllamacpp"] = None
from agentkit import LLM
from agentkit.errors import MissingExtra
llm = LLM("local", model=sys.argv[1])
for ask in (llm.chat, lambda prompt: asyncio.run(llm.achat(prompt))):
    try:
        ask("Hi")
    except MissingExtra as error:
        print(error)
"""


def test_missing_package_is_named(file):
    """Without the extra, the error contains the command that installs it."""
    command = [sys.executable, "-c", PROGRAM, str(file)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout.split("\n")
    assert lines[0].startswith("A model in a GGUF file needs an optional package. Install it with: ")
    assert "[local]" in lines[0]
    assert lines == [lines[0], lines[0], ""]


def test_local_model_rejects_embeddings(file):
    """Embeddings are rejected before the server is started."""
    with pytest.raises(ConfigError, match=r"^This provider cannot compute embeddings"):
        LLM("local", model=str(file)).embed(["one"])
