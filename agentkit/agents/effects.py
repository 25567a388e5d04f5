"""Effects requested by the run loop: model requests, approvals, tool calls, user functions."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import field
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.guardrails import Middleware
from agentkit.agents.run_config import ParentRun
from agentkit.agents.tool_policy import JudgedCall, recorded
from agentkit.errors import Cancelled, ReplayError, ToolTimeout
from agentkit.events import Approved, Event, Milestone, ResponseReceived
from agentkit.llm.client import LLM
from agentkit.llm.pipeline import LEFT_USAGE
from agentkit.messages import Request, Response, ToolCall, ToolResult
from agentkit.recording import PersonAsked
from agentkit.safety.approval import NOBODY, SILENT, WORDS, Approval, ApprovalRequest, Approver, ApproverAnswer
from agentkit.sessions.session import SessionRun
from agentkit.tracing.listeners import apieces_within, pieces_within
from agentkit.usage import Usage

_NOT_ANSWERED = "The time of the run is up, and nobody has answered."


@dataclass(slots=True)
class AskModel:
    """Send the request to the model; `answer` becomes its response or the error.

    `llm` returns the client, created on first use. An answer that arrives after `seconds_left` is discarded. `around`
    returns the context manager that wraps the whole request, `layers` are its middleware. `guards` are guardrails that
    run at the same time: no event is emitted before all have passed, and an exception of one abandons the request.
    """

    request: Request
    llm: Callable[[], LLM]
    seconds_left: float
    answer: Response | Exception | None = None
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    is_streamed: bool = False
    layers: tuple[Middleware, ...] = ()
    left: list[Usage] = field(default_factory=list)
    guards: tuple[CallFunction, ...] = ()

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Collect in `left` what is known of the usage of a stream that is closed in the block."""
        token = LEFT_USAGE.set(self.left.append)
        try:
            yield
        finally:
            LEFT_USAGE.reset(token)

    def within(self, pieces: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Wrap a stream in the context manager of the request, which is active while each chunk is awaited."""
        if self.around is nullcontext:
            return pieces
        self.is_streamed = True
        return pieces_within(self.around(), self._heard(pieces))

    def awithin(self, pieces: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Async version of `within`; the caller sets `answer`."""
        if self.around is nullcontext:
            return pieces
        self.is_streamed = True
        return apieces_within(self.around(), pieces)

    def _heard(self, pieces: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Yield the chunks, and set `answer` before the context manager exits."""
        with closing(pieces):
            for piece in pieces:
                if isinstance(piece, ResponseReceived):
                    self.answer = piece.response
                yield piece

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Store the error of the model, of its configuration or of a middleware as the answer."""
        try:
            yield
        except (ReplayError, Cancelled):
            raise
        except Exception as error:
            self.answer = error


@dataclass(slots=True)
class AskPerson:
    """Ask the approver and store its answer or exception; `answer` stays None without an approver.

    An answer that arrives after `seconds_left` is discarded.
    """

    request: ApprovalRequest
    approve: Approver | None = None
    answer: Approved | None = None
    seconds_left: float = math.inf

    @property
    def needs_words(self) -> bool:
        """Whether the tool waits for a text that becomes its result, rather than for approval."""
        return self.request.decision.rule == WORDS

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Convert an exception to an answer: an approver that fails or is too late has not approved."""
        try:
            yield
        except Exception as error:
            is_late = isinstance(error, ToolTimeout) and self.seconds_left < math.inf
            no = Approved(self.request.call_id, Approval.NO.value, _NOT_ANSWERED)
            self.answer = no if is_late else self.approved(error)

    def approved(self, said: object) -> Approved:
        """Convert the return value or exception of an approver to the Approved event that is stored."""
        call_id = self.request.call_id
        if self.needs_words and (said is None or isinstance(said, bool | Approval)) and said is not Approval.NO:
            said = Approval.LATER  # an approver that approves everything has not answered the question
        if self.needs_words and not isinstance(said, Exception | Approval | None):
            words = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str)
            return Approved(call_id, Approval.ONCE, words)
        answer = ApproverAnswer(Approval.NO, SILENT) if said is None else ApproverAnswer.of(said)
        arguments = None if answer.arguments is None else json.dumps(dict(answer.arguments), default=str)
        bound = {} if answer.approval is Approval.NO or arguments is not None else self.request.bound
        return Approved(call_id, answer.approval, answer.text, arguments, bound)

    @property
    def nobody(self) -> Approved:
        """The answer without an approver."""
        return Approved(self.request.call_id, NOBODY.approval, NOBODY.text)

    @property
    def asked(self) -> PersonAsked:
        """The question as stored in a recording."""
        request = self.request
        return PersonAsked(ToolCall(request.call_id, request.tool, recorded(request.arguments)), request.decision)


@dataclass(slots=True)
class UseTools:
    """Run the allowed calls, none longer than `timeout_seconds`.

    Each result is stored under its call's id as soon as it arrives, so that finished results survive an interruption of
    the rest. `lineage` constrains the agents that the tools run. `around` returns the context manager that wraps a
    call.
    """

    calls: tuple[JudgedCall, ...]
    results: dict[str, ToolResult]
    timeout_seconds: float | None
    lineage: ParentRun
    around: Callable[[JudgedCall], AbstractContextManager[object]] = nullcontext


@dataclass(slots=True)
class CallFunction:
    """Call a user's function, such as a guardrail; `answer` becomes its return value, its exception or a timeout."""

    function: Callable[..., Any]
    given: tuple[Any, ...]
    seconds_left: float = math.inf
    answer: object | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Store an exception as the answer: a guardrail refuses by raising."""
        try:
            yield
        except Exception as error:
            self.answer = error


Question = AskModel | AskPerson | UseTools | CallFunction

Steps = Generator[Event | Question, None, None]
"""The events and effects of a run; the driver performs each effect before the loop continues."""


def tell(run: SessionRun, milestone: Milestone) -> Steps:
    """Apply a milestone to the run, and emit it."""
    run.progress.apply(milestone)
    yield milestone
