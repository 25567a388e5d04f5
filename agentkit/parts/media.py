"""Of which kind are data, and how do they stand in a URL? Told by what they begin with."""

from __future__ import annotations

import re
from collections.abc import Callable
from os import PathLike

MOST_FILE_BYTES = 50_000_000
"""How long a file may be: no provider takes a longer one in a request."""

_IMAGE_TYPES = (
    ("image/png", rb"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", rb"\xff\xd8\xff"),
    ("image/gif", rb"GIF8[79]a"),
    ("image/webp", rb"RIFF....WEBP"),
)
"""The media types that models see, each with what its files begin with."""

_PDF = "application/pdf"
_MOST_BEFORE_PDF_BYTES = 1_024
"""How much may stand before the first words of a PDF, as all that read it allow."""

_FILE_TYPES = (
    (_PDF, rb"(?:\xef\xbb\xbf)?\s*%PDF-"),
    ("audio/wav", rb"RIFF....WAVE"),
    ("audio/mpeg", rb"ID3[\x02-\x04]|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"),
    ("audio/flac", rb"fLaC\x00"),
    ("audio/ogg", rb"OggS\x00"),
    ("audio/mp4", rb"....ftypM4[AB]"),
)
"""The same of files that models read and hear."""

_MPEG = rb"....ftyp"
"""What a recording by a phone begins with, as does a film: its name tells which."""

_OFFICE = rb"PK\x03\x04|\xd0\xcf\x11\xe0"
_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_OFFICE_TYPES = {
    "docx": f"{_OPEN_XML}.wordprocessingml.document",
    "xlsx": f"{_OPEN_XML}.spreadsheetml.sheet",
    "pptx": f"{_OPEN_XML}.presentationml.presentation",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "odt": "application/vnd.oasis.opendocument.text",
}
"""What office programs write is told by the ending of its name: some providers read it, over Responses."""

ENDINGS = {_PDF: ".pdf", **{kind: f".{ending}" for ending, kind in _OFFICE_TYPES.items()}}
"""How the name of a file ends that has none of its own."""

TEXTS = r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|x-ndjson)"
"""The media types of what is told as its words."""

READ = "a PDF, a recording (WAV, MP3, FLAC, OGG or M4A), a text in UTF-8, or an office document"
"""What models read and hear, in words."""

SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+:"
"""How a URL begins; one letter and a colon begin a path on Windows."""

_ADDRESSES = ("https://", "http://")


def bytes_of(source: str | PathLike[str] | bytes) -> tuple[bytes, str]:
    """What is in a file, and its name; bytes have none. Raises OSError, or ValueError for more than 50 MB."""
    if isinstance(source, bytes):
        data, name = source, ""
    else:
        from pathlib import Path

        path = Path(source)
        with path.open("rb") as file:
            data, name = file.read(MOST_FILE_BYTES + 1), path.name
    if len(data) > MOST_FILE_BYTES:
        shown = repr(str(source)) if name else "What was given"
        raise ValueError(f"{shown} has more than {MOST_FILE_BYTES / 1e6:g} MB, which no model reads at once")
    return data, name


def data_url(media_type: str, data: bytes) -> str:
    """The data as a URL."""
    from base64 import b64encode

    return f"data:{media_type};base64,{b64encode(data).decode('ascii')}"


def checked_url(url: str, most_bytes: int, type_of: Callable[[bytes], str | None], read: str) -> str:
    """The URL with the type that its data have. Raises ValueError."""
    import binascii

    if url[:8].lower().startswith(_ADDRESSES):
        return url
    head, _, encoded = url.partition(",")
    if not (head.startswith("data:") and head.endswith(";base64")):
        raise ValueError("it has neither an https: address nor a data: URL in base64")
    if len(encoded) * 3 // 4 > most_bytes + 2:
        raise ValueError(f"it has more than {most_bytes / 1e6:g} MB; return a smaller one")
    try:
        media_type = type_of(binascii.a2b_base64(encoded, strict_mode=True))
    except ValueError:
        raise ValueError("its data are not base64") from None
    if media_type is None:
        raise ValueError(read)
    return f"data:{media_type};base64,{encoded}"


def image_type(data: bytes) -> str | None:
    """The media type of what is seen; None for what is not."""
    return _type_in(_IMAGE_TYPES, data)


def file_type(data: bytes, name: str) -> str | None:
    """The media type of what is read or heard; None for what is not."""
    if found := _type_in(_FILE_TYPES, data):
        return found
    ending = name.rpartition(".")[2].lower()
    if re.match(_OFFICE, data):
        return _OFFICE_TYPES.get(ending)
    if ending == "m4a" and re.match(_MPEG, data, re.DOTALL):
        return "audio/mp4"
    if _is_text(data):
        return "text/plain"
    return _PDF if b"%PDF-" in data[:_MOST_BEFORE_PDF_BYTES] else None


def _type_in(types: tuple[tuple[str, bytes], ...], data: bytes) -> str | None:
    return next((name for name, start in types if re.match(start, data, re.DOTALL)), None)


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


def media_type_of(url: str) -> str:
    """The media type of a `data:` URL; empty for any other."""
    return url[5:].partition(",")[0].partition(";")[0].lower() if url[:5].lower() == "data:" else ""


def told_of(url: str) -> str:
    """What a URL leads to: a kind and how long it is, or the address itself."""
    if not url.startswith("data:"):
        return url
    head, _, encoded = url[5:].partition(",")
    return f"{head.partition(';')[0][:99] or 'data'}, {_size(len(encoded) * 3 // 4)}"


def _size(count: int) -> str:
    """A number of bytes as a person reads it."""
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1e3:,.0f} kB" if count < 1_000_000 else f"{count / 1e6:,.1f} MB"
