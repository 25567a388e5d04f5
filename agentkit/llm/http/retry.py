"""Retry policy for model requests: which responses are retried, and how long to wait."""

from __future__ import annotations

import random

import httpx2

from agentkit.errors import ModelError
from agentkit.llm.http.attempts import AttemptCounter
from agentkit.llm.http.error_mapping import ConnectionInfo, refusal, retry_after_seconds
from agentkit.llm.protocols.error_mapping import is_spent

_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 8.0
"""The first pause and the longest pause; the pause doubles with each retry."""

_LONGEST_WISH_SECONDS = 120.0
"""If the server asks for a longer pause, the error is raised and the caller decides."""

_HASTY_WISH_SECONDS = _LONGEST_SECONDS
"""The same limit when a fallback model is available: no longer than a normal backoff pause."""

_SPARED = 0.25
"""Fraction of a pause that is randomised (jitter), so that clients do not retry at the same time."""

_PASSING_ERRORS = (
    httpx2.TimeoutException,
    httpx2.NetworkError,
    httpx2.RemoteProtocolError,
    httpx2.ProxyError,
    httpx2.DecodingError,
)
_HASTY_ERRORS = _PASSING_ERRORS[1:]
_PASSING_STATUSES = frozenset({408, 409, 425, 429, 499})
"""Statuses that are retried, in addition to 5xx."""

_TOO_MANY_REQUESTS = 429


_AT_WORK = (httpx2.ReadTimeout, httpx2.ReadError, httpx2.RemoteProtocolError, httpx2.DecodingError, ModelError)
"""Errors after which the server could have processed the request."""


class RetryState:
    """Retries of one request: counts unanswered attempts and returns the pause before the next one."""

    def __init__(self, connection: ConnectionInfo, attempts: AttemptCounter) -> None:
        self._connection, self._attempts = connection, attempts
        self._pauses = RetryPolicy(connection.max_retries, is_hasty=attempts.is_hasty)

    def after_error(self, error: Exception) -> float:
        """Seconds to wait before the next attempt. Raises the error if retries are exhausted or do not apply."""
        self._attempts.unanswered += isinstance(error, _AT_WORK)
        seconds = self._pauses.after_error(error)
        if seconds is None:
            raise error
        return seconds

    def after_refusal(self, response: httpx2.Response) -> float:
        """Seconds to wait after an error response. Raises the mapped error if it is not retried."""
        seconds = self._pauses.after_refusal(response)
        if seconds is None:
            raise refusal(response, self._connection)
        return seconds


class RetryPolicy:
    """Backoff for one request, which is retried at most `max_retries` times.

    In haste, when a fallback model is available, timeouts are not retried, nor are requests with a long Retry-After.
    """

    def __init__(self, max_retries: int, *, is_hasty: bool = False) -> None:
        self._left, self._seconds = max_retries, _FIRST_SECONDS
        self._passing = _HASTY_ERRORS if is_hasty else _PASSING_ERRORS
        self._longest_wish_seconds = _HASTY_WISH_SECONDS if is_hasty else _LONGEST_WISH_SECONDS

    def after_error(self, error: Exception) -> float | None:
        """Seconds to wait after a connection error; None if the request is not retried."""
        return self._next() if isinstance(error, self._passing) else None

    def after_refusal(self, response: httpx2.Response) -> float | None:
        """Seconds to wait after an error response, whose headers can set the pause; None if it is not retried."""
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
        return False  # no credit left
    said = response.headers.get("x-should-retry")
    if said in ("true", "false"):
        return said == "true"
    return response.status_code in _PASSING_STATUSES or response.is_server_error
