"""What can a fake server do with a request besides answering it well?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from agentkit.messages import AssistantMessage, Response
from agentkit.slotted import dataclass
from agentkit.testing.recorded import RecordedRequest
from agentkit.testing.script import LINE_USAGE, Saying, describe, response_of

Ending = Literal["whole", "cut", "dropped", "silent"]

CREATED_AT = 1_780_000_000
"""When every answer was made, in seconds since 1970: the same each time, so that tests can compare."""

_ERROR_TYPES = {403: "request_forbidden", 429: "requests"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says, in whichever protocol it is asked. A refusal takes the place of the text."""

    response: Response
    refusal: str = ""
    filtered: bool = False

    def __str__(self) -> str:
        said = f"refuses: {self.refusal!r}" if self.refusal else describe(self.response)
        return f"{said}, filtered" if self.filtered else said


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes that are sent as they are, in any protocol."""

    pieces: tuple[bytes, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status} {b''.join(self.pieces)!r}"


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """One line of a FakeServer: what is said, and how it is delivered. Made by the functions of this module.

    `after` counts the deltas that are sent before an `ending` other than "whole"; None is all of them.
    """

    content: Answer | Raw
    delay_seconds: float = 0.0
    pause_seconds: float = 0.0
    ending: Ending = "whole"
    after: int | None = None

    def __repr__(self) -> str:
        return f"Reply({self.content}, {self.ending})"


ServerLine = Saying | Reply | Callable[[RecordedRequest], "ServerLine"]
"""A line of a FakeServer."""


def reply_of(line: object) -> Reply:
    """The reply that a line stands for. Raises TypeError for what is none."""
    return line if isinstance(line, Reply) else Reply(Answer(response_of(line)))


def refuse(reason: str) -> Reply:
    """The model declines to answer and says why."""
    return Reply(Answer(Response(AssistantMessage(), "stop", LINE_USAGE), refusal=reason))


def filtered(text: str = "") -> Reply:
    """The content filter stops the answer after `text`."""
    return Reply(Answer(Response(AssistantMessage(text), "stop", LINE_USAGE), filtered=True))


def fail(
    status: int = 500,
    message: str = "The server had an error while processing your request",
    *,
    code: str | None = None,
    parameter: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An error as OpenAI words it. `fail(429, headers={"Retry-After": "1"})`; status 200 hides it in a success."""
    import json

    if not isinstance(status, int):
        raise TypeError(f'fail() takes the status first, as in fail(429, "slow down"). Got {status!r:.200}')
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": parameter, "code": code}
    body = json.dumps({"error": error}).encode()
    return Reply(Raw((body,), status, {"Content-Type": "application/json", **(headers or {})}))


def raw(
    *pieces: bytes | str | Mapping[str, Any],
    status: int = 200,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    r"""Bytes sent as they are, piece by piece, for what real servers do against all rules.

    A dictionary is sent as one server-sent event; a text as UTF-8. `raw("<html>…", content_type="text/html")`.
    """
    import json

    encoded = tuple(
        piece
        if isinstance(piece, bytes)
        else piece.encode()
        if isinstance(piece, str)
        else f"data: {json.dumps(piece)}\n\n".encode()
        for piece in pieces
    )
    return Reply(Raw(encoded, status, {"Content-Type": content_type, **(headers or {})}))


def slow(line: ServerLine, *, before_seconds: float = 0.0, between_seconds: float = 0.0) -> Reply:
    """The line, with a wait before the first byte and between the pieces of the body."""
    return replace(reply_of(line), delay_seconds=before_seconds, pause_seconds=between_seconds)


def cut(line: ServerLine, *, after: int | None = None) -> Reply:
    """The line without its end: no finish reason, no [DONE], no `response.completed`, yet a proper end of the body.

    `after` counts the deltas that are sent, all of them by default. A JSON answer breaks off in its middle.
    """
    return replace(reply_of(line), ending="cut", after=after)


def drop(line: ServerLine | None = None, *, after: int | None = None) -> Reply:
    """The connection closes: without a word, or with a line in the middle of its body, after so many deltas."""
    if line is None:
        return Reply(Raw(()), ending="silent")
    return replace(reply_of(line), ending="dropped", after=after)
