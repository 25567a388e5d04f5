"""Embeddings that need no network: hashed character n-grams, and the vectors of the package wordllama."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module, util
from pathlib import Path
from typing import Any
from zlib import crc32

Embed = Callable[[list[str]], list[list[float]]]

DIMENSIONS = 256
SPREAD = 4
"""The number of vector dimensions that each n-gram affects."""

_WORD = re.compile(r"[^\W_]+")


class NGramVectors:
    """Vectors of character n-grams: three to five letters, weighted by TF-IDF, projected by a sparse random matrix.

    The matrix is derived from a hash, so that it is the same on every machine. Without training, these vectors only
    place similar spellings close to each other: a lower bound for embedding models.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for text in texts:
            counts.update({piece for word in set(_words(text)) for piece in _pieces(word)})
            total += 1
        self._rarity = {piece: math.log((total + 1) / (count + 1)) + 1 for piece, count in counts.items()}
        self._unseen = math.log(total + 1) + 1

    def __call__(self, texts: list[str]) -> list[list[float]]:
        """Compute a vector for each text; Knowledge normalises them."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        pieces: Counter[str] = Counter()
        for word, times in Counter(_words(text)).items():
            for piece in _pieces(word):
                pieces[piece] += times
        vector = [0.0] * DIMENSIONS
        for piece, times in pieces.items():
            weight = (1 + math.log(times)) * self._rarity.get(piece, self._unseen)
            for place, sign in _row(piece):
                vector[place] += sign * weight
        return vector


def embeddings(texts: Iterable[str]) -> Iterator[tuple[str, Embed]]:
    """The available embeddings, by name."""
    yield "n-grams", NGramVectors(texts)
    if util.find_spec("wordllama"):
        yield "wordllama", wordllama()


def wordllama() -> Embed:
    """The vectors of wordllama, whose package contains its weights."""
    package: Any = import_module("wordllama")
    # wordllama looks for its tokenizer in a folder with another name, and would download it.
    model = package.WordLlama.load(cache_dir=Path(package.__file__ or "").parent, disable_download=True)
    return lambda texts: [list(map(float, vector)) for vector in model.embed(texts)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@cache
def _pieces(word: str) -> tuple[str, ...]:
    """The word with boundary markers, and its n-grams of three to five letters."""
    marked = f"<{word}>"
    return (marked, *(marked[at : at + size] for size in (3, 4, 5) for at in range(len(marked) - size + 1)))


@cache
def _row(piece: str) -> tuple[tuple[int, int], ...]:
    """The positions and signs of a row of the random matrix."""
    hashes = (crc32(f"{turn}:{piece}".encode()) for turn in range(SPREAD))
    return tuple((number % DIMENSIONS, 1 if number >> 16 & 1 else -1) for number in hashes)
