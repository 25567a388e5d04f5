"""Tests for the selection of a provider by arguments and variables."""

import subprocess
import sys

import pytest

from agentkit.errors import ConfigError, NoProvider
from agentkit.installation import install_command
from agentkit.llm.client import LLM
from agentkit.llm.detection import PROVIDERS, detect
from agentkit.llm.endpoint import LLMArguments
from agentkit.settings import DEFAULT_ANTHROPIC_MODEL, DEFAULT_MODEL, Secret

OPENAI = {"OPENAI_API_KEY": "sk-openai"}
AZURE = {"AZURE_OPENAI_API_KEY": "azure-key", "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com"}
TOKEN = {"AZURE_OPENAI_AD_TOKEN": "token", "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com"}
ANTHROPIC = {"ANTHROPIC_API_KEY": "sk-ant"}
LOCAL = "http://127.0.0.1:9/v1"


def token_provider():
    """Return an Entra ID token."""
    return "token"


# arguments, variables; the provider and model; the deciding setting
CHOICES = {
    "openai's key": ({}, OPENAI, "openai", DEFAULT_MODEL, "OPENAI_API_KEY"),
    "a base URL and no key": ({}, {"OPENAI_BASE_URL": LOCAL}, "openai", DEFAULT_MODEL, "OPENAI_BASE_URL"),
    "our base URL": ({}, {"AGENTKIT_BASE_URL": LOCAL}, "openai", DEFAULT_MODEL, "AGENTKIT_BASE_URL"),
    "azure's pair": ({}, AZURE, "azure", DEFAULT_MODEL, "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT"),
    "azure's token": ({}, TOKEN, "azure", DEFAULT_MODEL, "AZURE_OPENAI_AD_TOKEN and AZURE_OPENAI_ENDPOINT"),
    "azure's pair before openai's key": (
        {},
        AZURE | OPENAI,
        "azure",
        DEFAULT_MODEL,
        "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT",
    ),
    "our variable before azure's pair": (
        {},
        AZURE | OPENAI | {"AGENTKIT_PROVIDER": " OpenAI "},
        "openai",
        DEFAULT_MODEL,
        "AGENTKIT_PROVIDER",
    ),
    "an argument before our variable": (
        {"provider": "Azure"},
        AZURE | {"AGENTKIT_PROVIDER": "openai"},
        "azure",
        DEFAULT_MODEL,
        "provider=",
    ),
    "the offline model before every server": ({"model": " Offline "}, OPENAI, "offline", "needle3", "model="),
    "the offline model by our variable": (
        {},
        OPENAI | {"AGENTKIT_MODEL": "offline", "OPENAI_BASE_URL": LOCAL},
        "offline",
        "needle3",
        "AGENTKIT_MODEL",
    ),
    "server's model with that name": (
        {"model": "offline", "base_url": LOCAL},
        {},
        "openai",
        "offline",
        "base_url=",
    ),
    "an explicit key": ({"api_key": Secret("k")}, AZURE, "openai", DEFAULT_MODEL, "api_key="),
    "an explicit endpoint": (
        {"azure_endpoint": "https://x.example"},
        AZURE | OPENAI,
        "azure",
        DEFAULT_MODEL,
        "azure_endpoint=",
    ),
    "a token provider": (
        {"azure_token_provider": token_provider},
        AZURE | OPENAI,
        "azure",
        DEFAULT_MODEL,
        "azure_token_provider=",
    ),
    "a base URL": ({"base_url": LOCAL}, AZURE, "openai", DEFAULT_MODEL, "base_url="),
    "a prefix": ({"model": "ollama:qwen3"}, OPENAI, "ollama", "qwen3", "model="),
    "a prefix in capitals": ({"model": "Ollama:qwen3:8b"}, OPENAI, "ollama", "qwen3:8b", "model="),
    "colon without a prefix": ({"model": "ft:gpt-4o:me"}, OPENAI, "openai", "ft:gpt-4o:me", "OPENAI_API_KEY"),
    "a prefix and an address": ({"model": "ollama:qwen3", "base_url": LOCAL}, {}, "ollama", "qwen3", "model="),
    "a name that looks like a prefix": (
        {"model": "mistral:7b", "base_url": LOCAL},
        {},
        "openai",
        "mistral:7b",
        "base_url=",
    ),
    "such a name, at a provider": (
        {"model": "mistral:7b", "provider": "ollama"},
        {},
        "ollama",
        "mistral:7b",
        "provider=",
    ),
    "repeated prefix": (
        {"model": "ollama:qwen3", "provider": "ollama"},
        {},
        "ollama",
        "qwen3",
        "provider=",
    ),
    "our model": ({}, OPENAI | {"AGENTKIT_MODEL": "gpt-6"}, "openai", "gpt-6", "OPENAI_API_KEY"),
    "our model with a prefix": ({}, OPENAI | {"AGENTKIT_MODEL": "ollama:qwen3"}, "ollama", "qwen3", "AGENTKIT_MODEL"),
    "our model, meant for another": (
        {"provider": "openai"},
        OPENAI | {"AGENTKIT_MODEL": "ollama:qwen3"},
        "openai",
        DEFAULT_MODEL,
        "provider=",
    ),
    "our model that looks like a prefix": (
        {},
        {"AGENTKIT_MODEL": "mistral:7b", "AGENTKIT_BASE_URL": LOCAL},
        "openai",
        "mistral:7b",
        "AGENTKIT_BASE_URL",
    ),
    "such a model, at our provider": (
        {"provider": "ollama"},
        {"AGENTKIT_MODEL": "mistral:7b", "AGENTKIT_PROVIDER": "ollama"},
        "ollama",
        "mistral:7b",
        "provider=",
    ),
    "openai's model": ({}, OPENAI | {"OPENAI_MODEL": "gpt-6"}, "openai", "gpt-6", "OPENAI_API_KEY"),
    "our model before openai's": (
        {},
        OPENAI | {"OPENAI_MODEL": "gpt-5", "AGENTKIT_MODEL": "gpt-6"},
        "openai",
        "gpt-6",
        "OPENAI_API_KEY",
    ),
    "an argument before both": (
        {"model": "gpt-7"},
        OPENAI | {"OPENAI_MODEL": "gpt-5", "AGENTKIT_MODEL": "gpt-6"},
        "openai",
        "gpt-7",
        "OPENAI_API_KEY",
    ),
    "a prefix without a model": ({"model": "openai:"}, OPENAI, "openai", DEFAULT_MODEL, "model="),
    "offline": ({"provider": "offline"}, AZURE | OPENAI, "offline", "needle3", "provider="),
    "anthropic's key": ({}, ANTHROPIC, "anthropic", DEFAULT_ANTHROPIC_MODEL, "ANTHROPIC_API_KEY"),
    # After all others: a key for another program must not redirect requests.
    "anthropic's key and openai's": ({}, ANTHROPIC | OPENAI, "openai", DEFAULT_MODEL, "OPENAI_API_KEY"),
    "anthropic's key and a server": (
        {},
        ANTHROPIC | {"OPENAI_BASE_URL": LOCAL},
        "openai",
        DEFAULT_MODEL,
        "OPENAI_BASE_URL",
    ),
    "anthropic's key and azure's pair": (
        {},
        ANTHROPIC | AZURE,
        "azure",
        DEFAULT_MODEL,
        "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT",
    ),
    "anthropic by name": (
        {"provider": "anthropic"},
        ANTHROPIC | OPENAI,
        "anthropic",
        DEFAULT_ANTHROPIC_MODEL,
        "provider=",
    ),
    "a model of anthropic's": (
        {"model": "anthropic:claude-opus-5-5"},
        ANTHROPIC | OPENAI,
        "anthropic",
        "claude-opus-5-5",
        "model=",
    ),
    "anthropic's model": (
        {},
        ANTHROPIC | {"ANTHROPIC_MODEL": "claude-opus-5-5"},
        "anthropic",
        "claude-opus-5-5",
        "ANTHROPIC_API_KEY",
    ),
    "our model before anthropic's": (
        {},
        ANTHROPIC | {"ANTHROPIC_MODEL": "claude-opus-5-5", "AGENTKIT_MODEL": "anthropic:claude-x"},
        "anthropic",
        "claude-x",
        "AGENTKIT_MODEL",
    ),
}


@pytest.mark.for_each(("arguments", "variables", "provider", "model", "decider"), CHOICES.values(), ids=CHOICES)
def test_precedence_of_settings(arguments, variables, provider, model, decider):
    """Arguments come first, then AGENTKIT_PROVIDER, Azure's pair, OpenAI's key or base URL, and Anthropic's key."""
    endpoint, decided_by, _ = detect(LLMArguments(**arguments), variables)
    assert (endpoint.provider, endpoint.model, decided_by) == (provider, model, decider)


# arguments, variables; words of the error
FAILURES = {
    "nothing": (
        {},
        {},
        [
            "No API key found",
            "OPENAI_API_KEY",
            "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT",
            "ANTHROPIC_API_KEY",
            "offline",
        ],
    ),
    "invalid provider": (
        {"model": "bedrock:claude-x"},
        {},
        ["Unknown provider 'bedrock'", "ollama", "base_url="],
    ),
    "invalid provider, with a key": (
        {"model": "bedrock:claude-x", "api_key": "k"},
        {},
        ["Unknown provider 'bedrock'", "base_url="],
    ),
    "invalid provider, with OpenAI's key": (
        {},
        {**OPENAI, "AGENTKIT_MODEL": "gorq:llama"},
        ["Unknown provider 'gorq'", "groq"],
    ),
    "a provider for a model": (
        {"model": "groq"},
        {},
        ["'groq' is a provider, not a model. Use LLM('groq')"],
    ),
    "a model of ours": ({"model": "qwen3:8b"}, {}, ["No API key found"]),
    "a fine-tuned model": ({}, {"AGENTKIT_MODEL": "ft:gpt-4o:us"}, ["No API key found"]),
    "azure's key alone": (
        {},
        {"AZURE_OPENAI_API_KEY": "k"},
        ["No API key found", "endpoint required", "AZURE_OPENAI_ENDPOINT"],
    ),
    "azure's token alone": ({}, {"AZURE_OPENAI_AD_TOKEN": "k"}, ["AZURE_OPENAI_AD_TOKEN", "endpoint required"]),
    "azure's endpoint alone": (
        {},
        {"AZURE_OPENAI_ENDPOINT": "https://x"},
        ["No API key found", "API key required", "AZURE_OPENAI_API_KEY is not set"],
    ),
    "azure without anything": ({"provider": "azure"}, OPENAI, ["endpoint required", "AZURE_OPENAI_ENDPOINT"]),
    "azure without a key": (
        {"provider": "azure", "azure_endpoint": "https://x"},
        OPENAI,
        ["API key required", "AZURE_OPENAI_API_KEY"],
    ),
    "azure without an endpoint": ({"provider": "azure", "api_key": Secret("k")}, {}, ["endpoint required"]),
    "openai without a key": (
        {"provider": "openai"},
        AZURE,
        ["No API key found", "OPENAI_API_KEY", "api_key=", "offline"],
    ),
    "anthropic without a key": ({"model": "anthropic:m"}, OPENAI, ["No API key found", "ANTHROPIC_API_KEY"]),
    "a service without a key": ({"model": "groq:m"}, OPENAI, ["No API key found", "GROQ_API_KEY"]),
    "an unknown provider": (
        {"provider": "bogus"},
        OPENAI,
        ["Unknown provider 'bogus' (from provider=)", "Known: openai, azure"],
    ),
    "a word for a provider": ({"provider": "Claude"}, OPENAI, ["Unknown provider 'claude'", "mean 'anthropic'?"]),
    "a word for a prefix": ({"model": "google:any"}, OPENAI, ["Unknown provider 'google'", "mean 'gemini'?"]),
    "a model without a prefix": ({"provider": "gpt-5"}, OPENAI, ["The name of a model goes into model=."]),
    "a model for a provider": (
        {"provider": "openai:gpt-5"},
        OPENAI,
        ["Unknown provider", "Write model='openai:MODEL'."],
    ),
    "a misspelt provider": ({}, {"AGENTKIT_PROVIDER": "olama"}, ["from AGENTKIT_PROVIDER", "Did you mean 'ollama'?"]),
}


@pytest.mark.for_each(("arguments", "variables", "words"), FAILURES.values(), ids=FAILURES)
def test_missing_configuration_is_explained(arguments, variables, words):
    """NoProvider states what is missing and how to fix it."""
    with pytest.raises(NoProvider) as caught:
        detect(LLMArguments(**arguments), variables)
    assert [word for word in words if word not in str(caught.value)] == []


WITHOUT_NEEDLE = """
import sys

sys.modules["needle"] = None  # as where the package is not installed
from agentkit.llm.detection import detect
from agentkit.llm.endpoint import LLMArguments

try:
    detect(LLMArguments(), {})
except ValueError as error:
    print(error)
"""


def test_error_suggests_the_offline_model():
    """Without a provider, the error explains how to use the offline model or how to install it."""
    with pytest.raises(NoProvider) as caught:
        detect(LLMArguments(), {})
    assert str(caught.value).endswith("For simple requests without a key: AGENTKIT_PROVIDER=offline.")
    assert "pip install" not in str(caught.value)
    output = subprocess.check_output([sys.executable, "-c", WITHOUT_NEEDLE], text=True, timeout=60)
    assert install_command("offline") in output


def test_key_passed_as_the_provider_is_redacted():
    """A key passed as the provider is redacted in the error."""
    with pytest.raises(NoProvider, match="Unknown provider") as caught:
        detect(LLMArguments(provider="sk-proj-0123456789abcdef"), {})
    assert "0123456789" not in str(caught.value)


def test_service_needs_the_name_of_a_model():
    """A service with many models has no default model."""
    with pytest.raises(ConfigError, match="ollama needs a model's name: pass model='ollama:MODEL'"):
        detect(LLMArguments(provider="ollama"), {})


# arguments, variables; the ignored setting and the reason
IGNORED = {
    "nothing": ({}, OPENAI, ()),
    "another provider's key": (
        {"provider": "azure"},
        AZURE | OPENAI,
        ("OPENAI_API_KEY (names openai; provider= decides first)",),
    ),
    "azure's pair": (
        {"base_url": LOCAL},
        AZURE,
        ("AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT (names azure; base_url= decides first)",),
    ),
    "half of azure's pair": (
        {},
        OPENAI | {"AZURE_OPENAI_API_KEY": "k"},
        ("AZURE_OPENAI_API_KEY (Azure OpenAI endpoint required too: AZURE_OPENAI_ENDPOINT is not set)",),
    ),
    "the other half": (
        {},
        OPENAI | {"AZURE_OPENAI_ENDPOINT": "https://x"},
        ("AZURE_OPENAI_ENDPOINT (Azure OpenAI API key required too: AZURE_OPENAI_API_KEY is not set)",),
    ),
    "half of azure's pair that is used": (
        {"azure_token_provider": token_provider},
        {"AZURE_OPENAI_ENDPOINT": "https://x"},
        (),
    ),
    "a key that an argument replaces": ({"api_key": Secret("k")}, OPENAI, ("OPENAI_API_KEY (api_key= comes first)",)),
    "an address that another replaces": (
        {},
        {"AGENTKIT_BASE_URL": LOCAL, "OPENAI_BASE_URL": LOCAL},
        ("OPENAI_BASE_URL (AGENTKIT_BASE_URL comes first)",),
    ),
    "models that an argument replaces": (
        {"model": "gpt-7"},
        OPENAI | {"AGENTKIT_MODEL": "gpt-6", "OPENAI_MODEL": "gpt-5"},
        ("AGENTKIT_MODEL (model= comes first)", "OPENAI_MODEL (model= comes first)"),
    ),
    "a model for another provider": (
        {"provider": "openai"},
        OPENAI | {"AGENTKIT_MODEL": "groq:m"},
        ("AGENTKIT_MODEL (names groq; provider= decides first)",),
    ),
    "a version of azure's": (
        {"azure_api_version": "v1"},
        OPENAI,
        ("azure_api_version= (openai does not use it)",),
    ),
    "settings the offline model does not need": (
        {"provider": "offline", "api_key": Secret("k"), "protocol": "chat"},
        {},
        ("api_key= (names openai; provider= decides first)", "protocol= (offline does not use it)"),
    ),
    "variable with the same value": ({"provider": "offline"}, {"AGENTKIT_PROVIDER": "offline"}, ()),
    "setting of another provider that is used": (
        {"provider": "ollama", "model": "mistral:7b", "api_key": Secret("k")},
        {},
        (),
    ),
    "a key of anthropic's": (
        {},
        OPENAI | ANTHROPIC | {"ANTHROPIC_BASE_URL": LOCAL},
        ("ANTHROPIC_API_KEY (names anthropic; OPENAI_API_KEY decides first)",),
    ),
    "a second address": (
        {"provider": "azure", "azure_endpoint": "https://x", "base_url": LOCAL, "api_key": Secret("k")},
        {},
        ("base_url= (names openai; provider= decides first)",),
    ),
    "a second credential": (
        {"azure_token_provider": token_provider, "azure_endpoint": "https://x"},
        {"AZURE_OPENAI_API_KEY": "k", "UNRELATED": "1"},
        ("AZURE_OPENAI_API_KEY (azure_token_provider= comes first)",),
    ),
}


@pytest.mark.for_each(("arguments", "variables", "ignored"), IGNORED.values(), ids=IGNORED)
def test_ignored_settings_are_reported(arguments, variables, ignored):
    """Ignored arguments and variables are reported with the reason."""
    assert detect(LLMArguments(**arguments), variables)[2] == ignored


def test_every_provider_has_a_prefix():
    """Each provider can be named in front of a model's name."""
    secrets = {"api_key": Secret("k"), "azure_endpoint": "https://x.example"}
    for name in PROVIDERS:
        endpoint, *_ = detect(LLMArguments(model=f"{name}:m", **secrets), {})
        assert (endpoint.provider, endpoint.model) == (name, "needle3" if name == "offline" else "m")


def test_offline_provider_ignores_the_model_name():
    """The offline provider ignores a model name and reports that it was ignored."""
    endpoint, _, ignored = detect(LLMArguments(provider="offline", model="gpt-5.4-mini"), {})
    assert endpoint.model == "needle3"
    assert ignored == ("model= (offline does not use it)",)


@pytest.mark.parametrize(
    ("model", "suggestion"),
    [
        ("ollma:qwen3", "ollama:qwen3"),
        ("olama:qwen3", "ollama:qwen3"),
        ("oepnai:gpt-5", "openai:gpt-5"),
        ("openrouterr:a/b", "openrouter:a/b"),
        ("azura:gpt", "azure:gpt"),
    ],
)
def test_misspelt_provider_with_a_base_url(model, suggestion):
    """A provider prefix with one wrong letter raises an error that suggests the correct one."""
    with pytest.raises(NoProvider, match=f"Did you mean '{suggestion}'"):
        LLM(model=model, base_url="http://127.0.0.1:1/v1")
    assert LLM("openai", model=model, base_url="http://127.0.0.1:1/v1").model == model


@pytest.mark.parametrize(
    "model", ["llama:7b", "mixtral:8x7b", "deepseek-r1:7b", "qwen3:8b", "openai/gpt-oss-20b", "a:b"]
)
def test_names_of_models_on_other_servers(model):
    """Models whose names resemble those of providers can be used at a base URL."""
    assert LLM(model=model, base_url="http://127.0.0.1:1/v1").model == model


@pytest.mark.parametrize("key", [None, "sk-0123456789"])
def test_slash_instead_of_a_colon(key, monkeypatch):
    """`provider/model` raises an error that suggests `provider:model`."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(NoProvider, match="Write model='ollama:qwen3'"):
        LLM(model="ollama/qwen3", api_key=key)
