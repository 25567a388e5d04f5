"""What came of a run?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentkit.decisions import Decision
from agentkit.errors import AgentKitError
from agentkit.events import Event, ToolCallFinished
from agentkit.messages import Message
from agentkit.redaction import redact
from agentkit.usage import Usage
from agentkit.workspace.journal import Record
from agentkit.workspace.undoing import Undone

RunStatus = Literal["done", "paused", "limit", "failed"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run from its prompt to its end, whatever the end was.

    `output` is the last text that the model wrote: the answer, or what it had said when the run did not get to one.
    `messages` are those of this run; `tool_calls` holds each call with its result, in the order asked; `error` says
    why the status is not `done`; `record` is what it changed in its workspace.
    """

    output: str
    status: RunStatus
    messages: tuple[Message, ...] = field(repr=False)
    tool_calls: tuple[ToolCallFinished, ...] = field(repr=False)
    iterations: int
    usage: Usage
    error: AgentKitError | None = None
    record: Record | None = field(default=None, repr=False, compare=False)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The judgment on each tool call, in the order of `tool_calls`."""
        return tuple(used.result.decision for used in self.tool_calls if used.result.decision is not None)

    @property
    def changes(self) -> str:
        """What the run changed in its workspace, or would have changed in a dry run, as a unified diff."""
        return "" if self.record is None else redact(self.record.diff)

    def undo(self) -> Undone:
        """Take back what the run changed, and say what was restored and removed.

        Raises ToolError, and changes nothing, when a file was changed since.
        """
        return Undone() if self.record is None else self.record.undo()

    def raise_for_status(self) -> RunResult:
        """The result itself when the run got to its answer; raises its error otherwise."""
        if self.error is not None:
            raise self.error
        return self


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """The run is over. The last event of every stream."""

    result: RunResult
