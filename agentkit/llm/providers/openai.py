"""OpenAI, Azure OpenAI, and OpenAI-compatible services and servers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.endpoint import Endpoint, ProtocolName, Sources, TokenProvider, is_header_text, read_url
from agentkit.settings import (
    DEFAULT_ANTHROPIC_MODEL,
    DEFAULT_AZURE_API_VERSION,
    DEFAULT_GEMINI_MODEL,
    DEFAULT_MODEL,
    Secret,
)

_OPENAI_URL = "https://api.openai.com/v1"
_VERSIONS = {"messages": "v1", "gemini": "v1beta"}
_MESSAGES_KEY_HEADER = "x-api-key"
_KEY_HEADERS: Mapping[str, str] = {"messages": _MESSAGES_KEY_HEADER, "gemini": "x-goog-api-key"}
"""Key headers of the protocols of Anthropic and Google; other services with these protocols use their usual header."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service known by name: its URL, and the variables with its key, URL and model.

    Without `key_variable` it is a local server that needs no key; `other_key_variable` is a second name for the key.
    With a `model`, the key alone selects the service; without, the user must name a model. `chat_url` is the URL of its
    Chat Completions if they have their own. `price_name` is the name in genai-prices if it differs.
    """

    base_url: str
    key_variable: str = ""
    url_variable: str = ""
    model_variable: str = ""
    model: str = ""
    protocol: ProtocolName = "chat"
    key_header: str | None = None
    other_key_variable: str = ""
    chat_url: str = ""
    price_name: str = ""


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
    "gemini": Service(
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        "GEMINI_BASE_URL",
        "GEMINI_MODEL",
        DEFAULT_GEMINI_MODEL,
        protocol="gemini",
        key_header=_KEY_HEADERS["gemini"],
        other_key_variable="GOOGLE_API_KEY",
        chat_url="https://generativelanguage.googleapis.com/v1beta/openai",
        price_name="google",
    ),
    "groq": Service("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "lmstudio": Service("http://127.0.0.1:1234/v1", url_variable="LMSTUDIO_BASE_URL"),
    "mistral": Service("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "ollama": Service("http://127.0.0.1:11434/v1", url_variable="OLLAMA_BASE_URL"),
    "openrouter": Service("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "vllm": Service("http://127.0.0.1:8000/v1", url_variable="VLLM_BASE_URL"),
}


def openai_endpoint(sources: Sources) -> Endpoint:
    """OpenAI, or the OpenAI-compatible server at a base URL, which needs no key.

    Raises NoProvider if OpenAI's key is missing, ConfigError if the base URL is invalid.
    """
    base_url, query = read_url(sources.value("base_url=", "AGENTKIT_BASE_URL", "OPENAI_BASE_URL") or _OPENAI_URL)
    api_key = sources.secret("api_key=", "OPENAI_API_KEY")
    is_own = is_openai(base_url)
    protocol: ProtocolName = sources.value("protocol=") or ("responses" if is_own else "chat")
    if is_own and api_key is None:
        raise NoProvider(
            "No API key found: OpenAI API key required. Set OPENAI_API_KEY or pass api_key=. For simple requests "
            "without a key: AGENTKIT_PROVIDER=offline."
        )
    return Endpoint(
        provider="openai",
        model=sources.value("model=", "AGENTKIT_MODEL", "OPENAI_MODEL") or DEFAULT_MODEL,
        base_url=based(base_url, protocol),
        protocol=protocol,
        api_key=api_key,
        key_header=_KEY_HEADERS.get(protocol),
        query=query,
        headers=sources.value("headers=") or {},
        strict=is_own,
        is_openai=is_own,
    )


def service_endpoint(name: str, sources: Sources) -> Endpoint:
    """The service named `name` in `SERVICES`; a custom base URL needs no key.

    Raises NoProvider if the key is missing, ConfigError if the model is missing or the base URL is invalid.
    """
    service = SERVICES[name]
    model = sources.value("model=", "AGENTKIT_MODEL", service.model_variable) or service.model
    if not model:
        raise ConfigError(f"{name} needs a model's name: pass model='{name}:MODEL' or set AGENTKIT_MODEL.")
    own_url = sources.value("base_url=", service.url_variable)
    api_key = sources.secret("api_key=", service.key_variable, service.other_key_variable)
    if service.key_variable and not own_url and api_key is None:
        raise NoProvider(f"No API key found: {name} API key required. Set {service.key_variable} or pass api_key=.")
    is_compatible = service.chat_url and (own_url or "").rstrip("/").endswith("/openai")
    protocol: ProtocolName = sources.value("protocol=") or ("chat" if is_compatible else service.protocol)
    usual_url = service.chat_url if protocol == "chat" and service.chat_url else service.base_url
    base_url, query = read_url(own_url or usual_url)
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


def based(base_url: str, protocol: ProtocolName) -> str:
    """The base URL; for the protocols of Anthropic and Google with the version added if it is missing."""
    version = _VERSIONS.get(protocol)
    return f"{base_url}/{version}" if version and not re.search(r"/v\d+\w*(?:/|$)", base_url) else base_url


def is_openai(base_url: str) -> bool:
    """Whether a base URL belongs to OpenAI, including its regional hosts such as eu.api.openai.com."""
    host = urlsplit(base_url).hostname or ""
    return f".{host}".endswith(".api.openai.com")


_V1_VERSIONS = {"v1", "latest", "preview"}
_PATH = re.compile(r"/openai(?P<v1>/v1)?(/deployments/(?P<deployment>[^/]+))?$")
"""Paths that users paste with the URL of their resource."""


def azure_endpoint(sources: Sources) -> Endpoint:
    """The Azure deployment selected by arguments and variables.

    The API version `v1`, or an endpoint that ends in `/openai/v1`, selects the v1 style; any other version the dated
    style with the deployment in the path. Raises NoProvider if the endpoint or credential is missing.
    """
    address = sources.value("azure_endpoint=", "base_url=", "AZURE_OPENAI_ENDPOINT")
    if not address:
        raise NoProvider("Azure OpenAI endpoint required. Set AZURE_OPENAI_ENDPOINT or pass azure_endpoint=.")
    api_key, token_provider = _credential(sources)
    root, query = read_url(address)
    path = _PATH.search(root)
    deployment = _deployment_from_settings(sources, path)
    version = _api_version(sources, query.pop("api-version", None))
    is_v1 = version in _V1_VERSIONS or bool(path and path["v1"])
    if is_v1 and version not in _V1_VERSIONS:
        version = "v1"
    resource = _PATH.sub("", root)
    dated_url = f"{resource}/openai/deployments/{quote(deployment, safe='')}"
    return Endpoint(
        provider="azure",
        model=deployment,
        base_url=f"{resource}/openai/v1" if is_v1 else dated_url,
        protocol=sources.value("protocol=") or ("responses" if is_v1 else "chat"),
        api_key=api_key,
        key_header="api-key",
        token_provider=token_provider,
        api_version=version,
        query=query if version == "v1" else {**query, "api-version": version},
        headers=sources.value("headers=") or {},
        strict=is_v1,
    )


def _deployment_from_settings(sources: Sources, path: re.Match[str] | None) -> str:
    named = sources.value("model=")
    if not named and path and path["deployment"]:
        return unquote(path["deployment"])
    return named or sources.value("AGENTKIT_MODEL", "AZURE_OPENAI_DEPLOYMENT", "OPENAI_MODEL") or DEFAULT_MODEL


def _api_version(sources: Sources, pasted: str | None) -> str:
    """The API version: arguments take precedence over variables; a version in the endpoint's query counts as one."""
    named = sources.value("azure_api_version=") or pasted
    return named or sources.value("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION") or DEFAULT_AZURE_API_VERSION


def _credential(sources: Sources) -> tuple[Secret | None, TokenProvider | None]:
    """The key, or a provider of Entra ID tokens; arguments take precedence."""
    name, value = sources.first("azure_token_provider=", "api_key=", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN")
    match name:
        case "azure_token_provider=":
            return None, value
        case "api_key=":
            return value, None
        case "AZURE_OPENAI_API_KEY":
            return Secret(value), None
        case "AZURE_OPENAI_AD_TOKEN":
            return None, Secret(value).reveal
    raise NoProvider(
        "Azure OpenAI API key required. Set AZURE_OPENAI_API_KEY, or pass api_key= or azure_token_provider=."
    )


_OLDEST = 3
_DEPLOYMENTS = "/deployments/"
_PUBLIC = ("accept", "content-type", "user-agent", "x-stainless-", "openai-organization", "openai-project")
"""Prefixes of headers whose values are not secret."""


def provider_of(client: Any) -> str:
    """`openai` or `azure`. Raises ConfigError unless `client` is a client of the openai package, version 3 or newer."""
    openai: Any = sys.modules.get("openai")
    if openai is None or not isinstance(client, (openai.OpenAI, openai.AsyncOpenAI)):
        raise ConfigError(
            f"client= takes an OpenAI or AsyncOpenAI of the openai package. Got {type(client).__name__}. For another "
            "server give base_url= and api_key=."
        )
    if int(openai.__version__.partition(".")[0]) < _OLDEST:
        raise ConfigError(
            f"client= takes a client of openai {_OLDEST} or newer, not of {openai.__version__}: pip install -U openai."
        )
    return "azure" if isinstance(client, (openai.AzureOpenAI, openai.AsyncAzureOpenAI)) else "openai"


def client_endpoint(sources: Sources) -> Endpoint:
    """The endpoint of a client. For a dated Azure resource, `model=` sets the deployment in the path."""
    client = sources.value("client=")
    provider = provider_of(client)
    base_url, _ = read_url(str(client.base_url))
    named, protocol = _deployment_from_client(sources, base_url), sources.value("protocol=")
    if provider == "azure" and protocol != "responses" and _DEPLOYMENTS not in base_url:
        base_url += f"{_DEPLOYMENTS}{quote(named, safe='')}"
    is_strict = is_openai(base_url)
    return Endpoint(
        provider=provider,
        model=named,
        base_url=base_url,
        protocol=protocol or ("responses" if is_strict else "chat"),
        api_key=_key(client),
        headers=_headers(client),
        client=client,
        strict=is_strict,
    )


def _deployment_from_client(sources: Sources, base_url: str) -> str:
    """The model's name; for Azure the deployment, for which the client can be configured already."""
    named = sources.value("model=")
    if not named and _DEPLOYMENTS in base_url:
        return unquote(base_url.rpartition(_DEPLOYMENTS)[2])
    return named or sources.value("AGENTKIT_MODEL", "OPENAI_MODEL") or DEFAULT_MODEL


def _key(client: Any) -> Secret | None:
    """The client's key, to be scrubbed from texts; some clients have none, or fetch one for each request."""
    key = client.api_key
    return Secret(key) if isinstance(key, str) and is_header_text(key) else None


def _headers(client: Any) -> dict[str, str]:
    """The headers that the user set on the client."""
    headers = client.default_headers.items()
    return {name: value for name, value in headers if isinstance(value, str) and not name.lower().startswith(_PUBLIC)}
