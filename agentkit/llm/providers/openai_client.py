"""A client of the openai package that the user made: Azure or not, where it leads, and what in it is secret."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote, unquote

from agentkit.config import DEFAULT_MODEL, Secret
from agentkit.errors import ConfigError
from agentkit.llm.endpoint import Endpoint, is_header_text, read_url
from agentkit.llm.providers.openai import is_openai
from agentkit.llm.sources import Sources

_OLDEST = 3
_DEPLOYMENTS = "/deployments/"
_PUBLIC = ("accept", "content-type", "user-agent", "x-stainless-", "openai-organization", "openai-project")
"""How the names of headers begin whose values are no secret."""


def provider_of(client: Any) -> str:
    """`openai` or `azure`. Raises ConfigError for what is no client of the openai package, version 3 or newer."""
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
    """Where the client leads. For a dated resource of Azure the deployment is in the path, as `model=` names it."""
    client = sources.value("client=")
    provider = provider_of(client)
    base_url, _ = read_url(str(client.base_url))
    named, protocol = _deployment(sources, base_url), sources.value("protocol=")
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


def _deployment(sources: Sources, base_url: str) -> str:
    """The model's name; for Azure also the deployment's, which the client may have been made for."""
    named = sources.value("model=")
    if not named and _DEPLOYMENTS in base_url:
        return unquote(base_url.rpartition(_DEPLOYMENTS)[2])
    return named or sources.value("AGENTKIT_MODEL", "OPENAI_MODEL") or DEFAULT_MODEL


def _key(client: Any) -> Secret | None:
    """The client's key, which no text of ours may show; some have none, or ask for one each time."""
    key = client.api_key
    return Secret(key) if isinstance(key, str) and is_header_text(key) else None


def _headers(client: Any) -> dict[str, str]:
    """The headers that the user gave the client."""
    headers = client.default_headers.items()
    return {name: value for name, value in headers if isinstance(value, str) and not name.lower().startswith(_PUBLIC)}
