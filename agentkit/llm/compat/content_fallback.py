"""Text substitutes for images, documents and audio that a server refuses."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterator

from agentkit.content import quoted_file
from agentkit.errors import MissingExtra, Rejected, ToolError
from agentkit.llm.compat.rules import Adjustment, Body, RequestRefusal
from agentkit.llm.protocols.chat_completions import RESULT_CONTENT_PREFIX

_TEXT_REQUIRED = r"(?:must|should) be a (?:valid )?string|'input text'|invalid type|untagged enum"
_IMAGES_NAMED = r"image|vision|multi-?modal|mmproj"
_FILES_NAMED = r"\b(?:input_)?files?(?:_(?:id|data|url))?\b|\bpdfs?\b|\bdocuments?\b"
_AUDIO_NAMED = r"audio|recording|\bsound\b"
"""Patterns in rejections of images, files or audio, in general or in one place: text is required there, or the kind
of content is named."""

_PART_REFUSED = (
    rf"{_TEXT_REQUIRED}|invalid message format|unknown variant|modalit|media|mime|part type"
    r"|content.{0,30}\b(?:part|type|block)"
)
"""Patterns in rejections of an unknown content type; Ollama only states that the format is invalid."""

_RESULT_PREFIXES = (RESULT_CONTENT_PREFIX, "<RESULT: ")
"""The start of texts that precede the images and files of a tool result, in Chat Completions and in prompted tools."""

_RESULT_TYPES = ("function_call_output", "tool_result")
"""Types of tool results that are not separate messages."""

_IMAGE_PLACEHOLDER = "[An image was left out: this model receives text only.]"
_FILE_PLACEHOLDER = "[A file was left out: this model receives text only.]"
_AUDIO_TYPE, _FILE_TYPES = "input_audio", ("file", "input_file", "document")
_DOCUMENT = r"(?i)data:application/(?:pdf|msword|vnd\.(?:openxmlformats-|oasis\.opendocument|ms-)[\w.+-]*);base64,"
_MAX_CACHED = 50

_DOCUMENT_ADVICE = "Send its text, or use a model that reads such files. For PDFs, install agentkit-tools[pdf]."
_AUDIO_ADVICE = "Use a model with audio input over LLM(protocol='chat'), or send a transcript."
_FILE_ADVICE = (
    "The file was refused. Most models read PDFs that are sent as data, File.read('report.pdf'), and text. Other types "
    "and URLs need LLM(protocol='responses')."
)


def _is_file(part: Body) -> bool:
    return part.get("type") in (*_FILE_TYPES, _AUDIO_TYPE)


def _is_image(part: Body) -> bool:
    return "text" not in part and not _is_file(part)


def _replace_refused(entry: Body, is_refused: Callable[[Body], bool], placeholder: str) -> Body:
    """Replace rejected parts of tool results, inside a result or after the text that introduces it."""
    is_result = entry.get("type") in _RESULT_TYPES
    name = "output" if entry.get("type") == "function_call_output" else "content"
    parts = entry.get(name)
    if not isinstance(parts, list) or not (is_result or entry.get("role") == "user"):
        return entry
    new_parts: list[Body] = []
    for part in parts:
        if "text" in part and entry.get("type") not in _RESULT_TYPES:
            is_result = str(part["text"]).startswith(_RESULT_PREFIXES)
        is_nested = part.get("type") in _RESULT_TYPES
        replacement = (
            _replace_refused(part, is_refused, placeholder)
            if is_nested
            else {"type": parts[0]["type"], "text": placeholder}
        )
        new_parts.append(replacement if is_nested or (is_result and is_refused(part)) else part)
    if new_parts == parts:
        return entry
    return {
        **entry,
        name: new_parts if any("text" not in part for part in new_parts) else "\n".join(p["text"] for p in new_parts),
    }


def _replacing(is_refused: Callable[[Body], bool], placeholder: str) -> Callable[[Body], Body]:
    """A change that replaces rejected parts of tool results with a text."""

    def apply(body: Body) -> Body:
        name = "messages" if "messages" in body else "input"
        if name not in body:
            return body
        return {**body, name: [_replace_refused(entry, is_refused, placeholder) for entry in body[name]]}

    return apply


IMAGES_DESCRIBED = Adjustment(
    "images in tool results are described in words", _replacing(_is_image, _IMAGE_PLACEHOLDER)
)
FILES_DESCRIBED = Adjustment("files in tool results are described in words", _replacing(_is_file, _FILE_PLACEHOLDER))


def handle_images(refusal: RequestRefusal) -> Adjustment | None:
    """Replace images in tool results, for models without vision and servers that reject images from tools."""
    is_match = _matches_any(refusal.text, _IMAGES_NAMED, _TEXT_REQUIRED)
    return _if_changed(IMAGES_DESCRIBED, refusal) if is_match else None


def handle_named_files(refusal: RequestRefusal) -> Adjustment | None:
    """Adjust to a server that rejects files or audio by name."""
    if _matches_any(refusal.text, _FILES_NAMED):
        return _replace_files(refusal)
    return _if_changed(FILES_DESCRIBED, refusal) if _matches_any(refusal.text, _AUDIO_NAMED) else None


def handle_files(refusal: RequestRefusal) -> Adjustment | None:
    """Adjust to a server that only states that some content is unsupported.

    A message about images can refer to files, if the server does not know them, unless the request has an image.
    """
    has_image = any(_is_image(part) for part in _parts(refusal.body))
    is_match = _matches_any(refusal.text, _PART_REFUSED, *(() if has_image else (_IMAGES_NAMED,)))
    return _replace_files(refusal) if is_match else None


def _replace_files(refusal: RequestRefusal) -> Adjustment | None:
    if any(_document_in(part) for part in _parts(refusal.body)):
        return Adjustment("documents are sent as their text", DocumentReplacer(refusal.text).apply, is_slow=True)
    return _if_changed(FILES_DESCRIBED, refusal)


def _if_changed(adjustment: Adjustment, refusal: RequestRefusal) -> Adjustment | None:
    return adjustment if adjustment.apply(refusal.body) != refusal.body else None


def add_file_advice(error: Rejected, body: Body) -> None:
    """Add advice to an error that is, or could be, about a file in the request."""
    files = [part for part in _parts(body) if _is_file(part)]
    if files and _matches_any(str(error), _PART_REFUSED, _IMAGES_NAMED, _FILES_NAMED, _AUDIO_NAMED):
        advice = _AUDIO_ADVICE if all(part["type"] == _AUDIO_TYPE for part in files) else _FILE_ADVICE
        error.args = (f"{error} {advice}",)


def _matches_any(text: str, *patterns: str) -> bool:
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
                yield from _parts_in(part) if part.get("type") in _RESULT_TYPES else ()


def _document_in(part: Body) -> str:
    """The data: URL of a part that is a PDF or office document; empty for any other part."""
    if part.get("type") not in _FILE_TYPES:
        return ""
    source = part.get("source", {})
    url = f"data:{source.get('media_type')};base64,{source.get('data')}" if source else _file_field(part, "file_data")
    return url if isinstance(url, str) and re.match(_DOCUMENT, url) else ""


def _file_field(part: Body, name: str) -> object:
    """A field of a file, which Chat Completions nests in an object."""
    return part.get("file", part).get(name)


class DocumentReplacer:
    """Replaces documents with their text, which is extracted once. `message` is the server's message about files."""

    def __init__(self, message: str, read_seconds: float | None = None) -> None:
        self._message, self._read_seconds = message, read_seconds
        self._texts: dict[bytes, str] = {}

    def apply(self, body: Body) -> Body:
        """Replace documents with text, or with a note if a tool's is unreadable. Raises Rejected for a user's."""
        name = "messages" if "messages" in body else "input"
        return {**body, name: [self._read(entry) for entry in body[name]]}

    def _read(self, entry: Body) -> Body:
        if not any(map(_document_in, _parts_in(entry))):
            return entry
        name = "output" if entry.get("type") == "function_call_output" else "content"
        new_parts, is_result = [], entry.get("type") in _RESULT_TYPES
        for part in entry[name]:
            if "text" in part and entry.get("type") not in _RESULT_TYPES:
                is_result = str(part["text"]).startswith(_RESULT_PREFIXES)
            is_nested = isinstance(part, dict) and part.get("type") in _RESULT_TYPES
            new_parts.append(self._read(part) if is_nested else self._as_text(part, is_result=is_result))
        return {**entry, name: new_parts}

    def _as_text(self, part: Body, *, is_result: bool) -> Body:
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
            text = _FILE_PLACEHOLDER
        else:
            text = quoted_file(part.get("title") or str(_file_field(part, "filename") or ""), text)
        return {"type": "input_text" if part["type"] == "input_file" else "text", "text": text}

    def _text(self, url: str) -> str:
        """Extract the text of a document. Raises ToolError and MissingExtra."""
        import hashlib

        from agentkit.documents import text_of

        key = hashlib.sha256(url.encode()).digest()
        if key not in self._texts:
            try:
                data = a2b_base64(url.partition(",")[2])
            except ValueError:
                raise ToolError("its data is not valid base64") from None
            text = text_of(data, self._read_seconds)
            if text is None:
                raise ToolError("its format is not supported")
            if len(self._texts) >= _MAX_CACHED:
                self._texts.clear()
            self._texts[key] = text
        return self._texts[key]
