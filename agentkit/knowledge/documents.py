"""Parsers for Markdown, plain text, source code and other document formats."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import pairwise
from pathlib import PurePath

from agentkit._dataclass import dataclass
from agentkit.documents.parsing import parse_document
from agentkit.errors import ToolError
from agentkit.knowledge.chunks import DocumentBlock, table_rows
from agentkit.safety.urls import Url, read_url
from agentkit.tools.web.page_text import decode, kind_of, read_html, remove_controls

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.+?)\s*#*\s*$")
_UNDERLINE = re.compile(r"(={3,}|-{3,}|~{3,}|\^{3,})\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TABLE_RULE = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-*:?[ \t]*")
_SHEET = re.compile(r"^## (.*)$", re.MULTILINE)
_LEVELS = {"=": 1, "-": 2, "~": 3, "^": 4}
_MAX_HEADING_CHARS = 120
_MAX_HEADING_LINE_CHARS = 1_000
"""Longer lines are not matched as headings: the time of the match grows faster than the line."""


@dataclass(slots=True)
class _ProseParser:
    """The state of the parser: the headings above, and the lines of the current block."""

    headings: dict[int, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    begin: int = 1
    fence: str = ""

    @property
    def section(self) -> tuple[str, ...]:
        return tuple(self.headings[level] for level in sorted(self.headings))

    def add_line(self, line: str, number: int) -> None:
        """Add a line to the block."""
        if not self.lines:
            self.begin = number
        self.lines.append(line)

    def end_block(self, *, is_code: bool = False) -> Iterator[DocumentBlock]:
        """Yield the current block, if it is not empty."""
        lines, self.lines = self.lines, []
        at = 0 if is_code else _table_start(lines)
        if at and any(line.strip() for line in lines[: at - 1]):
            yield DocumentBlock("\n".join(lines[: at - 1]), self.section, self.begin)
        if at:
            header = "\n".join(lines[at - 1 : at + 1])
            text = "\n".join(lines[at - 1 :])
            yield DocumentBlock(text, self.section, self.begin + at - 1, is_code=True, header=header)
        elif any(line.strip() for line in lines):
            yield DocumentBlock("\n".join(lines), self.section, self.begin, is_code=is_code)

    def start_section(self, level: int, title: str) -> None:
        """Start a section, closing those of its level and below."""
        self.headings = {above: text for above, text in self.headings.items() if above < level}
        self.headings[level] = " ".join(title.split())[:_MAX_HEADING_CHARS]


def _table_start(lines: list[str]) -> int:
    """The index of the line below the header of a Markdown table; 0 without a table."""
    for number, line in enumerate(lines[1:], 1):
        is_short = len(line) <= _MAX_HEADING_LINE_CHARS
        if is_short and "|" in line and "|" in lines[number - 1] and _TABLE_RULE.fullmatch(line):
            return number
    return 0


def markdown_blocks(text: str) -> Iterator[DocumentBlock]:
    """The paragraphs, headings and fenced code of Markdown; a heading is part of the section it starts."""
    parser = _ProseParser()
    for number, line in enumerate(text.split("\n"), 1):
        if parser.fence or _FENCE.match(line):
            yield from _parse_fenced(parser, line, number)
        elif not line.strip():
            yield from parser.end_block()
        elif len(line) <= _MAX_HEADING_LINE_CHARS and (heading := _HEADING.match(line)):
            yield from parser.end_block()
            parser.start_section(len(heading[1]), heading[2])
            yield DocumentBlock(line, parser.section, number)
        elif len(parser.lines) == 1 and (mark := _UNDERLINE.match(line)):
            parser.start_section(_LEVELS[mark[1][0]], parser.lines[0])
            parser.add_line(line, number)
            yield from parser.end_block()
        else:
            parser.add_line(line, number)
    yield from parser.end_block(is_code=bool(parser.fence))


def _parse_fenced(parser: _ProseParser, line: str, number: int) -> Iterator[DocumentBlock]:
    """Parse a line of code, or a fence."""
    if not parser.fence:
        yield from parser.end_block()
        found = _FENCE.match(line)
        parser.fence = found[1] if found else ""
        parser.add_line(line, number)
        return
    parser.add_line(line, number)
    if line.strip().startswith(parser.fence) and not line.strip().strip(parser.fence[0]):
        yield from parser.end_block(is_code=True)
        parser.fence = ""


def text_blocks(text: str) -> Iterator[DocumentBlock]:
    """The paragraphs of plain text."""
    parser = _ProseParser()
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            parser.add_line(line, number)
        else:
            yield from parser.end_block()
    yield from parser.end_block()


def line_blocks(text: str) -> Iterator[DocumentBlock]:
    """Data and logs, which are split at lines."""
    if text.strip():
        yield DocumentBlock(text, (), 1, is_code=True)


def table_blocks(text: str, section: tuple[str, ...] = (), line: int = 1) -> Iterator[DocumentBlock]:
    """A table of comma-separated or tab-separated values, whose first row is its header."""
    plain = text.strip("\n")
    if plain:
        header = next(table_rows(plain)).rstrip("\n")
        skipped = len(text) - len(text.lstrip("\n"))
        yield DocumentBlock(plain, section, line + skipped, is_code=True, header=header)


def sheet_blocks(text: str) -> Iterator[DocumentBlock]:
    """The sheets of a workbook, each a table below its name."""
    starts = [*_SHEET.finditer(text)]
    for found, following in zip(starts, [*starts[1:], None], strict=True):
        yield DocumentBlock(found[0], (found[1],))
        table, _, notes = (
            text[found.end() : following.start() if following else len(text)].strip("\n").partition("\n\n")
        )
        yield from table_blocks(table, (found[1],), 0)
        yield from (replace(block, section=(found[1],)) for block in markdown_blocks(notes))


_DEFINITION = re.compile(
    r"(?:[\w@<>,\[\]*&]+\s+)*?(?:class|struct|interface|trait|enum|impl|func(?:tion)?|fn|def|sub|module|package|type|record"
    r"|namespace|protocol|object)\b\s*(?:\([^)]*\)\s*)?([A-Za-z_$][\w$.:]*)"
)
_MEMBERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Member = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_MAX_DEPTH = 3
_MAX_PARSED_CHARS = 100_000
"""Longer programs are not parsed: a hostile one takes a thousand times its size in memory, and the parser of Python
3.11 takes time quadratic in the length of an f-string: three seconds at this length.
"""

_ESCAPE = re.compile(r"\\[^\n'\"]")
"""Escapes replaced before parsing, since invalid ones emit warnings in the host program. Positions do not change."""


def python_blocks(text: str) -> Iterator[DocumentBlock]:
    """The functions, classes and methods of a Python program, and the code between them."""
    if len(text) > _MAX_PARSED_CHARS:
        yield from code_blocks(text)
        return
    lines = text.split("\n")
    try:
        tree = ast.parse(_ESCAPE.sub("__", text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield from code_blocks(text)
        return
    yield from _body(tree.body, lines, (), 1, len(lines))


def _body(
    nodes: Iterable[ast.stmt], lines: list[str], section: tuple[str, ...], first: int, last: int
) -> Iterator[DocumentBlock]:
    """Yield the blocks of lines `first` to `last`, which contain the statements `nodes`."""
    at = first
    for node in nodes:
        if isinstance(node, _MEMBERS):
            begin = max(at, _begin(node, lines))
            yield from _block(lines, section, at, begin - 1)
            end, inner = node.end_lineno or begin, (*section, node.name)
            if isinstance(node, ast.ClassDef) and len(inner) < _MAX_DEPTH:  # one block, plus one for each member
                yield from _body(node.body, lines, inner, begin, end)
            else:
                yield from _block(lines, inner, begin, end)
            at = end + 1
    yield from _block(lines, section, at, last)


def _begin(node: _Member, lines: list[str]) -> int:
    """The first line of a definition, including decorators and comments directly above."""
    begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    while begin > 1 and lines[begin - 2].lstrip().startswith("#"):
        begin -= 1
    return begin


def _block(lines: list[str], section: tuple[str, ...], first: int, last: int) -> Iterator[DocumentBlock]:
    while first <= last and not lines[first - 1].strip():
        first += 1
    text = "\n".join(lines[first - 1 : last]).rstrip()
    if text:
        yield DocumentBlock(text, section, first, is_code=True)


def code_blocks(text: str) -> Iterator[DocumentBlock]:
    """Split a program at unindented lines after a blank line; each part is named by its first definition."""
    lines = text.split("\n")
    starts = [1, *(number for number in range(2, len(lines) + 1) if _begins_block(lines, number)), len(lines) + 1]
    for first, following in pairwise(starts):
        named = next((found for line in lines[first - 1 : following - 1] if (found := _DEFINITION.match(line))), None)
        yield from _block(lines, (named[1],) if named else (), first, following - 1)


def _begins_block(lines: list[str], number: int) -> bool:
    line = lines[number - 1]
    return bool(line) and not line[0].isspace() and line[0] not in "})]" and not lines[number - 2].strip()


PARSER_VERSION = 2
"""Increased when parsing changes, so that documents are parsed again."""

_UNKNOWN_BASE = Url("http", "file.invalid", 80, "/")
_RELATIVE_LINK = re.compile(r"\[([^\[\]]*)\]\(<?http://file\.invalid[^)]*\)")

Reader = Callable[[str], Iterable[DocumentBlock]]
_READERS: Mapping[str, Reader] = {
    "markdown": markdown_blocks,
    "text": text_blocks,
    "data": line_blocks,
    "python": python_blocks,
    "code": code_blocks,
}
_WORKBOOK, _TABLE_SUFFIXES = b"xl/workbook.xml", (".csv", ".tsv")
KINDS = ("markdown", "text", "html", "pdf", "office", "python", "code", "data")
"""The supported document formats."""

_SUFFIXES_BY_KIND: Mapping[str, str] = {
    "markdown": "md markdown mdx rst adoc",
    "html": "html htm xhtml",
    "pdf": "pdf",
    "python": "py pyi",
    "code": "c h cc cpp hpp cs go java js jsx mjs kt lua m php pl proto r rb rs scala sh bash sql swift ts tsx vue zig "
    "css scss",
    "data": "json jsonl csv tsv yaml yml toml ini cfg xml log",
}
_SUFFIXES = {suffix: kind for kind, suffixes in _SUFFIXES_BY_KIND.items() for suffix in suffixes.split()}


@dataclass(frozen=True, slots=True)
class Content:
    """A parsed document: its kind, title and blocks. `note` says what was left out or is uncertain."""

    kind: str
    title: str
    blocks: tuple[DocumentBlock, ...]
    note: str = ""


def read(body: bytes, name: str, content_type: str = "") -> Content:
    """Parse a document by its name and content.

    Raises ToolError if it contains no readable text, and MissingExtra for a PDF without pypdf.
    """
    document = parse_document(body)
    if document is not None and document.kind != "pdf":
        reader = sheet_blocks if _WORKBOOK in body else markdown_blocks
        return Content("office", document.title, _without_line_numbers(reader(document.text)), document.note)
    if document is not None:
        found = ((block.text, page) for page, text in enumerate(document.pages, 1) for block in text_blocks(text))
        blocks = tuple(DocumentBlock(text, (), 0, page) for text, page in found)
        return Content("pdf", document.title, blocks, document.note)
    kind = _kind(body, name, content_type)
    decoded = decode(body, content_type)
    text = remove_controls(decoded.text)
    if kind == "html":
        content = _read_html(text, name)
    elif PurePath(name).suffix.lower() in _TABLE_SUFFIXES:
        content = Content(kind, "", tuple(table_blocks(text)))
    else:
        content = read_text(text, kind)
    return replace(content, note=" ".join(filter(None, (decoded.note, content.note))))


def read_text(text: str, kind: str) -> Content:
    """Parse a text of one of the textual kinds. Line numbers are those of `text`."""
    blocks = tuple(_READERS[kind](text))
    title = blocks[0].section[0] if kind == "markdown" and blocks and blocks[0].section else ""
    return Content(kind, title, blocks)


def _kind(body: bytes, name: str, content_type: str) -> str:
    """Detect the kind by first bytes, suffix and content type. Raises ToolError for binary data."""
    named = _SUFFIXES.get(PurePath(name).suffix[1:].lower(), "")
    found = kind_of(content_type or ("text/plain" if named not in ("", "html") else ""), body)
    if found == "binary" or named == "pdf":
        raise ToolError(
            "it is not text; supported are Markdown, HTML, PDF, Word, Excel, PowerPoint, OpenDocument, plain text, "
            "source code and text data"
        )
    return "html" if found == "html" else named or "text"


def _read_html(text: str, name: str) -> Content:
    """Parse a web page as Markdown, without line numbers, since they differ from those of the source."""
    parsed = read_url(name)
    base = parsed if isinstance(parsed, Url) else _UNKNOWN_BASE
    page = read_html(text, base)
    if page.error:
        raise ToolError(page.error)
    plain = _RELATIVE_LINK.sub(r"\1", page.text)
    note = " ".join(filter(None, [page.note, f"{page.cut}." if page.cut else ""]))
    return Content("html", page.title, _without_line_numbers(markdown_blocks(plain)), note)


def _without_line_numbers(blocks: Iterable[DocumentBlock]) -> tuple[DocumentBlock, ...]:
    """Remove line numbers from blocks whose text is not the document itself."""
    return tuple(replace(each, line=0, page=None) for each in blocks)
