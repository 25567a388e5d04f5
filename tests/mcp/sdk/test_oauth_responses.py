"""Tests for the validation of OAuth responses, whose errors quote no secrets."""

import base64
import json

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from agentkit.errors import ToolError
from agentkit.mcp.sdk.oauth import authorization_page, check_answer, check_metadata, error_text

REQUEST = httpx2.Request("POST", "https://login.example/token", data={"code": "tulip-code", "client_id": "us"})


@pytest.mark.for_each(
    ("model", "text", "message"),
    [
        (OAuthToken, {"access_token": "tulip\r\nX-Evil: 1"}, "its access_token cannot be sent in a header"),
        (OAuthToken, {"access_token": "tulip\0"}, "its access_token cannot be sent in a header"),
        (OAuthToken, {"access_token": "tulip rose"}, "its access_token cannot be sent in a header"),
        (OAuthToken, {"access_token": "tulip\u00e9"}, "its access_token cannot be sent in a header"),
        (OAuthToken, {"access_token": ""}, "its access_token cannot be sent in a header"),
        (OAuthToken, {"access_token": "tulip" * 4_000}, "its access_token cannot be sent in a header"),
        (OAuthToken, {"access_token": "a", "refresh_token": "tulip\n"}, "its refresh_token cannot be sent in a header"),
        (OAuthToken, {"access_token": "tulip", "expires_in": 10**400}, "its expiry time is out of range"),
        (OAuthToken, {"access_token": "tulip", "expires_in": -(10**400)}, "its expiry time is out of range"),
        (OAuthToken, {"access_token": ["tulip"]}, "it is not a valid OAuthToken"),
        (OAuthClientInformationFull, {"client_id": "tulip\r\n"}, "its client_id cannot be sent in a header"),
        (OAuthClientInformationFull, {"client_id": "a", "client_secret": "tulip\0"}, "its client_secret cannot be"),
    ],
)
def test_invalid_oauth_responses(model, text, message):
    """An OAuth response with invalid values raises a ToolError that does not quote them."""
    with pytest.raises(ToolError, match=message) as caught:
        check_answer(model, REQUEST, httpx2.Response(200, json=text))
    assert "tulip" not in str(caught.value)


@pytest.mark.parametrize("ends", [None, -1, 0, 3600, 10**10])
def test_valid_oauth_responses(ends):
    """A token is accepted with or without an expiry time."""
    check_answer(OAuthToken, REQUEST, httpx2.Response(200, json={"access_token": "a.b~c+/=", "expires_in": ends}))


def metadata(methods):
    """Return the metadata of an authorization server with these PKCE methods."""
    named = {name: f"https://login.example/{name}" for name in ("authorization_endpoint", "token_endpoint")}
    return OAuthMetadata(issuer="https://login.example", **named, code_challenge_methods_supported=methods)


@pytest.mark.for_each(
    ("text", "is_named", "is_meant", "message"),
    [
        (metadata(["S256"]), True, False, ""),
        (metadata(["plain", "S256"]), False, False, ""),
        (metadata(["plain"]), True, True, "does not state that it supports PKCE"),
        (metadata([]), True, True, "does not state that it supports PKCE"),
        (metadata(None), True, False, "Login\\(issuer=...\\)"),
        (metadata(None), True, True, ""),
        (None, True, True, "has no metadata"),
        (None, False, False, ""),
    ],
)
def test_pkce_is_required(text, is_named, is_meant, message):
    """An authorization server must support PKCE, unless the developer names it and it states no methods."""
    if not message:
        check_metadata("mcp.example", text, is_named=is_named, is_configured=is_meant)
        return
    with pytest.raises(ToolError, match=message):
        check_metadata("mcp.example", text, is_named=is_named, is_configured=is_meant)


@pytest.mark.parametrize(
    ("page", "opened"),
    [
        ("https://a.example/in?state=ours&code=c", "https://a.example/in?state=ours&code=c"),
        ("https://a.example/in?tenant=t?state=ours", "https://a.example/in?tenant=t&state=ours"),
        ("https://a.example/in?state=theirs?state=ours", None),
        ("https://a.example/in?STATE=theirs&state=theirs&redirect_uri=x?state=ours&redirect_uri=y", None),
        ("https://a.example/in?a?b?state=ours", None),
        ("https://a.example/in#?state=ours", None),
        (f"https://a.example/in?scope={'x' * 9_000}", None),
    ],
)
def test_login_page_with_a_query(page, opened):
    """The login page keeps its own query parameters, but may not set or repeat the client's."""
    if opened is not None:
        assert authorization_page(page) == opened
        return
    with pytest.raises(ToolError, match="parameters that were not requested"):
        authorization_page(page)


def basic(user, secret):
    """Return a request with a name and a secret in its header."""
    shown = base64.b64encode(f"{user}:{secret}".encode()).decode()
    return httpx2.Request(
        "POST", "https://login.example/token", data={"code": "tulip-code"}, headers={"Authorization": f"Basic {shown}"}
    )


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (REQUEST, "no tulip-code here"),
        (REQUEST, "x" * 190 + " tulip-code"),
        (basic("client", "tulip-secret"), "no tulip-secret here"),
        (basic("client", "tulip%2Fsecret"), "no tulip/secret here"),
        (basic("client", "tulip-secret"), basic("client", "tulip-secret").headers["authorization"]),
        (httpx2.Request("POST", "https://a.example", headers={"Authorization": "Basic tulip"}), "it is"),
    ],
)
def test_error_does_not_echo_secrets(request_, text):
    """Secrets of the request are removed from the quoted error, even if they are encoded or truncated."""
    output = error_text(request_, httpx2.Response(400, json={"error": "bad", "error_description": text}))
    assert "tulip" not in output
    assert "dHVsaXA" not in output
    assert output.startswith("bad: ")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b'{"error": 3, "error_description": ["tulip-code"]}',
        b"[" * 100_000,
        b"\xff",
        json.dumps(["tulip"]).encode(),
    ],
)
def test_error_response_without_a_reason(body):
    """An error response that is not an object gives no reason."""
    assert error_text(REQUEST, httpx2.Response(400, content=body)) == "no reason was given"
