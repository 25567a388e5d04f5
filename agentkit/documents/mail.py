"""E-mail messages as Markdown: headers, decoded text and a list of attachments."""

from __future__ import annotations

import email.charset
import email.header
import email.parser
import email.policy
import html.parser
import re
from collections.abc import Iterator
from email.message import EmailMessage

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAX_DEPTH, _MAX_ATTACHMENTS = 5, 100
_INVISIBLE = frozenset({"script", "style", "head", "title"})
_BREAKS = frozenset({"br", "p", "div", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6", "table", "blockquote"})
_MANY_BREAKS = re.compile(r"\n\s*\n\s*\n+")


def text_of_mail(body: bytes) -> tuple[str, str]:
    """Return the subject and the content of a message; attached messages are read too."""
    message = email.parser.BytesParser(EmailMessage, policy=email.policy.default).parsebytes(body)
    return _header(message, "Subject")[:300], "\n\n".join(_parts(message, 0))


def _parts(message: EmailMessage, depth: int) -> Iterator[str]:
    headers = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
    yield "\n".join(headers)
    body = message.get_body(("plain", "html"))
    if isinstance(body, EmailMessage):
        text = _content(body)
        yield _MANY_BREAKS.sub("\n\n", _plain(text) if body.get_content_subtype() == "html" else text).strip()
    attachments = list(message.iter_attachments()) if message.is_multipart() else []
    lines = []
    for part in attachments[:_MAX_ATTACHMENTS]:
        inner = part.get_payload(0) if part.get_content_type() == "message/rfc822" and part.is_multipart() else None
        if isinstance(inner, EmailMessage) and depth < _MAX_DEPTH:
            yield "Attached message:"
            yield from _parts(inner, depth + 1)
        else:
            data = part.get_payload(decode=True)
            size = len(data) if isinstance(data, bytes) else 0
            lines.append(f"- {part.get_filename() or 'without a name'} ({part.get_content_type()}, {size:,} bytes)")
    if lines:
        yield "Attachments:\n" + "\n".join(lines)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, LookupError, IndexError, AttributeError, TypeError):  # a header that no parser accepts
        return ""


def _content(part: EmailMessage) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = str(part.get_content_charset() or "utf-8")
    try:
        return data.decode(charset, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


class _PlainText(html.parser.HTMLParser):
    """Collects the visible text of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        del attrs
        self._hidden += tag in _INVISIBLE
        self.pieces.append("\n" if tag in _BREAKS else "")

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        self._hidden = max(self._hidden - (tag in _INVISIBLE), 0)
        self.pieces.append("\n" if tag in _BREAKS else "")

    def handle_data(self, data: str) -> None:
        """Add text."""
        self.pieces.append("" if self._hidden else re.sub(r"\s+", " ", data))


def _plain(text: str) -> str:
    reader = _PlainText()
    reader.feed(text)
    reader.close()
    return "\n".join(line.strip() for line in "".join(reader.pieces).split("\n"))
