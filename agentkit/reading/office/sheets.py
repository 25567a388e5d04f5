"""What stands in the sheets of Excel? A heading for each, and its rows as lines of CSV, with dates as dates."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from agentkit.reading.office.archive import Archive, Event

MAX_SHEET_CHARS = 20_000_000
"""How much of a sheet is told."""

_BOOK = "xl/workbook.xml"
_COLUMN = re.compile(r"[A-Z]{1,3}")
_NO_CELL = Event("start", "c")
_MOST_COLUMNS = 1_000
_DAYS_FROM = datetime(1899, 12, 30)
_BUILT_IN_DATES = frozenset({*range(14, 23), 45, 46, 47})
_LITERAL = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)


def paragraphs(archive: Archive) -> Iterator[str]:
    """The sheets, each with its name and its rows. A part that several sheets refer to is read once."""
    places, texts, dates = archive.related(_BOOK), _texts(archive), _dates(archive)
    for event in archive.events(_BOOK):
        if event.name == "sheet" and event.kind == "start":
            yield f"## {event.get('name')}"
            yield _csv(_rows(archive, places.get(event.get("id"), ""), texts, dates))


def _texts(archive: Archive) -> list[str]:
    """The texts that cells refer to; how they are pronounced is left out."""
    texts, pieces, is_text, is_left_out = list[str](), list[str](), False, False
    for event in archive.events("xl/sharedStrings.xml"):
        if event.name == "si" and event.kind == "end":
            texts.append("".join(pieces))
            pieces.clear()
        elif event.name == "rPh":
            is_left_out = event.kind == "start"
        elif event.name == "t":
            is_text = event.kind == "start"
        elif event.kind == "text" and is_text and not is_left_out:
            pieces.append(event.text)
    return texts


def _dates(archive: Archive) -> frozenset[int]:
    """The styles of cells that show a number as a date or a time."""
    own, styles, is_of_cells = set[str](), list[str](), False
    for event in archive.events("xl/styles.xml"):
        if event.name == "numFmt" and _DATE.search(_LITERAL.sub("", event.get("formatCode"))):
            own.add(event.get("numFmtId"))
        elif event.name == "cellXfs":
            is_of_cells = event.kind == "start"
        elif event.name == "xf" and event.kind == "start" and is_of_cells:
            styles.append(event.get("numFmtId"))
    built_in = set(map(str, _BUILT_IN_DATES))
    return frozenset(number for number, style in enumerate(styles) if style in own | built_in)


def _rows(archive: Archive, name: str, texts: Sequence[str], dates: frozenset[int]) -> Iterator[list[str]]:
    row, value, cell, column, is_value = list[str](), list[str](), _NO_CELL, 0, False
    for event in archive.events(name):
        if event.name == "row" and event.kind == "end":
            yield row
            row, column = [], 0
        elif event.name == "c" and event.kind == "start":
            cell, column = event, _column(event.get("r"), column)
        elif event.name in ("v", "t"):
            is_value = event.kind == "start"
        elif event.kind == "text" and is_value:
            value.append(event.text)
        elif event.name == "c":
            told = _told("".join(value), cell, texts, dates)
            row += [*[""] * (column - len(row)), told] if told else []
            column += 1
            value.clear()


def _column(place: str, following: int) -> int:
    """The number of a cell's column, from 0; cells may leave out where they are."""
    letters = _COLUMN.match(place)
    number = 0
    for letter in letters[0] if letters else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return min(max(number - 1 if letters else following, following), max(_MOST_COLUMNS, following))


def _told(value: str, cell: Event, texts: Sequence[str], dates: frozenset[int]) -> str:
    """A cell's value as a person reads it."""
    kind, style = cell.get("t"), cell.get("s") or "0"
    if kind == "s":
        return texts[int(value)] if value.isdecimal() and int(value) < len(texts) else ""
    if kind == "b":
        return "true" if value == "1" else "false"
    if kind in ("", "n") and value and style.isdecimal() and int(style) in dates:
        return _date(float(value)) or value
    return value


def _date(days: float) -> str:
    """A date, a time, or both, from a number of days; empty for what is none."""
    try:
        moment = _DAYS_FROM + timedelta(seconds=round(days * 86_400))
    except OverflowError:
        return ""
    if 0 <= days < 1:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M:%S}"


def _csv(rows: Iterator[list[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        room = MAX_SHEET_CHARS - out.tell()
        if room <= 0:
            break
        if row:
            ends = accumulate(len(cell) + 1 for cell in row)  # many cells may refer to one long text
            writer.writerow([cell[:room] for cell, end in zip(row, ends, strict=True) if end - len(cell) <= room])
    return out.getvalue().rstrip("\n")
