"""Rich Text Format as Markdown: paragraphs, headings, lists, tables, footnotes, superscripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace

from agentkit._dataclass import dataclass
from agentkit.documents.markdown import markdown_table, subscript, superscript

_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?[0-9]{1,10})? ?|\\'([0-9a-f]{2})|\\(.)|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.DOTALL | re.IGNORECASE,
)
_SKIPPED = frozenset(
    (
        *("fonttbl", "colortbl", "info", "pict", "themedata", "colorschememapping", "datastore", "latentstyles"),
        *("listtable", "listoverridetable", "rsidtbl", "generator", "xmlnstbl", "object", "fldinst", "filetbl"),
        *("pgdsctbl", "revtbl", "mmathPr", "nonshppict", "bkmkstart", "bkmkend", "listpicture", "shppict"),
    )
)
_CHARS = {
    "mden": "/",
    "msup": "^",
    "msub": "_",
    **dict.fromkeys(("par", "sect", "page", "line"), "\n"),
    **dict.fromkeys(("emspace", "enspace"), " "),
    **dict(zip(("lquote", "rquote", "ldblquote", "rdblquote"), "\u2018\u2019\u201c\u201d", strict=True)),
    **dict(zip(("tab", "emdash", "endash", "bullet"), "\t\u2014\u2013\u2022", strict=True)),
}
_SYMBOLS = {b"~": "\u00a0", b"_": "-", b"-": "", b"\\": "\\", b"{": "{", b"}": "}", b"\n": "\n", b"\r": "\n"}
_CHARSETS = dict(
    re.findall(
        r"(\d+)=(\w+)",
        "0=cp1252 128=cp932 129=cp949 134=gb18030 136=big5 161=cp1253 162=cp1254 163=cp1258 177=cp1255 178=cp1256"
        " 186=cp1257 204=cp1251 222=cp874 238=cp1250",
    )
)
"""The codecs of fonts by the number of their character set."""

_DESTINATIONS = {
    "stylesheet": ("styles", True),
    "moMath": ("", False),  # a formula, in a group that older programs skip
    "annotation": ("note", False),
    **dict.fromkeys(("listtext", "pntext"), ("label", False)),
    **dict.fromkeys(
        ("footnote", "header", "footer", "headerl", "headerr", "headerf", "footerl", "footerr", "footerf"),
        ("note", False),
    ),
}
"""The destination of a group that begins with a word, and whether its text is skipped."""

_HEADING_STYLE = re.compile(r"(?:Title|heading ([1-6]));", re.IGNORECASE)
_POSITIONS = {"super": "super", "up": "super", "sub": "sub", "dn": "sub"}
_FIELD_ONLY = re.compile(r"(?:(?:Header|Footer): ?)?[0-9\s]*")
"""Notes, headers and footers that contain a page number and nothing else."""

_TYPED_LABEL = re.compile(r"(\(?[0-9a-zA-Z]{1,4}[.)]|[\u2022\u00b7-])\t+")
_MAX_DEPTH, _MAX_CHARS, _MAX_HEADING = 1_000, 20_000_000, 6
_BULLETS = frozenset("\u2022\u00b7\uf0b7\uf0a7-o*\u25cf\u25aa")


@dataclass(slots=True)
class _GroupState:
    """The state of a group."""

    is_skipped: bool = False
    position: str = ""
    charset: str = ""
    destination: str = ""
    skip: int = 1


@dataclass(slots=True)
class _Paragraph:
    """A paragraph or cell that is being read."""

    pieces: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    level: int = 0


def rtf_text(body: bytes) -> str:
    """Convert the document to Markdown; damaged parts are skipped."""
    return "\n\n".join(paragraph for paragraph in _RTFReader().read(body) if paragraph.strip())[:_MAX_CHARS]


class _RTFReader:
    """Reads the tokens of a document."""

    def __init__(self) -> None:
        self._states = [_GroupState()]
        self._charset, self._charsets = "cp1252", dict[int, str]()
        self._paragraph = _Paragraph()
        self._bytes, self._chars_to_skip = bytearray(), 0
        self._index_text: list[str] = []
        self._index_position = ""
        self._row: list[str] = []
        self._cell: list[str] = []
        self._is_in_table = False
        self._rows: list[list[str]] = []
        self._levels: dict[int, int] = {}
        self._style, self._font = 0, 0
        self._notes: list[str] = []

    def read(self, body: bytes) -> Iterator[str]:
        """Yield the paragraphs and tables, then the notes."""
        for token in _TOKEN.finditer(body):
            word, number, hexadecimal, symbol, brace, text = token.groups()
            if hexadecimal is not None and not self._chars_to_skip:
                self._bytes.append(int(hexadecimal, 16))
            elif hexadecimal is not None:
                self._chars_to_skip -= 1
            else:
                self._decode_bytes()
            if word is not None:
                yield from self._handle_word(word.decode(), int(number) if number else None)
            elif brace is not None or symbol is not None:
                self._handle_symbol(brace, symbol)
            elif text is not None:
                skipped = min(self._chars_to_skip, len(text))
                self._chars_to_skip -= skipped
                self._add(text[skipped:].decode("cp1252", "replace"))
        yield from self._end_paragraph()
        yield from self._end_table()
        yield from dict.fromkeys(note for note in self._notes if not _FIELD_ONLY.fullmatch(note))

    @property
    def _state(self) -> _GroupState:
        return self._states[-1]

    def _handle_symbol(self, brace: bytes | None, symbol: bytes | None) -> None:
        if symbol is not None:
            self._state.is_skipped = self._state.is_skipped or symbol == b"*"
            self._add(_SYMBOLS.get(symbol, ""))
        elif brace == b"{":
            self._states.append(replace(self._state) if len(self._states) < _MAX_DEPTH else self._state)
        elif len(self._states) > 1:
            closed = self._states.pop()
            if closed.destination == "note" and self._state.destination != "note":
                self._notes[-1] = self._notes[-1].strip()

    def _handle_word(self, word: str, number: int | None) -> Iterator[str]:
        state = self._state
        if word in _SKIPPED or (word == "deleted" and number != 0):
            state.is_skipped = True
            state.destination = "fonts" if word == "fonttbl" else state.destination
        elif word in _DESTINATIONS:
            state.destination, state.is_skipped = _DESTINATIONS[word]
            if state.destination == "note":
                name = "Comment" if word == "annotation" else word[:6].capitalize()
                self._notes.append("" if word == "footnote" else f"{name}: ")
        elif word in ("s", "f", "fcharset", "outlinelevel") and number is not None:
            self._set_number(word, number)
        elif word in ("u", "uc", "ansicpg", "bin") and number is not None:
            self._handle_encoding(word, number)
        elif not state.is_skipped:
            yield from self._handle_formatting(word, number)

    def _set_number(self, word: str, number: int) -> None:
        state = self._state
        if word == "fcharset":
            self._charsets[self._font] = _CHARSETS.get(str(number), self._charset)
        elif word == "f":
            self._font = number
            state.charset = self._charsets.get(number, "") if state.destination != "fonts" else ""
        elif word == "s":
            self._style = number
            if state.destination != "styles":
                self._paragraph.level = self._levels.get(number, 0)
        elif state.destination == "styles":
            self._levels[self._style] = number + 1 if number < _MAX_HEADING else 0
        else:
            self._paragraph.level = number + 1 if number < _MAX_HEADING else 0

    def _handle_encoding(self, word: str, number: int) -> None:
        if word == "ansicpg":
            self._charset = f"cp{number}" if number != 10000 else "mac-roman"
        elif word == "uc":
            self._state.skip = max(number, 0)
        elif word == "u":
            code = number + 65_536 if number < 0 else number  # halves of pairs are joined later
            self._add(chr(code) if code <= 0x10FFFF else "")
            self._chars_to_skip = self._state.skip

    def _handle_formatting(self, word: str, number: int | None) -> Iterator[str]:
        match word:
            case "super" | "sub" | "up" | "dn" | "nosupersub" | "plain":
                self._state.position = _POSITIONS.get(word, "") if number != 0 else ""
            case "pard" if self._state.destination != "label":
                self._paragraph.level, self._is_in_table = 0, False
            case "intbl":
                self._is_in_table = True
            case "cell" | "nestcell":
                self._row.append(" ".join(" ".join([*self._cell, self._text()]).split()))
                self._cell.clear()
            case "row" | "nestrow":
                self._rows.append(self._row)
                self._row = []
            case "par" | "sect" | "page" if self._state.destination != "note":
                yield from self._end_paragraph()
            case _:
                self._add(_CHARS.get(word, ""))

    def _decode_bytes(self) -> None:
        if self._bytes:
            data = bytes(self._bytes)
            self._bytes.clear()
            try:
                text = data.decode(self._state.charset or self._charset, "replace")
            except LookupError:
                text = data.decode("cp1252", "replace")
            self._add(text)

    def _add(self, text: str) -> None:
        state = self._state
        if state.destination == "styles" and (named := _HEADING_STYLE.match(text)):
            self._levels[self._style] = int(named[1] or 1)
        if state.is_skipped or not text:
            return
        if state.destination == "note":
            self._notes[-1] += text
        elif state.destination == "label":
            self._paragraph.label.append(text)
        elif state.position:
            self._index_text.append(text)
            self._index_position = state.position
        else:
            self._flush()
            self._paragraph.pieces.append(text)

    def _flush(self) -> None:
        if self._index_text:
            write = superscript if self._index_position == "super" else subscript
            self._paragraph.pieces.append(write("".join(self._index_text)))
            self._index_text.clear()

    def _text(self) -> str:
        """The text of the paragraph that ends, with its label."""
        self._flush()
        text = "".join(self._paragraph.pieces).strip()
        label = "".join(self._paragraph.label).strip()
        if not label and (typed_label := _TYPED_LABEL.match(text)):
            label, text = typed_label[1], text[typed_label.end() :]
        level = self._paragraph.level
        self._paragraph = _Paragraph(level=level)
        if not text:
            return ""
        if level:
            return f"{'#' * level} {' '.join(text.split())}"
        return f"{'-' if label in _BULLETS else label} {text}" if label else text

    def _end_paragraph(self) -> Iterator[str]:
        text = self._text()
        if text and self._is_in_table:
            self._cell.append(text)
        elif text:
            yield from self._end_table()
            yield text

    def _end_table(self) -> Iterator[str]:
        rows = [row for row in self._rows if any(row)]
        self._rows = []
        if rows:
            yield markdown_table(rows)
