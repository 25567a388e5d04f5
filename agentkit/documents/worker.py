"""Text extraction, as executed by the isolated worker."""

from __future__ import annotations

import encodings.cp437
import encodings.latin_1  # noqa: F401 zipfile and `work` use them when files can no longer be opened freely
from collections.abc import Iterator, Mapping

from agentkit.documents import office, pdf
from agentkit.errors import ToolError

Frame = dict[str, str]


def work(request: Mapping[str, str]) -> Iterator[Frame]:
    """Yield a frame with the title, then one with the text of each page; or one frame with an `error`.

    An office document has one page. Yields nothing for a file that is not a document.
    """
    body = request["body"].encode("latin-1")
    reader = _pdf if request["kind"] == "pdf" else _office
    try:
        for name, text in reader(body):
            yield {name: text.encode("utf-8", "replace").decode()}
    except ToolError as error:
        yield {"error": str(error)}


def _pdf(body: bytes) -> Iterator[tuple[str, str]]:
    title, *pages = pdf.pages_of_pdf(body)
    yield "title", title
    yield from (("page", page) for page in pages)


def _office(body: bytes) -> Iterator[tuple[str, str]]:
    document = office.text_of_office(body)
    if document is not None:
        yield "title", document[0]
        yield "page", document[1]
