"""How does a text become a vector? By a function of the user's, whose answers are checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentkit.errors import ConfigError
from agentkit.knowledge.stores.store import Vector

Embed = Callable[[list[str]], Iterable[Iterable[float]]]
"""Makes a vector of each text; all are of one length."""

BATCH = 64
"""How many texts are given to the function at once."""


@dataclass(frozen=True)
class Embedding:
    """The function that makes vectors of passages, and the one for questions, where a model has another for these."""

    of_passages: Embed
    of_questions: Embed

    def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each passage. Raises ConfigError when the function gives something else."""
        batches = (list(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH))
        return [vector for batch in batches for vector in _vectors(self.of_passages, batch)]

    def vector(self, question: str) -> Vector:
        """The vector of a question."""
        return _vectors(self.of_questions, [question])[0]


def embedding(embed: Embed | None, embed_question: Embed | None) -> Embedding | None:
    """The functions that were given, if any. Raises ConfigError for what is none."""
    for name, function in (("embed", embed), ("embed_question", embed_question)):
        if function is not None and not callable(function):
            raise ConfigError(f"{name}= takes a function from a list of texts to a list of vectors; not {function!r}.")
    if embed is None:
        if embed_question is not None:
            raise ConfigError("embed_question= goes with embed=, which makes the vectors of the passages.")
        return None
    return Embedding(embed, embed_question or embed)


def _vectors(function: Embed, texts: list[str]) -> list[Vector]:
    try:
        given: list[Any] = [[float(number) for number in vector] for vector in function(texts)]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"embed= must give a list of vectors, which are lists of numbers: {error}.") from error
    if len(given) != len(texts) or len({len(vector) for vector in given}) > 1:
        lengths = sorted({len(vector) for vector in given})
        raise ConfigError(f"embed= got {len(texts)} texts and gave {len(given)} vectors, of lengths {lengths}.")
    return [_of_length_one(vector) for vector in given]


def _of_length_one(vector: list[float]) -> Vector:
    length = math.hypot(*vector)
    if not math.isfinite(length):
        raise ConfigError("embed= gave a vector with a number that is not finite.")
    return [number / length for number in vector] if length else vector
