"""Tests for the text that replaces images, PDFs and audio that a server rejects."""

import pytest

from agentkit.content import File
from agentkit.errors import Rejected
from agentkit.llm.compat.content_fallback import DocumentReplacer, add_file_advice
from agentkit.llm.compat.request_adjustments import adjustment_for

PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


def file_of(url, name="a.pdf"):
    """Return a file part of Chat Completions."""
    return {"type": "file", "file": {"filename": name, "file_data": url}}


def body_of(*parts, role="user"):
    """Return a body with one message."""
    return {"model": "any", "messages": [{"role": role, "content": [{"type": "text", "text": "Read."}, *parts]}]}


def test_pdf_text_is_cached(pdf):
    """The text of a PDF is cached for later requests, and evicted when many others are cached."""
    pages = DocumentReplacer("no PDFs")
    urls = [File.read(pdf(f"Page of {number}.")).url for number in range(2)]
    texts = [pages.apply(body_of(file_of(url)))["messages"][0]["content"][1]["text"] for url in (*urls, *urls)]
    assert texts[:2] == texts[2:]
    assert "Page of 1." in texts[1]
    pages._texts.update({bytes([number]): "" for number in range(50)})
    pages.apply(body_of(file_of(File.read(pdf("Another page.")).url)))
    assert len(pages._texts) == 1


def test_cached_pdf_text_is_not_read_again(pdf):
    """A PDF whose text is cached is not read in another process."""
    url = File.read(pdf("A page.")).url
    pages = DocumentReplacer("no PDFs")
    output = pages.apply(body_of(file_of(url)))
    broken = DocumentReplacer("no PDFs", read_seconds=0.001)
    broken._texts.update(pages._texts)
    assert broken.apply(body_of(file_of(url))) == output


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("data:application/pdf;base64,JVBE*=", "not valid base64|not supported"),
        ("data:application/pdf;base64,A", "not valid base64"),
        ("data:application/pdf;base64,JVBERi0xLjc=", "the PDF is cut off"),
    ],
)
def test_unreadable_pdf_raises_rejected(url, why):
    """An unreadable PDF raises an error with the reason and the server's message about PDFs."""
    with pytest.raises(Rejected, match=rf"no PDFs\. The file's own text cannot be sent either: .*({why})"):
        DocumentReplacer("no PDFs.").apply(body_of(file_of(url)))


@pytest.mark.parametrize(
    ("text", "parts", "name"),
    [
        (
            "Unknown part type: file",
            [file_of("data:application/pdf;base64,JVBERi0=")],
            "documents are sent as their text",
        ),
        (
            "this model cannot see images",
            [file_of("data:application/pdf;base64,JVBERi0=")],
            "documents are sent as their text",
        ),
        ("image_url is no image", [PICTURE, file_of("data:application/pdf;base64,JVBERi0=")], None),
        ("Unknown part type: file", [file_of("https://example.com/a.pdf")], None),
        ("Unknown part type: file", [PICTURE], None),
        ("Unknown part type: file", [], None),
    ],
)
def test_file_refusal_sends_pdfs_as_text(text, parts, name):
    """A refusal that may concern a file sends PDFs as text, and a refusal of an image does not."""
    adjustment = adjustment_for(body_of(*parts), Rejected(text, status=400))
    assert (adjustment and adjustment.name) == name


PDF = file_of("https://example.com/a.pdf")


@pytest.mark.parametrize(
    ("text", "parts", "advised"),
    [
        ("Unknown part type: file", [PDF], True),
        ("The model is overloaded.", [PDF], False),
        ("Unknown part type: file", [PICTURE], False),
        ("Unknown part type: file", [], False),
    ],
)
def test_advice_on_files_is_only_given_for_refused_files(text, parts, advised):
    """Advice is added to an error only if the request has a file and the error is, or could be, about it."""
    error = Rejected(text, status=400)
    add_file_advice(error, body_of(*parts))
    assert ("The file was refused." in str(error)) is advised
