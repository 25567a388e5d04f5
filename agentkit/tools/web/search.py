"""What does the web know of this? The tool `web_search`, its judge, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentkit.config import environment
from agentkit.decisions import Decision, Verdict
from agentkit.levels import SafetyLevel
from agentkit.tooling.tool import Tool
from agentkit.tools.web.duckduckgo import search_duckduckgo
from agentkit.tools.web.outcomes import Failure
from agentkit.tools.web.searxng import Searxng
from agentkit.tools.web.texts import NOTICE, without_controls

MAX_QUERY_CHARS = 400
MAX_RESULTS = 25
SEARXNG_VARIABLE = "AGENTKIT_SEARXNG_URL"

_MAX_FIELD_CHARS = 1_000

SearchTool = Tool[..., dict[str, Any]]
_Search = Callable[[str, int], list[dict[str, str]] | Failure]


def search_tool(*, searxng: str | None = None, proxy: str | None = None, ca_file: str | None = None) -> SearchTool:
    """A `web_search` with settings of your own.

    `searxng` is the URL of a SearXNG server to ask instead of DuckDuckGo; without it the variable
    AGENTKIT_SEARXNG_URL is read at each search. `proxy` and `ca_file` (a PEM file of authorities) hold for
    DuckDuckGo. Raises ConfigError when the URL cannot be read.
    """
    server = Searxng(searxng) if searxng else None

    def search(query: str, max_results: int) -> list[dict[str, str]] | Failure:
        named = environment().get(SEARXNG_VARIABLE)
        chosen = server or (Searxng(named) if named else None)
        if chosen:
            return chosen.search(query, max_results)
        return search_duckduckgo(query, max_results, proxy=proxy, ca_file=ca_file)

    return Tool(_searching(search), level=SafetyLevel.NETWORK, timeout_seconds=40.0, judge=_judge)


def _searching(search: _Search) -> Callable[..., dict[str, Any]]:
    def web_search(query: str, max_results: int = 8) -> dict[str, Any]:
        """Search the web: titles, addresses and snippets of pages. Read a page that looks right with fetch_url.

        Args:
            query: The words to search for.
            max_results: How many results to give, 1 to 25.

        Returns:
            query, status (ok, or empty when nothing was found), results [{title, url, snippet}]; or query, error,
            status (blocked, rate_limited, offline, timed_out, failed), results [].
        """
        words = " ".join(query.split())
        if not 0 < len(words) <= MAX_QUERY_CHARS:
            error = f"A search takes 1 to {MAX_QUERY_CHARS} characters; these are {len(words)}."
            return {"query": query[:MAX_QUERY_CHARS], "error": error, "status": "failed", "results": []}
        found = search(words, min(max(max_results, 1), MAX_RESULTS))
        if isinstance(found, Failure):
            return {"query": query} | found.to_dict() | {"results": []}
        results = [{key: without_controls(text)[:_MAX_FIELD_CHARS] for key, text in row.items()} for row in found]
        notice = {"untrusted": True, "notice": NOTICE} if results else {}
        return {"query": query, "status": "ok" if results else "empty", "results": results} | notice

    return web_search


def _judge(arguments: Mapping[str, Any]) -> Decision:
    """Allows every search: its words go to the search service and nowhere else."""
    reason = "The words go to the search service and nowhere else."
    return Decision(Verdict.ALLOW, "web.search", reason, arguments["query"], level=SafetyLevel.NETWORK)


web_search_tool = search_tool()
