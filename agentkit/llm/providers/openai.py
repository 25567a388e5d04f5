"""OpenAI, and every service that speaks its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from agentkit.config import DEFAULT_MODEL
from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.endpoint import Endpoint, read_url
from agentkit.llm.sources import Sources
from agentkit.slotted import dataclass

_OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Service:
    """A service known by name: where it is, and the variables that hold its key and URL.

    Without `key_variable` it is a local server that needs no key.
    """

    base_url: str
    key_variable: str = ""
    url_variable: str = ""


SERVICES: Mapping[str, Service] = {
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
    if is_own and api_key is None:
        raise NoProvider(
            "No API key found: OpenAI API key required. Set OPENAI_API_KEY or pass api_key=. Other ways: "
            "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT; or provider='offline', which needs no key."
        )
    return Endpoint(
        provider="openai",
        model=sources.value("model=", "AGENTKIT_MODEL", "OPENAI_MODEL") or DEFAULT_MODEL,
        base_url=base_url,
        protocol=sources.value("protocol=") or ("responses" if is_own else "chat"),
        api_key=api_key,
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
    model = sources.value("model=", "AGENTKIT_MODEL")
    if not model:
        raise ConfigError(f"{name} needs a model's name: pass model='{name}:MODEL' or set AGENTKIT_MODEL.")
    own_url = sources.value("base_url=", service.url_variable)
    api_key = sources.secret("api_key=", service.key_variable)
    if service.key_variable and not own_url and api_key is None:
        raise NoProvider(f"No API key found: {name} API key required. Set {service.key_variable} or pass api_key=.")
    base_url, query = read_url(own_url or service.base_url)
    return Endpoint(
        provider=name,
        model=model,
        base_url=base_url,
        protocol=sources.value("protocol=") or "chat",
        api_key=api_key,
        query=query,
        headers=sources.value("headers=") or {},
    )


def is_openai(base_url: str) -> bool:
    """Whether a base URL is OpenAI's own; its regions have hosts of their own, such as eu.api.openai.com."""
    host = urlsplit(base_url).hostname or ""
    return f".{host}".endswith(".api.openai.com")
