"""Images, documents, audio and other files in messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from os import PathLike
from typing import ClassVar, Literal

from agentkit._dataclass import dataclass

MAX_FILE_BYTES = 50_000_000
"""Maximum file size in bytes: no provider accepts a larger file in a request."""

_IMAGE_TYPES = (
    ("image/png", rb"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", rb"\xff\xd8\xff"),
    ("image/gif", rb"GIF8[79]a"),
    ("image/webp", rb"RIFF....WEBP"),
)
"""Image media types that models accept, each with a pattern of the files' first bytes."""

_PDF = "application/pdf"
_MAX_BEFORE_PDF_BYTES = 1_024
"""How far into the file the PDF header can start; PDF readers allow the same."""

_FILE_TYPES = (
    (_PDF, rb"(?:\xef\xbb\xbf)?\s*%PDF-"),
    ("audio/wav", rb"RIFF....WAVE"),
    ("audio/mpeg", rb"ID3[\x02-\x04]|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"),
    ("audio/flac", rb"fLaC\x00"),
    ("audio/ogg", rb"OggS\x00"),
    ("audio/mp4", rb"....ftypM4[AB]"),
)
"""Media types of documents and audio that models accept, each with a pattern of the files' first bytes."""

_MPEG = rb"....ftyp"
"""First bytes of an MP4 container, either phone audio or video; the file name's extension decides."""

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
"""Office formats by file name extension; some providers accept them over the Responses protocol."""

EXTENSIONS = {_PDF: ".pdf", **{kind: f".{ending}" for ending, kind in _OFFICE_TYPES.items()}}
"""Extension by media type, for files without a name."""

TEXT_TYPES = r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|x-ndjson)"
"""Media types of files that are sent as plain text."""

READABLE_FILES = "a PDF, a recording (WAV, MP3, FLAC, OGG or M4A), a text in UTF-8, or an office document"
"""Description of the file types that models accept, for error messages."""

URL_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+:"
"""Pattern of a URL scheme; a single letter and a colon is a Windows drive."""

_ADDRESSES = ("https://", "http://")


def read_source(source: str | PathLike[str] | bytes) -> tuple[bytes, str]:
    """Return the content and the name of a file; the name of bytes is empty.

    Raises OSError, or ValueError for more than 50 MB.
    """
    if isinstance(source, bytes):
        data, name = source, ""
    else:
        from pathlib import Path

        path = Path(source)
        with path.open("rb") as file:
            data, name = file.read(MAX_FILE_BYTES + 1), path.name
    if len(data) > MAX_FILE_BYTES:
        label = repr(str(source)) if name else "The data"
        raise ValueError(f"{label} has more than {MAX_FILE_BYTES / 1e6:g} MB, more than any model accepts")
    return data, name


def data_url(media_type: str, data: bytes) -> str:
    """Encode the data as a `data:` URL."""
    from base64 import b64encode

    return f"data:{media_type};base64,{b64encode(data).decode('ascii')}"


def validate_url(url: str, max_bytes: int, type_of: Callable[[bytes], str | None], read: str) -> str:
    """Return the URL with the media type detected from its data. Raises ValueError if it is invalid."""
    import binascii

    if url[:8].lower().startswith(_ADDRESSES):
        return url
    head, _, encoded = url.partition(",")
    if not (head.startswith("data:") and head.endswith(";base64")):
        raise ValueError("its URL must begin with https:, or be a data: URL in base64")
    if len(encoded) * 3 // 4 > max_bytes + 2:
        raise ValueError(f"it has more than {max_bytes / 1e6:g} MB; return a smaller one")
    try:
        media_type = type_of(binascii.a2b_base64(encoded, strict_mode=True))
    except ValueError:
        raise ValueError("its data is not valid base64") from None
    if media_type is None:
        raise ValueError(read)
    return f"data:{media_type};base64,{encoded}"


def image_type(data: bytes) -> str | None:
    """Detect the media type of an image; None for any other data."""
    return _type_in(_IMAGE_TYPES, data)


def file_type(data: bytes, name: str) -> str | None:
    """Detect the media type of a document, recording or text; None if models cannot read it."""
    if found := _type_in(_FILE_TYPES, data):
        return found
    ending = name.rpartition(".")[2].lower()
    if re.match(_OFFICE, data):
        return _OFFICE_TYPES.get(ending)
    if ending == "m4a" and re.match(_MPEG, data, re.DOTALL):
        return "audio/mp4"
    if _is_text(data):
        return "text/plain"
    return _PDF if b"%PDF-" in data[:_MAX_BEFORE_PDF_BYTES] else None


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
    """The media type of a `data:` URL; empty for any other URL."""
    return url[5:].partition(",")[0].partition(";")[0].lower() if url[:5].lower() == "data:" else ""


def describe_url(url: str) -> str:
    """Describe a URL: media type and size of a `data:` URL, otherwise the address itself."""
    if not url.startswith("data:"):
        return url
    head, _, encoded = url[5:].partition(",")
    return f"{head.partition(';')[0][:99] or 'data'}, {_size(len(encoded) * 3 // 4)}"


def _size(count: int) -> str:
    """Format a number of bytes for people."""
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1e3:,.0f} kB" if count < 1_000_000 else f"{count / 1e6:,.1f} MB"


MAX_IMAGE_BYTES = 3_750_000
"""Maximum size in bytes of an image in a tool result: 5 MB in base64, the limit of some providers."""

MAX_RETURNED_BYTES = 15_000_000
"""Maximum size in bytes of a file in a tool result: 20 MB in base64, the request limit of some providers."""

_FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("x-wav", "wave", "vnd.wave"), "wav"),
    **dict.fromkeys(("mp4", "x-m4a"), "m4a"),
    "mpeg": "mp3",
}
"""Audio format names of the protocols, where they differ from the media subtype."""

_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a prompt or a tool result, given as an `https:` or `data:` URL; `Image.read` creates one from a file.

    Raises ValueError if `url` is not a URL.
    """

    keeps_secrets: ClassVar[bool] = True  # not redacted: repr never shows the URL

    url: str = field(repr=False)
    detail: Literal["auto", "low", "high"] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.url, str) and re.match(URL_SCHEME, self.url)):
            raise ValueError(f"An image is an https: or data: URL; for a file, Image.read(path). Got {self.url!r:.99}.")

    def __str__(self) -> str:
        """Placeholder for the image in text: `[image/png, 12 kB]`, or its address."""
        return f"[{describe_url(self.url)}]"

    @classmethod
    def read(cls, source: str | PathLike[str] | bytes, detail: Literal["auto", "low", "high"] | None = None) -> Image:
        """Read an image from a file or from bytes into a `data:` URL; the media type is detected from the content.

        Raises OSError, or ValueError if the data is not a PNG, JPEG, GIF or WebP image or exceeds 50 MB.
        """
        data, name = read_source(source)
        media_type = image_type(data)
        if media_type is None:
            shown = repr(str(source)) if name else "The data"
            raise ValueError(f"{shown} is not an image that models read; use a PNG, JPEG, GIF or WebP file")
        return cls(data_url(media_type, data), detail)

    def validated(self) -> Image:
        """Return the image in the form providers accept in a tool result, with the media type detected from its data.

        Raises ValueError with the reason if it is invalid: a provider would reject the whole conversation because of
        it.
        """
        valid_url = validate_url(self.url, MAX_IMAGE_BYTES, image_type, "models read PNG, JPEG, GIF and WebP")
        return self if valid_url == self.url else replace(self, url=valid_url)


@dataclass(frozen=True, slots=True)
class File:
    """A PDF, recording or text in a prompt or a tool result, given as an `https:` or `data:` URL with an optional name.

    `File.read` creates one from a file. Raises ValueError if `url` is not a URL.
    """

    keeps_secrets: ClassVar[bool] = True  # not redacted: repr never shows the URL

    url: str = field(repr=False)
    name: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.url, str) and re.match(URL_SCHEME, self.url)):
            raise ValueError(
                f"A file is an https: or data: URL; for one on disk, File.read(path). Got {self.url!r:.99}."
            )
        name = "".join(filter(str.isprintable, self.name))[-_MAX_NAME_CHARS:]
        object.__setattr__(self, "name", name)

    def __str__(self) -> str:
        """Placeholder for the file in text: `[report.pdf, application/pdf, 12 kB]`, or its address."""
        return f"[{', '.join(filter(None, (self.name, describe_url(self.url))))}]"

    @classmethod
    def read(cls, source: str | PathLike[str] | bytes, name: str = "") -> File:
        """Read a file or bytes into a `data:` URL.

        The media type is detected from the content; for office documents the name's extension is needed as well.

        Raises OSError, or ValueError for a type that models cannot read, an image (use `Image.read`), or more than 50
        MB.
        """
        data, own_name = read_source(source)
        shown = repr(str(source)) if own_name else "The data"
        media_type = file_type(data, name or own_name)
        if media_type is None:
            hint = "; for an image, use Image.read" if image_type(data) else ""
            raise ValueError(f"{shown} is not a file that models read: {READABLE_FILES}{hint}")
        return cls(data_url(media_type, data), name or own_name)

    @property
    def media_type(self) -> str:
        """The media type, such as `application/pdf`; empty if only the address is known."""
        return media_type_of(self.url)

    @property
    def data(self) -> bytes | None:
        """The content of the file; None if only the address is known or the data cannot be decoded."""
        import binascii
        from urllib.parse import unquote_to_bytes

        head, comma, rest = self.url.partition(",")
        if not (comma and head[:5].lower() == "data:"):
            return None
        try:
            return binascii.a2b_base64(rest) if head.lower().endswith(";base64") else unquote_to_bytes(rest)
        except ValueError:
            return None

    @property
    def audio_format(self) -> str:
        """The format of an audio file, such as `wav`; empty for other files."""
        kind, _, name = self.media_type.partition("/")
        return _FORMATS.get(name, name) if kind == "audio" else ""

    @property
    def file_name(self) -> str:
        """The file name, or a generic one with the extension of the media type."""
        return self.name or f"file{EXTENSIONS.get(self.media_type, '')}"

    @property
    def quoted_text(self) -> str | None:
        """The content of a text file, quoted with its name; None for any other file."""
        data = self.data if re.fullmatch(TEXT_TYPES, self.media_type) else None
        if data is None:
            return None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        return quoted_file(self.name, text)

    def validated(self) -> File:
        """Return the file in the form providers accept in a tool result, with the media type detected from its data.

        Raises ValueError with the reason if it is invalid: a provider would reject the whole conversation because of
        it.
        """
        valid_url = validate_url(
            self.url, MAX_RETURNED_BYTES, lambda data: file_type(data, self.name), f"models read {READABLE_FILES}"
        )
        return self if valid_url == self.url else replace(self, url=valid_url)


def quoted_file(name: str, text: str) -> str:
    """Wrap the text of a file in begin and end markers."""
    label = f"the file {name}" if name else "a file"
    return f"[What follows is {label}.]\n{text.strip()}\n[Here ends {label}.]"


def load_part(part: str | Image | File | PathLike[str]) -> str | Image | File:
    """Convert a part of a prompt: a path to the content of its file, a text file to its text.

    Raises OSError, or ValueError for a file that models cannot read.
    """
    if isinstance(part, PathLike):
        return read_part(part)
    words = part.quoted_text if isinstance(part, File) else None
    return part if words is None else words


def part_text(part: str | Image | File) -> str:
    """Text form of a part: the text itself or a placeholder without data or address."""
    if isinstance(part, str):
        return part
    return "[image]" if isinstance(part, Image) else f"[{' '.join(filter(None, ('file', part.name)))}]"


def images_in(parts: Iterable[object]) -> tuple[Image, ...]:
    """The images among the parts."""
    return tuple([part for part in parts if isinstance(part, Image)])


def files_in(parts: Iterable[object]) -> tuple[File, ...]:
    """The files among the parts."""
    return tuple([part for part in parts if isinstance(part, File)])


def read_part(source: str | PathLike[str] | bytes) -> str | Image | File:
    """Load a file as a prompt part: an image, a file (PDF, recording) or text. Raises OSError, ValueError."""
    data, name = read_source(source)
    return Image.read(data) if image_type(data) else load_part(File.read(source if name else data))
