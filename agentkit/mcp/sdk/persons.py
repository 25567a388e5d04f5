"""How is a person logged in, and their login shown from then on? It is kept with all that renewing it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from agentkit.errors import ConfigError, ToolError
from agentkit.mcp.logins.kept import KeptLogin
from agentkit.mcp.logins.landing import Landing, answer_in, code_of
from agentkit.mcp.logins.reach import Reach
from agentkit.mcp.logins.terms import Ask, Login
from agentkit.mcp.sdk.authorizing import Authorized, Listener, Silence, is_refusal
from agentkit.mcp.sdk.believing import check_answer, page_of, told_of
from agentkit.mcp.sdk.bounding import web_client
from agentkit.mcp.sdk.judged import sent
from agentkit.tooling import running
from agentkit.tooling.functions.signature import is_asynchronous

if TYPE_CHECKING:
    from agentkit.mcp.target import Target

_NAME = "agentkit"
_LATER = 429
_NOWHERE = "http://127.0.0.1/callback"
_REVOKING_SECONDS = 10.0
_PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
_ACCEPT = {"Accept": "application/json, text/event-stream"}


class OfAPerson(Authorized):
    """Shows the login that is kept of a person, and renews it as long as the authorization server does."""

    _is_renewal = True

    def __init__(self, target: Target, login: Login, listener: Listener, redirect_uri: str = _NOWHERE) -> None:
        metadata = OAuthClientMetadata.model_validate(
            {"redirect_uris": [redirect_uri], "client_name": _NAME, "scope": login.scope}
        )
        super().__init__(target.url, metadata, self, client_metadata_url=login.client_metadata_url)
        self._login, self._kept = login, KeptLogin(target.url, login.folder)
        self._edition: tuple[int, int] | None = None
        self._begin(target, login, listener)

    async def _initialize(self) -> None:
        """Read what is kept: another process may have renewed it, or logged in anew, or out."""
        self._edition = self._kept.edition
        kept, context = self._kept.read() or {}, self.context
        try:
            context.current_tokens = _read(OAuthToken, kept, "tokens")
            context.client_info = _read(OAuthClientInformationFull, kept, "client")
            context.oauth_metadata = _read(OAuthMetadata, kept, "authorization_server")
            context.protected_resource_metadata = _read(ProtectedResourceMetadata, kept, "resource")
            ends = kept.get("expires_at")
            context.token_expiry_time = None if ends is None else float(ends)
            self._reach = Reach(self._target.url, (*self._login.hosts, *kept.get("hosts", ())))
        except (ValueError, TypeError):
            raise ConfigError(f"The login in {self._kept.path} cannot be read; delete it and log in again.") from None
        self._initialized = True

    async def _prepare(self) -> None:
        """Have a token that is valid and still kept, if that takes no person: after a logout it counts no more."""
        async with self._one:
            if not self.context.is_token_valid() or self._kept.edition != self._edition:
                await self._initialize()
                if not self.context.is_token_valid():
                    await self._refresh()

    async def _renew(self, request: httpx2.Request, _refusal: httpx2.Response) -> bool:
        """Whether the request now shows another token than the one that was refused."""
        async with self._one:
            refused = request.headers.get("authorization")
            await self._initialize()
            self._show(request)
            is_new = request.headers.get("authorization") != refused or await self._refresh()
            self._show(request)
            return is_new

    async def _refresh(self) -> bool:
        """Whether there is a new token in the place of the one that ended: from whoever was first, or else by us."""
        ended = self.context.current_tokens
        if ended is None:
            return False
        async with self._kept.alone():
            await self._initialize()
            current = self.context.current_tokens
            if current is not None and current.access_token != ended.access_token:
                return True
            return self.context.can_refresh_token() and await self._refreshed()

    async def _refreshed(self) -> bool:
        """Whether the authorization server gave a new token for the old one. Raises ToolError when it is away."""
        request = await self._refresh_token()
        response = await sent(request, self._reach)
        if response.status_code == _LATER or response.is_server_error:
            raise ToolError(f"{request.url.host} cannot renew the login now: it answers {response.status_code}.")
        if response.is_success:
            check_answer(OAuthToken, request, response)
        return await self._handle_refresh_response(response)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them, with where they were given and who we are there: to no other place may they be sent again."""
        context = self.context
        told = {
            "tokens": tokens,
            "client": context.client_info,
            "authorization_server": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
        }
        document = {name: model.model_dump(mode="json", exclude_none=True) for name, model in told.items() if model}
        if self._is_renewal and self._kept.edition is None:
            return  # somebody has logged out meanwhile
        self._kept.write({**document, "expires_at": context.token_expiry_time, "hosts": [*self._reach.hosts]})
        self._edition = self._kept.edition

    async def revoke(self) -> str:
        """Have the authorization server take the login back; why it has not, empty when it has."""
        await self._initialize()
        self._kept.forget()
        metadata, tokens = self.context.oauth_metadata, self.context.current_tokens
        endpoint = metadata.revocation_endpoint if metadata else None
        if tokens is None or endpoint is None:
            return "Where it was given, nothing is offered to take it back: its tokens hold until they end."
        given = {"refresh_token": tokens.refresh_token, "access_token": tokens.access_token}
        kept = {kind: token for kind, token in given.items() if token}
        faults = [fault for kind in kept if (fault := await self._fault(str(endpoint), kind, kept))]
        return f"It may still hold where it was given: {' '.join(faults)}" if faults else ""

    async def _fault(self, endpoint: str, kind: str, tokens: Mapping[str, str]) -> str:
        """Why the token of that kind is not taken back, empty when it is."""
        client = self.context.client_info
        data = {"token": tokens[kind], "token_type_hint": kind, **({"client_id": client.client_id} if client else {})}
        try:
            data, headers = self.context.prepare_token_auth(data, {})
            request = httpx2.Request("POST", endpoint, data=data, headers=headers)
            response = await sent(request, self._reach, _REVOKING_SECONDS)
        except ToolError as error:
            return str(error)
        if response.is_success:
            return ""
        why = f"{told_of(request, response, tokens.values())} (it answers {response.status_code})"
        return f"{request.url.host} refused the {kind}: {why}."

    async def get_tokens(self) -> None:
        """Nobody asks: `_initialize` reads what is kept."""

    async def get_client_info(self) -> None:
        """Nor for that."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """It is kept with the tokens that it leads to, or not at all."""


class _Asking(OfAPerson):
    """Logs a person in, from the beginning."""

    _is_renewal = False

    def __init__(self, target: Target, login: Login, landing: Landing | None, ask: Ask) -> None:
        redirect_uri = landing.address if landing is not None else login.redirect_uri
        super().__init__(target, login, Silence(), redirect_uri or _NOWHERE)
        self.context.redirect_handler, self.context.callback_handler = self._open, self._answer
        self._landing, self._ask = landing, ask
        self._state = ""
        self._asking: asyncio.Future[Any]

    async def _initialize(self) -> None:
        """Begin without tokens, as the client that the developer has told, or as nobody."""
        login = self._login
        if login.client_id is not None:
            known = {"client_id": login.client_id, "client_secret": login.client_secret, "issuer": login.issuer}
            method = "none" if login.client_secret is None else "client_secret_basic"
            self.context.client_info = OAuthClientInformationFull.model_validate(
                {**known, "token_endpoint_auth_method": method}
            )
        self._initialized = True

    async def _open(self, url: str) -> None:
        """Have the person asked, in a thread where the function does not await."""
        url = page_of(url)
        self._reach.admitted(url.partition("?")[0])
        self._state = parse_qs(urlsplit(url).query)["state"][-1]
        if self._landing is not None:
            self._landing.expect(self._state)
        asked = running.acall(partial(self._ask, url), None, is_async=is_asynchronous(self._ask))
        self._asking = asyncio.ensure_future(asked)

    async def _answer(self) -> AuthorizationCodeResult:
        """What the authorization server says, by the browser or by the person."""
        landed = None if self._landing is None else asyncio.ensure_future(self._landing.answer())
        waiting: set[asyncio.Future[Any]] = {self._asking} | ({landed} if landed is not None else set())
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if landed is not None and landed.done():
                answer = landed.result()
            else:
                answer = self._said(self._asking.result()) or await _landed(landed)
        finally:
            for each in waiting:
                each.cancel()
        return AuthorizationCodeResult(code=code_of(answer), state=answer["state"], iss=answer.get("iss"))

    def _said(self, said: object) -> dict[str, str] | None:
        """The answer in an address that the person gave, None where they gave none. Raises ToolError for another."""
        if not isinstance(said, str) or not said.strip():
            return None
        answer = answer_in(said, self._state)
        if answer is None:
            raise ToolError("What was given is not the address that the browser was led back to by this login.")
        return answer


async def log_in(target: Target, login: Login, ask: Ask) -> None:
    """Have a person log in, and keep what comes of it. Raises ToolError and ConfigError."""
    try:
        async with asyncio.timeout(login.seconds):
            if login.redirect_uri is not None:
                await _logged_in(_Asking(target, login, None, ask), target)
                return
            async with Landing(login.port) as landing:
                await _logged_in(_Asking(target, login, landing, ask), target)
    except TimeoutError:
        raise ToolError(f"Nobody logged in within {login.seconds:g} seconds.") from None


async def revoked(target: Target, login: Login) -> str:
    """Forget the login that is kept, and have it taken back; why it was not, empty when it was."""
    leaving = OfAPerson(target, login, Silence())
    try:
        return await leaving.revoke()
    except ConfigError:
        return "What was kept cannot be read, so nothing was taken back where it was given."


async def _logged_in(asking: _Asking, target: Target) -> None:
    """Ask the server for something without a login, and go on from what it says; from nothing, if it asks for none."""
    try:
        async with (
            web_client(target.url, {**target.headers, **_ACCEPT}) as http,
            http.stream("POST", target.url, json=_PING) as said,
        ):
            is_wanted = is_refusal(said)
    except httpx2.RequestError as error:
        raise ToolError(f"The server cannot be reached: {error}.") from None
    refusal = httpx2.Response(401, headers=said.headers if is_wanted else {}, request=said.request)
    await asking.obtain(said.request, refusal, is_wanted=is_wanted)


async def _landed(landed: asyncio.Future[dict[str, str]] | None) -> dict[str, str]:
    if landed is None:
        raise ToolError("The function that asks gave no address, and we listen at none with redirect_uri=.")
    return await landed


def _read(model: Any, kept: Mapping[str, Any], name: str) -> Any:
    return model.model_validate(kept[name]) if name in kept else None
