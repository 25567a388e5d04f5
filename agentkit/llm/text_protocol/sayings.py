"""What has an answer said so far, and what is still open? Pure."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from agentkit.events import Event, ReasoningDelta, TextDelta, ToolCallDelta

if TYPE_CHECKING:
    from agentkit.messages import ToolCall


class Sayings:
    """Text, reasoning and calls of an answer, and the events that tell them.

    Blanks wait for the text after them, so that those before a call are not told. Calls may be held back, together
    with how they were written, until it is clear whether they were meant. With `is_single` only the first call counts.
    """

    def __init__(self, *, is_single: bool) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ToolCall] = []
        self._is_single = is_single
        self._events: list[Event] = []
        self._blanks: list[str] = []
        self._written: list[str] | None = None
        self._held: list[ToolCall] = []

    @property
    def is_holding(self) -> bool:
        """Whether calls are held back."""
        return self._written is not None

    @property
    def has_called(self) -> bool:
        """Whether there was a call, held back or not."""
        return bool(self.calls or self._held)

    def say(self, text: str) -> None:
        """Tell the next piece of text."""
        if not self.texts and (self.calls or self.reasoning):
            text, self._blanks = text.lstrip(), []
        told = text.rstrip()
        if told:
            told = "".join([*self._blanks, told])
            self.texts.append(told)
            self._events.append(TextDelta(told))
            self._blanks = []
        self._blanks.append(text[len(text.rstrip()) :])

    def forget_blanks(self) -> None:
        """Leave out the blanks at the end of the text."""
        self._blanks = []

    def think(self, text: str) -> None:
        """Tell the next piece of reasoning."""
        self.reasoning.append(text)
        self._events.append(ReasoningDelta(text))

    def call(self, call: ToolCall) -> None:
        """Tell a whole call, or hold it back as well."""
        self._held.append(call)
        if not self.is_holding:
            self.commit()

    def hold(self) -> None:
        """Hold back what comes now."""
        self._written = []

    def keep(self, written: str) -> None:
        """Remember how what is held back was written."""
        if self._written is not None:
            self._written.append(written)

    def release(self) -> str:
        """Tell what was held back as text, which it was after all; the text."""
        text = "".join(self._written or ())
        self._written, self._held = None, []
        self.say(text)
        return text

    def commit(self) -> None:
        """Tell the calls that were held back."""
        calls, self._held, self._written = self._held, [], None
        for call in calls[: 1 - len(self.calls)] if self._is_single else calls:
            self._events.append(ToolCallDelta(len(self.calls), call.name, call.arguments))
            self.calls.append(call)

    def end(self) -> None:
        """Tell what is left: the calls held back, or the blanks at the end of a text without calls."""
        self.commit()
        blanks = "".join(self._blanks)
        if blanks and not self.calls:
            self.texts.append(blanks)
            self._events.append(TextDelta(blanks))

    def take_events(self) -> list[Event]:
        """The events since the last time, pieces of one text joined."""
        events: list[Event] = []
        for kind, group in groupby(self._events, type):
            if kind is TextDelta or kind is ReasoningDelta:
                events.append(kind("".join(event.text for event in group if isinstance(event, kind))))
            else:
                events += group
        self._events = []
        return events
