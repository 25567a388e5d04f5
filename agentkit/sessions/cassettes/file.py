"""The cassette file format."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from agentkit.atomic_write import validate_path
from agentkit.errors import SessionError
from agentkit.sessions.cassettes.entries import Entry, EntryRedactor, Reader
from agentkit.sessions.codec import Data, from_line
from agentkit.sessions.transfer import FORMAT

VERSION = 1

_VERSIONS: Mapping[str, int] = {"cassette": VERSION, "session": FORMAT}
"""The newest version that can be read of each kind of file, by its key in the header."""

_PART = ".part"
_DISTRIBUTION = "agentkit-tools"
_MODE = 0o600
_RECORD_IT = (
    "Record it first, with agentkit --record FILE, agentkit.testing.record or pytest --record=once. "
    "To show a session: agentkit sessions show NAME"
)


class CassetteWriter:
    """Writes a cassette line by line to `NAME.part`, so that a crash loses nothing; `finish` moves it into place.

    Only the file's owner can read it. Raises SessionError if it cannot be written.
    """

    def __init__(self, path: Path, at: float) -> None:
        self.path = path
        self._part = path.with_name(path.name + _PART)
        self._redactor, self._buffer = EntryRedactor(), list[Data]()
        try:
            self._file = self._create()
        except OSError as error:
            raise self._write_error(error) from error
        recorded = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        by = {"agentkit": version} if (version := _our_version()) else {}
        self.buffer({"cassette": VERSION, **by, "recorded": recorded})

    def _create(self) -> int:
        """Create the file that is written to. The usual case is tried first, because it takes a single system call."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            return os.open(validate_path(self._part), flags, _MODE)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            self._part.unlink(missing_ok=True)
        return os.open(self._part, flags, _MODE)

    def write(self, data: Data) -> None:
        """Write a line, redacted."""
        self._redactor.refresh()
        self._buffer.append(data)
        self._flush()

    def buffer(self, data: Data) -> None:
        """Buffer a line until the next write. If a crash loses it, it can be reconstructed from the lines around it."""
        self._buffer.append(data)

    def _flush(self) -> None:
        if not self._buffer:
            return
        entries, self._buffer = self._buffer, []
        rest = memoryview(self._redactor.lines(entries).encode())
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise self._write_error(error) from error

    def finish(self, *, keep: bool) -> None:
        """Move the cassette into place if `keep` is set; otherwise leave it as `NAME.part`."""
        try:
            self._flush()
            if keep:
                if not os.path.samestat(os.fstat(self._file), self._part.stat()):
                    raise SessionError(
                        f"{self.path} was recorded by another process at the same time. Record it again."
                    )
                self._part.replace(self.path)
        except OSError as error:
            raise self._write_error(error) from error
        finally:
            os.close(self._file)

    def _write_error(self, error: OSError) -> SessionError:
        return SessionError(
            f"The cassette {self.path} cannot be written: {error.strerror}. Check the permissions of its folder."
        )


def read_cassette(path: Path, *, hide: bool = False) -> tuple[Data, list[Entry]]:
    """Read the header and entries of a cassette or an exported session.

    With `hide`, entries are redacted for display, including texts that an older version wrote and that would be
    redacted today. The last line can be incomplete after a crash. Raises SessionError if the file is missing or
    unreadable.
    """
    try:
        is_regular = stat.S_ISREG(validate_path(path).stat().st_mode)  # reading a pipe could block for ever
        lines = path.read_bytes().split(b"\n") if is_regular else []
    except FileNotFoundError:
        raise SessionError(f"The cassette {path} does not exist. {_RECORD_IT}") from None
    except OSError as error:
        raise SessionError(f"The cassette {path} cannot be read: {error.strerror or error}.") from error
    if not lines:
        raise SessionError(f"The cassette {path} cannot be read: {path.name} is not a file.")
    header = _header(path, lines[0])
    reader = Reader()
    return header, list(_entries(path, reader, lines[1:], EntryRedactor() if hide else None))


def _entries(path: Path, reader: Reader, lines: Sequence[bytes], redactor: EntryRedactor | None) -> Iterator[Entry]:
    complete = lines[:-1]  # an incomplete last line is dropped
    for number, line in enumerate(complete, 2):
        try:
            if line.strip():
                data = from_line(line)
                yield reader.read(data if redactor is None else redactor.redact(data))
        except SessionError as error:
            raise SessionError(f"{path}, line {number}: {error}") from None
        except RecursionError:
            raise SessionError(f"{path}, line {number}: A cassette is damaged: it is nested too deeply.") from None


def _header(path: Path, line: bytes) -> Data:
    try:
        header = from_line(line)
    except SessionError:
        header = {}
    kind = next((kind for kind in _VERSIONS if kind in header), None)
    if kind is None:
        raise SessionError(f"{path} is not a cassette: it has no header line.")
    version, newest = header[kind], _VERSIONS[kind]
    if type(version) is int and version > newest:
        by = f"agentkit {header['agentkit']}" if "agentkit" in header else "a newer agentkit"
        raise SessionError(
            f"{path} has version {version} of the format, and this agentkit (version {_our_version() or 'unknown'}) "
            f"reads up to {newest}. It was written by {by}; upgrade with: pip install -U agentkit-tools"
        )
    return header


@cache
def _our_version() -> str:
    """The installed version; empty when running from source."""
    from importlib.metadata import distributions

    return next((found.version for found in distributions(name=_DISTRIBUTION)), "")
