"""What had the answers read that a client sends back? The conversation is the client's, what was read is not in it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable

from agentkit.decisions import Label
from agentkit.messages import AssistantMessage, Message

_MOST_ANSWERS = 10_000


class Answers:
    """Which labels the texts bear that were answered here, by their digests; the oldest are forgotten.

    A run that goes on from an answer which was made of private data must know it, or the data could be carried out in
    the next request. What a client says was answered elsewhere bears no labels: it is the client's own words.
    """

    def __init__(self, most: int = _MOST_ANSWERS) -> None:
        self._most = most
        self._labels: OrderedDict[bytes, frozenset[Label]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, text: str, labels: Iterable[Label]) -> None:
        """Remember what was read for this answer, beside what was read for the same text before."""
        read, digest = frozenset(labels), _digest(text)
        if not read or not text.strip():
            return
        with self._lock:
            self._labels[digest] = self._labels.pop(digest, frozenset[Label]()) | read
            while len(self._labels) > self._most:
                self._labels.popitem(last=False)

    def labels(self, messages: Iterable[Message]) -> frozenset[Label]:
        """All that was read for the answers in this conversation."""
        said = [_digest(message.text) for message in messages if isinstance(message, AssistantMessage)]
        with self._lock:
            return frozenset[Label]().union(*(self._labels.get(digest, ()) for digest in said))


def _digest(text: str) -> bytes:
    """What tells texts apart; clients may send them back without the blanks around them."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).digest()
