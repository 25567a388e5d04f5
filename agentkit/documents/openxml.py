"""Text, tables and charts in the parts of Word and PowerPoint documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import ClassVar

from agentkit.documents.archive import Archive, Relationship, XMLEvent
from agentkit.documents.markdown import ParagraphBuilder, markdown_table, subscript, superscript

_MIN_HALF_POINTS = 2
_MAX_SPAN = 100
_INDEX_WRITERS = {"superscript": superscript, "subscript": subscript}
_FORMULA: Mapping[str, Callable[[str], str]] = {
    "num": lambda text: text if _is_factor(text) else f"({text})",
    "den": lambda text: f"/{text}" if _is_factor(text) else f"/({text})",
    "sup": superscript,
    "sub": subscript,
    "deg": lambda text: text if text.strip() in ("", "2") else f"{text}th ",
    "rad": lambda text: f"√{text}" if _is_factor(text) else f"√({text})",
}
"""The rendering of the parts of a formula."""


def _is_factor(text: str) -> bool:
    return re.fullmatch(r"\w*", text.strip()) is not None


class OpenXMLText:
    """Handles the events of a part that uses the elements of Word and PowerPoint for text, paragraphs and tables."""

    breaks: ClassVar[Mapping[str, str]] = {"br": "\n"}
    """The characters that an element represents."""

    def __init__(self, relationships: Mapping[str, Relationship] | None = None) -> None:
        self.charts: list[str] = []
        self.diagrams: list[str] = []
        self._relationships = relationships or {}
        self._builder = ParagraphBuilder()
        self._is_text = False
        self._index_text: list[str] = []
        self._position, self._pending_position = "", ""
        self._span = 1
        self._links: list[str] = []
        self._run_link = ""
        self._formula: list[list[str]] = []  # the texts of the parts of a formula that are open

    def handle(self, event: XMLEvent) -> Iterator[str]:
        """Handle an event; yield the paragraphs and tables that end with it."""
        if event.kind == "text":
            self._add(event.text if self._is_text else "")
        elif event.name == "t":
            self._is_text = event.kind == "start"
        elif event.kind == "start":
            self._begin(event)
        else:
            yield from self._end(event.name)

    def start_element(self, event: XMLEvent) -> None:
        """Handle the start of any other element."""

    def render(self, text: str) -> str:
        """Render a paragraph."""
        return text

    def _add(self, text: str) -> None:
        """Add text; that of neighbouring runs in the same raised or lowered position is written together."""
        if self._formula:
            self._formula[-1].append(text)
            return
        if not text:
            return
        if self._position != self._pending_position:
            self._flush()
            self._pending_position = self._position
        if self._position:
            self._index_text.append(text)
        else:
            self._builder.add(text)

    def _flush(self) -> None:
        if self._index_text:
            self._builder.add(_INDEX_WRITERS[self._pending_position]("".join(self._index_text)))
            self._index_text.clear()
        self._pending_position = ""

    def _begin(self, event: XMLEvent) -> None:
        if event.name in self.breaks:
            self._add(self.breaks[event.name])
        elif event.name in ("tbl", "tr", "tc", "gridSpan", "gridBefore"):
            self._begin_table(event)
        elif event.name in ("r", "fld", "vertAlign", "position", "rPr"):
            self._set_position(event)
        elif event.name in ("chart", "relIds", "hyperlink", "hlinkClick"):
            self._handle_reference(event)
        elif event.name == "oMath" or (self._formula and event.name in _FORMULA):
            self._formula.append([])
        else:
            self.start_element(event)

    def _set_position(self, event: XMLEvent) -> None:
        """Detect whether a run is raised or lowered."""
        baseline = event.get("baseline")
        if event.name == "vertAlign":
            self._position = event.get("val") if event.get("val") in _INDEX_WRITERS else ""
        elif event.name == "position":  # in half points; LibreOffice writes so the indices that it imports
            height = event.get("val")
            if height.lstrip("-").isdecimal() and abs(int(height)) >= _MIN_HALF_POINTS:
                self._position = "subscript" if height.startswith("-") else "superscript"
        elif event.name in ("r", "fld"):
            self._position = ""
        elif baseline.lstrip("-").isdecimal() and int(baseline):
            self._position = "subscript" if baseline.startswith("-") else "superscript"

    def _begin_table(self, event: XMLEvent) -> None:
        count = min(int(event.get("val")), _MAX_SPAN) if event.get("val").isdecimal() else 1
        match event.name:
            case "tbl":
                self._builder.begin_table()
            case "tr":
                self._builder.begin_row()
            case "tc":
                self._span = 1
                self._builder.begin_cells()
            case "gridSpan":
                self._span = count
            case _:
                self._builder.begin_cells(count)

    def _handle_reference(self, event: XMLEvent) -> None:
        """Begin a link, or note a chart or diagram."""
        found = self._relationships.get(event.get("id") or event.get("dm"))
        if event.name == "hyperlink":
            self._links.append(found.target if found is not None and found.is_external else "")
            self._add("[" if self._links[-1] else "")
        elif event.name == "hlinkClick":
            self._run_link = found.target if found is not None and found.is_external else ""
            self._add("[" if self._run_link else "")
        elif found is not None:
            (self.charts if event.name == "chart" else self.diagrams).append(found.target)

    def _end(self, name: str) -> Iterator[str]:
        match name:
            case "p":
                self._flush()
                yield from self._builder.end(self.render)
            case "tbl":
                yield from self._builder.end_table()
            case "tc" if self._span > 1:
                self._builder.begin_cells(self._span - 1)
                self._span = 1
            case "hyperlink":
                target = self._links.pop() if self._links else ""
                self._position = ""
                self._add(f"]({target})" if target else "")
            case "r" | "fld":
                self._position = ""
                self._add(f"]({self._run_link})" if self._run_link else "")
                self._run_link = ""
            case _ if self._formula and (name == "oMath" or name in _FORMULA):
                text = "".join(self._formula.pop())
                self._add(_FORMULA[name](text) if name in _FORMULA else text)


def related_paragraphs(archive: Archive, reader: OpenXMLText) -> Iterator[str]:
    """Yield the charts and diagrams that a part referred to."""
    for name in reader.charts:
        yield from chart_paragraphs(archive, name)
    for name in reader.diagrams:
        texts = OpenXMLText()
        for event in archive.events(name):
            yield from texts.handle(event)


_MAX_POINTS = 1_000
_NAMES = {"tx": "name", "cat": "categories", "xVal": "categories", "val": "values", "yVal": "values"}


def chart_paragraphs(archive: Archive, name: str) -> Iterator[str]:
    """Yield the title of a chart, and its series as a table."""
    reader = _ChartReader()
    for event in archive.events(name):
        reader.handle(event)
    title = " ".join("".join(reader.title).split())
    if reader.series or title:
        yield f"Chart: {title}" if title else "Chart"
    if reader.series:
        columns = [reader.series[0]["categories"], *(each["values"] for each in reader.series)]
        rows = zip_longest(*(column[:_MAX_POINTS] for column in columns), fillvalue="")
        yield markdown_table([["", *("".join(each["name"]) for each in reader.series)], *map(list, rows)])


class _ChartReader:
    """Collects the title and the series from the events of a chart."""

    def __init__(self) -> None:
        self.title: list[str] = []
        self.series: list[dict[str, list[str]]] = []
        self._part, self._is_series, self._is_title, self._is_text = "", False, False, False

    def handle(self, event: XMLEvent) -> None:
        """Handle an event."""
        is_start = event.kind == "start"
        if event.kind == "text":
            self._add(event.text)
        elif event.name == "ser":
            self._is_series = is_start
            if is_start:
                self.series.append({"name": [], "categories": [], "values": []})
        elif event.name in _NAMES and self._is_series:
            self._part = _NAMES[event.name] if is_start else ""
        elif event.name == "title":
            self._is_title = is_start and not self._is_series and not self.title
        elif event.name in ("v", "t"):
            self._is_text = is_start

    def _add(self, text: str) -> None:
        if self._is_text and self._is_series and self._part:
            self.series[-1][self._part].append(text)
        elif self._is_text and self._is_title:
            self.title.append(text)
