"""Which documents are at a place, and what is in them? A file, a folder, or a web page, which is judged first."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentkit.errors import ConfigError, ToolError
from agentkit.knowledge.passages import is_text
from agentkit.safety.paths import secret
from agentkit.slotted import dataclass
from agentkit.tools.web.connection import Connection
from agentkit.tools.web.outcomes import Failure, refused

MAX_FILE_BYTES = 50_000_000
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


@dataclass(frozen=True, slots=True)
class Found:
    """A document that is there: `body` is None when it cannot be read, and `fault` says why."""

    source: str
    body: bytes | None = None
    content_type: str = ""
    fault: str = ""


def is_url(place: str) -> bool:
    """Whether a place is on the web."""
    return place.lower().startswith(("http://", "https://"))


def spelled(place: str | os.PathLike[str]) -> str:
    """A place as it is remembered: a URL as it is, a path from the root on. Raises ConfigError for what is neither."""
    try:
        text = os.fspath(place)
    except TypeError:
        text = ""
    if not text or not is_text(text):
        raise ConfigError(f"add() takes files, folders and web addresses; not {place!r}. For a text use add_text().")
    return text if is_url(text) else os.path.realpath(Path(text).expanduser())


def usual_folders(file: str) -> tuple[str, ...]:
    """The folders whose files belong to knowledge: the current one, and the one of its file if it is kept in one.

    The user's home and what lies above it are too much to be meant.
    """
    home = os.path.realpath(Path("~").expanduser())
    places = [os.path.realpath(Path(file).parent)] if file else []
    with contextlib.suppress(OSError):  # the current folder may have been removed
        places.append(os.path.realpath(Path.cwd()))
    return tuple(place for place in dict.fromkeys(places) if not _holds(place, home))


def is_inside(place: str, folders: Iterable[str]) -> bool:
    """Whether a place, behind all links, is one of these folders or lies below one."""
    try:
        real = os.path.realpath(place)
    except (OSError, ValueError):
        return False
    return any(_holds(folder, real) for folder in folders)


def _holds(folder: str, place: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")


def found_on_web(url: str, connection: Connection) -> Found:
    """A web page, fetched as `fetch_url` does: judged, bounded, redirects judged again."""
    reply = connection.get(url)
    if not isinstance(reply, Failure):
        reply = refused(reply) or reply
    if isinstance(reply, Failure):
        return Found(url, fault=reply.error)
    return Found(url, reply.body, reply.headers.get("content-type", ""), reply.cut)


def found_in_file(path: str, without: tuple[str, ...] = ()) -> Found:
    """A file. What may hold secrets is not read, and neither are the files `without`."""
    if not is_text(path):
        return Found(ascii(path), fault="its name is no text")
    reason = secret(path)
    if reason:
        return Found(path, fault=f"it may hold {reason}")
    if path in without:
        return Found(path, fault="it is where the knowledge is kept")
    try:
        return Found(path, _read(path))
    except (OSError, ToolError) as error:
        return Found(path, fault=getattr(error, "strerror", None) or str(error))


def files_below(folder: str) -> Iterator[str]:
    """The files of a folder and of those in it, in order; hidden ones, links and installed packages are left out."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_skipped(here, name))
        yield from (f"{Path(here, name)}" for name in sorted(files) if not _is_skipped(here, name))


def _is_skipped(folder: str, name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED_FOLDERS or Path(folder, name).is_symlink()


def _read(path: str) -> bytes:
    """The bytes of a regular file; a pipe or device would never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not Path(path).is_file():
            raise ToolError("it is no regular file")
        body = file.read(MAX_FILE_BYTES + 1)
    if len(body) > MAX_FILE_BYTES:
        raise ToolError(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    return body
