"""Tests for the parsing of documents in the isolated worker: content, limits, and hostile files."""

import io
import json
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from agentkit.documents import text_of
from agentkit.documents.parsing import MAX_DOCUMENT_BYTES, ParsedDocument, parse_document
from agentkit.errors import MissingExtra, ToolError
from agentkit.knowledge import Knowledge
from agentkit.sandbox.python import run_module
from agentkit.sandbox.watchdog import MEGABYTE, ProcessLimits
from agentkit.tools.files import read_file_in
from agentkit.workspace.workspace import Workspace

pytestmark = pytest.mark.slow

WITHOUT_PYPDF = """
import sys
sys.modules["pypdf"] = None
from agentkit.errors import MissingExtra
from agentkit.documents.parsing import parse_document
try:
    parse_document(b"%PDF-1.4")
except MissingExtra as error:
    print(error)
"""
PROBE = '''
"""A worker that tries to reach what it must not."""
import os
import socket


def work(request):
    try:
        socket.create_connection(("127.0.0.1", int(request["port"])), 1)
        network = "reached"
    except OSError:
        network = "refused"
    try:
        files = open(request["file"]).read()
    except OSError:
        files = "refused"
    yield {"network": network, "files": files, "environment": repr(dict(os.environ))}
'''
WORD = '<w:document xmlns:w="w"><w:body>{}</w:body></w:document>'
RELATIONS = '<Relationships xmlns="r">{}</Relationships>'
OPEN_TEXT = "application/vnd.oasis.opendocument.text"


def packed(**parts):
    """Return an archive of these parts; `__` in a name is replaced by a slash."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in parts.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else None
            made.writestr(name if name == "mimetype" else f"{name.replace('__', '/')}.xml", text, stored)
    return out.getvalue()


def workbook(names, sheet, texts=""):
    """Return a workbook of sheets with these relationship ids, which all refer to the same part."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        listed = "".join(f'<sheet name="s" r:id="{name}"/>' for name in names)
        made.writestr("xl/workbook.xml", f'<workbook xmlns:r="r">{listed}</workbook>')
        related = "".join(f'<Relationship Id="{name}" Target="a.xml"/>' for name in dict.fromkeys(names))
        made.writestr("xl/_rels/workbook.xml.rels", RELATIONS.format(related))
        made.writestr("xl/sharedStrings.xml", f"<sst>{texts}</sst>")
        made.writestr("xl/a.xml", f"<worksheet>{sheet}</worksheet>")
    return out.getvalue()


def open_text(body):
    """Return an OpenDocument text with this content."""
    return packed(mimetype=OPEN_TEXT, content=f'<o:c xmlns:o="o">{body}</o:c>')


def pdf_of(stream):
    """Return a PDF with one page, whose content stream is compressed."""
    import zlib

    data = zlib.compress(stream, 9)
    return (
        b"%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj\n"
        b"3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R"
        b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>> endobj\n"
        b"4 0 obj <</Length "
        + str(len(data)).encode()
        + b"/Filter/FlateDecode>> stream\n"
        + data
        + b"\nendstream endobj\n"
        b"trailer <</Root 1 0 R>>\n%%EOF\n"
    )


CELL = '<row><c t="s"><v>0</v></c></row>'
HOSTILE = {
    "docx of three million empty paragraphs": lambda: packed(word__document=WORD.format("<w:p/>" * 3_000_000)),
    "docx that unpacks to 110 MB": lambda: packed(word__document=WORD.format(" " * 110_000_000)),
    "docx of deep tables": lambda: packed(word__document=WORD.format("<w:tbl><w:tr><w:tc>" * 300_000)),
    "docx of deep elements": lambda: packed(word__document=WORD.format("<w:p>" * 2_000_000 + "</w:p>" * 2_000_000)),
    "xlsx that lists a sheet 20,000 times": lambda: workbook(["r1"] * 20_000, CELL * 20_000, "<si><t>x</t></si>"),
    "xlsx with 20,000 names of a sheet": lambda: workbook(
        [f"r{n}" for n in range(20_000)], CELL * 20_000, "<si><t>x</t></si>"
    ),
    "xlsx of cells of one long text": lambda: workbook(["r1"], CELL * 200_000, f"<si><t>{'x' * 100_000}</t></si>"),
    "odt of repeated blanks": lambda: open_text("<o:p>a" + '<o:s o:c="1000000000"/>' * 1_000 + "b</o:p>"),
    "ods of repeated rows": lambda: open_text(
        '<o:table><o:table-row o:number-rows-repeated="1000000000">'
        '<o:table-cell o:number-columns-repeated="1000000000">'
        "<o:p>x</o:p></o:table-cell></o:table-row></o:table>"
    ),
    "pdf that unpacks to 110 MB": lambda: pdf_of(b"BT (x) Tj ET " * 8_000_000),
    "pdf of deep arrays": lambda: pdf_of(b"[" * 3_000_000),
}
SECONDS = 2.0


@pytest.mark.parametrize("name", HOSTILE)
def test_malicious_document_stays_within_the_limits(name):
    """A malicious document is parsed within the limits, or raises an error with advice."""
    body = HOSTILE[name]()
    assert len(body) < 500_000
    began = time.monotonic()
    text = ""
    try:
        document = parse_document(body, SECONDS)
    except ToolError as error:
        text = str(error)
    else:
        assert document is not None
        assert sum(map(len, document.pages)) <= 1_000_000
    assert not text or any(
        word in text for word in ("Save a part", "too large", "hide its size", "damaged", "contains no text")
    )
    assert time.monotonic() - began < SECONDS + 10


def test_title_and_text_of_each_page(pdf):
    """A PDF returns its title and the text of each page, including empty pages."""
    expected = ParsedDocument("pdf", "The handbook", ("Thirty days of leave.", "", "Call before nine."))
    assert parse_document(pdf("Thirty days of leave.", "", "Call before nine.")) == expected


def test_office_document_is_one_page(docx):
    """The Markdown of an office document is its only page."""
    assert parse_document(docx("Leave", "Thirty days.")) == ParsedDocument("office", "", ("# Leave\n\nThirty days.",))


def test_documents_are_read_without_a_strong_sandbox(docx, pdf):
    """Without namespaces, Landlock and seccomp, documents are read in a plain process with limits."""
    nothing = frozenset[str]()
    assert parse_document(docx("Leave", "Thirty days."), available=nothing) is not None
    assert parse_document(pdf("words"), available=nothing) is not None
    with pytest.raises(ToolError, match="could not be read in 1 seconds"):
        parse_document(HOSTILE["docx of three million empty paragraphs"](), 1.0, available=nothing)


def test_other_files_return_none():
    """Texts and archives that are not office documents return None."""
    assert parse_document(b"# Text") is None
    assert parse_document(packed(a="x")) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"%PDF-1.4\nnothing more", "cut off"),
        (b"%PDF-" + bytes(MAX_DOCUMENT_BYTES), "at most"),
        (b"PK\x03\x04 word/document.xml", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old format"),
    ],
)
def test_unreadable_document_is_an_error(body, message):
    """Damaged, oversized and outdated files raise ToolError with the reason."""
    with pytest.raises(ToolError, match=message):
        parse_document(body)


def test_pdf_without_text_is_an_error(pdf):
    """A PDF that contains only images is rejected, because images are not read."""
    with pytest.raises(ToolError, match="no text"):
        parse_document(pdf(""))


def test_read_file_and_knowledge_report_a_limit(tmp_path):
    """The tool returns the limit as its error, and Knowledge reports it as the reason for skipping the file."""
    body = packed(word__document=WORD.format(" " * 110_000_000))
    (tmp_path / "bomb.docx").write_bytes(body)
    assert "too large" in read_file_in(Workspace(tmp_path))("bomb.docx")["error"]
    report = Knowledge(":memory:").add(tmp_path)
    assert "too large" in report.skipped[str(tmp_path.resolve() / "bomb.docx")]


def test_worker_is_isolated(tmp_path, monkeypatch):
    """The worker has no network, no files of the user, and no variables of its host."""
    import socket

    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    secret = tmp_path / "secret"
    secret.write_text("planted")
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "agentkit_probe.py").write_text(PROBE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        request = {"port": str(server.getsockname()[1]), "file": str(secret)}
        package = (f"{tmp_path}/probe/agentkit_probe.py",)
        done = run_module("agentkit_probe", request, ProcessLimits(timeout_seconds=10), packages=package)
    assert done.frames == [{"network": "refused", "files": "refused", "environment": "{}"}]


def test_output_and_memory_of_a_worker_are_limited(tmp_path):
    """A worker that exceeds its output or memory limit is killed, and the outcome names the limit."""
    module = tmp_path / "agentkit_flood.py"
    module.write_text(
        "def work(request):\n    if request['what'] == 'memory':\n        x = bytearray(10**9)\n"
        "    while True:\n        yield {'text': 'x' * 100_000}\n"
    )
    limits = ProcessLimits(timeout_seconds=10, memory_bytes=300 * MEGABYTE, flood_bytes=MEGABYTE)
    ends = {
        what: run_module("agentkit_flood", {"what": what}, limits, packages=(str(module),)).status
        for what in ("flood", "memory")
    }
    assert ends == {"flood": "flood", "memory": "memory"}


def test_missing_pypdf_names_the_extra():
    """Without pypdf, MissingExtra is raised, which names the extra to install."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYPDF], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert "[pdf]" in done.stdout
    assert issubclass(MissingExtra, ImportError)


def objects(*texts, end=b""):
    """Return a PDF with objects numbered from 1, without a cross-reference table."""
    return b"%PDF-1.7\n" + b"".join(b"%d 0 obj\n%b\nendobj\n" % pair for pair in enumerate(texts, 1)) + end


PAGE = b"<</Type/Page/Parent 9 0 R/MediaBox[0 0 200 200]/Contents 2 0 R/Resources<</Font<</F 3 0 R>>>>>>"
WORDS = b"<</Length 40>>\nstream\nBT /F 12 Tf 10 10 Td (Leave by noon.) Tj ET\nendstream"
FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
HEAD = b"1 0 3 %d " % (len(PAGE) + 1)
PACKED = zlib.compress(HEAD + PAGE + b" " + FONT)
IN_A_STREAM = b"<</Type/ObjStm/N 2/First %d/Filter/FlateDecode>>\nstream\n%b\nendstream" % (len(HEAD), PACKED)


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (objects(PAGE, WORDS, FONT), "1 pages were found"),
        (objects(PAGE, WORDS, FONT, end=b"4 0 obj\n<</Length 9>>\nstream\nBT"), "1 pages were found"),
        (
            objects(WORDS, WORDS, WORDS, IN_A_STREAM).replace(b"1 0 obj", b"5 0 obj").replace(b"3 0 obj", b"6 0 obj"),
            "1 pages were found",
        ),
        (objects(PAGE, WORDS, FONT, PAGE.replace(b"2 0 R", b"7 0 R")), "could not be read: 2"),
    ],
)
def test_truncated_pdf_is_read_with_a_note(body, note):
    """The complete pages of a truncated PDF are read, and a note reports the truncation."""
    document = parse_document(body + b"startxref")
    assert document.pages[0].strip() == "Leave by noon."
    assert note in document.note
    assert text_of(body + b"startxref").startswith(f"[{document.note}]")


def test_pdf_without_a_complete_page_raises():
    """A PDF without a complete page raises an error that says it is cut off."""
    with pytest.raises(ToolError, match="the PDF is cut off"):
        parse_document(objects(WORDS, FONT) + b"startxref")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            rb"{\rtf1 {\stylesheet{\s1 Heading 2;}}\pard\s1 Tides\par\pard H{\dn6 2}O 10{\up6 6}}",
            "## Tides\n\nH\u2082O 10^6",
        ),
        (rb"{\rtf1 Smile \u-10179?\u-8704? {\*\annotation Check it.}}", "Smile \U0001f600\n\nComment: Check it."),
        (
            json.dumps(
                {
                    "nbformat": 4,
                    "cells": [
                        {"cell_type": "code", "source": "f()", "outputs": [{"data": {"text/latex": "$x^2$"}}]},
                        {"cell_type": "code", "source": "", "outputs": [{"data": {"application/json": {"a": 1}}}]},
                    ],
                }
            ).encode(),
            '```python\nf()\n```\n\nOutput:\n```\n$x^2$\n```\n\nOutput:\n```\n{"a": 1}\n```',
        ),
        (
            b"From: a@b.c\nMessage-ID: <1>\nMIME-Version: 1.0\n"
            b"Content-Type: multipart/mixed; boundary=B\n\n--B\n\nHello\n"
            b"--B\nContent-Type: text/calendar\n\nSUMMARY:Lunch\n--B\nContent-Type: message/delivery-status\n\n"
            b"Action: failed\n\n--B--\n",
            "From: a@b.c\n\nHello\n\nSUMMARY:Lunch\n\nAction: failed",
        ),
    ],
)
def test_content_in_unusual_places_is_included(body, text):
    """Superscripts, styled headings, comments, notebook outputs and calendars are included."""
    assert parse_document(body).text == text


def test_libreoffice_heading_styles():
    """Paragraphs with a LibreOffice heading style are converted to headings."""
    content = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
        'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"><office:automatic-styles>'
        '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Heading_20_2"/>'
        '</office:automatic-styles><office:body><office:text><text:p text:style-name="P1">Tides</text:p>'
        "<text:p>High water.</text:p></office:text></office:body></office:document-content>"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml", content)
    assert parse_document(file.getvalue()).text == "## Tides\n\nHigh water."


def test_raised_runs_of_word_are_superscripts():
    """A run that is raised or lowered by its position is a superscript or subscript."""
    runs = "".join(
        f'<w:r><w:rPr><w:position w:val="{height}"/></w:rPr><w:t>{text}</w:t></w:r>'
        for text, height in (("H", 0), ("2", -2), ("O 10", 1), ("6", 5))
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "word/document.xml", f'<w:document xmlns:w="w"><w:body><w:p>{runs}</w:p></w:body></w:document>'
        )
    assert parse_document(file.getvalue()).text == "H\u2082O 10^6"
