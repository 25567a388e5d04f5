"""What does a web page say? Its title and its text as Markdown, without what surrounds every page of a site."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from agentkit.decisions import Decision
from agentkit.safety.addresses import Url, read_url
from agentkit.tools.web.texts import without_controls

if TYPE_CHECKING:
    import turbohtml

MAX_HTML_BYTES = 1_000_000
"""What is read of a page: hostile markup takes up to seventy times its size in memory."""

MAX_TEXT_CHARS = 5_000_000
MAX_LINKS = 10_000

_TAGS = (
    *(
        "script",
        "style",
        "template",
        "noscript",
        "iframe",
        "object",
        "embed",
        "svg",
        "canvas",
        "video",
        "audio",
        "math",
    ),
    *("nav", "form", "button", "select", "input", "textarea", "dialog", "body > header", "body > footer", "body aside"),
)
_ROLES = ("navigation", "banner", "contentinfo", "search", "dialog", "alertdialog", "complementary", "menu", "menubar")
_WORDS = (
    *(
        "cookie",
        "consent",
        "gdpr",
        "onetrust",
        "newsletter",
        "subscribe",
        "breadcrumb",
        "navbar",
        "sidebar",
        "skip-link",
    ),
    *(
        "share-buttons",
        "social-share",
        "related-posts",
        "advert",
        "paywall",
        "popup",
        "modal",
        "toolbar",
        "mw-editsection",
    ),
)
_HIDDEN = (
    *("[hidden]", '[aria-hidden="true"]', '[style*="display:none" i]', '[style*="display: none" i]'),
    *('[style*="visibility:hidden" i]', '[style*="visibility: hidden" i]', '[style*="font-size:0" i]'),
)
_PRUNED = ", ".join(
    (
        *_TAGS,
        *(f'[role="{role}"]' for role in _ROLES),
        *(f'body [{attribute}*="{word}" i]:not(main, article)' for word in _WORDS for attribute in ("class", "id")),
        *_HIDDEN,
    )
)
_DANGEROUS_LINK = re.compile(r"(javascript|data|vbscript|blob|file):", re.IGNORECASE)
_NOWHERE = "about:blank"
_MANY_BREAKS = re.compile(r"\n\s*\n\s*\n+")
_MAX_TITLE_CHARS = 300
_FEWEST_WORDS = 5
_NEEDS_JAVASCRIPT = "The page shows nothing until its scripts run (it needs JavaScript), and scripts are not run here."


class Page(NamedTuple):
    """Title and text, a sentence on why there is no text, words on why it is not whole; each may be empty."""

    title: str
    text: str
    remark: str = ""
    cut: str = ""


def read_html(html: str, url: Url) -> Page:
    """The title and text of a web page, its links absolute. At most 10,000 links keep their goal.

    What cannot be seen is left out at the end: a page may write it as character references.
    """
    import turbohtml

    document = turbohtml.parse(html, positions=False)
    title = _title(document)
    base = _base(document, url)
    has_scripts = document.select_one("script") is not None
    document.remove(_PRUNED)
    links = itertools.count(1)
    document.rewrite_links(lambda link: _absolute(link, base) if next(links) <= MAX_LINKS else _NOWHERE)
    document.strip_tags(f'a[href~="{_NOWHERE}"]')
    images = turbohtml.Markdown.Images(mode="ignore")
    tables = turbohtml.Markdown.Tables(cell_blocks="text")
    markdown = without_controls(document.to_markdown(turbohtml.Markdown(images=images, tables=tables)))
    text = _MANY_BREAKS.sub("\n\n", markdown).strip()[:MAX_TEXT_CHARS]
    if has_scripts and len(text.split()) < _FEWEST_WORDS:
        return Page(title, text, _NEEDS_JAVASCRIPT)
    return Page(title, text)


def _absolute(link: str, base: Url) -> str:
    """Where a link leads: nowhere when it runs code, carries data or leads into the reader's machine."""
    return _NOWHERE if _DANGEROUS_LINK.match("".join(link.split())) else base.join("%20".join(link.split()))


def _base(document: turbohtml.Document, url: Url) -> Url:
    """What links are relative to: the page's own word, when that is a URL at all."""
    element = document.select_one("base[href]")
    named = url.join(element.attr("href") or "") if element else ""
    parsed = read_url(named)
    return url if isinstance(parsed, Decision) else parsed


def _title(document: turbohtml.Document) -> str:
    """The document's title, or that of its first heading, on one line."""
    found = document.select_one("head > title") or document.select_one("h1")
    return " ".join(without_controls(found.text).split())[:_MAX_TITLE_CHARS] if found else ""
