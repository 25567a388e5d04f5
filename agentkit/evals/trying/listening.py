"""What do agents and models do inside of a function? Heard as a recording would hear it, without writing it down."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace

from agentkit.agents.running.plan import LINEAGE
from agentkit.events import (
    Approved,
    LimitReached,
    Milestone,
    ResponseReceived,
    RunEnded,
    RunStarted,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.memory.progress import Progress
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, with_distinct_ids
from agentkit.slotted import dataclass
from agentkit.tape import TAPE, Account, Answer, Asked, Part, Question, Tape, active
from agentkit.usage import NO_USAGE, Charge, Usage


@dataclass(slots=True)
class Heard:
    """What was heard, from any thread: the runs at `depth`, and each answer of a model.

    Runs that a run sets to work are part of it, as they are of any result.
    """

    depth: int = 0
    runs: dict[str, list[Milestone]] = field(default_factory=dict)
    responses: list[Response] = field(default_factory=list)
    told: Counter[Usage] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_milestone(self, run: str, milestone: Milestone) -> None:
        """Take in what a run has done."""
        with self.lock:
            if LINEAGE.get().depth == self.depth:
                self.runs.setdefault(run, []).append(milestone)
            if isinstance(milestone, ResponseReceived):
                self.told[milestone.response.usage] += 1
            elif isinstance(milestone, Summarised):
                self.told[milestone.usage] += 1

    def take_answer(self, question: Question, answer: Answer | None) -> None:
        """Take in what came of a question, if it is a model's answer."""
        if isinstance(question, Request) and isinstance(answer, Response):
            with self.lock:
                self.responses.append(answer)

    @property
    def bare(self) -> list[Response]:
        """The answers of models that the function asked directly, outside of any run."""
        told, bare = self.told.copy(), []
        for response in self.responses:
            if told[response.usage]:
                told[response.usage] -= 1
            else:
                bare.append(response)
        return bare

    @property
    def bare_usage(self) -> Usage:
        """What these have spent."""
        return sum((response.usage for response in self.bare), NO_USAGE)

    def milestones(self, ids: set[str]) -> Iterator[Milestone]:
        """All that was done, run by run in the order of their beginnings, as if it were one run.

        Each tool call has an id that is not among `ids`, to which it is added.
        """
        for run in self.runs.values():
            yield from _part_of_one(run, ids)
        for response in self.bare:
            yield ResponseReceived(replace(response, message=AssistantMessage(response.text)))


@contextmanager
def listening() -> Iterator[Heard]:
    """Hear what agents and models do in the block."""
    heard = Heard(LINEAGE.get().depth)
    with active(_Listening(TAPE.get() or Tape(), heard)):
        yield heard


class _Listening(Part):
    """Passes everything on, and takes in what is told."""

    def __init__(self, tape: Tape, heard: Heard) -> None:
        super().__init__(tape)
        self._heard = heard

    def replayed(self, question: Question, account: Account | None = None, /) -> Answer | None:
        answer = super().replayed(question, account)
        self._heard.take_answer(question, answer)
        return answer

    def asked(self, question: Question, /) -> Asked:
        return _Listened(super().asked(question), question, self._heard)

    def told(self, run: str, milestone: Milestone, /) -> None:
        self._heard.take_milestone(run, milestone)
        super().told(run, milestone)


class _Listened(Asked):
    """A question that adds its answer to what was heard, and so do the questions asked while it is answered."""

    def __init__(self, asked: Asked, question: Question, heard: Heard) -> None:
        super().__init__(_Listening(asked.tape, heard))
        self._asked, self._question, self._heard = asked, question, heard

    def heard(self, answer: Answer, /, *, is_live: bool = False, charge: Charge | None = None) -> bool | None:
        self._heard.take_answer(self._question, answer)
        return self._asked.heard(answer, is_live=is_live, charge=charge)

    def left(self, answer: Answer, /) -> None:
        self._heard.take_answer(self._question, answer)
        self._asked.left(answer)


def _part_of_one(run: list[Milestone], ids: set[str]) -> Iterator[Milestone]:
    """The milestones of a run as part of another: with the results that are missing, without a beginning and an end."""
    names: dict[str, str] = {}
    for milestone in (*run, *Progress.of(run).interruptions()):
        match milestone:
            case RunStarted(agent, prompt, history):
                yield RunStarted(agent, prompt, history)
            case RunEnded() | LimitReached():
                continue
            case ResponseReceived(response):
                message = with_distinct_ids(response.message, ids)
                names |= _renamed(response.tool_calls, message.tool_calls)
                yield ResponseReceived(replace(response, message=message))
            case _:
                yield _with_names(milestone, names)


def _renamed(old: tuple[ToolCall, ...], new: tuple[ToolCall, ...]) -> Mapping[str, str]:
    return {one.id: other.id for one, other in zip(old, new, strict=True)}


def _with_names(milestone: Milestone, names: Mapping[str, str]) -> Milestone:
    """The milestone of a tool call by its new id; any other as it is."""
    match milestone:
        case ToolCallStarted(call) | ToolCallFinished(call) | ToolCallPostponed(call):
            return replace(milestone, call=replace(call, id=names.get(call.id, call.id)))
        case Approved(call_id):
            return replace(milestone, call_id=names.get(call_id, call_id))
    return milestone
