"""What do the errors of the libraries below mean? Each is translated by one table into ours."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from agentkit.errors import AgentKitError, BadResponse, ConfigError, Unreachable
from agentkit.llm.endpoint import shown_url
from agentkit.llm.http.headers import retry_after_seconds
from agentkit.llm.wire.failures import ended, failure
from agentkit.llm.wire.reading import json_or_text


class Connection(Protocol):
    """What an error tells of a connection: where it leads, and how long and how often it was tried."""

    where: str
    timeout_seconds: float
    connect_seconds: float
    max_retries: int

    def scrub(self, text: str) -> str:
        """A text without anything secret that was sent."""
        ...


class Translation:
    """Holds back an exception of the libraries below; ours, `translated`, is for the caller to raise.

    Raised outside of any handler, ours is not chained to theirs, which may quote the key.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.translated: AgentKitError = BadResponse("There was no answer.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Whether the exception is held back."""
        if error is None:
            return False
        names = {f"{ancestor.__module__.partition('.')[0]}.{ancestor.__name__}" for ancestor in type(error).__mro__}
        translate = next((translate for theirs, translate in _TRANSLATIONS if theirs & names), None)
        if translate is None:
            return False
        self.translated = translate(error, self._connection)
        return True


def _refused(error: Any, connection: Connection) -> AgentKitError:
    response = error.response
    if 300 <= response.status_code < 400:
        target = shown_url(response.headers.get("location", "nowhere"))
        text = f"{connection.where} redirects to {target}, which is not followed. Use the right base URL."
        return BadResponse(text, status=response.status_code)
    seconds = retry_after_seconds(response.headers)
    return failure(
        json_or_text(connection.scrub(response.text)), status=response.status_code, retry_after_seconds=seconds
    )


def _timed_out(error: Any, connection: Connection) -> AgentKitError:
    if type(error.__cause__).__name__ == "ConnectTimeout":
        return Unreachable(
            f"Cannot reach {connection.where}: no connection within {connection.connect_seconds:g} seconds."
        )
    times = f", asked {connection.max_retries + 1} times" if connection.max_retries else ""
    return Unreachable(f"No answer from {connection.where} within {connection.timeout_seconds:g} seconds{times}.")


def _not_connected(error: Any, connection: Connection) -> AgentKitError:
    cause = error.__cause__
    kind = type(cause).__name__
    if kind in {"ConnectError", "ProxyError", "UnsupportedProtocol"}:
        return Unreachable(f"Cannot reach {connection.where}: {ended(str(cause))} {_hint(cause)}")
    return _undecodable(cause, connection) if kind == "DecodingError" else _broken(cause, connection)


def _broken(error: Any, connection: Connection) -> AgentKitError:
    said = str(error) or _LOST.get(type(error).__name__, type(error).__name__)
    is_http = not said.startswith(_NO_HTTP)
    advice = "Try again." if is_http else "Is it an HTTP server, and is http:// or https:// right in the base URL?"
    return Unreachable(f"The connection to {connection.where} broke: {ended(said)} {advice}")


def _undecodable(error: Any, connection: Connection) -> AgentKitError:
    return BadResponse(
        f"The answer of {connection.where} is not compressed in the way that its header says: {ended(str(error))} "
        "Try again, or look for a proxy that changes answers."
    )


def _hint(error: BaseException | None) -> str:
    """What to do when no connection can be opened."""
    while error is not None:
        hint = next((hint for kind, hint in _HINTS.items() if kind in _ancestors(error)), None)
        if hint:
            return hint
        error = error.__cause__ or error.__context__
    return "Is the server running?"


def _ancestors(error: BaseException) -> set[str]:
    return {ancestor.__name__ for ancestor in type(error).__mro__}


_HINTS = {
    "gaierror": "Check the network and the host's name.",
    "SSLCertVerificationError": "Check the host's name, this machine's clock, and SSL_CERT_FILE.",
    "SSLError": "Does the server speak https? Check http:// or https:// in the base URL.",
}
"""What helps, by the innermost kind of error that we know."""

_LOST = {
    "ReadError": "the server closed it while an answer was awaited",
    "WriteError": "the server closed it while the request was sent",
}
"""What to say of errors that the HTTP library, awaiting, does not explain."""

_NO_HTTP = ("illegal status line", "illegal request line", "illegal header line")


def _stalled(_: Any, connection: Connection) -> AgentKitError:
    return Unreachable(f"{connection.where} stopped in the middle: nothing for {connection.timeout_seconds:g} seconds.")


def _closed(error: Any, connection: Connection) -> AgentKitError:
    return Unreachable(f"The connection to {connection.where} was closed while it was in use: {error}")


def _no_address(error: Any, connection: Connection) -> AgentKitError:
    return ConfigError(f"{connection.where} is not a usable address: {error}")


_TRANSLATIONS: tuple[tuple[set[str], Callable[[Any, Connection], AgentKitError]], ...] = (
    # openai 3 stands on httpx2, openai 2 on httpx; only while streaming do their own errors come through
    ({"openai.APIStatusError"}, _refused),
    ({"openai.APITimeoutError"}, _timed_out),
    ({"openai.APIConnectionError"}, _not_connected),
    ({"httpx.TimeoutException", "httpx2.TimeoutException"}, _stalled),
    ({"httpx.DecodingError", "httpx2.DecodingError"}, _undecodable),
    ({"httpx.HTTPError", "httpx2.HTTPError"}, _broken),
    ({"httpx.InvalidURL", "httpx2.InvalidURL"}, _no_address),
    ({"builtins.RuntimeError"}, _closed),
)
