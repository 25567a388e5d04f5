"""OpenAI, every service that is known by name, and any server at a base URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from agentkit.config import DEFAULT_ANTHROPIC_MODEL, DEFAULT_MODEL
from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.endpoint import Endpoint, Protocol, read_url
from agentkit.llm.sources import Sources
from agentkit.slotted import dataclass

_OPENAI_URL = "https://api.openai.com/v1"
_MESSAGES_KEY_HEADER = "x-api-key"
"""Where the key is sent in Anthropic's protocol; other services that speak it too take it where they take it always."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service known by name: where it is, and the variables that hold its key, URL and model.

    Without `key_variable` it is a local server that needs no key. Without `model` one must be named.
    """

    base_url: str
    key_variable: str = ""
    url_variable: str = ""
    model_variable: str = ""
    model: str = ""
    protocol: Protocol = "chat"
    key_header: str | None = None


SERVICES: Mapping[str, Service] = {
    "anthropic": Service(
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        DEFAULT_ANTHROPIC_MODEL,
        protocol="messages",
        key_header=_MESSAGES_KEY_HEADER,
    ),
    "deepseek": Service("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "gemini": Service("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": Service("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "lmstudio": Service("http://127.0.0.1:1234/v1", url_variable="LMSTUDIO_BASE_URL"),
    "mistral": Service("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "ollama": Service("http://127.0.0.1:11434/v1", url_variable="OLLAMA_BASE_URL"),
    "openrouter": Service("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "vllm": Service("http://127.0.0.1:8000/v1", url_variable="VLLM_BASE_URL"),
}


def openai_endpoint(sources: Sources) -> Endpoint:
    """OpenAI itself, or the OpenAI-compatible server at a base URL, which needs no key.

    Raises NoProvider when OpenAI's key is missing, ConfigError when the base URL is none.
    """
    base_url, query = read_url(sources.value("base_url=", "AGENTKIT_BASE_URL", "OPENAI_BASE_URL") or _OPENAI_URL)
    api_key = sources.secret("api_key=", "OPENAI_API_KEY")
    is_own = is_openai(base_url)
    protocol: Protocol = sources.value("protocol=") or ("responses" if is_own else "chat")
    if is_own and api_key is None:
        raise NoProvider(
            "No API key found: OpenAI API key required. Set OPENAI_API_KEY or pass api_key=. Other ways: "
            "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT; or provider='offline', which needs no key."
        )
    return Endpoint(
        provider="openai",
        model=sources.value("model=", "AGENTKIT_MODEL", "OPENAI_MODEL") or DEFAULT_MODEL,
        base_url=based(base_url, protocol),
        protocol=protocol,
        api_key=api_key,
        key_header=_MESSAGES_KEY_HEADER if protocol == "messages" else None,
        query=query,
        headers=sources.value("headers=") or {},
        strict=is_own,
        is_openai=is_own,
    )


def service_endpoint(name: str, sources: Sources) -> Endpoint:
    """The service of that name in `SERVICES`; at a base URL of one's own it needs no key.

    Raises NoProvider when its key is missing, ConfigError without a model's name or when the base URL is none.
    """
    service = SERVICES[name]
    model = sources.value("model=", "AGENTKIT_MODEL", service.model_variable) or service.model
    if not model:
        raise ConfigError(f"{name} needs a model's name: pass model='{name}:MODEL' or set AGENTKIT_MODEL.")
    own_url = sources.value("base_url=", service.url_variable)
    api_key = sources.secret("api_key=", service.key_variable)
    if service.key_variable and not own_url and api_key is None:
        raise NoProvider(f"No API key found: {name} API key required. Set {service.key_variable} or pass api_key=.")
    base_url, query = read_url(own_url or service.base_url)
    protocol: Protocol = sources.value("protocol=") or service.protocol
    return Endpoint(
        provider=name,
        model=model,
        base_url=based(base_url, protocol),
        protocol=protocol,
        api_key=api_key,
        key_header=service.key_header if protocol == service.protocol else None,
        query=query,
        headers=sources.value("headers=") or {},
    )


def based(base_url: str, protocol: Protocol) -> str:
    """The base URL; in Anthropic's protocol, where it is written without its version, that is added."""
    is_bare = protocol == "messages" and not re.search(r"/v\d+\w*$", base_url)
    return f"{base_url}/v1" if is_bare else base_url


def is_openai(base_url: str) -> bool:
    """Whether a base URL is OpenAI's own; its regions have hosts of their own, such as eu.api.openai.com."""
    host = urlsplit(base_url).hostname or ""
    return f".{host}".endswith(".api.openai.com")
