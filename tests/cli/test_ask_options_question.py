"""Tests for the text and attachments of a question: words, files, images, and piped text."""

import base64
import json

import pytest

from agentkit.testing import FakeServer

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(
    ("words", "piped", "question"),
    [
        (["Count", "it."], b"a\r\nb\n", "Count it.\n\na\nb"),
        (["Before.", "-", "After."], b"piped", "Before.\n\npiped\n\nAfter."),
        (["Sum", "up", "@notes.txt", "now."], b"", "Sum up\n\nfrom the file\n\nnow."),
        (["@@ada", "is", "a name"], b"", "@ada is a name"),
        (["@ada what is this?"], b"", "@ada what is this?"),
        (["a@b", "@"], b"", "a@b @"),
        ([], b"only piped", "only piped"),
    ],
)
def test_question_is_assembled(words, piped, question, typed_line, tmp_path):
    """Piped text is appended or replaces `-`; @FILE inserts the file's text, and @@ is a literal @."""
    (tmp_path / "notes.txt").write_text("\ufefffrom the file\n")
    with FakeServer("ok") as server:
        assert typed_line("ask", *words, server=server, piped=piped)[2] == 0
    assert server.requests[0].json["messages"][-1]["content"] == question


def test_image_is_attached(typed_line, tmp_path):
    """@FILE attaches an image; the session is not named after the file."""
    (tmp_path / "photo.png").write_bytes(PIXEL)
    with FakeServer("A dot.", "Yes.") as server:
        assert typed_line("What is it?", "@photo.png", server=server)[0] == "A dot.\n"
        assert typed_line("-c", "Sure?", server=server)[1].startswith("Continues 'what-is-it-")
    text, image = server.requests[0].json["messages"][-1]["content"]
    assert text["text"] == "What is it?"
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("name", "data", "kind"), [("a.pdf", b"%PDF-1.7", "file"), ("a.wav", b"RIFF\n\0\0\nWAVE", "input_audio")]
)
def test_file_is_attached(typed_line, tmp_path, name, data, kind):
    """@FILE attaches a PDF or a recording."""
    (tmp_path / name).write_bytes(data)
    with FakeServer("Much.") as server:
        assert typed_line("What does it say?", f"@{name}", server=server)[0] == "Much.\n"
    assert [part["type"] for part in server.requests[0].json["messages"][-1]["content"]] == ["text", kind]


def test_piped_pdf_is_attached(typed_line):
    """A piped PDF is attached to the question."""
    with FakeServer("Much.") as server:
        assert typed_line("What does it say?", server=server, piped=b"%PDF-1.7")[0] == "Much.\n"
    assert server.requests[0].json["messages"][-1]["content"][1]["type"] == "file"


def test_piped_text_in_another_encoding_is_read(typed_line, tmp_path):
    """Piped text with a Latin-1 byte, and a named file in a legacy encoding, are asked about; a note goes to stderr."""
    (tmp_path / "list.txt").write_bytes("Příliš žluťoučký kůň úpěl".encode("cp1250"))
    with FakeServer("Fine.", "Fine.") as server:
        out, err, code = typed_line("Review this", server=server, piped=b"-na\xefve\n+naive\n")
        assert (out, code, "detected as cp1252" in err) == ("Fine.\n", 0, True)
        out, err, code = typed_line("Read", "@list.txt", server=server)
        assert (out, code, "detected as cp1250" in err) == ("Fine.\n", 0, True)
    texts = [json.dumps(request.json["messages"][-1], ensure_ascii=False) for request in server.requests]
    assert ("naïve" in texts[0], "žluťoučký" in texts[1]) == (True, True)


@pytest.mark.parametrize(
    ("words", "piped", "expected"),
    [
        (["@none.txt"], b"", "The file 'none.txt' cannot be read: No such file"),
        (["@none.txt"], b"", "To write @none.txt as text: @@none.txt"),
        (["@data.bin"], b"", "'data.bin' is not a file that models read: a PDF"),
        (["x"], b"\xff\xfe\x00", "The piped input is not text"),
    ],
)
def test_input_without_text_is_a_usage_error(words, piped, expected, typed_line, tmp_path):
    """A file or pipe that contains no text is a usage error."""
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe\x00")
    out, err, code = typed_line("ask", *words, piped=piped)
    assert (out, code, expected in err) == ("", 2, True)
