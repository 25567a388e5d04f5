"""Retry policy for model requests: which responses are retried, and how long to wait."""

from __future__ import annotations

import random

import httpx2

from agentkit.errors import ModelError
from agentkit.llm.http.attempts import AttemptCounter
from agentkit.llm.http.error_mapping import ConnectionInfo, refusal, retry_after_seconds
from agentkit.llm.protocols.error_mapping import is_spent

_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 8.0
"""The pause before the second attempt, and the longest one, as it doubles each time."""

_LONGEST_WISH_SECONDS = 120.0
"""A server that wants a longer pause is not asked again: who called decides what to do meanwhile."""

_HASTY_WISH_SECONDS = _LONGEST_SECONDS
"""The same where another model can be asked at once: no longer than a pause that nobody wished for."""

_SPARED = 0.25
"""How much of a pause is left to chance, so that many who were refused at once do not come back at once."""

_PASSING_ERRORS = (
    httpx2.TimeoutException,
    httpx2.NetworkError,
    httpx2.RemoteProtocolError,
    httpx2.ProxyError,
    httpx2.DecodingError,
)
_HASTY_ERRORS = _PASSING_ERRORS[1:]
_PASSING_STATUSES = frozenset({408, 409, 425, 429, 499})
"""What may be over in a moment, beside the 500s."""

_TOO_MANY_REQUESTS = 429


_AT_WORK = (httpx2.ReadTimeout, httpx2.ReadError, httpx2.RemoteProtocolError, httpx2.DecodingError, ModelError)
"""The ends of an attempt that a server may have been at work on."""


class RetryState:
    """The attempts of one request that came to nothing: when is the next?"""

    def __init__(self, connection: ConnectionInfo, attempts: AttemptCounter) -> None:
        self._connection, self._attempts = connection, attempts
        self._pauses = RetryPolicy(connection.max_retries, is_hasty=attempts.is_hasty)

    def after_error(self, error: Exception) -> float:
        """The seconds to wait before the next attempt. Raises the error when this was the last."""
        self._attempts.unanswered += isinstance(error, _AT_WORK)
        seconds = self._pauses.after_error(error)
        if seconds is None:
            raise error
        return seconds

    def after_refusal(self, response: httpx2.Response) -> float:
        """The same after an answer that is none. Raises what it means when it was the last."""
        seconds = self._pauses.after_refusal(response)
        if seconds is None:
            raise refusal(response, self._connection)
        return seconds


class RetryPolicy:
    """How long to wait before one request is sent again, at most `max_retries` times.

    In haste, when another model can be asked, nobody waits for a whole timeout again, nor for long on a server's wish.
    """

    def __init__(self, max_retries: int, *, is_hasty: bool = False) -> None:
        self._left, self._seconds = max_retries, _FIRST_SECONDS
        self._passing = _HASTY_ERRORS if is_hasty else _PASSING_ERRORS
        self._longest_wish_seconds = _HASTY_WISH_SECONDS if is_hasty else _LONGEST_WISH_SECONDS

    def after_error(self, error: Exception) -> float | None:
        """The seconds to wait after what has happened to a connection; None when the request is not sent again."""
        return self._next() if isinstance(error, self._passing) else None

    def after_refusal(self, response: httpx2.Response) -> float | None:
        """The same after a refusal that was read, whose server may say whether to come back, and when."""
        wish = retry_after_seconds(response.headers) or 0.0
        if wish > self._longest_wish_seconds or not _may_pass(response):
            return None
        seconds = self._next()
        return seconds and (wish or seconds)

    def _next(self) -> float | None:
        if self._left <= 0:
            return None
        seconds = self._seconds * (1 - _SPARED * random.random())  # noqa: S311 - nothing secret
        self._left, self._seconds = self._left - 1, min(2 * self._seconds, _LONGEST_SECONDS)
        return seconds


def _may_pass(response: httpx2.Response) -> bool:
    if response.status_code == _TOO_MANY_REQUESTS and is_spent(response.text):
        return False  # there is nothing left to pay with
    said = response.headers.get("x-should-retry")
    if said in ("true", "false"):
        return said == "true"
    return response.status_code in _PASSING_STATUSES or response.is_server_error
