"""What is kept in one space of a store, and found there by words and by meaning?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from agentkit.errors import ConfigError
from agentkit.knowledge.passages import Scope
from agentkit.knowledge.ranking import fused
from agentkit.knowledge.stores.opening import Place, store_at
from agentkit.knowledge.stores.store import Store
from agentkit.knowledge.vectors import Embedding, vectors_in
from agentkit.reading.words import terms_of
from agentkit.usage import NO_USAGE, Usage, is_whole
from agentkit.wording import is_shallow

_CANDIDATES = 50
"""How many passages each ranking proposes."""


class Collection:
    """Passages in one space of a store; what makes vectors of them is `embed`, and of questions `embed_question`."""

    def __init__(self, place: Place, space: str, embed: Embedding | None, embed_question: Embedding | None) -> None:
        self.store: Store = store_at(place)
        self._space = space
        self._vectors = vectors_in(self.store, space, embed, embed_question)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def usage(self) -> Usage:
        """What making vectors has taken since it was opened, as far as a model has counted it; no run counts it."""
        return NO_USAGE if self._vectors is None else self._vectors.usage

    def embed_again(self) -> int:
        """Make all vectors anew, after another `embed=` was given; how many passages or notes there are."""
        if self._vectors is None:
            raise ConfigError("There is no embed= to make vectors with.")
        return self._vectors.make_again()

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        self.store.close()

    def _ranked(self, scope: Scope, queries: Sequence[str], limit: int) -> list[tuple[int, float]]:
        """Numbers of passages with scores, the best first: those of the words when they are the only ranking.

        Several rankings, of other wordings and of vectors, are joined.
        """
        count, made = max(_CANDIDATES, limit), self._vectors
        by_words = [self.store.find_words(scope, terms_of(query), count) for query in queries]
        if made is not None:
            made.check()
            asked = [made.of_question(query) for query in queries if query.strip()]
            return fused(by_words, [self.store.find_vector(scope, vector, count) for vector in asked])
        return by_words[0] if len(by_words) == 1 else fused(by_words)


def check_search(question: object, limit: object) -> None:
    """Raise ConfigError for what is no question, or no number of passages."""
    if not isinstance(question, str):
        raise ConfigError(f"A question is a text. Got {question!r:.200}.")
    if not is_whole(limit, 1):
        raise ConfigError(f"limit= takes a whole number from 1 on; not {limit!r}.")


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata as it comes back. Raises ConfigError for what is not JSON."""
    try:
        checked = dict(json.loads(json.dumps(dict(metadata or {}), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"metadata= takes a dictionary of JSON values: {error}.") from None
    if not is_shallow(checked):
        raise ConfigError("metadata= takes a dictionary of JSON values that nest at most 50 levels.")
    return checked
