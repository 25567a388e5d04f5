"""Tests for the redrawing of live output, also after the terminal was resized."""

import os
import re

from agentkit.cli.chat.markdown import Line
from agentkit.cli.chat.screen import LiveRegion

PIECE = re.compile(r"\x1b\[\?2026[hl]|\x1b\[(\d+)A|\x1b\[K|\x1b\[J|\r|\n|[^\x1b\r\n]")


class Emulated:
    """A terminal emulator that can be resized and rewraps its lines, as most terminals do."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column, self.written = [""], 0, 0, 0

    def write(self, text):
        """Process the output."""
        self.written += len(text)
        for piece in PIECE.finditer(text):
            self._obey(piece[0], piece[1])
        assert PIECE.sub("", text) == ""

    def flush(self):
        """Do nothing."""

    def _obey(self, piece, count):
        if count:
            assert int(count) < self.rows, "The cursor moved above the screen."
            self.row -= int(count)
            assert self.row >= 0, "The cursor moved up too far."
        elif piece == "\x1b[K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif piece == "\x1b[J":
            self.lines[self.row + 1 :] = []
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif piece == "\r":
            self.column = 0
        elif piece == "\n":
            self.row, self.column = self.row + 1, 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif len(piece) == 1:
            assert self.column < self.columns, "A line is wider than the screen."
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + piece + line[self.column + 1 :]
            self.column += 1

    def get_size(self):
        """Return the size like `shutil.get_terminal_size`."""
        return os.terminal_size((self.columns, self.rows))

    def resize(self, columns):
        """Rewrap the lines."""
        pieces = [
            [line[at : at + columns] for at in range(0, max(len(line), 1), columns)] for line in self.lines[: self.row]
        ]
        self.lines = [piece for line in pieces for piece in line] + [""]
        self.row, self.column, self.columns = len(self.lines) - 1, 0, columns


def lines(*texts):
    """Return the lines without colours."""
    return [Line(text, len(text)) for text in texts]


def test_live_region_is_redrawn_below_kept_lines():
    """New lines replace the live region; kept lines remain above it."""
    screen = Emulated(20, 10)
    live = LiveRegion(screen, screen.get_size)
    for shown in (["a"], ["a", "b"], ["a", "bb", "c"], ["x"], ["x", "y"]):
        live.show(lines(*shown))
        assert screen.lines == [*shown, ""]
    live.commit(lines("done"))
    live.show(lines("next"))
    assert screen.lines == ["done", "next", ""]


def test_unchanged_lines_are_not_written_again():
    """Unchanged lines are not written again."""
    screen = Emulated(80, 30)
    live = LiveRegion(screen, screen.get_size)
    live.show(lines(*("a long line that stays as it is" for _ in range(20)), "x"))
    written = screen.written
    live.show(lines(*("a long line that stays as it is" for _ in range(20)), "xy"))
    assert screen.written - written < 40
    written = screen.written
    live.show(lines(*("a long line that stays as it is" for _ in range(20)), "xy"))
    assert screen.written == written


def test_lines_beyond_the_screen_are_written_when_kept():
    """Only the lines that fit are drawn live; keep() writes all of them."""
    screen = Emulated(20, 6)
    live = LiveRegion(screen, screen.get_size)
    for count in range(1, 12):
        live.show(lines(*map(str, range(count))))
        assert screen.lines == [*map(str, range(max(0, count - 4), count)), ""]
    live.commit(lines(*map(str, range(11))))
    assert screen.lines == [*map(str, range(11)), ""]


def test_resize_clears_the_rewrapped_rows():
    """After a resize, exactly the rows that the rewrapped lines occupy are cleared."""
    screen = Emulated(40, 30)
    live = LiveRegion(screen, screen.get_size)
    live.commit(lines("what stays"))
    live.show(lines("a" * 35, "b" * 5))
    screen.resize(10)
    live.show(lines("a" * 10, "b" * 5))
    assert screen.lines == ["what stays", "a" * 10, "b" * 5, ""]
    screen.resize(40)
    live.show(lines("a" * 20))
    assert screen.lines == ["what stays", "a" * 20, ""]
