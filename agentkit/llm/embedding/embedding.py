"""How does an LLM make vectors of texts, so that what means the same is found?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from agentkit.errors import ConfigError
from agentkit.messages import VectorsAsked, VectorsMade
from agentkit.tape import ataped, taped

if TYPE_CHECKING:
    from agentkit.llm.embedding.vectors import Embeddings
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
        `cost`. Raises ModelError, and ConfigError for what is no text and for an LLM that makes none.
        """
        asked = self._vectors_asked(texts, dimensions, settings)
        return _embeddings(taped(asked, lambda: _made(self._embedder().embed(asked.texts, asked.settings))))

    async def aembed(self, texts: Iterable[str], *, dimensions: int | None = None, **settings: Any) -> Embeddings:
        """Like `embed`, awaiting."""
        asked = self._vectors_asked(texts, dimensions, settings)

        async def make() -> VectorsMade:
            return _made(await self._embedder().aembed(asked.texts, asked.settings))

        return _embeddings(await ataped(asked, make))

    def _vectors_asked(self, texts: Iterable[str], dimensions: int | None, settings: Mapping[str, Any]) -> VectorsAsked:
        from agentkit.llm.embedding.batches import checked, checked_settings

        own = {name: value for name, value in self._settings.items() if name not in _OF_ANSWERS}
        return VectorsAsked(tuple(checked(texts)), checked_settings(dimensions, {**own, **settings}))

    def _embedder(self) -> Embedder:
        """What makes the vectors. Raises ConfigError where nothing does, or more than one model would."""
        if self._fallbacks:
            raise ConfigError(
                "An LLM with fallbacks makes no vectors: those of two models cannot be compared. Name one model."
            )
        return embedder(self._provider, self._endpoint.provider)


def _made(embeddings: Embeddings) -> VectorsMade:
    return VectorsMade(embeddings, embeddings.model, embeddings.usage)


def _embeddings(made: VectorsMade) -> Embeddings:
    from agentkit.llm.embedding.vectors import Embeddings

    return Embeddings(made.vectors, made.model, made.usage)


def embedder(provider: Provider, name: str = "") -> Embedder:
    """The provider, if it makes vectors. Raises ConfigError otherwise."""
    if not hasattr(provider, "embed"):
        who = f"The provider {name!r}" if name else "This provider"
        raise ConfigError(
            f"{who} makes no vectors that tell texts apart. Take a model that does: "
            "LLM('openai', model='text-embedding-3-small') or, without a key, LLM(model='ollama:nomic-embed-text')."
        )
    return cast("Embedder", provider)
