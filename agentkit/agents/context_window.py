"""The context window of an agent and what it has learnt about its model's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from agentkit._dataclass import dataclass
from agentkit.llm.client import LLM
from agentkit.llm.pricing import context_window
from agentkit.messages import Message, Request, SystemMessage, UserMessage
from agentkit.sessions.context_window import (
    SUMMARY_INSTRUCTION,
    Fitted,
    Window,
    fit,
    summary_prompt,
    to_summarise,
    with_summary,
)
from agentkit.sessions.run_state import Summary
from agentkit.sessions.token_estimates import Calibration, Estimates

_SHORT_TOKENS = 24_000
"""Shorter requests fit any model that a list of windows knows, so nobody looks."""

_TO_COME = UserMessage("")
"""Stands for the prompt that follows."""

_NOTHING_LEARNT = Calibration()


@dataclass(slots=True)
class ContextBudget:
    """The window of an agent, with what its requests have taught. Any thread may use it: the last lesson counts."""

    window: Window
    estimates: Estimates = field(default_factory=Estimates)
    calibration: Calibration = _NOTHING_LEARNT
    summary: Summary | None = None
    is_learnt: bool = False

    def tokens(self, request: Request) -> int:
        """About how many tokens the server will count in a request."""
        return self.calibration.counted(self._estimated(request))

    def learn(self, request: Request, reported_tokens: int) -> None:
        """Take in how many tokens the server counted."""
        self.calibration = self.calibration.learnt(self._estimated(request), reported_tokens)

    def refused(self, request: Request, max_tokens: int | None, limit_tokens: int | None) -> None:
        """Take in that a request was too long for the model, with the answer of at most `max_tokens` that it wished."""
        self.is_learnt = True
        self.window = self.window.refused(self.tokens(request) + (max_tokens or 0), limit_tokens)

    @property
    def answer_tokens(self) -> int | None:
        """How long an answer may be in a window that a server's refusal has taught; None as long as none has."""
        return max(self.window.tokens // 4, 1) if self.is_learnt and self.window.tokens else None

    def left(self, request: Request, llm: Callable[[], LLM]) -> int | None:
        """How many tokens of our estimate the messages may take; None when nobody knows."""
        known = None
        if self.window.tokens is None:
            if self.tokens(request) <= _SHORT_TOKENS:
                return None
            known = context_window(llm().provider, llm().model)
        ordered = self.estimates.total((), request.instruction, request.tools, request.output_schema)
        taken = self.calibration.counted(ordered)
        room = self.window.room(known, taken)
        return None if room is None else self.calibration.estimated(room)

    def recall(self, summary: Summary | None, history: Sequence[Message]) -> None:
        """Take in a summary that another agent or process had written of the conversation that `history` begins."""
        told = [*history, _TO_COME]
        own = self.summary.count if self.summary is not None and self.summary.covers(told) else 0
        if summary is not None and summary.covers(told) and summary.count > own:
            self.summary = summary

    def to_summarise(self, messages: Sequence[Message], room: int, newest: int) -> Sequence[Message]:
        """The beginning of the conversation that a summary should stand for; empty when it has room."""
        if not self.window.summarise:
            return ()
        told = self.told(messages)
        gone = set(map(id, to_summarise(told, room, self.estimates)))
        shift = len(messages) - len(told)
        last = max((place for place, message in enumerate(told[: newest - shift]) if id(message) in gone), default=None)
        return () if last is None else messages[: last + 1 + shift]

    def summary_request(self, old: Sequence[Message], room: int) -> Request:
        """What asks the model for a summary."""
        prompt = summary_prompt(self.window.edited(self.told(old)), max(room // 2, 1_000))
        return Request([UserMessage(prompt)], SUMMARY_INSTRUCTION)

    def told(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, beginning with the summary where there is one of them."""
        summary = self.summary
        if summary is None or not summary.covers(messages):
            return messages
        standing = [message for message in messages[: summary.count] if isinstance(message, SystemMessage)]
        rest = [*standing, *messages[summary.count :]]
        told = with_summary(summary.text, rest, summary.count - len(standing))
        place = next(place for place, message in enumerate(told) if message is not rest[place])
        # The message that bears the summary is the same one in every request, so that it is measured once.
        told[place] = self.estimates.made(rest[place], summary.text, partial(told.__getitem__, place))
        return told

    def fitted(self, messages: Sequence[Message], room: int, newest: int, *, with_handles: bool) -> Fitted:
        """The part of the conversation that has room; `newest` is where the newest exchange begins."""
        told = self.told(messages)
        begins = max(newest - (len(messages) - len(told)), 0)
        return fit(told, room, self.window, self.estimates, begins, with_handles=with_handles)

    def _estimated(self, request: Request) -> int:
        return self.estimates.total(request.messages, request.instruction, request.tools, request.output_schema)
