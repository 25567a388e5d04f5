"""Which project files has the user read and agreed to? A changed one is another."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from agentkit.cli.settings.files import File
from agentkit.config import state_folder
from agentkit.errors import ConfigError
from agentkit.keeping import write_whole


def is_trusted(file: File) -> bool:
    """Whether the user has agreed to this file with this content."""
    return _known().get(str(file.path)) == _fingerprint(file)


def trust(file: File) -> None:
    """Remember that the user agrees to this file with this content. Raises ConfigError when that cannot be kept."""
    kept = json.dumps({**_known(), str(file.path): _fingerprint(file)}, indent=2)
    path = _path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, kept)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Is its folder writable?") from None


def _known() -> dict[str, str]:
    """Fingerprints by path; none where they cannot be read, so that nothing is trusted by mistake."""
    try:
        known = json.loads(_path().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _fingerprint(file: File) -> str:
    return hashlib.sha256(file.content).hexdigest()


def _path() -> Path:
    return state_folder() / "trusted.json"
