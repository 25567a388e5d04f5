"""What was the answer, back then? A tape that gives recorded answers, and fails when there is none."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from agentkit.errors import ReplayError
from agentkit.memory.cassettes.entries import RecordedAnswer
from agentkit.memory.cassettes.file import read_cassette
from agentkit.memory.cassettes.forms import Form, difference, message_form, question_form, request_form
from agentkit.messages import Message, Request
from agentkit.redaction import redact
from agentkit.tape import Answer, Question, Tape

_ASKS: Mapping[str, str] = {
    "model": "the model is asked",
    "tool": "a tool is called",
    "person": "a person is asked about a call",
}
_MOST_FORMS = 20_000
_REMEDY = "If the program was changed on purpose, record the cassette again; with pytest: pytest --record=all"


class Player(Tape):
    """Gives each recorded answer once, to the first question that fits, so that parallel runs may come in any order.

    A `partial` replay need not ask for all of them. Raises SessionError when the cassette cannot be read.
    """

    is_replaying = True

    def __init__(self, path: str | PathLike[str], *, partial: bool = False) -> None:
        self.path = Path(path)
        self._partial = partial
        _, entries = read_cassette(self.path)
        askings = [entry for entry in entries if isinstance(entry, RecordedAnswer)]
        live = {0, *(asking.number for asking in askings if asking.is_live)}
        self._unused = [asking for asking in askings if asking.inside in live]
        self._now = min((asking.at - asking.seconds for asking in askings), default=0.0)
        self._forms: dict[int, tuple[Message, str]] = {}
        self._lock = threading.Lock()
        self.divergence: ReplayError | None = None
        """The first question that had no recorded answer, even when its error was caught on the way."""

    def replayed(self, question: Question, /) -> Answer | None:
        """The recorded answer; None for one that is live. Raises ReplayError, with what differs, when there is none."""
        with self._lock:
            form = self._form(question)
            for place, asking in enumerate(self._unused):
                if asking.form.fits(form):
                    del self._unused[place]
                    self._now = max(self._now, asking.at)
                    return None if asking.is_live else asking.answer
            error = ReplayError(self._tell_difference(form))
            self.divergence = self.divergence or error
            raise error

    def now(self) -> float:
        """When the newest of the answers given so far was recorded, in seconds since 1970."""
        return self._now

    def finish(self, *, keep: bool = True) -> None:
        """End the replay. When it was to be kept to, raise ReplayError if it was not, or for answers that are left."""
        if not keep:
            return
        if self.divergence is not None:
            raise self.divergence
        if self._unused and not self._partial:
            raise ReplayError(self._tell_left())

    def _form(self, question: Question) -> Form:
        if not isinstance(question, Request):
            return question_form(question)
        return request_form(question, [self._message_form(message) for message in question.messages])

    def _message_form(self, message: Message) -> str:
        known = self._forms.get(id(message))
        if known is None:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            known = self._forms[id(message)] = message, message_form(message)  # the message is kept, and so its id
        return known[1]

    def _tell_difference(self, asked: Form) -> str:
        """What was asked, beside the recorded question that is most like it."""
        alike = [asking.form for asking in self._unused if asking.form.kind == asked.kind]
        nearest = max(alike, key=lambda form: form.shared(asked), default=None)
        told = f"The cassette {self.path} has no answer when {_ASKS[asked.kind]} as it is now."
        if nearest is None:
            told += " Nothing of the kind is left in it. It is asked:"
        else:
            told += " What the recording has (-), and what is asked now (+):"
        return f"{told}\n{redact(difference(nearest, asked))}\n{_REMEDY}"

    def _tell_left(self) -> str:
        """What nobody asked for."""
        count, first = len(self._unused), self._unused[0].form
        answers = "one answer that nobody" if count == 1 else f"{count} answers that nobody"
        asked = redact(difference(first, Form(first.kind, "")))
        return f"The cassette {self.path} has {answers} asked for. First, {_ASKS[first.kind]}:\n{asked}\n{_REMEDY}"
