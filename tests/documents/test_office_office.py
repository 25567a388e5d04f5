"""Tests for the conversion of office documents, and for hostile ones."""

import collections
import io
import json
import sys
import zipfile
from pathlib import Path

import pytest

from agentkit.documents import text_of
from agentkit.documents.archive import Archive
from agentkit.documents.office import office_text
from agentkit.errors import ToolError

W = 'xmlns:w="w" xmlns:mc="mc"'
RELATIONS = '<Relationships xmlns="r">{}</Relationships>'
RELATION = '<Relationship Id="{}" Target="{}"/>'
DOCUMENTS = json.loads((Path(__file__).parent / "documents.json").read_text("utf-8"))


def packed(parts):
    """Return an archive of these parts, with the mimetype stored uncompressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, text in parts.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            made.writestr(name, text, stored)
    return out.getvalue()


def word(body, **parts):
    """Return a Word document with this body."""
    return packed({"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>", **parts})


@pytest.mark.parametrize("document", DOCUMENTS, ids=[each["name"] for each in DOCUMENTS])
def test_document_is_read(document):
    """Headings, lists, tables, notes, sheets with dates, and slides in order become Markdown."""
    assert office_text(packed(document["parts"])) == (document.get("title", ""), "\n".join(document["text"]))


def test_other_files_return_none():
    """Texts and archives that are not office documents return None."""
    assert office_text(b"# Text") is None
    assert office_text(packed({"a.txt": "x"})) is None
    assert office_text(packed({"backup/word/document.xml": "<x/>"})) is None
    assert office_text(packed({"mimetype": "application/epub+zip", "content.xml": "<x/>"})) is None
    assert text_of(b"plain") is None


def bomb(name):
    """Return malicious or malformed XML."""
    deep = "<w:p>" * 300_000
    return {
        "entities": '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><w:document>&b;</w:document>',
        "an external entity": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><w:document>&a;</w:document>',
        "another encoding": '<?xml version="1.0" encoding="cp037"?><w:document/>',
        "UTF-16": '<?xml version="1.0" encoding="UTF-16"?><w:document/>'.encode("utf-16"),
        "no XML": "word",
        "XML without an end": f"<w:document {W}>{deep}",
        "an unknown entity": "<w:document>&nbsp;</w:document>",
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        *("entities", "an external entity", "another encoding", "UTF-16", "no XML", "XML without an end"),
        "an unknown entity",
    ],
)
def test_malicious_xml_is_rejected(name):
    """XML with entities, an unsupported encoding or a syntax error raises an error."""
    with pytest.raises(ToolError, match="damaged"):
        office_text(packed({"word/document.xml": bomb(name)}))


def test_damaged_or_encrypted_archive_raises():
    """A truncated or damaged archive, or a document in the old format, raises an error."""
    full_text = word("<w:p><w:r><w:t>Hello</w:t></w:r></w:p>" * 5_000)
    for body in (full_text[: len(full_text) // 2], full_text[:60] + b"\xff" * 40 + full_text[100:]):
        with pytest.raises(ToolError, match="damaged or encrypted"):
            office_text(body)
    with pytest.raises(ToolError, match="old format"):
        office_text(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))


def test_part_that_exceeds_a_limit_raises():
    """A part that exceeds the limit of bytes or elements raises an error."""
    blanks, elements = word(" " * 1_000_000), word("<w:b/>" * 5_000)
    assert len(blanks) < 2_000
    assert len([*Archive(elements, max_events=11_000).events("word/document.xml")]) == 10_004
    for small in (Archive(blanks, max_bytes=900_000), Archive(elements, max_events=9_000)):
        with pytest.raises(ToolError, match="too large"):
            list(small.events("word/document.xml"))


CELL, END = "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"
TEXT = "<w:p><w:t>x</w:t></w:p>"
SHEET = '<sheet name="a" r:id="r1"/>'


def book(sheet, sheets=SHEET, texts=""):
    """Return an Excel workbook whose sheets are all this one."""
    return packed(
        {
            "xl/workbook.xml": f'<workbook xmlns:r="r">{sheets}</workbook>',
            "xl/_rels/workbook.xml.rels": RELATIONS.format(RELATION.format("r1", "a.xml")),
            "xl/sharedStrings.xml": f"<sst>{texts}</sst>",
            "xl/a.xml": f"<worksheet>{sheet}</worksheet>",
        }
    )


PARAGRAPH = "<o:table-cell><o:p>x</o:p></o:table-cell>"


def open_sheet(body):
    """Return an OpenDocument spreadsheet."""
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return packed({"mimetype": kind, "content.xml": f'<o:c xmlns:o="o">{body}</o:c>'})


@pytest.mark.parametrize(
    "made",
    [
        lambda: word(f'<w:p w:a="{"a" * 30_000_000}"/>'),
        lambda: word(f"<!--{'a' * 30_000_000}-->"),
        lambda: open_sheet(
            "<o:table><o:table-row>"
            + "<o:table-cell o:number-columns-repeated='100'/>" * 25_000
            + PARAGRAPH
            + "</o:table-row></o:table>"
        ),
    ],
    ids=["attribute", "remark", "repeated"],
)
def test_expensive_document_is_rejected(made):
    """A compressed document that expands to long tags or countless cells raises an error."""
    with pytest.raises(ToolError, match="too large to be read"):
        office_text(made())


@pytest.mark.parametrize(
    "made",
    [
        lambda: book('<row><c r="ALL1"/></row>' * 500),
        lambda: open_sheet(
            "<o:table>"
            + "<o:table-row><o:table-cell o:number-columns-repeated='1000'/></o:table-row>" * 500
            + f"<o:table-row>{PARAGRAPH}</o:table-row></o:table>"
        ),
    ],
    ids=["far", "repeated"],
)
def test_empty_cells_are_not_built(made):
    """Thousands of empty repeated cells are not built one by one."""
    calls = collections.Counter()
    document = made()
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    office_text(document)
    sys.setprofile(None)
    assert calls["call"] + calls["c_call"] < 40_000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_rejected(method):
    """Archive members with BZIP2 or LZMA compression raise an error."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        made.writestr("word/document.xml", f"<w:document {W}>{TEXT}</w:document>")
    with pytest.raises(ToolError, match="damaged"):
        office_text(out.getvalue())


def test_short_rows_are_not_padded():
    """Short rows are not padded to the widest row, and deeply nested tables become cell text."""
    row = f"<w:tr><w:tc>{TEXT}</w:tc></w:tr>"
    wide = f"<w:tr>{'<w:tc/>' * 20_000}<w:tc>{TEXT}</w:tc></w:tr>"
    assert office_text(word(f"<w:tbl>{wide}{row * 2_000}</w:tbl>"))[1].endswith("\n| x |\n| x |")
    assert office_text(word((CELL + TEXT) * 3_000 + END * 3_000))[1].split("\n")[0] == "| " + "x " * 3_000 + "|"


def test_repeated_shared_string_is_limited():
    """A shared string used by many cells is repeated only up to the output limit."""
    cell = '<c t="s"><v>0</v></c>'
    text = office_text(book(f"<row>{cell * 100_000}</row>", texts=f"<si><t>{'y' * 3_000_000}</t></si>"))[1]
    assert text == "## a\n\n" + ",".join(["y" * 3_000_000] * 7)[: len(text) - 6]
    assert len(text) <= 20_000_010


@pytest.mark.slow
def test_sheet_is_read_up_to_the_output_limit():
    """A sheet with wide rows is read only up to the output limit."""
    row = '<row><c r="ALL1"><v>1</v></c></row>'
    text = office_text(book(row * 40_000 + "<row><c>"))[1]
    assert 19_000_000 < len(text) < 20_010_000


def test_sheet_listed_several_times_is_read_once():
    """A sheet that is listed several times is read once."""
    text = office_text(book("<row><c><v>7</v></c></row>", SHEET * 3))[1]
    assert text == "## a\n\n7\n\n## a\n\n## a"


def test_document_without_text_raises():
    """A document without text raises an error."""
    with pytest.raises(ToolError, match="contains no text"):
        office_text(word("<w:p/>"))


@pytest.mark.parametrize(
    "body",
    [
        "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>",
        "<w:tr><w:tc/></w:tr><w:p><w:r><w:t>x</w:t></w:r></w:p>",
        "<w:tbl><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tbl>",
        "<w:tbl><w:tr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tr></w:tbl>",
        "<w:p><w:outlineLvl/><w:pStyle/><w:r><w:t>x</w:t></w:r></w:p>",
    ],
)
def test_text_of_misplaced_elements_is_preserved(body):
    """The text of misplaced elements is preserved."""
    assert office_text(word(body)) == ("", "x")


def test_cell_in_a_far_column_is_moved():
    """A cell beyond column 1000 is moved to the next free column."""
    rows = '<row><c r="XFD1"><v>1</v></c><c r="A1"><v>2</v></c><c><v>3</v></c></row>'
    sheet = packed(
        {
            "xl/workbook.xml": '<workbook xmlns:r="r"><sheets><sheet name="S" r:id="a"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": RELATIONS.format(RELATION.format("a", "worksheets/s.xml")),
            "xl/worksheets/s.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
        }
    )
    assert office_text(sheet) == ("", f"## S\n\n{',' * 1000}1,2,3")


def test_targets_are_relative_to_their_part():
    """Targets are relative to the part that contains them, or to the package root."""
    targets = RELATION.format("a", "../one.xml") + RELATION.format("b", "/two.xml") + RELATION.format("c", "three.xml")
    made = Archive(packed({"ppt/_rels/presentation.xml.rels": RELATIONS.format(targets)}))
    related = made.relationships("ppt/presentation.xml")
    assert {key: found.target for key, found in related.items()} == {
        "a": "one.xml",
        "b": "two.xml",
        "c": "ppt/three.xml",
    }
