"""How does a request show a login? By the package's OAuth flow, over connections that are judged, in our words."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from abc import abstractmethod
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, issuers_match
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from agentkit.errors import AgentKitError, LoginNeeded, ToolError
from agentkit.mcp.logins.reach import Reach
from agentkit.mcp.logins.terms import command
from agentkit.mcp.sdk.believing import check_answer, check_metadata, told_of
from agentkit.mcp.sdk.judged import sent
from agentkit.wording import visible

if TYPE_CHECKING:
    from agentkit.mcp.logins.terms import Terms
    from agentkit.mcp.target import Target

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


class Silence:
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
        self._reach = Reach(target.url, terms.hosts)
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
