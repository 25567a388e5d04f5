"""How much may a server on the web answer?"""

import gzip

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp import MCPServer
from agentkit.mcp.sdk.bounding import MOST_BYTES
from agentkit.testing import FakeServer, raw

BOMB = gzip.compress(bytes(MOST_BYTES))


@pytest.mark.parametrize(
    ("kind", "headers", "pieces", "told"),
    [
        ("application/json", {}, [b"[" * 1_000_000] * 65, "its answer has more than 64,000,000 bytes"),
        ("application/json", {"Content-Encoding": "gzip"}, [BOMB], "compressed, which nobody asked for"),
        ("text/event-stream", {"Content-Encoding": "deflate"}, [BOMB], "compressed, which nobody asked for"),
    ],
)
def test_an_answer_that_would_fill_the_memory_is_given_up(kind, headers, pieces, told):
    """What a server sends without end, or compressed so that it unfolds, is refused in a sentence."""
    with FakeServer(raw(*pieces, content_type=kind, headers=headers), repeat=True) as server:
        with pytest.raises(ConfigError, match=told):
            list(MCPServer(f"{server.base_url}/chat/completions", name="far").definitions)
        assert server.requests[0].headers["accept-encoding"] == "identity"
