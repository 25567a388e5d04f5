"""What has a run said so far? Its text, as it is written, with what was said around tool calls in paragraphs."""

from __future__ import annotations

from dataclasses import field

from agentkit.events import Event, RequestStarted, TextDelta
from agentkit.slotted import dataclass

PARAGRAPH = "\n\n"


@dataclass(slots=True)
class Spoken:
    """What somebody was told of a run that is streamed. With `holds_back` nothing is told before it was checked."""

    holds_back: bool
    said: list[str] = field(default_factory=list)
    """What was told of each response."""

    def piece(self, event: Event) -> str:
        """What an event adds; what each response has said stands in paragraphs of its own."""
        if isinstance(event, RequestStarted):
            self.said.append("")
        if not isinstance(event, TextDelta) or self.holds_back:
            return ""
        before = PARAGRAPH if any(self.said) and not self.said[-1] else ""
        self.said[-1] += event.text
        return before + event.text

    def rest(self, answer: str) -> str:
        """What of the answer is still to be told."""
        told = next((said for said in reversed(self.said) if said and answer.startswith(said)), None)
        if told is not None:
            return answer[len(told) :]
        return (PARAGRAPH if any(self.said) and answer else "") + answer
