"""Binding of approvals to real locations, to the content of scripts, and to the diff that was shown."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from agentkit import settings
from agentkit.decisions import Decision, Verdict
from agentkit.event_rendering import visible
from agentkit.tooling.tool import Tool

_MOST_PATHS = 200
_MOST_CHARS = 1_000
_MOST_HASHED_BYTES = 10_000_000
_MOST_FOLDER_ENTRIES = 1_000
_MOST_NAMED = 3
_CONTENT = " sha256:"
"""What separates the real location of a script from the digest of its content."""
_DIFF = " diff:"
"""What separates the real location of a file from the digest of the diff that was shown."""
_PATTERN = re.compile(r"[*?\[]")
_REMEDY = "Look at it again, and repeat the call if it is still wanted: the person is then asked again."


def binding(tool: Tool[..., Any] | None, arguments: Mapping[str, Any], folder: str) -> dict[str, str]:
    """What an approval of this call in `folder` is bound to: by path, its real location, and the content of a script.

    The tool's judge tells the paths if it can. Otherwise each short text among the arguments is taken for one.
    """
    if tool is None:
        return {}
    touched = tool.touched(arguments)
    named, scripts = touched if touched is not None else (_texts(arguments), ())
    bound = {path: _location(path) for path in islice(_absolute(sorted(named), folder), _MOST_PATHS)}
    return bound | {path: _state(path) for path in islice(_absolute(sorted(scripts), folder), _MOST_PATHS)}


def with_diff(bound: Mapping[str, str], diff: str) -> dict[str, str]:
    """The same, bound also to the lines that the shown diff adds and removes; unchanged without a diff."""
    return {path: f"{was}{_DIFF}{_lines_digest(diff)}" if diff else was for path, was in bound.items()}


def without_diff(bound: Mapping[str, str]) -> dict[str, str]:
    """The binding of a later call like this one, which has another diff."""
    return {path: was.partition(_DIFF)[0] for path, was in bound.items()}


def lapse(decision: Decision, bound: Mapping[str, str], diff: Callable[[], str]) -> Decision | None:
    """The denial of a call whose approval was bound to something else than what is there now; None when it holds.

    `diff` returns the diff of the call as it is now.
    """
    changed = [path for path, was in bound.items() if _now(path, was, diff) != was]
    if not changed:
        return None
    names = ", ".join(repr(visible(path)) for path in changed[:_MOST_NAMED])
    more = f" and {len(changed) - _MOST_NAMED:,} more" if len(changed) > _MOST_NAMED else ""
    reason = f"The call was not run: {names}{more} changed after the approval was asked for."
    return Decision(Verdict.DENY, "approval-lapsed", reason, decision.evidence, _REMEDY, decision.level)


def _now(path: str, was: str, diff: Callable[[], str]) -> str:
    """The binding of a path to what is there now, in the form of an earlier one."""
    if _DIFF in was:
        return f"{_location(path)}{_DIFF}{_lines_digest(diff())}"
    return _state(path) if _CONTENT in was else _location(path)


def _lines_digest(diff: str) -> str:
    """A digest of the added and removed lines, which stay the same if the file changes elsewhere."""
    lines = [line for line in diff.split("\n") if line.startswith(("+", "-"))]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _texts(value: Any, levels: int = 4) -> Iterator[str]:
    """The texts in arguments that can be paths."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str) and 0 < len(text) <= _MOST_CHARS and not set("\n\0") & set(text):
            yield text
    elif isinstance(value, Mapping | list | tuple) and levels:
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each, levels - 1)


def _absolute(paths: list[str], folder: str) -> Iterator[str]:
    from agentkit.safety.shell.variables import HOME

    home = settings.environment().get("HOME", HOME)
    for path in paths:
        place = f"{home}{path.removeprefix(HOME)}" if path.startswith(HOME) else path
        yield place if place.startswith("/") else f"{folder}/{place}"


def _location(path: str) -> str:
    """Where a path really leads; of a pattern, where each match leads."""
    return ":".join(_real(each) for each in _matches(path))


def _state(path: str) -> str:
    """The real location with a digest of what is there; of a pattern, of all matches."""
    digest = hashlib.sha256()
    for each in _matches(path):
        digest.update(_content(_real(each)))
    return f"{_location(path)}{_CONTENT}{digest.hexdigest()}"


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _matches(path: str) -> list[str]:
    if not _PATTERN.search(path) or os.path.lexists(path):
        return [path]
    parts = (part if part == "**" else re.sub(r"\*+", "*", part) for part in path.strip("/").split("/"))
    try:
        found = Path("/").glob("/".join(parts))
        return sorted(map(str, islice(found, _MOST_PATHS))) or [path]
    except (OSError, ValueError, NotImplementedError):
        return [path]


def _content(path: str) -> bytes:
    """Bytes that change with the content of a file, or with that of the files directly in a folder.

    Nothing but regular files is opened. What cannot be read counts as absent.
    """
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            return _folder_state(path)
        return _file_content(path) if stat.S_ISREG(status.st_mode) else b"no file"
    except (OSError, ValueError):
        return b"absent"


def _file_content(path: str) -> bytes:
    """The digest of a file; for a very large one, its status."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):  # replaced since it was looked at
            return b"no file"
        if status.st_size > _MOST_HASHED_BYTES:
            return _status_bytes(status)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return hashlib.sha256(file.read(_MOST_HASHED_BYTES + 1)).digest()
    finally:
        os.close(descriptor)


def _folder_state(path: str) -> bytes:
    """Names and statuses of the files in a folder, which `make -C`, `python3` and `find -exec` run unnamed."""
    digest = hashlib.sha256()
    for each in sorted(Path(path).iterdir())[:_MOST_FOLDER_ENTRIES]:
        with contextlib.suppress(FileNotFoundError):
            status = each.stat()
            if stat.S_ISREG(status.st_mode):
                digest.update(os.fsencode(each.name) + b"\0" + _status_bytes(status))
    return b"folder" + digest.digest()


def _status_bytes(status: os.stat_result) -> bytes:
    return repr((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode()
