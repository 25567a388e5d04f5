"""Tests for chunks of tables, which are split between rows and repeat the header."""

import io
import zipfile

import pytest

from agentkit.knowledge import Knowledge

ROWS = 200


def csv_file():
    """Return comma-separated values, some with several lines."""
    return "\nname,city,note\n" + "".join(f'person{n},town{n},"likes\nthing {n}"\n' for n in range(ROWS))


def markdown():
    """Return a document with a table between texts."""
    rows = "".join(f"| person{n} | town{n}. St. {n} |\n" for n in range(ROWS))
    return f"# Towns\n\nThey are listed here:\n| name | city |\n|:---|---:|\n{rows}\nThe end.\n"


def workbook():
    """Return a workbook with a sheet of two columns and a comment."""
    rows = "".join(
        f"<row><c t='inlineStr'><is><t>{a}</t></is></c><c t='inlineStr'><is><t>{b}</t></is></c></row>"
        for a, b in [("name", "city"), *((f"person{n}", f"town{n}") for n in range(ROWS))]
    )
    relation = '<Relationship Id="{}" Type="x/{}" Target="{}"/>'
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr(
            "xl/workbook.xml", '<w xmlns:r="r"><sheet name="People" r:id="a"/><sheet name="Empty" r:id="b"/></w>'
        )
        made.writestr("xl/_rels/workbook.xml.rels", f"<R>{relation.format('a', 'worksheet', 's.xml')}</R>")
        made.writestr("xl/s.xml", f"<worksheet>{rows}</worksheet>")
        made.writestr("xl/_rels/s.xml.rels", f"<R>{relation.format('c', 'comments', 'c.xml')}</R>")
        made.writestr("xl/c.xml", '<comments><comment ref="A1"><t>checked</t></comment></comments>')
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "body", "header"),
    [
        ("a.csv", lambda: csv_file().encode(), "name,city,note"),
        ("a.tsv", lambda: csv_file().replace(",", "\t").encode(), "name\tcity\tnote"),
        ("a.md", lambda: markdown().encode(), "| name | city |\n|:---|---:|"),
        ("a.xlsx", workbook, "name,city"),
    ],
)
def test_tables_are_cut_at_rows_and_repeat_the_header(name, body, header, tmp_path):
    """Each chunk of a table begins with its header, and contains whole rows; no row is lost or repeated."""
    (tmp_path / name).write_bytes(body())
    knowledge = Knowledge(tmp_path / "k.db", passage_chars=400)
    knowledge.add(tmp_path / name)
    chunks = [chunk for number in range(ROWS) for chunk in knowledge.search(f"person{number}", 1)]
    assert all(f"person{number}" in chunk.text for number, chunk in enumerate(chunks))
    assert all(header in chunk.text and len(chunk.text) <= 400 for chunk in chunks)
    texts = {chunk.number: chunk.text for chunk in chunks}
    assert sum(text.count("person") for text in texts.values()) == ROWS
    assert len(texts) > 5


def test_lines_of_rows_are_those_of_the_file(tmp_path):
    """The position of a chunk of a table is that of its rows."""
    (tmp_path / "a.csv").write_text(csv_file())
    knowledge = Knowledge(tmp_path / "k.db", passage_chars=400)
    knowledge.add(tmp_path / "a.csv")
    (chunk,) = knowledge.search("person77", 1)
    lines = csv_file().split("\n")[chunk.first_line - 1 : chunk.last_line]
    assert "\n".join(lines) == chunk.text.removeprefix("name,city,note\n")


@pytest.mark.parametrize(
    "text",
    [
        "h" * 300 + "\n" + "row one\n" * 5 + "needle\n",
        'name\n"open quote\n' + "row\n" * 3_000 + "needle\n",
        "needle",
        "\n\nneedle\n",
        "a,b\n" + "long " * 500 + "needle\n",
    ],
)
def test_unusual_tables_lose_no_row(text, tmp_path):
    """Long headers, unbalanced quotes and long rows lose nothing."""
    (tmp_path / "a.csv").write_text(text)
    knowledge = Knowledge(tmp_path / "k.db", passage_chars=400)
    knowledge.add(tmp_path / "a.csv")
    assert "needle" in knowledge.search("needle", 1)[0].text


def test_text_around_a_table_is_found(tmp_path):
    """Text before and after a table, notes below a sheet and empty sheets are found."""
    (tmp_path / "a.md").write_text(markdown())
    (tmp_path / "b.xlsx").write_bytes(workbook())
    knowledge = Knowledge(tmp_path / "k.db", passage_chars=400)
    knowledge.add(tmp_path / "a.md", tmp_path / "b.xlsx")
    assert "They are listed here:" in knowledge.search("listed", 1)[0].text
    assert "The end." in knowledge.search("end", 1)[0].text
    assert knowledge.search("checked", 1)[0].section == "People"
    assert "Empty" in knowledge.search("empty", 1)[0].text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("read file", "def readFile(path): ..."),
        ("get user", "function getUserById(id) {}"),
        ("getUserById", "def get_user_by_id(): ..."),
        ("HTTP server", "class HTTPServer: ..."),
        ("parse_url", "fn parseUrl() {}"),
        ("hyphenation", "The hyphen\u00adation of words."),
    ],
)
def test_names_are_found_by_their_parts(question, text, tmp_path):
    """Camel case and snake case names are found by their words and vice versa."""
    knowledge = Knowledge(tmp_path / "k.db")
    knowledge.add_text(text, "a", kind="text")
    knowledge.add_text("Something else entirely.", "b", kind="text")
    assert [chunk.source for chunk in knowledge.search(question)] == ["a"]
