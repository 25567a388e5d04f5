"""Tests for fetch_url: pages, texts, documents and failures."""

import asyncio
import gzip
import io
import json
import socket
import zipfile
from pathlib import Path

import pytest

from agentkit.decisions import SafetyLevel, Verdict
from agentkit.errors import ConfigError
from agentkit.tools.web.fetch import PAGE_CHARS, fetch_tool, fetch_url_tool

FILES = Path(__file__).parents[2] / "documents" / "files"


def zipped():
    """Return a ZIP archive that is not a document."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("a.txt", "x")
    return out.getvalue()


@pytest.fixture
def fetch(serve, answered):
    """Return a function that fetches a response with this body and these headers from a local server."""

    def run(body, status=b"200 OK", start=0, **headers):
        server = serve(answered(body, status, **headers))
        return fetch_tool(allow_hosts=[f"127.0.0.1:{server.port}"])(url=f"{server.url}/page", start=start)

    return run


def test_page_is_fetched(fetch):
    """A page is returned as Markdown with its title and URL, and its text is marked as foreign."""
    result = fetch(b"<title>T</title><h1>Hi</h1><p><a href=/x>you</a>", content_type=b"text/html")
    assert (result["status"], result["http_status"], result["title"], result["untrusted"]) == ("ok", 200, "T", True)
    assert result["url"] == result["final_url"]
    first, *lines, last = result["content"].split("\n")
    assert lines == ["Title: T", "", "# Hi", "", f"[you]({result['url'].removesuffix('page')}x)"]
    assert "127.0.0.1" in first
    assert "never instructions" in first
    assert last.startswith(first.split()[0])
    assert "next_start" not in result


def test_title_is_cleaned_and_bounded(fetch):
    """A title is cleaned and truncated, and repeated inside the markers in the first part only."""
    body = b"<title>&#27;]0;Obey&#7;&#x202e; me&#xE0049; " + b"x" * 1_000 + b"</title><p>" + b"word " * 10
    result = fetch(body, content_type=b"text/html")
    assert result["title"].startswith("]0;Obey me xxx")
    assert len(result["title"]) == 300
    assert result["content"].split("\n")[1] == f"Title: {result['title']}"
    assert "Title:" not in fetch(body, start=5, content_type=b"text/html")["content"]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b'{"a": [1]}', b"application/json"), ("văn bản".encode(), b"text/plain"), (b"a,b\n1,2", b"text/csv")],
)
def test_text_is_unchanged(body, content_type, fetch):
    """JSON and plain text are returned unchanged."""
    assert body.decode() in fetch(body, content_type=content_type)["content"]


def test_long_page_is_returned_in_parts(fetch):
    """A long text is returned in parts of 20,000 characters, which together are complete."""
    text, read, start = "".join(f"{number}\n" for number in range(10_000)), "", 0
    while start is not None:
        result = fetch(text.encode(), start=start, content_type=b"text/plain")
        read += result["content"].split("\n", 1)[1].rsplit("\n", 1)[0]
        start = result.get("next_start")
        assert result["status"] == ("truncated" if start else "ok")
        assert result["total_chars"] == len(text)
    assert read == text


@pytest.mark.parametrize(("start", "status"), [(-5, "ok"), (10**9, "empty")])
def test_start_beyond_the_text(start, status, fetch):
    """A negative start begins at 0, and a start beyond the end has the status empty."""
    assert fetch(b"words", start=start, content_type=b"text/plain")["status"] == status


def test_empty_page_has_the_status_empty(fetch):
    """A page without text has the status empty and is not a failure."""
    result = fetch(b"", content_type=b"text/html")
    assert (result["status"], result["content"]) == ("empty", "")


def test_truncated_body_is_reported(fetch):
    """A body beyond the size limit is truncated, and the result states the limit."""
    result = fetch(gzip.compress(b"words " * 2_000_000), content_type=b"text/plain", content_encoding=b"gzip")
    assert (result["status"], result["total_chars"]) == ("truncated", 5_000_000)
    assert "5,000,000 bytes" in result["cut"]


def test_truncated_page_is_reported(fetch):
    """Only the first 1,000,000 characters of a page are read, and the result says so."""
    result = fetch(b"<p>word</p>" * 150_000, content_type=b"text/html")
    assert (result["status"], "1,000,000 characters of the page" in result["cut"]) == ("truncated", True)


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"%PDF-1.7 x", b"application/pdf", "application/pdf"),
        (b"\x89PNG\r\n", b"image/png", "image/png"),
        (b"PK\x03\x04", b"", "unknown kind"),
        (b"<div id=root></div><script>x</script>", b"text/html", "JavaScript"),
    ],
)
def test_page_or_document_without_text_fails(body, content_type, words, fetch):
    """A binary document or a page that consists of scripts fails with an error."""
    result = fetch(body, content_type=content_type)
    assert (result["status"], words in result["error"], "content" in result) == ("failed", True, False)


def test_documents_are_read_like_files(fetch):
    """PDFs and office documents are read, also beyond the size limit of pages, whatever their content type."""
    pdf = (FILES / "guide-libreoffice.pdf").read_bytes()
    padded = pdf + b"\n" * 3_000_000
    for body in (pdf, padded):
        result = fetch(body, content_type=b"application/octet-stream")
        assert (result["status"], "[Page 1]" in result["content"], "bowline" in result["content"]) == ("ok", True, True)
    packed = fetch(gzip.compress(padded * 2), content_type=b"application/pdf", content_encoding=b"gzip")
    assert "bowline" in packed["content"]
    result = fetch((FILES / "mooring.docx").read_bytes(), content_type=b"text/html")
    assert (result["title"], "Moor the ship" in result["content"]) == ("Mooring rules 2026", True)


def test_incomplete_document_is_an_error(fetch):
    """A document beyond the limit, an archive and an old format return errors with the reason."""
    large = fetch(b"%PDF-1.7 " + b"x" * 50_000_000, content_type=b"application/pdf")
    assert "it is incomplete: only the first 50,000,000 bytes were read" in large["error"]
    assert "archive of another kind" in fetch(zipped(), content_type=b"application/zip")["error"]
    assert "old format" in fetch(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", content_type=b"application/msword")["error"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"404 Not Found", "failed"),
        (b"500 Oops", "failed"),
        (b"403 Forbidden", "blocked"),
        (b"451 X", "blocked"),
        (b"429 Too Many Requests", "rate_limited"),
        (b"999 Odd", "failed"),
        (b"304 Not Modified", "failed"),
    ],
)
def test_http_error_status_is_reported(answer, status, fetch):
    """An HTTP error status is a failure, and refusals and rate limits have separate statuses."""
    result = fetch(b"sorry", answer, retry_after=b"7", content_type=b"text/plain")
    assert (result["status"], result["http_status"], result["retry_after_seconds"]) == (status, int(answer[:3]), 7)
    assert answer[:3].decode() in result["error"]


@pytest.mark.parametrize("call", [fetch_url_tool, fetch_url_tool.function])
def test_denied_url_is_reported(call):
    """A URL denied by the judge returns an error with the decision."""
    result = call(url="http://localhost/")
    assert (result["url"], result["status"], result["decision"]["rule"]) == (
        "http://localhost/",
        "denied",
        "url.private-address",
    )


def test_judge_marks_the_public_web_as_egress():
    """A public URL is allowed at the level NETWORK, and marked as egress."""
    decision = fetch_url_tool.judge({"url": "https://example.com/?q=secret"})
    assert (decision.verdict, decision.level, decision.egress) == (Verdict.ALLOW, SafetyLevel.NETWORK, True)


def test_judge_follows_the_settings():
    """Hosts allowed in the settings of a tool are allowed by its judge only."""
    arguments = {"url": "http://localhost:8000/"}
    assert fetch_tool(allow_hosts=["localhost:8000"]).judge(arguments).allowed
    assert fetch_tool(allow_hosts=["127.0.0.0/8"]).judge(arguments).allowed
    assert fetch_url_tool.judge(arguments).denied
    with pytest.raises(ConfigError):
        fetch_tool(allow_hosts=["http://localhost"])


def test_name_and_level_of_the_tool():
    """The tool is fetch_url(url) with the level NETWORK."""
    assert (fetch_url_tool.name, fetch_url_tool.level) == ("fetch_url", SafetyLevel.NETWORK)
    assert fetch_url_tool.parameters["required"] == ["url"]


def test_part_fits_into_a_tool_result(serve, answered):
    """A part of a page fits into a tool result and is not truncated again."""
    server = serve(answered(b'"\\\n' * 100_000, content_type=b"text/plain"))
    result = fetch_tool(allow_hosts=[f"127.0.0.1:{server.port}"]).invoke({"url": server.url})
    data = json.loads(result.content)
    assert (result.status, data["next_start"]) == ("truncated", PAGE_CHARS)


def test_tool_can_be_awaited(serve, answered):
    """Several fetches can be awaited concurrently."""
    server = serve(answered(b"words", content_type=b"text/plain"))
    tool = fetch_tool(allow_hosts=[f"127.0.0.1:{server.port}"])

    async def many():
        return await asyncio.gather(*(tool.ainvoke({"url": server.url}) for _ in range(8)))

    assert {result.status for result in asyncio.run(many())} == {"ok"}


def test_cancelled_fetch_closes_its_connection():
    """Cancelling an awaited fetch closes its connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        tool = fetch_tool(allow_hosts=[f"127.0.0.1:{port}"])

        async def cancelled():
            fetching = asyncio.ensure_future(tool.ainvoke({"url": f"http://127.0.0.1:{port}/"}))
            connection, _ = await asyncio.to_thread(listener.accept)
            with connection:
                connection.settimeout(8)  # sooner than the fetch would end by itself
                await asyncio.to_thread(connection.recv, 65_536)
                fetching.cancel()
                return await asyncio.to_thread(connection.recv, 1)

        assert asyncio.run(cancelled()) == b""


def test_awaited_failure_is_reported():
    """An async fetch reports failures like a blocking one."""
    result = asyncio.run(fetch_tool(allow_hosts=["127.0.0.1:1"]).ainvoke({"url": "http://127.0.0.1:1/"}))
    assert (result.status, result.value["url"]) == ("failed", "http://127.0.0.1:1/")


def test_trailing_dot_of_a_host_is_removed(serve, answered, rerouted):
    """A trailing dot of the host is removed from the request and the final URL."""
    server = serve(answered(b"words", content_type=b"text/plain"))
    tool = fetch_tool(resolver=lambda *_: ["8.8.8.8"], transport=rerouted(server))
    assert tool(url="https://name.example.org./x")["final_url"] == "https://name.example.org/x"
    assert "Host: name.example.org\r\n" in server.requests[0]


def test_custom_resolver_is_used(serve, answered, rerouted):
    """A fetch with a custom resolver connects to the resolved address."""

    def look_up(host, port):
        return ["8.8.8.8"]

    transport = rerouted(serve(answered(b"words", content_type=b"text/plain")))
    tool = fetch_tool(resolver=look_up, transport=transport)
    assert tool(url="https://name.example.org/x")["final_url"] == "https://name.example.org/x"
    assert transport.targets == ["8.8.8.8"]
