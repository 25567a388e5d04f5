"""How is what changes at the end of a terminal drawn again, without flicker and correctly after a resize?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TextIO

from agentkit.cli.chat.showing.rendering import Line

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around what a terminal shows in one piece; one that does not know them passes over them."""

_ERASE_REST, _ERASE_BELOW = "\x1b[K", "\x1b[J"
_SPARE_ROWS = 2


class Live:
    """The last lines of a terminal, which can be drawn again until they are kept.

    Only those that have changed are written, in one piece. When the terminal got narrower meanwhile, it has broken the
    lines anew, so that they are counted as they stand now. Of more lines than the screen has, the last are shown.
    """

    def __init__(self, stream: TextIO, size: Callable[[], os.terminal_size] = shutil.get_terminal_size) -> None:
        self._stream, self._size = stream, size
        self._shown: list[Line] = []
        self._columns = 0

    def show(self, lines: Sequence[Line]) -> None:
        """Put these lines in the place of those that were shown."""
        room = max(1, self._size().lines - _SPARE_ROWS)
        self._draw(lines[-room:])

    def keep(self, lines: Sequence[Line]) -> None:
        """Put these lines in the place of those that were shown, all of them and for good."""
        self._draw(lines)
        self._shown = []

    def _draw(self, lines: Sequence[Line]) -> None:
        size = self._size()
        same = 0
        if size.columns == self._columns:
            pairs = zip(self._shown, lines, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if same == len(self._shown) == len(lines):
            return
        rows = min(sum(_rows(line, size.columns) for line in self._shown[same:]), size.lines - 1)
        up = f"\x1b[{rows}A\r" if rows else ""
        text = "".join(f"{line.text}{_ERASE_REST}\n" for line in lines[same:])
        self._stream.write(f"{_BEGIN}{up}{text}{_ERASE_BELOW}{_END}")
        self._stream.flush()
        self._shown, self._columns = list(lines), size.columns


def _rows(line: Line, columns: int) -> int:
    """How many rows of the screen a line takes."""
    return max(1, -(-line.width // max(columns, 1)))
