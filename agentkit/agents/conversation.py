"""What has been said so far? The messages that the runs of an agent share."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agentkit.messages import AssistantMessage, Message, with_distinct_ids


class Conversation:
    """Messages in order. Runs at the same time enter theirs in one piece, and no two tool calls share an id."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._call_ids: set[str] = set()
        self._lock = threading.Lock()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far."""
        with self._lock:
            return tuple(self._messages)

    def append(self, messages: Sequence[Message]) -> None:
        """Enter what a run has said."""
        with self._lock:
            self._messages += messages

    def tell_apart(self, message: AssistantMessage) -> AssistantMessage:
        """The message with an id on each tool call that no other call has, not even one of a run still going on."""
        with self._lock:
            return with_distinct_ids(message, self._call_ids)
