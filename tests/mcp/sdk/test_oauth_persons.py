"""Is a person logged in at a server, once, and by nothing that another could read or use?"""

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
    """The logins that are kept."""
    return sorted((settings.state_folder() / "mcp" / "logins").glob("*.json"))


def kept_file(change):
    """Change what is kept."""
    [path] = files()
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_person_logs_in_once(protected, protecting):
    """Whoever opens the address is logged in, and from then on no one is asked, in other programs either."""
    url, _ = protected
    asked = []

    def ask(address):
        asked.append(address)
        protecting.browse(address)

    with MCPServer(url, "far", login=ask, level="safe") as server:
        assert server.tools.names == ("add", "tell")
        assert server.call("add", first=1, second=2) == "3"
    with MCPServer(url, "far", level="safe") as later:
        assert later.tools.find("add")(first=2, second=3) == "5"
    assert len(asked) == 1
    [path] = files()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_function_that_awaits(protected, protecting):
    """The function that asks may await."""

    async def ask(address):
        protecting.led_to(address)  # opened, and not gone on to where it leads
        return protecting.led_to(address)

    with MCPServer(protected[0], "far", login=ask) as server:
        assert len(server.definitions) == 2


def test_a_function_that_does_not_wait(protected, protecting):
    """The function may return before the person has done anything: the answer is waited for."""
    waiting = []

    def ask(address):
        waiting.append(threading.Timer(0.5, protecting.browse, [address]))
        waiting[0].start()
        return True

    with MCPServer(protected[0], "far", login=ask) as server:
        server.login()
    waiting[0].join()
    assert len(files()) == 1


def test_nobody_to_ask(protected):
    """Without anybody to ask, the error names the command that asks."""
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


def test_a_key_in_an_address_is_not_told(protected):
    """What stands behind a question mark may be a key, and is in no error."""
    with MCPServer(f"{protected[0]}?key=tulip", "far") as server, pytest.raises(ConfigError) as caught:
        _ = server.tools
    assert "tulip" not in str(caught.value)


def test_secrets_are_told_nowhere(protected, protecting, authority, caplog):
    """A token is in no result, error, log or representation, also where the server says it or the login fails."""
    caplog.set_level(logging.DEBUG, "agentkit")
    caplog.set_level(logging.DEBUG, "mcp.client.auth")
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        said = server.call("tell")
        assert said == "It was shown ***."
        authority.refreshers.clear()
        authority.tokens.clear()
        with pytest.raises(ToolError) as caught:
            server.call("tell")
        shown = [repr(server), repr(server.target), str(server.target.login), str(caught.value), caplog.text]
    [path] = files()
    held = json.loads(path.read_text())
    secrets = [held["tokens"]["access_token"], held["tokens"]["refresh_token"], held["client"]["client_secret"]]
    assert [secret for secret in secrets for text in shown if secret in text] == []


def test_a_token_that_has_ended_is_renewed(protected, protecting, authority):
    """A login whose token has ended is renewed without a person, whether its end was known or not."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        authority.tokens.clear()
        assert server.call("add", first=1, second=2) == "3"
    kept_file(lambda document: document.update(expires_at=1.0))
    with MCPServer(protected[0], "far", level="safe") as server:
        assert server.call("add", first=1, second=2) == "3"
    assert authority.refreshed == 2


def test_a_login_that_another_program_renewed(protected, protecting, authority):
    """What another process has renewed is taken over; the token that it replaced is not renewed once more."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as first:
        assert len(first.tools) == 2
        with MCPServer(protected[0], "far", level="safe") as second:
            assert len(second.tools) == 2
            authority.tokens.clear()
            assert first.call("add", first=1, second=2) == "3"
            assert second.call("add", first=1, second=2) == "3"
    assert authority.refreshed == 1


def test_calls_at_once_renew_once(protected, protecting, authority):
    """Calls that are refused at the same time renew the login once."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        authority.tokens.clear()
        said = []
        callers = [
            threading.Thread(target=lambda: said.append(server.call("add", first=1, second=2))) for _ in range(5)
        ]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
    assert (said, authority.refreshed) == (["3"] * 5, 1)


def test_a_login_that_has_ended(protected, protecting, authority):
    """A login that cannot be renewed ends the call with the command; whoever connects then is asked again."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        authority.tokens.clear()
        authority.refreshers.clear()
        with pytest.raises(ToolError, match="agentkit mcp login"):
            server.call("add", first=1, second=2)
        server.login()
        assert server.call("add", first=1, second=2) == "3"


def test_logging_out(protected, protecting):
    """After a logout nothing is kept, and the next call is refused."""
    with MCPServer(protected[0], "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
        assert server.logout()
        assert files() == []
        assert not server.logout()
        with pytest.raises(ToolError, match="agentkit mcp login"):
            server.call("add", first=1, second=2)


def test_logging_out_elsewhere(protected, protecting):
    """A logout ends the login of programs that are at work, too, and whoever logs in anew is heard by them."""
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


def test_tokens_go_to_who_gave_them(apart, protecting, authority):
    """A login is renewed where it was given and never at the server, also by a program that has only what is kept."""
    url, came, asked = apart
    with MCPServer(url, "far", login=protecting.browse, level="safe") as server:
        assert len(server.tools) == 2
    authority.tokens.clear()
    with MCPServer(url, "far", level="safe") as server:
        assert server.call("add", first=1, second=2) == "3"
    assert asked.count("POST /token") == 2
    assert {line.split()[1] for line in came} == {"/mcp", "/.well-known/oauth-protected-resource/mcp"}


def test_a_login_holds_for_one_address(protected, protecting):
    """A login is not shown at another address, not even of the same host."""
    url, _ = protected
    with MCPServer(url, "far", login=protecting.browse) as server:
        assert len(server.definitions) == 2
    [path] = files()
    path.rename(StoredLogin(f"{url}/other").path)
    with MCPServer(f"{url}/other", "far") as server, pytest.raises(ConfigError, match="it belongs to another server"):
        _ = server.tools


def test_the_login_is_refused(protected, authority, protecting):
    """Who says no at the authorization server is quoted, and nothing is kept."""
    authority.refuses = True
    server = MCPServer(protected[0], "far", login=protecting.browse)
    with (
        server,
        pytest.raises(ConfigError, match=r"at 127[.0-9:]+\. The login was refused: access_denied: Not today\."),
    ):
        _ = server.tools
    assert files() == []


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"seconds": 0.2}, "The login was not completed within 0.2 seconds"),
        ({"redirect_uri": "http://127.0.0.1:9/back"}, "returned no address"),
    ],
)
def test_nobody_answers(protected, terms, told):
    """Where no answer comes, it is said what was waited for, and for how long."""
    with (
        MCPServer(protected[0], "far", login=Login(lambda _: None, **terms)) as server,
        pytest.raises(ConfigError, match=told),
    ):
        server.login()


@pytest.mark.parametrize("said", ["http://127.0.0.1/callback?code=a&state=b", "tulip", "http://[", "?code=c"])
def test_an_address_that_does_not_answer(protected, said):
    """What a person pastes is the answer to this login, or it is refused."""
    with (
        MCPServer(protected[0], "far", login=lambda _: said) as server,
        pytest.raises(ConfigError, match="not the redirect address"),
    ):
        server.login()


def test_an_address_of_ones_own(protected, protecting):
    """A program with a page of its own has the browser led there, and gives the address that was called."""
    terms = Login(protecting.led_to, redirect_uri="https://app.example.com/back")
    with MCPServer(protected[0], "far", login=terms) as server:
        assert len(server.definitions) == 2


def test_a_function_that_fails(protected):
    """What the function that asks raises is raised to whoever needed the login."""

    def ask(_):
        raise RuntimeError("There is no browser.")

    with MCPServer(protected[0], "far", login=ask) as server, pytest.raises(RuntimeError, match="no browser"):
        server.login()


def test_rights_of_ones_choice(protected, protecting, authority):
    """A person may be asked for other rights than the server names."""
    with MCPServer(protected[0], "far", login=Login(protecting.browse, scope="read write")) as server:
        server.login()
    assert {tuple(token.scopes) for token in authority.tokens.values()} == {("read", "write")}


def test_a_client_that_is_known(apart, protecting, authority):
    """A client that the authorization server knows does not register, and shows its secret there alone."""
    url, _, asked = apart
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
    assert (asked.count("POST /register"), len(authority.clients)) == (1, 1)


def test_a_port_that_is_taken(protected, protecting):
    """A port that another program listens on cannot be led back to."""
    port = int(protected[0].split(":")[2].removesuffix("/mcp"))
    with (
        MCPServer(protected[0], "far", login=Login(protecting.browse, port=port)) as server,
        pytest.raises(ConfigError, match=f"Nothing can listen on 127.0.0.1, port {port}"),
    ):
        server.login()


def test_a_server_that_is_away():
    """A server that does not answer cannot be logged in at."""
    with (
        MCPServer("http://127.0.0.1:9/mcp", "far", login=print) as server,
        pytest.raises(ConfigError, match="cannot be reached"),
    ):
        server.login()


def test_what_is_kept_is_broken(protected, protecting):
    """A file that is not as we write it is not guessed at."""
    with MCPServer(protected[0], "far", login=protecting.browse) as server:
        server.login()
    kept_file(lambda document: document.update(tokens=["tulip"]))
    with MCPServer(protected[0], "far") as server, pytest.raises(ConfigError, match="cannot be read") as caught:
        _ = server.tools
    assert "tulip" not in str(caught.value)


def test_a_copy_in_another_process(protected, protecting):
    """A server with a login can be sent to another process, which finds what is kept."""
    with MCPServer(protected[0], "far", login=Login(port=0), level="safe") as server:
        copy = pickle.loads(pickle.dumps(server))
    with MCPServer(protected[0], "far", login=protecting.browse) as server:
        server.login()
    with copy:
        assert copy.call("add", first=1, second=2) == "3"
