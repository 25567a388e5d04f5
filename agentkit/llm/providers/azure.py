"""Azure OpenAI, in its dated style and in its v1 style."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from agentkit.config import DEFAULT_AZURE_API_VERSION, DEFAULT_MODEL, Secret
from agentkit.errors import NoProvider
from agentkit.llm.endpoint import Endpoint, TokenProvider, read_url
from agentkit.llm.sources import Sources

_V1_VERSIONS = {"v1", "latest", "preview"}
_PATH = re.compile(r"/openai(?P<v1>/v1)?(/deployments/(?P<deployment>[^/]+))?$")
"""What people paste along with the address of their resource."""


def azure_endpoint(sources: Sources) -> Endpoint:
    """The deployment that arguments and variables name.

    The API version `v1`, or an endpoint that ends in `/openai/v1`, selects the v1 style; any other version the
    dated style with the deployment in the path. Raises NoProvider when endpoint or credential is missing.
    """
    address = sources.value("azure_endpoint=", "base_url=", "AZURE_OPENAI_ENDPOINT")
    if not address:
        raise NoProvider("Azure OpenAI endpoint required. Set AZURE_OPENAI_ENDPOINT or pass azure_endpoint=.")
    api_key, token_provider = _credential(sources)
    root, query = read_url(address)
    path = _PATH.search(root)
    deployment = _deployment(sources, path)
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


def _deployment(sources: Sources, path: re.Match[str] | None) -> str:
    named = sources.value("model=")
    if not named and path and path["deployment"]:
        return unquote(path["deployment"])
    return named or sources.value("AGENTKIT_MODEL", "AZURE_OPENAI_DEPLOYMENT", "OPENAI_MODEL") or DEFAULT_MODEL


def _api_version(sources: Sources, pasted: str | None) -> str:
    """What the arguments say comes before the variables; a version in the endpoint's own query is an argument too."""
    named = sources.value("azure_api_version=") or pasted
    return named or sources.value("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION") or DEFAULT_AZURE_API_VERSION


def _credential(sources: Sources) -> tuple[Secret | None, TokenProvider | None]:
    """A key, or a provider of Entra ID tokens; what the arguments say comes first."""
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
