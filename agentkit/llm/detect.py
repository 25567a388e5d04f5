"""Which provider do the settings name, and why? One ordered table (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from agentkit.errors import NoProvider
from agentkit.llm.endpoint import Endpoint, Wishes
from agentkit.llm.providers.azure import azure_endpoint
from agentkit.llm.providers.openai import SERVICES, openai_endpoint, service_endpoint

Env = Mapping[str, str]

PROVIDERS: Mapping[str, Callable[[Wishes, Env], Endpoint]] = {
    "openai": openai_endpoint,
    "azure": azure_endpoint,
    "offline": lambda wishes, _: Endpoint(provider="offline", model=wishes.model or "needle3"),
    **{name: partial(service_endpoint, name) for name in SERVICES},
}
"""Every provider: its name, which is also its prefix in `model="name:…"`, and what makes its endpoint."""


def _prefix(model: str) -> str | None:
    """The provider in `provider:model`. Other colons are part of a model's own name, as in `qwen3:8b`."""
    prefix = model.partition(":")[0].lower()
    return prefix if prefix in PROVIDERS else None


_ORDER: tuple[tuple[tuple[str, ...], Callable[[str], str | None]], ...] = (
    # the arguments (with =) or variables that must all be set, and the provider that the value of the first names
    (("provider=",), str),
    (("model=",), _prefix),
    (("azure_endpoint=",), lambda _: "azure"),
    (("azure_token_provider=",), lambda _: "azure"),
    (("base_url=",), lambda _: "openai"),
    (("AGENTKIT_PROVIDER",), str),
    (("AGENTKIT_MODEL",), _prefix),
    (("api_key=",), lambda _: "openai"),
    (("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"), lambda _: "azure"),
    (("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT"), lambda _: "azure"),
    (("AGENTKIT_BASE_URL",), lambda _: "openai"),
    (("OPENAI_API_KEY",), lambda _: "openai"),
    (("OPENAI_BASE_URL",), lambda _: "openai"),
)


def detect(wishes: Wishes, env: Env) -> tuple[Endpoint, str, tuple[str, ...]]:
    """The endpoint, what decided for its provider, and what else was set but did not count, with the reason.

    Raises NoProvider when nothing names a provider, the named one is unknown, or it lacks something.
    """
    settings = {f"{name}=": value for name, value in wishes.given().items()} | dict(env)
    voices = [
        (" and ".join(needed), named)
        for needed, names in _ORDER
        if all(name in settings for name in needed) and (named := names(settings[needed[0]]))
    ]
    if not voices:
        raise NoProvider(_nothing_found(env))
    decider, provider = voices[0]
    provider = provider.strip().lower()
    if provider not in PROVIDERS:
        raise NoProvider(_unknown(provider, decider))
    model = _model(wishes, env, provider)
    endpoint = PROVIDERS[provider](replace(wishes, model=model), env)
    overruled = [f"{other} (names {name}; {decider} decides first)" for other, name in voices[1:] if name != provider]
    if half := _half_azure(env):
        overruled.append(half)
    return endpoint, decider, tuple(overruled)


def _model(wishes: Wishes, env: Env, provider: str) -> str | None:
    """The model's name at `provider`, or None for its default. A name meant for another provider does not count."""
    for name in (wishes.model, env.get("AGENTKIT_MODEL")):
        prefix = _prefix(name or "")
        if name and prefix in {None, provider}:
            return (name.partition(":")[2] if prefix else name) or None
    return None


def _unknown(provider: str, decider: str) -> str:
    close = difflib.get_close_matches(provider, PROVIDERS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown provider {provider!r} (from {decider}).{hint} Known: {', '.join(PROVIDERS)}."


def _half_azure(env: Env) -> str:
    """What is missing when only one of Azure's two variables is set; empty otherwise."""
    has_credential = "AZURE_OPENAI_API_KEY" in env or "AZURE_OPENAI_AD_TOKEN" in env
    if has_credential == ("AZURE_OPENAI_ENDPOINT" in env):
        return ""
    if has_credential:
        return "Azure's key is set, but its endpoint is required too: set AZURE_OPENAI_ENDPOINT"
    return "AZURE_OPENAI_ENDPOINT is set, but Azure's API key is required too: set AZURE_OPENAI_API_KEY"


def _nothing_found(env: Env) -> str:
    half = _half_azure(env)
    return (
        f"No API key found. {f'{half}. ' if half else ''}Set OPENAI_API_KEY; or AZURE_OPENAI_API_KEY and "
        "AZURE_OPENAI_ENDPOINT; or OPENAI_BASE_URL for a server that needs no key. Without any of these the offline "
        "model answers simple requests: pip install 'agentkit-tools[offline]' and use provider='offline'."
    )
