"""Tests for programs that log in with their own secret."""

import base64

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentkit import settings
from agentkit.errors import ConfigError, ToolError
from agentkit.mcp import ClientCredentials, MCPServer

SECRET = "tulip-secret-4711"


@pytest.fixture
def granting(protecting, authority):
    """Return a server, its issuer of tokens for programs, and the received secrets."""
    shown = []

    async def token(request):
        form = dict(await request.form()) if "form" in request.headers["content-type"] else {}
        shown.append((request.headers.get("authorization"), form))
        basic = base64.b64encode(f"us:{SECRET}".encode()).decode()
        known = request.headers.get("authorization") == f"Basic {basic}" or form.get("client_secret") == SECRET
        if not known:
            return JSONResponse({"error": "invalid_client", "error_description": f"not {SECRET}"}, 401)
        given = authority.given("us", form["scope"].split(), form["resource"])
        return JSONResponse(given.model_dump(exclude={"refresh_token"}))

    def giving(issuer, methods):
        document = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "token_endpoint_auth_methods_supported": methods,
        }

        async def metadata(request):
            return JSONResponse(document)

        known_at = "/.well-known/oauth-authorization-server"
        return Starlette(routes=[Route(known_at, metadata), Route("/token", token, methods=["POST"])])

    def started(stack, methods=("client_secret_basic",)):
        actual, origin = stack.enter_context(protecting.listening())
        reference, issuer = stack.enter_context(protecting.listening())
        stack.enter_context(protecting.running(actual, protecting.protected(authority, f"{origin}/mcp", issuer)))
        stack.enter_context(protecting.running(reference, giving(issuer, list(methods))))
        return f"{origin}/mcp", issuer, shown

    return started


@pytest.fixture
def stack():
    """An ExitStack that is closed at the end of a test."""
    import contextlib

    with contextlib.ExitStack() as opened:
        yield opened


@pytest.mark.parametrize("methods", [("client_secret_basic", "client_secret_post"), ("client_secret_post",)])
def test_program_logs_in(granting, stack, authority, methods):
    """A program logs in when it is rejected and when its token expires, and nothing is stored."""
    url, issuer, shown = granting(stack, methods)
    terms = ClientCredentials("us", SECRET, issuer)
    with MCPServer(url, "far", login=terms, level="safe") as server:
        assert len(server.tools) == 2
        assert server.call("add", first=1, second=2) == "3"
        assert len(shown) == 1
        authority.tokens.clear()
        assert server.call("add", first=1, second=2) == "3"
        assert len(shown) == 2
    assert {(authorization is not None, "client_secret" in form) for authorization, form in shown} == {
        (methods[0] == "client_secret_basic", methods[0] == "client_secret_post")
    }
    assert not (settings.state_folder() / "mcp" / "logins").exists()


def test_program_may_request_other_scopes(granting, stack, authority):
    """A program may request other scopes than the server names."""
    url, issuer, _ = granting(stack)
    with MCPServer(url, "far", login=ClientCredentials("us", SECRET, issuer, scope="read write")) as server:
        assert len(server.definitions) == 2
    assert [token.scopes for token in authority.tokens.values()] == [["read", "write"]]


def test_secret_is_sent_to_its_issuer_only(granting, stack):
    """A secret is not sent to a server that uses another issuer."""
    url, _, shown = granting(stack)
    terms = ClientCredentials("us", SECRET, "https://login.example.com")
    with (
        MCPServer(url, "far", login=terms) as server,
        pytest.raises(ConfigError, match="does not use the authorization server"),
    ):
        _ = server.tools
    assert shown == []


def test_rejected_secret_ends_the_connection(granting, stack):
    """A rejected secret ends the connection, and no error contains it."""
    url, issuer, shown = granting(stack)
    wrong = ClientCredentials("us", "rose-secret-4711", issuer)
    with MCPServer(url, "far", login=wrong) as server, pytest.raises(ConfigError, match="invalid_client") as caught:
        _ = server.tools
    assert "rose" not in str(caught.value)
    assert shown


def test_rejected_new_token(granting, stack, authority):
    """A server that rejects a newly issued token raises a ConfigError."""
    url, issuer, _ = granting(stack)
    with (
        MCPServer(url, "far", login=ClientCredentials("us", SECRET, issuer, scope="write")) as server,
        pytest.raises(ConfigError, match=r"rejected the credentials of 'us' \(403\)"),
    ):
        _ = server.tools


def test_program_has_no_interactive_login(granting, stack):
    """A program's credentials allow no interactive login, and `logout` has nothing to remove."""
    url, issuer, _ = granting(stack)
    with MCPServer(url, "far", login=ClientCredentials("us", SECRET, issuer)) as server:
        with pytest.raises(ConfigError, match="No login function is set"):
            server.login()
        assert not server.logout()


@pytest.mark.parametrize("is_at_the_server", [False, True])
def test_metadata_with_another_issuer(protecting, stack, is_at_the_server):
    """A server without metadata receives a secret only if the issuer is on its host."""
    actual, origin = stack.enter_context(protecting.listening())
    issuer = f"{origin}/oauth" if is_at_the_server else "https://login.example.com"
    shown = []

    async def token(request):
        shown.append(dict(await request.form()))
        return JSONResponse({"access_token": "rose", "token_type": "Bearer"})

    async def metadata(request):
        endpoints = {"authorization_endpoint": f"{origin}/authorize", "token_endpoint": f"{origin}/token"}
        return JSONResponse({"issuer": issuer, "response_types_supported": ["code"], **endpoints})

    async def refuse(request):
        return JSONResponse({}, 401)

    routes = [
        Route("/mcp", refuse, methods=["GET", "POST"]),
        Route("/.well-known/oauth-authorization-server", metadata),
        Route("/token", token, methods=["POST"]),
    ]
    stack.enter_context(protecting.running(actual, Starlette(routes=routes)))
    terms = ClientCredentials("us", SECRET, issuer)
    with MCPServer(f"{origin}/mcp", "far", login=terms) as server, pytest.raises(ConfigError):
        _ = server.tools
    assert bool(shown) is is_at_the_server


def keys():
    """A private key in PEM format, and its public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return pem.decode(), key.public_key()


@pytest.fixture
def exchanging(protecting, authority, stack):
    """Return a function that logs in at an authority which issues tokens for any form that a check accepts."""

    def login(check, **terms):
        actual, origin = stack.enter_context(protecting.listening())
        reference, issuer = stack.enter_context(protecting.listening())

        async def token(request):
            form = dict(await request.form())
            check(form, issuer, f"{origin}/mcp")
            given = authority.given("us", ["read"], form["resource"])
            return JSONResponse(given.model_dump(exclude={"refresh_token"}))

        async def metadata(request):
            endpoints = {"authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token"}
            return JSONResponse({"issuer": issuer, "response_types_supported": ["code"], **endpoints})

        routes = [Route("/.well-known/oauth-authorization-server", metadata), Route("/token", token, methods=["POST"])]
        stack.enter_context(protecting.running(reference, Starlette(routes=routes)))
        stack.enter_context(protecting.running(actual, protecting.protected(authority, f"{origin}/mcp", issuer)))
        made = ClientCredentials(terms.pop("client_id", "us"), terms.pop("client_secret", None), issuer, **terms)
        with MCPServer(f"{origin}/mcp", "far", login=made, level="safe") as server:
            return server.call("add", first=1, second=2)

    return login


def test_private_key_signs_for_the_issuer(exchanging):
    """A program with a private key authenticates with a JWT for its issuer, and sends no secret."""
    private, public = keys()

    def check(form, issuer, _resource):
        claims = jwt.decode(form["client_assertion"], public, algorithms=["ES256"], audience=issuer)
        assert (claims["iss"], claims["sub"]) == ("us", "us")
        assert form["client_assertion_type"].endswith(":jwt-bearer")
        assert (form["grant_type"], "client_secret" in form) == ("client_credentials", False)

    assert exchanging(check, private_key=private, algorithm="ES256") == "3"
    with pytest.raises(ToolError, match="private key cannot sign with RS256"):
        exchanging(check, private_key=private)
    for both in ((None, None), (SECRET, private)):
        with pytest.raises(ConfigError, match="either a client_secret or a private_key"):
            ClientCredentials("us", both[0], "https://login.example.com", private_key=both[1])


def test_cross_app_access(exchanging):
    """The assertion of an identity provider about a person is exchanged for a token."""
    questions = []

    async def assertion(issuer, resource):
        questions.append((issuer, resource))
        return "about-ann"

    def check(form, issuer, resource):
        assert questions == [(issuer, resource)]
        assert (form["assertion"], form["client_id"]) == ("about-ann", "us")
        assert form["grant_type"].endswith(":jwt-bearer")

    assert exchanging(check, client_secret=SECRET, assertion=assertion) == "3"
