"""What stands in a text, a spreadsheet or slides of OpenDocument? Headings, paragraphs, tables, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from agentkit.reading.office.archive import Archive, Event
from agentkit.reading.office.paragraphs import Paragraphs

_MOST_REPEATED = 100
_DEEPEST = 6


def paragraphs(archive: Archive) -> Iterator[str]:
    """The paragraphs and tables; sheets and slides have headings."""
    yield from _Reader().read(archive.events("content.xml"))


class _Reader:
    """Reads the events of the content."""

    def __init__(self) -> None:
        self._built = Paragraphs()
        self._level, self._depth, self._slides, self._left_out = 0, 0, 0, 0
        self._is_sheet = False

    def read(self, events: Iterator[Event]) -> Iterator[str]:
        """The paragraphs and tables."""
        for event in events:
            if event.name in ("tracked-changes", "annotation", "automatic-styles"):
                self._left_out += 1 if event.kind == "start" else -1
            elif self._left_out:
                continue
            elif event.kind == "start":
                yield from self._start(event)
            elif event.kind == "text":
                self._built.add(event.text if self._depth else "")
            else:
                yield from self._end(event)

    def _start(self, event: Event) -> Iterator[str]:
        match event.name:
            case "spreadsheet":
                self._is_sheet = True
            case "page":
                self._slides += 1
                yield f"## Slide {self._slides}"
            case "table":
                yield from [f"## {event.get('name')}"] if self._is_sheet else []
                self._built.begin_table()
            case "table-row":
                self._built.begin_row()
            case "table-cell" | "covered-table-cell":
                self._cells(event)
            case "h" | "p":
                self._level = _level(event) if event.name == "h" else 0
                self._depth += 1
            case "s" | "tab" | "line-break":
                self._built.add({"tab": "\t", "line-break": "\n"}.get(event.name, " "))

    def _cells(self, event: Event) -> None:
        """Begin a cell; those that are told once and stand several times are empty, as a rule."""
        repeated = event.get("number-columns-repeated")
        self._built.begin_cells(min(int(repeated), _MOST_REPEATED) if repeated.isdecimal() else 1)

    def _end(self, event: Event) -> Iterator[str]:
        if event.name in ("h", "p"):
            self._depth -= 1
            yield from self._built.end(self._told)
        elif event.name == "table":
            yield from self._built.end_table()

    def _told(self, text: str) -> str:
        return f"{'#' * self._level} {' '.join(text.split())}" if self._level else text


def _level(event: Event) -> int:
    level = event.get("outline-level")
    return min(int(level), _DEEPEST) if level.isdecimal() and int(level) else 1
