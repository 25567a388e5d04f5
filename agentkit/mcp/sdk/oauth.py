"""OAuth flows: authorization code for people, client credentials for programs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import re
import shlex
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider, SignedJWTParameters
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, issuers_match, union_scopes
from mcp.shared.auth import (
    JWT_BEARER_GRANT_TYPE,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from agentkit.errors import AgentKitError, ConfigError, LoginNeeded, ToolError
from agentkit.event_rendering import escape_invisible
from agentkit.mcp.callback_server import CallbackServer, authorization_code, parse_redirect, refusal_reason
from agentkit.mcp.login_store import AllowedHosts, Ask, Login, StoredLogin, command
from agentkit.mcp.sdk.ssrf_transport import send_request, web_client
from agentkit.settings import Secret
from agentkit.tooling import execution
from agentkit.tooling.signature import is_asynchronous

if TYPE_CHECKING:
    from agentkit.mcp.connection_target import Target
    from agentkit.mcp.login_store import ClientCredentials, Terms


_METHOD = "S256"
_MIN_SECRET_CHARS = 6
_HEADER_SAFE = re.compile(r"[!-~]{1,16000}")
"""The characters and length that a header can carry and servers accept."""

_SECRETS = {OAuthToken: ("access_token", "refresh_token"), OAuthClientInformationFull: ("client_id", "client_secret")}
_MAX_PAGE_CHARS = 8_000
_MAX_SECONDS = 10**11
"""About three thousand years: later expiry dates are rejected."""


def check_answer(model: Any, request: httpx2.Request, response: httpx2.Response) -> None:
    """Raise ToolError for an invalid answer, or one whose values cannot be sent in a header.

    The package and the HTTP client would quote them in their error messages.
    """
    try:
        answer = model.model_validate_json(response.content)
    except ValueError:
        raise _invalid_answer(request, f"it is not a valid {model.__name__}") from None
    for name in _SECRETS[model]:
        value = getattr(answer, name)
        if value is not None and not _HEADER_SAFE.fullmatch(value):
            raise _invalid_answer(request, f"its {name} cannot be sent in a header")
    if abs(getattr(answer, "expires_in", None) or 0) >= _MAX_SECONDS:
        raise _invalid_answer(request, "its expiry time is out of range")


def check_metadata(server: str, metadata: OAuthMetadata | None, *, is_named: bool, is_configured: bool) -> None:
    """Raise ToolError if the authorization server does not protect its codes by PKCE.

    `is_named` means that `server` named the authorization server; `is_configured`, that the developer named it, and can
    know that it supports PKCE even if its metadata does not state it.
    """
    if metadata is None:
        if is_named:
            raise ToolError(
                f"The authorization server that {server} names has no metadata, so the login was not tried."
            )
        return
    methods = metadata.code_challenge_methods_supported
    if _METHOD not in (methods or ()) and not (methods is None and is_configured):
        remedy = "" if methods is not None else " If you know that it does, name it: Login(issuer=...), or --issuer."
        raise ToolError(
            f"The authorization server of {server} does not state that it supports PKCE, which protects codes.{remedy}"
        )


def authorization_page(url: str) -> str:
    """Normalise the authorization page to a single query: the package appends one to the server's own.

    Raises ToolError if the result would request more than the client asks for.
    """
    page, _, added = url.rpartition("?")
    query = "&".join((*page.split("?")[1:], added))
    parameters = parse_qs(query, keep_blank_values=True)
    is_invalid = "#" in page or page.count("?") > 1 or len(url) > _MAX_PAGE_CHARS
    if is_invalid or any(len(values) > 1 for values in parameters.values()):
        raise ToolError(
            f"The login page cannot be used: {page.partition('?')[0]} has parameters that were not requested."
        )
    return f"{page.partition('?')[0]}?{query}"


def error_text(request: httpx2.Request, response: httpx2.Response, others: Iterable[str] = ()) -> str:
    """Format an authorization server's error without the secrets of the request and without `others`."""
    try:
        document = json.loads(response.content)
    except (ValueError, RecursionError):
        document = None
    fields = document if isinstance(document, dict) else {}
    secrets = [Secret(each) for each in (*_request_secrets(request), *others) if len(each) >= _MIN_SECRET_CHARS]
    return refusal_reason(
        {name: _scrub(secrets, fields[name]) for name in ("error", "error_description") if name in fields}
    )


def _scrub(secrets: list[Secret], value: object) -> object:
    """Remove secrets from a text; done before the text is cut."""
    if isinstance(value, str):
        for secret in secrets:
            value = secret.scrub(value)
    return value


def _request_secrets(request: httpx2.Request) -> Iterator[str]:
    """Yield the secrets in a request, encoded and decoded."""
    for values in parse_qs(request.content.decode("utf-8", "replace")).values():
        yield from values
    credentials = request.headers.get("authorization", "").rpartition(" ")[2]
    yield credentials
    try:
        user, _, secret = base64.b64decode(credentials).decode("utf-8", "replace").partition(":")
    except binascii.Error:
        return
    for text in (secret, user):
        yield from (text, unquote(text))


def _invalid_answer(request: httpx2.Request, reason: str) -> ToolError:
    return ToolError(f"{request.url.host} gave an invalid answer: {reason}.")


_REFUSED, _FORBIDDEN = 401, 403
_DONE = (200, 201)
_MAX_CHARS = 300
_SCOPE = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")


class Listener(Protocol):
    """Receives events that the package does not report."""

    def failed(self, error: AgentKitError) -> None:
        """Report why a request could not be authorized."""
        ...

    def token_used(self, secret: str) -> None:
        """Report the token that a request uses."""
        ...


class NullAuthListener:
    """A listener that does nothing."""

    def failed(self, error: AgentKitError) -> None:
        """Do nothing: the error is raised to the caller."""

    def token_used(self, secret: str) -> None:
        """Do nothing: the token is not used by a server connection."""


class Authorized(OAuthClientProvider):
    """Authorizes each request. Requests of the flow itself go only to hosts allowed for the login.

    Raises LoginNeeded if a person has to log in, and ToolError; both are reported to the listener.
    """

    _terms: Terms
    _target: Target
    _listener: Listener

    def _set_up(self, target: Target, terms: Terms, listener: Listener) -> None:
        self._target, self._terms, self._listener = target, terms, listener
        self._allowed_hosts = AllowedHosts(target.url, terms.hosts)
        self._lock = asyncio.Lock()
        self._is_required = True

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the available token, and retry once if it was rejected and another is available without a person."""
        try:
            await self._prepare()
            self._add_token(request)
            response = yield request
            if response.status_code == _REFUSED and await self._renew(request, response):
                response = yield request
            if is_refusal(response):
                if scope := missing_scope(response):
                    await self._remember_missing_scope(scope)
                raise LoginNeeded(self._login_hint(response))
        except AgentKitError as error:
            self._listener.failed(error)
            raise

    async def obtain(self, request: httpx2.Request, refusal: httpx2.Response, *, is_required: bool = True) -> None:
        """Run the package's whole flow for a refused request, without sending that request again.

        `is_required` means that the server itself refused it. Raises ToolError.
        """
        self._is_required = is_required
        flow = self._auth_flow(request)
        answers = [refusal]
        try:
            outgoing = await anext(flow)
            while outgoing is not request or answers:
                response = answers.pop() if outgoing is request else await self._send(outgoing)
                outgoing = await flow.asend(response)
        except OAuthFlowError as error:
            reason = escape_invisible(" ".join(str(error).split())[:_MAX_CHARS].rstrip("."))
            raise ToolError(f"The login to {self._allowed_hosts.server} failed: {reason}.") from None
        except (ValueError, httpx2.InvalidURL):  # from a server's answer, which can contain secrets
            raise ToolError(f"The login to {self._allowed_hosts.server} failed: an answer is invalid.") from None
        finally:
            await flow.aclose()

    async def _prepare(self) -> None:
        """Prepare a token to send with the first attempt."""

    async def _remember_missing_scope(self, scope: str) -> None:
        """Record the scope that a call lacked, for the next login."""

    def _earlier_scope(self) -> str | None:
        """The scope that a login replaces, and that calls lacked with it."""
        return None

    def _requested_scope(self) -> str | None:
        """The scope to request: the configured one, or the server's choice and what earlier calls lacked."""
        if self._terms.scope is not None:
            return self._terms.scope
        return union_scopes(self.context.client_metadata.scope, self._earlier_scope())

    async def get_tokens(self) -> None:
        """Do nothing, as the token storage of the package: `_initialize` reads a stored login."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Do nothing: the tokens are in the context."""

    async def get_client_info(self) -> None:
        """Do nothing: `_initialize` reads a stored login."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing: client information is stored together with the tokens."""

    @abstractmethod
    async def _renew(self, request: httpx2.Request, refusal: httpx2.Response) -> bool:
        """Return whether the request now carries another token than the rejected one."""

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the flow and return a validated answer. Raises ToolError."""
        if request.method != "POST":
            return await send_request(request, self._allowed_hosts)
        is_registration = request.headers["content-type"].startswith("application/json")
        if is_registration:
            self._check_registration()
            request = self._registration_request(request)
        response = await send_request(request, self._allowed_hosts)
        if response.status_code not in _DONE:
            what = "the client registration" if is_registration else "the token request"
            reason = f"{error_text(request, response)} (it answers {response.status_code})"
            raise ToolError(f"{request.url.host} refused {what}: {reason}.")
        check_answer(OAuthClientInformationFull if is_registration else OAuthToken, request, response)
        return response

    def _check_registration(self) -> None:
        """Raise ToolError if registration is not allowed or not needed."""
        if self._terms.client_id is not None:
            raise ToolError(
                f"{self._allowed_hosts.server} does not use {self._terms.issuer or 'the authorization server'}, which "
                f"knows {self._terms.client_id!r}, so the login was not tried elsewhere."
            )
        is_known = self.context.oauth_metadata or self.context.protected_resource_metadata
        if not self._is_required and not is_known:
            raise ToolError(f"{self._allowed_hosts.server} requires no login.")

    def _registration_request(self, request: httpx2.Request) -> httpx2.Request:
        """Return the registration request with the scope to request."""
        scope = self._requested_scope()
        if scope is None:
            return request
        return httpx2.Request("POST", request.url, json={**json.loads(request.content), "scope": scope})

    def _select_authorization_server(self, advertised: list[str]) -> str:
        """Select the configured issuer, if it is advertised."""
        issuer = self._terms.issuer
        return next((each for each in advertised if issuer and issuers_match(each, issuer)), advertised[0])

    def _expected_issuer(self) -> str:
        """The issuer that the metadata must name: the configured one, if it is at the origin of the metadata."""
        expected, issuer = super()._expected_issuer(), self._terms.issuer or ""
        is_own = self.context.auth_server_url is None and issuer.startswith(f"{expected.rstrip('/')}/")
        return issuer if is_own else expected

    async def _perform_authorization(self) -> httpx2.Request:
        """Return the token request to the configured issuer, with the scope to request."""
        metadata, issuer = self.context.oauth_metadata, self._terms.issuer
        if issuer is not None and (metadata is None or not issuers_match(str(metadata.issuer), issuer)):
            raise ToolError(
                f"{self._allowed_hosts.server} does not use the authorization server {issuer}, so the login was not "
                "tried with another one."
            )
        is_named = self.context.protected_resource_metadata is not None
        check_metadata(self._allowed_hosts.server, metadata, is_named=is_named, is_configured=issuer is not None)
        self.context.client_metadata.scope = self._requested_scope()
        return await super()._perform_authorization()

    def _add_token(self, request: httpx2.Request) -> None:
        tokens = self.context.current_tokens
        if tokens is not None and self.context.is_token_valid():
            self._listener.token_used(tokens.access_token)
            self._add_auth_header(request)

    def _login_hint(self, response: httpx2.Response) -> str:
        """Describe how to resolve a refusal."""
        scope = missing_scope(response)
        if scope and self._terms.scope is not None:
            scope = f"{union_scopes(self._terms.scope, scope)}"
            return (
                f"The call needs a wider scope. Log in again: {command(self._target)} --scope {shlex.quote(scope)}, or"
                f" Login(scope={scope!r})."
            )
        if scope:
            return f"The call needs the scope {scope!r}. Log in again: {command(self._target)}"
        return f"The server requires a login. Pass token=, or log in: {command(self._target)}"


def missing_scope(response: httpx2.Response) -> str:
    """The scope that a refused request lacked; empty if the server names none that can be requested."""
    scope = extract_scope_from_www_auth(response) or ""
    is_named = response.status_code == _FORBIDDEN and len(scope) <= _MAX_CHARS and _SCOPE.fullmatch(scope)
    return scope if is_named else ""


def is_refusal(response: httpx2.Response) -> bool:
    """Whether a response requires a login, or one with further scopes."""
    lacks_scope = extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == _REFUSED or (response.status_code == _FORBIDDEN and lacks_scope)


_NAME = "agentkit"
_TOO_MANY_REQUESTS = 429
_UNUSED_REDIRECT = "http://127.0.0.1/callback"
_MISSING_SCOPE = "missing_scope"
_REVOKING_SECONDS = 10.0
_PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
_ACCEPT = {"Accept": "application/json, text/event-stream"}


class AuthorizationCodeAuth(Authorized):
    """Authorizes with the stored login of a person, and refreshes it while the authorization server allows that."""

    _is_renewal = True

    def __init__(self, target: Target, login: Login, listener: Listener, redirect_uri: str = _UNUSED_REDIRECT) -> None:
        metadata = OAuthClientMetadata.model_validate(
            {"redirect_uris": [redirect_uri], "client_name": _NAME, "scope": login.scope}
        )
        super().__init__(target.url, metadata, self, client_metadata_url=login.client_metadata_url)
        self._login, self._stored = login, StoredLogin(target.url, login.folder)
        self._version: tuple[int, int] | None = None
        self._set_up(target, login, listener)

    async def _initialize(self) -> None:
        """Load the stored login: another process can have refreshed, replaced or deleted it."""
        self._version = self._stored.version
        stored, context = self._stored.read() or {}, self.context
        try:
            context.current_tokens = _read_model(OAuthToken, stored, "tokens")
            context.client_info = _read_model(OAuthClientInformationFull, stored, "client")
            context.oauth_metadata = _read_model(OAuthMetadata, stored, "authorization_server")
            context.protected_resource_metadata = _read_model(ProtectedResourceMetadata, stored, "resource")
            ends = stored.get("expires_at")
            context.token_expiry_time = None if ends is None else float(ends)
            self._allowed_hosts = AllowedHosts(self._target.url, (*self._login.hosts, *stored.get("hosts", ())))
        except (ValueError, TypeError):
            raise ConfigError(f"The login in {self._stored.path} cannot be read; delete it and log in again.") from None
        self._initialized = True

    async def _prepare(self) -> None:
        """Make a valid, still stored token available if possible without a person: a logout invalidates it."""
        async with self._lock:
            if not self.context.is_token_valid() or self._stored.version != self._version:
                await self._initialize()
                if not self.context.is_token_valid():
                    await self._refresh()

    async def _renew(self, request: httpx2.Request, _refusal: httpx2.Response) -> bool:
        """Return whether the request now carries another token than the rejected one."""
        async with self._lock:
            refused = request.headers.get("authorization")
            await self._initialize()
            self._add_token(request)
            is_new = request.headers.get("authorization") != refused or await self._refresh()
            self._add_token(request)
            return is_new

    async def _refresh(self) -> bool:
        """Return whether a new token replaced the expired one, refreshed by another process or by this one."""
        expired = self.context.current_tokens
        if expired is None:
            return False
        async with self._stored.locked():
            await self._initialize()
            current = self.context.current_tokens
            if current is not None and current.access_token != expired.access_token:
                return True
            return self.context.can_refresh_token() and await self._request_refresh()

    async def _request_refresh(self) -> bool:
        """Refresh the token and return whether this succeeded. Raises ToolError if the server is unavailable."""
        request = await self._refresh_token()
        response = await send_request(request, self._allowed_hosts)
        if response.status_code == _TOO_MANY_REQUESTS or response.is_server_error:
            raise ToolError(f"{request.url.host} cannot renew the login now: it answers {response.status_code}.")
        if response.is_success:
            check_answer(OAuthToken, request, response)
        return await self._handle_refresh_response(response)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens with their authorization server and client: they must not be sent anywhere else."""
        context = self.context
        given = {
            "tokens": tokens,
            "client": context.client_info,
            "authorization_server": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
        }
        models = {name: model for name, model in given.items() if model}
        document: dict[str, Any] = {
            name: each.model_dump(mode="json", exclude_none=True) for name, each in models.items()
        }
        if self._is_renewal and self._stored.version is None:
            return  # logged out in the meantime
        document |= {"expires_at": context.token_expiry_time, "hosts": [*self._allowed_hosts.hosts]}
        if self._is_renewal and (missing := (self._stored.read() or {}).get(_MISSING_SCOPE)):
            document[_MISSING_SCOPE] = missing
        self._stored.write(document)
        self._version = self._stored.version

    async def _remember_missing_scope(self, scope: str) -> None:
        """Store the scope that a call lacked with the login, for the next one."""
        async with self._stored.locked():
            stored = self._stored.read()
            if stored is not None:
                missing = union_scopes(_text_field(stored, _MISSING_SCOPE), scope)
                self._stored.write({**stored, _MISSING_SCOPE: missing})
                self._version = self._stored.version

    async def revoke(self) -> str:
        """Delete the login and revoke it; return why revocation failed, or an empty string."""
        await self._initialize()
        self._stored.forget()
        metadata, tokens = self.context.oauth_metadata, self.context.current_tokens
        endpoint = metadata.revocation_endpoint if metadata else None
        if tokens is None or endpoint is None:
            return "The authorization server does not support revocation: the tokens are valid until they expire."
        tokens_by_kind = {"refresh_token": tokens.refresh_token, "access_token": tokens.access_token}
        present = {kind: token for kind, token in tokens_by_kind.items() if token}
        failures = [fault for kind in present if (fault := await self._revoke_token(str(endpoint), kind, present))]
        return f"The tokens may still be valid: {' '.join(failures)}" if failures else ""

    async def _revoke_token(self, endpoint: str, kind: str, tokens: Mapping[str, str]) -> str:
        """Revoke one kind of token; return why this failed, or an empty string."""
        client = self.context.client_info
        data = {"token": tokens[kind], "token_type_hint": kind, **({"client_id": client.client_id} if client else {})}
        try:
            data, headers = self.context.prepare_token_auth(data, {})
            request = httpx2.Request("POST", endpoint, data=data, headers=headers)
            response = await send_request(request, self._allowed_hosts, _REVOKING_SECONDS)
        except ToolError as error:
            return str(error)
        if response.is_success:
            return ""
        reason = f"{error_text(request, response, tokens.values())} (it answers {response.status_code})"
        return f"{request.url.host} refused the {kind}: {reason}."


class _AuthorizationFlow(AuthorizationCodeAuth):
    """Logs a person in from scratch."""

    _is_renewal = False

    def __init__(self, target: Target, login: Login, callback_server: CallbackServer | None, ask: Ask) -> None:
        redirect_uri = callback_server.address if callback_server is not None else login.redirect_uri
        super().__init__(target, login, NullAuthListener(), redirect_uri or _UNUSED_REDIRECT)
        self.context.redirect_handler, self.context.callback_handler = self._open, self._answer
        self._callback_server, self._ask = callback_server, ask
        self._state = ""
        self._replaced: dict[str, Any] = {}
        with contextlib.suppress(ConfigError):  # a damaged login is replaced
            self._replaced = self._stored.read() or {}
        self._ask_task: asyncio.Future[Any]

    async def _initialize(self) -> None:
        """Start without tokens, with the configured client or an unregistered one."""
        login = self._login
        if login.client_id is not None:
            known = {"client_id": login.client_id, "client_secret": login.client_secret, "issuer": login.issuer}
            method = "none" if login.client_secret is None else "client_secret_basic"
            self.context.client_info = OAuthClientInformationFull.model_validate(
                {**known, "token_endpoint_auth_method": method}
            )
        self._initialized = True

    def _earlier_scope(self) -> str | None:
        """The scope of the login that this one replaces, if calls lacked a wider one."""
        missing = _text_field(self._replaced, _MISSING_SCOPE)
        granted = _text_field(self._replaced.get("tokens", {}), "scope")
        return union_scopes(granted, missing) if missing else None

    async def _open(self, url: str) -> None:
        """Have the person open the page; a synchronous function runs in a thread."""
        url = authorization_page(url)
        self._allowed_hosts.parse_allowed(url.partition("?")[0])
        self._state = parse_qs(urlsplit(url).query)["state"][-1]
        if self._callback_server is not None:
            self._callback_server.expect(self._state)
        asked = execution.acall(partial(self._ask, url), None, is_async=is_asynchronous(self._ask))
        self._ask_task = asyncio.ensure_future(asked)

    async def _answer(self) -> AuthorizationCodeResult:
        """Wait for the authorization server's answer, from the browser or from the person."""
        redirected = None if self._callback_server is None else asyncio.ensure_future(self._callback_server.answer())
        waiting: set[asyncio.Future[Any]] = {self._ask_task} | ({redirected} if redirected is not None else set())
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if redirected is not None and redirected.done():
                answer = redirected.result()
            else:
                answer = self._parse_entered(self._ask_task.result()) or await _await_callback(redirected)
        finally:
            for each in waiting:
                each.cancel()
        return AuthorizationCodeResult(code=authorization_code(answer), state=answer["state"], iss=answer.get("iss"))

    def _parse_entered(self, said: object) -> dict[str, str] | None:
        """Parse the address that the person entered; None if empty. Raises ToolError if it does not match."""
        if not isinstance(said, str) or not said.strip():
            return None
        answer = parse_redirect(said, self._state)
        if answer is None:
            raise ToolError("The returned address is not the redirect address of this login.")
        return answer


async def log_in(target: Target, login: Login, ask: Ask) -> None:
    """Log a person in and store the login. Raises ToolError and ConfigError."""
    try:
        async with asyncio.timeout(login.seconds):
            if login.redirect_uri is not None:
                await _obtain_login(_AuthorizationFlow(target, login, None, ask), target)
                return
            async with CallbackServer(login.port) as callback_server:
                await _obtain_login(_AuthorizationFlow(target, login, callback_server, ask), target)
    except TimeoutError:
        raise ToolError(f"The login was not completed within {login.seconds:g} seconds.") from None


async def revoke_login(target: Target, login: Login) -> str:
    """Delete the stored login and revoke it; return why revocation failed, or an empty string."""
    leaving = AuthorizationCodeAuth(target, login, NullAuthListener())
    try:
        return await leaving.revoke()
    except ConfigError:
        return "The stored login cannot be read, so its tokens were not revoked."


async def _obtain_login(flow: _AuthorizationFlow, target: Target) -> None:
    """Send a request without login and start the flow from the response, whether or not it asks for a login."""
    try:
        async with (
            web_client(target.url, {**target.headers, **_ACCEPT}) as http,
            http.stream("POST", target.url, json=_PING) as response,
        ):
            is_required = is_refusal(response)
    except httpx2.RequestError as error:
        raise ToolError(f"The server cannot be reached: {error}.") from None
    refusal = httpx2.Response(401, headers=response.headers if is_required else {}, request=response.request)
    await flow.obtain(response.request, refusal, is_required=is_required)


async def _await_callback(redirected: asyncio.Future[dict[str, str]] | None) -> dict[str, str]:
    if redirected is None:
        raise ToolError("The ask function returned no address, which is required with redirect_uri=.")
    return await redirected


def _text_field(document: Any, name: str) -> str:
    text = document.get(name) if isinstance(document, dict) else None
    return text if isinstance(text, str) else ""


def _read_model(model: Any, kept: Mapping[str, Any], name: str) -> Any:
    return model.model_validate(kept[name]) if name in kept else None


_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"
_JWT: Final = "private_key_jwt"
_JWT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class ClientCredentialsAuth(Authorized, ClientCredentialsOAuthProvider):
    """Authorizes a program with a token obtained, and obtained again, with its secret or key."""

    def __init__(self, target: Target, terms: ClientCredentials, listener: Listener) -> None:
        secret, issuer = terms.client_secret or "", terms.issuer
        super().__init__(target.url, self, terms.client_id, secret, _BASIC, terms.scope, issuer)
        if terms.private_key is not None:
            self._fixed_client_info.token_endpoint_auth_method = _JWT
        self._credentials = terms
        self._set_up(target, terms, listener)

    async def _initialize(self) -> None:
        """Keep the token in memory, with the fixed client information."""
        self.context.client_info = self._fixed_client_info
        self._initialized = True

    async def _renew(self, request: httpx2.Request, refusal: httpx2.Response) -> bool:
        """Obtain another token with the client secret, unless a concurrent request already has."""
        async with self._lock:
            refused = request.headers.get("authorization")
            self._add_token(request)  # a concurrent request can have obtained one
            if request.headers.get("authorization") == refused:
                self.context.clear_tokens()
                await self.obtain(request, refusal)
                self._add_token(request)
            return True

    async def _perform_authorization(self) -> httpx2.Request:
        """Return the token request, using an authentication method that the server supports."""
        metadata, client, terms = self.context.oauth_metadata, self.context.client_info, self._credentials
        methods = metadata.token_endpoint_auth_methods_supported if metadata else None
        if methods is not None and _BASIC not in methods and _POST in methods and terms.private_key is None and client:
            client.token_endpoint_auth_method = _POST
        request = await super()._perform_authorization()
        data = dict(parse_qsl(request.content.decode()))
        if terms.private_key is not None:
            data |= {
                "client_assertion_type": _JWT_ASSERTION,
                "client_assertion": await self._sign_assertion(terms.private_key),
            }
        if terms.assertion is not None:
            assertion_call = partial(terms.assertion, terms.issuer, self.context.get_resource_url())
            assertion = await execution.acall(assertion_call, None, is_async=is_asynchronous(terms.assertion))
            data |= {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": assertion, "client_id": terms.client_id}
        headers = {name: request.headers[name] for name in ("authorization",) if name in request.headers}
        return httpx2.Request("POST", request.url, data=data, headers=headers)

    async def _sign_assertion(self, private_key: str) -> str:
        """Return a JWT for the issuer that proves the identity of the client. Raises ToolError for an invalid key."""
        terms = self._credentials
        parameters = SignedJWTParameters(
            issuer=terms.client_id,
            subject=terms.client_id,
            signing_key=private_key,
            signing_algorithm=terms.algorithm,
        )
        try:
            return await parameters.create_assertion_provider()(terms.issuer)
        except Exception as error:
            reason = f"{terms.algorithm} ({type(error).__name__}). Check algorithm="
            raise ToolError(f"The private key cannot sign with {reason}.") from error

    def _login_hint(self, response: httpx2.Response) -> str:
        """Describe how to resolve a refusal."""
        return f"The server rejected the credentials of {self._terms.client_id!r} ({response.status_code})."
