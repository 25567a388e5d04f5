"""Which code does a text hide that the parser takes for plain text? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_LIVE = re.compile(r"`|\$[(\[{]")
UNREAD = re.compile(r"\$[\w({\[]")
"""What is an expansion in a here-document, of which the parser sometimes reads none."""
_PROCESS = re.compile(r"[<>]\(")
_UNQUOTED = {"regex", "expansion", "word", "concatenation"}
_EXPANDING = {"string", "heredoc_body", "translated_string", "subscript", "arithmetic_expansion"}
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CODE = re.compile(r"`([^`]*)`|\$\((.*)\)", re.DOTALL)
_OPENING = {"`", "$(", "$((", "$[", "<(", ">(", '"', "${"}


def hidden(root: Node) -> Iterator[tuple[Node, list[str]]]:
    """Each node with text in which bash would still run something, and the scripts that are seen in it."""
    waiting = [(root, False)]
    while waiting:
        node, quoted = waiting.pop()
        kind = node.type
        if kind == "comment" or (kind in {"raw_string", "ansi_c_string"} and not quoted):
            continue
        if kind == "command_substitution":
            quoted = False
        quoted = quoted or kind in _EXPANDING or _is_keyed(node)
        text = _ESCAPED.sub("  ", own_text(node))
        unread = kind == "heredoc_body" and not node.children and UNREAD.search(text)
        live = unread or _LIVE.search(text) or (kind in _UNQUOTED and _PROCESS.search(text))
        if live and kind not in _OPENING and not _quoted_heredoc(node):
            yield node, [(one or two).strip() for one, two in _CODE.findall(own_text(node)) if (one or two).strip()]
        if not _quoted_heredoc(node):
            waiting.extend((child, quoted) for child in node.children)


def _is_keyed(node: Node) -> bool:
    """Whether an element of an array begins with its key, which bash expands once more, quoted or not."""
    within = node.type == "concatenation" and node.parent is not None and node.parent.type == "array"
    return within and (node.text or b"").startswith(b"[")


def own_text(node: Node) -> str:
    """The text of a node that belongs to none of its children."""
    whole, start, end, parts = node.text or b"", node.start_byte, node.start_byte, []
    for child in node.children:
        parts.append(whole[end - start : child.start_byte - start])
        end = child.end_byte
    return b"".join([*parts, whole[end - start :]]).decode("utf-8", "replace")


def _quoted_heredoc(node: Node) -> bool:
    """Whether a node is the body of a here-document whose quoted mark makes it plain."""
    if node.type != "heredoc_body" or node.parent is None:
        return False
    mark = next((child for child in node.parent.children if child.type == "heredoc_start"), None)
    return mark is not None and bool(re.search(rb"['\"\\]", mark.text or b""))


def unescaped(node: Node) -> str | None:
    """The script in backticks once bash has taken its backslashes away; None for any other substitution."""
    text = (node.text or b"").decode("utf-8", "replace")
    if not text.startswith("`") or not re.search(r"\\[`$\\]", text):
        return None
    return re.sub(r"\\([`$\\])", r"\1", text[1:-1])
