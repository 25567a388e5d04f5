"""Data exchanged between host and sandbox: frames of texts, abridged outputs, and covers of hidden files.

A frame is its length in four bytes, followed by each name and each text as its length in four bytes and its UTF-8. A
cover is the regular file that replaces a hidden file inside a sandbox.
"""

from __future__ import annotations

import math
import os

MAX_FRAME_BYTES = 8_000_000

_LENGTH = 4
_HEAD_SHARE = 0.8


def encode(**texts: str) -> bytes:
    """Encode texts as a frame."""
    words = [word.encode("utf-8", "surrogateescape") for pair in texts.items() for word in pair]
    body = b"".join(len(word).to_bytes(_LENGTH, "big") + word for word in words)
    return len(body).to_bytes(_LENGTH, "big") + body


def decode(body: bytes) -> dict[str, str]:
    """Decode a frame without its length. Raises ValueError if it is malformed."""
    words = []
    position = 0
    while position < len(body):
        start = position + _LENGTH
        position = start + int.from_bytes(body[position:start], "big")
        if position > len(body):
            raise ValueError("The frame is truncated.")
        words.append(body[start:position].decode("utf-8", "surrogateescape"))
    if len(words) % 2:
        raise ValueError("The frame has a name without a value.")
    return dict(zip(words[::2], words[1::2], strict=True))


def split(received: bytes) -> list[dict[str, str]]:
    """Decode the frames in the received data, up to the first incomplete or malformed one."""
    frames = []
    position = 0
    while position + _LENGTH <= len(received):
        start = position + _LENGTH
        position = start + int.from_bytes(received[position:start], "big")
        if position > len(received):
            break
        try:
            frames.append(decode(received[start:position]))
        except ValueError:
            break
    return frames


def receive(descriptor: int, max_bytes: int = MAX_FRAME_BYTES) -> dict[str, str] | None:
    """Wait for the next frame; returns None if the other side has closed.

    Raises ValueError if the frame is malformed.
    """
    length = int.from_bytes(_read_exactly(descriptor, _LENGTH), "big")
    if length > max_bytes:
        raise ValueError("The frame is too long.")
    body = _read_exactly(descriptor, length)
    return decode(body) if body else None


def _read_exactly(descriptor: int, count: int) -> bytes:
    """Read exactly `count` bytes, or fewer at the end."""
    data = bytearray()
    while len(data) < count:
        chunk = os.read(descriptor, min(count - len(data), 65_536))
        if not chunk:
            break
        data += chunk
    return bytes(data)


def send(descriptor: int, data: bytes) -> None:
    """Write all data. Raises OSError if the reader has closed."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def split_limit(max_bytes: int) -> tuple[int, int]:
    """The number of bytes to keep from the beginning and the end of data that is too long."""
    head = math.ceil(max_bytes * _HEAD_SHARE)
    return head, max_bytes - head


def abridge(head: bytes, tail: bytes, total_bytes: int) -> str:
    """Join beginning and end of data as text, with a line that states how many bytes were omitted."""
    missing = total_bytes - len(head) - len(tail)
    note = f"\n… {missing:,} of {total_bytes:,} bytes left out …\n"
    return head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")


def shorten(text: str, max_bytes: int) -> str:
    """Return the text unchanged if it is short enough, otherwise its beginning and its end."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data.decode()
    head, tail = split_limit(max_bytes)
    return abridge(data[:head], data[len(data) - tail :], len(data))


_READABLE = 0o444
_PERMISSIONS = 0o777


def cover_description(status: os.stat_result) -> str:
    """Describe the cover of a file with this status, in the form that `make_cover` takes.

    The cover has the size, the modification time and the permissions of the file, except that nobody may read it.
    Programs that compare only these (git with `core.checkStat=minimal`) take the file as unchanged.
    """
    mode = status.st_mode & _PERMISSIONS & ~_READABLE
    return f"{status.st_size} {mode:o} {status.st_mtime_ns}"


def make_cover(path: str, description: str) -> None:
    """Create a cover at `path`: a sparse file of zeros that its owner cannot open for reading.

    A process without CAP_DAC_OVERRIDE gets EACCES, and even one that could read it would find only zeros.
    """
    size, mode, modified = description.split()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, int(size))
        os.fchmod(descriptor, int(mode, 8))
        os.utime(descriptor, ns=(int(modified), int(modified)))
    finally:
        os.close(descriptor)
