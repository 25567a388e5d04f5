"""Splitting of text into lines, and data files of one row to a line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def split_lines(text: str, *, keepends: bool = False) -> list[str]:
    r"""Split a text at `\n` and `\r\n` only.

    `str.splitlines` also splits at U+2028, U+0085, form feeds and seven other characters. Editors display those within
    a line, so untrusted text could hide a second line in what a person reads as one.
    """
    *whole, last = text.split("\n")
    lines = [f"{line}\n" for line in whole] if keepends else [line.removesuffix("\r") for line in whole]
    return [*lines, last] if last else lines


def sentence(text: str) -> str:
    """A text as a sentence, with a full stop if it does not end with punctuation, so that another can follow."""
    text = text.rstrip()
    return text if not text or text[-1] in ".!?…:;)\"'" else f"{text}."


def read_table(path: Path) -> Iterator[list[str]]:
    """The rows of a data file, split at two or more spaces; blank lines and comments (#) are left out."""
    for line in split_lines(path.read_text("utf-8")):
        if line and not line.startswith("#"):
            yield [cell.strip() for cell in line.split("  ") if cell]
