"""How are Markdown and plain text built? Headings, paragraphs, and code between fences (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentkit.knowledge.passages import Block

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.+?)\s*#*\s*$")
_UNDERLINE = re.compile(r"(={3,}|-{3,}|~{3,}|\^{3,})\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LEVELS = {"=": 1, "-": 2, "~": 3, "^": 4}
_MAX_HEADING_CHARS = 120
_MAX_HEADING_LINE_CHARS = 1_000
"""A longer line is no heading: to match one takes time that grows faster than the line."""


@dataclass
class _Reading:
    """What was read so far: the headings above, and the lines of the block that is going on."""

    headings: dict[int, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    begin: int = 1
    fence: str = ""

    @property
    def section(self) -> tuple[str, ...]:
        return tuple(self.headings[level] for level in sorted(self.headings))

    def take(self, line: str, number: int) -> None:
        """One more line of the block."""
        if not self.lines:
            self.begin = number
        self.lines.append(line)

    def end(self, *, is_code: bool = False) -> Iterator[Block]:
        """The block that was going on, if any."""
        if any(line.strip() for line in self.lines):
            yield Block("\n".join(self.lines), self.section, self.begin, is_code=is_code)
        self.lines = []

    def enter(self, level: int, title: str) -> None:
        """A heading: those of its level and below are over."""
        self.headings = {above: text for above, text in self.headings.items() if above < level}
        self.headings[level] = " ".join(title.split())[:_MAX_HEADING_CHARS]


def blocks_of_markdown(text: str) -> Iterator[Block]:
    """The paragraphs, headings and fenced code of Markdown; a heading begins the section that it names."""
    reading = _Reading()
    for number, line in enumerate(text.split("\n"), 1):
        if reading.fence or _FENCE.match(line):
            yield from _fenced(reading, line, number)
        elif not line.strip():
            yield from reading.end()
        elif len(line) <= _MAX_HEADING_LINE_CHARS and (heading := _HEADING.match(line)):
            yield from reading.end()
            reading.enter(len(heading[1]), heading[2])
            yield Block(line, reading.section, number)
        elif len(reading.lines) == 1 and (mark := _UNDERLINE.match(line)):
            reading.enter(_LEVELS[mark[1][0]], reading.lines[0])
            reading.take(line, number)
            yield from reading.end()
        else:
            reading.take(line, number)
    yield from reading.end(is_code=bool(reading.fence))


def _fenced(reading: _Reading, line: str, number: int) -> Iterator[Block]:
    """A line of code, or one of the fences around it."""
    if not reading.fence:
        yield from reading.end()
        found = _FENCE.match(line)
        reading.fence = found[1] if found else ""
        reading.take(line, number)
        return
    reading.take(line, number)
    if line.strip().startswith(reading.fence) and not line.strip().strip(reading.fence[0]):
        yield from reading.end(is_code=True)
        reading.fence = ""


def blocks_of_text(text: str) -> Iterator[Block]:
    """The paragraphs of plain text."""
    reading = _Reading()
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            reading.take(line, number)
        else:
            yield from reading.end()
    yield from reading.end()


def blocks_of_lines(text: str) -> Iterator[Block]:
    """Data and logs, which are cut at their lines."""
    if text.strip():
        yield Block(text, (), 1, is_code=True)
