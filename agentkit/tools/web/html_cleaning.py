"""Cleaning of parsed web pages before their conversion to Markdown.

Code, layout tables, superscripts and formulas are rewritten as Markdown can write them. Boilerplate is removed by
position and text density: class names and ids are not used, since a page about cookies has `id="cookies"`, and a layout
with a sidebar says so on the element that contains the article. An element that contains `main`, `article` or most of
the text is never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from agentkit.documents.markdown import subscript, superscript

if TYPE_CHECKING:
    from turbohtml import Document, Element

_NOT_TEXT = "script, style, template, iframe, embed, svg, canvas, video, audio, head > *"
_HIDDEN = ", ".join(
    (
        *("[hidden]", '[aria-hidden="true"]', '[style*="display:none" i]', '[style*="display: none" i]'),
        *('[style*="visibility:hidden" i]', '[style*="visibility: hidden" i]', '[style*="font-size:0" i]'),
    )
)
_MAIN = 'main, [role="main"]'
_CONTENT = f'{_MAIN}, article, [role="article"]'
_SECTIONS = f'section, [role="region"], {_CONTENT}'
_NAVIGATION = ", ".join(
    ("nav", *(f'[role="{role}"]' for role in ("navigation", "search", "menu", "menubar", "tablist", "toolbar")))
)
_BANNERS = 'header, [role="banner"], footer, [role="contentinfo"]'
_ASIDES = 'aside, [role="complementary"]'
_OVERLAYS = 'dialog, noscript, select, textarea, [role="dialog"], [role="alertdialog"]'
_CONTROLS = "button, input, select, textarea"
_LABELS = "label, legend, button, option"
_TITLES = "h1, h2, h3, h4, h5, h6, summary, dt"
_DATA = "h1, h2, h3, h4, h5, h6, table, pre, dl"
_LAYOUT = frozenset({"center", "div", "form", "section", "table", "tbody", "td", "tr"})

_LINK_WEIGHT = 0.2
"""The weight of the characters of links. Without it, a menu longer than the article would be most of the text."""

_DENSE = 0.5
"""The share of characters in links above which an element is navigation."""

_MAX_BANNER_CHARS, _MAX_FORM_CHARS, _MAX_BUTTON_CHARS, _MIN_ASIDE_CHARS = 300, 100, 80, 20
_MAX_MENU_LINKS, _MIN_MENU_LINKS = 12, 2
_MAX_DEPTH = 40
_DOMINANT_SHARE = 0.6
_MAX_MEASURED_CHARS = 20_000_000
"""Limits the work on hostile pages. Elements beyond it stay."""


class _Size(NamedTuple):
    """The characters of an element, and those of its links."""

    chars: int
    link_chars: int

    @property
    def weight(self) -> float:
        return self.chars - (1 - _LINK_WEIGHT) * self.link_chars

    @property
    def is_dense(self) -> bool:
        return self.link_chars > _DENSE * self.chars


def remove_boilerplate(document: Document) -> tuple[int, int]:
    """Remove navigation, banners, small forms, overlays and hidden elements.

    Returns the number of characters that were removed, and how many there were before.
    Scripts, styles and pictures are removed too, but not counted.
    """
    document.remove(_NOT_TEXT)
    page = _Page(document)
    total_chars = page.total.chars
    page.remove_hidden()
    page.remove_periphery()
    page.remove_elements()
    document.remove("input")
    return page.removed_chars, total_chars


class _Page:
    """Measures the elements of a page, and removes some."""

    def __init__(self, document: Document) -> None:
        self.removed_chars = 0
        self._document = document
        self._budget = _MAX_MEASURED_CHARS
        self.total = self._measure_body()

    def remove_hidden(self) -> None:
        """Remove hidden elements, except those that a control of the page shows: tab panels and accordions."""
        select = self._document.select
        shown = {name for each in select("[aria-controls]") for name in (each.attr("aria-controls") or "").split()}
        for element in select(_HIDDEN):
            is_panel = element.attr("role") == "tabpanel" or element.attr("hidden") == "until-found"
            if not is_panel and element.attr("id") not in shown:
                self._remove(element, _MAIN)
        self.total = self._measure_body()

    def remove_periphery(self) -> None:
        """Remove menus and small banners around the main content, from the content outwards."""
        landmark = self._landmark()
        content = landmark or self._densest()
        while content is not None and content.tag != "body" and _is_element(content.parent):
            for sibling in filter(_is_element, content.parent.children):
                if sibling is not content:
                    self._remove_sibling(sibling, has_landmark=landmark is not None)
            content = content.parent

    def remove_elements(self) -> None:
        """Remove elements whose tag or role says that they are boilerplate, if position and density agree."""
        select = self._document.select
        rules: tuple[tuple[str, Callable[[Element, _Size], bool]], ...] = (
            (_OVERLAYS, lambda _, __: True),
            ("button", lambda each, _: not _is_within(each, _TITLES)),
            (_NAVIGATION, lambda _, size: size.is_dense or size.chars <= _MAX_BANNER_CHARS),
            (_BANNERS, _is_banner),
            (_ASIDES, lambda _, size: size.is_dense or size.chars < _MIN_ASIDE_CHARS),
            ("form", self._is_control_form),
        )
        for selector, is_boilerplate in rules:
            for element in select(selector):
                if is_boilerplate(element, self._size(element)):
                    self._remove(element)

    def _measure_body(self) -> _Size:
        body = self._document.select_one("body")
        return self._size(body) if body is not None else _Size(0, 0)

    def _landmark(self) -> Element | None:
        """The element that the page declares as its main content, if it has enough text to be that."""
        for selector, share in ((_MAIN, 0.3), ("article", 0.5)):
            found = [(self._size(each).weight, each) for each in self._document.select(selector)[:10]]
            weight, element = max(found, key=lambda pair: pair[0], default=(0.0, None))
            if element is not None and weight and weight >= share * self.total.weight:
                return element
        return None

    def _densest(self) -> Element | None:
        """The smallest layout element that has most of the text of each of its ancestors."""
        element, weight = self._document.select_one("body"), self.total.weight
        for _ in range(_MAX_DEPTH):
            inner = filter(_is_element, element.children if element is not None else ())
            found = [(self._size(each).weight, each) for each in inner if each.tag in _LAYOUT]
            most, child = max(found, key=lambda pair: pair[0], default=(0.0, None))
            if child is None or most <= _DOMINANT_SHARE * weight:
                break
            element, weight = child, most
        return element

    def _remove_sibling(self, element: Element, *, has_landmark: bool) -> None:
        size = self._size(element)
        if has_landmark:
            is_small = size.chars <= _MAX_BANNER_CHARS and not _contains(element, _DATA)
            is_boilerplate = size.is_dense or is_small
        elif _contains(element, _DATA):
            is_boilerplate = False
        else:
            links = len(element.select("a"))
            is_menu = size.is_dense and _MIN_MENU_LINKS <= links <= _MAX_MENU_LINKS
            is_boilerplate = is_menu or (size.chars <= _MAX_BANNER_CHARS and _contains(element, _CONTROLS))
        is_skip_link = element.tag == "a" and (element.attr("href") or "").startswith("#")
        if is_boilerplate or is_skip_link:
            self._remove(element)

    def _is_control_form(self, element: Element, size: _Size) -> bool:
        """Whether a form has little text apart from its labels."""
        labels = sum(self._size(label).chars for label in element.select(_LABELS))
        return size.chars <= _MAX_BANNER_CHARS and size.chars - labels <= _MAX_FORM_CHARS

    def _remove(self, element: Element, protected: str = _CONTENT) -> None:
        """Remove an element, unless it contains protected elements or most of the text."""
        size = self._size(element)
        if self._budget < 0 or size.weight > 0.5 * self.total.weight or _contains(element, protected):
            return
        if element.closest("html") is not None:  # not part of an element that was removed before
            self.removed_chars += size.chars
        element.decompose()

    def _size(self, element: Element) -> _Size:
        if self._budget < 0:
            return _Size(0, 0)
        chars = _chars(element)
        self._budget -= chars + 100
        return _Size(chars, sum(map(_chars, element.select("a[href]"))))


def _chars(element: Element) -> int:
    return len(" ".join(element.text.split()))


def _is_element(node: object) -> TypeGuard[Element]:
    from turbohtml import Element as AnyElement

    return isinstance(node, AnyElement)


def _is_banner(element: Element, size: _Size) -> bool:
    """Whether a header or footer belongs to the page rather than to a part of it, and is short or has links."""
    if _is_within(element, _SECTIONS):
        return element.tag == "footer" and size.is_dense
    return size.is_dense or (size.chars <= _MAX_BANNER_CHARS and not _contains(element, "h1"))


def _contains(element: Element, selector: str) -> bool:
    return element.matches(selector) or element.select_one(selector) is not None


def _is_within(element: Element, selector: str) -> bool:
    parent = element.parent
    return parent is not None and _is_element(parent) and parent.closest(selector) is not None


_LINES = frozenset({"div", "li", "p", "tr"})
_PARTS = frozenset({"thead", "tbody", "tfoot"})
_BLOCKS_IN_CELLS = ("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "form")
_MAX_NUMBER_CHARS = 12
_MAX_MOVED_NODES = 1_000_000
_MAX_ADDED_CELLS, _MAX_SPAN = 20_000, 100


def rewrite_markup(document: Document) -> None:
    """Rewrite what Markdown has no element for, so that no text loses its meaning."""
    _rewrite_fields(document)
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
    budget = _MAX_ADDED_CELLS
    for table in dict.fromkeys(
        each.closest("table") for each in document.select("td[colspan], th[colspan], [rowspan]")
    ):
        budget -= 0 if table is None or budget < 0 else _split_cells(table, budget)


def _rewrite_fields(document: Document) -> None:
    """Write read-only text areas as code, and put the content of shadow roots in their place."""
    from turbohtml import Element as NewElement
    from turbohtml import Text

    for field in document.select("textarea[readonly]"):
        block = NewElement("pre")
        block.append(Text(field.text))
        field.replace_with(block)
    for root in document.select("template[data-shadow]"):
        root.replace_with(*[node for fragment in root.children for node in fragment.children])


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
    return list(filter(_is_element, parent.children))


def _split_cells(table: Element, budget: int) -> int:
    """Add an empty cell for each further column and row of merged cells; return the number of cells added."""
    from turbohtml import Element as NewElement

    added, pending = 0, dict[int, int]()  # the rows below that a cell of a column reaches
    for row in _rows(table):
        column = 0
        for cell in (*row, None) if row else ():
            while pending.get(column) and added < budget:
                pending[column] -= 1
                column, added, empty = column + 1, added + 1, NewElement("td")
                cell.insert_before(empty) if cell is not None else row[-1].insert_after(empty)
            if cell is None or added >= budget:
                break
            spans = (cell.attrs.pop("colspan", None), cell.attrs.pop("rowspan", None))
            width, height = (min(int(str(span)), _MAX_SPAN) if str(span).isdecimal() else 1 for span in spans)
            empty_cells = [NewElement("td") for _ in range(max(width, 1) - 1)]
            cell.insert_after(*empty_cells)
            pending |= dict.fromkeys(range(column, column + max(width, 1)), max(height, 1) - 1)
            column, added = column + max(width, 1), added + len(empty_cells)
    return added


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
    from turbohtml import Text

    is_start = True
    for node in block.descendants:
        if _is_element(node):
            text = node.text if is_start else ""
            if node.tag == "br" or node.tag in _LINES:
                is_start = True
            elif len(text) <= _MAX_NUMBER_CHARS and text.strip().isdecimal() and not _elements(node):
                yield node
        elif isinstance(node, Text) and node.text:
            is_start = node.text.endswith("\n")


def _unwrap_layout_tables(document: Document) -> None:
    """Unwrap the tables whose cells contain what a cell of Markdown cannot, as far as the budget of work allows."""
    from turbohtml import Element as NewElement

    inside = document.select(", ".join(f"td {each}" for each in _BLOCKS_IN_CELLS))
    around = (each.parent.closest("table") for each in inside if each.parent is not None)
    budget = _MAX_MOVED_NODES
    for table in dict.fromkeys(table for table in around if table is not None):
        budget -= sum(1 for _ in table.descendants)
        if budget < 0:
            break
        parts = []
        for cell in (cell for row in _rows(table) for cell in row):
            part = NewElement("div")
            part.extend(cell.children)
            parts.append(part)
        table.replace_with(*parts)
