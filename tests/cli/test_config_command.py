"""Tests for `agentkit config` and `agentkit init`."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from agentkit.cli.settings import user_file


def test_config_path(typed_line, own_user_file, tmp_path):
    """`config path` shows both files, whether they exist, and whether the project is trusted."""
    out, _, code = typed_line("config", "path")
    assert (code, "(does not exist; agentkit init writes it)" in out, "project  none" in out) == (0, True, True)
    own = own_user_file('session = "x"\n')
    (tmp_path / "agentkit.toml").write_text('session = "x"\n')
    out = typed_line("config", "path")[0]
    assert out.splitlines()[0] == f"yours    {own}"
    assert "(not trusted; agentkit config trust)" in out


def test_config_show_lists_values_with_their_sources(typed_line, own_user_file, monkeypatch):
    """`config show` lists each value with its source, without secrets."""
    path = own_user_file('base_url = "http://me:hunter2@127.0.0.1:1/v1"\ntools = ["core"]\nsession = "a"\n')
    monkeypatch.setenv("AGENTKIT_INSTRUCTION", "Use sk-abcdefghij0123456789ABCDEFG\nbriefly.")
    out = typed_line("config", "show")[0]
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert str(path) in rows["base_url"]
    assert "http://127.0.0.1:1/v1" in rows["base_url"]
    assert "AGENTKIT_INSTRUCTION" in rows["instruction"]
    assert rows["safety"].split() == ["safety", "network", "default"]
    assert not any(secret in out for secret in ("hunter2", "sk-abcdefghij0123456789ABCDEFG"))
    document = json.loads(typed_line("config", "show", "--json")[0])
    assert document["settings"]["tools"] == {"value": ["core"], "source": str(path)}
    assert document["schema_version"] == 1


def test_config_trust(typed_line, tmp_path):
    """`config trust` activates the project's file; before that, `config show` reports what is ignored."""
    _, err, code = typed_line("config", "trust")
    assert (code, "agentkit init --project" in err) == (2, True)
    (tmp_path / "agentkit.toml").write_text('session = "work"\n')
    assert "session in it does not count" in typed_line("config", "show")[1]
    _, err, code = typed_line("config", "trust")
    assert (code, "Trusted until it changes" in err) == (0, True)
    assert typed_line("config", "show")[1] == ""
    assert "(trusted)" in typed_line("config", "path")[0]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("provider", "openay", "No provider is named 'openay'.\nDid you mean 'openai'?"),
        ("model", "openay:x", "No provider is named 'openay'.\nDid you mean 'openai'?"),
        ("aliases.fast", "grok:x", "No provider is named 'grok'.\nDid you mean 'groq'?"),
        ("tools", "core,nosuch", "No tool is named 'nosuch'."),
        ("tools", "cor", "No tool is named 'cor'. Did you mean 'core'?"),
        ("limits.cost", "0", "The limit cost takes a number above 0, or none for no limit."),
    ],
)
def test_unknown_names_are_rejected(typed_line, key, value, message):
    """`config set` rejects unknown providers, tools and limits, and writes nothing."""
    _, err, code = typed_line("config", "set", key, value)
    assert (code, message in err or message.replace(". ", ".\n") in err) == (2, True)
    assert not (Path(os.environ["XDG_CONFIG_HOME"]) / "agentkit" / "config.toml").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("provider", "groq"),
        ("model", "qwen3:8b"),
        ("model", "ollama:qwen3"),
        ("tools", "core,mine.py,hosted:web_search"),
    ],
)
def test_known_names_are_accepted(typed_line, key, value):
    """`config set` accepts models with a colon in their name, and tools of files, which are not run."""
    assert typed_line("config", "set", key, value)[2] == 0


def test_unset_removes_a_value(typed_line, own_user_file):
    """`config unset` removes one line of the user's file, and reports a value that is not in it."""
    path = own_user_file('model = "gpt-5"  # mine\n\n[options]\n# careful\ntemperature = 0.2\nseed = 1\n')
    assert typed_line("config", "unset", "options.temperature")[2] == 0
    assert typed_line("config", "unset", "model")[2] == 0
    assert path.read_text() == "\n[options]\n# careful\nseed = 1\n"
    for key in ("options.temperature", "aliases.fast", "model"):
        _, err, code = typed_line("config", "unset", key)
        assert (code, f"{key} is not set in" in err) == (2, True)
    assert "No setting is named 'modle'" in typed_line("config", "unset", "modle")[1]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temprature", "0.2", "Did you mean 'temperature'?"),
        ("top-p", "0.5", "Did you mean 'top_p'?"),
        ("max_token", "9", "Did you mean 'max_tokens'?"),
        ("reasoning_efort", "low", "Did you mean 'reasoning_effort'?"),
        ("temperature", "hot", "The option temperature takes a number.\nGot 'hot'."),
    ],
)
def test_misspelt_options_of_a_model_are_rejected(typed_line, name, value, message):
    """A misspelt option and a string instead of a number are rejected in flags and settings."""
    for words in (("ask", "--offline", "-O", name, value, "2+2"), ("config", "set", f"options.{name}", value)):
        _, err, code = typed_line(*words)
        assert (code, message in err) == (2, True), err
    assert typed_line("config", "set", "options.frobnicate", "3")[2] == 0


def test_init_writes_a_file_that_can_be_uncommented(typed_line, tmp_path):
    """`init` writes the user's file, `--project` the project's; both are valid once their settings are uncommented."""
    assert typed_line("init")[2] == 0
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "agentkit" / "config.toml"
    assert typed_line("init", "--project")[2] == 0
    for path, keys in ((own, 8), (tmp_path / "agentkit.toml", 6)):
        assert user_file(path).values == {}
        settings = [line for line in path.read_text().splitlines() if " = " in line or "[limits]" in line]
        path.write_text("\n".join(line.removeprefix("# ") for line in settings))
        assert len(tomllib.loads(path.read_text())) == keys + 1
        assert user_file(path).values["limits"]["cost"] == 0.1


def test_init_does_not_overwrite(typed_line, own_user_file):
    """`init` is an error if the settings file exists, and does not change it."""
    path = own_user_file("# mine\n")
    _, err, code = typed_line("init")
    assert (code, f"{path} already exists" in err) == (2, True)
    assert path.read_text() == "# mine\n"


def test_init_reports_an_unwritable_folder(typed_line, monkeypatch, tmp_path):
    """`init` reports a folder that cannot be created."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    _, err, code = typed_line("init")
    assert (code, "cannot be written" in err) == (2, True)


def test_negative_value_is_not_an_option(typed_line):
    """A value that begins with a dash is validated as a value."""
    _, err, code = typed_line("config", "set", "limits.cost", "-1")
    assert (code, "takes a number above 0" in err, "No such option" in err) == (2, True, False)
