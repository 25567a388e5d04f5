"""HTTP requests to judged addresses, with size and time limits.

A name is resolved once, every resulting address is judged, and the connection goes to a judged address, with the name
in the Host header and in the TLS handshake. Cookies, credentials, environment variables and implicit proxies are not
used.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Verdict
from agentkit.documents.parsing import MAX_DOCUMENT_BYTES, document_kind
from agentkit.errors import ToolTimeout
from agentkit.messages import Status
from agentkit.safety.urls import AddressRules, Url, read_url
from agentkit.tooling import execution

if TYPE_CHECKING:
    import ssl

    import httpx2


MAX_RAW_BYTES = 2_000_000
MAX_DECODED_BYTES = 5_000_000
"""The maximum size of a page before and after decompression. Documents can have MAX_DOCUMENT_BYTES."""

MAX_GZIP_MEMBERS = 100

_MAX_SIGNATURE_BYTES = 1_024
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"
_ENCODINGS = {"": False, "identity": False, "gzip": True, "x-gzip": True}


def is_readable_encoding(content_encoding: str) -> bool:
    """Whether a Content-Encoding can be decoded within bounds: none, or gzip once."""
    return content_encoding.strip().lower() in _ENCODINGS


class BodyReader:
    """Collects the chunks of a body within limits; `cut` is the reason why the body is incomplete."""

    def __init__(self, content_encoding: str = "") -> None:
        self.body = bytearray()
        self.cut = ""
        self._raw_bytes = 0
        self._max_raw_bytes, self._max_bytes = MAX_RAW_BYTES, MAX_DECODED_BYTES
        self._is_known = False
        self._members = 1
        self._inflater = zlib.decompressobj(_GZIP) if _ENCODINGS[content_encoding.strip().lower()] else None

    def feed(self, chunk: bytes) -> bool:
        """Process the next chunk; return whether to read on."""
        if self._inflater is None:
            self._detect(chunk)
        taken = chunk[: self._max_raw_bytes - self._raw_bytes]
        self._raw_bytes += len(taken)
        if self._inflater is None:
            self.body += taken
        else:
            self._inflate(taken)
        if len(taken) < len(chunk):
            self.cut = self.cut or f"only the first {self._max_raw_bytes:,} bytes were read"
        return not self.cut

    def finish(self) -> None:
        """Mark the end of the body."""
        if self._inflater is not None and self._raw_bytes and not self._inflater.eof:
            self.cut = self.cut or "its compressed form ended early"

    def _inflate(self, data: bytes) -> None:
        """Decompress within the remaining limit, member by member; other data after the first member is padding."""
        while data and not self.cut and self._inflater:
            if self._inflater.eof and not self._begin_member(data):
                return
            room = self._max_bytes - len(self.body) if self.body else _MAX_SIGNATURE_BYTES
            try:
                self.body += self._inflater.decompress(data, room + 1)
            except zlib.error:
                self.cut = "its compressed form is damaged"
                return
            self._detect(bytes(self.body[:_MAX_SIGNATURE_BYTES]))
            if len(self.body) > self._max_bytes:
                del self.body[self._max_bytes :]
                self.cut = f"only the first {self._max_bytes:,} bytes after decompression were read"
            data = self._inflater.unconsumed_tail or self._inflater.unused_data

    def _detect(self, head: bytes) -> None:
        """Raise the limits for a document, by its first bytes."""
        if not self._is_known and head:
            self._is_known = True
            if document_kind(head[:_MAX_SIGNATURE_BYTES]):
                self._max_raw_bytes = self._max_bytes = MAX_DOCUMENT_BYTES

    def _begin_member(self, data: bytes) -> bool:
        if not data.startswith(_GZIP_MAGIC[: len(data)]):
            return False
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            self.cut = f"only the first {MAX_GZIP_MEMBERS} parts of its compressed form were read"
            return False
        self._inflater = zlib.decompressobj(_GZIP)
        return True


@dataclass(frozen=True, slots=True)
class WebResponse:
    """A server's response: final URL, HTTP status, lower-case headers, decoded body.

    `cut` is the reason why the body is incomplete, or empty.
    """

    url: Url
    http_status: int
    headers: Mapping[str, str]
    body: bytes
    cut: str = ""


@dataclass(frozen=True, slots=True)
class WebFailure:
    """A failed request: the status, a sentence for the model, and the decision if it was denied."""

    status: Status
    error: str
    decision: Decision | None = None
    http_status: int | None = None
    retry_after_seconds: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the keys `error` and `status`, and the other non-empty fields."""
        more = {
            "decision": self.decision.to_dict() if self.decision else None,
            "http_status": self.http_status,
            "retry_after_seconds": self.retry_after_seconds,
        }
        return {"error": self.error, "status": self.status} | {key: value for key, value in more.items() if value}


def denied_failure(decision: Decision) -> WebFailure:
    """Return the failure for a denied request."""
    return WebFailure("denied", f"{decision.reason} {decision.remedy}".strip(), decision)


def retry_after_seconds(reply: WebResponse) -> int | None:
    """Parse a Retry-After header given in seconds."""
    value = reply.headers.get("retry-after", "")
    return int(value) if _SECONDS.fullmatch(value) else None


def status_failure(reply: WebResponse) -> WebFailure | None:
    """Return the failure for the HTTP status of a reply, or None for success (2xx)."""
    from http import HTTPStatus

    code = reply.http_status
    if 200 <= code < 300:
        return None
    phrase = HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "no standard status"
    error = f"{reply.url.host} answered {code} ({phrase})."
    return WebFailure(_STATUS_OF.get(code, "failed"), error, None, code, retry_after_seconds(reply))


_STATUS_OF: Mapping[int, Status] = {401: "blocked", 403: "blocked", 407: "blocked", 451: "blocked", 429: "rate_limited"}
_SECONDS = re.compile("[0-9]{1,6}")


Resolver = Callable[[str, int], Iterable[str] | Awaitable[Iterable[str]]]
"""Resolves host and port to IP addresses; can be async. Raises socket.gaierror for an unknown name."""

MAX_REDIRECTS = 5
MAX_HEADER_BYTES = 64_000
RESOLVE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
DEADLINE_SECONDS = 12.0
USER_AGENT = "agentkit/0 (+https://pypi.org/project/agentkit-tools/)"

_MAX_ADDRESSES_TRIED = 4
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": USER_AGENT,
    "Accept": "text/html, application/xhtml+xml, application/json, text/*;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip, identity",
    "Connection": "close",
}
_NETWORK_FAULTS: Mapping[int, tuple[Status, str]] = {
    errno.ECONNREFUSED: ("failed", "the connection was refused"),
    errno.ECONNRESET: ("failed", "the connection was reset"),
    errno.ENETUNREACH: ("offline", "the network is unreachable"),
    errno.ENETDOWN: ("offline", "the network is unreachable"),
    errno.EHOSTUNREACH: ("offline", "there is no route to this host"),
    errno.ETIMEDOUT: ("timed_out", "it did not answer in time"),
}


class _RequestFailed(Exception):
    """Carries a failure to the caller."""

    def __init__(self, failure: WebFailure) -> None:
        super().__init__(failure.error)
        self.failure = failure


def resolve(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver, keeping its order."""
    import socket

    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class WebConnection:
    """An HTTP client that enforces address rules; it holds only settings, so threads can share it.

    `resolver` replaces the system's, `transport` is an httpx2 transport that receives each request with its host
    already replaced by the judged address, `proxy` is the URL of a proxy, `tls` an SSL context. `deadline_seconds`
    covers everything from the first look-up to the last byte. `hosts_exist` states that all requested hosts are known
    to exist, so that a failed look-up means that the network is down. Otherwise, when the system's resolver does not
    know a host, `reference_host` is looked up to tell an unknown name from a machine without network; it is not
    contacted.
    """

    def __init__(
        self,
        rules: AddressRules | None = None,
        *,
        resolver: Resolver = resolve,
        transport: httpx2.AsyncBaseTransport | None = None,
        proxy: str | None = None,
        tls: ssl.SSLContext | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
        hosts_exist: bool = False,
        reference_host: str = "example.com",
    ) -> None:
        self.rules = rules or AddressRules()
        self.deadline_seconds = deadline_seconds
        self._resolver = resolver
        self._custom_transport = transport
        self._proxy = proxy
        self._custom_tls = tls
        self._hosts_exist = hosts_exist
        self._reference_host = reference_host

    @property
    def is_direct(self) -> bool:
        """Whether requests go directly to their addresses, without a proxy or custom transport."""
        return (self._resolver, self._custom_transport, self._proxy) == (resolve, None, None)

    def get(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> WebResponse | WebFailure:
        """Fetch a URL from synchronous code, like `aget`."""
        reply: WebResponse | WebFailure = execution.call(
            functools.partial(self.aget, url, headers), None, is_async=True
        )
        return reply

    async def aget(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> WebResponse | WebFailure:
        """Fetch a URL, following up to five redirects, each judged like the first. Never raises for network errors."""
        import asyncio

        import httpx2

        deadline = asyncio.get_running_loop().time() + self.deadline_seconds
        late = WebFailure("timed_out", f"The server did not answer within {self.deadline_seconds:g} seconds.")
        async with self._transport() as transport:
            try:
                async with asyncio.timeout_at(deadline):
                    target, response = await self._follow(transport, url, headers)
                return await _read(target, response, deadline)
            except TimeoutError:
                return late
            except _RequestFailed as stopped:
                return stopped.failure
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                return _failure_of(error)

    async def _follow(
        self, transport: httpx2.AsyncBaseTransport, url: str, headers: Mapping[str, str]
    ) -> tuple[Url, httpx2.Response]:
        target = self._judge_url(url)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send(transport, target, headers)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not location:
                return target, response
            await response.aclose()
            target = self._resolve_redirect(target, location)
        raise _RequestFailed(WebFailure("failed", f"It was redirected more than {MAX_REDIRECTS} times."))

    async def _send(
        self, transport: httpx2.AsyncBaseTransport, url: Url, headers: Mapping[str, str]
    ) -> httpx2.Response:
        """Send the request to the first judged address that accepts a connection."""
        import httpx2

        limits = httpx2.Timeout(self.deadline_seconds, connect=CONNECT_SECONDS).as_dict()
        extensions = {"timeout": limits, **({} if url.address else {"sni_hostname": url.host})}
        all_headers = {"Host": url.authority, **_HEADERS, **headers}
        fault: httpx2.TransportError | None = None
        for address in (await self._addresses(url))[:_MAX_ADDRESSES_TRIED]:
            request = httpx2.Request("GET", url.at(address), headers=all_headers, extensions=extensions)
            try:
                response = await transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                fault = fault or error
            else:
                return await _check_response(response)
        raise fault or _RequestFailed(WebFailure("failed", f"{url.host} has no address."))

    async def _addresses(self, url: Url) -> list[str]:
        """Resolve a host once. Raises if one of its addresses is not allowed."""
        if url.address:
            return [str(url.address)]
        try:
            look_up = functools.partial(self._resolver, url.host, url.port)
            addresses = list(await execution.acall(look_up, RESOLVE_SECONDS))
        except ToolTimeout:
            error = f"The name {url.host} could not be resolved within {RESOLVE_SECONDS:g} seconds."
            raise _RequestFailed(WebFailure("timed_out", error)) from None
        except OSError as fault:
            raise _RequestFailed(await self._look_up_failure(url.host, fault)) from None
        for address in addresses:
            if objection := self.rules.judge_address(url, address):
                raise _RequestFailed(denied_failure(objection))
        return addresses

    async def _look_up_failure(self, host: str, fault: OSError) -> WebFailure:
        import socket

        if fault.errno == socket.EAI_AGAIN or self._hosts_exist or not await self._has_network():
            error = f"The name {host} cannot be resolved: the network or the DNS server is unreachable."
            return WebFailure("offline", error)
        return WebFailure("failed", f"No host is named {host}.")

    async def _has_network(self) -> bool:
        """Whether the system's resolver knows a host that exists; custom resolvers are trusted."""
        if self._resolver is not resolve:
            return True
        try:
            await execution.acall(functools.partial(resolve, self._reference_host, 443), RESOLVE_SECONDS)
        except (ToolTimeout, OSError):
            return False
        return True

    def _judge_url(self, url: str) -> Url:
        decision = self.rules.judge(url)
        parsed = read_url(url)
        if decision.denied or isinstance(parsed, Decision):
            raise _RequestFailed(denied_failure(decision))
        return parsed

    def _resolve_redirect(self, origin: Url, location: str) -> Url:
        """Return the target of a redirect, judged like a requested URL."""
        joined = origin.join(location)
        target = self._judge_url(joined)
        if (origin.scheme, target.scheme) == ("https", "http"):
            reason = f"{origin.host} redirects from https to plain http."
            decision = Decision(Verdict.DENY, "url.downgrade", reason, joined[:200], "Fetch an https address.")
            raise _RequestFailed(denied_failure(decision))
        return target

    @contextlib.asynccontextmanager
    async def _transport(self) -> Any:
        """Yield the configured transport, or a new one for this request, closed at the end."""
        import httpx2

        if self._custom_transport:
            yield self._custom_transport
            return
        tls = self._custom_tls or _tls_context()
        async with httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, proxy=self._proxy) as transport:
            yield transport


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """The TLS context of all connections, whatever the environment names: creating one takes tens of milliseconds."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


async def _check_response(response: httpx2.Response) -> httpx2.Response:
    """Return the response if its headers are small and its encoding is supported. Raises _RequestFailed."""
    encoding = response.headers.get("content-encoding", "")
    size = sum(len(name) + len(value) + 4 for name, value in response.headers.raw)
    faults = {
        f"It answered with {size:,} bytes of headers; at most {MAX_HEADER_BYTES:,} are read.": size > MAX_HEADER_BYTES,
        f"Its answer is compressed as {encoding[:40]!r}, which was not requested.": not is_readable_encoding(encoding),
    }
    for error, is_true in faults.items():
        if is_true:
            await response.aclose()
            raise _RequestFailed(WebFailure("failed", error))
    return response


async def _read(url: Url, response: httpx2.Response, deadline: float) -> WebResponse:
    """Read the body until the end, a timeout or a broken connection. Raises _RequestFailed if it is empty."""
    import asyncio

    import httpx2

    reader = BodyReader(response.headers.get("content-encoding", ""))
    fault: Status = "failed"
    try:
        async with asyncio.timeout_at(deadline):
            async for chunk in cast("httpx2.AsyncByteStream", response.stream):
                if not reader.feed(chunk):
                    break
        reader.finish()
    except (TimeoutError, httpx2.TimeoutException):
        reader.cut, fault = "the rest did not arrive in time", "timed_out"
    except httpx2.TransportError:
        reader.cut = "the server closed the connection early"
    finally:
        await response.aclose()
    if reader.cut and not reader.body:
        raise _RequestFailed(WebFailure(fault, f"{url.host} sent no readable body: {reader.cut}."))
    return WebResponse(url, response.status_code, dict(response.headers), bytes(reader.body), reader.cut)


def _failure_of(error: Exception) -> WebFailure:
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return WebFailure("timed_out", "The server did not answer in time.")
    if isinstance(error, httpx2.RemoteProtocolError):  # its text quotes the server
        return WebFailure("failed", "The server's response is not valid HTTP, or is empty.")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno and cause.errno in _NETWORK_FAULTS:
            status, words = _NETWORK_FAULTS[cause.errno]
            return WebFailure(status, f"No connection: {words}.")
        cause = cause.__cause__ or cause.__context__
    words = str(error).strip().rstrip(".") or type(error).__name__
    return WebFailure("failed", f"The request failed: {words[:200]}.")
