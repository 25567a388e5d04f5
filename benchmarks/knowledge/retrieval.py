"""Retrieval quality of agentkit's knowledge store compared with baselines.

    python -m benchmarks --scenarios knowledge [--half development | held-out]

Questions and documents are generated from the standard library (`questions.py`). Lines are compared, independent of how
a method splits documents: recall is the share of the function's lines that are returned, precision the share of the
returned lines that belong to the function, and MRR the mean of 1/rank of the first passage with any of them. Since this
favours long passages, the last columns show the MRR of the first passage with nearly the whole answer, and the share of
the answer in the first hundred returned lines. `ranks.py` compares rankings of the same passages, also for other texts.
Vectors of a model are included if the package wordllama, which contains its weights, is installed.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import util
from pathlib import Path
from typing import Any

from agentkit.knowledge import Chunk, Knowledge
from benchmarks.knowledge import ranks
from benchmarks.knowledge.embeddings import Embed, wordllama
from benchmarks.knowledge.questions import Question, make

CUTS = (1, 5, 10)
SHOWN = 30
ROOM = 100
WHOLE = 0.9
WINDOW_CHARS = 1_200

Span = tuple[str, int, int]
"""A document, and the first and last line that are returned."""

Search = Callable[[str], Sequence[Span]]


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table; `half` is the option of the command line."""
    yield from ["### Retrieval", ""]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "documents"
        folder.mkdir()
        made = make(folder)
        chosen = [each for each in made if options.half in (None, "held-out" if each.held_out else "development")]
        documents = {path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())}
        yield f"{len(chosen)} questions on {len(documents)} modules of Python {sys.version.split()[0]}."
        cuts = " | ".join(f"recall@{k} | precision@{k}" for k in CUTS)
        yield from ["", f"| method | {cuts} | MRR | MRR of whole answers | recall in {ROOM} lines | median ms |"]
        yield "|---" * (2 * len(CUTS) + 5) + "|"
        for way, search in ways(folder, documents, Path(name)):
            yield row(way, search, chosen)
    yield from ranks.tables(options)


def ways(folder: Path, documents: dict[str, str], home: Path) -> Iterator[tuple[str, Search]]:
    """The search methods, baseline first."""
    windows = [window for name, text in documents.items() for window in windows_of(name, text)]
    yield "grep: most distinct words of the question", grepping(windows)
    yield "BM25 over windows, without stemming", ranking(windows)
    with Knowledge(home / "words.db") as words:
        words.add(folder)
        yield "agentkit, words", lambda question: spans(words.search(question, SHOWN))
    if util.find_spec("wordllama"):
        embed = wordllama()
        with Knowledge(home / "both.db", embed=embed) as both:
            both.add(folder)
            yield "vectors only (wordllama)", nearest(both, embed)
            yield "agentkit, words and vectors", lambda question: spans(both.search(question, SHOWN))


def windows_of(name: str, text: str) -> Iterator[tuple[Span, str]]:
    """Split a document into windows of whole lines."""
    taken: list[str] = []
    first = 1
    for number, line in enumerate([*text.split("\n"), None], 1):
        if line is None or sum(map(len, taken)) + len(taken) + len(line) > WINDOW_CHARS:
            if taken:
                yield (name, first, number - 1), "\n".join(taken)
            taken, first = [], number
        taken.append(line or "")


def grepping(windows: Sequence[tuple[Span, str]]) -> Search:
    """Rank windows by the number of distinct words of the question in them, as with grep."""
    lowered = [(span, text.lower()) for span, text in windows]

    def search(question: str) -> list[Span]:
        words = set(re.findall(r"\w+", question.lower()))
        scored = [(sum(word in text for word in words), span) for span, text in lowered]
        return [span for _, span in sorted(scored, key=lambda each: -each[0])[:SHOWN]]

    return search


def ranking(windows: Sequence[tuple[Span, str]]) -> Search:
    """Rank windows by SQLite's BM25."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE windows USING fts5 (text)")
    connection.executemany("INSERT INTO windows VALUES (?)", [(text,) for _, text in windows])

    def search(question: str) -> list[Span]:
        query = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        statement = "SELECT rowid FROM windows WHERE windows MATCH ? ORDER BY rank LIMIT ?"
        return [windows[number - 1][0] for (number,) in connection.execute(statement, (query, SHOWN))]

    return search


def nearest(knowledge: Knowledge, embed: Embed) -> Search:
    """Rank passages by vectors only."""
    from agentkit.knowledge.chunks import SearchScope
    from agentkit.knowledge.embeddings import open_vectors

    made = open_vectors(knowledge.store, "knowledge/default", embed, None)

    def search(question: str) -> list[Span]:
        scope = SearchScope("knowledge/default")
        found = knowledge.store.find_vector(scope, made.embed_question(question) if made else [], SHOWN)
        known = knowledge.store.passages([number for number, _ in found])
        return spans([known[number] for number, _ in found])

    return search


def spans(passages: Sequence[Chunk]) -> list[Span]:
    """The lines of passages."""
    return [(Path(each.source).name, each.first_line or 0, each.last_line or 0) for each in passages]


def row(way: str, search: Search, questions: Sequence[Question]) -> str:
    """One row of the table."""
    seconds, found = [], []
    for question in questions:
        begin = time.perf_counter()
        shown = search(question.text)
        seconds.append(time.perf_counter() - begin)
        found.append((question, shown))
    cells = [cell for k in CUTS for cell in (mean(recall, found, k), mean(precision, found, k))]
    cells += [
        mean(reciprocal_rank, found, max(CUTS)),
        mean(reciprocal_rank_of_whole, found, max(CUTS)),
        mean(recall_in_room, found, SHOWN),
        f"{statistics.median(seconds) * 1_000:.1f}",
    ]
    return f"| {way} | {' | '.join(cells)} |"


def mean(measure: Callable[[Question, Sequence[Span]], float], found: Sequence[Any], k: int) -> str:
    """The mean of a metric over the first `k` passages."""
    return f"{statistics.fmean(measure(question, shown[:k]) for question, shown in found):.2f}"


def lines_of(question: Question, shown: Sequence[Span]) -> tuple[set[int], int]:
    """The number of returned lines of the answer, and of all returned lines."""
    lines = {(name, line) for name, first, last in shown for line in range(first, last + 1)}
    answer = range(question.first_line, question.last_line + 1)
    return {line for name, line in lines if name == question.document and line in answer}, len(lines)


def recall(question: Question, shown: Sequence[Span]) -> float:
    """The share of the answer that is returned."""
    return len(lines_of(question, shown)[0]) / (question.last_line - question.first_line + 1)


def precision(question: Question, shown: Sequence[Span]) -> float:
    """The share of the returned lines that belong to the answer."""
    hits, total = lines_of(question, shown)
    return len(hits) / total if total else 0.0


def recall_in_room(question: Question, shown: Sequence[Span]) -> float:
    """The share of the answer in the first returned lines."""
    room, taken = ROOM, []
    for name, first, last in shown:
        taken.append((name, first, min(last, first + room - 1)))
        room -= last - first + 1
        if room <= 0:
            break
    return recall(question, taken)


def reciprocal_rank(question: Question, shown: Sequence[Span]) -> float:
    """Reciprocal rank of the first passage with a part of the answer."""
    ranks = (rank for rank, span in enumerate(shown, 1) if lines_of(question, [span])[0])
    return 1 / next(ranks, float("inf"))


def reciprocal_rank_of_whole(question: Question, shown: Sequence[Span]) -> float:
    """Reciprocal rank of the first passage with nearly the whole answer."""
    ranks = (rank for rank, span in enumerate(shown, 1) if recall(question, [span]) >= WHOLE)
    return 1 / next(ranks, float("inf"))
