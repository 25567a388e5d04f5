"""Provider detection from arguments and environment variables, and the stand-in for a missing provider."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Never

from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.endpoint import Endpoint, LLMArguments, Sources
from agentkit.llm.providers.openai import (
    SERVICES,
    azure_endpoint,
    client_endpoint,
    openai_endpoint,
    provider_of,
    service_endpoint,
)

Values = Mapping[str, Any]


def _local_endpoint(sources: Sources) -> Endpoint:
    """The endpoint of a model file, which is not opened. Raises ConfigError if no file is named."""
    name = sources.value("model=", "AGENTKIT_MODEL")
    if not name:
        raise ConfigError("local needs the path of a GGUF file: pass model='model.gguf' or set AGENTKIT_MODEL.")
    return Endpoint(provider="local", model=name)


PROVIDERS: Mapping[str, Callable[[Sources], Endpoint]] = {
    "openai": openai_endpoint,
    "azure": azure_endpoint,
    "offline": lambda _: Endpoint(provider="offline", model="needle3"),  # the only model, whatever name is given
    "local": _local_endpoint,
    **{name: partial(service_endpoint, name) for name in SERVICES},
}
"""Providers by name, which is also the prefix in `model="name:…"`, with the functions that create their endpoints."""
_PROVIDER_ALIASES = {"claude": "anthropic", "chatgpt": "openai", "gpt": "openai", "google": "gemini", "llama": "ollama"}
"""Providers by common names for their models or companies."""


def _prefix(model: str) -> str | None:
    """The provider in `provider:model`, or in `offline`, which has a single model.

    Other colons are part of the model's name, as in `qwen3:8b`.
    """
    prefix, colon, _ = model.partition(":")
    is_named = prefix.lower() in PROVIDERS if colon else prefix.strip().lower() == "offline"
    return prefix.strip().lower() if is_named else None


def _provider_named(name: str) -> Callable[[Values], str | None]:
    """Read the provider from a value, ignoring case."""
    return lambda values: values[name].strip().lower()


def _prefix_of(name: str, *variables: str) -> Callable[[Values], str | None]:
    """Read the provider from a model's prefix. With a base URL, `mistral:7b` and `offline` are names on that server."""

    def prefix(values: Values) -> str | None:
        found = _prefix(values[name])
        is_hosted = found is not None and found in SERVICES and bool(SERVICES[found].key_variable)
        has_endpoint = any(variable in values for variable in variables)
        return None if has_endpoint and (is_hosted or ":" not in values[name]) else found

    return prefix


_PREFIX_OF_MODEL = _prefix_of("model=", "base_url=", "client=")

_DETECTION_ORDER: tuple[tuple[tuple[str, ...], Callable[[Values], str | None]], ...] = (
    # the arguments (with =) or variables that must all be set, and the provider that they select
    (("client=",), lambda values: provider_of(values["client="])),
    (("provider=",), _provider_named("provider=")),
    (("model=",), _PREFIX_OF_MODEL),
    (("azure_endpoint=",), lambda _: "azure"),
    (("azure_token_provider=",), lambda _: "azure"),
    (("base_url=",), lambda _: "openai"),
    (("AGENTKIT_PROVIDER",), _provider_named("AGENTKIT_PROVIDER")),
    (("AGENTKIT_MODEL",), _prefix_of("AGENTKIT_MODEL", "AGENTKIT_BASE_URL")),
    (("api_key=",), lambda _: "openai"),
    (("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"), lambda _: "azure"),
    (("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT"), lambda _: "azure"),
    (("AGENTKIT_BASE_URL",), lambda _: "openai"),
    (("OPENAI_API_KEY",), lambda _: "openai"),
    (("OPENAI_BASE_URL",), lambda _: "openai"),
    *(((service.key_variable,), lambda _, name=name: name) for name, service in SERVICES.items() if service.model),
)

_VARIABLES = (
    *("AGENTKIT_PROVIDER", "AGENTKIT_MODEL", "AGENTKIT_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
    *("OPENAI_API_VERSION", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT"),
    *("AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_API_VERSION"),
)
"""Variables that select the model or its provider."""

_EXPLICIT_PROVIDER = ("provider=", "AGENTKIT_PROVIDER")
"""If `openai` is set here, it is explicit, even if the model's name looks like one with a provider prefix."""

_Selection = tuple[tuple[str, ...], str]
"""The names of settings, and the provider that they select."""


def detect(arguments: LLMArguments, env: Mapping[str, str]) -> tuple[Endpoint, str, tuple[str, ...]]:
    """Choose the endpoint; returns it, the settings that decided, and the ignored settings with the reasons.

    Raises NoProvider if the settings name no provider or an unknown one, or if something is missing; ConfigError if a
    setting is invalid.
    """
    values = _values(arguments) | dict(env)
    selections = [
        (needed, provider)
        for needed, named in _DETECTION_ORDER
        if all(name in values for name in needed) and (provider := named(values))
    ]
    if not selections:
        raise NoProvider(_no_provider(values))
    deciding, provider = selections[0]
    if provider not in PROVIDERS:
        raise NoProvider(_unknown_provider(provider, deciding[0]))
    sources = Sources(_with_model_of(provider, deciding[0], values))
    endpoint = client_endpoint(sources) if arguments.client is not None else PROVIDERS[provider](sources)
    if deciding[0] not in _EXPLICIT_PROVIDER:
        _check_prefix(endpoint)
    return endpoint, " and ".join(deciding), tuple(_ignored_settings(selections, sources, values))


def _check_prefix(endpoint: Endpoint) -> None:
    """Raise NoProvider for a model whose name begins with an unknown or misspelt provider.

    Other servers than OpenAI's can have models with such names, so that there only obvious slips are refused.
    """
    model = endpoint.model
    if endpoint.is_openai and (slashed := _slash_error(model)):
        raise NoProvider(slashed)
    if endpoint.is_openai and _SERVICE.match(model):
        raise NoProvider(_no_service(model))
    if spelling := _misspelled_provider(model):
        prefix, _, name = model.partition(":")
        raise NoProvider(
            f"Unknown provider {prefix!r} in the model name {model!r}. Did you mean '{spelling}:{name}'? If the "
            f"server's model has this name, pass provider={endpoint.provider!r}."
        )


def _slash_error(model: str) -> str:
    """The error for `ollama/qwen3`, as other toolkits name models; empty for any other name."""
    name, slash, rest = model.partition("/")
    provider = name.strip().lower()
    if not slash or provider not in PROVIDERS:
        return ""
    return (
        f"{model!r} is not a model of OpenAI's. Write model='{provider}:{rest}' for the model {rest!r} of {provider}."
    )


def _misspelled_provider(model: str) -> str:
    """The provider that a prefix misspells by one letter; empty if it is spelt correctly, or is not close to any.

    Some providers share their name with models, as in `mixtral:8x7b`, so that only names of servers count.
    """
    prefix, colon, _ = model.lower().partition(":")
    if not colon or prefix in PROVIDERS:
        return ""
    return next((name for name in _SERVERS if name[0] == prefix[:1] and _is_one_typo(prefix, name)), "")


_SERVERS = ("ollama", "openai", "azure", "anthropic", "openrouter", "lmstudio", "offline")


def _is_one_typo(word: str, name: str) -> bool:
    """Whether one letter is missing, added, wrong, or exchanged with the next."""
    if abs(len(word) - len(name)) > 1 or word == name:
        return False
    start = next((at for at, pair in enumerate(zip(word, name, strict=False)) if pair[0] != pair[1]), len(name))
    rest, right = word[start:], name[start:]
    is_swapped = rest[:2] == right[1::-1] and rest[2:] == right[2:]
    return rest[1:] == right or rest == right[1:] or rest[1:] == right[1:] or is_swapped


def arguments_for_model(name: str) -> LLMArguments | None:
    """The arguments for a name with a provider, alone or before a model; None for a model's name alone."""
    if name.lower() in PROVIDERS:
        return LLMArguments(provider=name.lower())
    return LLMArguments(model=name) if _prefix(name) else None


def fallback_arguments(name: str, first: LLMArguments) -> LLMArguments:
    """The arguments for a fallback, at the endpoint of the first model unless its name includes a provider.

    Raises NoProvider for what looks like an unknown provider: otherwise the error would appear only when it is needed.
    """
    arguments = arguments_for_model(name)
    if arguments is None and _SERVICE.match(name):
        raise NoProvider(f"{_no_service(name)} If a model has this name, pass it as fallback=LLM(...).")
    return arguments or same_endpoint_arguments(name, first)


def same_endpoint_arguments(name: str, first: LLMArguments) -> LLMArguments:
    """The arguments for another model at the endpoint of the first, even if that is chosen by a model prefix."""
    named = _PREFIX_OF_MODEL(_values(first)) if first.model else None
    return replace(first, model=name, provider=first.provider or named)


def replacement_arguments(name: str, first: LLMArguments, provider: str) -> LLMArguments:
    """The arguments for a model in place of the first, served by `provider`; keys are not sent to other providers."""
    other = replace(first, model=name)
    named = None if first.provider else _PREFIX_OF_MODEL(_values(other))
    if named is None:
        return same_endpoint_arguments(name, first)
    return other if first.base_url or first.client or named == provider else LLMArguments(model=name)


def _values(arguments: LLMArguments) -> dict[str, Any]:
    return {f"{name}=": value for name, value in arguments.given().items()}


def _with_model_of(provider: str, deciding_name: str, values: Values) -> dict[str, Any]:
    """The values with the provider's prefix removed from the model, and without a model of another provider."""
    own = dict(values)
    for name in ("model=", "AGENTKIT_MODEL"):
        prefix = _prefix(values.get(name, ""))
        is_foreign = (
            name == "AGENTKIT_MODEL" and deciding_name.endswith("=") and values.get("AGENTKIT_PROVIDER") != provider
        )
        if prefix == provider:
            own[name] = values[name].partition(":")[2].strip()
        if prefix and (not own[name] or (prefix != provider and is_foreign)):
            del own[name]
    return own


def _ignored_settings(selections: list[_Selection], sources: Sources, values: Values) -> Iterator[str]:
    """The settings that were ignored, with the reasons."""
    deciding, provider = selections[0]
    reported = {*deciding, *sources.read}
    agreeing = {name for names, named in selections[1:] if named == provider for name in names}
    for names, named in selections[1:]:
        if named != provider and not sources.read.issuperset(names):
            yield f"{' and '.join(names)} (names {named}; {' and '.join(deciding)} decides first)"
            reported.update(names)
    incomplete = _incomplete_azure(values)
    if incomplete and reported.isdisjoint(incomplete[0]) and sources.passed_over.keys().isdisjoint(incomplete[0]):
        yield incomplete[1]
        reported.update(incomplete[0])
    for name, first in sources.passed_over.items():
        if name not in reported:
            yield f"{name} ({first} comes first)"
    for name in values:
        if (name.endswith("=") or name in _VARIABLES) and name not in reported | agreeing | sources.passed_over.keys():
            yield f"{name} ({provider} does not use it)"


def _unknown_provider(provider: str, deciding_name: str) -> str:
    hint = _suggest_provider(provider) or " The name of a model goes into model=."
    hint = f" Write model='{_prefix(provider)}:MODEL'." if _prefix(provider) else hint
    return f"Unknown provider {_truncate(provider)!r} (from {deciding_name}).{hint} Known: {', '.join(PROVIDERS)}."


def _suggest_provider(name: str) -> str:
    from agentkit.event_rendering import suggestion

    return suggestion(_PROVIDER_ALIASES.get(name, name), PROVIDERS, 0.6)


def _truncate(word: str) -> str:
    """Truncate a value in an error: it can be anything, such as a key in the wrong place."""
    return word if len(word) <= 16 else f"{word[:6]}…"


def _incomplete_azure(values: Values) -> tuple[tuple[str, ...], str] | None:
    """The names and a description if only one of Azure's two settings is present."""
    credentials = tuple(name for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN") if name in values)
    if bool(credentials) == ("AZURE_OPENAI_ENDPOINT" in values):
        return None
    if credentials:
        return credentials, f"{credentials[0]} (Azure OpenAI endpoint required too: AZURE_OPENAI_ENDPOINT is not set)"
    needed = "Azure OpenAI API key required too: AZURE_OPENAI_API_KEY is not set"
    return ("AZURE_OPENAI_ENDPOINT",), f"AZURE_OPENAI_ENDPOINT ({needed})"


def _no_provider(values: Values) -> str:
    incomplete = _incomplete_azure(values)
    model = values.get("model=", values.get("AGENTKIT_MODEL", ""))
    if model.strip().lower() in PROVIDERS:
        name = model.strip().lower()
        return (
            f"{model!r} is a provider, not a model. Use LLM({name!r}) for its default model, or model='{name}:MODEL'."
        )
    if _SERVICE.match(model):
        return _no_service(model)
    if slashed := _slash_error(model):
        return slashed
    *keys, last = ("OPENAI_API_KEY", *(service.key_variable for service in SERVICES.values() if service.model))
    ignored = f"Ignored: {incomplete[1]}. " if incomplete else ""
    return (
        f"No API key found. {ignored}Set {', '.join(keys)} or {last}; "
        "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT; or OPENAI_BASE_URL for a server without keys. "
        f"{_offline_advice()}"
    )


def _no_service(model: str) -> str:
    name = model.partition(":")[0]
    return (
        f"Unknown provider {_truncate(name)!r} in the model name {model!r}.{_suggest_provider(name)} Known: "
        f"{', '.join(PROVIDERS)}. For another server with an OpenAI-compatible API, pass base_url= and api_key=; for "
        "one with Anthropic's or Google's API, also protocol='messages' or 'gemini'."
    )


_SERVICE = re.compile(r"(?!ft:)[a-z][a-z_-]+:")
"""Matches a provider prefix of a model; `qwen3:8b` and the fine-tuned `ft:gpt-4o` have none."""


def _offline_advice() -> str:
    """Advice on the offline model, which answers simple requests on this machine without a provider."""
    from agentkit.llm.providers.offline.model import installed

    if installed():
        return "For simple requests without a key: AGENTKIT_PROVIDER=offline."
    from agentkit.installation import install_command

    return f"For simple requests without a key: {install_command('offline')}, then AGENTKIT_PROVIDER=offline."


_ABSENT = "replay"
"""The provider's name for an LLM created during a replay, which needs no provider."""


def absent_endpoint(model: str | None) -> Endpoint:
    """A placeholder endpoint for a model whose responses are replayed from a recording."""
    return Endpoint(provider=_ABSENT, model=model or _ABSENT)


class AbsentModel:
    """A placeholder provider: a request without a recorded response raises the error with setup instructions."""

    def __init__(self, error: NoProvider) -> None:
        self._error = error

    def raise_error(self, *_: object) -> Never:
        """Raise NoProvider."""
        raise self._error

    async def araise_error(self, *_: object) -> Never:
        """Raise NoProvider."""
        raise self._error

    complete = stream = astream = embed = raise_error
    acomplete = aembed = araise_error
