"""What a run reports while it happens. `RunFinished`, the last one, lives with its result in `agents/result.py`."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.decisions import Decision
from agentkit.messages import Content, Response, ToolCall, ToolResult


class Event:
    """Something happened in a run."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run of the agent `agent` begins with `prompt`."""

    agent: str
    prompt: Content


@dataclass(frozen=True, slots=True)
class RequestStarted(Event):
    """The model is being asked; `iteration` counts from 1."""

    iteration: int


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(Event):
    """The next piece of the reasoning that the provider lets us see."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta(Event):
    """The next piece of a tool call being written: `index` tells the calls of one response apart."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ResponseReceived(Event):
    """The model has answered."""

    response: Response


@dataclass(frozen=True, slots=True)
class ToolCallStarted(Event):
    """A tool call has been judged; it runs unless the decision forbids it."""

    call: ToolCall
    decision: Decision


@dataclass(frozen=True, slots=True)
class ToolCallFinished(Event):
    """A tool call has its result."""

    call: ToolCall
    result: ToolResult
