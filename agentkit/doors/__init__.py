"""Who may come in where we serve? Who shows the token, and calls us by a name that we have; and where do we listen?"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import socket

from agentkit.errors import ConfigError

_FEWEST_CHARS = 16
_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}", re.IGNORECASE)


def checked_token(token: str | None) -> str:
    """What clients must show, a random one for None. Raises ConfigError for one that is too short to be one."""
    if token is None:
        return secrets.token_urlsafe(32)
    if not isinstance(token, str) or len(token) < _FEWEST_CHARS or not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"A token is at least {_FEWEST_CHARS} letters, digits and signs without blanks. "
            "Leave it out for a random one."
        )
    return token


def shows(authorization: str, token: str) -> bool:
    """Whether what a client says as `Authorization` shows the token."""
    scheme, _, shown = authorization.partition(" ")
    return scheme.lower() == "bearer" and is_same(shown.strip(), token)


def is_same(one: str, other: str) -> bool:
    """Whether two texts are the same; how long that takes to find out tells nothing of either."""
    return hmac.compare_digest(_digest(one), _digest(other))


def checked_host(host: str) -> str:
    """The name of a host, in small letters. Raises ConfigError for what is none."""
    if not _NAME.fullmatch(host):
        raise ConfigError(f"A host is a name such as agent.example.com, without scheme and port. Got {host!r:.200}.")
    return host.lower()


def is_local(host: str) -> bool:
    """Whether a host is this machine itself, by its address or the one name that is never looked up elsewhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """An open socket; port 0 is one that is free. Raises ConfigError when the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = f"{error.strerror}".partition(" (while ")[0]  # behind it the address is told once more
        raise ConfigError(
            f"Nothing can listen on {host}, port {port}: {why}. Choose another port, or 0 for one that is free."
        ) from None


def origin_of(listener: socket.socket) -> str:
    """The beginning of the addresses under which a socket is reached: scheme, host and port."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:  # which can be listened on, and not be opened
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
