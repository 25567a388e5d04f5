"""Environment settings; the only module that reads the process environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

DEFAULT_MODEL = "gpt-5.4-mini"
"""Model used by default. `AGENTKIT_MODEL` or `OPENAI_MODEL` override it."""

DEFAULT_ANTHROPIC_MODEL = "claude-haiku-5-5"
"""Anthropic model used by default. `AGENTKIT_MODEL` or `ANTHROPIC_MODEL` override it."""

DEFAULT_GEMINI_MODEL = "gemini-3.8-flash"

DEFAULT_AZURE_API_VERSION = "2024-02-01"

_SECRET_NAME = re.compile(
    "KEYS?(?![A-Z])|TOKEN|SECRET|PASSW(?:OR)?D|(?<![A-Z])PASS(?![A-Z])|_PWD(?![A-Z])|PASSPHRASE|CREDENTIAL"
    "|(?<![A-Z])AUTH(?!OR)|DSN|DATABASE_URL|REDIS_URL|CONNECTION_STRING"
)
_NOT_THE_SECRET = re.compile(
    "_(?:FILE|PATH|DIR|SOCK|HELPER|ENDPOINT|VERSION|BASE_URL|MODEL|CLASS|BACKENDS?|NAME|USER|TYPE|ALGORITHM|ALG|MODE"
    "|METHOD|SCHEME|REALM|ISSUER|AUDIENCE|HOST|PORT|HEADER|PREFIX|ENABLED|SECONDS|TTL|LENGTH|SIZE)$"
)
_PASSWORD_NAME = re.compile("PASS|PWD|SECRET")
_SEGMENT = "[A-Za-z]?[a-z0-9_.-]+"
_REFERENCE = re.compile(
    rf"[A-Za-z_]+(?:\.[A-Za-z_]+)+|(?:~|\.{{0,2}}|[A-Za-z]:)(?:[\\/]{_SEGMENT})+[\\/]?"
    rf"|[a-z][a-z0-9+.-]*://[a-z0-9.-]+(?::[0-9]+)?(?:/{_SEGMENT})*/?"
)
"""A dotted name, a path, or a URL without a user: settings that refer to a secret stored elsewhere."""

_MIN_WORD_CHARS = 12

_PREFIXES = ("AGENTKIT_", "ANTHROPIC_", "OPENAI_", "AZURE_OPENAI_")
_MIN_SECRET_CHARS = 8


def environment() -> Mapping[str, str]:
    """The current environment with whitespace stripped from values; empty variables are omitted."""
    return _LATEST.read()[0]


def sandbox_backend() -> str:
    """The sandbox of commands and Python code: `AGENTKIT_SANDBOX`, "kernel" by default."""
    return environment().get("AGENTKIT_SANDBOX", "kernel")


def has_colour(stream: TextIO) -> bool:
    """Whether to write colours: to a terminal unless `NO_COLOR` is set, and anywhere if `FORCE_COLOR` is set."""
    if _variable("NO_COLOR"):
        return False
    return bool(_variable("FORCE_COLOR")) or is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal other than `dumb`."""
    return stream is not None and stream.isatty() and _variable("TERM") != "dumb"


def empty_variables() -> tuple[str, ...]:
    """The names of agentkit's variables that are set but empty and therefore ignored, in alphabetical order."""
    filled = environment()
    return tuple(sorted(name for name in os.environ if name.startswith(_PREFIXES) and name not in filled))


def secret_values(variables: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The values of variables whose names identify secrets, longest first.

    Reads the environment unless `variables` is given. Short values and plain words are omitted because they occur in
    texts without secrets. So are dotted names, paths and URLs without a user, unless the variable is a password.
    """
    if variables is not None:
        return _secret_values(tuple(variables.items()))
    return _LATEST.read()[1]


class _LatestEnvironment:
    """The environment at the latest call. Comparing its raw data is far cheaper than decoding every variable again."""

    def __init__(self) -> None:
        self._known: tuple[Mapping[Any, Any], Mapping[str, str], tuple[str, ...]] = ({}, {}, ())

    def read(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """The variables, stripped and without empty ones, and the secret values among them."""
        raw = vars(os.environ).get("_data", os.environ)
        known, stripped, secrets = self._known
        if known != raw:
            variables = dict(os.environ)
            stripped = {name: value.strip() for name, value in variables.items() if value.strip()}
            secrets = _secret_values(tuple(variables.items()))
            self._known = dict(raw), stripped, secrets
        return stripped, secrets


_LATEST = _LatestEnvironment()


@lru_cache(4)
def _secret_values(variables: tuple[tuple[str | bytes, str | bytes], ...]) -> tuple[str, ...]:
    """Cached implementation of `secret_values`."""
    decoded = [(os.fsdecode(name), os.fsdecode(value).strip()) for name, value in variables]
    secrets = [(name, value) for name, value in decoded if _is_secret(name)]
    found = {value for name, value in secrets if _is_distinctive(value) and not _is_reference(name, value)}
    return tuple(sorted(found, key=len, reverse=True))


@lru_cache(1_024)
def _is_secret(name: str) -> bool:
    name = name.upper()
    return _SECRET_NAME.search(name) is not None and _NOT_THE_SECRET.search(name) is None


def _is_distinctive(value: str) -> bool:
    return len(value) >= _MIN_WORD_CHARS or (len(value) >= _MIN_SECRET_CHARS and not value.isalpha())


def _is_reference(name: str, value: str) -> bool:
    return _PASSWORD_NAME.search(name.upper()) is None and _REFERENCE.fullmatch(value) is not None


def state_folder(platform: str = sys.platform) -> Path:
    """The folder for persistent state: `AGENTKIT_STATE`, or `agentkit` in the platform's state folder."""
    return _state_folder(platform, *map(_variable, _STATE_VARIABLES), *map(_variable, _HOME_VARIABLES))


_STATE_VARIABLES = ("AGENTKIT_STATE", "LOCALAPPDATA", "XDG_STATE_HOME")
_HOME_VARIABLES = ("HOME", "USERPROFILE")
"""The variables that `Path.home` reads."""


@lru_cache(16)
def _state_folder(platform: str, override: str, local: str, state: str, *_home: str) -> Path:
    """Implementation of `state_folder`, cached by the variables it depends on because every run calls it."""
    if override:
        return Path(override)
    home = Path.home()
    folders = {"win32": local or home / "AppData/Local", "darwin": home / "Library/Application Support"}
    return Path(folders.get(platform) or state or home / ".local/state") / "agentkit"


def settings_file(platform: str = sys.platform) -> Path:
    """The user's settings file of the command line: `config.toml` in the platform's configuration folder."""
    folder = _variable("APPDATA" if platform == "win32" else "XDG_CONFIG_HOME")
    default = "AppData/Roaming" if platform == "win32" else ".config"
    return Path(folder or Path.home() / default) / "agentkit" / "config.toml"


def _variable(name: str) -> str:
    """An environment variable stripped of whitespace; empty if it is unset."""
    return os.environ.get(name, "").strip()


class Secret:
    """A key or token that is masked in repr, format and logs. `reveal()` returns the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for the code that sends it."""
        return self._value

    def scrub(self, text: str) -> str:
        """Replace every occurrence of the value in `text`; a short value is replaced only as a whole word."""
        pattern = re.escape(self._value)
        if len(self._value) < _MIN_SECRET_CHARS:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        return re.sub(pattern, "***", text) if self._value else text

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
