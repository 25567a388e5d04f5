"""Recording of requests and answers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from agentkit.errors import ReplayError
from agentkit.events import ResponseReceived, RunEnded, StoredEvent, ToolCallFinished
from agentkit.messages import ToolCall
from agentkit.recording import Answer, Clock, OpenQuestion, Question, Recording
from agentkit.sessions.cassettes.entries import (
    MessageNumbers,
    encode_answer,
    encode_charge,
    encode_event,
    encode_question,
)
from agentkit.sessions.cassettes.file import CassetteWriter
from agentkit.sessions.codec import Data
from agentkit.usage import Charge


class _SharedState:
    """State shared by all questions of a recording. Each line is written atomically under the lock."""

    def __init__(self, writer: CassetteWriter) -> None:
        self._writer = writer
        self._numbers = MessageNumbers()
        self._answers: dict[int | str, tuple[int, Answer]] = {}
        self._clock_counts: Counter[str] = Counter()
        self._questions = 0
        self._has_ended = False
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        return self._writer.path

    def begin(self) -> int:
        """Return the number of a new question."""
        with self._lock:
            self._questions += 1
            return self._questions

    def new_clock(self, part: str) -> Clock:
        """Return the next clock of a part of the program."""
        with self._lock:
            self._clock_counts[part] += 1
            return _RecordedClock(self, f"{part}{self._clock_counts[part]}")

    def write_answer(self, head: Data, question: Question, answer: Answer) -> None:
        def line() -> Data:
            encoded_question, encoded_answer = (
                encode_question(question, self._numbers),
                encode_answer(answer, self._numbers),
            )
            self._answers[question.id if isinstance(question, ToolCall) else id(answer)] = head["id"], answer
            return {**head, **encoded_question, **encoded_answer}

        self.write(line)

    def write_event(self, run: str, event: StoredEvent, inside: int) -> None:
        def line() -> Data:
            number = 0  # of the question whose answer the stored event reports unchanged
            if isinstance(event, ResponseReceived):
                known, answer = self._answers.pop(id(event.response), (0, None))
                number = known if answer is event.response else 0
            elif isinstance(event, ToolCallFinished):
                known, answer = self._answers.pop(event.call.id, (0, None))
                number = known if answer == event.result else 0
            return {**encode_event(run, time.time(), event, number), **({"inside": inside} if inside else {})}

        self.write(line, can_wait=not isinstance(event, RunEnded))

    def finish(self, *, keep: bool) -> None:
        with self._lock:
            if not self._has_ended:
                self._has_ended = True
                self._writer.finish(keep=keep)

    def write(self, line: Callable[[], Data], *, can_wait: bool = False) -> None:
        """Write the line unless the recording has ended: a thread can outlive it."""
        with self._lock:
            if not self._has_ended:
                write = self._writer.buffer if can_wait else self._writer.write
                write(line())


class _RecordedQuestion(OpenQuestion):
    """An open question. Questions asked in the meantime are recorded as nested within it."""

    def __init__(self, state: _SharedState, question: Question, inside: int) -> None:
        self._state, self._question, self._inside = state, question, inside
        self._number = state.begin()
        self._began = time.perf_counter()
        self._unanswered = [True]
        super().__init__(_NestedRecording(state, self._number))

    def record_answer(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool:
        """Record question and answer once; return whether this call did so."""
        try:
            self._unanswered.pop()  # atomic: succeeds once across threads
        except IndexError:
            return False
        head: Data = {
            "id": self._number,
            "at": round(time.time(), 6),
            "seconds": round(time.perf_counter() - self._began, 6),
        }
        if self._inside:
            head["inside"] = self._inside
        if is_live:
            head["live"] = True
        self._state.write_answer({**head, **encode_charge(charge)}, self._question, answer)
        return True


class _NestedRecording(Recording):
    """The part of a recording nested in question `number`; for number 0, the whole recording."""

    def __init__(self, state: _SharedState, number: int) -> None:
        self._state, self._number = state, number

    def open_question(self, question: Question, /) -> OpenQuestion:
        """Open a question nested in this one."""
        return _RecordedQuestion(self._state, question, self._number)

    def record_event(self, run: str, event: StoredEvent, /) -> None:
        """Record a stored event of a run."""
        self._state.write_event(run, event, self._number)

    def new_clock(self, part: str = "", /) -> Clock:
        """Return a clock whose expiry is recorded.

        Within a question, a replay uses it only if that question is executed again.
        """
        return self._state.new_clock(f"{self._number}/{part}" if self._number else part)


class Recorder(_NestedRecording):
    """Records each question with its answer as soon as it is available. Raises SessionError if it cannot be written."""

    divergence: ReplayError | None = None
    """Always None: a recording cannot diverge."""

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__(_SharedState(CassetteWriter(Path(path), time.time())), 0)

    @property
    def path(self) -> Path:
        """The path of the finished cassette."""
        return self._state.path

    def finish(self, *, keep: bool = True) -> None:
        """End the recording: replace an older cassette, or leave that unchanged. Idempotent."""
        self._state.finish(keep=keep)


class _RecordedClock(Clock):
    """Records the reading at which the time ran out."""

    def __init__(self, state: _SharedState, name: str) -> None:
        super().__init__(time.monotonic)
        self._state, self._name = state, name
        self._readings, self._is_up = 0, False

    def seconds_left(self, seconds: float, /) -> float:
        self._readings += 1
        if seconds <= 0 and not self._is_up:
            self._is_up = True
            self._state.write(lambda: {"watch": self._name, "up": self._readings, "at": time.time()})
        return seconds
