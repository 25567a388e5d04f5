"""Where is a login kept? In a file of the state folder that only its owner can read, found by the server's address."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentkit import config
from agentkit.errors import ConfigError
from agentkit.mcp.pins import replace_file

_VERSION = 1
_WAIT_SECONDS = 0.05
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES = 1_000_000
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""No link is followed, and nobody waits for who should write into a pipe."""


class KeptLogin:
    """The file about one server, which holds for its whole address and for no other."""

    def __init__(self, url: str, folder: str | Path | None = None) -> None:
        self._mark = hashlib.sha256(_one_spelling(url).encode("utf-8", "backslashreplace")).hexdigest()
        place = config.state_folder() / "mcp" / "logins" if folder is None else Path(folder)
        self.path = place / f"{self._mark[:32]}.json"

    def read(self) -> dict[str, Any] | None:
        """What was kept; None when nothing was. Raises ConfigError for a file that is not ours, or that others read."""
        try:
            data = json.loads(self._text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self._cannot_be_used()}: {type(error).__name__}.") from None
        if not isinstance(data, dict) or data.get("version") != _VERSION or data.get("server_sha256") != self._mark:
            raise ConfigError(f"{self._cannot_be_used()}: it is of another server, or of another version of agentkit.")
        return data

    def write(self, document: Mapping[str, Any]) -> None:
        """Keep this, and nothing else. Raises ConfigError when it cannot be kept."""
        try:
            replace_file(self.path, {"version": _VERSION, "server_sha256": self._mark, **document})
        except OSError as error:
            raise ConfigError(f"The login cannot be kept in {self.path}: {error.strerror}.") from None

    @contextlib.asynccontextmanager
    async def alone(self, most_waits: int = 600) -> AsyncIterator[None]:
        """Be the only process that renews it while the block lasts: a refresh token can often be used only once.

        Who waits too long for the others goes on; the authorization server then decides.
        """
        import fcntl

        descriptor = self._lock()
        try:
            for _ in range(most_waits):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await asyncio.sleep(_WAIT_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _lock(self) -> int:
        """The lock file by which processes exclude each other; it stays empty."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self.path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT | _NO_LINK, 0o600)
        except OSError as error:
            raise ConfigError(f"The login in {self.path} cannot be renewed: {error.strerror}.") from None

    @property
    def edition(self) -> tuple[int, int] | None:
        """What is another once something else is kept; None when nothing is."""
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def forget(self) -> bool:
        """Delete it; whether there was one."""
        is_there = self.edition is not None
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        return is_there

    def _text(self) -> bytes:
        descriptor = os.open(self.path, os.O_RDONLY | _NO_LINK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
                raise ConfigError(f"{self._cannot_be_used()}: it is no file, or longer than any that we write.")
            if os.name == "posix" and found.st_uid != os.geteuid():
                raise ConfigError(
                    f"{self._cannot_be_used()}: it is another user's, who would be told what you ask for."
                )
            if os.name == "posix" and found.st_mode & _OTHERS:
                raise ConfigError(f"{self._cannot_be_used()}: others can read it, so what it holds is no secret.")
            return file.read()

    def _cannot_be_used(self) -> str:
        return f"The login in {self.path} cannot be used; delete it and log in again"


def _one_spelling(url: str) -> str:
    """The address with scheme and host in small letters."""
    parts = urlsplit(url)
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl()
