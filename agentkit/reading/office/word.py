"""What stands in a document of Word? Headings, paragraphs, lists, tables and notes; not what was deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentkit.reading.office.archive import Archive, Event, Paragraphs

_HEADING = re.compile(r"heading (\d)")
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
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


class _Reader:
    """Reads the events of one part."""

    def __init__(self, levels: dict[str, int]) -> None:
        self._levels, self._built = levels, Paragraphs()
        self._level, self._is_listed, self._is_text, self._left_out = 0, False, False, 0

    def read(self, events: Iterator[Event]) -> Iterator[str]:
        """The paragraphs and tables."""
        for event in events:
            if event.name in _TOLD_TWICE:
                self._left_out += 1 if event.kind == "start" else -1
            elif not self._left_out:
                yield from self._taken(event)

    def _taken(self, event: Event) -> Iterator[str]:
        if event.kind == "text":
            self._built.add(event.text if self._is_text else "")
        elif event.name == "t":
            self._is_text = event.kind == "start"
        elif event.kind == "start":
            self._start(event)
        elif event.name == "p":
            yield from self._built.end(self._told)
        elif event.name == "tbl":
            yield from self._built.end_table()

    def _start(self, event: Event) -> None:
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
            case _:
                self._built.add(_BREAKS.get(event.name, ""))
                self._built.begin(event.name)

    def _told(self, text: str) -> str:
        if self._level > 0:
            return f"{'#' * min(self._level, _DEEPEST)} {' '.join(text.split())}"
        return f"- {text}" if self._is_listed else text
