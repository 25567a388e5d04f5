"""Failures of model requests: mapping of exceptions and error responses to agentkit errors, retries and backoff."""

from __future__ import annotations

import math
import random
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Protocol

import httpx2

from agentkit.errors import AgentKitError, BadResponse, ConfigError, ModelError, RateLimited, Rejected, Unreachable
from agentkit.llm.endpoint import display_url
from agentkit.llm.http.connection_pool import RETRY_ADVICE
from agentkit.llm.pipeline import is_cancelled, too_late
from agentkit.llm.protocols.error_mapping import CUT_SHORT, GENERATION_FAILED, as_sentence, is_quota_exhausted
from agentkit.llm.protocols.parsing import json_or_text
from agentkit.messages import Response
from agentkit.usage import unreported

if TYPE_CHECKING:
    from agentkit.llm.protocols import WireProtocol

_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.5, 8.0
"""The first pause and the longest pause; the pause doubles with each retry."""

_MAX_RETRY_AFTER_SECONDS = 120.0
"""If the server asks for a longer pause, the error is raised and the caller decides."""

_HASTY_RETRY_AFTER_SECONDS = _MAX_BACKOFF_SECONDS
"""The same limit when a fallback model is available: no longer than a normal backoff pause."""

_JITTER = 0.25
"""Fraction of a pause that is randomised, so that clients do not retry at the same time."""

_RETRYABLE_ERRORS = (
    httpx2.TimeoutException,
    httpx2.NetworkError,
    httpx2.RemoteProtocolError,
    httpx2.ProxyError,
    httpx2.DecodingError,
)
_HASTY_ERRORS = _RETRYABLE_ERRORS[1:]
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 499})
"""Statuses that are retried, in addition to 5xx."""

_PROXY_AUTHENTICATION, _NOT_IMPLEMENTED = 407, 501
_POSSIBLY_PROCESSED = (
    httpx2.ReadTimeout,
    httpx2.ReadError,
    httpx2.RemoteProtocolError,
    httpx2.DecodingError,
    ModelError,
)
"""Errors after which the server could have processed the request."""


@dataclass(eq=False, repr=False)
class Retries:
    """The retries of one request, and the count of attempts without a complete answer.

    `has_fallback`: another model can be called, so that timeouts are not retried, nor refusals with a long Retry-After.
    `has_started` is set once a response has started. `unanswered` counts the attempts that the server may charge for.
    `retries_left` is the number of remaining retries, `seconds` the next pause.
    """

    retries_left: int
    has_fallback: bool = False
    has_started: bool = False
    unanswered: int = 0
    seconds: float = _INITIAL_BACKOFF_SECONDS

    def after_error(self, error: Exception) -> float | None:
        """Seconds to wait after a connection error; None if the request is not retried."""
        self.unanswered += isinstance(error, _POSSIBLY_PROCESSED)
        return (
            self._next_pause() if isinstance(error, _HASTY_ERRORS if self.has_fallback else _RETRYABLE_ERRORS) else None
        )

    def after_error_response(self, response: httpx2.Response, error: AgentKitError) -> float | None:
        """Seconds to wait after an error response, whose headers can set the pause; None if it is not retried."""
        retry_after = retry_after_seconds(response.headers) or 0.0
        max_seconds = _HASTY_RETRY_AFTER_SECONDS if self.has_fallback else _MAX_RETRY_AFTER_SECONDS
        if retry_after > max_seconds or not _is_retryable(response, error):
            return None
        seconds = self._next_pause()
        return seconds and (retry_after or seconds)

    def after_response_error(self, error: ModelError) -> float | None:
        """Seconds to wait after an error inside a response with status 200; None if it is not retried."""
        is_temporary = isinstance(error, RateLimited | Unreachable) or error.code in _RETRYABLE_CODES
        if (
            not (self.has_started and is_temporary)
            or error.partial is not None
            or is_quota_exhausted(f"{error.code} {error}")
        ):
            return None
        seconds = None if error.code == STALLED else self._next_pause()
        self.unanswered += seconds is not None
        return seconds

    def record(self, error: ModelError) -> None:
        """Store the count in an error; a response that had begun counts as unanswered, too."""
        error.unanswered = self.unanswered + (self.has_started and error.status is None)

    def with_unanswered(self, response: Response) -> Response:
        """The response with the unanswered attempts added to its usage."""
        if not self.unanswered:
            return response
        usage = response.usage
        return replace(response, usage=usage + unreported(self.unanswered, usage.tariff))

    def _next_pause(self) -> float | None:
        if self.retries_left <= 0 or is_cancelled():
            return None
        seconds = self.seconds * (1 - _JITTER * random.random())  # noqa: S311 - nothing secret
        self.retries_left, self.seconds = self.retries_left - 1, min(2 * self.seconds, _MAX_BACKOFF_SECONDS)
        return seconds


def _is_retryable(response: httpx2.Response, error: AgentKitError) -> bool:
    if isinstance(error, RateLimited) and is_quota_exhausted(response.text):
        return False  # no credit left
    should_retry = response.headers.get("x-should-retry")
    if should_retry in ("true", "false"):
        return should_retry == "true"
    if response.status_code == _NOT_IMPLEMENTED or (response.is_server_error and isinstance(error, Rejected)):
        return False
    return response.status_code in _RETRYABLE_STATUSES or response.is_server_error


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after` (seconds or a date); None if absent or invalid."""
    pauses = (_number(headers.get("retry-after-ms", "")) / 1000, _seconds(headers.get("retry-after", "")))
    return next((max(seconds, 0.0) for seconds in pauses if math.isfinite(seconds)), None)


def _seconds(value: str) -> float:
    seconds = _number(value)
    if not math.isnan(seconds):
        return seconds
    try:
        return parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


STALLED = "stalled"
"""Code of the error of a response that stopped in the middle."""

_RETRYABLE_CODES = frozenset({GENERATION_FAILED, CUT_SHORT})
"""Codes of errors inside a response with status 200 that are retried, apart from those that are temporary by class."""

_ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]


class ConnectionInfo(Protocol):
    """Details of a connection for error messages: name and URL, proxy if any, timeouts and retries."""

    server: str
    timeout_seconds: float
    connect_seconds: float
    max_retries: int

    @property
    def proxy(self) -> str:
        """The URL of the proxy, without its password; empty if there is none."""
        ...

    def scrub(self, text: str) -> str:
        """A text without the secrets that were sent."""
        ...


def translate_error(error: Exception, connection: ConnectionInfo, retries: Retries) -> AgentKitError:
    """Map an exception of the HTTP library.

    The result is to be raised outside of the handler, so that it is not chained to the original, which could quote the
    key.
    """
    if isinstance(error, AgentKitError):
        return error
    if isinstance(error, httpx2.TimeoutException) and is_cancelled():
        return too_late()
    translate = next(translate for types, translate in _TRANSLATIONS if isinstance(error, types))
    if translate is _read_timeout and retries.has_started:
        translate = _stalled
    elif translate is _read_timeout and retries.has_fallback:
        translate = _read_timeout_unretried
    return translate(error, connection)


def error_for_response(response: httpx2.Response, connection: ConnectionInfo, wire: WireProtocol) -> ModelError:
    """The error for a response, already read, with a status other than success."""
    if 300 <= response.status_code < 400:
        target = display_url(response.headers.get("location", "nowhere"))
        text = f"{connection.server} redirects to {target}, and redirects are not followed. Correct the base URL."
        return BadResponse(text, status=response.status_code)
    if response.status_code == _PROXY_AUTHENTICATION:
        return _proxy_error(f"{response.status_code} {response.reason_phrase}", connection)
    seconds = retry_after_seconds(response.headers)
    body = json_or_text(connection.scrub(response.text))
    return wire.error(body, status=response.status_code, retry_after_seconds=seconds)


def _connect_timeout(_: BaseException, connection: ConnectionInfo) -> AgentKitError:
    seconds = f"{connection.connect_seconds:g} seconds"
    return Unreachable(f"Cannot reach {connection.server}: no connection within {seconds}. Is the server running?")


def _read_timeout(_: BaseException, connection: ConnectionInfo) -> AgentKitError:
    attempts = f", asked {connection.max_retries + 1} times" if connection.max_retries else ""
    return _read_timeout_unretried(_, connection, attempts)


def _read_timeout_unretried(_: BaseException, connection: ConnectionInfo, attempts: str = "") -> AgentKitError:
    seconds = f"{connection.timeout_seconds:g} seconds"
    return Unreachable(f"No answer from {connection.server} within {seconds}{attempts}. {RETRY_ADVICE}")


def _stalled(_: BaseException, connection: ConnectionInfo) -> AgentKitError:
    seconds = f"{connection.timeout_seconds:g} seconds"
    return Unreachable(
        f"{connection.server} stopped in the middle of the response: no data for {seconds}. {RETRY_ADVICE}",
        code=STALLED,
    )


def _proxy_error(reason: str, connection: ConnectionInfo) -> ModelError:
    proxy = f"The proxy {connection.proxy}" if connection.proxy else "A proxy"
    return Unreachable(
        f"{proxy} refused the connection to {connection.server}: {as_sentence(reason)} Check its address and password "
        "in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or add the host to NO_PROXY."
    )


def _proxy_refused(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return _proxy_error(str(error), connection)


def _connect_error(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return Unreachable(f"Cannot reach {connection.server}: {as_sentence(str(error))} {_hint(error)}")


def _connection_lost(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    reason = str(error) or _LOST_REASONS.get(type(error).__name__, type(error).__name__)
    is_http = not reason.startswith(_NOT_HTTP_REASONS)
    advice = "Try again." if is_http else "Is it an HTTP server, and is http:// or https:// right in the base URL?"
    return Unreachable(f"The connection to {connection.server} broke: {as_sentence(reason)} {advice}")


def _decoding_error(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return BadResponse(
        f"The response of {connection.server} is not compressed as its header declares: {as_sentence(str(error))} "
        "Try again, or check for a proxy that modifies responses."
    )


def _hint(error: BaseException | None) -> str:
    """Advice for an error while connecting."""
    while error is not None:
        hint = next((hint for types, hint in _HINTS if isinstance(error, types)), None)
        if hint:
            return hint
        error = error.__cause__ or error.__context__
    return "Is the server running?"


_HINTS: tuple[tuple[_ErrorTypes, str], ...] = (
    ((socket.gaierror, UnicodeError), "Check the network and the host's name."),
    (ssl.SSLCertVerificationError, "Check the host's name, this machine's clock, and SSL_CERT_FILE."),
    (ssl.SSLError, "Does the server speak https? Check http:// or https:// in the base URL."),
)
"""Advice by the type of the innermost known cause."""

_LOST_REASONS = {
    "ReadError": "the server closed it before it answered",
    "WriteError": "the server closed it while the request was sent",
}
"""Descriptions of errors to which the async HTTP backend adds no message."""

_NOT_HTTP_REASONS = ("illegal status line", "illegal request line", "illegal header line")


def _client_closed(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return Unreachable(f"The connection to {connection.server} was closed while it was in use: {error}")


def _invalid_url(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return ConfigError(f"{connection.server} is not a usable address: {error}")


_TRANSLATIONS: tuple[tuple[_ErrorTypes, Callable[[BaseException, ConnectionInfo], AgentKitError]], ...] = (
    (httpx2.ConnectTimeout, _connect_timeout),
    (httpx2.TimeoutException, _read_timeout),
    (httpx2.ProxyError, _proxy_refused),
    ((httpx2.ConnectError, httpx2.UnsupportedProtocol, UnicodeError), _connect_error),
    (httpx2.DecodingError, _decoding_error),
    (httpx2.HTTPError, _connection_lost),
    (httpx2.InvalidURL, _invalid_url),
    (RuntimeError, _client_closed),
)
"""Maps types of errors to functions; the first match is used."""

HTTP_EXCEPTIONS = (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, RuntimeError)
"""Exceptions of the HTTP library that are mapped."""
