"""Tests for the endpoint of the user's own client of the openai package, and its secrets."""

import openai
import pytest

from agentkit.errors import ConfigError
from agentkit.llm.client import LLM
from agentkit.llm.endpoint import Sources
from agentkit.llm.providers.openai import client_endpoint, provider_of

KEY = "sk-test-0123456789"
AZURE = {"api_key": KEY, "azure_endpoint": "https://r.openai.azure.com", "api_version": "2024-10-21"}
RESOURCE = "https://r.openai.azure.com/openai"


@pytest.mark.for_each("kind", [openai.OpenAI, openai.AsyncOpenAI])
@pytest.mark.for_each(
    ("base_url", "protocol", "is_strict"),
    [
        (None, "responses", True),
        ("https://eu.api.openai.com/v1", "responses", True),
        ("http://127.0.0.1:8000/v1/", "chat", False),
        ("https://r.openai.azure.com/openai/v1/", "chat", False),
    ],
)
def test_client_determines_the_endpoint(kind, base_url, protocol, is_strict):
    """The client's URL is the LLM's, and determines the protocol."""
    endpoint = client_endpoint(Sources({"client=": kind(api_key=KEY, base_url=base_url), "model=": "m"}))
    assert endpoint.base_url == (base_url or "https://api.openai.com/v1").rstrip("/")
    assert (endpoint.provider, endpoint.model) == ("openai", "m")
    assert (endpoint.protocol, endpoint.strict, endpoint.is_openai) == (protocol, is_strict, False)


@pytest.mark.for_each("kind", [openai.AzureOpenAI, openai.AsyncAzureOpenAI])
@pytest.mark.for_each(
    ("options", "values", "model", "url"),
    [
        ({}, {"model=": "d 1"}, "d 1", f"{RESOURCE}/deployments/d%201"),
        ({"azure_deployment": "d2"}, {}, "d2", f"{RESOURCE}/deployments/d2"),
        ({"azure_deployment": "d2"}, {"model=": "gpt-5.4"}, "gpt-5.4", f"{RESOURCE}/deployments/d2"),
        ({}, {"model=": "m", "protocol=": "responses"}, "m", RESOURCE),
        ({}, {"OPENAI_MODEL": "d3"}, "d3", f"{RESOURCE}/deployments/d3"),
    ],
)
def test_azure_deployment_is_in_the_path(kind, options, values, model, url):
    """The Azure deployment in the URL is the client's own, or the given model."""
    endpoint = client_endpoint(Sources({"client=": kind(**AZURE, **options), **values}))
    assert (endpoint.provider, endpoint.model, endpoint.base_url) == ("azure", model, url)


def test_client_credentials_are_redacted():
    """The client's key and custom header values are redacted, and the package's own headers are not."""
    client = openai.OpenAI(api_key=KEY, default_headers={"X-Gateway": "Bearer gate-0123", "X-Flag": "on"})
    endpoint = client_endpoint(Sources({"client=": client}))
    text = f"{KEY} gate-0123 on application/json {client.user_agent}"
    assert endpoint.scrub(text) == f"*** *** on application/json {client.user_agent}"
    assert KEY not in repr(endpoint)


def test_client_with_a_key_callback():
    """A key callback of a client is not called when the LLM is created."""
    questions = []
    endpoint = client_endpoint(Sources({"client=": openai.OpenAI(api_key=lambda: questions.append(1) or KEY)}))
    assert (endpoint.api_key, questions) == (None, [])


@pytest.mark.parametrize("client", [3, "sk-key", object(), openai.OpenAI, openai])
def test_invalid_client_raises_config_error(client):
    """An invalid client raises ConfigError when the LLM is created."""
    with pytest.raises(ConfigError, match="client= takes an OpenAI or AsyncOpenAI"):
        provider_of(client)


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"base_url": "http://127.0.0.1:1/v1"}, "base_url= cannot be combined with client="),
        ({"api_key": KEY, "headers": {"X-Team": "blue"}}, "api_key= and headers= cannot be combined with client="),
        ({"provider": "azure"}, "provider= cannot be combined with client="),
    ],
)
def test_client_excludes_other_connection_arguments(beside, named):
    """`client` cannot be combined with other connection or credential arguments."""
    with pytest.raises(ConfigError, match=named):
        LLM(client=openai.OpenAI(api_key=KEY), **beside)


def test_copies_use_the_same_client():
    """Copies with other settings or models, and fallbacks without a provider, use the same client."""
    client = openai.OpenAI(api_key=KEY, base_url="http://127.0.0.1:1/v1")
    llm = LLM(client=client, model="m", fallback="second")
    likes = (llm.with_settings(temperature=0), llm.with_model("mistral:7b"), llm.fallbacks[0])
    assert [like.arguments.client for like in likes] == [client] * 3
    assert [like.model for like in likes] == ["m", "mistral:7b", "second"]
    assert LLM(client=client, model="m", fallback="ollama:q").fallbacks[0].arguments.client is None
    assert str(llm.describe()).startswith("provider     openai (decided by client=)\n")
