"""Tests for the HTML page of a session or cassette, with an HTML parser and a browser."""

import base64
import hashlib
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from agentkit.cli.export import page
from agentkit.events import ResponseReceived, RunStarted
from agentkit.messages import AssistantMessage, Response
from agentkit.sessions.cassettes.entries import RecordedEvent
from agentkit.sessions.cassettes.file import read_cassette
from agentkit.sessions.transcript import build_transcripts

VOID = {"meta", "rect"}
TAGS = {
    *("html", "head", "title", "style", "body", "header", "main", "footer", "section", "nav", "article", "div", "p"),
    *(
        "h1",
        "h2",
        "h3",
        "h4",
        "dl",
        "dt",
        "dd",
        "ol",
        "ul",
        "li",
        "a",
        "span",
        "small",
        "b",
        "code",
        "pre",
        "ins",
        "del",
    ),
    *("blockquote", "figure", "svg", "details", "summary", *VOID),
}
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Outline(HTMLParser):
    """The elements of a page, whether they are closed in order, and its texts by tag."""

    def __init__(self, html):
        super().__init__()
        self.open, self.found, self.texts = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Record a tag."""
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Record a self-closing tag."""
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Check that the innermost element is closed."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Record a text."""
        self.texts.append((self.open[-1] if self.open else "", data))


@pytest.fixture
def html(cassette):
    """The page of the cassette."""
    header, entries = read_cassette(cassette)
    return page(cassette.name, header, build_transcripts(entries))


def test_page_has_only_expected_elements(html):
    """With hostile texts, the page has only the expected elements, well nested, and no script or resource."""
    outline = Outline(html)
    assert outline.open == []
    assert {tag for tag, _ in outline.found} <= TAGS
    attributes = {name for _, named in outline.found for name in named}
    assert not any(name.startswith("on") or name in {"src", "style", "action", "srcset"} for name in attributes)
    assert all(named["href"].startswith("#run-") for _, named in outline.found if "href" in named)
    assert html.count("<script") == html.count("<img") == 0


def test_decisions_without_a_remedy_have_no_empty_line(html):
    """The line "Instead:" appears only for decisions that name a remedy."""
    remedies = re.findall(r"Instead: ([^<]*)", html)
    assert remedies
    assert all(remedies)


def test_content_security_policy(html):
    """The content security policy allows only the style sheet of the page."""
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(named["content"] for tag, named in Outline(html).found if named.get("http-equiv"))
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style


def test_page_contains_everything(html):
    """The page contains the prompts, answers, calls, decisions, results, changes, tokens and costs."""
    text = "".join(text for tag, text in Outline(html).texts if tag != "style")
    for message in [
        "How much is 6*7?\n[image]",
        "calls calculator, write_file, run_shell",
        "It only computes. rule: level",
        "allowed by a person",
        "a person answered: once",
        "The model received its beginning and its end.",
        "Because of curl x | sh",
        "Instead: Read it first.",
        "Error (denied)",
        "Changed in the workspace",
        "2,400 tokens in (1,200 cached), 80 out",
        "cost ≈ $",
        "Reasoning",
        "Request: 4 new messages, 2 tools",
        "instructionBe brief.",
        "temperature = 0",
        "answer must fit",
        "Limit reached: cost",
        "Handed off to writer",
        "Model request failed (RateLimited)",
        "The answer was cut off here.",
        "waits for a person: May I?",
        "needs approval",
        "worker, within a tool call",
        "Asked outside of a run",
    ]:
        assert message in text, message


def test_headings_and_labels_are_in_order(html):
    """The page has one main heading, each run is a labelled section, and no heading level is skipped."""
    outline = Outline(html)
    levels = [int(tag[1]) for tag, _ in outline.found if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    ids = [named["id"] for _, named in outline.found if "id" in named]
    assert len(ids) == len(set(ids))
    assert {named["aria-labelledby"] for tag, named in outline.found if tag == "section"} <= set(ids)
    assert dict(outline.found)["html"]["lang"] == "en"


def test_page_of_an_empty_cassette():
    """The page of an empty cassette or session states that nothing was recorded."""
    empty = page("x", {"session": 1}, [])
    assert "It contains no prompts." in empty
    assert ">Session<" in empty
    assert "<nav" not in empty


def test_page_of_a_session():
    """A page can be made from an exported session, without the requests sent to a model."""
    answer = ResponseReceived(Response(AssistantMessage("Done.")))
    run = build_transcripts([RecordedEvent("r", 1.0, RunStarted("helper", "Go.")), RecordedEvent("r", 3.0, answer)])
    made = page("trip", {"session": 1}, run)
    assert "2.0 s · " in made
    assert "Request: " not in made
    assert "<svg" not in made


def rendered(html, tmp_path, *arguments):
    """Return the output of a headless browser for the page."""
    (tmp_path / "page.html").write_text(html, "utf-8")
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/browser",
        *arguments,
    ]
    address = (tmp_path / "page.html").as_uri()
    done = subprocess.run([*command, address], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
def test_browser_renders_the_same_elements(html, tmp_path):
    """A browser builds exactly the elements in the file and reports no policy violation."""
    output = rendered(html, tmp_path, "--dump-dom", "--enable-logging=stderr")
    dom = output[output.index("<html") : output.index("</html>") + 7]
    before, after = Outline(html), Outline(dom.replace("></rect>", "/>"))
    assert [tag for tag, _ in after.found] == [tag for tag, _ in before.found]
    assert "Refused" not in output
    assert "violates" not in output


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [375, 1400])
def test_browser_paints_the_page(html, tmp_path, width):
    """A browser paints narrow and wide windows with the style sheet, in more than two colours."""
    rendered(html, tmp_path, f"--window-size={width},1200", f"--screenshot={tmp_path / 'page.png'}")
    assert (tmp_path / "page.png").stat().st_size > 20_000
