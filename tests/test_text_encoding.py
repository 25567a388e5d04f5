"""Tests for the decoding of text with an unknown encoding."""

import codecs
import json
import re
from pathlib import Path

import pytest

from agentkit.errors import ToolError
from agentkit.knowledge import Knowledge
from agentkit.text_encoding import decode_text, lazy_pattern
from agentkit.tools.files import edit_file_in, read_file_in, search_files_in
from agentkit.workspace.workspace import Workspace

ROWS = [json.loads(line) for line in Path(__file__).with_name("text_encodings.jsonl").read_text("utf-8").splitlines()]
RUSSIAN = next(row["text"] for row in ROWS if row["encoding"] == "cp1251")


@pytest.mark.for_each(("encoding", "text"), [(row["encoding"], row["text"]) for row in ROWS])
def test_encoding_is_detected(encoding, text):
    """Texts in many languages are decoded, and legacy encodings are reported with a confidence."""
    decoded = decode_text(text.encode(encoding))
    assert decoded.text == text
    assert ("confidence of" in decoded.note) is not encoding.startswith(("utf-16", "iso2022"))
    assert decoded.encode(text) == text.encode(encoding)


@pytest.mark.parametrize("line", [1, 3])
@pytest.mark.parametrize("damage", [b"\xff", b"\xe9", b"\xc3"])
def test_one_bad_byte_leaves_the_rest(line, damage):
    """A damaged byte in UTF-8 preserves the other characters, and the note contains the line."""
    lines = ["Grüße aus Köln", "Đường phố", "日本語"]
    lines[line - 1] += "\0"
    decoded = decode_text("\n".join(lines).encode().replace(b"\0", damage + b" "))
    assert decoded.text == "\n".join(lines).replace("\0", "\ufffd ")
    assert decoded.note == (f"It is not valid UTF-8: 1 damaged character is shown as \ufffd, the first in line {line}.")


def test_text_cut_in_its_last_character_is_read():
    """A whole file that ends within a character has a note, and the start of a longer file has none."""
    content = "Cà phê sữa đá".encode()[:-1]
    assert decode_text(content).text == "Cà phê sữa đ\ufffd"
    assert "1 damaged character" in decode_text(content).note
    assert decode_text(content, is_cut=True).note == ""
    assert decode_text("né".encode("utf-16-le")[:3], is_cut=True).text == "n"


@pytest.mark.for_each(
    "content",
    [
        b"\x7fELF\x02\x01\x01\0\0\0",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        bytes(range(256)),
        b"\xff\x01\x02\x03\x04" * 9,
        b"\0" * 100,
        b"a\0b",
        b"a\0b\0\x01\0\x02\0",
        bytes(range(1, 250)) * 8 + b"\0\0\0",
        codecs.BOM_UTF16_LE + b"\0",
    ],
)
def test_binary_content_is_not_text(content):
    """Binary content is not decoded as text."""
    assert decode_text(content) is None


@pytest.mark.parametrize(
    ("content", "text", "encoding"),
    [
        (b"caf\xe9", "café", "cp1252"),
        (b"n\xc3", "nÃ", "cp1252"),
        (b"caf\xe9 \x81", "café \x81", "latin-1"),
        (b"\x1b$ is no escape sequence", "\x1b$ is no escape sequence", "utf-8"),
        (codecs.BOM_UTF8 + b"a\xff\xc3\xa9", "a\ufffdé", "utf-8"),
    ],
)
def test_little_evidence_means_western_european(content, text, encoding):
    """With little evidence a text is decoded as Western European."""
    decoded = decode_text(content)
    assert (decoded.text, decoded.encoding) == (text, encoding)


def test_file_tools_preserve_legacy_encodings(tmp_path):
    """read_file names encoding and confidence; edit_file keeps the encoding and the damaged bytes of a file."""
    workspace = Workspace(tmp_path)
    (tmp_path / "list.csv").write_bytes(RUSSIAN.encode("cp1251"))
    (tmp_path / "bad.txt").write_bytes("Grüße, Köln, Äpfel, Öl".encode() + b"\xff\nend\n")
    read, edit = read_file_in(workspace), edit_file_in(workspace)
    result = read(path="list.csv")
    assert (result["content"], result["encoding"]) == (RUSSIAN, "cp1251")
    assert "with a confidence of" in result["note"]
    assert edit(path="list.csv", old_text="мир", new_text="Мир")["success"]
    assert (tmp_path / "list.csv").read_bytes() == RUSSIAN.replace("мир", "Мир").encode("cp1251")
    assert "1 damaged character" in read(path="bad.txt")["note"]
    assert edit(path="bad.txt", old_text="end", new_text="fin")["success"]
    assert (tmp_path / "bad.txt").read_bytes() == "Grüße, Köln, Äpfel, Öl".encode() + b"\xff\nfin\n"
    assert search_files_in(workspace)(pattern="Мир")["matches"][0]["path"] == "list.csv"


def test_file_that_would_change_by_decoding_is_not_edited(tmp_path):
    """A file that does not round-trip through its encoding is not edited."""
    (tmp_path / "odd.txt").write_bytes(codecs.BOM_UTF16_LE + b"a\0\x00\xd8b\0")
    result = edit_file_in(Workspace(tmp_path))(path="odd.txt", old_text="a", new_text="c")
    assert "cannot be edited" in result["error"]


def test_home_folder_is_expanded(tmp_path, monkeypatch):
    """`~` is the home folder, which is read inside the workspace and denied outside of it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("x")
    read = read_file_in(Workspace(tmp_path / "ws"))
    assert read(path="~/ws/a.txt")["content"] == "x"
    assert read.judge({"path": "~/notes.txt"}).rule == "workspace.outside"
    assert read(file_path="~/notes.txt")["status"] == "denied"
    assert "'~no-such-user/x' does not exist" in read(path="~no-such-user/x")["error"]


def test_knowledge_states_the_detected_encoding(tmp_path):
    """A file in a legacy encoding is added with a note, and found by its words."""
    (tmp_path / "notes.txt").write_bytes(RUSSIAN.encode("cp1251"))
    knowledge = Knowledge(tmp_path / "k.db")
    result = knowledge.add(tmp_path / "notes.txt")
    assert "detected as cp1251" in next(iter(result.notes.values()))
    assert knowledge.search("привет")[0].text == RUSSIAN


def test_character_missing_from_an_encoding_is_rejected():
    """A character that a legacy encoding lacks is rejected."""
    with pytest.raises(ToolError, match=r"cp1252, which has no '世'"):
        decode_text(b"caf\xe9").encode("世")


@pytest.mark.parametrize(
    ("content", "text", "note"),
    [
        (codecs.BOM_UTF16_LE + "Grüße, Welt".encode("utf-16-le")[:-1], "Grüße, Wel\ufffd", "1 damaged character is"),
        (codecs.BOM_UTF32_LE + "Grüße".encode("utf-32-le")[:-2], "Grüß\ufffd", "1 damaged character is"),
        (codecs.BOM_UTF8 + "Grüße".encode("latin-1"), "Gr\ufffd\ufffde", "2 damaged characters are"),
        ("Grüße und mehr".encode("utf-16-le") + b"a", "Grüße und mehr", "Its last character is cut off."),
        (codecs.BOM_UTF8 + "Grüße \ufffd".encode(), "Grüße \ufffd", ""),
    ],
)
def test_damaged_unicode_is_decoded_with_a_note(content, text, note):
    """Damaged Unicode is decoded with a note about what was lost."""
    decoded = decode_text(content)
    assert decoded.text == text
    assert note in decoded.note
    assert bool(note) == bool(decoded.note)


def test_text_with_a_few_zeros_is_not_utf16():
    """ASCII text with some zero bytes is binary and not UTF-16."""
    assert decode_text(b"abc\0def\n" * 10) is None


def test_lazy_pattern_is_compiled_on_first_use():
    """A pattern is compiled on the first search and not before."""
    faulty = lazy_pattern("(")
    assert faulty.pattern == "("
    with pytest.raises(re.error):
        faulty.search("")
    shouting = lazy_pattern(r"(\w)\w+!", re.IGNORECASE)
    assert shouting.sub(r"\1.", "Stop! go on") == "S. go on"
    assert [found[1] for found in shouting.finditer("Stop! Now!")] == ["S", "N"]
    assert shouting.fullmatch("no") is None
