"""Tests for whole pages: preserved content, removed boilerplate, and the note about it."""

import json
from pathlib import Path

import pytest

from agentkit.knowledge import Knowledge
from agentkit.safety.urls import read_url
from agentkit.tools.web.page_text import read_html

PAGES = Path(__file__).parent / "pages"
CASES = json.loads((PAGES / "pages.json").read_text("utf-8"))
LONG = "The tide turns twice a day, and each time the harbour master writes down the level. " * 5
LINKS = "".join(f'<a href="/{n}">Entry number {n}</a> ' for n in range(30))


def read(html):
    """Return the page at a URL."""
    return read_html(html, read_url("https://site.example/v1/x.html"))


@pytest.mark.for_each("name", CASES)
def test_page_matches_its_markdown(name):
    """Pages of site generators, forums, blogs and portals become exactly the Markdown next to them."""
    page = read((PAGES / f"{name}.html").read_text("utf-8"))
    assert f"{page.text}\n" == (PAGES / f"{name}.md").read_text("utf-8")
    assert [text for text in CASES[name]["keep"] if text not in page.text] == []
    assert [text for text in CASES[name]["drop"] if text in page.text] == []


@pytest.mark.parametrize("name", [name for name in CASES if name != "moved"])
def test_knowledge_adds_a_saved_page(name, tmp_path):
    """A saved page is added to the knowledge with a note about omitted content."""
    place = PAGES / f"{name}.html"
    knowledge = Knowledge(tmp_path / "k.db")
    result = knowledge.add(place)
    note = read(place.read_text("utf-8")).note
    assert (len(result.added), dict(result.notes)) == (1, {str(place): note} if note else {})
    assert not note or note in str(result)


@pytest.mark.for_each(
    "html",
    [
        f'<div class="sidebar"><main><p>{LONG}</main></div>',
        f'<div class="cookie-consent modal popup newsletter toolbar"><p>{LONG}</div>',
        f"<form><main><p>{LONG}</main></form>",
        f"<form><p>{LONG}</form>",
        f"<nav><p>{LONG}</nav>",
        f"<aside><p>{LONG}</aside>",
        f"<dialog><p>{LONG}</dialog>",
        f'<div role="dialog"><article><p>{LONG}</article></div>',
        f"<header><p>{LONG}</header><p>Short.",
        f"<footer><p>{LONG}</footer><p>Short.",
        f'<div role="navigation"><article><p>{LONG}</article></div><p>{LONG}{LONG}{LONG}',
        f'<div style="display:none"><p>{LONG}</div><p>Loading',
        f"<div hidden><main><p>{LONG}</main></div><p>{LONG.upper()}{LONG.upper()}",
        f"<noscript><p>{LONG}</noscript>",
        f"<textarea>{LONG}</textarea>",
        f'<div><div role="tabpanel" hidden><p>{LONG}</div></div><p>{LONG.upper() * 3}',
        f'<button aria-controls="a">More</button><div id="a" hidden><p>{LONG}</div><p>{LONG.upper() * 3}',
        f'<p hidden="until-found">{LONG}<p>{LONG.upper() * 3}',
        f"<main><aside><p>{LONG}</aside><p>{LONG.upper() * 3}</main>",
        f"<main><p>{LONG.upper() * 3}</main><div><p>{LONG}</div>",
        f"<p>{LONG.upper() * 3}<aside class=footnotes><p>{LONG}</aside>",
    ],
)
def test_content_is_never_removed(html):
    """Elements with main, article or most of the text are preserved, and so are long texts at the edge of a page."""
    assert LONG.strip() in read(f"<body>{html}</body>").text


@pytest.mark.for_each(
    "html",
    [
        f"<nav>{LINKS}</nav><p>{LONG}",
        f"<header><a href=/>Site Entry number 1</a></header><p>{LONG}",
        f"<main><p>{LONG}</main><div id=x>{LINKS}</div>",
        f"<main><p>{LONG}</main><div>Entry number 1 of our newsletter</div>",
        f"<article><p>{LONG}</article><aside>{LINKS}</aside>",
        f"<div><div>Entry number 1: we set cookies. <button>Accept</button></div><div><p>{LONG}</div></div>",
        f"<div><div><a href=a>Entry number 1</a> <a href=b>Entry</a></div><div><p>{LONG}</div></div>",
        f"<a href='#x'>Entry number 1</a><div id=x><p>{LONG}</div>",
        f"<form><label>Entry number 1</label><input></form><p>{LONG}",
        f"<form><select><option>Entry number 1</select></form><p>{LONG}",
        f"<main><p>{LONG}<footer>{LINKS}</footer></main>",
        f'<p style="display: none">Entry number 1</p><p>{LONG}',
        f'<button aria-controls="b">x</button><p id="a" hidden>Entry number 1</p><p>{LONG}',
    ],
)
def test_boilerplate_is_removed_and_counted(html):
    """Menus, banners, small forms and hidden text are removed, and the note states how much."""
    page = read(f"<body>{html}</body>")
    assert "Entry number 1" not in page.text
    assert LONG.strip() in page.text
    assert "Left out as navigation" in page.note


@pytest.mark.parametrize(
    "html",
    [
        f"<body><div>{LINKS}</div></body>",
        f"<body><h1>Files</h1><ul>{LINKS}</ul></body>",
        f"<body><div><p>{LONG}</div><div><h2>Downloads</h2>{LINKS}</div></body>",
        f"<body><div><p>{LONG}</div><table><tr><td>{LINKS}</table></body>",
        f"<body><div><p>{LONG}</div><div>{LINKS}</div></body>",
    ],
)
def test_lists_of_links_are_content(html):
    """A page of links or a long list of links after a text is preserved."""
    assert "Entry number 29" in read(html).text


@pytest.mark.for_each(
    ("html", "text"),
    [
        ("2<sup>10</sup> and e<sup>-x</sup>", "2^10 and e^-x"),
        ("a<sup>n + 1</sup>", "a^(n + 1)"),
        ("1<sup>st</sup>, 2<sup>e</sup>, Brand<sup>TM</sup>", "1st, 2e, BrandTM"),
        ("word<sup>*</sup> x<sup> </sup>", "word\\* x"),
        ("CO<sub>2</sub>, a<sub>ij</sub>, v<sub>max, 1</sub>", "CO₂, a_ij, v_(max, 1)"),
        ('see<sup><a href="#n">3</a></sup>', "see[3](https://site.example/v1/x.html#n)"),
        ("<math><mi>x</mi><mo>+</mo><mn>1</mn></math>", "x+1"),
        ('<math><mi>x</mi><annotation encoding="application/x-tex">x_1</annotation></math>', "$x_1$"),
        ('<p><script type="math/tex">a^b</script>', "$a^b$"),
        ('<script type="math/tex"> </script>y', "y"),
        ("snake_case and *args", "snake_case and *args"),
        ('<h2>Usage <a href="#usage">#</a></h2>', "## Usage"),
        ('<h2><a href="#usage">Usage</a></h2>', "## [Usage](https://site.example/v1/x.html#usage)"),
    ],
)
def test_superscripts_and_formulas_are_distinguishable(html, text):
    """Superscripts, subscripts and formulas are distinguishable from plain numbers."""
    assert read(html).text == text.replace("\\*", "*")


@pytest.mark.for_each(
    ("html", "text"),
    [
        ("<pre><span>1</span>a\n<span>2</span>  b</pre>", "a\n  b"),
        ("<pre><div><i> 9</i>a</div><div><i>10</i>b</div></pre>", "a\nb"),
        ("<pre>[\n<b>1</b>,\n<b>2</b>\n]</pre>", "[\n1,\n2\n]"),
        ("<pre><b>1</b>a\n<b>3</b>b</pre>", "1a\n3b"),
        ("<pre><b>x1</b>a\nb</pre>", "x1a\nb"),
        ("<table><tr><td>1\n2<td><pre>a\n b</pre></table>", "a\n b"),
        ("<table><tr><td>1<td><code>a</code><tr><td>2<td><code> b</code></table>", "a\n b"),
        ("<table><tbody><tr><td data-line-number=7><td>a<tr><td data-line-number=8><td> b</table>", "a\n b"),
    ],
)
def test_code_preserves_its_lines(html, text):
    """Code in numbered lines, lists and tables becomes a code block without the numbers."""
    assert read(html).text == f"```\n{text}\n```"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<table><tr><th>n<th>code<tr><td>1<td><code>a</code></table>", "| n | code |\n| --- | --- |\n| 1 | `a` |"),
        ("<table><tr><td>1<td><code>a</code></table>", "| 1 | `a` |\n| --- | --- |"),
        ("<table></table>x", "x"),
        ("<table><tr><td data-line-number=1></table>x", "x"),
    ],
)
def test_tables_of_data_stay_tables(html, text):
    """A table with a header stays a table, even if each row has a number and code."""
    assert read(html).text.replace("|  |\n| --- |\n\n", "") == text


def test_layout_tables_are_unwrapped():
    """Headings, code and tables in the cells of a layout table are placed one after the other."""
    text = read("<table><tr><td><h2>A</h2><p>x<td>y<table><tr><td>1<td>2</table></table>").text
    assert text == "## A\n\nx\n\ny\n\n| 1 | 2 |\n| --- | --- |"


@pytest.mark.parametrize(
    ("refresh", "text"),
    [
        ("0; url=next", "This page redirects to <https://site.example/v1/next>."),
        ("5;URL='https://other.example/'", "This page redirects to <https://other.example/>."),
        ("30", ""),
        ("30; url=x.html", ""),
        ("0; url=javascript:x", ""),
    ],
)
def test_meta_refresh_names_its_target(refresh, text):
    """A page that redirects names its target; one that reloads itself or runs code does not."""
    assert read(f'<meta http-equiv="refresh" content="{refresh}">').text == text
