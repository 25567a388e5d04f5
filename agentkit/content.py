"""Images, documents, audio and other files in messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from os import PathLike
from typing import ClassVar, Literal

from agentkit._dataclass import dataclass

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


MOST_IMAGE_BYTES = 3_750_000
"""How long a picture in a tool's result may be: 5 MB in base64, which is all that some providers take."""

MOST_RETURNED_BYTES = 15_000_000
"""How long a file in a tool's result may be: 20 MB in base64, which is all that some providers take of a request."""

_FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("x-wav", "wave", "vnd.wave"), "wav"),
    **dict.fromkeys(("mp4", "x-m4a"), "m4a"),
    "mpeg": "mp3",
}
"""What protocols call a recording whose media type is another word."""

_MOST_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a prompt or a tool's result: an `https:` or `data:` URL, as `Image.read` makes one of a file.

    Raises ValueError for what is no URL.
    """

    keeps_secrets: ClassVar[bool] = True  # an address with a secret is not shown at all

    url: str = field(repr=False)
    detail: Literal["auto", "low", "high"] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.url, str) and re.match(SCHEME, self.url)):
            raise ValueError(f"An image is an https: or data: URL; for a file, Image.read(path). Got {self.url!r:.99}.")

    def __str__(self) -> str:
        """What stands for the picture in a text: `[image/png, 12 kB]`, or its address."""
        return f"[{told_of(self.url)}]"

    @classmethod
    def read(cls, source: str | PathLike[str] | bytes, detail: Literal["auto", "low", "high"] | None = None) -> Image:
        """The image in a file, or in bytes, as a `data:` URL, its type told by its content.

        Raises OSError, or ValueError for what is no PNG, JPEG, GIF or WebP, or more than 50 MB.
        """
        data, name = bytes_of(source)
        media_type = image_type(data)
        if media_type is None:
            shown = repr(str(source)) if name else "What was given"
            raise ValueError(f"{shown} is not an image that models read; use a PNG, JPEG, GIF or WebP file")
        return cls(data_url(media_type, data), detail)

    def checked(self) -> Image:
        """The picture as a provider takes it from a tool, its type told by its content.

        Raises ValueError, which says what is wrong: a provider would refuse the whole conversation for it.
        """
        right = checked_url(self.url, MOST_IMAGE_BYTES, image_type, "models read PNG, JPEG, GIF and WebP")
        return self if right == self.url else replace(self, url=right)


@dataclass(frozen=True, slots=True)
class File:
    """A PDF, a recording or a text in a prompt or a tool's result: an `https:` or `data:` URL, and what it is called.

    `File.read` makes one of a file. Raises ValueError for what is no URL.
    """

    keeps_secrets: ClassVar[bool] = True  # an address with a secret is not shown at all

    url: str = field(repr=False)
    name: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.url, str) and re.match(SCHEME, self.url)):
            raise ValueError(
                f"A file is an https: or data: URL; for one on disk, File.read(path). Got {self.url!r:.99}."
            )
        name = "".join(filter(str.isprintable, self.name))[-_MOST_NAME_CHARS:]
        object.__setattr__(self, "name", name)

    def __str__(self) -> str:
        """What stands for the file in a text: `[report.pdf, application/pdf, 12 kB]`, or its address."""
        return f"[{', '.join(filter(None, (self.name, told_of(self.url))))}]"

    @classmethod
    def read(cls, source: str | PathLike[str] | bytes, name: str = "") -> File:
        """A file, or bytes, as a `data:` URL, its type told by its content; an office document's by its name, too.

        Raises OSError, or ValueError for what no model reads, a picture (`Image.read`), and more than 50 MB.
        """
        data, own_name = bytes_of(source)
        shown = repr(str(source)) if own_name else "What was given"
        media_type = file_type(data, name or own_name)
        if media_type is None:
            picture = "; a picture is read by Image.read" if image_type(data) else ""
            raise ValueError(f"{shown} is not a file that models read: {READ}{picture}")
        return cls(data_url(media_type, data), name or own_name)

    @property
    def media_type(self) -> str:
        """What kind of file it is, such as `application/pdf`; empty where only its address is known."""
        return media_type_of(self.url)

    @property
    def data(self) -> bytes | None:
        """What is in the file; None where only its address is known, or its data are none."""
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
    def sound(self) -> str:
        """The format of a recording, such as `wav`; empty for what is none."""
        kind, _, name = self.media_type.partition("/")
        return _FORMATS.get(name, name) if kind == "audio" else ""

    @property
    def file_name(self) -> str:
        """What it is called, or a name that says no more than its kind."""
        return self.name or f"file{ENDINGS.get(self.media_type, '')}"

    @property
    def words(self) -> str | None:
        """What a text says, with its name; None for any other file."""
        data = self.data if re.fullmatch(TEXTS, self.media_type) else None
        if data is None:
            return None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        return quoted_file(self.name, text)

    def checked(self) -> File:
        """The file as a provider takes it from a tool, its type told by its content.

        Raises ValueError, which says what is wrong: a provider would refuse the whole conversation for it.
        """
        right = checked_url(
            self.url, MOST_RETURNED_BYTES, lambda data: file_type(data, self.name), f"models read {READ}"
        )
        return self if right == self.url else replace(self, url=right)


def quoted_file(name: str, text: str) -> str:
    """The text of a file as it stands among other words."""
    called = f"the file {name}" if name else "a file"
    return f"[What follows is {called}.]\n{text.strip()}\n[Here ends {called}.]"


def worded(part: str | Image | File | PathLike[str]) -> str | Image | File:
    """A part of what is said: for a path what is in the file, for a file that is a text its words.

    Raises OSError, or ValueError for a file that no model reads.
    """
    if isinstance(part, PathLike):
        return part_of(part)
    words = part.words if isinstance(part, File) else None
    return part if words is None else words


def word_of(part: str | Image | File) -> str:
    """What stands for a part where there are only words: the text itself, else what it is; no data and no address."""
    if isinstance(part, str):
        return part
    return "[image]" if isinstance(part, Image) else f"[{' '.join(filter(None, ('file', part.name)))}]"


def images_in(parts: Iterable[object]) -> tuple[Image, ...]:
    """The pictures among the parts."""
    return tuple([part for part in parts if isinstance(part, Image)])


def files_in(parts: Iterable[object]) -> tuple[File, ...]:
    """The files among the parts."""
    return tuple([part for part in parts if isinstance(part, File)])


def part_of(source: str | PathLike[str] | bytes) -> str | Image | File:
    """What a file is in a prompt: an image, a PDF, a recording, or the words of a text. Raises OSError, ValueError."""
    data, name = bytes_of(source)
    return Image.read(data) if image_type(data) else worded(File.read(source if name else data))
