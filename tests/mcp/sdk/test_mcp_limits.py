"""Tests for the limits of responses from MCP servers on the web."""

import gzip

import pytest

from agentkit.errors import AgentKitError, ConfigError
from agentkit.mcp import MCPServer
from agentkit.mcp.sdk.ssrf_transport import MAX_RESPONSE_BYTES
from agentkit.testing import FakeServer, raw

BOMB = gzip.compress(bytes(MAX_RESPONSE_BYTES))


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("shown", [{"token": "tulip-4711"}, {"login": print}], ids=["token", "login"])
def test_local_requests_bypass_the_proxy(variable, shown, monkeypatch):
    """Requests with credentials to a local server are not sent through a proxy."""
    with FakeServer() as proxy, FakeServer("Hello.", repeat=True) as server:
        monkeypatch.setenv(variable, proxy.base_url.removesuffix("/v1"))
        with pytest.raises(AgentKitError):
            _ = MCPServer(f"{server.base_url}/chat/completions", "far", **shown).tools
        assert (len(proxy.requests), len(server.requests) > 0) == (0, True)


@pytest.mark.parametrize(
    ("kind", "headers", "pieces", "message"),
    [
        ("application/json", {}, [b"[" * 1_000_000] * 65, "its answer has more than 64,000,000 bytes"),
        ("application/json", {"Content-Encoding": "gzip"}, [BOMB], "compressed, which was not requested"),
        ("text/event-stream", {"Content-Encoding": "deflate"}, [BOMB], "compressed, which was not requested"),
    ],
)
def test_oversized_response_is_rejected(kind, headers, pieces, message):
    """A response that is too large or compressed raises a ConfigError."""
    with FakeServer(raw(*pieces, content_type=kind, headers=headers), repeat=True) as server:
        with pytest.raises(ConfigError, match=message):
            list(MCPServer(f"{server.base_url}/chat/completions", name="far").definitions)
        assert server.requests[0].headers["accept-encoding"] == "identity"
