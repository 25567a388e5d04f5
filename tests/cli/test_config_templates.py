"""Tests for question templates, model options, aliases and `config set`."""

import json
import os
from pathlib import Path

import pytest

from agentkit.testing import FakeServer


@pytest.fixture
def template(tmp_path, monkeypatch):
    """Write a template of the user, or of the project in the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(name, text, *, project=False):
        own = Path(os.environ["XDG_CONFIG_HOME"]) / "agentkit/templates"
        folder = tmp_path / ".agentkit/templates" if project else own
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.toml").write_text(text)

    return write


def body(server):
    """Return the last request as JSON."""
    return json.loads(server.requests[-1].body)


def test_template_is_filled(template, command):
    """Parameters, defaults, piped text and settings of a template are used in the question."""
    template(
        "translate",
        'prompt = "Translate into $language, $style:\\n$input"\ninstruction = "You translate."\n'
        'description = "Translates a text."\n[options]\ntemperature = 0.1\n[defaults]\nstyle = "freely"\n',
    )
    with FakeServer("Xin chào.", "Bonjour.") as server:
        out, _, code = command("-T", "translate", "-P", "language", "Vietnamese", "Hello", server=server)
        assert (out, code) == ("Xin chào.\n", 0)
        question = json.dumps(body(server), ensure_ascii=False)
        assert "Translate into Vietnamese, freely:\\nHello" in question
        assert "You translate." in question
        assert body(server)["temperature"] == 0.1
        command("-T", "translate", "-P", "language", "French", "-P", "style", "briefly", server=server, piped="Hi")
        assert "Translate into French, briefly:\\nHi" in json.dumps(body(server))
    out, _, _ = command("templates")
    assert out.startswith("translate  -P language … -P style …  Translates a text.")
    assert json.loads(command("templates", "--json")[0])["templates"][0]["parameters"] == ["language", "style"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("-T", "tran", "x"), "No template is named 'tran'."),
        (("-T", "t", "x"), "The template 't' needs 'language'. Set it with: -P language VALUE"),
        (("-T", "t", "-P", "lang", "x", "y"), "The template 't' has no parameter 'lang'. Known: language."),
        (("-T", "t", "-P", "language", "x"), "The template 't' needs a text."),
        (("-P", "a", "b", "x"), "-P sets a parameter of a template."),
    ],
)
def test_invalid_use_of_a_template_is_an_error(template, command, arguments, error):
    """Missing or unknown templates, parameters and texts raise an error before the model is called."""
    template("t", 'prompt = "$language: $input"')
    _, err, code = command("--offline", *arguments)
    assert (code, error in " ".join(err.split())) == (2, True), err


@pytest.mark.parametrize("text", ["prompt = 5", "x = 1", 'prompt = "$"', "prompt ="])
def test_damaged_template_is_named(template, command, text):
    """The error names the file."""
    template("bad", text)
    _, err, code = command("--offline", "-T", "bad", "hi")
    assert (code, "bad.toml" in err) == (2, True)


def test_damaged_template_does_not_hide_others(template, command):
    """The list names a damaged template, and shows the others."""
    template("bad", "prompt = ")
    template("good", 'prompt = "Say $input"')
    out, err, code = command("templates")
    assert (out.split()[0], code) == ("good", 0)
    assert "bad.toml is not valid TOML" in err


def test_template_of_a_project_is_restricted(template, command):
    """A project's template overrides the user's, cannot name a provider, and cannot raise level or limits."""
    template("t", 'prompt = "mine"')
    template("t", 'prompt = "theirs"\nsafety = "network"\n[limits]\niterations = 99\n', project=True)
    with FakeServer("Ok.") as server:
        assert command("-T", "t", "--limit", "iterations=3", server=server)[2] == 0
        assert "theirs" in json.dumps(body(server))
    for text in ('model = "groq:x"', 'base_url = "http://evil.example"', 'safety = "system"', 'tools = ["x.py"]'):
        template("t", f'prompt = "theirs"\n{text}\n', project=True)
        assert command("--offline", "-T", "t")[2] == 2


def test_options_and_aliases_reach_the_model(template, command):
    """Flags override the options of the settings file, and an alias selects its model."""
    assert command("config", "set", "options.temperature", "0.9")[2] == 0
    assert command("config", "set", "aliases.fast", "gpt-5.4-nano")[2] == 0
    with FakeServer("Ok.") as server:
        flags = ("-m", "fast", "-O", "top_p", "0.5", "--reasoning", "low", "--max-tokens", "99", "-O", "user", "ada")
        assert command(*flags, "hi", server=server)[2] == 0
        sent = body(server)
    assert (sent["model"], sent["temperature"], sent["top_p"], sent["user"]) == ("gpt-5.4-nano", 0.9, 0.5, "ada")
    assert "low" in json.dumps(sent)
    assert 99 in sent.values()


def test_config_set_preserves_the_rest_of_the_file(own_user_file, command):
    """`config set` changes one value, preserves the other lines and rejects invalid values."""
    path = own_user_file('# mine\nmodel = "old"  # why\n\n[limits]\ncost = 0.5\n')
    for key, value in (
        ("model", "gpt-5.4-mini"),
        ("tools", "core, web"),
        ("session", "false"),
        ("limits.cost", "0.25"),
        ("limits.seconds", "none"),
        ("options.top_p", "0.5"),
    ):
        assert command("config", "set", key, value)[2] == 0
    assert path.read_text() == (
        '# mine\nmodel = "gpt-5.4-mini"\ntools = ["core", "web"]\nsession = false\n\n'
        "[limits]\ncost = 0.25\nseconds = false\n\n[options]\ntop_p = 0.5\n"
    )
    before = path.read_text()
    for key, value, error in (
        ("modle", "x", "Did you mean 'model'?"),
        ("limits", "x", "limits is a table."),
        ("limits.cost", "much", "limits.cost was not set:"),
        ("safety", "wild", "is not a safety level"),
    ):
        _, err, code = command("config", "set", key, value)
        assert (code, error in " ".join(err.split())) == (2, True), err
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == ["config.toml"]


def test_config_show_names_the_model_in_use(command, monkeypatch):
    """`config show` without a model setting shows the provider's default, like `agentkit models`."""
    with FakeServer() as server:
        shown = command("config", "show", server=server)[0]
    assert "gpt-5.4-mini" in next(line for line in shown.splitlines() if line.startswith("model "))
