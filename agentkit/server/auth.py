"""Authentication: host name, origin and token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TypedDict
from urllib.parse import urlsplit

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.http_security import constant_time_equal, has_token, validate_host, validate_token
from agentkit.server.http_types import HTTPError

SIGN_IN = "/sign-in"
PAGE = "/page/"
"""Paths with this prefix belong to the page, and accept its cookie and key instead of the token."""

KEY_HEADER = "x-agentkit-key"

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every response: load nothing from other origins, run only our scripts, forbid framing."""

_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9][a-z0-9.-]{0,252}))(?::\d{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(rf"(?P<scheme>https?)://{_HOST.pattern}", re.IGNORECASE)
_TRUSTED_SITES = {"same-origin", "none"}
_UNAUTHORIZED_TEXT = (
    "Send the token that this server was started with: Authorization: Bearer TOKEN. "
    "`agentkit serve` prints it with the address of the page."
)


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request: method, path, and all values of each header by lower-case name."""

    method: str
    path: str
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        """The value of a header; None if it is missing. Raises HTTPError if it occurs more than once."""
        values = self.headers.get(name, ())
        if len(values) > 1:
            raise HTTPError(400, f"The header {name} occurs {len(values)} times.", code="invalid_header")
        return values[0] if values else None


class Access(TypedDict, total=False):
    """Who can send requests: the token of clients, further host names of the server, and origins of pages."""

    token: str | None
    hosts: Iterable[str]
    origins: Iterable[str]


class RequestAuth:
    """Accept requests that use a known host name, come from the same origin if from a page, and carry the token.

    `open_paths` need no token: the page's static files, which contain no secret. Pages of `origins` can send requests
    with the token, except to our own page. Raises ConfigError for a token that is too short, and for an invalid host
    name or origin.
    """

    def __init__(
        self,
        token: str | None = None,
        hosts: Iterable[str] = (),
        open_paths: Iterable[str] = (),
        origins: Iterable[str] = (),
    ) -> None:
        self.token = validate_token(token)
        self.origins = frozenset(map(_parse_origin, origins))
        self._hosts = {"localhost", *map(validate_host, hosts)}
        self._open = {SIGN_IN, *open_paths}
        self.cookie_name = f"agentkit_{self._derive('name')[:8]}"

    def check(self, head: Head) -> None:
        """Raise HTTPError if the request is not allowed."""
        self._check_origin(head, self._check_host(head))
        if head.path in self._open:
            return
        if not (has_token(head.header("authorization") or "", self.token) or self._is_signed_in(head)):
            raise HTTPError(401, _UNAUTHORIZED_TEXT, code="invalid_api_key", headers={"www-authenticate": "Bearer"})

    def sign_in(self, token: object, *, is_secure: bool) -> tuple[str, str]:
        """Return the cookie, and the key that the page must send with it. Raises HTTPError for a wrong token.

        Both are required: a browser sends the cookie to every port of a host, but only our page sends the key.
        """
        if not isinstance(token, str) or not constant_time_equal(token, self.token):
            raise HTTPError(401, "This is not the token that the server was started with.", code="invalid_api_key")
        cookie = f"{self.cookie_name}={self._derive('cookie')}; HttpOnly; SameSite=Strict; Path={PAGE}"
        return f"{cookie}; Secure" if is_secure else cookie, self._derive("key")

    def _check_host(self, head: Head) -> str:
        """The requested host. Raises HTTPError for an unknown name, which can be an attacker's (DNS rebinding)."""
        host = head.header("host") or ""
        match = _HOST.fullmatch(host)
        name = "" if match is None else (match["six"] or match["name"]).lower()
        if not (name in self._hosts or _is_address(name)):
            remedy = "Use an IP address or localhost, or allow the host when the server is started."
            raise HTTPError(403, f"The host {host[:100]!r} is not allowed. {remedy}", code="unknown_host")
        return host

    def _check_origin(self, head: Head, host: str) -> None:
        """Raise HTTPError for requests from pages of origins that are not named, whatever credentials they have."""
        origin = head.header("origin")
        if origin in self.origins and head.path != SIGN_IN and not head.path.startswith(PAGE):
            return
        is_own = origin is None or _netloc(origin) == host.lower()
        site = head.header("sec-fetch-site")
        is_opened = head.method == "GET" and head.path in self._open  # any site can link to the page
        if not is_own or not (is_opened or site is None or site in _TRUSTED_SITES):
            raise HTTPError(403, "Requests from other origins are not allowed.", code="foreign_origin")

    def _is_signed_in(self, head: Head) -> bool:
        """Whether cookie and key are both correct; both are always compared, so that timing reveals nothing."""
        cookies = "; ".join(head.headers.get("cookie", ())).split("; ")
        values = [value for name, _, value in (cookie.partition("=") for cookie in cookies) if name == self.cookie_name]
        has_cookie = constant_time_equal(values[0] if len(values) == 1 else "", self._derive("cookie"))
        has_key = constant_time_equal(head.header(KEY_HEADER) or "", self._derive("key"))
        return has_cookie and has_key and head.path.startswith(PAGE)

    def _derive(self, purpose: str) -> str:
        """Derive a secret from the token with a one-way function."""
        return hmac.new(self.token.encode(), f"agentkit serve {purpose}".encode(), hashlib.sha256).hexdigest()


def _parse_origin(origin: str) -> str:
    """Return an origin as browsers send it. Raises ConfigError if it is not one."""
    match = _ORIGIN.fullmatch(origin) if isinstance(origin, str) else None
    if match is None:
        raise ConfigError(
            f"{origin!r} is not the origin of a page. Write scheme, host and port, such as 'https://app.example.com' "
            "or 'http://localhost:5173', without a path or a wildcard."
        )
    return origin.lower().removesuffix(":443" if match["scheme"].lower() == "https" else ":80")


def _netloc(origin: str) -> str:
    """Host and port of an origin; empty if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    """Whether the name is a numeric IP address, to which DNS rebinding does not apply."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
