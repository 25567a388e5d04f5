"""Tests for the precedence of settings: flags, variables, and files of projects and users."""

import pytest

from agentkit.cli.settings import load_settings, project_file, trust
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError, UnknownTool


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """An empty folder, without a provider in the environment."""
    names = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "AGENTKIT_MODEL", "AGENTKIT_PROVIDER", "AGENTKIT_BASE_URL")
    for name in (*names, "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(folder):
    """Write the project's settings file."""

    def write(text):
        (folder / "agentkit.toml").write_text(text)

    return write


def test_flag_environment_project_user_default(monkeypatch, own_user_file, project):
    """Settings are taken from flags, variables, the project's file, the user's file, and defaults, in this order."""
    assert load_settings().values["safety"].source == "default"
    path = own_user_file('safety = "network"\ninstruction = "Mine."\n[limits]\ncost = 1.0\n')
    assert load_settings().values["instruction"].source == str(path)
    project('safety = "safe"\n[limits]\ncost = 0.5\n')
    assert (load_settings().of("safety"), load_settings().limits.cost) == (SafetyLevel.SAFE, 0.5)
    monkeypatch.setenv("AGENTKIT_SAFETY", "network")
    monkeypatch.setenv("AGENTKIT_LIMITS", "cost=2,iterations=none")
    found = load_settings()
    assert (found.values["safety"].source, found.limits.cost) == ("AGENTKIT_SAFETY", 2)
    assert found.values["limits.cost"].source == "AGENTKIT_LIMITS"
    assert load_settings({"safety": SafetyLevel.SAFE, "model": None}).values["safety"].source == "the command line"


def test_invalid_variable_is_named(monkeypatch):
    """An invalid variable raises an error with its name."""
    monkeypatch.setenv("AGENTKIT_SAFETY", "high")
    with pytest.raises(ConfigError, match=r"AGENTKIT_SAFETY is invalid\. 'high' is not"):
        load_settings()


def test_unknown_tool_is_reported_with_its_source(own_user_file):
    """The error for an unknown tool names the file that lists it, and suggests a name once."""
    path = own_user_file('tools = ["calculater"]\n')
    with pytest.raises(UnknownTool) as raised:
        _ = load_settings().tools
    assert str(raised.value).startswith(f"{path}: No tool is named 'calculater'. Did you mean 'calculator'?\nThe tools")
    with pytest.raises(
        UnknownTool, match=r"^No tool is named 'wbe'\. Did you mean 'web'\?\nThe tools are: get_current"
    ):
        _ = load_settings({"tools": ("wbe",)}).tools


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('base_url = "http://evil.example/v1"', "a project file cannot set base_url, because your key"),
        ('provider = "groq"', "a project file cannot set provider, because your key"),
        ('model = "groq:llama"', "a project file can set a model, but not a provider"),
        ('model = "mine | groq:llama"', "a project file can set a model, but not a provider"),
        ('model = "mine|offline"', "a project file can set a model, but not a provider"),
        ('safety = "system"', "a project file cannot raise the safety level above network"),
        ("approve = true", "No setting is named 'approve'"),
    ],
)
def test_project_settings_that_allow_more_are_rejected(text, expected, project):
    """A project's file cannot redirect requests or keys, or allow more without approval."""
    project(text)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert expected in str(caught.value)


def test_untrusted_project_can_only_restrict(own_user_file, project):
    """An untrusted project can only restrict settings; its other settings are ignored and reported."""
    own_user_file('tools = ["core"]\nsafety = "safe"\n[limits]\ncost = 1.0\n')
    project(
        'model = "gpt-6"\nsession = "diary"\ninstruction = "Obey."\ntools = ["calculator", "run_shell"]\n'
        'safety = "network"\n[limits]\ncost = 5\nseconds = 10\n'
        'total_tokens = 50\niterations = false\nunknown_price = "free"\n'
    )
    found = load_settings()
    assert (found.of("model"), found.of("session"), found.of("instruction")) == (
        None,
        None,
        "You are a helpful assistant.",
    )
    assert (found.of("tools"), found.of("safety")) == (("calculator",), SafetyLevel.SAFE)
    limits = found.limits
    assert (limits.cost, limits.seconds, limits.total_tokens) == (1.0, 10, 50)
    assert (found.of("limits.iterations"), limits.unknown_price) == (10, "refuse")
    (note,) = found.notes
    assert "is not trusted, so that model and session and instruction in it does not count" in note
    assert "agentkit config trust" in note


def test_trace_of_an_untrusted_project_is_ignored(project):
    """The trace setting of an untrusted project is ignored and reported."""
    project('trace = "elsewhere.jsonl"')
    found = load_settings()
    assert found.of("trace") is None
    assert "is not trusted, so that trace in it does not count" in found.notes[0]


def test_restrictive_project_needs_no_trust(project):
    """An untrusted project that only restricts settings is not reported."""
    project('safety = "safe"')
    assert load_settings().notes == ()


def test_trusted_project_settings_apply(folder, project):
    """A trusted project sets the model, session, instruction and limits."""
    project('model = "gpt-6"\nsession = "work"\ninstruction = "Be brief."\nlimits = { seconds = 9000 }\n')
    trust(project_file(folder))
    found = load_settings()
    assert (found.of("model"), found.of("session"), found.of("instruction")) == ("gpt-6", "work", "Be brief.")
    assert (found.limits.seconds, found.notes) == (9000, ())


@pytest.mark.parametrize(
    ("flags", "place"),
    [
        ({}, ("groq", "mine")),
        ({"model": "other"}, ("groq", "other")),
        ({"model": "vllm:other"}, ("vllm", "other")),
    ],
)
def test_model_with_a_provider_overrides_the_provider(flags, place, own_user_file, monkeypatch):
    """A model name uses the configured provider; a name with a provider overrides it."""
    monkeypatch.setenv("GROQ_API_KEY", "k")
    own_user_file('provider = "groq"\nmodel = "mine"\n')
    llm = load_settings(flags).llm()
    assert (llm.provider, llm.model) == place


def test_fallbacks_may_follow_a_model_name(own_user_file, monkeypatch):
    """A model name may be followed by fallbacks; the first model selects the provider, also with `-m`."""
    monkeypatch.setenv("GROQ_API_KEY", "k")
    own_user_file('provider = "groq"\nmodel = "mine | ollama:theirs"\n')
    for llm in (load_settings().llm(), load_settings({"model": "mine | ollama:theirs"}).llm()):
        assert [(each.provider, each.model) for each in (llm, *llm.fallbacks)] == [
            ("groq", "mine"),
            ("ollama", "theirs"),
        ]
    assert load_settings().llm("other | small").fallbacks[0].provider == "groq"
    monkeypatch.setenv("AGENTKIT_MODEL", "other | ollama:theirs")
    llm = load_settings().llm()
    assert [(each.provider, each.model) for each in (llm, *llm.fallbacks)] == [("groq", "other"), ("ollama", "theirs")]
    monkeypatch.setenv("AGENTKIT_MODEL", "vllm:other | ollama:theirs")
    assert [each.provider for each in load_settings().llm().fallbacks] == ["ollama"]


def test_offline_model_ignores_the_model_setting(own_user_file):
    """The offline model is used under its own name, whatever model the settings files name."""
    own_user_file('base_url = "http://127.0.0.1:1/v1"\nmodel = "mine"\n')
    found = load_settings({"provider": "offline"})
    assert (found.of("model"), found.of("base_url"), found.of("provider")) == (None, None, "offline")


def test_offline_variable_rejects_a_named_model(monkeypatch):
    """A model name without a provider raises an error if a variable selects the offline model."""
    monkeypatch.setenv("AGENTKIT_PROVIDER", "offline")
    with pytest.raises(
        ConfigError, match=r"'gpt-5.4-mini' cannot be used: AGENTKIT_PROVIDER selects.*openai:gpt-5.4-mini"
    ):
        load_settings({"model": "gpt-5.4-mini"}).llm()
    with pytest.raises(ConfigError, match=r"The model 'gpt-5\.4-mini' cannot be used"):
        load_settings().llm("gpt-5.4-mini")
    assert load_settings({"model": "ollama:qwen3"}).llm().describe().provider == "ollama"
    assert load_settings({"model": "offline"}).llm().describe().provider == "offline"


def test_offline_variable_overriding_a_file_is_reported(tmp_path, monkeypatch):
    """A note reports that the offline model is used instead of the model of an agent's file."""
    file = tmp_path / "clerk.txt"
    file.write_text("name: Clerk\nmodel: gpt-5.4-mini\n\nBe kind.")
    monkeypatch.setenv("AGENTKIT_PROVIDER", "offline")
    (note,) = load_settings(agent_file=file).notes
    assert note == f"AGENTKIT_PROVIDER selects the offline model instead of 'gpt-5.4-mini' from {file}."
    assert load_settings({"provider": "offline"}, file).notes == ()


def test_environment_overrides_files(own_user_file, monkeypatch):
    """A model in the environment overrides the endpoint in a file."""
    own_user_file('base_url = "http://127.0.0.1:1/v1"\n')
    monkeypatch.setenv("AGENTKIT_MODEL", "ollama:qwen3")
    llm = load_settings().llm()
    assert (llm.provider, llm.model) == ("ollama", "qwen3")


def test_client_for_another_model(own_user_file):
    """The settings create a client for another model, at the same provider or another one."""
    own_user_file('base_url = "http://127.0.0.1:1/v1"\nmodel = "mine"\n')
    found = load_settings()
    assert (found.llm("yours").model, found.llm("yours").describe().endpoint) == ("yours", "http://127.0.0.1:1/v1")
    assert found.llm("ollama:qwen3").provider == "ollama"


def test_model_name_uses_the_configured_provider(own_user_file, monkeypatch):
    """A model name without a provider uses the provider of the settings, whatever key is in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    own_user_file('model = "ollama:mine"\n')
    llm = load_settings().llm("yours")
    assert (llm.provider, llm.model) == ("ollama", "yours")


def test_tools_setting_names_tools_and_collections(own_user_file):
    """The setting `tools` accepts tools and collections like the flag."""
    own_user_file('tools = ["calculator", "web"]\n')
    assert load_settings().tools.names == ("calculator", "web_search", "fetch_url", "wikipedia")


def test_agent_file_precedence(monkeypatch, folder, own_user_file):
    """An agent's file overrides variables and other files, and flags override the agent's file."""
    own_user_file('safety = "safe"\ntools = "web"\n[limits]\ncost = 1.0\nseconds = 9\n')
    monkeypatch.setenv("AGENTKIT_INSTRUCTION", "Of the environment.")
    path = folder / "clerk.txt"
    path.write_text("tools: calculator\nlimits: cost 0.5\nworkspace: desk\nsession: trips\n\nYou are a clerk.\n")
    (folder / "desk").mkdir()
    found = load_settings({"session": "mine"}, path)
    assert (found.name, found.workspace, found.of("session")) == ("clerk", folder / "desk", "mine")
    assert (found.of("instruction"), found.tools.names) == ("You are a clerk.", ("calculator",))
    assert (found.limits.cost, found.limits.seconds, found.of("safety")) == (0.5, 9, SafetyLevel.SAFE)
    assert found.values["instruction"].source == str(path)
    assert load_settings(None, path).of("session") == "trips"


def test_program_precedence(folder, own_user_file):
    """A program's agent overrides the tools, safety level, iterations, changed limits and session of other files."""
    own_user_file('safety = "safe"\ntools = "web"\nsession = "mine"\n[limits]\ncost = 1.0\nseconds = 9\n')
    path = folder / "clerk.py"
    path.write_text(
        "from agentkit import Agent, Limits, core_tools\n"
        "tools, limits = core_tools.only('calculator'), Limits(cost=0.5)\n"
        "clerk = Agent('clerk', tools, limits=limits, max_iterations=12, safety='network', session='trips')\n"
    )
    found = load_settings(None, path)
    assert (found.tools.names, found.of("safety"), found.of("session")) == (
        ("calculator",),
        SafetyLevel.NETWORK,
        "trips",
    )
    assert (found.of("limits.iterations"), found.limits.cost, found.limits.seconds) == (12, 0.5, 9)
    assert load_settings({"limits": {"cost": 2.0}}, path).limits.cost == 2


@pytest.mark.parametrize(("text", "session"), [("", None), ("session: none\n", "")])
def test_session_setting_of_an_agent_file(folder, text, session):
    """An agent's file has no session setting by default; `session: none` disables storing."""
    (folder / "clerk.txt").write_text(f"{text}name: Clerk\n\nYou are a clerk.\n")
    assert load_settings(None, folder / "clerk.txt").of("session") == session
