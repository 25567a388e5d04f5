"""How do paragraphs and tables come of what stands in a document? As Markdown, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from agentkit.errors import ToolError
from agentkit.reading.office.archive import TOO_LARGE, Event

_MOST_CELLS, _DEEPEST_TABLE, _MOST_FILLED_CELLS = 2_000_000, 20, 1_000_000


def _table(rows: list[list[str]]) -> str:
    """Rows as a table of Markdown; the first is its head. Short rows are filled up, if that is no great deal."""
    width = max(map(len, rows))
    filled = width if width * len(rows) <= _MOST_FILLED_CELLS else 0
    lines = ["| " + " | ".join([*map(_in_cell, row), *[""] * (filled - len(row))]) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


class _Row:
    """A row being read. An empty cell is a number until one with text follows: a few bytes can stand for thousands."""

    def __init__(self) -> None:
        self.cells: list[list[str]] = []  # the paragraphs of each
        self.begun = 0


class Paragraphs:
    """Builds paragraphs and tables: what a cell holds is told in its row, a table within one as its words."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._tables: list[list[_Row]] = []
        self._too_deep, self._cells_left = 0, _MOST_CELLS

    def add(self, text: str) -> None:
        """Add to the paragraph."""
        if text:
            self._text.append(text)

    def end(self, told: Callable[[str], str]) -> Iterator[str]:
        """End a paragraph, which is told so; within a table it belongs to its cell. Raises ToolError as `_fill`."""
        text = "".join(self._text).strip()
        self._text.clear()
        if text and self._tables and self._tables[-1] and self._tables[-1][-1].begun:
            row = self._tables[-1][-1]
            self._fill(row)
            row.cells[-1].append(text)
        elif text:
            yield told(text)

    def begin_table(self) -> None:
        """Begin a table. What stands far within others belongs to the cell around it."""
        if len(self._tables) == _DEEPEST_TABLE:
            self._too_deep += 1
        else:
            self._tables.append([])

    def begin_row(self) -> None:
        """Begin a row of the table."""
        if self._tables and not self._too_deep:
            self._tables[-1].append(_Row())

    def begin_cells(self, count: int = 1) -> None:
        """Begin a cell of the row, behind empty ones where it is not the first of so many."""
        if self._tables and self._tables[-1] and not self._too_deep:
            self._tables[-1][-1].begun += count

    def _fill(self, row: _Row) -> None:
        """Have the row hold all its cells. Raises ToolError for more of them than are held."""
        more = row.begun - len(row.cells)
        self._cells_left -= more
        if self._cells_left < 0:
            raise ToolError(TOO_LARGE)
        row.cells.extend([] for _ in range(more))

    def end_table(self) -> Iterator[str]:
        """End the table; one within a cell is told as the words in it."""
        if self._too_deep:
            self._too_deep -= 1
            return
        table = self._tables.pop() if self._tables else []
        rows = [[" ".join(cell) for cell in row.cells] for row in table if row.cells]
        if rows and not self._tables:
            yield _table(rows)
        elif rows:
            self.add(" ".join(" ".join(row) for row in rows))
            yield from self.end(str)


class OpenXMLText:
    """Takes in the events of a part in which text, paragraphs and tables are called as Word and PowerPoint do it."""

    breaks: ClassVar[Mapping[str, str]] = {"br": "\n"}
    """What an element stands for that is told as characters."""

    def __init__(self) -> None:
        self._built = Paragraphs()
        self._is_text = False

    def take(self, event: Event) -> Iterator[str]:
        """Take in what comes next; the paragraphs and tables that end with it."""
        if event.kind == "text":
            self._built.add(event.text if self._is_text else "")
        elif event.name == "t":
            self._is_text = event.kind == "start"
        elif event.kind == "start":
            self._begin(event)
        elif event.name == "p":
            yield from self._built.end(self.told)
        elif event.name == "tbl":
            yield from self._built.end_table()

    def begun(self, event: Event) -> None:
        """What the start of any other element says of what follows."""

    def told(self, text: str) -> str:
        """A paragraph as it is told."""
        return text

    def _begin(self, event: Event) -> None:
        match event.name:
            case "tbl":
                self._built.begin_table()
            case "tr":
                self._built.begin_row()
            case "tc":
                self._built.begin_cells()
            case name if name in self.breaks:
                self._built.add(self.breaks[name])
            case _:
                self.begun(event)
