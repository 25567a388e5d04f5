"""Stored logins, login configuration, and the hosts a login may contact."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.decisions import Decision
from agentkit.errors import ConfigError, ToolError
from agentkit.http_security import is_local
from agentkit.mcp.connection_target import Target, is_encrypted
from agentkit.mcp.definitions import replace_file
from agentkit.portable_files import is_own, lock
from agentkit.safety.urls import AddressRules, Url, read_url

_VERSION = 1
_WAIT_SECONDS = 0.05
_OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO
_MAX_BYTES = 1_000_000
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to refuse symbolic links and not to block on a pipe."""


class StoredLogin:
    """The stored login for one server, valid for its exact address only."""

    def __init__(self, url: str, folder: str | Path | None = None) -> None:
        parts = urlsplit(url)
        plain_url = parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl()
        self._url_digest = hashlib.sha256(plain_url.encode("utf-8", "backslashreplace")).hexdigest()
        logins_folder = settings.state_folder() / "mcp" / "logins" if folder is None else Path(folder)
        self.path = logins_folder / f"{self._url_digest[:32]}.json"

    def read(self) -> dict[str, Any] | None:
        """Return the stored document, or None. Raises ConfigError if the file is invalid or readable by others."""
        try:
            data = json.loads(self._text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self._cannot_be_used()}: {type(error).__name__}.") from None
        if (
            not isinstance(data, dict)
            or data.get("version") != _VERSION
            or data.get("server_sha256") != self._url_digest
        ):
            raise ConfigError(
                f"{self._cannot_be_used()}: it belongs to another server, or to another version of agentkit."
            )
        return data

    def write(self, document: Mapping[str, Any]) -> None:
        """Replace the stored document. Raises ConfigError if it cannot be stored."""
        try:
            replace_file(self.path, {"version": _VERSION, "server_sha256": self._url_digest, **document})
        except OSError as error:
            raise ConfigError(f"The login cannot be stored in {self.path}: {error.strerror}.") from None

    @contextlib.asynccontextmanager
    async def locked(self, most_waits: int = 600) -> AsyncIterator[None]:
        """Hold the renewal lock across processes: a refresh token can often be used only once.

        After `most_waits` attempts the block runs without the lock; the authorization server then decides.
        """
        descriptor = self._lock()
        try:
            for _ in range(most_waits):
                with contextlib.suppress(BlockingIOError):
                    lock(descriptor)
                    break
                await asyncio.sleep(_WAIT_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _lock(self) -> int:
        """Open the lock file shared by all processes; it stays empty."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self.path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT | _NO_FOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(f"The login in {self.path} cannot be renewed: {error.strerror}.") from None

    @property
    def version(self) -> tuple[int, int] | None:
        """A value that changes when another login is stored; None without one."""
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def forget(self) -> bool:
        """Delete the login; return whether there was one."""
        existed = self.version is not None
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        return existed

    def _text(self) -> bytes:
        descriptor = os.open(self.path, os.O_RDONLY | _NO_FOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
                raise ConfigError(f"{self._cannot_be_used()}: it is not a regular file, or too long.")
            if not is_own(found):
                raise ConfigError(f"{self._cannot_be_used()}: it belongs to another user.")
            if os.name == "posix" and found.st_mode & _OTHERS_MODE:
                raise ConfigError(f"{self._cannot_be_used()}: other users can read it.")
            return file.read()

    def _cannot_be_used(self) -> str:
        return f"The login in {self.path} cannot be used; delete it and log in again"


_AUTHORIZATION = "authorization"

Ask = Callable[[str], object]
"""Has a person open an address. If it returns a text, that is the redirect address called by their browser."""


@dataclass(frozen=True, slots=True)
class Login:
    """Settings for logging a person in to a server, by OAuth authorization code with PKCE.

    Args:
        ask: Has the person open an address; can be a coroutine function. It is called on connecting if no login is
            stored, never during a call. None means that only a stored login is used.
        scope: The requested scopes, separated by blanks; by default those that the server names.
        client_id: The client id at the authorization server; by default, the client registers itself.
        client_secret: The secret of the `client_id`. It is sent only to `issuer`, which is then required.
        issuer: The expected authorization server, as named in its metadata. Any other is refused.
        client_metadata_url: The https address of a client metadata document, for servers that support it.
        redirect_uri: The redirect address for the browser. By default, a local server listens on 127.0.0.1; with a
            custom address, `ask` returns the whole address that was called.
        port: The port on 127.0.0.1 for the redirect. 0 picks a free one.
        hosts: Additional hosts that can take part although they are not on the public web.
        seconds: The time that the person has.
        folder: The folder for stored logins; by default in the state folder.

    Raises ConfigError.
    """

    ask: Ask | None = None
    scope: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    client_metadata_url: str | None = None
    redirect_uri: str | None = None
    port: int = 0
    hosts: tuple[str, ...] = ()
    seconds: float = 300.0
    folder: str | Path | None = None

    def __post_init__(self) -> None:
        if self.ask is not None and not callable(self.ask):
            raise ConfigError(f"ask= of Login takes a function of an address. Got {self.ask!r:.80}.")
        if self.client_secret is not None and (self.client_id is None or self.issuer is None):
            raise ConfigError("client_secret= requires client_id= and issuer=, the authorization server.")
        if self.client_metadata_url is not None:
            parts = urlsplit(self.client_metadata_url)
            if parts.scheme != "https" or parts.path in {"", "/"}:
                raise ConfigError("client_metadata_url= takes an https address with a path.")


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Settings for logging a program in to a server, by OAuth client credentials. Tokens are stored in memory only.

    Args:
        client_id: The client id at the authorization server.
        client_secret: The client secret, which is sent only to `issuer`; None with a private key.
        issuer: The authorization server, as named in its metadata.
        scope: The requested scopes, separated by blanks; by default those that the server names.
        hosts: Additional hosts that can take part although they are not on the public web.
        private_key: The private key in PEM format that signs JWTs for `issuer`, in place of a secret.
        algorithm: The signature algorithm of the private key.
        assertion: A function of the issuer and the server's address that returns an identity assertion of a person
            (ID-JAG), for cross-app access: the token is then the person's. Can be a coroutine function.

    Raises ConfigError unless exactly one of `client_secret` and `private_key` is given.
    """

    client_id: str
    client_secret: str | None = field(repr=False)
    issuer: str
    scope: str | None = None
    hosts: tuple[str, ...] = ()
    private_key: str | None = field(default=None, repr=False)
    algorithm: str = "RS256"
    assertion: Callable[[str, str], Any] | None = None

    def __post_init__(self) -> None:
        if (self.client_secret is None) == (self.private_key is None):
            raise ConfigError("ClientCredentials takes either a client_secret or a private_key=.")


Terms = Login | ClientCredentials


@dataclass(frozen=True, slots=True)
class Logout:
    """The result of a logout; true if a login was stored. `problem` explains why its tokens could remain valid."""

    was_stored: bool
    problem: str = ""

    def __bool__(self) -> bool:
        return self.was_stored


def with_login(target: Target, login: Any) -> Target:
    """Add the login settings to a target: those given, or the default, which uses a stored login.

    `login` is a settings object, or a function that has a person open an address. Raises ConfigError if the target does
    not support logins.
    """
    if login is None:
        can_log_in = target.url and _AUTHORIZATION not in target.headers and is_encrypted(target.url)
        return replace(target, login=Login()) if can_log_in else target
    if not target.url:
        raise ConfigError("login= requires a server with a URL.")
    if _AUTHORIZATION in target.headers:
        raise ConfigError("Both login= and a token are given. Pass one of them.")
    if not is_encrypted(target.url):
        raise ConfigError("A login would be sent unencrypted. Use https://.")
    return replace(target, login=login if isinstance(login, Login | ClientCredentials) else Login(login))


def command(target: Target) -> str:
    """Return the shell command for logging in, without the query of the address, which could contain a key."""
    return f"agentkit mcp login {target.url.partition('?')[0]}"


_ALLOWABLE_RULES = frozenset(("url.private-address", "url.local-name", "url.port"))
_THIS_MACHINE = ("localhost", "127.0.0.0/8", "::1/128")


class AllowedHosts:
    """The hosts allowed to take part in the login to one server.

    A server on the web must not make the client call addresses visible only to this machine or its network. Raises
    ConfigError.
    """

    def __init__(self, server: str, hosts: Iterable[str] = ()) -> None:
        parts = urlsplit(server)
        host = parts.hostname or ""
        self.hosts = tuple(dict.fromkeys(hosts))
        self._is_local = is_local(host)
        self.server = parts.netloc
        server_host = f"[{host}]" if ":" in host else host
        self._rules = AddressRules((server_host, *self.hosts, *(_THIS_MACHINE if self._is_local else ())))

    def parse_allowed(self, url: str) -> Url:
        """Parse the address. Raises ToolError if it is not allowed, judged by its name."""
        decision = self._rules.judge(url)
        parsed = read_url(url)
        if decision.denied or isinstance(parsed, Decision):
            raise self._refusal(decision)
        if not is_encrypted(str(parsed)) or (parsed.scheme == "http" and not self._is_local):
            raise ToolError(f"The login to {self.server} would contact {parsed.host} unencrypted, so it was not tried.")
        return parsed

    def check(self, url: Url, address: str) -> None:
        """Raise ToolError if the host resolves to an address that is not allowed."""
        objection = self._rules.judge_address(url, address)
        if objection is not None:
            raise self._refusal(objection)

    def _refusal(self, decision: Decision) -> ToolError:
        remedy = " If you trust that host, allow it: Login(hosts=[...]), or --allow-host."
        return ToolError(
            f"The login to {self.server} was not tried, because it leads to another host: {decision.reason}"
            f"{remedy if decision.rule in _ALLOWABLE_RULES else ''}"
        )
