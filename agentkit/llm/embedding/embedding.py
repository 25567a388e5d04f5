"""How does an LLM make vectors of texts, so that what means the same is found?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from agentkit.errors import ConfigError, ReplayError
from agentkit.llm.embedding.batches import checked, checked_settings
from agentkit.llm.embedding.vectors import Embeddings
from agentkit.tape import is_replaying

if TYPE_CHECKING:
    from agentkit.llm.endpoint import Endpoint
    from agentkit.llm.providers import Provider

_OF_ANSWERS = frozenset({"temperature", "max_tokens", "reasoning_effort"})
"""The settings that have arguments of their own and say how a model answers."""


class Embedder(Protocol):
    """A provider that makes vectors."""

    def embed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """A vector of each text, blocking."""
        ...

    async def aembed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Like `embed`, awaiting."""
        ...


class Embedding:
    """The part of an LLM that makes vectors."""

    _endpoint: Endpoint
    _provider: Provider
    _settings: Mapping[str, Any]
    _fallbacks: Sequence[object]

    def embed(self, texts: Iterable[str], *, dimensions: int | None = None, **settings: Any) -> Embeddings:
        """A vector for each text, in their order, of a model that makes vectors: `llm.embed(["one", "two"])`.

        They are asked for in as many requests as the server's bounds need. `dimensions` is how many numbers each has,
        where the model knows several lengths; `settings` are sent as they are. The list knows what it took: `usage`,
        `cost`. Raises ModelError, ConfigError for what is no text and for an LLM that makes none, and ReplayError in a
        replay: vectors are not recorded.
        """
        known = checked(texts)
        said = self._said_of_vectors(dimensions, settings)
        return self._embedder().embed(known, said)

    async def aembed(self, texts: Iterable[str], *, dimensions: int | None = None, **settings: Any) -> Embeddings:
        """Like `embed`, awaiting."""
        known = checked(texts)
        said = self._said_of_vectors(dimensions, settings)
        return await self._embedder().aembed(known, said)

    def _said_of_vectors(self, dimensions: int | None, settings: Mapping[str, Any]) -> dict[str, Any]:
        own = {name: value for name, value in self._settings.items() if name not in _OF_ANSWERS}
        return checked_settings(dimensions, {**own, **settings})

    def _embedder(self) -> Embedder:
        """What makes the vectors. Raises ConfigError where nothing does, or more than one model would."""
        if is_replaying():
            raise ReplayError("A recording has no vectors. Make them before the replay begins, or by a function.")
        if self._fallbacks:
            raise ConfigError(
                "An LLM with fallbacks makes no vectors: those of two models cannot be compared. Name one model."
            )
        return embedder(self._provider, self._endpoint.provider)


def embedder(provider: Provider, name: str = "") -> Embedder:
    """The provider, if it makes vectors. Raises ConfigError otherwise."""
    if not hasattr(provider, "embed"):
        who = f"The provider {name!r}" if name else "This provider"
        raise ConfigError(
            f"{who} makes no vectors that tell texts apart. Take a model that does: "
            "LLM('openai', model='text-embedding-3-small') or, without a key, LLM(model='ollama:nomic-embed-text')."
        )
    return cast("Embedder", provider)
