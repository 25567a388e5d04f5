"""Reading git's index, and refreshing its record of files that git itself cannot read inside a sandbox."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import time
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from agentkit._dataclass import dataclass
from agentkit.portable_files import CLOEXEC, NOFOLLOW, NONBLOCK

_SIGNATURE, _HEADER = b"DIRC", struct.Struct(">4sII")
_STATUS = struct.Struct(">10I")
_MTIME, _SIZE = 8, 36
_FLAGS = struct.Struct(">H")
_EXTENDED, _STAGE, _FLAGS_MASK = 0x4000, 0x3000, 0xF000
_MAX_BYTES, _MAX_HASHED_BYTES = 100_000_000, 20_000_000
_MAX_WAIT_SECONDS = 1.1
_OID_BYTES = (20, 32)


class Entry(NamedTuple):
    """An entry of the index: `offset` is its position, `flags` define how git treats the file."""

    path: bytes
    mode: int
    oid: bytes
    flags: int
    size: int
    mtime: int
    mtime_ns: int
    offset: int


@dataclass(frozen=True, slots=True)
class Index:
    """The entries of an index by path, without those of a conflict, and the second in which it was written."""

    data: bytes
    entries: dict[bytes, Entry]
    written: int

    def is_racy(self, entry: Entry) -> bool:
        """Whether git would compare the file's content, because its time does not prove that it is unchanged."""
        return entry.size == 0 or entry.mtime >= self.written


def parse_entries(data: bytes, oid_bytes: int = 20) -> list[Entry] | None:
    """The entries of an index in order; None for invalid data, or a split index, which needs a second file."""
    try:
        entries = list(_entries(data, oid_bytes))
        return None if b"link" in _extensions(data, entries, oid_bytes) else entries
    except (struct.error, ValueError, IndexError):
        return None


def has_same_entries(one: bytes, other: bytes) -> bool:
    """Whether two indexes list the same content; the recorded times of files are ignored."""
    for oid_bytes in _OID_BYTES:
        lists = [parse_entries(data, oid_bytes) for data in (one, other)]
        if None not in lists:
            first, second = ([(e.path, e.mode, e.oid, e.flags) for e in found or ()] for found in lists)
            return first == second
    return one == other


def load(path: str, wanted: Collection[bytes], oid_bytes: int = 20) -> Index | None:
    """The index in a file, if it lists one of the wanted paths or a path below one; None otherwise."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC)
        with os.fdopen(file, "rb") as stream:
            data, written = stream.read(_MAX_BYTES), int(os.fstat(file).st_mtime)
        is_compressed = data[4:8] == b"\0\0\0\4"
        if is_compressed or any(name in data for name in wanted):
            entries = parse_entries(data, oid_bytes)
            plain = {entry.path: entry for entry in entries or () if not entry.flags & _STAGE}
            return Index(data, plain, written) if entries is not None else None
    return None


def _extensions(data: bytes, entries: Sequence[Entry], oid_bytes: int) -> list[bytes]:
    """The signatures of the extensions after the entries."""
    end = _entry_end(data, entries[-1].offset, oid_bytes) if entries else _HEADER.size
    found = []
    while end + 8 <= len(data) - oid_bytes:
        found.append(data[end : end + 4])
        end += 8 + int.from_bytes(data[end + 4 : end + 8], "big")
    return found


def _entry_end(data: bytes, offset: int, oid_bytes: int) -> int:
    """The end of the entry at an offset."""
    version = int.from_bytes(data[4:8], "big")
    flags = _FLAGS.unpack_from(data, offset + _STATUS.size + oid_bytes)[0]
    position = offset + _STATUS.size + oid_bytes + (4 if flags & _EXTENDED and version > 2 else 2)
    if version == 4:
        position = _read_number(data, position)[1]
        return data.index(b"\0", position) + 1
    length = data.index(b"\0", position) - offset
    return offset + length + 8 - length % 8


def _entries(data: bytes, oid_bytes: int) -> Iterator[Entry]:
    """The entries. Raises struct.error, ValueError or IndexError for invalid data."""
    signature, version, count = _HEADER.unpack_from(data)
    if signature != _SIGNATURE or version not in (2, 3, 4):
        raise ValueError("not an index")
    position, path = _HEADER.size, b""
    for _ in range(count):
        _, _, mtime, mtime_ns, _, _, mode, _, _, size = _STATUS.unpack_from(data, position)
        after = position + _STATUS.size + oid_bytes
        flags = _FLAGS.unpack_from(data, after)[0]
        flags_kept = flags & _FLAGS_MASK
        if flags & _EXTENDED and version > 2:
            flags_kept |= _FLAGS.unpack_from(data, after + 2)[0] << 16
            after += 2
        path, end = _read_path(data, position, after + 2, path if version == 4 else None)
        oid = data[position + _STATUS.size : position + _STATUS.size + oid_bytes]
        yield Entry(path, mode, oid, flags_kept, size, mtime, mtime_ns, position)
        position = end


def _read_path(data: bytes, start: int, position: int, previous: bytes | None) -> tuple[bytes, int]:
    """The path of an entry, and the start of the next entry; version 4 omits the prefix of the previous path."""
    if previous is None:
        end = data.index(b"\0", position)
        length = end - start
        return data[position:end], start + length + 8 - length % 8
    dropped, position = _read_number(data, position)
    end = data.index(b"\0", position)
    if dropped > len(previous):
        raise ValueError("not an index")
    return previous[: len(previous) - dropped] + data[position:end], end + 1


def _read_number(data: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and its end."""
    value = data[position] & 127
    while data[position] & 128:
        position += 1
        value = ((value + 1) << 7) | (data[position] & 127)
    return value, position + 1


def refresh(path: str, index: Index, files: dict[bytes, str], oid_bytes: int = 20) -> bool:
    """Record in the index that these tracked files are unchanged, so that git need not read them.

    Git reads a file whose recorded time is not older than the index. Each of `files` (real paths, by tracked path)
    whose content is the recorded one gets its current size and time; other files that git would read remain marked.
    Nothing else changes. If another process holds the lock, or has changed the index, nothing is written.
    """
    racy = {name: index.entries[name] for name in files if index.is_racy(index.entries[name])}
    data = bytearray(index.data)
    newest = 0
    for name, entry in racy.items():
        status = os.lstat(files[name])
        if _is_recorded(files[name], entry, oid_bytes):
            seconds, nanoseconds = divmod(status.st_mtime_ns, 10**9)
            struct.pack_into(">II", data, entry.offset + _MTIME, seconds & 0xFFFF_FFFF, nanoseconds)
            struct.pack_into(">I", data, entry.offset + _SIZE, status.st_size & 0xFFFF_FFFF)
            newest = max(newest, seconds)
        elif entry.size and (entry.size, entry.mtime) != (status.st_size, int(status.st_mtime)):
            newest = max(newest, entry.mtime)  # changed, as its size or time still show
    if not newest or time.time() + _MAX_WAIT_SECONDS < newest + 1:
        return False
    for entry in index.entries.values():
        if index.is_racy(entry) and entry.path not in racy:
            struct.pack_into(">I", data, entry.offset + _SIZE, 0)
    time.sleep(max(0.0, newest + 1.01 - time.time()))
    return _replace(path, index.data, bytes(data), oid_bytes)


def _is_recorded(path: str, entry: Entry, oid_bytes: int) -> bool:
    """Whether a file has the content that the index records."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        content = file.read(_MAX_HASHED_BYTES)
        hash_function = hashlib.sha1 if oid_bytes == _OID_BYTES[0] else hashlib.sha256
        return hash_function(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest() == entry.oid
    return False


def _replace(path: str, old: bytes, new: bytes, oid_bytes: int) -> bool:
    """Replace the index under git's lock; False if another process holds the lock or has replaced the index."""
    body, trailer = new[:-oid_bytes], new[-oid_bytes:]
    if any(trailer):  # zeros mean that the checksum is disabled
        hash_function = hashlib.sha1 if oid_bytes == _OID_BYTES[0] else hashlib.sha256
        trailer = hash_function(body, usedforsecurity=False).digest()
    lock = f"{path}.lock"
    try:
        mode = os.lstat(path).st_mode & 0o777
        file = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, mode)
    except OSError:
        return False
    try:
        with os.fdopen(file, "wb") as stream, open(path, "rb") as current:
            is_same = current.read(_MAX_BYTES) == old
            stream.write(body + trailer)
        if is_same:
            os.rename(lock, path)
    except OSError:
        return False
    else:
        return is_same
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(lock)
