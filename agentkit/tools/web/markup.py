"""Rewriting of parsed web pages before conversion to Markdown: code, layout tables, superscripts and formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentkit.documents.markdown import subscript, superscript

if TYPE_CHECKING:
    from turbohtml import Document, Element

_LINES = frozenset({"div", "li", "p", "tr"})
_PARTS = frozenset({"thead", "tbody", "tfoot"})
_LAYOUT = ("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "form")
_MAX_NUMBER_CHARS = 12
_MAX_MOVED_NODES = 1_000_000


def rewrite_markup(document: Document) -> None:
    """Rewrite what Markdown has no element for, so that no text loses its meaning."""
    _rewrite_formulas(document)
    _rewrite_indices(document)
    for link in document.select(", ".join(f'h{level} a[href*="#"]' for level in range(1, 7))):
        if not any(map(str.isalnum, link.text)):  # the sign that links to the heading
            link.decompose()
    for table in dict.fromkeys(
        each.closest("table") for each in document.select("td pre, td code, [data-line-number]")
    ):
        if table is not None:
            _rewrite_code_table(table)
    for block in document.select("pre"):
        _remove_line_numbers(block)
    _unwrap_layout_tables(document)


def _rewrite_formulas(document: Document) -> None:
    """Replace MathML by the TeX that it was made from, if that is given, or by its text."""
    from turbohtml import Text

    for formula in document.select('math, script[type^="math/tex"]'):
        source = formula.select_one('annotation[encoding*="tex" i]')
        tex = formula.attr("alttext") or (source.text if source else "")
        tex = tex or (formula.text if formula.tag == "script" else "")
        formula.replace_with(Text(f"${tex.strip()}$" if tex.strip() else " ".join(formula.text.split())))


def _rewrite_indices(document: Document) -> None:
    """Write superscripts as `10^6` and subscripts as `H₂O`; links to notes stay as they are."""
    from turbohtml import Text

    for element in document.select("sup, sub"):
        text = element.text.strip()
        if text and not element.select_one("a, sup, sub") and not element.closest("a"):
            element.replace_with(Text(superscript(text) if element.tag == "sup" else subscript(text)))


def _rewrite_code_table(table: Element) -> None:
    """Replace a table that shows code with line numbers by the code."""
    from turbohtml import Element as NewElement
    from turbohtml import Text

    rows = list(_rows(table))
    if not rows or not all(len(row) >= 2 and all(map(_is_number_column, row[:-1])) for row in rows):
        return
    blocks = [block for row in rows if (block := row[-1].select_one("pre")) is not None]
    if len(rows) == 1 and blocks:
        table.replace_with(blocks[0])
    elif len(rows) > 1:
        code = NewElement("pre")
        code.append(Text("\n".join(row[-1].text.strip("\n") for row in rows)))
        table.replace_with(code)


def _is_number_column(cell: Element) -> bool:
    """Whether a cell holds nothing but line numbers, or has its number in an attribute."""
    words = cell.text.split()
    return all(map(str.isdecimal, words)) and (bool(words) or cell.attr("data-line-number") is not None)


def _rows(table: Element) -> Iterator[list[Element]]:
    """The cells of each row, without those of nested tables."""
    for part in _elements(table):
        for row in _elements(part) if part.tag in _PARTS else (part,):
            if row.tag == "tr":
                yield [cell for cell in _elements(row) if cell.tag in ("td", "th")]


def _elements(parent: Element) -> list[Element]:
    from turbohtml import Element as AnyElement

    return [child for child in parent.children if isinstance(child, AnyElement)]


def _remove_line_numbers(block: Element) -> None:
    """Remove the numbers before the lines of a code block: elements that count up, one at the start of each line."""
    numbers = list(_leading_numbers(block))
    values = [int(number.text) for number in numbers]
    if len(values) < 2 or values != list(range(values[0], values[0] + len(values))):
        return
    breaks = block.text.count("\n") + len(block.select("br, li, div, tr, p"))
    if len(values) >= breaks:
        for number in numbers:
            number.decompose()


def _leading_numbers(block: Element) -> Iterator[Element]:
    """The elements at the start of a line whose text is a number."""
    from turbohtml import Element as AnyElement
    from turbohtml import Text

    is_start = True
    for node in block.descendants:
        if isinstance(node, AnyElement):
            text = node.text if is_start else ""
            if node.tag == "br" or node.tag in _LINES:
                is_start = True
            elif len(text) <= _MAX_NUMBER_CHARS and text.strip().isdecimal() and not _elements(node):
                yield node
        elif isinstance(node, Text) and node.text:
            is_start = node.text.endswith("\n")


def _unwrap_layout_tables(document: Document) -> None:
    """Unwrap the tables whose cells contain what a cell of Markdown cannot, as far as the budget of work allows."""
    inside = document.select(", ".join(f"td {each}" for each in _LAYOUT))
    around = (each.parent.closest("table") for each in inside if each.parent is not None)
    budget = _MAX_MOVED_NODES
    for table in dict.fromkeys(table for table in around if table is not None):
        budget -= sum(1 for _ in table.descendants)
        if budget < 0:
            break
        _unwrap_table(table)


def _unwrap_table(table: Element) -> None:
    """Replace a table that is used for layout by the contents of its cells, one after the other."""
    from turbohtml import Element as NewElement

    parts = []
    for row in _rows(table):
        for cell in row:
            part = NewElement("div")
            part.extend(cell.children)
            parts.append(part)
    table.replace_with(*parts)
