"""Tests for logins of a person: storing, renewing, sharing, and logging out."""

import json
import logging
import pickle
import stat
import threading

import pytest

from agentkit import settings
from agentkit.errors import ConfigError, ToolError
from agentkit.mcp import Login, MCPServer
from agentkit.mcp.login_store import StoredLogin


def files():
    """Return the files of the stored logins."""
    return sorted((settings.state_folder() / "mcp" / "logins").glob("*.json"))


def change_login(change):
    """Change the stored login."""
    [path] = files()
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_person_logs_in_once(protected, protecting):
    """A person logs in once, and other programs use the stored login."""
    url, _ = protected
    questions = []

    def ask(address):
        questions.append(address)
        protecting.browse(address)

    with MCPServer(url, "far", login=ask, level="safe") as server:
        assert server.tools.names == ("add", "tell")
        assert server.call("add", first=1, second=2) == "3"
    with MCPServer(url, "far", level="safe") as later:
        assert later.tools.find("add")(first=2, second=3) == "5"
    assert len(questions) == 1
    [path] = files()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_async_login_function(protected, protecting):
    """The login function may be asynchronous."""

    async def ask(address):
        protecting.redirect_of(address)  # opened without following the redirect
        return protecting.redirect_of(address)

    with MCPServer(protected[0], "far", login=ask) as server:
        assert len(server.definitions) == 2


def test_login_function_may_return_immediately(protected, protecting):
    """The login function may return immediately: the answer is waited for."""
    waiting = []

    def ask(address):
        waiting.append(threading.Timer(0.5, protecting.browse, [address]))
        waiting[0].start()
        return True

    with MCPServer(protected[0], "far", login=ask) as server:
        server.login()
    waiting[0].join()
    assert len(files()) == 1


def test_missing_login_function(protected):
    """Without a login function, the error names the command that logs in."""
    url, came = protected
    with MCPServer(url, "far") as server:
        with pytest.raises(
            ConfigError, match=f"The server requires a login. Pass token=, or log in: agentkit mcp login {url}"
        ):
            _ = server.tools
        with pytest.raises(ToolError, match="agentkit mcp login"):
            server.call("add", first=1, second=2)
        with pytest.raises(ConfigError, match="No login function is set"):
            server.login()
    assert {line for line in came if line != "POST /mcp"} == set()


def test_errors_do_not_contain_the_query(protected):
    """Errors do not contain the query of an address, as it may hold a key."""
    with MCPServer(f"{protected[0]}?key=tulip", "far") as server, pytest.raises(ConfigError) as caught:
        _ = server.tools
    assert "tulip" not in str(caught.value)


def test_tokens_are_never_shown(protected, protecting, authority, caplog):
    """Tokens do not appear in results, errors, logs or representations."""
    caplog.set_level(logging.DEBUG, "agentkit")
    caplog.set_level(logging.DEBUG, "mcp.client.auth")
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        result = server.call("tell")
        assert result == "It was shown ***."
        authority.refreshers.clear()
        authority.tokens.clear()
        with pytest.raises(ToolError) as caught:
            server.call("tell")
        shown = [repr(server), repr(server.target), str(server.target.login), str(caught.value), caplog.text]
    [path] = files()
    held = json.loads(path.read_text())
    secrets = [held["tokens"]["access_token"], held["tokens"]["refresh_token"], held["client"]["client_secret"]]
    assert [secret for secret in secrets for text in shown if secret in text] == []


def test_expired_token_is_renewed(protected, protecting, authority):
    """A login with an expired token is renewed without a person, whether its expiry was known or not."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        authority.tokens.clear()
        assert server.call("add", first=1, second=2) == "3"
    change_login(lambda document: document.update(expires_at=1.0))
    with MCPServer(protected[0], "far", level="safe") as server:
        assert server.call("add", first=1, second=2) == "3"
    assert authority.refreshed == 2


def test_login_renewed_by_another_program(protected, protecting, authority):
    """A login renewed by another program is used without renewing it again."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as first:
        assert len(first.tools) == 2
        with MCPServer(protected[0], "far", level="safe") as second:
            assert len(second.tools) == 2
            authority.tokens.clear()
            assert first.call("add", first=1, second=2) == "3"
            assert second.call("add", first=1, second=2) == "3"
    assert authority.refreshed == 1


def test_concurrent_calls_renew_once(protected, protecting, authority):
    """Concurrent rejected calls renew the login once."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        authority.tokens.clear()
        received = []
        callers = [
            threading.Thread(target=lambda: received.append(server.call("add", first=1, second=2))) for _ in range(5)
        ]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
    assert (received, authority.refreshed) == (["3"] * 5, 1)


def test_expired_login(protected, protecting, authority):
    """A login that cannot be renewed raises an error with the login command, and a new login works."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        authority.tokens.clear()
        authority.refreshers.clear()
        with pytest.raises(ToolError, match="agentkit mcp login"):
            server.call("add", first=1, second=2)
        server.login()
        assert server.call("add", first=1, second=2) == "3"


def test_logout_removes_the_login(protected, protecting):
    """A logout removes the stored login, and the next call raises an error."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        assert server.logout()
        assert files() == []
        assert not server.logout()
        with pytest.raises(ToolError, match="agentkit mcp login"):
            server.call("add", first=1, second=2)


def test_logout_applies_to_other_programs(protected, protecting):
    """A logout in one program ends the login in others, and a new login applies to them as well."""
    with (
        MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server,
        MCPServer(protected[0], "far", login=protecting.browse) as other,
    ):
        server.login()
        assert server.call("add", first=1, second=2) == "3"
        assert other.logout()
        with pytest.raises(ToolError, match="agentkit mcp login"):
            server.call("add", first=1, second=2)
        other.login()
        assert server.call("add", first=1, second=2) == "3"


def test_tokens_are_renewed_at_their_issuer(apart, protecting, authority):
    """A login is renewed at its issuer and never at the server, also from the stored login."""
    url, came, question = apart
    with MCPServer(url, "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
    authority.tokens.clear()
    with MCPServer(url, "far", level="safe") as server:
        assert server.call("add", first=1, second=2) == "3"
    assert question.count("POST /token") == 2
    assert {line.split()[1] for line in came} == {"/mcp", "/.well-known/oauth-protected-resource/mcp"}


def test_login_applies_to_one_address(protected, protecting):
    """A stored login is not used for another address, not even on the same host."""
    url, _ = protected
    with MCPServer(url, "far", login=protecting.browse) as server:
        assert len(server.definitions) == 2
    [path] = files()
    path.rename(StoredLogin(f"{url}/other").path)
    with MCPServer(f"{url}/other", "far") as server, pytest.raises(ConfigError, match="it belongs to another server"):
        _ = server.tools


def test_refused_login_raises_an_error(protected, authority, protecting):
    """A refused login raises an error with the server's reason and stores nothing."""
    authority.refuses = True
    server = MCPServer(protected[0], "far", login=protecting.browse)
    with (
        server,
        pytest.raises(ConfigError, match=r"at 127[.0-9:]+\. The login was refused: access_denied: Not today\."),
    ):
        _ = server.tools
    assert files() == []


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"seconds": 0.2}, "The login was not completed within 0.2 seconds"),
        ({"redirect_uri": "http://127.0.0.1:9/back"}, "returned no address"),
    ],
)
def test_login_without_an_answer(protected, terms, message):
    """A login without an answer raises an error that names what was missing."""
    with (
        MCPServer(protected[0], "far", login=Login(lambda _: None, **terms)) as server,
        pytest.raises(ConfigError, match=message),
    ):
        server.login()


@pytest.mark.parametrize("text", ["http://127.0.0.1/callback?code=a&state=b", "tulip", "http://[", "?code=c"])
def test_invalid_pasted_address(protected, text):
    """A pasted address that is not the redirect address raises a ConfigError."""
    with (
        MCPServer(protected[0], "far", login=lambda _: text) as server,
        pytest.raises(ConfigError, match="not the redirect address"),
    ):
        server.login()


def test_custom_redirect_uri(protected, protecting):
    """A program may use its own redirect page and return the address that was called."""
    terms = Login(protecting.redirect_of, redirect_uri="https://app.example.com/back")
    with MCPServer(protected[0], "far", login=terms) as server:
        assert len(server.definitions) == 2


def test_failing_login_function(protected):
    """An exception in the login function is raised to the caller."""

    def ask(_):
        raise RuntimeError("There is no browser.")

    with MCPServer(protected[0], "far", login=ask) as server, pytest.raises(RuntimeError, match="no browser"):
        server.login()


def test_custom_scopes(protected, protecting, authority):
    """The requested scopes can be set, instead of those named by the server."""
    with MCPServer(protected[0], "far", login=Login(protecting.browse, scope="read write")) as server:
        server.login()
    assert {tuple(token.scopes) for token in authority.tokens.values()} == {("read", "write")}


def test_preregistered_client(apart, protecting, authority):
    """A preregistered client does not register, and its secret is sent only to its authorization server."""
    url, _, question = apart
    with MCPServer(url, "far", login=protecting.browse) as server:
        server.login()
    [known] = authority.clients.values()
    known.token_endpoint_auth_method = "client_secret_basic"
    issuer = str(json.loads(files()[0].read_text())["authorization_server"]["issuer"])
    own = {"client_id": known.client_id, "client_secret": known.client_secret}
    again = known.redirect_uris[0].port
    with MCPServer(url, "far", login=Login(protecting.browse, issuer=issuer, port=again, **own)) as server:
        server.login()
        assert len(server.definitions) == 2
    with (
        MCPServer(url, "far", login=Login(protecting.browse, issuer="https://example.com", **own)) as server,
        pytest.raises(ConfigError, match=r"does not use https://example\.com"),
    ):
        server.login()
    assert (question.count("POST /register"), len(authority.clients)) == (1, 1)


def test_redirect_port_in_use(protected, protecting):
    """A redirect port that is already in use raises a ConfigError."""
    port = int(protected[0].split(":")[2].removesuffix("/mcp"))
    with (
        MCPServer(protected[0], "far", login=Login(protecting.browse, port=port)) as server,
        pytest.raises(ConfigError, match=f"Nothing can listen on 127.0.0.1, port {port}"),
    ):
        server.login()


def test_unreachable_server():
    """Logging in at an unreachable server raises an error."""
    with (
        MCPServer("http://127.0.0.1:9/mcp", "far", login=print) as server,
        pytest.raises(ConfigError, match="cannot be reached"),
    ):
        server.login()


def test_damaged_login_file(protected, protecting):
    """A damaged login file raises an error that does not quote it."""
    with MCPServer(protected[0], "far", login=protecting.browse) as server:
        server.login()
    change_login(lambda document: document.update(tokens=["tulip"]))
    with MCPServer(protected[0], "far") as server, pytest.raises(ConfigError, match="cannot be read") as caught:
        _ = server.tools
    assert "tulip" not in str(caught.value)


def test_pickled_server_uses_the_stored_login(protected, protecting):
    """A pickled server uses the stored login."""
    with MCPServer(protected[0], "far", login=Login(port=0), level="safe") as server:
        copy = pickle.loads(pickle.dumps(server))
    with MCPServer(protected[0], "far", login=protecting.browse) as server:
        server.login()
    with copy:
        assert copy.call("add", first=1, second=2) == "3"
