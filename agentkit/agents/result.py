"""What came of a run?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentkit.decisions import Decision
from agentkit.errors import AgentKitError
from agentkit.events import Event, ToolCallFinished
from agentkit.messages import Message
from agentkit.usage import Usage

RunStatus = Literal["done", "paused", "limit", "failed"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run from its prompt to its end, whatever the end was.

    `output` is the last text that the model wrote: the answer, or what it had said when the run did not get to one.
    `messages` are those of this run; `tool_calls` holds each call with its result, in the order asked; `error` says
    why the status is not `done`.
    """

    output: str
    status: RunStatus
    messages: tuple[Message, ...] = field(repr=False)
    tool_calls: tuple[ToolCallFinished, ...] = field(repr=False)
    iterations: int
    usage: Usage
    error: AgentKitError | None = None

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The judgment on each tool call, in the order of `tool_calls`."""
        return tuple(used.result.decision for used in self.tool_calls if used.result.decision is not None)

    def raise_for_status(self) -> RunResult:
        """The result itself when the run got to its answer; raises its error otherwise."""
        if self.error is not None:
            raise self.error
        return self


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """The run is over. The last event of every stream."""

    result: RunResult
