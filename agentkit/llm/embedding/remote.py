"""How does a model behind HTTP make vectors? Over the connection on which it answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from agentkit.errors import ModelError
from agentkit.llm.http.attempts import Attempts
from agentkit.llm.wire.writing import written
from agentkit.usage import Tariff

if TYPE_CHECKING:
    from agentkit.llm.embedding.batches import Asking, Lessons
    from agentkit.llm.embedding.vectors import Answer, Embeddings
    from agentkit.llm.transport import Transport


class RemoteEmbedding:
    """The part of a remote model that makes vectors."""

    _tariff: Tariff

    @property
    @abstractmethod
    def _transport(self) -> Transport:
        """The connection."""

    @abstractmethod
    def _scrubbed(self) -> AbstractContextManager[Attempts]:
        """Lets no error out that quotes a key; counts how often a request was sent in vain."""

    @cached_property
    def _lessons(self) -> Lessons:
        from agentkit.llm.embedding.batches import Lessons

        return Lessons()

    def embed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """A vector of each text, blocking."""
        asked = _Asked(texts, settings, self._tariff, self._lessons)
        while asked.made is None:
            try:
                with self._scrubbed() as sent:
                    text = self._transport.post(asked.path, written(asked.body), sent)
                    answer = self._vectors(text, asked.count)
            except ModelError as error:
                asked.failed(error)
            else:
                asked.answered(answer, sent.unanswered)
        return asked.made

    async def aembed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Like `embed`, awaiting."""
        asked = _Asked(texts, settings, self._tariff, self._lessons)
        while asked.made is None:
            try:
                with self._scrubbed() as sent:
                    text = await self._transport.apost(asked.path, written(asked.body), sent)
                    answer = self._vectors(text, asked.count)
            except ModelError as error:
                asked.failed(error)
            else:
                asked.answered(answer, sent.unanswered)
        return asked.made

    def _vectors(self, text: str, count: int) -> Answer:
        """The vectors in a text. What fails is read again without its secrets, because errors quote parts of it."""
        from agentkit.llm.embedding.vectors import read

        with suppress(ModelError):
            return read(text, count)
        return read(self._transport.scrub(text), count)


class _Asked:
    """What is asked just now, until all is `made`."""

    body: dict[str, Any]
    count: int

    def __init__(self, texts: Sequence[str], settings: Mapping[str, Any], tariff: Tariff, lessons: Lessons) -> None:
        from agentkit.llm.embedding.batches import asking
        from agentkit.llm.embedding.vectors import PATH

        self.path, self.made = PATH, cast("Embeddings | None", None)
        self._requests: Asking = asking(texts, settings, tariff, lessons)
        self._go_on(next, self._requests)

    def answered(self, answer: Answer, in_vain: int) -> None:
        """Go on after an answer."""
        self._go_on(self._requests.send, (answer, in_vain))

    def failed(self, error: ModelError) -> None:
        """Go on after a refusal. Raises it when nothing helps."""
        self._go_on(self._requests.throw, error)

    def _go_on(self, move: Any, *given: Any) -> None:
        try:
            self.body, self.count = move(*given)
        except StopIteration as done:
            self.made = done.value
