"""What can only the world answer? The questions that the loop yields; a driver enters the answer in the question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentkit.agents.tool_call import JudgedCall
from agentkit.errors import ModelError
from agentkit.messages import Request, Response, ToolResult
from agentkit.safety.approval import ApprovalRequest


@dataclass(slots=True)
class AskModel:
    """Send the request to the model and enter its response, or the ModelError that came instead."""

    request: Request
    answer: Response | ModelError | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Take a ModelError for the answer."""
        try:
            yield
        except ModelError as error:
            self.answer = error


@dataclass(slots=True)
class AskPerson:
    """Ask the approver and enter its answer, or what it raised; None when there is no approver."""

    request: ApprovalRequest
    answer: object | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Take an exception for the answer: an approver that fails has not approved."""
        try:
            yield
        except Exception as error:
            self.answer = error


@dataclass(slots=True)
class UseTools:
    """Run the calls, all of which may happen.

    Each result is entered under its call's id as soon as it is there, so that what was finished is kept when the
    rest is cut off.
    """

    calls: tuple[JudgedCall, ...]
    results: dict[str, ToolResult] = field(default_factory=dict)


Question = AskModel | AskPerson | UseTools
