"""Azure OpenAI, in its dated style and in its v1 style."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from agentkit.config import DEFAULT_AZURE_API_VERSION, DEFAULT_MODEL, Secret
from agentkit.errors import NoProvider
from agentkit.llm.endpoint import Endpoint, TokenProvider, Wishes

_V1 = "v1"


def azure_endpoint(wishes: Wishes, env: Mapping[str, str]) -> Endpoint:
    """The deployment that arguments and variables name.

    The API version `v1`, or an endpoint that ends in `/openai/v1`, selects the v1 style; any other version the
    dated style with the deployment in the path.
    """
    root = wishes.azure_endpoint or wishes.base_url or env.get("AZURE_OPENAI_ENDPOINT")
    if not root:
        raise NoProvider("Azure OpenAI endpoint required. Set AZURE_OPENAI_ENDPOINT or pass azure_endpoint=.")
    api_key, token_provider = _credential(wishes, env)
    deployment = wishes.model or env.get("AZURE_OPENAI_DEPLOYMENT") or env.get("OPENAI_MODEL") or DEFAULT_MODEL
    root = root.strip().rstrip("/")
    version = api_version(wishes, env)
    is_v1 = version == _V1 or root.endswith("/openai/v1")
    resource = root.removesuffix("/openai/v1").removesuffix("/openai")
    dated_url = f"{resource}/openai/deployments/{quote(deployment, safe='')}"
    return Endpoint(
        provider="azure",
        model=deployment,
        base_url=f"{resource}/openai/v1" if is_v1 else dated_url,
        protocol=wishes.protocol or ("responses" if is_v1 else "chat"),
        api_key=api_key,
        key_header="api-key",
        token_provider=token_provider,
        query={} if is_v1 else {"api-version": version},
        strict=is_v1,
    )


def api_version(wishes: Wishes, env: Mapping[str, str]) -> str:
    """The API version in force."""
    named = wishes.azure_api_version or env.get("AZURE_OPENAI_API_VERSION") or env.get("OPENAI_API_VERSION")
    return named or DEFAULT_AZURE_API_VERSION


def _credential(wishes: Wishes, env: Mapping[str, str]) -> tuple[Secret | None, TokenProvider | None]:
    """A key, or a provider of Entra ID tokens; what the arguments say comes first."""
    if wishes.azure_token_provider:
        return None, wishes.azure_token_provider
    if wishes.api_key:
        return wishes.api_key, None
    if "AZURE_OPENAI_API_KEY" in env:
        return Secret(env["AZURE_OPENAI_API_KEY"]), None
    if "AZURE_OPENAI_AD_TOKEN" in env:
        token = Secret(env["AZURE_OPENAI_AD_TOKEN"])
        return None, token.reveal
    raise NoProvider(
        "Azure OpenAI API key required. Set AZURE_OPENAI_API_KEY, or pass api_key= or azure_token_provider=."
    )
