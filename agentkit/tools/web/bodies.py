"""How much of a body is read? Up to a limit as it comes and as it unfolds; a bomb never unfolds (pure)."""

from __future__ import annotations

import zlib

MAX_RAW_BYTES = 2_000_000
MAX_DECODED_BYTES = 5_000_000
MAX_GZIP_MEMBERS = 100

_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"
_ENCODINGS = {"": False, "identity": False, "gzip": True, "x-gzip": True}


def is_readable_encoding(content_encoding: str) -> bool:
    """Whether a Content-Encoding is one that can be read in bounds: none, or gzip once."""
    return content_encoding.strip().lower() in _ENCODINGS


class BodyReader:
    """Takes the chunks of a body and keeps what fits; `cut` says in words why the rest is missing."""

    def __init__(self, content_encoding: str = "") -> None:
        self.body = bytearray()
        self.cut = ""
        self._raw = 0
        self._members = 1
        self._inflater = zlib.decompressobj(_GZIP) if _ENCODINGS[content_encoding.strip().lower()] else None

    def feed(self, chunk: bytes) -> bool:
        """Take the next chunk; whether more is wanted."""
        taken = chunk[: MAX_RAW_BYTES - self._raw]
        self._raw += len(taken)
        if self._inflater is None:
            self.body += taken
        else:
            self._unfold(taken)
        if len(taken) < len(chunk):
            self.cut = self.cut or f"only the first {MAX_RAW_BYTES:,} bytes were read"
        return not self.cut

    def finish(self) -> None:
        """Tell that nothing more comes."""
        if self._inflater is not None and self._raw and not self._inflater.eof:
            self.cut = self.cut or "its compressed form ended early"

    def _unfold(self, data: bytes) -> None:
        """Decompress within the room that is left, member after member; what is no gzip after the first is padding."""
        while data and not self.cut and self._inflater:
            if self._inflater.eof and not self._begin_member(data):
                return
            room = MAX_DECODED_BYTES - len(self.body)
            try:
                self.body += self._inflater.decompress(data, room + 1)
            except zlib.error:
                self.cut = "its compressed form is damaged"
                return
            if len(self.body) > MAX_DECODED_BYTES:
                del self.body[MAX_DECODED_BYTES:]
                self.cut = f"only the first {MAX_DECODED_BYTES:,} bytes after decompression were read"
            data = self._inflater.unconsumed_tail or self._inflater.unused_data

    def _begin_member(self, data: bytes) -> bool:
        if not data.startswith(_GZIP_MAGIC[: len(data)]):
            return False
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            self.cut = f"only the first {MAX_GZIP_MEMBERS} parts of its compressed form were read"
            return False
        self._inflater = zlib.decompressobj(_GZIP)
        return True
