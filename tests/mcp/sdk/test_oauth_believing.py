"""Is an answer of an authorization server refused that cannot be used, and is nothing told of what it was sent?"""

import base64
import json

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from agentkit.errors import ToolError
from agentkit.mcp.sdk.oauth import check_answer, check_metadata, page_of, told_of

REQUEST = httpx2.Request("POST", "https://login.example/token", data={"code": "tulip-code", "client_id": "us"})


@pytest.mark.for_each(
    ("model", "said", "told"),
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
def test_answers_of_which_nothing_can_be_shown(model, said, told):
    """What could not be sent on as it is, or ends at no time, is refused where it came, and not quoted."""
    with pytest.raises(ToolError, match=told) as caught:
        check_answer(model, REQUEST, httpx2.Response(200, json=said))
    assert "tulip" not in str(caught.value)


@pytest.mark.parametrize("ends", [None, -1, 0, 3600, 10**10])
def test_answers_that_can_be_used(ends):
    """A token is taken whether it says when it ends or not."""
    check_answer(OAuthToken, REQUEST, httpx2.Response(200, json={"access_token": "a.b~c+/=", "expires_in": ends}))


def metadata(methods):
    """What an authorization server says of itself that knows these ways to protect a code."""
    named = {name: f"https://login.example/{name}" for name in ("authorization_endpoint", "token_endpoint")}
    return OAuthMetadata(issuer="https://login.example", **named, code_challenge_methods_supported=methods)


@pytest.mark.for_each(
    ("said", "is_named", "is_meant", "told"),
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
def test_codes_are_protected(said, is_named, is_meant, told):
    """Who does not say that codes are protected gives none to us, unless the developer names him and he is silent."""
    if not told:
        check_metadata("mcp.example", said, is_named=is_named, is_meant=is_meant)
        return
    with pytest.raises(ToolError, match=told):
        check_metadata("mcp.example", said, is_named=is_named, is_meant=is_meant)


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
def test_pages_with_a_query_of_their_own(page, opened):
    """A page is opened with what it asks for itself and what we ask for, and never with two answers to one question."""
    if opened is not None:
        assert page_of(page) == opened
        return
    with pytest.raises(ToolError, match="parameters that were not requested"):
        page_of(page)


def basic(user, secret):
    """A request that shows a name and a secret in its header."""
    shown = base64.b64encode(f"{user}:{secret}".encode()).decode()
    return httpx2.Request(
        "POST", "https://login.example/token", data={"code": "tulip-code"}, headers={"Authorization": f"Basic {shown}"}
    )


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (REQUEST, "no tulip-code here"),
        (REQUEST, "x" * 190 + " tulip-code"),
        (basic("client", "tulip-secret"), "no tulip-secret here"),
        (basic("client", "tulip%2Fsecret"), "no tulip/secret here"),
        (basic("client", "tulip-secret"), basic("client", "tulip-secret").headers["authorization"]),
        (httpx2.Request("POST", "https://a.example", headers={"Authorization": "Basic tulip"}), "it is"),
    ],
)
def test_nothing_is_said_back(request_, said):
    """What went there in confidence is not told, however it was sent, also where its end would have been cut off."""
    told = told_of(request_, httpx2.Response(400, json={"error": "bad", "error_description": said}))
    assert "tulip" not in told
    assert "dHVsaXA" not in told
    assert told.startswith("bad: ")


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
def test_what_says_nothing(body):
    """An answer that is no object says nothing."""
    assert told_of(REQUEST, httpx2.Response(400, content=body)) == "no reason was given"
