"""Tests for OAuth logins at hostile servers: addresses, redirects, invalid answers, and secrets."""

from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentkit.errors import ConfigError, ToolError
from agentkit.mcp import Login, MCPServer

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


@pytest.fixture
def stage(protecting):
    """Return a server that answers as given in `changed`, and otherwise like a correct server."""

    def staged(origin, changed):
        good = {
            "/mcp": Response("no", 401, {"WWW-Authenticate": f'Bearer resource_metadata="{origin}{RESOURCE}"'}),
            RESOURCE: JSONResponse({"resource": f"{origin}/mcp", "authorization_servers": [origin]}),
            METADATA: JSONResponse(metadata(origin)),
            "/register": JSONResponse({"client_id": "us", "client_secret": "tulip-secret"}, 201),
            "/token": JSONResponse({"access_token": "tulip-token"}),
            "/revoke": Response(),
        }
        answers = {path: changed.get(path, answer) for path, answer in good.items()}

        def route(path):
            async def answer(request):
                found = answers[path]
                return found if isinstance(found, Response) else found(request, await request.body())

            return Route(path, answer, methods=["GET", "POST"])

        return Starlette(routes=[route(path) for path in answers])

    return staged


def metadata(origin, **changed):
    """Return the metadata of a correct authorization server."""
    named = {f"{name}_endpoint": f"{origin}/{path}" for name, path in ENDPOINTS.items()}
    return {"issuer": origin, **named, "code_challenge_methods_supported": ["S256"], **changed}


ENDPOINTS = {"authorization": "authorize", "token": "token", "registration": "register"}


def redirect_back(address):
    """Return the redirect address with an authorization code."""
    return f"http://127.0.0.1/callback?code=tulip-code&state={parse_qs(urlsplit(address).query)['state'][0]}"


def login_at(protecting, stage, changed, ask=redirect_back):
    """Log in at a server with the given answers; returns the error message and the requests received."""
    with protecting.listening() as (listener, origin):
        made = {path: answer if isinstance(answer, Response) else answer(origin) for path, answer in changed.items()}
        with (
            protecting.running(listener, stage(origin, made)) as came,
            MCPServer(f"{origin}/mcp", "far", login=ask) as far,
        ):
            try:
                far.login()
            except ConfigError as error:
                return str(error), came
            return "", came


def challenged(url):
    """Return a response that requires a login and names the metadata."""
    return Response("no", 401, {"WWW-Authenticate": f'Bearer resource_metadata="{url}"'})


def test_login_at_a_correct_server(protecting, stage):
    """Logging in at a correct server succeeds."""
    output, came = login_at(protecting, stage, {})
    assert output == ""
    assert came == ["POST /mcp", f"GET {RESOURCE}", f"GET {METADATA}", "POST /register", "POST /token"]


def test_client_metadata_document_is_used(protecting, stage):
    """A client metadata document is used instead of a registration if the server supports it."""
    reads = {METADATA: lambda origin: JSONResponse(metadata(origin, client_id_metadata_document_supported=True))}
    questions = []

    def ask(address):
        questions.append(parse_qs(urlsplit(address).query)["client_id"])
        return redirect_back(address)

    output, came = login_at(protecting, stage, reads, Login(ask, client_metadata_url="https://example.com/us.json"))
    assert (output, questions) == ("", [["https://example.com/us.json"]])
    assert "POST /register" not in came


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://169.254.169.254/latest/meta-data", "hands out credentials"),
        ("http://10.0.0.1/", "10.0.0.1 is a private network"),
        ("https://192.168.1.1/admin", "a private network"),
        ("https://[fd00::1]/", "a private network"),
        ("https://printer.local/", "a name of a local network"),
        ("https://0x7f.1/", "a number that programs interpret differently"),
        ("http://example.com/", "example.com unencrypted"),
        ("https://me:tulip@example.com/", "hides its host"),
        ("https://example.com:22/", "is not a web port"),
        ("file:///etc/passwd", "Only http"),
        ("gopher://127.0.0.1/", "Only http"),
        ("http://a:b/", "an answer is invalid"),
    ],
)
def test_login_does_not_lead_to_internal_addresses(protecting, stage, url, expected):
    """No server can direct the login to an address of this machine or its network."""
    places = {
        "challenge": {"/mcp": challenged(url)},
        "resource": {
            RESOURCE: lambda origin: JSONResponse({"resource": f"{origin}/mcp", "authorization_servers": [url]})
        },
        "token": {METADATA: lambda origin: JSONResponse(metadata(origin, token_endpoint=url))},
        "registration": {METADATA: lambda origin: JSONResponse(metadata(origin, registration_endpoint=url))},
        "page": {METADATA: lambda origin: JSONResponse(metadata(origin, authorization_endpoint=url))},
    }
    is_read_alike = (
        url.startswith("http") and "0x" not in url and ":b" not in url
    )  # by the package, which ignores or corrects others
    for place in places if is_read_alike else ["challenge"]:
        output, came = login_at(protecting, stage, places[place])
        assert expected in output, place
        assert "POST /token" not in came
        assert "tulip" not in output.replace("tulip@", "")


def redirecting(url):
    """Return a redirect."""
    return Response(status_code=307, headers={"Location": url})


@pytest.mark.parametrize("path", ["/register", "/token"])
def test_confidential_requests_follow_no_redirect(protecting, stage, path):
    """Confidential requests do not follow a redirect to another server."""
    with protecting.listening() as (listener, other), protecting.running(listener, Starlette()) as elsewhere:
        output, _ = login_at(protecting, stage, {path: redirecting(f"{other}/take")})
    assert "refused" in output
    assert elsewhere == []


ENDLESS = b"[" * 1_100_000


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({RESOURCE: Response(ENDLESS, media_type="application/json")}, "more than 1,000,000 bytes"),
        ({METADATA: Response(ENDLESS, media_type="text/event-stream")}, "more than 1,000,000 bytes"),
        ({"/token": Response(ENDLESS, media_type="text/event-stream")}, "more than 1,000,000 bytes"),
        ({"/token": Response(b"x", headers={"Content-Encoding": "gzip"})}, "compressed, which was not requested"),
        ({"/token": JSONResponse({"access_token": 4711, "refresh_token": "tulip"})}, "it is not a valid OAuthToken"),
        ({"/token": JSONResponse({"access_token": "tulip", "token_type": "mac"})}, "it is not a valid OAuthToken"),
        ({"/token": Response(b"\xff")}, "it is not a valid OAuthToken"),
        ({"/token": JSONResponse(["tulip"], 400)}, "no reason was given"),
        ({"/token": Response("<p>tulip</p>", 503)}, r"refused the token request: no reason was given (it answers 503)"),
        ({"/register": JSONResponse({"client_secret": "tulip"}, 201)}, "it is not a valid OAuthClientInformationFull"),
        ({"/register": JSONResponse({"error": "no\u202eeat"}, 400)}, r"no\u{202e}eat"),
        ({"/register": JSONResponse({"client_id": "a", "token_endpoint_auth_method": "tls"})}, "unsupported"),
        (
            {RESOURCE: JSONResponse({"resource": "https://example.com", "authorization_servers": ["https://a.com"]})},
            "does not match",
        ),
        ({METADATA: JSONResponse(metadata("https://example.com"))}, "issuer mismatch"),
        ({RESOURCE: Response(status_code=503)}, "HTTP 503"),
        ({METADATA: lambda origin: JSONResponse(metadata(origin, code_challenge_methods_supported=["plain"]))}, "PKCE"),
        ({METADATA: lambda origin: JSONResponse(metadata(origin, code_challenge_methods_supported=None))}, "PKCE"),
        ({METADATA: Response(status_code=404)}, "has no metadata"),
        ({METADATA: lambda origin: JSONResponse(metadata(origin, token_endpoint="tulip:"))}, "has no metadata"),
        (
            {METADATA: lambda origin: JSONResponse(metadata(origin, authorization_endpoint=f"{origin}/#in"))},
            "parameters that were not requested",
        ),
        ({"/token": JSONResponse({"access_token": "tulip\r\nX: 1"})}, "cannot be sent in a header"),
        (
            {"/token": Response(f'{{"access_token": "tulip", "expires_in": 1{"0" * 400}}}')},
            "expiry time is out of range",
        ),
    ],
)
def test_unusable_answers_end_the_login(protecting, stage, changed, expected):
    """An oversized, malformed or foreign answer ends the login and is not quoted."""
    output, _ = login_at(protecting, stage, changed)
    assert expected in output
    assert "tulip" not in output


def test_echoed_secrets_are_masked(protecting, stage):
    """Confidential values that an authorization server echoes are masked in the error."""

    def refuse(request, body):
        return JSONResponse({"error": "invalid_grant", "error_description": body.decode()}, 400)

    output, _ = login_at(protecting, stage, {"/token": lambda _: refuse})
    assert "refused the token request: invalid_grant: grant_type=***&code=***&" in output
    assert "tulip" not in output


def test_repeated_rejection_ends_the_login(protecting):
    """A server that repeatedly requires a login is abandoned, whatever status it sends."""

    async def refuse(request):
        async def pieces():
            for _ in range(100):
                yield b"x" * 1_000_000

        return StreamingResponse(pieces(), 401, media_type="text/event-stream")

    with protecting.listening() as (listener, origin):
        application = Starlette(routes=[Route("/mcp", refuse, methods=["POST"])])
        with (
            protecting.running(listener, application),
            MCPServer(f"{origin}/mcp", "far") as far,
            pytest.raises(ConfigError, match="agentkit mcp login"),
        ):
            _ = far.tools


def test_server_without_login(protecting):
    """Logging in to a server that requires no login raises a ConfigError."""
    with (
        protecting.listening() as (listener, origin),
        protecting.running(listener, Starlette()),
        MCPServer(f"{origin}/mcp", "far", login=print) as far,
        pytest.raises(ConfigError, match="requires no login"),
    ):
        far.login()


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        ("read write", "The call needs the scope 'read write'. Log in again: agentkit mcp login URL"),
        ("a;$(touch", "The call needs the scope 'a;$(touch'. Log in again: agentkit mcp login URL"),
        ("a\\b", "or log in: agentkit mcp login URL"),
        ("x" * 400, "or log in: agentkit mcp login URL"),
    ],
)
def test_insufficient_scope(protecting, stage, scope, text):
    """A server that requires further scopes raises a ToolError with the safely quoted login command."""

    def wanting(request, body):
        if request.headers.get("authorization") is None:
            return challenged(f"{request.base_url}{RESOURCE[1:]}")
        return Response("no", 403, {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'})

    with (
        protecting.listening() as (listener, origin),
        protecting.running(listener, stage(origin, {"/mcp": wanting})),
        MCPServer(f"{origin}/mcp", "far", login=redirect_back) as far,
    ):
        far.login()
        with pytest.raises(ToolError) as caught:
            far.call("add")
    assert str(caught.value).endswith(text.replace("URL", f"{origin}/mcp"))


@pytest.mark.parametrize(
    ("scope", "question", "advice"),
    [
        (None, ["read", "read write"], "The call needs the scope 'write'. Log in again: agentkit mcp login URL"),
        ("read", ["read", "read"], "The call needs a wider scope. Log in again: agentkit mcp login URL --scope"),
    ],
)
def test_missing_scope_is_requested_by_the_next_login(protecting, stage, scope, question, advice):
    """After `insufficient_scope` the next login requests that scope in addition, unless the scope is configured."""
    requested = []

    def ask(address):
        requested.append(parse_qs(urlsplit(address).query)["scope"][0])
        return redirect_back(address)

    def wanting(request, body):
        if request.headers.get("authorization") is None:
            return challenged(f"{request.base_url}{RESOURCE[1:]}")
        return Response("no", 403, {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="write"'})

    def resource(origin):
        named = {"resource": f"{origin}/mcp", "authorization_servers": [origin], "scopes_supported": ["read"]}
        return JSONResponse(named)

    with protecting.listening() as (listener, origin):
        changed = {"/mcp": wanting, RESOURCE: resource(origin)}
        with (
            protecting.running(listener, stage(origin, changed)),
            MCPServer(f"{origin}/mcp", "far", login=Login(ask, scope=scope)) as far,
        ):
            far.login()
            with pytest.raises(ToolError) as caught:
                far.call("add")
            assert advice.replace("URL", f"{origin}/mcp") in str(caught.value)
            far.login()
            assert requested == question


@pytest.mark.parametrize("status", [429, 500, 503])
def test_unreachable_issuer_does_not_end_the_login(protecting, stage, status):
    """An authorization server that is temporarily unreachable does not end the login."""
    answers = [JSONResponse({"access_token": "tulip", "refresh_token": "tulips", "expires_in": -1})]

    def giving(request, body):
        return answers.pop() if answers else JSONResponse({}, status)

    with (
        protecting.listening() as (listener, origin),
        protecting.running(listener, stage(origin, {"/token": giving})),
        MCPServer(f"{origin}/mcp", "far", login=redirect_back) as far,
    ):
        far.login()
        with pytest.raises(ToolError, match=f"cannot renew the login now: it answers {status}"):
            far.call("add")


def test_invalid_renewal_response(protecting, stage):
    """An invalid token response on renewal raises a ToolError and is not quoted."""
    answers = [JSONResponse({"access_token": "tulip", "refresh_token": "tulips", "expires_in": -1})]

    def giving(request, body):
        return answers.pop() if answers else JSONResponse({"access_token": ["tulip"]})

    with (
        protecting.listening() as (listener, origin),
        protecting.running(listener, stage(origin, {"/token": giving})),
        MCPServer(f"{origin}/mcp", "far", login=redirect_back) as far,
    ):
        far.login()
        with pytest.raises(ToolError, match="it is not a valid OAuthToken") as caught:
            far.call("add")
    assert "tulip" not in str(caught.value)


GIVEN = {"access_token": "tulip-token", "refresh_token": "tulip-again"}


def logged_out(protecting, stage, changed, *, names=None, token=None):
    """Log out with the given server answers; returns the outcome and the bodies that were sent."""
    bodies = []

    def received(answer):
        def answering(request, body):
            bodies.append((parse_qs(body.decode()), request.headers.get("authorization", "")))
            return answer

        return answering

    with protecting.listening() as (listener, origin):
        named = f"{origin}/revoke" if names is None else names
        made = {
            METADATA: JSONResponse(metadata(origin, revocation_endpoint=named or None)),
            "/token": JSONResponse(token or GIVEN),
            **{path: received(answer) for path, answer in changed.items()},
        }
        with (
            protecting.running(listener, stage(origin, made)) as came,
            MCPServer(f"{origin}/mcp", "far", login=redirect_back) as far,
        ):
            far.login()
            done = far.logout()
            assert not far.logout()
            return done, bodies, came


def test_logout_revokes_both_tokens(protecting, stage):
    """A logout revokes both tokens at the server that issued them."""
    done, bodies, came = logged_out(protecting, stage, {"/revoke": Response()})
    assert (done.was_stored, done.problem) == (True, "")
    assert [body["token"] for body, _ in bodies] == [["tulip-again"], ["tulip-token"]]
    assert [body["token_type_hint"] for body, _ in bodies] == [["refresh_token"], ["access_token"]]
    assert all(body["client_id"] == ["us"] for body, _ in bodies)
    assert came.count("POST /revoke") == 2


@pytest.mark.parametrize(
    ("changed", "names", "expected"),
    [
        ({}, "", "does not support revocation"),
        (
            {"/revoke": Response(status_code=503)},
            None,
            "refused the refresh_token: no reason was given (it answers 503)",
        ),
        ({"/revoke": JSONResponse({"error": "unsupported", "error_description": "tulip-token"}, 400)}, None, "***"),
        ({"/revoke": redirecting("https://example.com/")}, None, "it answers 307"),
        ({"/revoke": Response(b"x" * 2_000_000)}, None, "more than 1,000,000 bytes"),
        ({}, "http://169.254.169.254/", "hands out credentials"),
        ({}, "https://10.0.0.1/", "a private network"),
    ],
)
def test_failed_revocation(protecting, stage, changed, names, expected):
    """If revocation fails, the login is removed locally and the outcome explains the failure."""
    done, _, _ = logged_out(protecting, stage, changed, names=names)
    assert done.was_stored
    assert expected in done.problem
    assert "tulip" not in done.problem


def test_logout_during_renewal(protecting, stage, tmp_path):
    """A logout during a renewal is not undone by the new tokens."""
    given = [JSONResponse({**GIVEN, "expires_in": -1})]

    def giving(request, body):
        if given:
            return given.pop()
        for path in tmp_path.glob("*.json"):
            path.unlink()
        return JSONResponse(GIVEN)

    with (
        protecting.listening() as (listener, origin),
        protecting.running(listener, stage(origin, {"/token": giving})),
        MCPServer(f"{origin}/mcp", "far", login=Login(redirect_back, folder=tmp_path)) as far,
    ):
        far.login()
        with pytest.raises(ToolError):
            far.call("add")
    assert [*tmp_path.glob("*.json")] == []
