"""OAuth flows: authorization code for people, client credentials for programs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import shlex
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, issuers_match
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from agentkit.errors import AgentKitError, ConfigError, LoginNeeded, ToolError
from agentkit.event_rendering import visible
from agentkit.mcp.callback_server import CallbackServer, answer_in, code_of, told
from agentkit.mcp.login_store import AllowedHosts, Ask, Login, StoredLogin, command
from agentkit.mcp.sdk.ssrf_transport import sent, web_client
from agentkit.settings import Secret
from agentkit.tooling import execution
from agentkit.tooling.signature import is_asynchronous

if TYPE_CHECKING:
    from agentkit.mcp.login_store import ClientCredentials, Terms
    from agentkit.mcp.target import Target


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


_REFUSED, _FORBIDDEN = 401, 403
_DONE = (200, 201)
_MOST_CHARS = 300
_SCOPE = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")


class Listener(Protocol):
    """Hears what the package tells nobody."""

    def failed(self, trouble: AgentKitError) -> None:
        """Why a request could not show a login."""
        ...

    def shown(self, secret: str) -> None:
        """The token that a request shows."""
        ...


class NullAuthListener:
    """A listener where nobody hears."""

    def failed(self, trouble: AgentKitError) -> None:
        """It is raised to whoever asked."""

    def shown(self, secret: str) -> None:
        """No connection of a server's shows it."""


class Authorized(OAuthClientProvider):
    """Shows a login with each request. Of what it asks for itself, nothing goes where the server's login must not lead.

    Raises LoginNeeded where a person would have to be asked, and ToolError; the listener hears of both.
    """

    _terms: Terms
    _target: Target
    _listener: Listener

    def _begin(self, target: Target, terms: Terms, listener: Listener) -> None:
        self._target, self._terms, self._listener = target, terms, listener
        self._reach = AllowedHosts(target.url, terms.hosts)
        self._one = asyncio.Lock()
        self._is_wanted = True

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Show what there is; once more, when that was refused and something else can be had without a person."""
        try:
            await self._prepare()
            self._show(request)
            response = yield request
            if response.status_code == _REFUSED and await self._renew(request, response):
                response = yield request
            if is_refusal(response):
                raise LoginNeeded(self._wanted(response))
        except AgentKitError as error:
            self._listener.failed(error)
            raise

    async def obtain(self, request: httpx2.Request, refusal: httpx2.Response, *, is_wanted: bool = True) -> None:
        """Go through the package's whole flow for a request that was refused so, short of sending it again.

        `is_wanted` says that the server itself has refused it. Raises ToolError.
        """
        self._is_wanted = is_wanted
        flow = self._auth_flow(request)
        answers = [refusal]
        try:
            outgoing = await anext(flow)
            while outgoing is not request or answers:
                response = answers.pop() if outgoing is request else await self._asked(outgoing)
                outgoing = await flow.asend(response)
        except OAuthFlowError as error:
            why = visible(" ".join(str(error).split())[:_MOST_CHARS].rstrip("."))
            raise ToolError(f"The login to {self._reach.server} failed: {why}.") from None
        except (ValueError, httpx2.InvalidURL):  # of a server's answer, which may hold what nobody else may read
            raise ToolError(f"The login to {self._reach.server} failed: it cannot be made sense of.") from None
        finally:
            await flow.aclose()

    async def _prepare(self) -> None:
        """Have at hand what can be shown without having been refused first."""

    @abstractmethod
    async def _renew(self, request: httpx2.Request, refusal: httpx2.Response) -> bool:
        """Whether the request now shows another token than the one that was refused."""

    async def _asked(self, request: httpx2.Request) -> httpx2.Response:
        """The answer to a request of the flow, which can be used. Raises ToolError."""
        if request.method != "POST":
            return await sent(request, self._reach)
        is_registration = request.headers["content-type"].startswith("application/json")
        if is_registration:
            self._check_registration()
            request = self._registration(request)
        response = await sent(request, self._reach)
        if response.status_code not in _DONE:
            what = "to register us" if is_registration else "to give a token"
            why = f"{told_of(request, response)} (it answers {response.status_code})"
            raise ToolError(f"{request.url.host} refused {what}: {why}.")
        check_answer(OAuthClientInformationFull if is_registration else OAuthToken, request, response)
        return response

    def _check_registration(self) -> None:
        """Raise ToolError where we must not, or need not, register."""
        if self._terms.client_id is not None:
            raise ToolError(
                f"{self._reach.server} does not log in at {self._terms.issuer or 'the server'} that knows "
                f"{self._terms.client_id!r}, so it was not tried elsewhere."
            )
        is_known = self.context.oauth_metadata or self.context.protected_resource_metadata
        if not self._is_wanted and not is_known:
            raise ToolError(f"{self._reach.server} asks for no login.")

    def _registration(self, request: httpx2.Request) -> httpx2.Request:
        """The same, for the rights that were meant."""
        if self._terms.scope is None:
            return request
        return httpx2.Request("POST", request.url, json={**json.loads(request.content), "scope": self._terms.scope})

    def _select_authorization_server(self, advertised: list[str]) -> str:
        """The one that was meant, if it is among them."""
        issuer = self._terms.issuer
        return next((each for each in advertised if issuer and issuers_match(each, issuer)), advertised[0])

    async def _perform_authorization(self) -> httpx2.Request:
        """The request for a token, of the server that was meant, for the rights that were meant."""
        metadata, issuer = self.context.oauth_metadata, self._terms.issuer
        if issuer is not None and (metadata is None or not issuers_match(str(metadata.issuer), issuer)):
            raise ToolError(f"{self._reach.server} does not log in at {issuer}, so it was not tried elsewhere.")
        is_named = self.context.protected_resource_metadata is not None
        check_metadata(self._reach.server, metadata, is_named=is_named, is_meant=issuer is not None)
        if self._terms.scope is not None:
            self.context.client_metadata.scope = self._terms.scope
        return await super()._perform_authorization()

    def _show(self, request: httpx2.Request) -> None:
        tokens = self.context.current_tokens
        if tokens is not None and self.context.is_token_valid():
            self._listener.shown(tokens.access_token)
            self._add_auth_header(request)

    def _wanted(self, response: httpx2.Response) -> str:
        """What is to be done about a refusal."""
        scope = extract_scope_from_www_auth(response) or ""
        if response.status_code == _FORBIDDEN and _SCOPE.fullmatch(scope) and len(scope) <= _MOST_CHARS:
            return (
                f"The server wants further rights. Log in again: {command(self._target)} --scope {shlex.quote(scope)}"
            )
        return f"The server wants to know who asks. Show it a token, or log in: {command(self._target)}"


def is_refusal(response: httpx2.Response) -> bool:
    """Whether an answer says that a login, or one with further rights, is wanted."""
    wants_rights = extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == _REFUSED or (response.status_code == _FORBIDDEN and wants_rights)


_NAME = "agentkit"
_LATER = 429
_NOWHERE = "http://127.0.0.1/callback"
_REVOKING_SECONDS = 10.0
_PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
_ACCEPT = {"Accept": "application/json, text/event-stream"}


class AuthorizationCodeAuth(Authorized):
    """Shows the login that is kept of a person, and renews it as long as the authorization server does."""

    _is_renewal = True

    def __init__(self, target: Target, login: Login, listener: Listener, redirect_uri: str = _NOWHERE) -> None:
        metadata = OAuthClientMetadata.model_validate(
            {"redirect_uris": [redirect_uri], "client_name": _NAME, "scope": login.scope}
        )
        super().__init__(target.url, metadata, self, client_metadata_url=login.client_metadata_url)
        self._login, self._kept = login, StoredLogin(target.url, login.folder)
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
            self._reach = AllowedHosts(self._target.url, (*self._login.hosts, *kept.get("hosts", ())))
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


class _AuthorizationFlow(AuthorizationCodeAuth):
    """Logs a person in, from the beginning."""

    _is_renewal = False

    def __init__(self, target: Target, login: Login, landing: CallbackServer | None, ask: Ask) -> None:
        redirect_uri = landing.address if landing is not None else login.redirect_uri
        super().__init__(target, login, NullAuthListener(), redirect_uri or _NOWHERE)
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
        asked = execution.acall(partial(self._ask, url), None, is_async=is_asynchronous(self._ask))
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
                await _logged_in(_AuthorizationFlow(target, login, None, ask), target)
                return
            async with CallbackServer(login.port) as landing:
                await _logged_in(_AuthorizationFlow(target, login, landing, ask), target)
    except TimeoutError:
        raise ToolError(f"Nobody logged in within {login.seconds:g} seconds.") from None


async def revoked(target: Target, login: Login) -> str:
    """Forget the login that is kept, and have it taken back; why it was not, empty when it was."""
    leaving = AuthorizationCodeAuth(target, login, NullAuthListener())
    try:
        return await leaving.revoke()
    except ConfigError:
        return "What was kept cannot be read, so nothing was taken back where it was given."


async def _logged_in(asking: _AuthorizationFlow, target: Target) -> None:
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


_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"


class ClientCredentialsAuth(Authorized, ClientCredentialsOAuthProvider):
    """Shows the login of a program, which it gets, and gets again, by the program's own secret."""

    def __init__(self, target: Target, terms: ClientCredentials, listener: Listener) -> None:
        secret, issuer = terms.client_secret, terms.issuer
        super().__init__(target.url, _MemoryTokenStorage(), terms.client_id, secret, _BASIC, terms.scope, issuer)
        self._begin(target, terms, listener)

    async def _initialize(self) -> None:
        """Go on with the token at hand."""
        self.context.client_info = self._fixed_client_info
        self._initialized = True

    async def _renew(self, request: httpx2.Request, refusal: httpx2.Response) -> bool:
        """Whether another token was had for the program's secret."""
        async with self._one:
            refused = request.headers.get("authorization")
            self._show(request)  # another request may have got one meanwhile
            if request.headers.get("authorization") == refused:
                self.context.clear_tokens()
                await self.obtain(request, refusal)
                self._show(request)
            return True

    async def _perform_authorization(self) -> httpx2.Request:
        """The same, with the secret shown in a way that the authorization server knows."""
        metadata = self.context.oauth_metadata
        known = metadata.token_endpoint_auth_methods_supported if metadata else None
        if known is not None and _BASIC not in known and _POST in known and self.context.client_info is not None:
            self.context.client_info.token_endpoint_auth_method = _POST
        return await super()._perform_authorization()

    def _wanted(self, response: httpx2.Response) -> str:
        """What is to be done about a refusal."""
        return f"The server refuses what {self._terms.client_id!r} logs in with ({response.status_code})."


class _MemoryTokenStorage:
    """Keeps nothing: a program logs in anew whenever it likes."""

    async def get_tokens(self) -> None:
        """There are none."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """It is in the context."""

    async def get_client_info(self) -> None:
        """The terms say it."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """It is the terms'."""
