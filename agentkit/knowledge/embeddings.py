"""Embedding of chunks and queries, with validation of the vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, Protocol

from agentkit.errors import ConfigError
from agentkit.knowledge.stores.store import ChunkStore, Vector
from agentkit.tooling.signature import is_asynchronous, name_of
from agentkit.usage import NO_USAGE, Usage

Embed = Callable[[list[str]], Iterable[Iterable[float]]]
"""Returns a vector for each text; all have the same length."""


class TextEmbedder(Protocol):
    """An embedder that knows its model, such as an LLM."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings sent with every request, such as the vector length as `dimensions`."""

    def embed(self, texts: list[str], /) -> list[list[float]]:
        """Return a vector for each text."""


Embedding = Embed | TextEmbedder | str
"""The type of `embed=`: a function, an LLM, or the name of a model, as in `openai:text-embedding-3-small`."""

BATCH = 64
"""The number of texts embedded in one call."""

_FUNCTION = "a function"
_MODEL_SPACE = "vectors"


class Vectors:
    """The vectors of one space of a store: the embedding functions, and the name of their model.

    `usage` is the usage of the models, if they report it.
    """

    def __init__(self, store: ChunkStore, space: str, of_passages: Embed, of_questions: Embed, name: str) -> None:
        self._store, self._space, self._model_space = store, space, f"{_MODEL_SPACE}/{space}"
        self._embed_passages, self._embed_questions, self.name = of_passages, of_questions, name
        self._lock, self.usage = Lock(), NO_USAGE

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Return a unit vector for each chunk. Raises ConfigError for an invalid answer, and ModelError.

        Also raises ConfigError if another model made the stored vectors.
        """
        self.check()
        if not self._stored_model():
            self._store.add_place(self._model_space, self.name, {})
        batches = (list(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH))
        return [vector for batch in batches for vector in self._unit_vectors(self._embed_passages, batch)]

    def embed_question(self, question: str) -> Vector:
        """Return the unit vector of a question."""
        return self._unit_vectors(self._embed_questions, [question])[0]

    def check(self) -> None:
        """Raise ConfigError if another model made the stored vectors, which are then not comparable."""
        stored_model = self._stored_model()
        if stored_model and stored_model != self.name:
            raise ConfigError(
                f"The stored vectors were made by {stored_model}, but embed= is {self.name}: their vectors cannot be "
                f"compared. Use the same model or function, or replace all vectors with embed_again() or the command "
                f"agentkit knowledge embed MODEL."
            )

    def embed_missing(self) -> int:
        """Embed the chunks without a vector; return their number."""
        count = 0
        while missing := self._store.without_vector(self._space, BATCH):
            vectors = self.embed_passages(list(missing.values()))
            self._store.set_vectors(dict(zip(missing, vectors, strict=True)))
            count += len(missing)
        return count

    def embed_all_again(self) -> int:
        """Replace all vectors, whichever model made them; return their number."""
        self._store.drop_vectors(self._space)
        self._store.drop_places(self._model_space, self._store.places(self._model_space))
        return self.embed_missing()

    def _stored_model(self) -> str:
        """The name of the model that made the stored vectors; empty if unknown."""
        return next(iter(self._store.places(self._model_space)), "")

    def _unit_vectors(self, function: Embed, texts: list[str]) -> list[Vector]:
        """Call an embedding function and return unit vectors. Raises ConfigError for an invalid answer."""
        answer = function(texts)
        usage = getattr(answer, "usage", None)
        if isinstance(usage, Usage):
            with self._lock:
                self.usage += usage
        try:
            vectors: list[Any] = [[float(number) for number in vector] for vector in answer]
        except (TypeError, ValueError) as error:
            raise ConfigError(f"embed= must return a list of vectors, which are lists of numbers: {error}.") from error
        sizes = sorted({len(vector) for vector in vectors})
        if len(vectors) != len(texts) or len(sizes) > 1:
            raise ConfigError(
                f"embed= received {len(texts)} texts and returned {len(vectors)} vectors, of lengths {sizes}."
            )
        lengths = [math.hypot(*vector) for vector in vectors]
        if not all(map(math.isfinite, lengths)):
            raise ConfigError("embed= returned a vector with a number that is not finite.")
        pairs = zip(vectors, lengths, strict=True)
        return [[number / length for number in vector] if length else vector for vector, length in pairs]


def open_vectors(
    store: ChunkStore, space: str, embed: Embedding | None, embed_question: Embedding | None
) -> Vectors | None:
    """The vectors of a space; None without an embedding function. Raises ConfigError for an invalid one, NoProvider."""
    if embed is None:
        if embed_question is not None:
            raise ConfigError("embed_question= requires embed=, which computes the vectors of the passages.")
        return None
    of_passages, name = _embedding_function("embed", embed)
    of_questions = of_passages if embed_question is None else _embedding_function("embed_question", embed_question)[0]
    return Vectors(store, space, of_passages, of_questions, name)


def _embedding_function(argument: str, embedding: Embedding) -> tuple[Embed, str]:
    """The embedding function, and its name."""
    if isinstance(embedding, str):
        from agentkit.llm.client import LLM

        embedding = LLM(model=embedding)
    embed = getattr(embedding, "embed", None)
    if callable(embed) and isinstance(model := getattr(embedding, "model", None), str):
        length = getattr(embedding, "settings", {}).get("dimensions")
        return embed, f"{model} with dimensions={length}" if length else model
    refuse_async(argument, embedding)
    if not callable(embedding):
        raise ConfigError(
            f"{argument}= takes an LLM, the name of an embedding model, or a function from a list of texts to a list "
            f"of vectors. Got {embedding!r}."
        )
    return embedding, _FUNCTION


def refuse_async(argument: str, function: object) -> None:
    """Raise ConfigError for an async function: adding and searching are synchronous."""
    if callable(function) and is_asynchronous(function):
        raise ConfigError(
            f"{argument}= takes a plain function; {name_of(function)} is async and would never be awaited."
        )
