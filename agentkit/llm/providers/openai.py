"""OpenAI, and every service that speaks its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from agentkit.config import DEFAULT_MODEL, Secret
from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.endpoint import Endpoint, Wishes

_OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Service:
    """A service known by name: where it is, and the variables that hold its key and URL.

    Without `key_variable` it is a local server that needs no key.
    """

    base_url: str
    key_variable: str | None = None
    url_variable: str | None = None


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


def openai_endpoint(wishes: Wishes, env: Mapping[str, str]) -> Endpoint:
    """OpenAI itself, or the OpenAI-compatible server at a base URL, which needs no key."""
    base_url = _base_url(wishes.base_url or env.get("AGENTKIT_BASE_URL") or env.get("OPENAI_BASE_URL") or _OPENAI_URL)
    api_key = wishes.api_key or _secret(env.get("OPENAI_API_KEY"))
    is_openai = urlsplit(base_url).hostname == urlsplit(_OPENAI_URL).hostname
    if is_openai and api_key is None:
        raise NoProvider("No API key found: OpenAI API key required. Set OPENAI_API_KEY or pass api_key=.")
    return Endpoint(
        provider="openai",
        model=wishes.model or env.get("OPENAI_MODEL") or DEFAULT_MODEL,
        base_url=base_url,
        protocol=wishes.protocol or ("responses" if is_openai else "chat"),
        api_key=api_key,
        strict=is_openai,
    )


def service_endpoint(name: str, wishes: Wishes, env: Mapping[str, str]) -> Endpoint:
    """The service of that name in `SERVICES`."""
    service = SERVICES[name]
    if not wishes.model:
        raise ConfigError(f"{name} needs a model's name: pass model='{name}:MODEL' or set AGENTKIT_MODEL.")
    api_key = wishes.api_key or _secret(env.get(service.key_variable or ""))
    if service.key_variable and api_key is None:
        raise NoProvider(f"No API key found: {name} API key required. Set {service.key_variable} or pass api_key=.")
    return Endpoint(
        provider=name,
        model=wishes.model,
        base_url=_base_url(wishes.base_url or env.get(service.url_variable or "") or service.base_url),
        protocol=wishes.protocol or "chat",
        api_key=api_key,
    )


def _base_url(url: str) -> str:
    """A usable base URL, or ConfigError. A whole endpoint's address, as people paste it, is cut back to its base."""
    parts = urlsplit(url.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{url!r} is not a base URL; it looks like https://host/v1 or http://127.0.0.1:11434/v1.")
    base = url.strip().rstrip("/")
    for path in ("/chat/completions", "/responses"):
        base = base.removesuffix(path)
    return base


def _secret(value: str | None) -> Secret | None:
    return Secret(value) if value else None
