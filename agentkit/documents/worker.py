"""Text extraction, as executed by the isolated worker."""

from __future__ import annotations

import codecs
import contextlib
import encodings.cp437
import encodings.idna
import encodings.latin_1  # noqa: F401 zipfile and `work` use them when files can no longer be opened freely
from collections.abc import Callable, Iterator, Mapping

from agentkit.documents import mail, notebook, office, pdf, rtf
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


_READERS: Mapping[str, Callable[[bytes], Iterator[tuple[str, str]]]] = {
    "pdf": _pdf,
    "office": lambda body: _one_page(office.text_of_office(body)),
    "rtf": lambda body: _one_page(("", rtf.text_of_rtf(body))),
    "notebook": lambda body: _one_page(notebook.text_of_notebook(body)),
    "mail": lambda body: _one_page(mail.text_of_mail(body)),
}
