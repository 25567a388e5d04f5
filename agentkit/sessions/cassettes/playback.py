"""Replay of recorded answers."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Mapping
from itertools import chain
from os import PathLike
from pathlib import Path

from agentkit.errors import ReplayError
from agentkit.messages import EmbeddingQuery, Message, Request, ToolCall
from agentkit.recording import Account, Answer, Clock, OpenQuestion, Question, Recording, ScopedRecording
from agentkit.redaction import redact
from agentkit.sessions.cassettes.entries import RecordedAnswer, TimeUp
from agentkit.sessions.cassettes.file import read_cassette
from agentkit.sessions.cassettes.request_matching import (
    RequestKey,
    difference,
    message_key,
    question_key,
    request_key,
)

_DESCRIPTIONS: Mapping[str, str] = {
    "model": "the model is called",
    "tool": "a tool is called",
    "person": "a person is asked about a call",
    "vectors": "a model embeds texts",
}
_MAX_ROWS = 64
"""The number of conversations whose latest requests are remembered."""

_REMEDY = "If the program was changed on purpose, record the cassette again; with pytest: pytest --record=all"


class Player(Recording):
    """Returns each recorded answer once, to the first matching question, so that parallel runs can come in any order.

    A `partial` replay does not have to use all answers. Raises SessionError if the cassette cannot be read.
    """

    is_replaying = True

    def __init__(self, path: str | PathLike[str], *, partial: bool = False) -> None:
        self.path = Path(path)
        self._partial = partial
        _, entries = read_cassette(self.path)
        answers = [entry for entry in entries if isinstance(entry, RecordedAnswer)]
        self._expiries = {entry.watch: entry.reading for entry in entries if isinstance(entry, TimeUp)}
        self._clock_counts: Counter[str] = Counter()
        self._live: dict[int, tuple[Question, int]] = {}
        live = {0, *(exchange.number for exchange in answers if exchange.is_live)}
        self._unused = [exchange for exchange in answers if exchange.inside in live]
        self._now = min((exchange.at - exchange.seconds for exchange in answers), default=0.0)
        self._rows: deque[tuple[list[Message], tuple[str, ...]]] = deque(maxlen=_MAX_ROWS)
        self._lock = threading.Lock()
        self.divergence: ReplayError | None = None
        """The first question without a recorded answer, even if the program caught the error."""

    def replay(self, question: Question, account: Account | None = None, /) -> Answer | None:
        """The recorded answer, or None for a live question.

        Raises ReplayError with a diff if no recorded question matches.
        """
        with self._lock:
            recorded = self._take(question)
            if recorded.is_live:
                self._live[id(question)] = question, recorded.number
                return None
        if account is not None and recorded.charge is not None:
            account.charge(recorded.charge)
        return recorded.answer

    def open_question(self, question: Question, /) -> OpenQuestion:
        """Open a live question; the questions asked within it form a separate scope."""
        with self._lock:
            _, number = self._live.pop(id(question), (question, 0))
        return OpenQuestion(ScopedRecording(self, str(number)))

    def new_clock(self, part: str = "", /) -> Clock:
        """Return a clock that expires where it expired in the recording."""
        with self._lock:
            self._clock_counts[part] += 1
            name = f"{part}{self._clock_counts[part]}"
        return _ReplayedClock(self, self._expiries.get(name))

    def _take(self, question: Question) -> RecordedAnswer:
        """Remove and return the recorded question that matches, the first identical one if possible.

        Raises ReplayError.
        """
        key, call = self._key(question), _call_id(question)
        matching = (index for index, exchange in enumerate(self._unused) if exchange.key.fits(key))
        first = next(matching, None)
        if first is not None:
            candidates = ((index, self._unused[index]) for index in chain([first], matching))
            same = (  # with the same call id, or the same limit on the length of the answer
                index
                for index, each in candidates
                if (_call_id(each.question) == call if call is not None else each.key.max_tokens == key.max_tokens)
            )
            exchange = self._unused.pop(next(same, first))
            self._now = max(self._now, exchange.at)
            if isinstance(question, Request):
                self._rows.append((list(question.messages), tuple(exchange.key.parts)))
            return exchange
        error = self._mismatch(key)
        self.divergence = self.divergence or error
        raise error

    def now(self) -> float:
        """The time of the newest answer returned so far, in seconds since 1970."""
        return self._now

    def finish(self, *, keep: bool = True) -> None:
        """End the replay. With `keep`, raise ReplayError if the replay diverged or answers were not used."""
        if not keep:
            return
        if self.divergence is not None:
            raise self.divergence
        if self._unused and not self._partial:
            count, first = len(self._unused), self._unused[0].key
            unused = "one answer that was not" if count == 1 else f"{count} answers that were not"
            shown = redact(difference(first, RequestKey(first.kind, "")))
            first_asks = f"{unused} used. First, {_DESCRIPTIONS[first.kind]}"
            raise ReplayError(f"The cassette {self.path} has {first_asks}:\n{shown}\n{_REMEDY}")

    def _key(self, question: Question) -> RequestKey:
        """Compute the matching key; the keys of messages that continue an earlier request are taken as recorded."""
        if not isinstance(question, Request):
            return question_key(question)
        messages, known = list(question.messages), tuple[str, ...]()
        for place in range(len(self._rows) - 1, -1, -1):
            earlier, parts = self._rows[place]
            if earlier and earlier == messages[: len(earlier)]:
                known = parts
                del self._rows[place]
                break
        return request_key(question, (*known, *map(message_key, messages[len(known) :])))

    def _mismatch(self, requested: RequestKey) -> ReplayError:
        """Build the error for a question without an answer, with a diff to the most similar recorded one."""
        same_kind = [exchange.key for exchange in self._unused if exchange.key.kind == requested.kind]
        nearest = max(same_kind, key=lambda key: key.shared(requested), default=None)
        text = f"The cassette {self.path} has no answer when {_DESCRIPTIONS[requested.kind]} as it is now."
        if nearest is None:
            text += " No unused answer of this kind is left. The request:"
        else:
            text += " The recorded request (-) and the current request (+):"
        return ReplayError(f"{text}\n{redact(difference(nearest, requested))}\n{_REMEDY}")


class _ReplayedClock(Clock):
    """A clock that runs out at the recorded reading; `up` is None if it never did."""

    def __init__(self, player: Player, up: int | None) -> None:
        super().__init__(player.now)
        self._expiries, self._readings = up, 0

    def seconds_left(self, _seconds: float, /) -> float:
        self._readings += 1
        return math.inf if self._expiries is None or self._readings < self._expiries else 0.0


def _call_id(question: Question) -> str | None:
    """The id of the question's tool call. It distinguishes parallel calls that are equal otherwise."""
    if isinstance(question, Request | EmbeddingQuery):
        return None
    return question.id if isinstance(question, ToolCall) else question.call.id
