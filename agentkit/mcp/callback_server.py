"""The local HTTP server that receives the OAuth redirect."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from agentkit.errors import ConfigError, ToolError
from agentkit.event_rendering import escape_invisible

_HOST, _PATH = "127.0.0.1", "/callback"
_MAX_BYTES, _MAX_CHARS = 16_384, 200
_READ_SECONDS = 10.0
_MAX_CALLERS = 16
"""Maximum number of simultaneous connections: the oldest is dropped for a new one, so that idle ones cannot block it.
"""

_DONE = "You can close this page and go back to the program."
_REFUSED = "The login was refused. You can close this page."
_UNKNOWN = "This request does not belong to the pending login."


class CallbackServer:
    """A local port that is open for the duration of the block. Raises ConfigError if it cannot be bound."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._state = ""
        self._callers: list[asyncio.StreamWriter] = []
        self._answer: asyncio.Future[dict[str, str]]
        self._server: asyncio.Server

    async def __aenter__(self) -> CallbackServer:
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(
                self._handle, _HOST, self._port, limit=_MAX_BYTES, backlog=_MAX_CALLERS
            )
        except OSError as error:
            raise ConfigError(f"Nothing can listen on {_HOST}, port {self._port}: {error.strerror}.") from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for caller in self._callers:
            caller.transport.abort()

    @property
    def address(self) -> str:
        """The redirect URI for the browser."""
        return f"http://{_HOST}:{self._port}{_PATH}"

    def expect(self, state: str) -> None:
        """Accept only a redirect with this state, to reject requests that do not belong to this login."""
        self._state = state

    async def answer(self) -> dict[str, str]:
        """Wait for the parameters of the redirect from the authorization server."""
        return await self._answer

    async def _handle(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        self._callers.append(writing)
        if len(self._callers) > _MAX_CALLERS:
            self._callers[0].transport.abort()
        try:
            with contextlib.suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):  # not the browser
                async with asyncio.timeout(_READ_SECONDS):
                    head = await reading.readuntil(b"\r\n\r\n")
                    writing.write(self._respond(head.decode("latin-1")))
                    await writing.drain()
        finally:
            self._callers.remove(writing)
            writing.close()

    def _respond(self, head: str) -> bytes:
        """Handle a request and return the page; only the first valid redirect is accepted."""
        request, *lines = head.split("\r\n")
        method, _, target = request.partition(" ")
        target = target.partition(" ")[0]
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        is_callback = hosts == [f"{_HOST}:{self._port}"] and target.partition("?")[0] == _PATH
        answer = parse_redirect(target, self._state) if is_callback and method == "GET" else None
        if answer is None or self._answer.done():
            return _page("404 Not Found", _UNKNOWN)
        self._answer.set_result(answer)
        return _page("200 OK", _REFUSED if "error" in answer else _DONE)


def parse_redirect(address: str, state: str) -> dict[str, str] | None:
    """Parse the parameters of a redirect address, if its state matches; otherwise None."""
    try:
        parameters = parse_qs(urlsplit(address.strip()).query, max_num_fields=50)
    except ValueError:
        return None
    answer = {name: values[0] for name, values in parameters.items() if len(values) == 1}
    has_state = bool(state) and hmac.compare_digest(answer.get("state", "").encode(), state.encode())
    return answer if has_state and ("code" in answer or "error" in answer) else None


def authorization_code(answer: Mapping[str, str]) -> str:
    """Return the authorization code. Raises ToolError if the login was refused."""
    if "error" in answer:
        raise ToolError(f"The login was refused: {refusal_reason(answer)}.")
    return answer["code"]


def refusal_reason(answer: Mapping[str, object]) -> str:
    """Format an OAuth error in one line: `error`, and `error_description` if present."""
    values = (answer.get("error"), answer.get("error_description"))
    words = [" ".join(each.split()) for each in values if isinstance(each, str) and each.strip()]
    return escape_invisible(": ".join(words)[:_MAX_CHARS].rstrip(".")) or "no reason was given"


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>agentkit</title><p>{text}</p>\n"
    headers = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body.encode())}",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return ("\r\n".join(headers) + "\r\n\r\n" + body).encode()
