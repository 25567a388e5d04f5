"""Machine-independent descriptions of folders, commands and hosts."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentkit.errors import NoProvider
from agentkit.llm.client import LLM, parted
from agentkit.llm.detection import PROVIDERS, detect, wishes_for, wishes_there
from agentkit.llm.endpoint import Endpoint, LLMArguments, shown_url
from agentkit.llm.providers.openai import SERVICES, provider_of
from agentkit.manifest.code_identity import code_of
from agentkit.manifest.facts import ENVIRONMENT, HERE, IN_MEMORY, KEPT, THEN
from agentkit.redaction import written_redactor
from agentkit.sessions.session import Session
from agentkit.settings import Secret
from agentkit.usage import Price

TEMPORARY = "a temporary folder"
GIVEN = "given by the program"
"""Source of an API key that is not read from an environment variable."""

_KEYS = {"openai": "OPENAI_API_KEY", "azure": "AZURE_OPENAI_API_KEY"}
_OF_ANSWERS = frozenset(
    {
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "reasoning_effort",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "seed",
        "stop",
    }
)
"""Settings that only affect how an answer is generated."""

_ANY_KEY = Secret("any")
_DIGEST_CHARS = 16


def folder_told(folder: str | Path, home: Path) -> str:
    """A folder relative to `home`, the folder of the program; a hash if it is unrelated."""
    place, origin = Path(folder).resolve(), home.resolve()
    if place.is_relative_to(origin):
        return place.relative_to(origin).as_posix()
    shared, user, passing = (
        Path(path).resolve() for path in (_shared(place, origin), Path.home(), tempfile.gettempdir())
    )
    if shared.parts[1:] and not user.is_relative_to(shared) and not passing.is_relative_to(shared):
        return Path(os.path.relpath(place, origin)).as_posix()
    if place.is_relative_to(passing):
        return TEMPORARY
    if place.is_relative_to(user):
        return "/".join(["~", *place.relative_to(user).parts])
    return f"elsewhere sha256:{sha256(os.fsencode(place)).hexdigest()[:_DIGEST_CHARS]}"


def _shared(one: Path, two: Path) -> str:
    return os.path.commonpath([one, two])


def command_told(words: Iterable[str], home: Path) -> str:
    """A command without secrets, with its file paths relative to `home`."""
    import shlex

    hidden = written_redactor()
    return shlex.join(hidden(_word_told(word, home)) for word in words)


def _word_told(word: str, home: Path) -> str:
    if word == sys.executable:
        return "python"
    path = Path(word)
    return f"{folder_told(path.parent, home)}/{path.name}".removeprefix("./") if path.is_absolute() else word


def url_told(url: str) -> str:
    """A URL without secrets."""
    return written_redactor()(shown_url(url))


def session_told(session: Session | str | None) -> str:
    """The kind of session store."""
    if session is None or (isinstance(session, Session) and session.store is None):
        return IN_MEMORY
    store = KEPT if isinstance(session, str) else type(session.store).__name__
    return {
        "SQLiteSessionStore": KEPT,
        "InMemorySessionStore": IN_MEMORY,
        "PostgresSessionStore": "kept on a server",
    }.get(store, store)


def model_facts(known: LLM | str | None) -> Iterator[tuple[str, str | None]]:
    """The facts of the model and its fallbacks that the program sets, independent of the environment.

    `known` is the client or the name of its model; None if the program sets neither.
    """
    told = [dict(_facts_of(wishes, llm)) for wishes, llm in _models(known)]
    for name in told[0]:
        values = (facts[name] for facts in told)
        yield name, THEN.join(dict.fromkeys(value for value in values if value is not None)) or None


def _models(known: LLM | str | None) -> Iterator[tuple[LLMArguments, LLM | None]]:
    """The arguments of each model that can answer, and its client if it exists."""
    if isinstance(known, LLM):
        yield from ((each.wishes, each) for each in known.with_fallbacks(said=True))
        return
    named, behind = parted(known)
    first = LLMArguments(model=named)
    yield first, None
    yield from ((wishes_for(name) or wishes_there(name, first), None) for name in behind)


def _facts_of(wishes: LLMArguments, llm: LLM | None) -> Iterator[tuple[str, str | None]]:
    endpoint = _endpoint(wishes)
    provider = endpoint.provider if endpoint else _named(wishes) or ENVIRONMENT
    yield "client", None if llm is None or type(llm) is LLM else code_of(type(llm))
    yield "host", _host(endpoint, provider)
    yield "key", _key(wishes, provider)
    yield "name", (endpoint.model if endpoint and wishes.model else wishes.model) or ENVIRONMENT
    yield "price", None if llm is None or llm.price is None else price_told(llm.price)
    yield "provider", provider
    yield "settings", None if llm is None else _settings_told(llm.settings)


def _settings_told(settings: Mapping[str, Any]) -> str | None:
    """Request settings other than those of answers: they can enable tools that the provider runs itself."""
    others = {name: value for name, value in settings.items() if name not in _OF_ANSWERS}
    if not others:
        return None
    said = json.dumps(others, sort_keys=True, default=lambda value: type(value).__qualname__)
    return f"{', '.join(sorted(others))} sha256:{sha256(said.encode()).hexdigest()}"


def price_told(price: Price) -> str:
    """The configured price of a model: the cost limit of its runs depends on it."""
    return f"{price.input} and {price.output} US dollars per million tokens"


def _named(wishes: LLMArguments) -> str | None:
    """The provider set by the program; None if the environment decides."""
    prefix = (wishes.model or "").partition(":")[0].lower()
    if wishes.client is not None:
        return provider_of(wishes.client)
    if wishes.provider or prefix in PROVIDERS:
        return (wishes.provider or prefix).lower()
    if wishes.azure_endpoint or wishes.azure_token_provider:
        return "azure"
    return "openai" if wishes.base_url or wishes.api_key else None


def _endpoint(wishes: LLMArguments) -> Endpoint | None:
    """The model's endpoint as set by the program, ignoring the environment and assuming a key."""
    if _named(wishes) is None:
        return None
    try:
        return detect(replace(wishes, api_key=_ANY_KEY), {})[0]
    except NoProvider:  # the environment sets the rest
        return None


def _host(endpoint: Endpoint | None, provider: str) -> str | None:
    if endpoint is not None and endpoint.base_url:
        return endpoint.shown_url.partition("://")[2].partition("/")[0]
    return None if provider in {"offline", "local"} else ENVIRONMENT


def _key(wishes: LLMArguments, provider: str) -> str | None:
    if wishes.api_key or wishes.azure_token_provider or wishes.client is not None:
        return GIVEN
    if provider == ENVIRONMENT:
        return ENVIRONMENT
    service = SERVICES.get(provider)
    return _KEYS.get(provider) or (service.key_variable or None if service else None)


def workspace_facts(workspace: Any, home: Path, *, is_used: bool) -> Iterator[tuple[str, str | None]]:
    """The workspace folder and the persistence of its journal; None for both if no tool uses the workspace."""
    if not is_used:
        yield from (("folder", None), ("journal", None))
        return
    yield "folder", folder_told(workspace.folder, home) if workspace.is_fixed else HERE
    yield "journal", IN_MEMORY if workspace.journal.folder is None else KEPT
