"""Text substitutes for images, documents and audio that a server refuses."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterator

from agentkit.content import quoted_file
from agentkit.errors import MissingExtra, Rejected, ToolError
from agentkit.llm.compat.rules import Adjustment, Body, RequestRefusal
from agentkit.llm.protocols.chat_completions import NEIGHBOUR_SHARE

_TEXT_WANTED = r"(?:must|should) be a (?:valid )?string|'input text'|invalid type|untagged enum"
_PICTURES_NAMED = r"image|vision|multi-?modal|mmproj"
_FILES_NAMED = r"\b(?:input_)?files?(?:_(?:id|data|url))?\b|\bpdfs?\b|\bdocuments?\b"
_SOUND_NAMED = r"audio|recording|\bsound\b"
"""Patterns in rejections of images, files or audio, in general or in one place: text is required there, or the kind
of content is named."""

_PART_REFUSED = (
    rf"{_TEXT_WANTED}|invalid message format|unknown variant|modalit|media|mime|part type"
    r"|content.{0,30}\b(?:part|type|block)"
)
"""Patterns in rejections of an unknown content type; Ollama only states that the format is invalid."""

_OF_RESULTS = (NEIGHBOUR_SHARE, "<RESULT: ")
"""The start of texts that precede the images and files of a tool result, in Chat Completions and in prompted tools."""

_RESULTS = ("function_call_output", "tool_result")
"""Types of tool results that are not separate messages."""

_NO_PICTURE = "[An image was left out: this model receives text only.]"
_NO_FILE = "[A file was left out: this model receives text only.]"
_SOUND, _FILES = "input_audio", ("file", "input_file", "document")
_DOCUMENT = r"(?i)data:application/(?:pdf|msword|vnd\.(?:openxmlformats-|oasis\.opendocument|ms-)[\w.+-]*);base64,"
_MAX_KEPT = 50

_DOCUMENT_ADVICE = "Send its text, or use a model that reads such files. For PDFs, install agentkit-tools[pdf]."
_SOUND_ADVICE = "Use a model with audio input over LLM(protocol='chat'), or send a transcript."
_FILE_ADVICE = (
    "The file was refused. Most models read PDFs that are sent as data, File.read('report.pdf'), and text. Other types "
    "and URLs need LLM(protocol='responses')."
)


def _is_file(part: Body) -> bool:
    return part.get("type") in (*_FILES, _SOUND)


def _is_picture(part: Body) -> bool:
    return "text" not in part and not _is_file(part)


def _without_refused(entry: Body, is_refused: Callable[[Body], bool], words: str) -> Body:
    """Replace rejected parts of tool results, inside a result or after the text that introduces it."""
    is_result = entry.get("type") in _RESULTS
    name = "output" if entry.get("type") == "function_call_output" else "content"
    parts = entry.get(name)
    if not isinstance(parts, list) or not (is_result or entry.get("role") == "user"):
        return entry
    kept: list[Body] = []
    for part in parts:
        if "text" in part and entry.get("type") not in _RESULTS:
            is_result = str(part["text"]).startswith(_OF_RESULTS)
        is_nested = part.get("type") in _RESULTS
        shown = _without_refused(part, is_refused, words) if is_nested else {"type": parts[0]["type"], "text": words}
        kept.append(shown if is_nested or (is_result and is_refused(part)) else part)
    if kept == parts:
        return entry
    return {**entry, name: kept if any("text" not in part for part in kept) else "\n".join(p["text"] for p in kept)}


def _describing(is_refused: Callable[[Body], bool], words: str) -> Callable[[Body], Body]:
    """A change that replaces rejected parts of tool results with a text."""

    def apply(body: Body) -> Body:
        name = "messages" if "messages" in body else "input"
        if name not in body:
            return body
        return {**body, name: [_without_refused(entry, is_refused, words) for entry in body[name]]}

    return apply


IMAGES_DESCRIBED = Adjustment("images in tool results are described in words", _describing(_is_picture, _NO_PICTURE))
FILES_DESCRIBED = Adjustment("files in tool results are described in words", _describing(_is_file, _NO_FILE))


def no_pictures(refusal: RequestRefusal) -> Adjustment | None:
    """Replace images in tool results, for models without vision and servers that reject images from tools."""
    is_about = _speaks_of(refusal.text, _PICTURES_NAMED, _TEXT_WANTED)
    return _if_changed(IMAGES_DESCRIBED, refusal) if is_about else None


def no_named_files(refusal: RequestRefusal) -> Adjustment | None:
    """Adjust to a server that rejects files or audio by name."""
    if _speaks_of(refusal.text, _FILES_NAMED):
        return _without_files(refusal)
    return _if_changed(FILES_DESCRIBED, refusal) if _speaks_of(refusal.text, _SOUND_NAMED) else None


def no_files(refusal: RequestRefusal) -> Adjustment | None:
    """Adjust to a server that only states that some content is unsupported.

    A message about images can refer to files, if the server does not know them, unless the request has an image.
    """
    is_of_picture = any(_is_picture(part) for part in _parts(refusal.body))
    is_about = _speaks_of(refusal.text, _PART_REFUSED, *(() if is_of_picture else (_PICTURES_NAMED,)))
    return _without_files(refusal) if is_about else None


def _without_files(refusal: RequestRefusal) -> Adjustment | None:
    if any(_document_in(part) for part in _parts(refusal.body)):
        return Adjustment("documents are sent as their text", DocumentsRead(refusal.text).apply, is_slow=True)
    return _if_changed(FILES_DESCRIBED, refusal)


def _if_changed(adjustment: Adjustment, refusal: RequestRefusal) -> Adjustment | None:
    return adjustment if adjustment.apply(refusal.body) != refusal.body else None


def advise(error: Rejected, body: Body) -> None:
    """Add advice to an error that is, or could be, about a file in the request."""
    files = [part for part in _parts(body) if _is_file(part)]
    if files and _speaks_of(str(error), _PART_REFUSED, _PICTURES_NAMED, _FILES_NAMED, _SOUND_NAMED):
        advice = _SOUND_ADVICE if all(part["type"] == _SOUND for part in files) else _FILE_ADVICE
        error.args = (f"{error} {advice}",)


def _speaks_of(text: str, *patterns: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _parts(body: Body) -> Iterator[Body]:
    """The content parts of all messages, or of all items and tool results."""
    for entry in body.get("messages") or body.get("input") or ():
        yield from _parts_in(entry)


def _parts_in(entry: Body) -> Iterator[Body]:
    """The content parts of an entry, including those nested in results."""
    for name in ("content", "output"):
        parts = entry.get(name)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield part
                yield from _parts_in(part) if part.get("type") in _RESULTS else ()


def _document_in(part: Body) -> str:
    """The data: URL of a part that is a PDF or office document; empty for any other part."""
    if part.get("type") not in _FILES:
        return ""
    source = part.get("source", {})
    url = f"data:{source.get('media_type')};base64,{source.get('data')}" if source else _named(part, "file_data")
    return url if isinstance(url, str) and re.match(_DOCUMENT, url) else ""


def _named(part: Body, name: str) -> object:
    """A field of a file, which Chat Completions nests in an object."""
    return part.get("file", part).get(name)


class DocumentsRead:
    """Replaces documents with their text, which is extracted once. `message` is the server's message about files."""

    def __init__(self, message: str, read_seconds: float | None = None) -> None:
        self._message, self._read_seconds = message, read_seconds
        self._known: dict[bytes, str] = {}

    def apply(self, body: Body) -> Body:
        """Replace documents with text, or with a note if a tool's is unreadable. Raises Rejected for a user's."""
        name = "messages" if "messages" in body else "input"
        return {**body, name: [self._read(entry) for entry in body[name]]}

    def _read(self, entry: Body) -> Body:
        if not any(map(_document_in, _parts_in(entry))):
            return entry
        name = "output" if entry.get("type") == "function_call_output" else "content"
        read, is_result = [], entry.get("type") in _RESULTS
        for part in entry[name]:
            if "text" in part and entry.get("type") not in _RESULTS:
                is_result = str(part["text"]).startswith(_OF_RESULTS)
            is_nested = isinstance(part, dict) and part.get("type") in _RESULTS
            read.append(self._read(part) if is_nested else self._worded(part, is_result=is_result))
        return {**entry, name: read}

    def _worded(self, part: Body, *, is_result: bool) -> Body:
        url = _document_in(part)
        if not url:
            return part
        try:
            text = self._text(url)
        except (ToolError, MissingExtra) as error:
            if not is_result:
                raise Rejected(
                    f"{self._message} The file's own text cannot be sent either: {error}. {_DOCUMENT_ADVICE}"
                ) from error
            text = _NO_FILE
        else:
            text = quoted_file(part.get("title") or str(_named(part, "filename") or ""), text)
        return {"type": "input_text" if part["type"] == "input_file" else "text", "text": text}

    def _text(self, url: str) -> str:
        """Extract the text of a document. Raises ToolError and MissingExtra."""
        import hashlib

        from agentkit.documents import text_of

        key = hashlib.sha256(url.encode()).digest()
        if key not in self._known:
            try:
                data = a2b_base64(url.partition(",")[2])
            except ValueError:
                raise ToolError("its data is not valid base64") from None
            text = text_of(data, self._read_seconds)
            if text is None:
                raise ToolError("its format is not supported")
            if len(self._known) >= _MAX_KEPT:
                self._known.clear()
            self._known[key] = text
        return self._known[key]
