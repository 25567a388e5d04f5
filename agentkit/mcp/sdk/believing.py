"""Can an answer of an authorization server be used, and what may be told of it? Nothing that was said in confidence."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs, unquote

import httpx2
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from agentkit.config import Secret
from agentkit.errors import ToolError
from agentkit.mcp.logins.landing import told

_METHOD = "S256"
_LEAST_SECRET_CHARS = 6
_SHOWABLE = re.compile(r"[!-~]{1,16000}")
"""What a header can bear, and what servers take of one."""

_SECRETS = {OAuthToken: ("access_token", "refresh_token"), OAuthClientInformationFull: ("client_id", "client_secret")}
_MOST_PAGE_CHARS = 8_000
_MOST_SECONDS = 10**11
"""Some three thousand years: what ends later has no date."""


def check_answer(model: Any, request: httpx2.Request, response: httpx2.Response) -> None:
    """Raise ToolError for an answer that is none of its kind, or that nothing can be shown of.

    The package would quote it, as would whoever sends what is no header.
    """
    try:
        answer = model.model_validate_json(response.content)
    except ValueError:
        raise _unusable(request, f"it is no {model.__name__}") from None
    for name in _SECRETS[model]:
        value = getattr(answer, name)
        if value is not None and not _SHOWABLE.fullmatch(value):
            raise _unusable(request, f"its {name} cannot be shown to a server")
    if abs(getattr(answer, "expires_in", None) or 0) >= _MOST_SECONDS:
        raise _unusable(request, "nobody knows the time at which it ends")


def check_metadata(server: str, metadata: OAuthMetadata | None, *, is_named: bool, is_meant: bool) -> None:
    """Raise ToolError for an authorization server that would not protect the code that it gives.

    `is_named` says that `server` names where one logs in; `is_meant`, that the developer does, who may know that it
    protects codes without saying so.
    """
    if metadata is None:
        if is_named:
            raise ToolError(f"Where one logs in to {server}, as it says, nothing is said of how. So it was not tried.")
        return
    methods = metadata.code_challenge_methods_supported
    if _METHOD not in (methods or ()) and not (methods is None and is_meant):
        remedy = "" if methods is not None else " If you know that it does, name it: Login(issuer=...), or --issuer."
        raise ToolError(
            f"The authorization server of {server} does not say that it knows PKCE, which protects codes.{remedy}"
        )


def page_of(url: str) -> str:
    """The page that a person is to open, with one query: the package writes one behind that of the server's own.

    Raises ToolError where what we ask for would not be all that is asked for.
    """
    page, _, asked = url.rpartition("?")
    query = "&".join((*page.split("?")[1:], asked))
    given = parse_qs(query, keep_blank_values=True)
    is_alien = "#" in page or page.count("?") > 1 or len(url) > _MOST_PAGE_CHARS
    if is_alien or any(len(values) > 1 for values in given.values()):
        raise ToolError(
            f"The page where one logs in cannot be used: {page.partition('?')[0]} is asked for more than we ask."
        )
    return f"{page.partition('?')[0]}?{query}"


def told_of(request: httpx2.Request, response: httpx2.Response, others: Iterable[str] = ()) -> str:
    """What an authorization server says went wrong, without what it was sent in confidence, and `others`."""
    try:
        said = json.loads(response.content)
    except (ValueError, RecursionError):
        said = None
    given = said if isinstance(said, dict) else {}
    secrets = [Secret(each) for each in (*_sent(request), *others) if len(each) >= _LEAST_SECRET_CHARS]
    return told({name: _without(secrets, given[name]) for name in ("error", "error_description") if name in given})


def _without(secrets: list[Secret], said: object) -> object:
    """A text without these, before anything of it is cut."""
    if isinstance(said, str):
        for secret in secrets:
            said = secret.scrub(said)
    return said


def _sent(request: httpx2.Request) -> Iterator[str]:
    """What a request says in confidence, as it was sent and as it was meant."""
    for values in parse_qs(request.content.decode("utf-8", "replace")).values():
        yield from values
    shown = request.headers.get("authorization", "").rpartition(" ")[2]
    yield shown
    try:
        user, _, secret = base64.b64decode(shown).decode("utf-8", "replace").partition(":")
    except binascii.Error:
        return
    for text in (secret, user):
        yield from (text, unquote(text))


def _unusable(request: httpx2.Request, why: str) -> ToolError:
    return ToolError(f"{request.url.host} gave an answer that cannot be used: {why}.")
