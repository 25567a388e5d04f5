"""Decoding of text in unknown encodings, and splitting of text and data files into lines."""

from __future__ import annotations

import codecs
import contextlib
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

from agentkit._dataclass import dataclass
from agentkit.errors import ToolError

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NO_MARK = "It has no byte order mark; it was read as {}."
_SEVEN_BITS = ((b"\x1b$)C", "iso2022_kr"), (b"\x1b$", "iso2022_jp_2"))


class _LazyPattern:
    """Compiles a regular expression on first use, and is as quick as the compiled one from then on."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        for each in ("search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn", "flags", "groups"):
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled on first use.

    For those that few programs need: all of them together took an eighth of the time of `from agentkit import Agent`.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NOT_ASCII_LINE = re.compile(rb"[^\n]{0,2000}[\x80-\xff][^\n]{0,2000}")
_WELL_FORMED = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|\xe0[\xa0-\xbf][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf4][\x80-\xbf]{3}"
)
_SAMPLE_BYTES, _DETECTED_BYTES = 8_000, 64_000
_MAX_CONTROL_SHARE, _MIN_ASCII_SHARE, _FEW_BYTES = 0.02, 0.95, 16
_MIN_CONFIDENCE = 0.5
_SUPERSETS = {"shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030", "iso8859-1": "cp1252"}
"""Encodings are decoded by the superset that programs write under their names."""

_RARE = frozenset({"ascii", "utf-8", "iso8859-4", "iso8859-10", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16"})
_MIN_LETTERS = 3
"""With fewer different letters, an encoding without a known language is Western European."""

_HUNGARIAN_ONLY = frozenset(b"\xd5\xdb\xf5\xfb")
_HUNGARIAN = frozenset("ÁÉÍÓÖŐÚÜŰáéíóöőúüű".encode("cp1250") + b"\x84\x93\x94\x96\x97\xa0\xbb\xab")
"""The letters and quotes of Hungarian in cp1250, which detection takes for cp1252."""

_CZECH_ONLY, _CZECH_ACUTES = frozenset("ěňĚŇ".encode("cp1250")), frozenset("áíýÁÍÝ".encode("cp1250"))
_NOT_CZECH = frozenset("àåæð".encode("cp1252"))
"""Letters of Czech and Slovak, which no language written in cp1252 combines with acute accents."""

_UNMARKED = lazy_pattern("[\u2010-\u2026\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef]{4,}")
_UNMARKED_SIGN = re.compile("[\u3000-\u30ff\uff00-\uffef]")
"""Chinese and Japanese in UTF-16, which has no zeros without spaces, digits and line breaks; punctuation and kana."""

_PRINTABLE = frozenset("LMNPSZ")


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A decoded text.

    `encoding` is the codec's name, `mark` the byte order mark before the text. `note` states damage, and how certain a
    detected encoding is; it is empty for valid Unicode.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    note: str = ""

    def encode(self, text: str) -> bytes:
        """Encode another text in the same way. Raises ToolError if the encoding lacks a character."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        try:
            return self.mark + text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise ToolError(f"The file is encoded as {self.encoding}, which has no {character!r}.") from None


Errors = Literal["replace", "surrogateescape"]


def decode_text(content: bytes, *, is_cut: bool = False, errors: Errors = "replace") -> DecodedText | None:
    """Decode bytes by byte order mark, as UTF-8, as UTF-16, or by detection; None for binary content.

    `is_cut` states that the bytes are only the beginning of a file, which can end within a character. `errors` is how
    invalid UTF-8 is decoded: `surrogateescape` encodes to the same bytes again.
    """
    mark, encoding = next((pair for pair in BYTE_ORDER_MARKS if content.startswith(pair[0])), (b"", ""))
    if mark:
        return _decode_marked(content, (mark, encoding), is_cut=is_cut, errors=errors)
    if b"\0" in content:
        return _decode_utf16(content, is_cut=is_cut)
    try:
        text = codecs.utf_8_decode(content, "strict", not is_cut)[0]
    except UnicodeDecodeError:
        return _decode_legacy(content, errors)
    for sign, encoding in _SEVEN_BITS:  # Japanese and Korean, which switch between character sets by escape sequences
        if sign in content:
            with contextlib.suppress(UnicodeDecodeError):
                return DecodedText(content.decode(encoding), encoding)
    return DecodedText(text)


def _decode_marked(content: bytes, marked: tuple[bytes, str], *, is_cut: bool, errors: Errors) -> DecodedText | None:
    """Decode a text with a byte order mark; None if nothing of it is text."""
    mark, encoding = marked
    body = content[len(mark) :]
    unit = {"utf-8": 1, "utf-16-le": 2, "utf-16-be": 2}.get(encoding, 4)
    body = body[: len(body) // unit * unit] if is_cut else body
    shown = body.decode(encoding, "replace")
    lost = shown.count("\ufffd") - body.decode(encoding, "ignore").count("\ufffd")
    if lost and not shown.strip("\ufffd"):
        return None
    verb = "character is" if lost == 1 else "characters are"
    note = (
        f"It is not valid {encoding.upper()}: {lost:,} damaged {verb} shown as \ufffd." if lost and not is_cut else ""
    )
    return DecodedText(body.decode(encoding, errors) if encoding == "utf-8" else shown, encoding, mark, note)


def _decode_legacy(content: bytes, errors: Errors) -> DecodedText | None:
    """Decode damaged UTF-8, or text in a legacy encoding, in which few sequences are UTF-8 by chance.

    Returns None for binary content.
    """
    for encoding in ("utf-16-le", "utf-16-be") if len(content) % 2 == 0 else ():
        text = content.decode(encoding, "replace")
        if _UNMARKED.fullmatch(text) and _UNMARKED_SIGN.search(text):
            return DecodedText(text, encoding, note=_NO_MARK.format(encoding))
    controls = len(_CONTROLS.findall(content[:_SAMPLE_BYTES]))
    if controls > _MAX_CONTROL_SHARE * min(len(content), _SAMPLE_BYTES):
        return None
    rest, good = _WELL_FORMED.subn(b"", content)
    if good < max(sum(byte >= 0x80 for byte in rest[:_DETECTED_BYTES]), 1):
        return _decode_detected(content)
    shown = content.decode("utf-8", "replace")
    count = shown.count("\ufffd") - content.count(b"\xef\xbf\xbd")
    line = content.decode("utf-8", "surrogateescape")
    first = next((number for number, char in enumerate(line) if "\udc80" <= char <= "\udcff"), 0)
    where = f"line {line.count(chr(10), 0, first) + 1:,}"
    verb = "character is" if count == 1 else "characters are"
    note = f"It is not valid UTF-8: {count:,} damaged {verb} shown as \ufffd, the first in {where}."
    return DecodedText(shown if errors == "replace" else line, note=note)


def _decode_detected(content: bytes) -> DecodedText:
    """Decode text in a legacy encoding, found by the frequencies of its characters."""
    name, language, confidence = _detect(content)
    try:
        text = content.decode(name)
    except UnicodeDecodeError:
        if name == "cp1252":
            name = "latin-1"
        text = content.decode(name, "replace")
    found = f"{name} ({language})" if language else name
    doubt = "" if confidence >= _MIN_CONFIDENCE else "; some characters may be wrong"
    note = f"It is not UTF-8; the encoding was detected as {found} with a confidence of {confidence:.0%}{doubt}."
    return DecodedText(text, name, note=note)


def _detect(content: bytes) -> tuple[str, str, float]:
    """The codec, the language or an empty string, and the confidence."""
    from turbohtml.detect import detect

    lines = b"\n".join(_NOT_ASCII_LINE.findall(content[: 10 * _DETECTED_BYTES])) or content
    sample = lines[:_DETECTED_BYTES]
    found = detect(sample)
    try:
        codec = codecs.lookup((found.encoding or "").lower().replace("windows-", "cp")).name
    except LookupError:
        codec = ""
    name = _SUPERSETS.get(codec, codec)
    letters = {byte for byte in sample if byte >= 0x80}
    if name == "cp1252" and letters & _HUNGARIAN_ONLY and letters <= _HUNGARIAN:
        return "cp1250", "Hungarian", found.confidence
    if name == "cp1252" and letters & _CZECH_ONLY and letters & _CZECH_ACUTES and not letters & _NOT_CZECH:
        return "cp1250", "Czech", found.confidence
    is_guess = not found.language and found.confidence <= _MIN_CONFIDENCE
    if not name or (is_guess and (name in _RARE or len(letters) < _MIN_LETTERS)):
        return "cp1252", "", found.confidence
    return name, found.language or "", found.confidence


def _decode_utf16(content: bytes, *, is_cut: bool) -> DecodedText | None:
    """Decode UTF-16 without a mark: its zeros are all on one side, and its characters are printable."""
    has_half = len(content) % 2 == 1 and not is_cut
    sample = content[:_SAMPLE_BYTES]
    printable = sum(32 <= byte < 127 or byte in b"\n\r\t" for byte in sample)
    is_ascii = printable > _MIN_ASCII_SHARE * (len(sample) - sample.count(0)) and sample.count(0) < len(sample) / 4
    if is_ascii or (has_half and len(content) < _FEW_BYTES):  # in UTF-16, half of the bytes of such text are zeros
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    encoding = "utf-16-be" if even > odd else "utf-16-le"
    if min(even, odd) > 0.05 * max(even, odd):
        return None
    text = content[: len(content) // 2 * 2].decode(encoding, "replace")
    shown = text[: _SAMPLE_BYTES // 2]
    odd_characters = sum(unicodedata.category(char)[0] not in _PRINTABLE and char not in "\n\r\t\f" for char in shown)
    if odd_characters > _MAX_CONTROL_SHARE * len(shown) or _CONTROLS.search(shown.encode("utf-8", "replace")):
        return None
    note = _NO_MARK.format(encoding) + (" Its last character is cut off." if has_half else "")
    return DecodedText(text, encoding, note=note)


def split_lines(text: str, *, keepends: bool = False) -> list[str]:
    r"""Split a text at `\n` and `\r\n` only.

    `str.splitlines` also splits at U+2028, U+0085, form feeds and seven other characters. Editors display those within
    a line, so untrusted text could hide a second line in what a person reads as one.
    """
    *whole, last = text.split("\n")
    lines = [f"{line}\n" for line in whole] if keepends else [line.removesuffix("\r") for line in whole]
    return [*lines, last] if last else lines


def as_sentence(text: str) -> str:
    """A text as a sentence, with a full stop if it does not end with punctuation, so that another can follow."""
    text = text.rstrip()
    return text if not text or text[-1] in ".!?…:;)\"'" else f"{text}."


def read_table(path: Path) -> Iterator[list[str]]:
    """The rows of a data file, split at two or more spaces; blank lines and comments (#) are left out."""
    for line in split_lines(path.read_text("utf-8")):
        if line and not line.startswith("#"):
            yield [cell.strip() for cell in line.split("  ") if cell]
