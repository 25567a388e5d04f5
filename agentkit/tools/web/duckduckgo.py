"""What does DuckDuckGo find? Through ddgs, whose answer alone does not tell a refusal from an empty list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from agentkit.messages import Status
from agentkit.tools.web.outcomes import Failure

SECONDS = 15

_REFUSALS: Mapping[int, tuple[Status, str]] = {
    202: ("blocked", "DuckDuckGo took this search for a robot's and wants a person to solve a puzzle"),
    403: ("blocked", "DuckDuckGo refused this search"),
    418: ("blocked", "DuckDuckGo refused this search"),
    429: ("rate_limited", "DuckDuckGo was asked too often from this network"),
}
_FAULTS: tuple[tuple[str, Status, str], ...] = (
    ("TimeoutError", "timed_out", f"DuckDuckGo did not answer within {SECONDS} seconds"),
    ("DNSError", "offline", "DuckDuckGo cannot be reached: there is no network, or no name server"),
    ("ConnectError", "offline", "DuckDuckGo cannot be reached"),
)
_PUZZLE = re.compile(r"anomaly-modal|challenge-form|bots use duckduckgo", re.IGNORECASE)
_ADVICE = "Wait a while, fetch a page you know, or set up another search service (AGENTKIT_SEARXNG_URL)."


def search_duckduckgo(
    query: str, max_results: int, *, proxy: str | None = None, ca_file: str | None = None
) -> list[dict[str, str]] | Failure:
    """The results as title, url and snippet; an empty list only when nothing was found."""
    from ddgs.engines.duckduckgo import Duckduckgo
    from ddgs.exceptions import DDGSException

    engine = Duckduckgo(timeout=SECONDS, verify=ca_file or True)
    engine.http_client.client.proxy = proxy  # set, not given: only then does None mean none, not the environment's
    payload = engine.build_payload(query, "wt-wt", "moderate", None)
    try:
        answer = engine.http_client.request(engine.search_method, engine.search_url, data=payload)
    except DDGSException as error:
        return _failure_of(error)
    if answer.status_code != 200 or _PUZZLE.search(answer.text):
        return _refusal(answer.status_code)
    found = engine.post_extract_results(engine.extract_results(answer.text)) if answer.text.strip() else []
    results = ({"title": result.title, "url": result.href, "snippet": result.body} for result in found)
    return [result for result in results if result["url"].startswith(("http://", "https://"))][:max_results]


def _refusal(http_status: int) -> Failure:
    fallback: tuple[Status, str] = ("failed", f"DuckDuckGo answered with HTTP status {http_status}")
    status, words = _REFUSALS[202] if http_status == 200 else _REFUSALS.get(http_status, fallback)
    return Failure(status, f"{words}. {_ADVICE}", http_status=http_status)


def _failure_of(error: Exception) -> Failure:
    names = set(_class_names(error))
    fallback: tuple[str, Status, str] = ("", "failed", f"The search failed: {str(error)[:200]}")
    _, status, words = next((fault for fault in _FAULTS if fault[0] in names), fallback)
    return Failure(status, f"{words}.")


def _class_names(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield from (kind.__name__ for kind in type(error).__mro__)
        error = error.__cause__
