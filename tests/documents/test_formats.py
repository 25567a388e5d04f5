"""Tests for documents of every format, as Markdown for read_file and knowledge."""

import email.message
import io
import json
import zipfile
from pathlib import Path

import pypdf
import pytest

from agentkit.documents import text_of
from agentkit.documents.parsing import document_kind, parse_document
from agentkit.errors import ToolError
from agentkit.knowledge import Knowledge

FILES = Path(__file__).parent / "files"
NAMES = sorted(path.name for path in FILES.iterdir() if path.suffix != ".md")
WORD = '<w:document xmlns:w="w" xmlns:r="r" xmlns:a="a" xmlns:c="c" xmlns:dgm="d"><w:body>{}</w:body></w:document>'
RELATIONS = '<Relationships xmlns="r">{}</Relationships>'
RELATION = '<Relationship Id="{}" Type="x/{}" Target="{}"{}/>'


def packed(parts):
    """Return an archive of these parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, text in parts.items():
            made.writestr(name, text, zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED)
    return out.getvalue()


@pytest.mark.for_each("name", NAMES)
def test_document_becomes_its_markdown(name):
    """Documents of LibreOffice, pandoc and four Python libraries become exactly the Markdown next to them."""
    expected = (FILES / f"{name}.md").read_text("utf-8")
    assert f"{text_of((FILES / name).read_bytes())}\n" == expected


@pytest.mark.slow
def test_knowledge_finds_words_of_documents(tmp_path):
    """Every document is added, and found by its words."""
    knowledge = Knowledge(tmp_path / "k.db")
    result = knowledge.add(FILES, metadata={"set": "files"})
    assert len([source for source in result.added if not source.endswith(".md")]) == len(NAMES)
    found = {Path(chunk.source).name for chunk in knowledge.search("bowline loop strength", 20)}
    assert {"guide-pandoc.rtf", "guide-libreoffice.docx", "guide-pandoc.ipynb", "guide-libreoffice.pdf"} <= found
    assert "mooring" in knowledge.search("confidential draft of the harbour office")[0].source
    assert "tides" in knowledge.search("storm surge notes")[0].source


def test_mail_is_decoded():
    """A message has its headers, its decoded text, attached messages, and a list of other attachments."""
    inner = email.message.EmailMessage()
    inner["From"], inner["Subject"] = "ada@example.org", "Older"
    inner.set_content("Inside.")
    message = email.message.EmailMessage()
    message["From"], message["To"] = "Jürgen <j@example.org>", "team@example.org"
    message["Subject"], message["MIME-Version"] = "Übergabe am Montag", "1.0"
    message.set_content("Grüße aus Köln, bis Montag.\n", cte="base64")
    message.add_alternative("<p>HTML</p>", subtype="html")
    message.add_attachment(b"x" * 1_234, maintype="application", subtype="pdf", filename="plan.pdf")
    message.add_attachment(inner)
    document = parse_document(message.as_bytes())
    assert (document.kind, document.title) == ("mail", "Übergabe am Montag")
    assert document.text == (
        "From: Jürgen <j@example.org>\nTo: team@example.org\nSubject: Übergabe am Montag\n\n"
        "Grüße aus Köln, bis Montag.\n\nAttached message:\n\nFrom: ada@example.org\nSubject: Older\n\nInside.\n\n"
        "Attachments:\n- plan.pdf (application/pdf, 1,234 bytes)"
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            b"Content-Type: text/html; charset=x-none\r\n\r\n<style>x</style><p>One &amp; two<br>three</p><p>four</p>",
            "One & two\nthree\n\nfour",
        ),
        (b"Content-Type: text/plain; charset=koi8-r\r\n\r\n\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\nno parts", ""),
    ],
)
def test_mail_of_other_programs_is_read(body, text):
    """HTML without a plain version, legacy charsets, unknown charsets and damage are read as far as possible."""
    document = parse_document(b"From: a@example.org\r\nMessage-ID: <1>\r\nSubject: s\r\n" + body)
    assert document.text.removeprefix("From: a@example.org\nSubject: s").strip() == text


def test_notebook_has_bounded_outputs():
    """A notebook has its texts, its code, and the beginning of long outputs; pictures are named, colours removed."""
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {
            "cell_type": "code",
            "source": "plot(x)",
            "outputs": [
                {"output_type": "stream", "text": ["a" * 3_000]},
                {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": "<Figure>"}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE\x1b[0m", "at line 1"]},
                {"output_type": "error", "ename": "KeyError", "evalue": "k", "traceback": []},
                {"output_type": "execute_result", "data": {}},
            ],
        },
        {"cell_type": "code", "source": "", "outputs": None},
    ]
    metadata = {"kernelspec": {"name": "python3"}, "title": "Plots"}
    document = parse_document(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}).encode())
    assert document.title == "Plots"
    assert document.text == (
        "# Title\nText.\n\n```python\nplot(x)\n```\n\n"
        f"Output:\n```\n{'a' * 2_000}\n[1,000 more characters of output]\n```"
        "\n\nOutput:\n```\n<Figure>\n[image/png]\n```\n\nOutput:\n```\nE\nat line 1\n```"
        "\n\nOutput:\n```\nKeyError: k\n```"
    )
    old = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": "1 + 1"}]}], "metadata": {}}
    assert parse_document(json.dumps(old).encode()).text == "```python\n1 + 1\n```"
    with pytest.raises(ToolError, match="notebook is damaged"):
        parse_document(b'{"nbformat": 4, "cells": [1]}')


@pytest.mark.for_each(
    ("rtf", "text"),
    [
        (rb"Gr\'fc\'dfe \u228\'96 ok\par\b bold\b0", "Grüße ä ok\n\nbold"),
        (rb"\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2", "Привет"),
        (rb"{\fonttbl{\f0\fcharset204 Arial;}{\f1\fcharset128 M;}}\f0 \'cf\'f0\f1 \'82\'a0", "Прあ"),
        (rb"\ansicpg99999 \'e9", "é"),
        (rb"\u-3912?x\uc2\u233ab c", "\uf0b8x\u00e9 c"),
        (rb"a\~b\_c\-d\{\}\\ \emdash\tab e\line f", "a\u00a0b-cd{}\\ \u2014\te\nf"),
        (rb"{\*\unknown lost}{\pict 89504e47}{\info{\title T}}kept", "kept"),
        (rb"{\header Top\par}{\footer 3\par}Body{\footnote See 1.}\par", "Body\n\nHeader: Top\n\nSee 1."),
        (rb"{\listtext\'b7\tab}item\par 2.\tab two\par", "- item\n\n2. two"),
        (rb"{\stylesheet{\s1\outlinelevel1 heading 2;}}\s1 Head\par\pard x\par\outlinelevel9 y", "## Head\n\nx\n\ny"),
        (
            rb"\trowd\intbl a\cell b\par c\cell\row\intbl d|\cell\cell\row\pard end",
            "| a | b c |\n|---|---|\n| d\\| |  |\n\nend",
        ),
        (rb"x{\super 2}{\super 3}, H{\sub 2}O 2{\super nd}\super0 .", "x^23, H₂O 2nd."),
        (b"{" * 2_000 + b"deep" + b"}" * 2_100 + b" more", "deep more"),
    ],
)
def test_rtf_is_read(rtf, text):
    """Encodings, fonts, notes, lists, tables and styles of RTF become Markdown."""
    assert parse_document(rb"{\rtf1\ansi " + rtf + b"}").text == text


def test_word_numbering_links_and_charts():
    """Word numbering, links, comments, charts and diagrams are converted."""
    levels = (
        '<w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:start w:val="x"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl>'
        '<w:lvl w:ilvl="2"><w:numFmt w:val="none"/></w:lvl><w:lvl w:ilvl="3"><w:numFmt w:val="decimalZero"/></w:lvl>'
    )
    numbering = (
        f'<w:numbering xmlns:w="w"><w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>'
        "</w:lvlOverride></w:num></w:numbering>"
    )

    def item(text, depth=0, number=1):
        numbered = f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>'
        return f"<w:p><w:pPr>{numbered}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"

    styles = (
        '<w:styles xmlns:w="w"><w:style w:styleId="H"><w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="2"/>'
        '</w:numPr></w:pPr></w:style><w:style w:styleId="I"><w:name w:val="Inner"/><w:basedOn w:val="H"/></w:style>'
        '<w:style w:styleId="J"><w:name w:val="Deep"/><w:pPr><w:numPr><w:ilvl w:val="1"/></w:numPr></w:pPr></w:style>'
        "</w:styles>"
    )
    body = (
        item("a")
        + item("b", 1)
        + item("c", 1)
        + item("d")
        + item("e", 1)
        + item("f", 2)
        + item("g", 3)
        + item("h", 0, 0)
        + '<w:p><w:pPr><w:pStyle w:val="H"/></w:pPr><w:r><w:t>Head</w:t></w:r></w:p>'
        + '<w:p><w:pPr><w:pStyle w:val="I"/></w:pPr><w:hyperlink r:id="l"><w:r><w:t>site</w:t></w:r></w:hyperlink>'
        + '<w:hyperlink w:anchor="x"><w:r><w:t> here</w:t></w:r></w:hyperlink></w:p>'
        + '<w:p><w:r><c:chart r:id="k"/><dgm:relIds r:dm="g"/><c:chart r:id="none"/></w:r></w:p>'
    )
    related = (
        RELATION.format("l", "hyperlink", "https://example.org/", ' TargetMode="External"')
        + RELATION.format("k", "chart", "charts/k.xml", "")
        + RELATION.format("g", "diagramData", "g.xml", "")
        + RELATION.format("m", "comments", "comments.xml", "")
        + "".join(RELATION.format(f"h{n}", "header", f"h{n}.xml", "") for n in range(2))
    )
    header = '<w:hdr xmlns:w="w"><w:p><w:r><w:t>Top</w:t></w:r></w:p></w:hdr>'
    document = packed(
        {
            "word/document.xml": WORD.format(body),
            "word/numbering.xml": numbering,
            "word/styles.xml": styles,
            "word/_rels/document.xml.rels": RELATIONS.format(related),
            "word/comments.xml": header.replace("Top", "Really?").replace("hdr", "comments"),
            "word/h0.xml": header,
            "word/h1.xml": header,
            "word/g.xml": '<d xmlns:a="a"><a:p><a:r><a:t>Step one</a:t></a:r></a:p></d>',
            "word/charts/k.xml": '<c:chart xmlns:c="c"><c:ser><c:val><c:v>1</c:v><c:v>2</c:v></c:val></c:ser>'
            "</c:chart>",
        }
    )
    assert text_of(document).split("\n\n") == [
        *("III. a", "   III.a) b", "   III.b) c", "IV. d", "   IV.a) e", "f", "         01. g", "h", "# I. Head"),
        *("II. [site](https://example.org/) here", "Chart", "|  |  |\n|---|---|\n|  | 1 |\n|  | 2 |", "Step one"),
        *("Comment: Really?", "Header: Top"),
    ]


def test_sheets_with_formulas_and_names():
    """A formula without a value is shown as text; hidden sheets, drawings and unknown styles are read."""
    sheet = (
        '<worksheet><row r="1"><c r="A1"><f>B1*2</f></c><c r="B1" s="7"><v>1.10</v></c><c r="C1"><f t="shared" si="0"/>'
        '</c><c r="D1" t="s"><v>5</v></c><c r="E1"/></row><hyperlink ref="A1"/></worksheet>'
    )
    related = RELATION.format("d", "drawing", "../d.xml", "") + RELATION.format("e", "hyperlink", "x", "")
    body = packed(
        {
            "xl/workbook.xml": '<workbook xmlns:r="r"><workbookPr date1904="0"/>'
            '<sheet name="S" state="hidden" r:id="a"/><sheet name="T" r:id="none"/></workbook>',
            "xl/_rels/workbook.xml.rels": RELATIONS.format(RELATION.format("a", "worksheet", "s/a.xml", "")),
            "xl/s/a.xml": sheet,
            "xl/s/_rels/a.xml.rels": RELATIONS.format(related),
            "xl/_rels/d.xml.rels": RELATIONS.format(RELATION.format("i", "image", "i.png", "")),
        }
    )
    assert text_of(body) == "## S (hidden)\n\n=B1*2,1.1,(formula without a stored value)\n\n## T"


def pdf_with(text, password=None, **options):
    """Return a PDF whose page has these lines."""
    lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n"))
    stream = f"BT /F1 12 Tf 50 700 Td {lines}ET".encode("latin-1")
    body = (
        b"%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj\n"
        b"3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1<</Type/Font"
        b"/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>>>>>>> endobj\n4 0 obj <</Length "
        + f"{len(stream)}".encode()
        + b">> stream\n"
        + stream
        + b"\nendstream endobj\ntrailer <</Size 5/Root 1 0 R>>\nstartxref\n0\n%%EOF\n"
    )
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(body))
    if password is not None:
        writer.encrypt(password, **options)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_divided_words_of_a_pdf_are_joined(tmp_path):
    """Words hyphenated at line ends are joined; compounds that occur with a hyphen elsewhere keep it."""
    text = "The hyphen-\nation of long-\nterm plans is a long-term task, co\xad\noperation of A-\nTeams, 10-\n20"
    body = pdf_with(text)
    assert " ".join(text_of(body).split()) == (
        "[Page 1] The hyphenation of long-term plans is a long-term task, cooperation of A-Teams , 10-20"
    )
    (tmp_path / "a.pdf").write_bytes(body)
    knowledge = Knowledge(tmp_path / "k.db")
    knowledge.add(tmp_path / "a.pdf")
    assert knowledge.search("hyphenation")
    assert knowledge.search("cooperation")


def test_pdf_with_leading_bytes_is_read():
    """Bytes before the header and a password that only restricts changes do not prevent reading."""
    assert "Hello" in text_of(b"\r\n--boundary\r\nContent-Type: x\r\n\r\n" + pdf_with("Hello"))
    assert "Hello" in text_of(pdf_with("Hello", "", owner_password="o", algorithm="RC4-128"))
    assert document_kind(b"The header of a PDF is %PDF-1.7.") is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda: pdf_with("x", "secret", algorithm="RC4-128"), "the PDF is encrypted with a password"),
        (lambda: b"%PDF-1.7\nstartxref\n", "the PDF is cut off"),
        (
            lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "encrypted with a password",
        ),
        (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"WordDocument", "of an old format"),
        (lambda: encrypted_text("<m:x xmlns:m='m'><m:encryption-data/></m:x>"), "encrypted with a password"),
        (lambda: encrypted_text("<x/>"), "damaged or encrypted"),
        (lambda: encrypted_text("no XML"), "damaged or encrypted"),
    ],
)
def test_error_names_the_reason(body, reason):
    """Encrypted, old and damaged documents raise different errors."""
    with pytest.raises(ToolError, match=reason):
        parse_document(body())


def encrypted_text(manifest):
    """Return an OpenDocument text whose content is not XML."""
    kind = "application/vnd.oasis.opendocument.text"
    return packed({"mimetype": kind, "content.xml": "\x8f\x01random", "META-INF/manifest.xml": manifest})


@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        ("Content-Type: text/plain; charset=koi8-r\n", "Привет, мир".encode("koi8-r"), "Привет, мир"),
        ("", "Größe und Maß".encode("cp1252"), "Größe und Maß"),
        ("Content-Type: text/plain; charset=unknown\n", "Grüße".encode(), "Grüße"),
        ("Content-Type: text/plain; charset=iso-2022-jp\n", b"\x1b$B%F%9%H\x1b(B", "テスト"),
    ],
)
def test_mail_in_any_encoding(headers, body, text):
    """The text of a message is decoded as declared; without a valid declaration the encoding is detected."""
    source = f"From: x@example.org\nMessage-ID: <1@x>\nSubject: S\n{headers}\n".encode() + body + b"\n"
    assert text in text_of(source)


def test_symbols_and_formulas_of_word():
    """Symbols are written as characters, and the parts of formulas keep their meaning."""
    run = '<w:r><w:sym w:font="{}" w:char="{}"/></w:r>'
    marks = "".join(
        run.format(*each) for each in (("Wingdings", "F0FC"), ("Symbol", "F061"), ("Odd", "F0FC"), ("Symbol", "x"))
    )
    part = "<m:{0}><m:r><m:t>{1}</m:t></m:r></m:{0}>"
    fraction = f"<m:f>{part.format('num', 'a + b')}{part.format('den', '2')}</m:f>"
    power = f"<m:sSup>{part.format('e', 'x')}{part.format('sup', 'n + 1')}</m:sSup>"
    root = f"<m:rad>{part.format('deg', '')}{part.format('e', 'y z')}</m:rad>"
    body = f"<w:p>{marks}</w:p><w:p><m:oMath>{fraction}{power}{root}</m:oMath></w:p>"
    text = text_of(packed({"word/document.xml": WORD.format(body).replace("<w:document", '<w:document xmlns:m="m"')}))
    assert text == "✓\u03b1\n\n(a + b)/2x^(n + 1)√(y z)"
