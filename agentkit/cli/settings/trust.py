"""Which project files has the user read and agreed to? A changed one is another."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from agentkit.cli.settings.files import File
from agentkit.config import state_folder
from agentkit.errors import ConfigError


def is_trusted(file: File) -> bool:
    """Whether the user has agreed to this file with this content."""
    return _known().get(str(file.path)) == _fingerprint(file)


def trust(file: File) -> None:
    """Remember that the user agrees to this file with this content. Raises ConfigError when that cannot be kept."""
    kept = json.dumps({**_known(), str(file.path): _fingerprint(file)}, indent=2)
    path = _path()
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(kept)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Is its folder writable?") from None


def _known() -> dict[str, str]:
    """Fingerprints by path; none where they cannot be read, so that nothing is trusted by mistake."""
    try:
        known = json.loads(_path().read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _fingerprint(file: File) -> str:
    return hashlib.sha256(file.content).hexdigest()


def _path() -> Path:
    return state_folder() / "trusted.json"
