"""Text extraction in the isolated worker: the reader of each format, and notebooks."""

from __future__ import annotations

import codecs
import contextlib
import encodings.cp437
import encodings.idna
import encodings.latin_1  # noqa: F401 zipfile and `work` use them when files can no longer be opened freely
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentkit.documents import mail, office, pdf, rtf
from agentkit.errors import ToolError

Frame = dict[str, str]

_CHARSETS = (
    *("utf-8", "utf-16", "us-ascii", "latin-1", "iso8859-2", "iso8859-5", "iso8859-15", "koi8-r", "mac-roman"),
    *("cp437", "cp850", "cp866", "cp874", *(f"cp125{digit}" for digit in range(9)), "cp932", "cp949", "gb18030"),
    *("gb2312", "gbk", "big5", "shift_jis", "euc-jp", "euc-kr", "iso2022_jp", "unicode-escape", "quopri", "base64"),
)
for _name in _CHARSETS:  # loaded now, because later files cannot be opened freely
    with contextlib.suppress(LookupError):
        codecs.lookup(_name)


def work(request: Mapping[str, str]) -> Iterator[Frame]:
    """Yield a frame with the title, then one with the text of each page; or one frame with an `error`.

    Only a PDF has several pages. Yields nothing for a file that is not a document.
    """
    body = request["body"].encode("latin-1")
    try:
        for name, text in _READERS[request["kind"]](body):
            yield {name: text.replace("\u00ad", "").encode("utf-8", "replace").decode()}
    except ToolError as error:
        yield {"error": str(error)}


def _pdf(body: bytes) -> Iterator[tuple[str, str]]:
    title, *pages = pdf.pages_of_pdf(body)
    yield "title", title
    yield from (("page", page) for page in pages)


def _one_page(document: tuple[str, str] | None) -> Iterator[tuple[str, str]]:
    if document is not None:
        yield "title", document[0]
        yield "page", document[1]


_MAX_OUTPUT_CHARS = 2_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def text_of_notebook(body: bytes) -> tuple[str, str]:
    """Return the title and the cells of a notebook as Markdown. Raises ToolError if it is damaged."""
    try:
        notebook = json.loads(body)
        cells = notebook.get("cells") or [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        metadata = notebook.get("metadata") or {}
        language = str((metadata.get("language_info") or metadata.get("kernelspec") or {}).get("name") or "python")
        text = "\n\n".join(part for cell in cells for part in _cell(cell, language) if part.strip())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError("the notebook is damaged: it is not valid JSON of the notebook format") from error
    return str(metadata.get("title") or "")[:300], text


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source") or cell.get("input"))
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip():
        yield f"```{language.removesuffix('3')}\n{source}\n```"
    for output in cell.get("outputs") or ():
        text = _COLOURS.sub("", _output(output)).rstrip()
        if len(text) > _MAX_OUTPUT_CHARS:
            text = f"{text[:_MAX_OUTPUT_CHARS]}\n[{len(text) - _MAX_OUTPUT_CHARS:,} more characters of output]"
        if text:
            yield f"Output:\n```\n{text}\n```"


def _output(output: dict[str, Any]) -> str:
    """The text of an output; pictures and other data are named by their type."""
    if output.get("output_type") in ("error", "pyerr"):
        return _joined(output.get("traceback"), "\n") or f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data") or {}
    text = _joined(output.get("text") or data.get("text/plain") or data.get("text/markdown"))
    pictures = [f"[{kind}]" for kind in data if not kind.startswith("text/") and not kind.endswith("json")]
    return "\n".join(filter(None, [text, *pictures]))


def _joined(source: Any, separator: str = "") -> str:
    return separator.join(map(str, source)) if isinstance(source, list) else str(source or "")


_READERS: Mapping[str, Callable[[bytes], Iterator[tuple[str, str]]]] = {
    "pdf": _pdf,
    "office": lambda body: _one_page(office.text_of_office(body)),
    "rtf": lambda body: _one_page(("", rtf.text_of_rtf(body))),
    "notebook": lambda body: _one_page(text_of_notebook(body)),
    "mail": lambda body: _one_page(mail.text_of_mail(body)),
}
