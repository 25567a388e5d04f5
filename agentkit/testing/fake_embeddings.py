"""Deterministic embeddings for tests."""

from __future__ import annotations

import math
import re
from collections import Counter
from hashlib import blake2b

LENGTH = 64
"""The default number of dimensions."""

_PIECE_CHARS = 4


def vector_of(text: str, length: int = LENGTH) -> list[float]:
    """A deterministic unit vector of a text. Texts that share words, or most of their letters, have similar vectors."""
    numbers = [0.0] * length
    for piece, times in Counter(_pieces(text.lower()) or [text]).items():
        found = int.from_bytes(blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        numbers[(found >> 1) % length] += times if found & 1 else -times
    size = math.hypot(*numbers)
    return [number / size for number in numbers] if size else [1.0, *numbers[1:]]


def words_in(text: str) -> int:
    """The number of words in a text, used as its token count."""
    return len(re.findall(r"\w+", text)) or 1


def _pieces(text: str) -> list[str]:
    words = [f" {word} " for word in re.findall(r"\w+", text)]
    return [word[at : at + _PIECE_CHARS] for word in words for at in range(max(1, len(word) - _PIECE_CHARS + 1))]
