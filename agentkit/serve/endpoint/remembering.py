"""What had the answers read that a client sends back? The conversation is the client's, what was read is not in it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Set

from agentkit.decisions import Label
from agentkit.messages import AssistantMessage, Message

_MOST_BEGINNINGS = 100_000
_MOST_ALIKE_CHARS = 64
"""Texts that begin alike for longer than this are no chance."""


class Answers:
    """The labels of the answers that were given here, by digests of their beginnings; the oldest are forgotten.

    A run that goes on from an answer which was made of private data must know it, or the data could be carried out in
    the next request. A client may have got a part of it, and may send it back with more behind it: a text is known by
    its first half. What a client says was answered elsewhere bears no labels: it is the client's own words.
    """

    def __init__(self, most: int = _MOST_BEGINNINGS) -> None:
        self._most = most
        self._labels: OrderedDict[bytes, frozenset[Label]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, text: str, labels: Iterable[Label]) -> None:
        """Remember what was read for this text, beside what was read for what begins with the same words."""
        read = frozenset(labels)
        if not read:
            return
        with self._lock:
            for _, digest in _beginnings(text.lstrip()):
                self._labels[digest] = self._labels.pop(digest, frozenset[Label]()) | read
            while len(self._labels) > self._most:
                self._labels.popitem(last=False)

    def labels(self, messages: Iterable[Message]) -> frozenset[Label]:
        """All that was read for the answers in this conversation."""
        texts = [message.text.strip() for message in messages if isinstance(message, AssistantMessage)]
        said = [
            digest
            for text in texts
            for chars, digest in _beginnings(text)
            if chars >= _MOST_ALIKE_CHARS or 2 * chars > len(text)
        ]
        with self._lock:
            return frozenset[Label]().union(*(self._labels.get(digest, ()) for digest in said))


class Telling:
    """What a client is told piece by piece, remembered as it grows: the client may leave at any piece of it.

    `labels` are what was read so far.
    """

    def __init__(self, answers: Answers, labels: Set[Label]) -> None:
        self._answers, self._labels = answers, labels
        self._told, self._next, self._noted = "", 1, frozenset[Label]()

    def tell(self, piece: str) -> None:
        """Note a piece that is about to be told."""
        self._told = (self._told + piece).lstrip()
        if len(self._told) >= self._next or self._noted != self._labels:
            self._noted = frozenset(self._labels)
            self._answers.note(self._told, self._noted)
            self._next = 1 << len(self._told).bit_length()


def _beginnings(text: str) -> Iterator[tuple[int, bytes]]:
    """What tells the beginnings of texts apart, each twice as long as the one before, with how long it is."""
    chars = 1
    while chars <= len(text):
        yield chars, hashlib.sha256(text[:chars].encode("utf-8", "surrogatepass")).digest()
        chars *= 2
