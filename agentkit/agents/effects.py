"""Effects requested by the run loop: model requests, approvals, tool calls, user functions."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.run_config import ParentRun
from agentkit.agents.tool_policy import JudgedCall, recorded
from agentkit.errors import ModelError, ToolTimeout
from agentkit.events import Approved, Event, Milestone, ResponseReceived
from agentkit.llm.client import LLM
from agentkit.messages import Request, Response, ToolCall, ToolResult
from agentkit.recording import PersonAsked
from agentkit.safety.approval import NOBODY, SILENT, Approval, ApprovalRequest, Approver, ApproverAnswer
from agentkit.sessions.run_log import SessionRun
from agentkit.tracing.listeners import apieces_within, pieces_within

ABANDONED = "abandoned"
"""The code of the error that takes the place of an answer which came too late for its run."""

_NOT_ANSWERED = "The time of the run is up, and nobody has answered."

WORDS = "question"
"""The rule of what is asked when a tool waits for words."""


_NOTHING = nullcontext()


def alone(*_work: object) -> AbstractContextManager[None]:
    """What stands around work that nobody but the run itself has to do with."""
    return _NOTHING


@dataclass(slots=True)
class AskModel:
    """Send the request to the model and enter its response, or the ModelError that came instead.

    `llm` gives the model's client, which is made when it is first needed. No answer later than `seconds_left` counts.
    What `around` gives stands around all of it.
    """

    request: Request
    llm: Callable[[], LLM]
    seconds_left: float
    answer: Response | ModelError | None = None
    around: Callable[[], AbstractContextManager[object]] = alone
    is_streamed: bool = False

    def within(self, pieces: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """The pieces of a streamed answer, each waited for within what stands around the request."""
        if self.around is alone:
            return pieces
        self.is_streamed = True
        return pieces_within(self.around(), self._heard(pieces))

    def awithin(self, pieces: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Like `within`, awaiting; who gives the pieces has entered the answer."""
        if self.around is alone:
            return pieces
        self.is_streamed = True
        return apieces_within(self.around(), pieces)

    def _heard(self, pieces: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """The pieces; the answer is entered before what stands around it is left."""
        with closing(pieces):
            for piece in pieces:
                if isinstance(piece, ResponseReceived):
                    self.answer = piece.response
                yield piece

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Take a ModelError for the answer."""
        try:
            yield
        except ModelError as error:
            self.answer = error


@dataclass(slots=True)
class AskPerson:
    """Ask the approver and enter what it said or raised; None when there is no approver.

    No answer later than `seconds_left` counts.
    """

    request: ApprovalRequest
    approve: Approver | None = None
    answer: Approved | None = None
    seconds_left: float = math.inf

    @property
    def needs_words(self) -> bool:
        """Whether a tool waits for words that become its result, rather than for approval."""
        return self.request.decision.rule == WORDS

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Take an exception for the answer: an approver that fails, or is too late, has not approved."""
        try:
            yield
        except Exception as error:
            is_late = isinstance(error, ToolTimeout) and self.seconds_left < math.inf
            no = Approved(self.request.call_id, Approval.NO.value, _NOT_ANSWERED)
            self.answer = no if is_late else self.approved(error)

    def approved(self, said: object) -> Approved:
        """What an approver said, or raised, as it is kept."""
        call_id = self.request.call_id
        if self.needs_words and (said is None or isinstance(said, bool | Approval)) and said is not Approval.NO:
            said = Approval.LATER  # who approves everything has not answered anything
        if self.needs_words and not isinstance(said, Exception | Approval | None):
            words = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str)
            return Approved(call_id, Approval.ONCE, words)
        answer = ApproverAnswer(Approval.NO, SILENT) if said is None else ApproverAnswer.of(said)
        arguments = None if answer.arguments is None else json.dumps(dict(answer.arguments), default=str)
        bound = {} if answer.approval is Approval.NO or arguments is not None else self.request.bound
        return Approved(call_id, answer.approval, answer.text, arguments, bound)

    @property
    def nobody(self) -> Approved:
        """The answer where there is no approver."""
        return Approved(self.request.call_id, NOBODY.approval, NOBODY.text)

    @property
    def asked(self) -> PersonAsked:
        """The question as a recording knows it."""
        request = self.request
        return PersonAsked(ToolCall(request.call_id, request.tool, recorded(request.arguments)), request.decision)


@dataclass(slots=True)
class UseTools:
    """Run the calls, all of which may happen, none longer than `seconds_left`.

    Each result is entered under its call's id as soon as it is there, so that what was finished is kept when the
    rest is cut off. `lineage` is what agents that the tools set to work must keep to. What `around` gives stands
    around a call.
    """

    calls: tuple[JudgedCall, ...]
    results: dict[str, ToolResult]
    seconds_left: float
    lineage: ParentRun
    around: Callable[[JudgedCall], AbstractContextManager[object]] = alone


@dataclass(slots=True)
class CallFunction:
    """Call a function of the user's, such as a check, and enter what it returned or raised in the time that is left."""

    function: Callable[..., Any]
    given: tuple[Any, ...]
    seconds_left: float = math.inf
    answer: object | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Take an exception for the answer: it is how a check refuses."""
        try:
            yield
        except Exception as error:
            self.answer = error


Question = AskModel | AskPerson | UseTools | CallFunction

Steps = Generator[Event | Question, None, None]
"""What happens in a run, and what must be answered for it to go on."""


def tell(run: SessionRun, milestone: Milestone) -> Steps:
    """Apply a milestone to the run, and report it."""
    run.progress.apply(milestone)
    yield milestone
