"""Tests for the endpoints of OpenAI and of services with its protocol."""

import pytest

from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.endpoint import Sources
from agentkit.llm.providers.openai import SERVICES, openai_endpoint, service_endpoint
from agentkit.settings import Secret

KEY = {"api_key=": Secret("k")}
OWN = {"base_url=": "http://own.example/v1"}


def test_openai_uses_the_responses_protocol():
    """OpenAI, including its regions, uses the Responses protocol with strict schemas."""
    for values in ({}, {"base_url=": "https://eu.api.openai.com/v1"}):
        endpoint = openai_endpoint(Sources(KEY | values))
        assert (endpoint.protocol, endpoint.strict, endpoint.is_openai) == ("responses", True, True)


@pytest.mark.parametrize(
    "url", ["http://own.example/v1", "https://api.openai.com.evil.example/v1", "https://notapi.openai.com.io"]
)
def test_other_servers_use_chat_completions(url):
    """Other servers use Chat Completions without strict schemas, and need no key."""
    endpoint = openai_endpoint(Sources({"base_url=": url, "model=": "m"}))
    assert (endpoint.protocol, endpoint.strict, endpoint.is_openai) == ("chat", False, False)
    assert (endpoint.base_url, endpoint.api_key) == (url, None)


def test_protocol_can_be_chosen():
    """The protocol of a server can be overridden."""
    assert openai_endpoint(Sources(KEY | {"protocol=": "chat"})).protocol == "chat"
    assert service_endpoint("vllm", Sources({"model=": "m", "protocol=": "responses"})).protocol == "responses"


def test_query_of_the_base_url_is_stored():
    """The query of a base URL is sent with every request."""
    endpoint = openai_endpoint(Sources({"OPENAI_BASE_URL": "http://own.example/v1?token=t"}))
    assert (endpoint.base_url, endpoint.query) == ("http://own.example/v1", {"token": "t"})


def test_openai_needs_a_key():
    """Without a key, OpenAI is not called."""
    with pytest.raises(NoProvider, match="OpenAI API key required"):
        openai_endpoint(Sources({}))


@pytest.mark.for_each("name", SERVICES)
def test_services_are_selected_by_name(name):
    """A service is selected by its name, over https with its own key, or locally without one."""
    service = SERVICES[name]
    key = {service.key_variable: "k"} if service.key_variable else {}
    endpoint = service_endpoint(name, Sources({"model=": "m", "OPENAI_API_KEY": "openai's", **key}))
    assert (endpoint.provider, endpoint.model, endpoint.base_url) == (name, "m", service.base_url)
    assert endpoint.api_key == (Secret("k") if key else None)
    assert endpoint.base_url.startswith("https://" if key else "http://127.0.0.1:")


def test_hosted_service_needs_a_key():
    """A hosted service needs its key, except at a custom base URL."""
    with pytest.raises(NoProvider, match=r"openrouter API key required\. Set OPENROUTER_API_KEY or pass api_key="):
        service_endpoint("openrouter", Sources({"model=": "m"}))
    assert service_endpoint("openrouter", Sources({"model=": "m"} | OWN)).base_url == OWN["base_url="]


def test_url_of_a_local_service():
    """The URL of a local service can be set by a variable or an argument, which takes precedence."""
    values = {"model=": "m", "OLLAMA_BASE_URL": "http://gpu.example:11434/v1"}
    assert service_endpoint("ollama", Sources(values)).base_url == "http://gpu.example:11434/v1"
    assert service_endpoint("ollama", Sources(values | OWN)).base_url == OWN["base_url="]


def test_service_needs_a_model():
    """A service has no default model."""
    with pytest.raises(ConfigError, match="groq needs a model's name"):
        service_endpoint("groq", Sources(KEY))


def test_agentkit_model_applies_to_services():
    """AGENTKIT_MODEL names the model of a service; OPENAI_MODEL does not."""
    assert service_endpoint("vllm", Sources({"AGENTKIT_MODEL": "m", "OPENAI_MODEL": "n"})).model == "m"


# the provider and other arguments; its URL, its protocol and the header of its key
MESSAGES = {
    "anthropic itself": ("anthropic", {}, "https://api.anthropic.com/v1", "messages", "x-api-key"),
    "anthropic, as in its package": (
        "anthropic",
        {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"},
        "https://api.anthropic.com/v1",
        "messages",
        "x-api-key",
    ),
    "a gateway": (
        "anthropic",
        {"base_url=": "http://own.example/anthropic/"},
        "http://own.example/anthropic/v1",
        "messages",
        "x-api-key",
    ),
    "pasted URL": (
        "anthropic",
        {"base_url=": "http://own.example/v1/messages"},
        "http://own.example/v1",
        "messages",
        "x-api-key",
    ),
    "anthropic's answer to openai": (
        "anthropic",
        {"protocol=": "chat"},
        "https://api.anthropic.com/v1",
        "chat",
        None,
    ),
    "a local server": (
        "ollama",
        {"protocol=": "messages", "OLLAMA_BASE_URL": "http://gpu.example:11434"},
        "http://gpu.example:11434/v1",
        "messages",
        None,
    ),
}


@pytest.mark.parametrize(("name", "values", "url", "protocol", "header"), MESSAGES.values(), ids=MESSAGES)
def test_anthropic_protocol_has_its_own_url_and_header(name, values, url, protocol, header):
    """Anthropic uses the Messages protocol, a URL below /v1, and a separate header for the key."""
    endpoint = service_endpoint(name, Sources(KEY | {"model=": "m"} | values))
    assert (endpoint.base_url, endpoint.protocol, endpoint.key_header) == (url, protocol, header)


def test_any_server_may_use_the_messages_protocol():
    """A server at a base URL uses the Messages protocol and its key header if requested."""
    endpoint = openai_endpoint(Sources(KEY | {"base_url=": "http://own.example", "protocol=": "messages"}))
    assert (endpoint.base_url, endpoint.key_header, endpoint.strict) == ("http://own.example/v1", "x-api-key", False)
