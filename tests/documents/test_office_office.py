"""Is a document of an office program read as its author sees it, and is one that is hostile refused?"""

import collections
import io
import json
import sys
import zipfile
from pathlib import Path

import pytest

from agentkit.documents import text_of
from agentkit.documents.archive import Archive
from agentkit.documents.office import text_of_office
from agentkit.errors import ToolError

W = 'xmlns:w="w" xmlns:mc="mc"'
RELATIONS = '<Relationships xmlns="r">{}</Relationships>'
RELATION = '<Relationship Id="{}" Target="{}"/>'
DOCUMENTS = json.loads((Path(__file__).parent / "documents.json").read_text("utf-8"))


def packed(parts):
    """An archive of these parts, of which the kind is stored as it is."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, text in parts.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            made.writestr(name, text, stored)
    return out.getvalue()


def word(body, **parts):
    """A document of Word with this body."""
    return packed({"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>", **parts})


@pytest.mark.parametrize("document", DOCUMENTS, ids=[each["name"] for each in DOCUMENTS])
def test_a_document_is_read(document):
    """Headings, lists, tables, notes, sheets with dates, and slides in their order become Markdown."""
    assert text_of_office(packed(document["parts"])) == (document.get("title", ""), "\n".join(document["text"]))


def test_what_no_office_program_writes_is_left_to_others():
    """Texts, other archives, and archives that hold documents are none."""
    assert text_of_office(b"# Text") is None
    assert text_of_office(packed({"a.txt": "x"})) is None
    assert text_of_office(packed({"backup/word/document.xml": "<x/>"})) is None
    assert text_of_office(packed({"mimetype": "application/epub+zip", "content.xml": "<x/>"})) is None
    assert text_of(b"plain") is None


def bomb(name):
    """XML that nobody should read."""
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
def test_xml_of_strangers_is_refused(name):
    """Entities, other encodings and what is no XML are told as damage; nothing of them is followed."""
    with pytest.raises(ToolError, match="damaged"):
        text_of_office(packed({"word/document.xml": bomb(name)}))


def test_a_damaged_or_encrypted_archive_is_told():
    """An archive that is cut off, broken inside, or of the format of old and encrypted documents is refused."""
    whole = word("<w:p><w:r><w:t>Hello</w:t></w:r></w:p>" * 5_000)
    for body in (whole[: len(whole) // 2], whole[:60] + b"\xff" * 40 + whole[100:]):
        with pytest.raises(ToolError, match="damaged or encrypted"):
            text_of_office(body)
    with pytest.raises(ToolError, match="old format"):
        text_of_office(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))


def test_what_unpacks_to_too_much_is_not_read():
    """A small archive may hold a gigabyte: reading ends where it is too much, in bytes and in elements."""
    blanks, elements = word(" " * 1_000_000), word("<w:b/>" * 5_000)
    assert len(blanks) < 2_000
    assert len([*Archive(elements, most_events=11_000).events("word/document.xml")]) == 10_004
    for small in (Archive(blanks, most_bytes=900_000), Archive(elements, most_events=9_000)):
        with pytest.raises(ToolError, match="too large"):
            list(small.events("word/document.xml"))


CELL, END = "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"
TEXT = "<w:p><w:t>x</w:t></w:p>"
SHEET = '<sheet name="a" r:id="r1"/>'


def book(sheet, sheets=SHEET, texts=""):
    """A document of Excel, of which all sheets are this one."""
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
    """A spreadsheet of OpenDocument."""
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
def test_what_takes_long_or_much_is_not_read(made):
    """A few bytes can stand for a tag that is read anew with each piece, and for cells without number."""
    with pytest.raises(ToolError, match="too large to be read"):
        text_of_office(made())


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
def test_empty_cells_are_no_work(made):
    """A few bytes can stand for thousands of empty cells, which are neither built nor taken away one by one."""
    calls = collections.Counter()
    document = made()
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    text_of_office(document)
    sys.setprofile(None)
    assert calls["call"] + calls["c_call"] < 40_000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_unpacked_at_once_is_not_unpacked(method):
    """A piece that is packed otherwise than office programs do may hold gigabytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        made.writestr("word/document.xml", f"<w:document {W}>{TEXT}</w:document>")
    with pytest.raises(ToolError, match="damaged"):
        text_of_office(out.getvalue())


def test_short_rows_beside_a_wide_one_are_not_filled_up():
    """Few cells stay few, however wide the table is; tables far within others belong to the cell around them."""
    row = f"<w:tr><w:tc>{TEXT}</w:tc></w:tr>"
    wide = f"<w:tr>{'<w:tc/>' * 20_000}<w:tc>{TEXT}</w:tc></w:tr>"
    assert text_of_office(word(f"<w:tbl>{wide}{row * 2_000}</w:tbl>"))[1].endswith("\n| x |\n| x |")
    assert text_of_office(word((CELL + TEXT) * 3_000 + END * 3_000))[1].split("\n")[0] == "| " + "x " * 3_000 + "|"


def test_a_long_text_is_not_told_for_each_cell():
    """What many cells refer to is told as often as there is room for it."""
    cell = '<c t="s"><v>0</v></c>'
    text = text_of_office(book(f"<row>{cell * 100_000}</row>", texts=f"<si><t>{'y' * 3_000_000}</t></si>"))[1]
    assert text == "## a\n\n" + ",".join(["y" * 3_000_000] * 7)[: len(text) - 6]
    assert len(text) <= 20_000_010


@pytest.mark.slow
def test_what_there_is_no_room_for_is_not_read():
    """A sheet whose rows are wide is read as far as it is told, and no further."""
    row = '<row><c r="ALL1"><v>1</v></c></row>'
    text = text_of_office(book(row * 40_000 + "<row><c>"))[1]
    assert 19_000_000 < len(text) < 20_010_000


def test_a_part_is_read_once():
    """A sheet that is listed many times, under one name or several, is read and told once."""
    text = text_of_office(book("<row><c><v>7</v></c></row>", SHEET * 3))[1]
    assert text == "## a\n\n7\n\n## a\n\n## a"


def test_a_document_without_text_is_told():
    """A document of pictures alone says that it holds no text."""
    with pytest.raises(ToolError, match="holds no text"):
        text_of_office(word("<w:p/>"))


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
def test_elements_out_of_place_lose_no_text(body):
    """Cells without rows, rows without tables and settings without values are read as far as they can be."""
    assert text_of_office(word(body)) == ("", "x")


def test_a_cell_in_a_far_column_is_moved_near():
    """A column beyond the thousandth is told as the next one, and no row becomes longer."""
    rows = '<row><c r="XFD1"><v>1</v></c><c r="A1"><v>2</v></c><c><v>3</v></c></row>'
    sheet = packed(
        {
            "xl/workbook.xml": '<workbook xmlns:r="r"><sheets><sheet name="S" r:id="a"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": RELATIONS.format(RELATION.format("a", "worksheets/s.xml")),
            "xl/worksheets/s.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
        }
    )
    assert text_of_office(sheet) == ("", f"## S\n\n{',' * 1000}1,2,3")


def test_parts_are_found_from_where_they_are_named():
    """Targets are relative to the part that names them, or to the whole."""
    targets = RELATION.format("a", "../one.xml") + RELATION.format("b", "/two.xml") + RELATION.format("c", "three.xml")
    made = Archive(packed({"ppt/_rels/presentation.xml.rels": RELATIONS.format(targets)}))
    related = made.relationships("ppt/presentation.xml")
    assert {key: found.target for key, found in related.items()} == {
        "a": "one.xml",
        "b": "two.xml",
        "c": "ppt/three.xml",
    }
