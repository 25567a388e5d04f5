"""Tests for web_search: results, settings, and failures."""

import json

import pytest

from agentkit.decisions import SafetyLevel, Verdict
from agentkit.tools.web.search import search_tool, web_search_tool


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    """Remove the variables that name a search server."""
    monkeypatch.delenv("AGENTKIT_SEARXNG_URL", raising=False)


@pytest.fixture
def server(serve, answered):
    """A search server with many results, one of them hostile."""
    rows = [{"title": f"T{n}\u202e", "url": f"https://example.com/{n}", "content": "x" * 5_000} for n in range(40)]
    return serve(answered(json.dumps({"results": rows}).encode()))


def test_results_have_the_promised_keys(server):
    """A search returns query, status, and results with title, url and snippet, marked as foreign."""
    result = search_tool(searxng=server.url)(query=" many  words ")
    assert list(result) == ["query", "status", "results", "untrusted", "notice"]
    assert (result["query"], result["status"], len(result["results"])) == (" many  words ", "ok", 8)
    assert result["results"][0] == {"title": "T0", "url": "https://example.com/0", "snippet": "x" * 1_000}
    assert "q=many+words&" in server.requests[0]


@pytest.mark.parametrize(("requested", "count"), [(3, 3), (0, 1), (-1, 1), (1000, 25)])
def test_number_of_results_is_bounded(requested, count, server):
    """Between 1 and 25 results are given."""
    assert len(search_tool(searxng=server.url)(query="x", max_results=requested)["results"]) == count


def test_server_of_the_environment(server, monkeypatch):
    """AGENTKIT_SEARXNG_URL names the server unless the program does."""
    monkeypatch.setenv("AGENTKIT_SEARXNG_URL", server.url)
    assert web_search_tool(query="x")["status"] == "ok"


def test_no_results(serve, answered):
    """A search without results returns an empty list with the status empty."""
    server = serve(answered(b'{"results": []}'))
    assert search_tool(searxng=server.url)(query="x") == {"query": "x", "status": "empty", "results": []}


def test_refused_search_returns_an_error(serve, answered):
    """A refused search returns the query, an error, a status and no results."""
    result = search_tool(searxng=serve(answered(b"", b"429 Slow down")).url)(query="x")
    assert (result["status"], result["results"], result["query"]) == ("rate_limited", [], "x")
    assert result["error"]


def test_duckduckgo_is_the_default():
    """Without a configured server DuckDuckGo is used, and a failed connection is reported."""
    result = search_tool(proxy="http://127.0.0.1:1")(query="x")
    assert (result["status"], result["results"]) == ("offline", [])


@pytest.mark.parametrize("query", ["", "  ", "x" * 401])
def test_length_of_a_query_is_limited(query):
    """A search without words or with more than 400 characters is not sent."""
    result = web_search_tool(query=query)
    assert (result["status"], result["results"], "400" in result["error"]) == ("failed", [], True)


def test_search_is_not_an_egress():
    """A search is allowed at the network level and does not count as egress."""
    decision = web_search_tool.judge({"query": "x"})
    assert (decision.verdict, decision.rule, decision.level, decision.egress) == (
        Verdict.ALLOW,
        "web.search",
        SafetyLevel.NETWORK,
        False,
    )
    assert (web_search_tool.name, web_search_tool.parameters["required"]) == ("web_search", ["query"])
