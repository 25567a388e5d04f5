"""What does a file of settings say, and which files are there?"""

from __future__ import annotations

import os
import re
from dataclasses import field
from pathlib import Path
from typing import Any

from agentkit.cli.settings.keys import KEYS, unknown
from agentkit.errors import ConfigError
from agentkit.lines import split_lines
from agentkit.slotted import dataclass

PROJECT_FILE = "agentkit.toml"
_PYPROJECT = "pyproject.toml"
_TABLE = "tool.agentkit"
_SECRET = re.compile("key|token|secret|password", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class File:
    """A file of settings: what it says, checked, and its content, which tells whether it is still the same."""

    path: Path
    values: dict[str, Any]
    content: bytes = field(default=b"", repr=False)


def current_folder() -> Path:
    """The folder that a command works in. Raises ConfigError when it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError("The current folder was removed. Change into one that is there.") from None


def user_file(path: Path) -> File:
    """The user's own settings, none when there is no such file. Raises ConfigError."""
    return _read(path) or File(path, {})


def project_file(folder: Path) -> File | None:
    """The nearest `agentkit.toml`, or `pyproject.toml` with `[tool.agentkit]`, in a folder or above.

    A file that belongs to another user is none: who may write into a folder above, such as /tmp, decides nothing here.
    Raises ConfigError.
    """
    for place in (folder, *folder.parents):
        for name in (PROJECT_FILE, _PYPROJECT):
            path = place / name
            if _is_ours(path) and (found := _read(path)):
                return found
    return None


def _is_ours(path: Path) -> bool:
    """Whether it is a file of this user, or of the machine's administrator."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return path.is_file() and (not hasattr(os, "getuid") or owner in {0, os.getuid()})


def _read(path: Path) -> File | None:
    """What a file says; None when there is no file, or when its [tool.agentkit] is missing."""
    import tomllib

    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # services have /dev/null for a home
        return None
    except OSError as error:
        raise ConfigError(
            f"The settings in {path} cannot be read: {error.strerror}. Correct or move the file."
        ) from None
    if path.name == _PYPROJECT and _TABLE.encode() not in content:
        return None
    try:
        text = content.decode()
        data: Any = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}. Correct that place of the file.") from None
    if path.name == _PYPROJECT:
        tables: Any = data.get("tool")
        data = tables.get("agentkit") if isinstance(tables, dict) else None
    if not isinstance(data, dict):
        return None
    return File(path, {name: _value(path, text, name, value) for name, value in data.items()}, content)


def _value(path: Path, text: str, name: str, value: object) -> Any:
    """A setting's value. Raises ConfigError that names file and line."""
    if name not in KEYS:
        told = unknown("setting", name, KEYS)
        if _SECRET.search(name):
            told = f"There is no setting {name!r:.80}. Keys are kept in the environment, e.g. OPENAI_API_KEY."
        raise ConfigError(f"{_place(path, text, name)}: {told}")
    try:
        return KEYS[name](value)
    except ConfigError as error:
        told = str(error)
        told = f"{name} {told}" if told.startswith("takes ") else told
        raise ConfigError(f"{_place(path, text, _inner(value, told) or name)}: {told}") from None


def _inner(value: object, told: str) -> str | None:
    """The key inside a table that a complaint names."""
    keys = value if isinstance(value, dict) else ()
    return next((key for key in keys if re.search(rf"\b{re.escape(key)}\b", told)), None)


def _place(path: Path, text: str, name: str) -> str:
    """The file, and the line where the name is set, when it can be told."""
    pattern = re.compile(rf"""^\s*\[?([\w.]+\.)?["']?{re.escape(name)}["']?\s*[=\].]""")
    inline = re.compile(rf"""[{{,]\s*["']?{re.escape(name)}["']?\s*=""")
    lines = split_lines(text)
    for wanted in (pattern.search, inline.search):
        number = next((number for number, line in enumerate(lines, 1) if wanted(line)), None)
        if number is not None:
            return f"{path}, line {number}"
    return str(path)
