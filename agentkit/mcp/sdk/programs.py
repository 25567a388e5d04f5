"""How does a program log in, and show that? By a secret of its own, as often as it takes; nothing of it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx2
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from agentkit.mcp.sdk.authorizing import Authorized, Listener

if TYPE_CHECKING:
    from agentkit.mcp.logins.terms import ClientCredentials
    from agentkit.mcp.target import Target

_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"


class OfAProgram(Authorized, ClientCredentialsOAuthProvider):
    """Shows the login of a program, which it gets, and gets again, by the program's own secret."""

    def __init__(self, target: Target, terms: ClientCredentials, listener: Listener) -> None:
        secret, issuer = terms.client_secret, terms.issuer
        super().__init__(target.url, _Forgetful(), terms.client_id, secret, _BASIC, terms.scope, issuer)
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


class _Forgetful:
    """Keeps nothing: a program logs in anew whenever it likes."""

    async def get_tokens(self) -> None:
        """There are none."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """It is in the context."""

    async def get_client_info(self) -> None:
        """The terms say it."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """It is the terms'."""
