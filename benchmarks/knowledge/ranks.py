"""Ranking quality of several methods over the same passages.

A passage answers a question if it contains a line of the function, or the words of the answer. MRR@10 is the mean of
1/rank of the first answering passage among ten, recall@5 the share of the answering passages among the first five, and
nDCG@10 the discounted gain of the first ten relative to the best order. The held-out half was not used for tuning.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentkit.knowledge import Chunk, Knowledge
from agentkit.knowledge.chunks import SearchScope
from agentkit.knowledge.embeddings import open_vectors
from agentkit.knowledge.stores.store import text_to_embed
from benchmarks.knowledge.embeddings import Embed, embeddings
from benchmarks.knowledge.gathering import Collection, collections
from benchmarks.knowledge.plainly import PlainRanking

SHOWN = 10
SPACE = "knowledge/default"
HALVES = {False: "development", True: "held-out"}

Search = Callable[[str], Sequence[int]]
Judged = list[tuple[str, set[int]]]
"""Questions with the numbers of their answering passages."""


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield a table for each collection."""
    with tempfile.TemporaryDirectory() as name:
        for collection in collections(Path(name)):
            yield from table(collection, Path(name), options.half)


def table(collection: Collection, home: Path, half: str | None) -> Iterator[str]:
    """The ranking methods for a collection, baseline first."""
    with Knowledge(home / f"{collection.folder.name}.db") as words:
        begin = time.process_time()
        words.add(collection.folder)
        seconds = time.process_time() - begin
        passages = everything(words)
        chosen = [each for each in collection.questions if half in (None, HALVES[each.held_out])]
        judged = [(each.text, {one.number for one in passages if each.answers(one)}) for each in chosen]
        asked = [each for each in judged if each[1]]
        yield from ["", f"### {collection.title}", ""]
        yield (
            f"{len(asked)} questions on {len(passages)} passages, indexed in {seconds * 1_000 / len(passages):.2f} ms"
            f" each; {len(judged) - len(asked)} others have no answer in these texts."
        )
        yield from ["", "| method | MRR@10 | recall@5 | nDCG@10 | median ms |", "|---|---|---|---|---|"]
        plain = PlainRanking({each.number: each.text for each in passages})
        yield row("plain BM25 over the same passages", lambda question: plain.search(question, SHOWN), asked)
        yield row("agentkit, words", numbers(words), asked)
        texts = [text_to_embed(each.title, each.section, each.text) for each in passages]
        for name, embed in embeddings(texts):
            yield from with_vectors(name, embed, home / f"{collection.folder.name}-{name}.db", collection, asked)


def with_vectors(name: str, embed: Embed, place: Path, collection: Collection, asked: Judged) -> Iterator[str]:
    """The rankings of a collection by vectors, and by words and vectors."""
    with Knowledge(place, embed=embed) as both:
        both.add(collection.folder)
        yield row(f"vectors only ({name})", nearest(both, embed), asked)
        yield row(f"agentkit, words and vectors ({name})", numbers(both), asked)


def everything(knowledge: Knowledge) -> list[Chunk]:
    """All passages, by number."""
    total = sum(document.passages for document in knowledge.documents)
    return list(knowledge.store.passages(range(1, total + 1)).values())


def numbers(knowledge: Knowledge) -> Search:
    """Rank with agentkit's search."""
    return lambda question: [each.number for each in knowledge.search(question, SHOWN)]


def nearest(knowledge: Knowledge, embed: Embed) -> Search:
    """Rank by vectors only."""
    made = open_vectors(knowledge.store, SPACE, embed, None)

    def search(question: str) -> list[int]:
        vector = made.embed_question(question) if made else []
        return [number for number, _ in knowledge.store.find_vector(SearchScope(SPACE), vector, SHOWN)]

    return search


def row(way: str, search: Search, asked: Judged) -> str:
    """One row of the table."""
    seconds, figures = [], []
    for question, answers in asked:
        begin = time.perf_counter()
        shown = search(question)
        seconds.append(time.perf_counter() - begin)
        figures.append((reciprocal_rank(shown, answers), recall(shown[:5], answers), gain(shown, answers)))
    means = " | ".join(f"{statistics.fmean(each):.3f}" for each in zip(*figures, strict=True))
    return f"| {way} | {means} | {statistics.median(seconds) * 1_000:.1f} |"


def reciprocal_rank(shown: Sequence[int], answers: set[int]) -> float:
    """Reciprocal rank of the first answering passage; 0 without one."""
    return next((1 / rank for rank, number in enumerate(shown, 1) if number in answers), 0.0)


def recall(shown: Sequence[int], answers: set[int]) -> float:
    """The share of the answering passages that were returned."""
    return len(answers.intersection(shown)) / len(answers)


def gain(shown: Sequence[int], answers: set[int]) -> float:
    """Normalised discounted cumulative gain of the returned passages."""
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(SHOWN, len(answers)) + 1))
    return sum(1 / math.log2(rank + 1) for rank, number in enumerate(shown, 1) if number in answers) / best
