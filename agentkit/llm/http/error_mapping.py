"""Mapping of httpx2 exceptions to agentkit errors."""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Protocol, Self

import httpx2

from agentkit.errors import AgentKitError, BadResponse, ConfigError, Unreachable
from agentkit.llm.endpoint import shown_url
from agentkit.llm.http.attempts import AttemptCounter
from agentkit.llm.http.response_limits import LATER
from agentkit.llm.protocols.error_mapping import ended, failure
from agentkit.llm.protocols.parsing import json_or_text


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after` (seconds or a date); None if absent or invalid."""
    wishes = (_number(headers.get("retry-after-ms", "")) / 1000, _seconds(headers.get("retry-after", "")))
    return next((max(seconds, 0.0) for seconds in wishes if math.isfinite(seconds)), None)


def _seconds(wish: str) -> float:
    seconds = _number(wish)
    if not math.isnan(seconds):
        return seconds
    try:
        return parsedate_to_datetime(wish).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


_Kinds = type[BaseException] | tuple[type[BaseException], ...]


class ConnectionInfo(Protocol):
    """Details of a connection for error messages: name and URL, timeouts and retries."""

    where: str
    timeout_seconds: float
    connect_seconds: float
    max_retries: int

    def scrub(self, text: str) -> str:
        """A text without the secrets that were sent."""
        ...


class Translation:
    """Captures an exception of the HTTP library and maps it to `translated`, which the caller raises.

    It is raised outside the handler, so that it is not chained to the original, which could quote the key.
    """

    def __init__(self, connection: ConnectionInfo, attempts: AttemptCounter) -> None:
        self._connection, self._attempts = connection, attempts
        self.translated: AgentKitError = BadResponse("There was no answer.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Suppress and map known exceptions."""
        translate = next((translate for theirs, translate in _TRANSLATIONS if isinstance(error, theirs)), None)
        if translate is None or error is None:
            return False
        if translate is _timed_out and self._attempts.has_begun:
            translate = _stalled
        elif translate is _timed_out and self._attempts.is_hasty:
            translate = _timed_out_once
        self.translated = translate(error, self._connection)
        return True


def refusal(response: httpx2.Response, connection: ConnectionInfo) -> AgentKitError:
    """The error for a response, already read, with a status other than success."""
    if 300 <= response.status_code < 400:
        target = shown_url(response.headers.get("location", "nowhere"))
        text = f"{connection.where} redirects to {target}, which is not followed. Use the right base URL."
        return BadResponse(text, status=response.status_code)
    seconds = retry_after_seconds(response.headers)
    return failure(
        json_or_text(connection.scrub(response.text)), status=response.status_code, retry_after_seconds=seconds
    )


def _not_in_time(_: BaseException, connection: ConnectionInfo) -> AgentKitError:
    seconds = f"{connection.connect_seconds:g} seconds"
    return Unreachable(f"Cannot reach {connection.where}: no connection within {seconds}. Is the server running?")


def _timed_out(_: BaseException, connection: ConnectionInfo) -> AgentKitError:
    times = f", asked {connection.max_retries + 1} times" if connection.max_retries else ""
    return _timed_out_once(_, connection, times)


def _timed_out_once(_: BaseException, connection: ConnectionInfo, times: str = "") -> AgentKitError:
    seconds = f"{connection.timeout_seconds:g} seconds"
    return Unreachable(f"No answer from {connection.where} within {seconds}{times}. {LATER}")


def _stalled(_: BaseException, connection: ConnectionInfo) -> AgentKitError:
    seconds = f"{connection.timeout_seconds:g} seconds"
    return Unreachable(f"{connection.where} stopped in the middle: nothing for {seconds}. {LATER}")


def _not_reached(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return Unreachable(f"Cannot reach {connection.where}: {ended(str(error))} {_hint(error)}")


def _broken(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    said = str(error) or _LOST.get(type(error).__name__, type(error).__name__)
    is_http = not said.startswith(_NO_HTTP)
    advice = "Try again." if is_http else "Is it an HTTP server, and is http:// or https:// right in the base URL?"
    return Unreachable(f"The connection to {connection.where} broke: {ended(said)} {advice}")


def _undecodable(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return BadResponse(
        f"The answer of {connection.where} is not compressed in the way that its header says: {ended(str(error))} "
        "Try again, or look for a proxy that changes answers."
    )


def _hint(error: BaseException | None) -> str:
    """Advice for an error while connecting."""
    while error is not None:
        hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)
        if hint:
            return hint
        error = error.__cause__ or error.__context__
    return "Is the server running?"


_HINTS: tuple[tuple[_Kinds, str], ...] = (
    (httpx2.ProxyError, "The proxy says so: check HTTPS_PROXY, ALL_PROXY and NO_PROXY."),
    ((socket.gaierror, UnicodeError), "Check the network and the host's name."),
    (ssl.SSLCertVerificationError, "Check the host's name, this machine's clock, and SSL_CERT_FILE."),
    (ssl.SSLError, "Does the server speak https? Check http:// or https:// in the base URL."),
)
"""Advice by the type of the innermost known cause."""

_LOST = {
    "ReadError": "the server closed it while an answer was awaited",
    "WriteError": "the server closed it while the request was sent",
}
"""Descriptions of errors to which the async HTTP backend adds no message."""

_NO_HTTP = ("illegal status line", "illegal request line", "illegal header line")


def _closed(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return Unreachable(f"The connection to {connection.where} was closed while it was in use: {error}")


def _no_address(error: BaseException, connection: ConnectionInfo) -> AgentKitError:
    return ConfigError(f"{connection.where} is not a usable address: {error}")


_TRANSLATIONS: tuple[tuple[_Kinds, Callable[[BaseException, ConnectionInfo], AgentKitError]], ...] = (
    (httpx2.ConnectTimeout, _not_in_time),
    (httpx2.TimeoutException, _timed_out),
    ((httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol, UnicodeError), _not_reached),
    (httpx2.DecodingError, _undecodable),
    (httpx2.HTTPError, _broken),
    (httpx2.InvalidURL, _no_address),
    (RuntimeError, _closed),
)
"""Maps types of errors to functions; the first match is used."""
