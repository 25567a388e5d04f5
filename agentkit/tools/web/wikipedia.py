"""The `wikipedia` tool."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.tooling.tool import Tool
from agentkit.tools.web.connection import (
    DEADLINE_SECONDS,
    Resolver,
    WebConnection,
    WebFailure,
    resolve,
    retry_after_seconds,
    status_failure,
)
from agentkit.tools.web.page_text import NOTICE, remove_controls

MAX_QUERY_CHARS = 300
MAX_SUMMARY_CHARS = 8_000
MAX_CONCURRENT = 3

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]{2,8}){0,2}|simple")
_QUERY = {
    "action": "query",
    "format": "json",
    "formatversion": "2",
    "generator": "search",
    "gsrlimit": "8",
    "gsrnamespace": "0",
    "list": "search",
    "srlimit": "1",
    "srprop": "",
    "srinfo": "suggestion",
    "prop": "extracts|info|pageprops|description",
    "exintro": "1",
    "explaintext": "1",
    "exlimit": "max",
    "inprop": "url",
    "ppprop": "disambiguation",
    "redirects": "1",
    "maxlag": "5",
}
_BUSY = frozenset({"maxlag", "ratelimited", "readonly"})

WikipediaTool = Tool[..., dict[str, Any]]


def encyclopedia_tool(
    *,
    resolver: Resolver = resolve,
    transport: Any = None,
    proxy: str | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> WikipediaTool:
    """Create a `wikipedia` tool with custom settings, which have the same meaning as for `fetch_tool`."""
    settings: dict[str, Any] = {"resolver": resolver, "transport": transport, "proxy": proxy}
    encyclopedia = _Encyclopedia(WebConnection(deadline_seconds=deadline_seconds, hosts_exist=True, **settings))

    def wikipedia(query: str, lang: str = "en") -> dict[str, Any]:
        """Look something up in Wikipedia: the introduction of the article that fits best.

        Args:
            query: The title of an article, or words to search for.
            lang: The language of the Wikipedia, as in its address: en, vi, de, zh, simple.

        Returns:
            title, summary, url, status (ok); or query, error, status, with options [{title, description}] when the
            words mean several things, or suggestions when nothing was found.
        """
        words, code = " ".join(query.split()), lang.strip().lower()
        if not _LANGUAGE.fullmatch(code):
            error = f"{lang[:40]!r} is not the language code of a Wikipedia; use one such as en, vi or simple."
            return {"query": query, "error": error, "status": "failed"}
        if not 0 < len(words) <= MAX_QUERY_CHARS:
            error = f"A query takes 1 to {MAX_QUERY_CHARS} characters; these are {len(words)}."
            return {"query": query[:MAX_QUERY_CHARS], "error": error, "status": "failed"}
        answer = encyclopedia.ask(words, code)
        found = answer.to_dict() if isinstance(answer, WebFailure) else _result(words, answer)
        return ({"query": query} if "error" in found else {}) | found

    return Tool(wikipedia, level=SafetyLevel.NETWORK, timeout_seconds=3 * deadline_seconds, judge=_judge)


class _Encyclopedia:
    """Sends at most three requests at a time over `connection`, retrying once after a short Retry-After."""

    def __init__(self, connection: WebConnection) -> None:
        self.connection = connection
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT)

    def ask(self, query: str, lang: str) -> Mapping[str, Any] | WebFailure:
        """Return the API's answer to a search in one language."""
        parameters = urlencode({**_QUERY, "gsrsearch": query, "srsearch": query})
        url = f"https://{lang}.wikipedia.org/w/api.php?{parameters}"
        timeout_seconds = self.connection.deadline_seconds
        if not self._slots.acquire(timeout=timeout_seconds):
            return WebFailure("timed_out", f"Other look-ups took more than {timeout_seconds:g} seconds.")
        try:
            started = time.monotonic()
            answer = self._answer(url)
            wait = answer.retry_after_seconds if isinstance(answer, WebFailure) else None
            if wait is None or wait > timeout_seconds - (time.monotonic() - started):
                return answer
            time.sleep(wait)
            return self._answer(url)
        finally:
            self._slots.release()

    def _answer(self, url: str) -> Mapping[str, Any] | WebFailure:
        reply = self.connection.get(url, {"Accept": "application/json"})
        if isinstance(reply, WebFailure):
            return reply
        try:
            parsed = json.loads(reply.body)
        except (ValueError, RecursionError):
            parsed = None
        answer = parsed if isinstance(parsed, dict) else None
        problem = answer.get("error") if answer else None
        if isinstance(problem, dict):
            error = f"{reply.url.host} answered: {str(problem.get('info') or problem.get('code'))[:200]}"
            if problem.get("code") in _BUSY:
                return WebFailure("rate_limited", error, retry_after_seconds=retry_after_seconds(reply))
            return WebFailure("failed", error)
        return (
            status_failure(reply)
            or answer
            or WebFailure("failed", f"{reply.url.host} did not return a Wikipedia response.")
        )


def _result(query: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Build the result: an article, a choice between several, or no match."""
    query_part = answer.get("query")
    found = query_part if isinstance(query_part, dict) else {}
    pages = sorted(found.get("pages") or [], key=lambda page: page.get("index", 0))
    if not pages:
        suggestion = (found.get("searchinfo") or {}).get("suggestion")
        remark = f" Did you mean {suggestion!r}?" if suggestion else ""
        error = f"No article was found for {query!r}.{remark}"
        return {"error": error, "status": "empty", "suggestions": [suggestion] if suggestion else []}
    page = next((page for page in pages if page["title"].casefold() == query.casefold()), pages[0])
    articles = [entry for entry in pages if "disambiguation" not in (entry.get("pageprops") or {})]
    if page not in articles:
        return _ambiguous_result(query, articles)
    summary = remove_controls(str(page.get("extract") or page.get("description") or ""))
    status = "truncated" if len(summary) > MAX_SUMMARY_CHARS else "ok" if summary else "empty"
    article = {
        "title": remove_controls(page["title"]),
        "summary": summary[:MAX_SUMMARY_CHARS].rstrip(),
        "url": page.get("fullurl", ""),
    }
    return article | {"status": status, "untrusted": True, "notice": NOTICE}


def _ambiguous_result(query: str, articles: list[dict[str, Any]]) -> dict[str, Any]:
    texts = ((entry["title"], str(entry.get("description") or "")) for entry in articles)
    options = [{"title": remove_controls(title), "description": remove_controls(words)} for title, words in texts]
    error = f"{query!r} is ambiguous; ask again with one of the titles in options."
    return {"error": error, "status": "empty", "options": options}


def _judge(arguments: Mapping[str, Any]) -> Decision:
    """Allow every look-up: the query goes only to Wikipedia."""
    reason = "The query is sent to Wikipedia only."
    return Decision(Verdict.ALLOW, "web.wikipedia", reason, arguments["query"], level=SafetyLevel.NETWORK)


wikipedia_tool = encyclopedia_tool()
