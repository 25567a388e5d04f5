"""The collections of documents and their questions."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib import import_module
from pathlib import Path

from agentkit.knowledge import Chunk
from benchmarks.knowledge.questions import make

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
_SAME = 0.8
"""A chapter is skipped if longer chapters contain this share of it."""


@dataclass(frozen=True)
class Asked:
    """A question, and a predicate for passages that answer it; `held_out` questions are not used for tuning."""

    text: str
    answers: Callable[[Chunk], bool]
    held_out: bool


@dataclass(frozen=True)
class Collection:
    """A folder of texts with their questions."""

    title: str
    folder: Path
    questions: list[Asked]


def collections(home: Path) -> Iterable[Collection]:
    """Write the collections below a folder, and yield them."""
    yield functions(_made(home / "functions"))
    yield project(_made(home / "project"))
    yield language(_made(home / "language"))
    yield tables(_made(home / "tables"))


def functions(folder: Path) -> Collection:
    """Modules of the standard library without the first sentences of their docstrings, which are the questions."""

    def answering(name: str, first: int, last: int) -> Callable[[Chunk], bool]:
        return lambda each: (
            Path(each.source).name == name and (each.first_line or 0) <= last and (each.last_line or 0) >= first
        )

    asked = [
        Asked(each.text, answering(each.document, each.first_line, each.last_line), each.held_out)
        for each in make(folder)
    ]
    return Collection("Functions of the standard library", folder, asked)


def project(folder: Path) -> Collection:
    """The documentation of agentkit with questions of users."""
    for page in [*PROJECT.glob("docs/**/*.md"), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]:
        (folder / "_".join(page.relative_to(PROJECT).parts)).write_text(page.read_text("utf-8"), "utf-8")
    return Collection("Documentation of agentkit", folder, written("project"))


def language(folder: Path) -> Collection:
    """The reference that comes with Python, with questions of beginners."""
    topics: Mapping[str, str] = import_module("pydoc_data.topics").topics
    seen: set[str] = set()
    for name, text in sorted(topics.items(), key=lambda each: (-len(each[1]), each[0])):
        parts = [flat(part) for part in text.split("\n\n")[1:]]
        if sum(len(part) for part in parts if part in seen) <= _SAME * sum(map(len, parts)):
            (folder / f"{name}.md").write_text(text, "utf-8")
            seen.update(parts)
    return Collection("Reference of Python", folder, written("language"))


def tables(folder: Path) -> Collection:
    """Tables of the standard library as CSV and Markdown; the questions are descriptions in their rows.

    A passage answers a question if it contains the row and the header.
    """
    statuses = [(str(int(each)), each.phrase, each.description or each.phrase) for each in HTTPStatus]
    errors = [(str(code), name, os.strerror(code)) for code, name in sorted(errno.errorcode.items())]
    asked = []
    for name, first, rows in (("statuses.csv", "status", statuses), ("errors.md", "number", errors)):
        lines = [(first, "name", "description"), *rows]
        if name.endswith(".csv"):
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows(lines)
            text = out.getvalue()
        else:
            table = [f"| {' | '.join(line)} |" for line in lines]
            text = "\n".join([table[0], "|---|---|---|", *table[1:]])
        (folder / name).write_text(text, "utf-8")
        asked += [Asked(row[2], _row_answering(row[:2], first), is_held_out(row[2])) for row in rows]
    return Collection("Tables", folder, asked)


def _row_answering(cells: tuple[str, ...], header: str) -> Callable[[Chunk], bool]:
    row = re.compile(r"[,| ]+".join(map(re.escape, cells)))
    return lambda each: row.search(each.text) is not None and header in each.text.partition("\n")[0]


def written(name: str) -> list[Asked]:
    """Read the questions of a file, each with words that its answer contains."""

    def answering(words: str) -> Callable[[Chunk], bool]:
        return lambda each: words in flat(each.text)

    known: dict[str, str] = tomllib.loads((HERE / f"{name}.toml").read_text("utf-8"))["questions"]
    return [Asked(text, answering(flat(words)), is_held_out(text)) for text, words in known.items()]


def is_held_out(text: str) -> bool:
    """Whether a question is held out, as about half of them are."""
    return int(sha256(text.encode()).hexdigest(), 16) % 2 == 1


def flat(text: str) -> str:
    """A text with normalised white space."""
    return " ".join(text.split())


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
