"""Word documents as Markdown: headings, numbered lists, tables, notes, comments, headers and footers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from agentkit.documents.archive import Archive, Relationship, XMLEvent
from agentkit.documents.openxml import OpenXMLText, related_paragraphs

_DOCUMENT = "word/document.xml"
_HEADING = re.compile(r"heading (\d)")
_DUPLICATES = ("Fallback", "moveFrom")
"""Duplicate content: the fallback for old programs, and moved text at its former position."""

_MAX_HEADING_LEVEL, _MAX_LIST_DEPTH = 6, 9
_LABELS = {"footnotes": "", "endnotes": "", "comments": "Comment: ", "header": "Header: ", "footer": "Footer: "}
_LEVEL_PLACEHOLDER = re.compile(r"%([1-9])")


class _Style(NamedTuple):
    """The heading level of a style, whether it is one of lists, its numbering, and the style it is based on."""

    level: int = 0
    is_listed: bool = False
    numbering: tuple[str, int] | None = None
    base: str = ""


class _Level(NamedTuple):
    """A level of a numbering: its format, the text of its labels, and the first number."""

    format: str = "decimal"
    text: str = ""
    start: int = 1


def word_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the paragraphs and tables, then footnotes, endnotes, comments, headers and footers."""
    related = archive.relationships(_DOCUMENT)
    context = _WordContext(_styles(archive), _Numbering(archive))
    yield from _part(archive, _DOCUMENT, related, context, "")
    seen = set[str]()
    for kind, label in _LABELS.items():
        names = [each.target for each in related.values() if each.kind == kind] or [f"word/{kind}.xml"]
        for name in names:
            for paragraph in _part(archive, name, {}, context, label):
                if not label or paragraph not in seen:
                    seen.add(paragraph)
                    yield paragraph


class _WordContext(NamedTuple):
    styles: Mapping[str, _Style]
    numbering: _Numbering


def _part(
    archive: Archive, name: str, related: Mapping[str, Relationship], context: _WordContext, label: str
) -> Iterator[str]:
    reader = _WordReader(context, related)
    for paragraph in reader.read(archive.events(name)):
        yield f"{label}{paragraph}"
    yield from related_paragraphs(archive, reader)


def _styles(archive: Archive) -> dict[str, _Style]:
    """The styles by id; their names are English in all languages."""
    styles, name = dict[str, _Style](), ""
    for event in archive.events("word/styles.xml"):
        if event.kind != "start":
            continue
        value = event.get("val")
        style = styles.get(name, _Style())
        match event.name:
            case "style":
                name = event.get("styleId")
                styles[name] = _Style()
            case "name" if name:
                styles[name] = _with_name(value.lower(), style)
            case "basedOn" if name:
                styles[name] = style._replace(base=value)
            case "numId" if name:
                styles[name] = style._replace(numbering=(value, (style.numbering or ("", 0))[1]))
            case "ilvl" if name and value.isdecimal():
                styles[name] = style._replace(numbering=((style.numbering or ("", 0))[0], int(value)))
    return {key: _with_inherited_numbering(styles, key) for key in styles}


def _with_name(name: str, style: _Style) -> _Style:
    heading = _HEADING.fullmatch(name)
    if heading or name == "title":
        return style._replace(level=int(heading[1]) if heading else 1)
    return style._replace(is_listed=name.startswith("list"))


def _with_inherited_numbering(styles: Mapping[str, _Style], name: str) -> _Style:
    """A style with the numbering of the style that it is based on."""
    style = styles[name]
    numbering, base = style.numbering, style.base
    for _ in range(_MAX_LIST_DEPTH):
        if numbering is not None or base not in styles:
            break
        numbering, base = styles[base].numbering, styles[base].base
    return style._replace(numbering=numbering)


class _Numbering:
    """The numberings of a document, and how far each has counted."""

    def __init__(self, archive: Archive) -> None:
        self._levels: dict[str, dict[int, _Level]] = {}
        self._abstract: dict[str, str] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._position = ("", "", 0)
        for event in archive.events("word/numbering.xml"):
            if event.kind == "start":
                self._read(event)

    def label(self, numbering: tuple[str, int]) -> str:
        """Count a paragraph, and return its label; a hyphen for bullets, empty without a label."""
        number, depth = numbering
        depth = min(depth, _MAX_LIST_DEPTH)
        abstract = self._abstract.get(number, "")
        levels = self._levels.get(abstract, {})
        level = levels.get(depth, _Level("bullet"))
        counts = self._counts.setdefault(abstract, {})
        if (number, depth) in self._starts:
            counts[depth] = self._starts.pop((number, depth)) - 1
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in [each for each in counts if each > depth]:
            del counts[deeper]
        if level.format in ("bullet", "none"):
            return "-" if level.format == "bullet" else ""

        def written(found: re.Match[str]) -> str:
            place = int(found[1]) - 1
            above = levels.get(place, _Level())
            return number_text(counts.get(place, above.start), above.format)

        return _LEVEL_PLACEHOLDER.sub(written, level.text) or number_text(counts[depth], level.format) + "."

    def _read(self, event: XMLEvent) -> None:
        abstract, number, depth = self._position
        value = event.get("val")
        match event.name:
            case "abstractNum":
                self._position = (event.get("abstractNumId"), "", 0)
                self._levels[self._position[0]] = {}
            case "num":
                self._position = ("", event.get("numId"), 0)
            case "abstractNumId" if number:
                self._abstract[number] = value
            case "lvl" | "lvlOverride" if event.get("ilvl").isdecimal():
                self._position = (abstract, number, int(event.get("ilvl")))
            case "startOverride" if number and value.isdecimal():
                self._starts[number, depth] = int(value)
            case "numFmt" | "lvlText" | "start" if abstract:
                self._levels[abstract][depth] = _with_value(
                    self._levels[abstract].get(depth, _Level()), event.name, value
                )


def _with_value(level: _Level, name: str, value: str) -> _Level:
    if name == "numFmt":
        return level._replace(format=value)
    if name == "lvlText":
        return level._replace(text=value)
    return level._replace(start=int(value)) if value.isdecimal() else level


_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"))
_SMALL_ROMAN = ((9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


def number_text(number: int, style: str) -> str:
    """A number as letters or Roman numerals if the style says so, else in digits."""
    if style in ("lowerLetter", "upperLetter") and 1 <= number <= 26 * 26:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif style in ("lowerRoman", "upperRoman") and 1 <= number < 4_000:
        text, rest = "", number
        for value, letters in (*_ROMAN, *_SMALL_ROMAN):
            text += letters * (rest // value)
            rest %= value
    else:
        text = f"{number:02}" if style == "decimalZero" else str(number)
    return text.upper() if style.startswith("upper") else text


_SYMBOLS: Mapping[str, Mapping[int, str]] = {
    "wingdings": dict(zip(b"\xfc\xfb\xfe\xfd\xa8\x6f\xe0\xdf", "✓✗☑☒☐☐→←", strict=True)),
    "symbol": {
        **dict(zip(range(0x41, 0x5B), "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True)),
        **dict(zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True)),
        **dict(zip(b"\xa3\xb3\xb1\xb9\xbb\xa5\xb4\xb8\xae\xb0\xb7", "≤≥±≠≈∞\u00d7÷→°•", strict=True)),
    },
}
"""Characters of the fonts in which Word writes symbols."""


def symbol(font: str, char: str) -> str:
    """The character for a symbol of a font, given in hexadecimal; empty if it is not known."""
    code = int(char, 16) & 0xFF if re.fullmatch("[0-9A-Fa-f]{1,4}", char) else 0
    return _SYMBOLS.get(font.lower().rstrip(" 23"), {}).get(code, "")


class _WordReader(OpenXMLText):
    """Reads the events of one part."""

    breaks: ClassVar[Mapping[str, str]] = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}

    def __init__(self, context: _WordContext, relationships: Mapping[str, Relationship]) -> None:
        super().__init__(relationships)
        self._context = context
        self._style, self._level = _Style(), 0
        self._numbering: tuple[str, int] | None = None
        self._skipped_depth = 0

    def read(self, events: Iterator[XMLEvent]) -> Iterator[str]:
        """Yield the paragraphs and tables."""
        for event in events:
            if event.name in _DUPLICATES:
                self._skipped_depth += 1 if event.kind == "start" else -1
            elif not self._skipped_depth:
                yield from self.handle(event)

    def start_element(self, event: XMLEvent) -> None:
        """Detect the style and the numbering of the paragraph, and write symbols."""
        value = event.get("val")
        match event.name:
            case "sym":
                self._add(symbol(event.get("font"), event.get("char")))
            case "p":
                self._style, self._level, self._numbering = _Style(), 0, None
            case "pStyle":
                self._style = self._context.styles.get(value, _Style())
                self._level, self._numbering = self._style.level, self._numbering or self._style.numbering
            case "outlineLvl" if value.isdecimal() and int(value) < _MAX_HEADING_LEVEL:
                self._level = int(value) + 1
            case "numPr":
                self._numbering = self._numbering or ("", 0)
            case "ilvl" if value.isdecimal():
                self._numbering = ((self._numbering or ("", 0))[0], int(value))
            case "numId":
                self._numbering = (value, (self._numbering or ("", 0))[1])

    def render(self, text: str) -> str:
        """Render a paragraph as a heading, a list item, or plain text."""
        is_numbered = self._numbering is not None and self._numbering[0] != "0"
        label = self._context.numbering.label(self._numbering) if is_numbered and self._numbering else ""
        if self._level > 0:
            words = " ".join(filter(None, (label.strip("-"), *text.split())))
            return f"{'#' * min(self._level, _MAX_HEADING_LEVEL)} {words}"
        if not label:
            return f"- {text}" if self._style.is_listed and not is_numbered else text
        depth = min(self._numbering[1] if self._numbering else 0, _MAX_LIST_DEPTH)
        return f"{'   ' * depth}{label} {text}"
