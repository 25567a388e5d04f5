"""Context window of an agent, calibrated from the responses of its model."""

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
    fit_with_plan,
    summary_prompt,
    to_summarise,
    with_summary,
)
from agentkit.sessions.run_state import Summary
from agentkit.sessions.token_estimates import Calibration, Estimates

_SHORT_TOKENS = 24_000
"""Requests up to this size fit every model in the list of context windows, so no lookup is needed."""

_TO_COME = UserMessage("")
"""Placeholder for the prompt that follows."""

_NOTHING_LEARNT = Calibration()


@dataclass(slots=True)
class ContextBudget:
    """The context window of an agent with its token calibration. Thread-safe: the last update wins."""

    window: Window
    estimates: Estimates = field(default_factory=Estimates)
    calibration: Calibration = _NOTHING_LEARNT
    summary: Summary | None = None
    is_learnt: bool = False

    def tokens(self, request: Request) -> int:
        """Estimate how many tokens the server will count for a request."""
        return self.calibration.counted(self._estimated(request))

    def learn(self, request: Request, reported_tokens: int) -> None:
        """Calibrate with the number of tokens that the server reported."""
        self.calibration = self.calibration.learnt(self._estimated(request), reported_tokens)

    def refused(self, request: Request, max_tokens: int | None, limit_tokens: int | None) -> None:
        """Shrink the window after a request with a `max_tokens` answer was refused as too long."""
        self.is_learnt = True
        self.window = self.window.refused(self.tokens(request) + (max_tokens or 0), limit_tokens)

    @property
    def answer_tokens(self) -> int | None:
        """Maximum length of an answer in a window learnt from a refusal; None before the first refusal."""
        return max(self.window.tokens // 4, 1) if self.is_learnt and self.window.tokens else None

    def left(self, request: Request, llm: Callable[[], LLM]) -> int | None:
        """Number of estimated tokens available for the messages; None if the window is unknown."""
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
        """Adopt another agent's or process's summary of the conversation if it covers more than the current one."""
        told = [*history, _TO_COME]
        own = self.summary.count if self.summary is not None and self.summary.covers(told) else 0
        if summary is not None and summary.covers(told) and summary.count > own:
            self.summary = summary

    def to_summarise(self, messages: Sequence[Message], room: int, newest: int) -> Sequence[Message]:
        """The oldest messages, which a summary should replace; empty if the conversation fits."""
        if not self.window.summarise:
            return ()
        told = self.told(messages)
        gone = set(map(id, to_summarise(told, room, self.estimates)))
        shift = len(messages) - len(told)
        last = max((place for place, message in enumerate(told[: newest - shift]) if id(message) in gone), default=None)
        return () if last is None else messages[: last + 1 + shift]

    def summary_request(self, old: Sequence[Message], room: int) -> Request:
        """The request for a summary."""
        prompt = summary_prompt(self.window.edited(self.told(old)), max(room // 2, 1_000))
        return Request([UserMessage(prompt)], SUMMARY_INSTRUCTION)

    def told(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages sent to the model: the summary, if one applies, followed by the messages it does not cover."""
        summary = self.summary
        if summary is None or not summary.covers(messages):
            return messages
        standing = [message for message in messages[: summary.count] if isinstance(message, SystemMessage)]
        rest = [*standing, *messages[summary.count :]]
        told = with_summary(summary.text, rest, summary.count - len(standing))
        place = next(place for place, message in enumerate(told) if message is not rest[place])
        # Reuse one message object for the summary in every request, so that its tokens are counted once.
        told[place] = self.estimates.made(rest[place], summary.text, partial(told.__getitem__, place))
        return told

    def fitted(self, messages: Sequence[Message], room: int, newest: int, *, with_handles: bool) -> Fitted:
        """The part of the conversation that fits; `newest` is the index at which the newest exchange begins."""
        told = self.told(messages)
        begins = max(newest - (len(messages) - len(told)), 0)

        def fitted(told: Sequence[Message], room: int) -> Fitted:
            return fit(told, room, self.window, self.estimates, begins, with_handles=with_handles)

        return fit_with_plan(told, messages, fitted, room)

    def _estimated(self, request: Request) -> int:
        return self.estimates.total(request.messages, request.instruction, request.tools, request.output_schema)
