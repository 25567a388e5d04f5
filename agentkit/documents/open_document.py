"""OpenDocument texts, sheets and presentations as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentkit.documents.archive import Archive, XMLEvent, texts_in
from agentkit.documents.markdown import ParagraphBuilder, subscript, superscript
from agentkit.documents.word import number_text

_MAX_REPEATED = 100
_MAX_OUTLINE_LEVEL, _MAX_LIST_DEPTH = 6, 9
_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_MARGINS = ("header", "footer")
_SKIPPED = ("tracked-changes", "automatic-styles", "styles", "font-face-decls")


def open_document_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the paragraphs and tables, embedded charts, headers and footers; sheets and slides get headings."""
    styles = _Styles()
    margins = list(styles.read(archive.events("styles.xml")))
    yield from _OpenDocumentReader(archive, styles).read(archive.events("content.xml"))
    yield from dict.fromkeys(margins)


class _ListLevel(NamedTuple):
    """The format of a list level, empty for bullets, and the text around the number."""

    format: str
    prefix: str
    suffix: str
    start: int


class _Styles:
    """The list styles and the raised and lowered text styles of a document."""

    def __init__(self) -> None:
        self.lists: dict[str, dict[int, _ListLevel]] = {}
        self.positions: dict[str, str] = {}
        self.levels = {"Title": 1, **{f"Heading_20_{level}": level for level in range(1, _MAX_OUTLINE_LEVEL + 1)}}
        self._list, self._style, self._margin = "", "", ""

    def read(self, events: Iterator[XMLEvent]) -> Iterator[str]:
        """Take the styles of a part; yield the paragraphs of headers and footers."""
        text: list[str] = []
        for event in events:
            self.handle(event)
            if event.name in _MARGINS:
                self._margin = f"{event.name.capitalize()}: " if event.kind == "start" else ""
            elif event.kind == "text" and self._margin:
                text.append(event.text)
            elif event.name in ("p", "h") and event.kind == "end" and self._margin:
                words = " ".join("".join(text).split())
                text.clear()
                if words:
                    yield f"{self._margin}{words}"

    def handle(self, event: XMLEvent) -> None:
        """Take a style."""
        if event.kind != "start":
            return
        match event.name:
            case "list-style":
                self._list = event.get("name")
                self.lists[self._list] = {}
            case "list-level-style-number" | "list-level-style-bullet":
                level, start = event.get("level"), event.get("start-value")
                if level.isdecimal():
                    form = event.get("num-format") if event.name.endswith("number") else ""
                    number = int(start) if start.isdecimal() else 1
                    level_style = _ListLevel(form, event.get("num-prefix"), event.get("num-suffix"), number)
                    self.lists.setdefault(self._list, {})[int(level)] = level_style
            case "style":
                self._style = event.get("name")
                self.levels.setdefault(self._style, self.levels.get(event.get("parent-style-name"), 0))
            case "text-properties" if event.get("text-position"):
                position = event.get("text-position").split()[0]
                is_low = position.startswith(("sub", "-"))
                is_high = position == "super" or (position[:1].isdigit() and not position.startswith("0"))
                self.positions[self._style] = "sub" if is_low else "super" if is_high else ""


class _List(NamedTuple):
    """A list that is open: its style, and the numbers of its items so far in a list of one element."""

    style: str
    counts: list[int]


class _OpenDocumentReader:
    """Reads the events of the content."""

    def __init__(self, archive: Archive, styles: _Styles) -> None:
        self._archive, self._styles = archive, styles
        self._builder = ParagraphBuilder()
        self._level, self._depth, self._slides, self._skipped_depth = 0, 0, 0, 0
        self._is_sheet = False
        self._lists: list[_List] = []
        self._last_counts: dict[str, int] = {}
        self._label = ""
        self._spans: list[tuple[str, list[str]]] = []
        self._links: list[str] = []
        self._objects: list[str] = []
        self._rows, self._cells, self._value = 1, 1, ""
        self._comments: list[list[str]] = []
        self._is_comment = self._is_comment_text = False

    def read(self, events: Iterator[XMLEvent]) -> Iterator[str]:
        """Yield the paragraphs and tables."""
        for event in events:
            self._styles.handle(event)
            if event.name == "annotation" or self._is_comment:
                self._handle_comment(event)
            elif event.name in _SKIPPED:
                self._skipped_depth += 1 if event.kind == "start" else -1
            elif self._skipped_depth:
                continue
            elif event.kind == "start":
                yield from self._start(event)
            elif event.kind == "text":
                self._add(event.text if self._depth else "")
            else:
                yield from self._end(event)
        yield from (f"Comment: {comment}" for each in self._comments if (comment := " ".join(" ".join(each).split())))

    def _handle_comment(self, event: XMLEvent) -> None:
        """Collect the paragraphs of a comment, without its author and date."""
        if event.name == "annotation":
            self._is_comment = event.kind == "start"
            self._comments += [[]] if self._is_comment else []
        elif event.name in ("p", "creator", "date"):
            self._is_comment_text = event.name == "p" and event.kind == "start"
        elif event.kind == "text" and self._is_comment_text:
            self._comments[-1].append(event.text)

    def _add(self, text: str) -> None:
        if self._spans and self._spans[-1][0]:
            self._spans[-1][1].append(text)
        else:
            self._builder.add(text)

    def _start(self, event: XMLEvent) -> Iterator[str]:
        match event.name:
            case "spreadsheet":
                self._is_sheet = True
            case "page":
                self._slides += 1
                yield f"## Slide {self._slides}"
            case "table":
                yield from [f"## {event.get('name')}"] if self._is_sheet else []
                self._builder.begin_table()
            case "table-row":
                self._builder.begin_row()
                self._rows = _repeat_count(event.get("number-rows-repeated"))
            case "table-cell" | "covered-table-cell":
                self._builder.begin_cells()
                self._cells, self._value = _repeat_count(event.get("number-columns-repeated")), event.get("value")
            case "h" | "p":
                level = self._styles.levels.get(event.get("style-name"), 0)
                self._level = _level(event) if event.name == "h" else level
                self._depth += 1
                self._value = ""
            case "s" | "tab" | "line-break":
                self._add({"tab": "\t", "line-break": "\n"}.get(event.name, " "))
            case _:
                self._start_inline(event)

    def _start_inline(self, event: XMLEvent) -> None:
        match event.name:
            case "list":
                style = event.get("style-name") or (self._lists[-1].style if self._lists else "")
                is_continued = event.get("continue-numbering") == "true" or bool(event.get("continue-list"))
                level = self._styles.lists.get(style, {}).get(len(self._lists) + 1)
                start = self._last_counts.get(style, 0) if is_continued else (level.start - 1 if level else 0)
                self._lists.append(_List(style, [start]))
            case "list-item":
                self._label = self._next_label()
            case "list-header":
                self._label = ""
            case "span":
                self._spans.append((self._styles.positions.get(event.get("style-name"), ""), []))
            case "a":
                self._links.append(event.get("href"))
                self._add("[" if _is_url(self._links[-1]) else "")
            case "object" if event.get("href"):
                self._objects.append(event.get("href").removeprefix("./"))

    def _next_label(self) -> str:
        """Count a list item, and return its label with its indent."""
        if not self._lists:
            return ""
        current, depth = self._lists[-1], min(len(self._lists), _MAX_LIST_DEPTH)
        current.counts[0] += 1
        self._last_counts[current.style] = current.counts[0]
        level = self._styles.lists.get(current.style, {}).get(len(self._lists))
        if level is None or not level.format:
            label = "-"
        else:
            number = number_text(current.counts[0], _FORMATS.get(level.format, "decimal"))
            label = f"{level.prefix}{number}{level.suffix or '.'}"
        return f"{'   ' * (depth - 1)}{label} "

    def _end(self, event: XMLEvent) -> Iterator[str]:
        match event.name:
            case "h" | "p":
                self._depth -= 1
                yield from self._builder.end(self._render)
                yield from self._embedded_charts() if not self._depth else ()
            case "table-cell" | "covered-table-cell" | "table-row" | "table":
                yield from self._end_table_part(event.name)
            case "page":
                yield from self._embedded_charts()
            case "list" if self._lists:
                self._lists.pop()
            case "span" if self._spans:
                position, pieces = self._spans.pop()
                if position and pieces:
                    self._add((superscript if position == "super" else subscript)("".join(pieces)))
            case "a" if self._links:
                target = self._links.pop()
                self._add(f"]({target})" if _is_url(target) else "")

    def _end_table_part(self, name: str) -> Iterator[str]:
        if name == "table":
            yield from self._builder.end_table()
        elif name == "table-row":
            self._builder.repeat_row(self._rows)
        else:
            if self._value:  # a number that has no text
                self._builder.add(self._value)
                yield from self._builder.end(str)
            self._builder.repeat_cell(self._cells)
            self._cells, self._value = 1, ""

    def _embedded_charts(self) -> Iterator[str]:
        """Yield the titles and values of charts that the paragraph or page contains."""
        names, self._objects = self._objects, []
        for name in names:
            events = list(self._archive.events(f"{name}/content.xml"))
            found = list(_OpenDocumentReader(self._archive, _Styles()).read(iter(events)))
            formula = " ".join(texts_in(events, "annotation"))
            yield from ["Chart:", *found] if found else [f"Formula: {formula}"] if formula else []

    def _render(self, text: str) -> str:
        label, self._label = self._label, ""
        if self._level:
            return f"{'#' * self._level} {' '.join(text.split())}"
        return f"{label}{text}"


def _is_url(target: str) -> bool:
    return target.startswith(("http:", "https:", "mailto:"))


def _repeat_count(repeated: str) -> int:
    return min(int(repeated), _MAX_REPEATED) if repeated.isdecimal() else 1


def _level(event: XMLEvent) -> int:
    level = event.get("outline-level")
    return min(int(level), _MAX_OUTLINE_LEVEL) if level.isdecimal() and int(level) else 1
