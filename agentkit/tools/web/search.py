"""The `web_search` tool, with DuckDuckGo and SearXNG."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.errors import ConfigError
from agentkit.messages import Status
from agentkit.safety.urls import AddressRules, read_url
from agentkit.settings import environment
from agentkit.tooling.tool import Tool
from agentkit.tools.web.connection import WebConnection, WebFailure, status_failure
from agentkit.tools.web.page_text import NOTICE, remove_controls

SECONDS = 15

_REFUSALS: Mapping[int, tuple[Status, str]] = {
    202: ("blocked", "DuckDuckGo classified this search as automated and requires a captcha"),
    403: ("blocked", "DuckDuckGo refused this search"),
    418: ("blocked", "DuckDuckGo refused this search"),
    429: ("rate_limited", "DuckDuckGo received too many requests from this network"),
}
_FAULTS: tuple[tuple[str, Status, str], ...] = (
    ("TimeoutError", "timed_out", f"DuckDuckGo did not answer within {SECONDS} seconds"),
    ("DNSError", "offline", "DuckDuckGo cannot be reached: the network or the DNS server is unreachable"),
    ("ConnectError", "offline", "DuckDuckGo cannot be reached"),
)
_PUZZLE = re.compile(r"anomaly-modal|challenge-form|bots use duckduckgo", re.IGNORECASE)
_NOTHING_FOUND = re.compile(r"no-results|no (?:more )?results", re.IGNORECASE)
_RESULTS = re.compile(r"id=[\"']links[\"']", re.IGNORECASE)
_ADVICE = "Wait a while, fetch a page you know, or set up another search service (AGENTKIT_SEARXNG_URL)."


def search_duckduckgo(
    query: str, max_results: int, *, proxy: str | None = None, ca_file: str | None = None
) -> list[dict[str, str]] | WebFailure:
    """Return the results as title, url and snippet; an empty list only if nothing was found."""
    from ddgs.engines.duckduckgo import Duckduckgo
    from ddgs.exceptions import DDGSException

    engine = Duckduckgo(timeout=SECONDS, verify=ca_file or True)
    engine.http_client.client.proxy = proxy  # assigned, as the constructor replaces None by the environment's proxy
    payload = engine.build_payload(query, "wt-wt", "moderate", None)
    try:
        answer = engine.http_client.request(engine.search_method, engine.search_url, data=payload)
    except DDGSException as error:
        names, cause = set[str](), cast("BaseException | None", error)
        while cause is not None:
            names.update(kind.__name__ for kind in type(cause).__mro__)
            cause = cause.__cause__
        fallback: tuple[str, Status, str] = ("", "failed", f"The search failed: {str(error)[:200]}")
        _, status, words = next((fault for fault in _FAULTS if fault[0] in names), fallback)
        return WebFailure(status, f"{words}.")
    if answer.status_code != 200 or _PUZZLE.search(answer.text):
        return _refusal(answer.status_code)
    found = engine.post_extract_results(engine.extract_results(answer.text)) if answer.text.strip() else []
    if not found and not _is_empty(answer.text):
        return WebFailure("failed", f"DuckDuckGo answered with a page whose results cannot be read. {_ADVICE}")
    results = ({"title": result.title, "url": result.href, "snippet": result.body} for result in found)
    return [result for result in results if result["url"].startswith(("http://", "https://"))][:max_results]


def _is_empty(page: str) -> bool:
    """Whether a page says that nothing was found, or has the element of results without a link in it."""
    return bool(_NOTHING_FOUND.search(page)) or ("<a" not in page and bool(_RESULTS.search(page)))


def _refusal(http_status: int) -> WebFailure:
    fallback: tuple[Status, str] = ("failed", f"DuckDuckGo answered with HTTP status {http_status}")
    status, words = _REFUSALS[202] if http_status == 200 else _REFUSALS.get(http_status, fallback)
    return WebFailure(status, f"{words}. {_ADVICE}", http_status=http_status)


class Searxng:
    """A SearXNG server given by its URL, which can be local; `search_url` is its search endpoint.

    Raises ConfigError if the URL is invalid.
    """

    def __init__(self, url: str) -> None:
        parsed = read_url(url)
        if isinstance(parsed, Decision):
            raise ConfigError(f"searxng= takes the URL of a server. {parsed.reason}")
        self.search_url = f"{str(parsed).partition('?')[0].rstrip('/')}/search"
        host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
        self._connection = WebConnection(AddressRules((f"{host}:{parsed.port}",)))

    def search(self, query: str, max_results: int) -> list[dict[str, str]] | WebFailure:
        """Return the results as title, url and snippet; an empty list only if nothing was found."""
        reply = self._connection.get(f"{self.search_url}?{urlencode({'q': query, 'format': 'json'})}")
        if isinstance(reply, WebFailure):
            return reply
        failure = status_failure(reply)
        if failure:
            return failure
        try:
            answer = json.loads(reply.body)
            results = _results(answer, max_results)
            engines = ", ".join(" ".join(map(str, engine)) for engine in answer.get("unresponsive_engines") or [])
        except (ValueError, TypeError, AttributeError, RecursionError):
            return WebFailure(
                "failed", "The server did not answer with the JSON of SearXNG; is its JSON format switched on?"
            )
        if engines and not results:
            return WebFailure("blocked", f"The search engines behind the server did not answer: {engines[:300]}.")
        return results


def _results(answer: Mapping[str, Any], max_results: int) -> list[dict[str, str]]:
    found = answer.get("results") or []
    texts = (("title", "title"), ("url", "url"), ("snippet", "content"))
    results = [{name: str(entry.get(key) or "") for name, key in texts} for entry in found]
    return [result for result in results if result["url"].startswith(("http://", "https://"))][:max_results]


MAX_QUERY_CHARS = 400
MAX_RESULTS = 25
SEARXNG_VARIABLE = "AGENTKIT_SEARXNG_URL"

_MAX_FIELD_CHARS = 1_000

SearchTool = Tool[..., dict[str, Any]]


def search_tool(*, searxng: str | None = None, proxy: str | None = None, ca_file: str | None = None) -> SearchTool:
    """Create a `web_search` tool with custom settings.

    `searxng` is the URL of a SearXNG server to use instead of DuckDuckGo; without it the variable AGENTKIT_SEARXNG_URL
    is read at each search. `proxy` and `ca_file` (a PEM file of certificate authorities) apply to DuckDuckGo. Raises
    ConfigError if the URL is invalid.
    """
    server = Searxng(searxng) if searxng else None

    def search(query: str, max_results: int) -> list[dict[str, str]] | WebFailure:
        url = environment().get(SEARXNG_VARIABLE)
        chosen = server or (Searxng(url) if url else None)
        if chosen:
            return chosen.search(query, max_results)
        return search_duckduckgo(query, max_results, proxy=proxy, ca_file=ca_file)

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
        if isinstance(found, WebFailure):
            return {"query": query} | found.to_dict() | {"results": []}
        results = [{key: remove_controls(text)[:_MAX_FIELD_CHARS] for key, text in row.items()} for row in found]
        notice = {"untrusted": True, "notice": NOTICE} if results else {}
        return {"query": query, "status": "ok" if results else "empty", "results": results} | notice

    return Tool(web_search, level=SafetyLevel.NETWORK, timeout_seconds=40.0, judge=_judge)


def _judge(arguments: Mapping[str, Any]) -> Decision:
    """Allow every search: the query goes only to the search service."""
    reason = "The query is sent to the search service only."
    return Decision(Verdict.ALLOW, "web.search", reason, arguments["query"], level=SafetyLevel.NETWORK)


web_search_tool = search_tool()
