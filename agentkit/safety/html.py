"""HTML generation with escaping (pure)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import Final

from agentkit.event_rendering import escape_invisible

_VOID: Final = frozenset({"meta", "rect", "line", "circle"})


class Markup(str):
    """Text that is already HTML; created only by `element` and `page`."""

    __slots__ = ()


Child = Markup | str | None | Iterable["Child"]


def element(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Create an element. Text in it is escaped; invisible and misleading characters are made visible.

    None is ignored; a trailing `_` in an attribute's name is dropped, and `_` within it becomes a hyphen.
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{attribute_text}>" if name == "meta" else f"<{name}{attribute_text}/>")
    return Markup(f"<{name}{attribute_text}>{_join(children)}</{name}>")


def page(title: str, style: str, *body: Child) -> Markup:
    """Create a complete page with an embedded style sheet; it cannot load other resources or run scripts."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(style)),
    )
    return Markup(f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n")


def _join(children: Child) -> str:
    if children is None:
        return ""
    if isinstance(children, Markup):
        return str(children)
    return _escape(children) if isinstance(children, str) else "".join(map(_join, children))


def _escape(text: str) -> str:
    return escape(escape_invisible(text.replace("\r\n", "\n")))
