"""Charts of office documents as tables of their stored values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from agentkit.documents.archive import Archive, XMLEvent
from agentkit.documents.markdown import markdown_table

_MAX_POINTS = 1_000
_NAMES = {"tx": "name", "cat": "categories", "xVal": "categories", "val": "values", "yVal": "values"}


class _Series:
    """The name, categories and values of a series."""

    def __init__(self) -> None:
        self.parts: dict[str, list[str]] = {"name": [], "categories": [], "values": []}


def chart_paragraphs(archive: Archive, name: str) -> Iterator[str]:
    """Yield the title of a chart, and its series as a table."""
    reader = _ChartReader()
    for event in archive.events(name):
        reader.take(event)
    title = " ".join("".join(reader.title).split())
    if reader.series or title:
        yield f"Chart: {title}" if title else "Chart"
    if reader.series:
        yield markdown_table(list(_rows(reader.series)))


def _rows(series: list[_Series]) -> Iterator[list[str]]:
    yield ["", *("".join(each.parts["name"]) for each in series)]
    columns = [series[0].parts["categories"], *(each.parts["values"] for each in series)]
    for row in zip_longest(*(column[:_MAX_POINTS] for column in columns), fillvalue=""):
        yield list(row)


class _ChartReader:
    """Collects the title and the series from the events of a chart."""

    def __init__(self) -> None:
        self.title: list[str] = []
        self.series: list[_Series] = []
        self._part, self._is_series, self._is_title, self._is_text = "", False, False, False

    def take(self, event: XMLEvent) -> None:
        """Handle an event."""
        is_start = event.kind == "start"
        if event.kind == "text":
            self._add(event.text)
        elif event.name == "ser":
            self._is_series = is_start
            if is_start:
                self.series.append(_Series())
        elif event.name in _NAMES and self._is_series:
            self._part = _NAMES[event.name] if is_start else ""
        elif event.name == "title":
            self._is_title = is_start and not self._is_series and not self.title
        elif event.name in ("v", "t"):
            self._is_text = is_start

    def _add(self, text: str) -> None:
        if self._is_text and self._is_series and self._part:
            self.series[-1].parts[self._part].append(text)
        elif self._is_text and self._is_title:
            self.title.append(text)
