"""On which terms are we to log in to a server? As a person who is asked, or as a program with a secret of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentkit.errors import ConfigError
from agentkit.mcp.target import Target, is_sealed
from agentkit.slotted import dataclass

_SHOWN = "authorization"

Ask = Callable[[str], object]
"""Has a person open an address. What it returns, if it is a text, is the address that their browser was led back to."""


@dataclass(frozen=True, slots=True)
class Login:
    """Have a person log in to a server, by OAuth's authorization code with PKCE.

    Args:
        ask: Has the person open an address; it may await. It is called when the server is connected and no login is
            kept, never during a call. None means that only a login which is kept already counts.
        scope: The rights that are asked for, with blanks between them; by default those that the server names.
        client_id: What we are known by at the authorization server; by default we register there.
        client_secret: What we show there beside the `client_id`. It goes to `issuer` alone, which must be told then.
        issuer: The authorization server that is meant, as its metadata names it. Another one is refused.
        client_metadata_url: The https address of a document about us, by which servers that support it know us.
        redirect_uri: Where the person's browser is led back to. By default we listen on 127.0.0.1 for that; with an
            address of your own, `ask` returns the whole address that was called there.
        port: Where we listen on 127.0.0.1. 0 is any that is free.
        hosts: Hosts beside the server's own that may take part though they are not on the public web.
        seconds: How long the person has.
        folder: Where logins are kept; by default in the state folder.

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
            raise ConfigError(f"Login() takes a function that has a person open an address; got {self.ask!r:.80}.")
        if self.client_secret is not None and (self.client_id is None or self.issuer is None):
            raise ConfigError("client_secret= goes with client_id= and issuer=, the server that it is a secret of.")
        if self.client_metadata_url is not None:
            parts = urlsplit(self.client_metadata_url)
            if parts.scheme != "https" or parts.path in {"", "/"}:
                raise ConfigError("client_metadata_url= is the https address of a document, with a path.")


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Log in to a server as a program, by OAuth's client credentials. What comes of it is kept in memory only.

    Args:
        client_id: What the program is known by at the authorization server.
        client_secret: Its secret, which is shown to no other server than `issuer`.
        issuer: The authorization server, as its metadata names it.
        scope: The rights that are asked for, with blanks between them; by default those that the server names.
        hosts: Hosts beside the server's own that may take part though they are not on the public web.
    """

    client_id: str
    client_secret: str = field(repr=False)
    issuer: str
    scope: str | None = None
    hosts: tuple[str, ...] = ()


Terms = Login | ClientCredentials


@dataclass(frozen=True, slots=True)
class Logout:
    """What came of a logout, true when a login was kept. `trouble` says why its tokens may still hold, if they may."""

    was_kept: bool
    trouble: str = ""

    def __bool__(self) -> bool:
        return self.was_kept


def with_login(target: Target, login: Any) -> Target:
    """The server with the terms on which we log in there: those told, or a login that is kept already.

    `login` are terms, or a function that has a person open an address. Raises ConfigError where there can be no login.
    """
    if login is None:
        may_be = target.url and _SHOWN not in target.headers and is_sealed(target.url)
        return replace(target, login=Login()) if may_be else target
    if not target.url:
        raise ConfigError("login= is for a server that is reached by a URL.")
    if _SHOWN in target.headers:
        raise ConfigError("Both login= and a token say what is shown to the server; leave one out.")
    if not is_sealed(target.url):
        raise ConfigError("A login would travel unencrypted; use https://.")
    return replace(target, login=login if isinstance(login, Login | ClientCredentials) else Login(login))


def command(target: Target) -> str:
    """The command by which a person logs in. What stands behind a ? may be a key, and is left out."""
    return f"agentkit mcp login {target.url.partition('?')[0]}"
