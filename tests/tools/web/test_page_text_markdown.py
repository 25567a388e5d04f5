"""Tests for the conversion of web pages to Markdown."""

import time

import pytest

from agentkit.safety.urls import read_url
from agentkit.tools.web.page_text import read_html

ARTICLE = """<!doctype html><html class="has-sidebar modal"><head><title> The
 title </title><style>x{}</style><base href="/docs/"></head>
<body class="cookie-ok"><header>Site header</header><nav>Menu</nav>
<div id="cookie-banner">We value your privacy</div><div class="Newsletter-box">Subscribe!</div>
<main class="newsletter-page"><h1>Heading</h1><p>Some <b>bold</b> words and <a href="page?x=1#y">a link</a>.</p>
<p hidden>secret 1</p><p style="color:red; display: none">secret 2</p><p style="DISPLAY:none">secret 3</p>
<p aria-hidden="true">secret 4</p><img src="x.png" alt="picture"><pre><code class="language-python">x = 1
</code></pre><table><tr><th>a<th>b<tr><td>1<td>2</table><ul><li>one<li>two</ul>
<a href=" javascript:alert(1)">click</a> <a href="data:text/html,x">data</a>
<form><input value=q><button>Go</button></form><aside>Related</aside></main>
<div role="contentinfo">Imprint</div><footer>Footer</footer><script>var x;</script>
<noscript>No script</noscript></body>"""


def read(html, url="https://example.com/"):
    """Return the page at a URL."""
    return read_html(html, read_url(url))


def test_page_is_converted_to_markdown():
    """Headings, emphasis, links, code, tables and lists become Markdown."""
    title, text, error, *_ = read(ARTICLE, "https://example.com/a/b")
    assert (title, error) == ("The title", "")
    assert text.startswith("# Heading\n\nSome **bold** words and [a link](https://example.com/docs/page?x=1#y).")
    assert "```python\nx = 1\n```" in text
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in text
    assert "- one\n- two" in text


@pytest.mark.for_each(
    "words",
    [
        *("Site header", "Menu", "privacy", "Subscribe", "secret 1", "secret 2", "secret 3", "secret 4", "picture"),
        *("javascript", "data:", "Go", "Related", "Imprint", "Footer", "var x", "No script", "x{}"),
    ],
)
def test_page_boilerplate_is_removed(words):
    """Navigation, banners, forms, scripts, hidden text and images are removed."""
    assert words not in read(ARTICLE, "https://example.com/a/b").text


def test_number_of_links_is_limited():
    """The first 10,000 links of a page are preserved, and later ones are replaced by their text."""
    text = read("<a href=x>word</a> " * 10_010).text
    assert (text.count("https://example.com/x"), text.count("word")) == (10_000, 10_010)


def test_links_that_run_code_lose_their_target():
    """`javascript:` and `data:` links are replaced by their text."""
    assert read(ARTICLE).text.endswith("click data")


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("https://other.example.net/x/", "https://other.example.net/x/page"),
        ("//[", "https://example.com/a/page"),
        ("javascript:x", "https://example.com/a/page"),
        ("", "https://example.com/a/page"),
        ("c d/", "https://example.com/a/page"),
    ],
)
def test_base_url_of_links(base, link):
    """Links are relative to a valid `<base>` URL, and an invalid one is ignored."""
    assert link in read(f"<base href='{base}'><p><a href='page'>a link</a>", "https://example.com/a/b").text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            '<frameset><frame src="a.html" title="Menu"><frame src="/b"></frameset>',
            "- [Menu](https://example.com/x/a.html)",
        ),
        ('<p>Map<iframe src="//m.example/x" title="Area"></iframe>', "- [Area](https://m.example/x)"),
        (
            '<object data="a.pdf"><p>Get the file.</p></object>',
            "Get the file.\n\n- [Embedded page](https://example.com/x/a.pdf)",
        ),
        ("<p>Copy:</p><textarea readonly>a: 1\nb: 2</textarea>", "```\na: 1\nb: 2\n```"),
        ('<my-card><template shadowrootmode="open"><p>Within.</p></template></my-card>', "Within."),
        ("<p>soft&shy;hyphen", "softhyphen"),
    ],
)
def test_text_in_unusual_elements_is_extracted(html, text):
    """Text and URLs in frames, objects, read-only fields and shadow roots are extracted."""
    assert text in read(html, "https://example.com/x/y").text


@pytest.mark.parametrize(
    ("html", "title"),
    [("<h1>A <i>b</i></h1>", "A b"), ("<p>x", ""), ("<title></title><p>x", ""), ("<svg><title>s</title></svg>x", "")],
)
def test_page_title(html, title):
    """The first heading is used if a page has no title, and a title inside an image is ignored."""
    assert read(html).title == title


@pytest.mark.for_each(
    ("html", "needs"),
    [
        ("<div id=root></div><script src=app.js></script>", True),
        ("<p>Please enable JavaScript.<script>x</script>", True),
        ("<p>One two three four five.<script>x</script>", False),
        ("<p>203.0.113.77<script>x</script>", False),
        ("<p>" + "How to enable JavaScript in a browser. " * 20 + "<script>x</script>", False),
        ('<a href="/new">Moved</a><script>location="/new"</script>', False),
        ("<p>Short", False),
        ("", False),
    ],
)
def test_page_that_needs_scripts_is_an_error(html, needs):
    """A page without text before its scripts run is an error; a short or empty one is not."""
    assert ("JavaScript" in read(html).error) == needs


def test_short_page_with_scripts_has_a_note():
    """The text of a short page is returned, with a note that scripts may add to it."""
    page = read("<p>203.0.113.77<script src=x></script>")
    assert (page.text, "scripts, which are not run" in page.note) == ("203.0.113.77", True)


@pytest.mark.for_each(
    "html",
    [
        *("<div>" * 50_000 + "x", "<b>" * 500_000, "<ul><li>" * 200_000, "<table><tr><td>" * 100_000),
        *("<p " + " ".join(f"a{n}=1" for n in range(200_000)) + ">x", "<a href=x>" * 200_000, "<!--" * 400_000),
        *("\n \n" * 600_000, "<pre>" + "\n \n" * 600_000, "&amp" * 400_000, "<blockquote>" * 150_000, "x" * 10_000_000),
        *("<p class=cookie>x</p>" * 100_000, "<font><p>" * 200_000, '<p class="' + "cookie " * 250_000 + '">x'),
    ],
    ids=lambda html: html[:16],
)
def test_hostile_pages_are_parsed_in_bounded_time(html):
    """Pages that try to exhaust the parser are parsed in seconds."""
    started = time.process_time()
    read(html)
    assert time.process_time() - started < 20


def test_escaped_invisible_characters_are_removed():
    """Invisible characters written as character references are removed from title and text."""
    html = "<title>&#27;]0;T&#7;&#x202e;</title><p>a&#x200b;&#xE0049;&#27;b <a href='x&#x202e;y'>l&#x2066;</a>"
    page = read(html)
    assert page.title == "]0;T"
    assert page.text == "ab [l](https://example.com/xy)"


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (
            "<tr><th rowspan=2>R<th colspan=2>Wide<th>End</tr><tr><td>2<td>3<td>4</tr><tr><th colspan=2>Both<td>x<td>y",
            ["| R | Wide |  | End |", "|  | 2 | 3 | 4 |", "| Both |  | x | y |"],
        ),
        ("<tr><td>a<td rowspan=3>tall</tr><tr><td>b</tr><tr><td>c", ["| a | tall |", "| b |  |", "| c |  |"]),
        ("<tr><td colspan=0 rowspan=0>z<td colspan=x>w", ["| z | w |"]),
    ],
)
def test_merged_cells_preserve_the_columns(table, rows):
    """A merged cell is followed by an empty one for each further column and row, as in office documents."""
    text = read_html(
        f"<main><p>{'Words of the page. ' * 20}</p><table>{table}</table></main>", read_url("https://site.example/")
    ).text
    assert [line for line in text.splitlines() if line.startswith("|") and "---" not in line] == rows


def test_merged_cells_of_hostile_pages_are_bounded():
    """Spans of a million cells in many tables are truncated."""
    tables = "<table><tr><td colspan=1000000 rowspan=1000000>x</td></tr><tr></tr></table>" * 500
    assert (
        len(read_html(f"<main><p>{'Words. ' * 200}</p>{tables}</main>", read_url("https://site.example/")).text)
        < 500_000
    )
