"""What stands in a document of Word? Headings, paragraphs, lists, tables and notes; not what was deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from agentkit.reading.office.archive import Archive, Event
from agentkit.reading.office.paragraphs import OpenXMLText

_HEADING = re.compile(r"heading (\d)")
_TOLD_TWICE = ("Fallback", "moveFrom")
"""What stands elsewhere as well: the same for old programs, and text where it was before it was moved."""

_DEEPEST, _LISTED = 6, -1


def paragraphs(archive: Archive) -> Iterator[str]:
    """The paragraphs and tables, then the notes below pages and behind the text."""
    levels = _levels(archive)
    for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
        yield from _Reader(levels).read(archive.events(name))


def _levels(archive: Archive) -> dict[str, int]:
    """The level of each style of headings, by its id, -1 of lists; names are English, whatever the ids are."""
    levels, style = dict[str, int](), ""
    for event in archive.events("word/styles.xml"):
        if event.kind == "start" and event.name == "style":
            style = event.get("styleId")
        elif event.kind == "start" and event.name == "name":
            name = event.get("val").lower()
            heading = _HEADING.fullmatch(name)
            if heading or name == "title":
                levels[style] = int(heading[1]) if heading else 1
            elif name.startswith("list"):
                levels[style] = _LISTED
    return levels


class _Reader(OpenXMLText):
    """Reads the events of one part."""

    breaks: ClassVar[Mapping[str, str]] = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__()
        self._levels = levels
        self._level, self._is_listed, self._left_out = 0, False, 0

    def read(self, events: Iterator[Event]) -> Iterator[str]:
        """The paragraphs and tables."""
        for event in events:
            if event.name in _TOLD_TWICE:
                self._left_out += 1 if event.kind == "start" else -1
            elif not self._left_out:
                yield from self.take(event)

    def begun(self, event: Event) -> None:
        """How the paragraph is to be told."""
        match event.name:
            case "p":
                self._level, self._is_listed = 0, False
            case "pStyle":
                self._level = self._levels.get(event.get("val"), 0)
                self._is_listed = self._level == _LISTED
            case "outlineLvl" if event.get("val").isdecimal() and int(event.get("val")) < _DEEPEST:
                self._level = int(event.get("val")) + 1
            case "numPr":
                self._is_listed = True

    def told(self, text: str) -> str:
        """A paragraph as a heading, as an entry of a list, or as it is."""
        if self._level > 0:
            return f"{'#' * min(self._level, _DEEPEST)} {' '.join(text.split())}"
        return f"- {text}" if self._is_listed else text
