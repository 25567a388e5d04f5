"""Atomic replacement of files."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from agentkit.errors import ConfigError
from agentkit.portable_files import CLOEXEC


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Write the text to the file atomically; by default only its owner can read it. Raises OSError."""
    draft = path.with_name(f".draft-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            file.write(text)
        draft.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError):  # it names the draft
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def store(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file as `write_whole` does, after creating its folder. Raises ConfigError if that fails."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, text, mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Is its folder writable?") from None


def validate_path(path: str | os.PathLike[str]) -> Path:
    """Validate a path and return it as a `Path`.

    Raises OSError for a name that contains a NUL or a lone surrogate, as for any other name that the system rejects;
    Python itself raises ValueError for these.
    """
    try:
        if b"\0" not in os.fsencode(path):
            return Path(path)
    except UnicodeEncodeError:
        pass
    raise OSError(errno.EINVAL, "its name contains a NUL character or a lone surrogate", ascii(os.fspath(path)))
