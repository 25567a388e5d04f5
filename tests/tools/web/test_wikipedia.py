"""Tests for the wikipedia tool: articles, ambiguous titles, failures, and rate limits."""

import json
import threading
import time

import pytest

from agentkit.decisions import SafetyLevel, Verdict
from agentkit.tools.web.wikipedia import MAX_CONCURRENT, encyclopedia_tool, wikipedia_tool


def article(title, index=1, extract="Some words.", **more):
    """Return one page of a response."""
    url = f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}"
    return {"title": title, "index": index, "extract": extract, "fullurl": url, **more}


def answer(*pages, **more):
    """Return a response of the API."""
    return json.dumps({"batchcomplete": True, "query": {**({"pages": pages} if pages else {}), **more}}).encode()


@pytest.fixture
def look_up(serve, answered, rerouted):
    """Return a function that calls the tool with a local server in place of Wikipedia."""

    def make(*bodies, deadline_seconds=20.0):
        waiting = list(bodies)

        def reply(path):
            body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            return body if body.startswith(b"HTTP") else answered(body, content_type=b"application/json")

        make.server = serve(reply)
        make.transport = rerouted(make.server)

        def resolver(host, port):
            make.hosts.append(host)
            return ["8.8.8.8"]

        return encyclopedia_tool(resolver=resolver, transport=make.transport, deadline_seconds=deadline_seconds)

    make.hosts = []
    return make


def test_article_is_found(look_up):
    """The best matching article is returned with its title, summary and URL."""
    tool = look_up(answer(article("Second", 2), article("Python (language)", 1, "A language.\u200b")))
    assert tool(query=" python  language ") == {
        "title": "Python (language)",
        "summary": "A language.",
        "url": "https://en.wikipedia.org/wiki/Python_(language)",
        "status": "ok",
        "untrusted": True,
        "notice": tool(query="x")["notice"],
    }


def test_request_follows_the_rules_of_the_service(look_up):
    """One request is sent, with a User-Agent that contains a contact, and maxlag."""
    tool = look_up(answer(article("A")))
    tool(query="a & b", lang="zh-min-nan")
    request, *headers = look_up.server.requests[0].split("\r\n")
    assert (len(look_up.server.requests), look_up.hosts) == (1, ["zh-min-nan.wikipedia.org"])
    assert "Host: zh-min-nan.wikipedia.org" in headers
    assert any("agentkit/" in header and "https://" in header for header in headers)
    assert "gsrsearch=a+%26+b" in request
    assert "maxlag=5" in request


def test_exact_title_is_preferred(look_up):
    """An article with exactly the requested title is preferred to one with a higher rank."""
    assert look_up(answer(article("Ha Noi city", 1), article("Hanoi", 2)))(query="hanoi")["title"] == "Hanoi"


def test_ambiguous_query_lists_options(look_up):
    """An ambiguous query returns the possible articles with their descriptions."""
    tool = look_up(
        answer(
            article("Mercury\u202e (planet)", 2, description="plan\u200bet"),
            article("Mercury", 1, pageprops={"disambiguation": ""}),
            article("Mercury (element)", 3),
        )
    )
    result = tool(query="mercury")
    assert (result["query"], result["status"], "title" in result) == ("mercury", "empty", False)
    assert result["options"] == [
        {"title": "Mercury (planet)", "description": "planet"},
        {"title": "Mercury (element)", "description": ""},
    ]
    assert "is ambiguous" in result["error"]


@pytest.mark.parametrize(
    ("body", "suggestions"),
    [
        (answer(), []),
        (answer(searchinfo={"suggestion": "albert einstein"}), ["albert einstein"]),
        (b'{"batchcomplete": 1}', []),
    ],
)
def test_no_match_returns_suggestions(body, suggestions, look_up):
    """A query without a match has the status empty and returns suggestions."""
    result = look_up(body)(query="albrt einstin")
    assert (result["status"], result["suggestions"], bool(result["error"])) == ("empty", suggestions, True)


@pytest.mark.parametrize(
    ("extract", "status", "length"), [("x" * 10_000, "truncated", 8_000), ("", "empty", 0), ("x", "ok", 1)]
)
def test_summary_is_bounded(extract, status, length, look_up):
    """A summary has at most 8,000 characters."""
    result = look_up(answer(article("A", extract=extract)))(query="a")
    assert (result["status"], len(result["summary"])) == (status, length)


@pytest.mark.parametrize(
    "lang",
    ["", "e", "EN/", "en.evil.com", "en@evil.com", "en.", "../x", "en\nx", "e n", "x" * 50, "en-", "127.0.0.1", "a#"],
)
def test_invalid_language_is_rejected(lang, look_up):
    """An invalid language code fails before any host is contacted."""
    tool = look_up(answer(article("A")))
    result = tool(query="x", lang=lang)
    assert (result["status"], look_up.hosts) == ("failed", [])


@pytest.mark.parametrize("lang", ["en", "VI", " de ", "simple", "be-tarask", "zh-min-nan", "roa-rup"])
def test_language_codes_are_accepted(lang, look_up):
    """Language codes of Wikipedia are accepted in any case."""
    look_up(answer(article("A")))(query="x", lang=lang)
    assert look_up.hosts == [f"{lang.strip().lower()}.wikipedia.org"]


@pytest.mark.parametrize("query", ["", " ", "x" * 301])
def test_length_of_a_query_is_limited(query):
    """A lookup without words or with more than 300 characters is not sent."""
    assert "300" in wikipedia_tool(query=query)["error"]


BUSY = b"HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
LAGGED_BODY = b'{"error": {"code": "maxlag", "info": "Waiting"}}'
LAGGED = b"HTTP/1.1 200 OK\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n" % len(LAGGED_BODY) + LAGGED_BODY


@pytest.mark.parametrize("busy", [BUSY, LAGGED])
def test_busy_service_is_requested_again(busy, look_up):
    """A request to a busy service is repeated once after the requested delay."""
    started = time.monotonic()
    assert look_up(busy, answer(article("A")))(query="a")["status"] == "ok"
    assert time.monotonic() - started >= 1
    assert look_up(busy)(query="a")["status"] == "rate_limited"
    assert len(look_up.server.requests) == 2


def test_long_retry_delay_is_reported(look_up):
    """A retry delay beyond the time limit is reported without a second request."""
    result = look_up(BUSY.replace(b"1\r\n", b"900\r\n", 1).replace(b"HTTP/900", b"HTTP/1.1"))(query="a")
    assert len(look_up.server.requests) == 1
    assert result["status"] in {"rate_limited", "failed"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"error": {"code": "badvalue", "info": "Unrecognized"}}', "failed"),
        (b"<html>", "failed"),
        (b"[]", "failed"),
        (b"{}", "failed"),
        (b"[" * 100_000, "failed"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "failed"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "blocked"),
    ],
)
def test_invalid_response_fails(body, status, look_up):
    """An invalid response or an HTTP error fails with the query and an error."""
    result = look_up(body)(query="a")
    assert (result["status"], result["query"], bool(result["error"])) == (status, "a", True)


def test_missing_network_is_offline():
    """A failed lookup of the Wikipedia host has the status offline."""

    def look_up(host, port):
        raise OSError("no")

    assert encyclopedia_tool(resolver=look_up)(query="a")["status"] == "offline"


def test_at_most_three_requests_run_concurrently(serve, answered, rerouted):
    """At most three lookups run concurrently, and further ones wait."""
    running, most, lock = [], [], threading.Lock()

    def reply(path):
        with lock:
            running.append(path)
            most.append(len(running))
        time.sleep(0.2)
        with lock:
            running.pop()
        return answered(answer(article("A")))

    tool = encyclopedia_tool(resolver=lambda *_: ["8.8.8.8"], transport=rerouted(serve(reply)))
    threads = [threading.Thread(target=tool, kwargs={"query": "a"}) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (9, MAX_CONCURRENT)


def test_wait_for_other_lookups_is_limited(serve, answered, rerouted):
    """A lookup waits no longer than its time limit for other lookups."""
    transport = rerouted(serve(lambda _: [1.5, answered(b"{}")]))
    tool = encyclopedia_tool(resolver=lambda *_: ["8.8.8.8"], transport=transport, deadline_seconds=0.7)
    found = []
    threads = [threading.Thread(target=lambda: found.append(tool(query="a"))) for _ in range(2 * MAX_CONCURRENT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {result["status"] for result in found} == {"timed_out"}


def test_lookup_is_not_an_egress():
    """A lookup is allowed at the network level and does not count as egress."""
    decision = wikipedia_tool.judge({"query": "x"})
    assert (decision.verdict, decision.rule, decision.level, decision.egress) == (
        Verdict.ALLOW,
        "web.wikipedia",
        SafetyLevel.NETWORK,
        False,
    )
    assert (wikipedia_tool.name, wikipedia_tool.parameters["properties"]["lang"]["default"]) == ("wikipedia", "en")
