"""API keys that are stored for the command line, and `agentkit keys`.

A key is stored in the system's keyring if the `keyring` package and a keyring are present, and otherwise in a file that
only its owner can read. Keys in the environment take precedence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from agentkit.atomic_write import store as write
from agentkit.cli.options import JSON, DefaultGroup
from agentkit.cli.terminal import document_text, print_note
from agentkit.errors import ConfigError
from agentkit.settings import environment, state_folder

_SERVICE = "agentkit"
_IN_KEYRING = {"in": "keyring"}


def key_variables() -> Mapping[str, str]:
    """The environment variable of each provider that needs a key, by the provider's name."""
    from agentkit.llm.providers.openai import SERVICES

    services = {name: service.key_variable for name, service in SERVICES.items() if service.key_variable}
    return {"openai": "OPENAI_API_KEY", "azure": "AZURE_OPENAI_API_KEY", **services}


class KeyStore:
    """The stored keys: an index in the state folder, and the keys in it or in the keyring."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or state_folder() / "keys.json"

    def load(self) -> dict[str, Any]:
        """The index: for each provider, its key or the place of the key. Raises ConfigError if it is damaged."""
        try:
            stored = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"The keys in {self.path} cannot be read: {error}. Remove the file.") from None
        if not isinstance(stored, dict):
            raise ConfigError(f"The keys in {self.path} are not a JSON object. Remove the file.")
        return stored

    def read(self, provider: str) -> str | None:
        """The key of a provider; None if none is stored. Raises ConfigError if the keyring fails."""
        entry = self.load().get(provider)
        if entry != _IN_KEYRING:
            return entry.get("key") if isinstance(entry, dict) else None
        keyring = _keyring()
        try:
            key: str | None = None if keyring is None else keyring.get_password(_SERVICE, provider)
        except keyring.errors.KeyringError as error:
            raise ConfigError(f"The keyring did not return the key of {provider}: {error}") from None
        if key is None:
            raise ConfigError(
                f"The key of {provider} is not in the keyring. Set it again: agentkit keys set {provider}"
            )
        return key

    def store(self, provider: str, key: str) -> str:
        """Store a key and return a description of its place. Raises ConfigError if it cannot be written."""
        entry, description = {"key": key}, f"{self.path}, which only you can read"
        keyring = _keyring()
        if keyring is not None:
            try:
                keyring.set_password(_SERVICE, provider, key)
                entry, description = _IN_KEYRING, "the system's keyring"
            except keyring.errors.KeyringError as error:
                print_note(f"The keyring refused the key: {error}", "yellow")
        self._write({**self.load(), provider: entry})
        return description

    def remove(self, provider: str) -> None:
        """Delete the key of a provider. Raises ConfigError if none is stored."""
        known = self.load()
        if provider not in known:
            raise ConfigError(f"No key of {provider!r} is stored. To list the keys: agentkit keys list")
        keyring = _keyring() if known.pop(provider) == _IN_KEYRING else None
        if keyring is not None:
            try:
                keyring.delete_password(_SERVICE, provider)
            except keyring.errors.KeyringError as error:
                print_note(f"The keyring did not delete the key: {error}", "yellow")
        self._write(known)

    def _write(self, keys: Mapping[str, Any]) -> None:
        write(self.path, json.dumps(keys, indent=1))


def _keyring() -> Any:
    """The keyring module if it is installed and has a usable backend; None otherwise."""
    if find_spec("keyring") is None:
        return None
    import keyring
    import keyring.errors

    try:
        is_usable = keyring.get_keyring().priority >= 1
    except (RuntimeError, OSError, ImportError, keyring.errors.KeyringError):  # its service is not running
        return None
    return keyring if is_usable else None


def with_stored_key(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of LLM, completed by a stored key if the environment has none for the provider. Raises ConfigError."""
    from agentkit.llm.client import split_model
    from agentkit.llm.detection import arguments_for_model

    store = KeyStore()
    if not store.path.exists():
        return dict(arguments)
    variables, known = environment(), key_variables()
    selecting = ("AGENTKIT_PROVIDER", "AGENTKIT_BASE_URL", "OPENAI_BASE_URL", *known.values())
    is_configured = any(name in variables for name in selecting) or ":" in variables.get("AGENTKIT_MODEL", "")
    provider = arguments.get("provider")
    if provider is None and arguments.get("model"):
        first = split_model(arguments["model"])[0] or ""
        provider = first.partition(":")[0].lower() if arguments_for_model(first) is not None else None
    if provider is None and not arguments.get("base_url") and not is_configured:
        provider = next((name for name in known if name in store.load()), None)
    if not isinstance(provider, str) or provider not in known or known[provider] in variables:
        return dict(arguments)
    key = store.read(provider)
    return dict(arguments) if key is None else {**arguments, "provider": provider, "api_key": key}


def _provider(name: str) -> str:
    """Validate a provider's name. Raises ConfigError with the closest one."""
    known = key_variables()
    if name.lower() not in known:
        from agentkit.event_rendering import suggestion

        raise ConfigError(
            f"No provider with a key is named {name!r}.{suggestion(name, known)} Known: {', '.join(known)}."
        )
    return name.lower()


def _providers(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in key_variables() if name.startswith(incomplete)]


_EXAMPLES = """\b
Examples:
  agentkit keys set openai                 asks for the key; it is not shown
  pass show groq | agentkit keys set groq  reads the key from a pipe
  agentkit keys remove openai
"""


@click.group(cls=DefaultGroup, epilog=_EXAMPLES, short_help="Store, list and remove API keys.")
def keys() -> None:
    """Store API keys: in the system's keyring, or in a file that only you can read.

    A key in the environment, such as OPENAI_API_KEY, takes precedence.
    """


@keys.command("set")
@click.argument("provider", shell_complete=_providers)
def set_key(*, provider: str) -> None:
    """Store the key of PROVIDER. It is read from a prompt or a pipe; it is never an argument."""
    name = _provider(provider)
    if sys.stdin is not None and sys.stdin.isatty():
        key = click.prompt(f"The API key of {name}", hide_input=True, err=True)
    else:
        key = "" if sys.stdin is None else sys.stdin.readline()
    key = key.strip()
    if not key:
        raise click.UsageError(f"No key was given. Pipe it in, or type it at the prompt of: agentkit keys set {name}")
    if any(letter.isspace() for letter in key) or not key.isascii():
        raise click.UsageError("A key is one word of printable ASCII characters. Was it copied completely?")
    print_note(f"The key of {name} is stored in {KeyStore().store(name, key)}.")
    if key_variables()[name] in environment():
        print_note(f"{key_variables()[name]} is set in the environment and takes precedence.", "yellow")


@keys.command("list")
@JSON
def list_keys(*, as_json: bool) -> None:
    """List the providers with a key, and the place of each key. No key is shown."""
    locations = dict(_locations())
    if as_json:
        click.echo(document_text(keys=locations))
        return
    width = max(map(len, locations), default=0)
    for name, location in locations.items():
        click.echo(f"{name:<{width}}  {location}")
    if not locations:
        click.echo("No key is stored or set. To store one: agentkit keys set openai", err=True)


def _locations() -> Iterator[tuple[str, str]]:
    variables, stored, store = environment(), KeyStore().load(), KeyStore()
    for name, variable in key_variables().items():
        if variable in variables:
            yield name, f"environment ({variable})"
        elif name in stored:
            yield name, "keyring" if stored[name] == _IN_KEYRING else f"file ({store.path})"


@keys.command("remove")
@click.argument("provider", shell_complete=_providers)
def remove_key(*, provider: str) -> None:
    """Delete the stored key of PROVIDER."""
    name = _provider(provider)
    KeyStore().remove(name)
    print_note(f"The key of {name} is deleted.")
