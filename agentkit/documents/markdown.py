"""Paragraphs and tables as Markdown, shared by the readers of office documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from agentkit.documents.archive import TOO_LARGE
from agentkit.errors import ToolError

_MAX_CELLS, _MAX_TABLE_DEPTH, _MAX_FILLED_CELLS = 2_000_000, 20, 1_000_000


def markdown_table(rows: list[list[str]]) -> str:
    """Render rows as a Markdown table with the first as header. Short rows are padded, unless that is too much."""
    width = max(map(len, rows))
    filled = width if width * len(rows) <= _MAX_FILLED_CELLS else 0
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] + [""] * (filled - len(row)) for row in rows)
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


class _TableRow:
    """A row being read.

    Empty cells are only counted until text follows: a few bytes can encode thousands of cells.
    """

    def __init__(self) -> None:
        self.cells: list[list[str]] = []  # the paragraphs of each cell
        self.cell_count = 0


class ParagraphBuilder:
    """Builds paragraphs and tables: the content of a cell becomes part of its row, a nested table its plain words."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._tables: list[list[_TableRow]] = []
        self._too_deep, self._cells_left = 0, _MAX_CELLS

    def add(self, text: str) -> None:
        """Add to the paragraph."""
        if text:
            self._text.append(text)

    def end(self, render: Callable[[str], str]) -> Iterator[str]:
        """End a paragraph, rendered by `render`; within a table it is added to the cell.

        Raises ToolError if there are too many cells.
        """
        text = "".join(self._text).strip()
        self._text.clear()
        if text and self._tables and self._tables[-1] and self._tables[-1][-1].cell_count:
            row = self._tables[-1][-1]
            self._count_cells(row.cell_count - len(row.cells))
            row.cells.extend([] for _ in range(row.cell_count - len(row.cells)))
            row.cells[-1].append(text)
        elif text:
            yield render(text)

    def begin_table(self) -> None:
        """Begin a table. A too deeply nested one becomes part of the surrounding cell."""
        if len(self._tables) == _MAX_TABLE_DEPTH:
            self._too_deep += 1
        else:
            self._tables.append([])

    def begin_row(self) -> None:
        """Begin a row of the table."""
        if self._tables and not self._too_deep:
            self._tables[-1].append(_TableRow())

    def begin_cells(self, count: int = 1) -> None:
        """Begin a cell of the row, or several of which only the last can have content."""
        if self._tables and self._tables[-1] and not self._too_deep:
            self._tables[-1][-1].cell_count += count

    def repeat_cell(self, count: int) -> None:
        """Repeat the cell that ends, so that there are `count`; empty ones are only counted. Raises ToolError."""
        if self._tables and self._tables[-1] and not self._too_deep:
            row = self._tables[-1][-1]
            if row.cell_count and len(row.cells) == row.cell_count and row.cells[-1]:
                self._count_cells(count - 1)
                row.cells.extend(list(row.cells[-1]) for _ in range(count - 1))
            row.cell_count += count - 1

    def repeat_row(self, count: int) -> None:
        """Repeat the row that ends, unless it is empty, so that there are `count`. Raises ToolError."""
        if self._tables and self._tables[-1] and not self._too_deep and self._tables[-1][-1].cells:
            row = self._tables[-1][-1]
            self._count_cells((count - 1) * len(row.cells))
            self._tables[-1].extend([row] * (count - 1))

    def _count_cells(self, cells: int) -> None:
        self._cells_left -= cells
        if self._cells_left < 0:
            raise ToolError(TOO_LARGE)

    def end_table(self) -> Iterator[str]:
        """End the table; a nested one is rendered as words in its cell."""
        if self._too_deep:
            self._too_deep -= 1
            return
        table = self._tables.pop() if self._tables else []
        rows = [[" ".join(cell) for cell in row.cells] for row in table if row.cells]
        if rows and not self._tables:
            yield markdown_table(rows)
        elif rows:
            self.add(" ".join(" ".join(row) for row in rows))
            yield from self.end(str)


_POWER = re.compile(r"[+\-\u2212]?[\w.,/]{1,12}")
_ORDINAL = re.compile(r"st|nd|rd|th|er|re|ère|e|è|ème|eme|o|a|os|as|TM|SM|MC", re.IGNORECASE)
_SUBSCRIPTS = str.maketrans("0123456789+-\u2212=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_IN_SUBSCRIPT = re.compile(r"[0-9+\-\u2212=()]+")


def superscript(text: str) -> str:
    """Write a superscript as `^6` or `^(n + 1)`; ordinals, such as `st`, and signs stay as they are."""
    inner = text.strip()
    if _ORDINAL.fullmatch(inner) or not any(map(str.isalnum, inner)):
        return text
    return f"^{inner}" if _POWER.fullmatch(inner) else f"^({inner})"


def subscript(text: str) -> str:
    """Write a subscript with the characters for it, as in `H₂O`, or as `_i`."""
    inner = text.strip()
    if _IN_SUBSCRIPT.fullmatch(inner):
        return inner.translate(_SUBSCRIPTS)
    if not any(map(str.isalnum, inner)):
        return text
    return f"_{inner}" if _POWER.fullmatch(inner) else f"_({inner})"
