"""What does a SearXNG server find? A search service of one's own, asked for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from agentkit.decisions import Decision
from agentkit.errors import ConfigError
from agentkit.safety.addresses import AddressRules, read_url
from agentkit.tools.web.connection import Connection
from agentkit.tools.web.outcomes import Failure, refused


class Searxng:
    """A SearXNG server by its URL, which may be on this machine; `search_url` is where it is asked.

    Raises ConfigError when the URL cannot be read.
    """

    def __init__(self, url: str) -> None:
        parsed = read_url(url)
        if isinstance(parsed, Decision):
            raise ConfigError(f"searxng= takes the URL of a server. {parsed.reason}")
        self.search_url = f"{str(parsed).partition('?')[0].rstrip('/')}/search"
        host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
        self._connection = Connection(AddressRules((f"{host}:{parsed.port}",)))

    def search(self, query: str, max_results: int) -> list[dict[str, str]] | Failure:
        """The results as title, url and snippet; an empty list only when nothing was found."""
        reply = self._connection.get(f"{self.search_url}?{urlencode({'q': query, 'format': 'json'})}")
        if isinstance(reply, Failure):
            return reply
        failure = refused(reply)
        if failure:
            return failure
        try:
            answer = json.loads(reply.body)
            return _results(answer, max_results) or _silence(answer)
        except (ValueError, TypeError, AttributeError, RecursionError):
            return Failure(
                "failed", "The server did not answer with the JSON of SearXNG; is its JSON format switched on?"
            )


def _results(answer: Mapping[str, Any], max_results: int) -> list[dict[str, str]]:
    found = answer.get("results") or []
    texts = (("title", "title"), ("url", "url"), ("snippet", "content"))
    results = [{name: str(entry.get(key) or "") for name, key in texts} for entry in found]
    return [result for result in results if result["url"].startswith(("http://", "https://"))][:max_results]


def _silence(answer: Mapping[str, Any]) -> list[dict[str, str]] | Failure:
    """Nothing was found; unless the engines behind the server were the ones that said nothing."""
    silent = answer.get("unresponsive_engines") or []
    if not silent:
        return []
    engines = ", ".join(" ".join(map(str, engine)) for engine in silent)[:300]
    return Failure("blocked", f"The search engines behind the server did not answer: {engines}.")
