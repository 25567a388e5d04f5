"""Servers that require a login, made with the MCP package, on ports of this machine."""

import contextlib
import secrets
import socket
import sys
import threading
import time

import httpx2
import uvicorn
from mcp.server import MCPServer as ForeignServer
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthToken
from starlette.applications import Starlette


class Authority:
    """An authorization server that issues a token to every visitor and records its requests.

    A token is valid for `seconds`, even if the response does not state it. A refresh token is valid once.
    """

    def __init__(self, *, seconds=3600):
        self.seconds = seconds
        self.clients, self.codes, self.tokens, self.refreshers = {}, {}, {}, {}
        self.refuses = False
        self.refreshed = 0

    async def get_client(self, client_id):
        """Return the client with this id."""
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        """Store a client."""
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        """Return the redirect of the browser, as if the person had agreed."""
        if self.refuses:
            fields = {"error": "access_denied", "error_description": "Not today.", "state": params.state}
            return construct_redirect_uri(str(params.redirect_uri), **fields)
        code = secrets.token_urlsafe(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, _client, code):
        """Return the grant of an authorization code."""
        return self.codes.get(code)

    async def exchange_authorization_code(self, client, code):
        """Return a token for a code."""
        del self.codes[code.code]
        return self.given(client.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, _client, token):
        """Return the grant of a refresh token."""
        return self.refreshers.get(token)

    async def exchange_refresh_token(self, client, token, scopes):
        """Return a token for a refresh token."""
        self.refreshed += 1
        del self.refreshers[token.token]
        return self.given(client.client_id, scopes, token.resource)

    async def load_access_token(self, token):
        """Return the grant of an access token, unless it has expired."""
        found = self.tokens.get(token)
        return found if found and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        """Revoke a token."""
        self.tokens.pop(token.token, None)

    def given(self, client_id, scopes, resource):
        """Return a new token in the form of the token endpoint's response."""
        token, refresher = f"at-{secrets.token_hex(12)}", f"rt-{secrets.token_hex(12)}"
        ends = time.time() + self.seconds
        self.tokens[token] = AccessToken(
            token=token, client_id=client_id, scopes=scopes, expires_at=int(ends), resource=resource
        )
        self.refreshers[refresher] = RefreshToken(
            token=refresher, client_id=client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(access_token=token, expires_in=self.seconds, scope=" ".join(scopes), refresh_token=refresher)

    @property
    def secrets(self):
        """Return all values that must stay secret."""
        return [*self.tokens, *self.refreshers, *(each.client_secret for each in self.clients.values())]


def protected(authority, url, issuer=None):
    """Return a server application that requires a token; it issues them itself unless an issuer is given."""
    settings = AuthSettings(
        issuer_url=issuer or url.removesuffix("/mcp"),
        resource_server_url=url,
        required_scopes=["read"],
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
    )
    server = ForeignServer(
        "protected",
        auth=settings,
        **({"auth_server_provider": authority} if issuer is None else {"token_verifier": Verifier(authority)}),
    )

    @server.tool()
    def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    @server.tool()
    def tell() -> str:
        """Return the tokens of the authority."""
        return f"It was shown {', '.join(authority.tokens)}."

    return server.streamable_http_app()


class Verifier:
    """A verifier that accepts the tokens of another authority."""

    def __init__(self, authority):
        self._authority = authority

    async def verify_token(self, token):
        """Return the grant of a token."""
        return await self._authority.load_access_token(token)


def giving(authority, issuer):
    """Return the application of a separate authorization server."""
    options = ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"])
    named = AuthSettings(issuer_url=issuer, resource_server_url=None).issuer_url
    return Starlette(routes=create_auth_routes(authority, named, client_registration_options=options))


@contextlib.contextmanager
def listening():
    """Return a socket on this machine, and its origin."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def running(listener, application):
    """Serve the application within the block; yield the requests as method and path."""
    came = []

    async def noting(scope, receive, send):
        if scope["type"] == "http":
            came.append(f"{scope['method']} {scope['path']}")
        await application(scope, receive, send)

    server = uvicorn.Server(
        uvicorn.Config(noting, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield came
    finally:
        server.should_exit = True
        thread.join(30)


def browse(address):
    """Act as the browser of a consenting person: open the address and follow its redirects."""
    httpx2.get(address, follow_redirects=True, timeout=20)


def redirect_of(address):
    """Return the redirect of a URL without following it."""
    return httpx2.get(address, timeout=20).headers["location"]


if __name__ == "__main__":
    with listening() as (listener, origin), running(listener, protected(Authority(), f"{origin}/mcp")):
        sys.stdout.write(f"{origin}/mcp\n")
        sys.stdout.flush()
        threading.Event().wait()
