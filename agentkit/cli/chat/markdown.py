"""Markdown rendering for terminals; the only module that imports rich and markdown-it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agentkit.cli.terminal import clean
from agentkit.text_encoding import split_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.segment import Segment

_LISTS = ("bullet_list_open", "ordered_list_open")
_NUMBER_COLUMNS = 4
_RULE_COLUMNS = 40
_STYLES = {
    # without backgrounds, and without colours that are unreadable on a light or a dark screen
    "markdown.h1": "bold underline",
    "markdown.h2": "bold underline",
    "markdown.h3": "bold",
    "markdown.h4": "bold italic",
    "markdown.code": "cyan",
    "markdown.block_quote": "italic",
    "markdown.link_url": "underline",
    "markdown.item.bullet": "cyan",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}
_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


class Line(NamedTuple):
    """A line of the screen: its text with colour escape sequences, and its width in columns."""

    text: str
    width: int


class MarkdownBlock(NamedTuple):
    """A part of a Markdown text that is rendered separately: a paragraph, a table, a list item.

    `item` is the number of an ordered list item, 0 for a bullet item, None outside lists.
    """

    source: str
    item: int | None = None


class Renderer:
    """Render Markdown as lines, with or without colours."""

    def __init__(self, *, has_colour: bool) -> None:
        self._has_colour = has_colour

    def markdown(self, source: str, width: int, item: int | None = None) -> list[Line]:
        """Render one block as lines of at most `width` columns; `item` is the number of its first list item."""
        tokens = list(_prepare_tokens(_parser().parse(source), item))
        console = _console(max(width, _NUMBER_COLUMNS + 2), has_colour=self._has_colour)
        lines = list(map(self._line, console.render_lines(_markdown(tokens), pad=False)))
        filled = [index for index, line in enumerate(lines) if line.width]
        return lines[filled[0] : filled[-1] + 1] if filled else []

    def apply_style(self, text: str, style: str) -> str:
        """Apply a style such as `bold red` to a text, after removing terminal control sequences."""
        from rich.style import Style

        return self._colour(clean(text), Style.parse(style))

    def wrap(self, text: str, style: str, width: int) -> list[str]:
        """Wrap a text between words, and style its lines."""
        from rich.text import Text

        rows = _console(max(width, 1), has_colour=False).render_lines(Text(clean(text)), pad=False)
        return [self.apply_style("".join(piece.text for piece in row).rstrip(), style) for row in rows]

    def diff(self, text: str) -> list[str]:
        """Render a unified diff as lines, with additions and deletions in colours."""
        return [self.apply_style(line, _diff_style(line)) for line in split_lines(text)]

    def _line(self, segments: list[Segment]) -> Line:
        from rich.cells import cell_len

        pieces = [(clean(segment.text), segment.style) for segment in segments]
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
        if pieces:
            pieces[-1] = pieces[-1][0].rstrip(), pieces[-1][1]
        text = "".join(piece if style is None else self._colour(piece, style) for piece, style in pieces)
        return Line(text, sum(cell_len(piece) for piece, _ in pieces))

    def _colour(self, text: str, style: Any) -> str:
        """Apply a style to a text, without its hyperlink: a terminal would hide the target."""
        from rich.color import ColorSystem

        system = ColorSystem.STANDARD if self._has_colour else None
        rendered: str = style.update_link(None).render(text, color_system=system)
        return rendered


def load() -> None:
    """Import the rendering libraries in advance, because that is slow."""
    Renderer(has_colour=True).markdown("```python\nx\n```", _RULE_COLUMNS)


def text_width(text: str) -> int:
    """The width of a text in terminal columns."""
    from rich.cells import cell_len

    return cell_len(text)


def truncate(text: str, width: int) -> str:
    """Cut a text to one line of at most `width` columns."""
    from rich.cells import set_cell_size

    line = " ".join(text.split())
    return line if text_width(line) <= width else f"{set_cell_size(line, max(width - 1, 0)).rstrip()}…"


def blocks(source: str) -> list[MarkdownBlock]:
    """Split a Markdown text into blocks that can be rendered separately, in order. Only blank lines are dropped."""
    lines = source.split("\n")
    starts = list(_starts(_parser().parse(source)))
    ends = [*(start for start, _ in starts[1:]), len(lines)]
    return [MarkdownBlock("\n".join(lines[start:end]), item) for (start, item), end in zip(starts, ends, strict=False)]


def stable_part(source: str) -> str:
    """A block that is still streaming, without the parts whose rendering would change with more text."""
    if source.lstrip(" ").startswith(("```", "~~~")):
        return re.sub(r"\n[ ]{0,3}(`+|~+)$", "\n", source)
    lines = source.rstrip("\n").split("\n")
    if lines[0].lstrip().startswith("|"):
        # The complete rows, once there are enough to recognise a table
        rows = lines if source.endswith("\n") else lines[:-1]
        return "\n".join(rows) if len(rows) > 1 else ""
    text = re.sub(r"(?:(?<=\n)|^)[ ]{0,3}(?:[-+*=#>~]+|\d+[.)]?)[ ]*$", "", source)
    text = re.sub(r"!?\[([^\]\n]*)(?:\]\([^)\s]*)?$", r"\1", text)
    text = re.sub(r"(?<!\\)[*_`~]+$", "", text)
    return text + _closing_marks(text)


def _closing_marks(text: str) -> str:
    """The marks that close code and strong text left open at the end of a text."""
    paragraph = text.rpartition("\n\n")[2]
    if paragraph.count("`") % 2:
        return "`"
    without_code = re.sub(r"`[^`]*`", "", paragraph)
    return "**" if without_code.count("**") % 2 and not without_code.endswith((" ", "\n")) else ""


def _diff_style(line: str) -> str:
    return next((style for start, style in _DIFF_STYLES if line.startswith(start)), "none")


@cache
def _parser() -> MarkdownIt:
    """A parser that drops none of a model's text: HTML and link definitions are rendered as text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")


def _starts(tokens: Iterable[Token]) -> Iterator[tuple[int, int | None]]:
    """Yield the first line of each block, and its list number."""
    number = 0
    for token in tokens:
        if token.map is None or token.nesting < 0:
            continue
        if token.type in _LISTS and token.level == 0:
            number = int(token.attrs.get("start", 1)) if token.type == "ordered_list_open" else 0
        elif token.type == "list_item_open" and token.level == 1:
            yield token.map[0], number
            number += bool(number)
        elif token.level == 0:
            yield token.map[0], None


def _prepare_tokens(tokens: list[Token], item: int | None) -> Iterator[Token]:
    """The tokens to render: with link and image targets, and with line breaks as in the source."""
    for token in tokens:
        if token.type == "ordered_list_open" and token.level == 0 and item is not None:
            token.attrs["start"] = item
        if token.children is not None:
            token.children = list(_prepare_inline(token.children))
        yield token


def _prepare_inline(tokens: list[Token]) -> Iterator[Token]:
    from markdown_it.token import Token

    target, label = "", ""
    for token in tokens:
        label += token.content
        match token.type:
            case "softbreak":
                yield Token("hardbreak", "br", 0)
            case "image":
                yield Token("text", "", 0, content=f"[image: {token.content}] ({token.attrs.get('src', '')})")
            case "link_open":
                target, label = str(token.attrs.get("href", "")), ""
                yield token
            case "link_close":
                yield token
                if label not in (target, target.removeprefix("mailto:")):
                    yield Token("text", "", 0, content=f" ({target})")
            case _:
                yield token


def _markdown(tokens: list[Token]) -> Markdown:
    markdown = _markdown_class()("")
    markdown.parsed = tokens
    return markdown


@cache
def _markdown_class() -> type[Markdown]:
    """Rich's Markdown adapted to conversations: headings on the left, code without a box."""
    from rich import markdown
    from rich.padding import Padding
    from rich.segment import Segment as Piece
    from rich.syntax import Syntax
    from rich.text import Text

    class Heading(markdown.Heading):
        def __rich_console__(self, _console: Any, _options: Any) -> Iterator[Any]:
            yield self.text

    class Code(markdown.CodeBlock):
        def __rich_console__(self, _console: Any, _options: Any) -> Iterator[Any]:
            code = clean(str(self.text)).rstrip()
            syntax = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True)
            yield Padding(syntax, (0, 0, 0, 2))

    class HorizontalLine(markdown.HorizontalRule):
        def __rich_console__(self, _console: Any, options: Any) -> Iterator[Any]:
            yield Text("─" * min(options.max_width, _RULE_COLUMNS), "dim")

    class Item(markdown.ListItem):
        def render_number(self, console: Any, options: Any, number: int, _last: int) -> Iterator[Any]:
            width = max(_NUMBER_COLUMNS, len(str(number)) + 2)
            style = console.get_style("markdown.item.number", default="none")
            rows = console.render_lines(self.elements, options.update(width=options.max_width - width))
            for index, row in enumerate(rows):
                yield Piece(" " * width if index else f"{number}. ".rjust(width), style)
                yield from (*row, Piece("\n"))

    class ConversationMarkdown(markdown.Markdown):
        elements = markdown.Markdown.elements | {
            "heading_open": Heading,
            "fence": Code,
            "code_block": Code,
            "hr": HorizontalLine,
            "list_item_open": Item,
        }

    return ConversationMarkdown


def _console(width: int, *, has_colour: bool) -> Console:
    """A console of the given width that ignores the environment and writes nothing."""
    from rich.console import Console
    from rich.theme import Theme

    system: Literal["standard"] | None = "standard" if has_colour else None
    return Console(
        width=width,
        height=10_000,
        color_system=system,
        force_terminal=True,
        legacy_windows=False,
        emoji=False,
        markup=False,
        highlight=False,
        theme=Theme(_STYLES),
        _environ={},
    )
