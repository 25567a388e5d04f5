"""Tests for images and files: detection, validation, and their text."""

import base64

import pytest

from agentkit import Image
from agentkit.content import MAX_FILE_BYTES, MAX_RETURNED_BYTES, File, load_part, part_text, quoted_file, read_part

IMAGES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + b"\0" * 8,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 8,
    "image/gif": b"GIF89a" + b"\0" * 8,
    "image/webp": b"RIFF\n\0\0\nWEBPVP8 ",
}


@pytest.mark.parametrize("media_type", IMAGES)
@pytest.mark.parametrize("name", ["picture.png", "picture", "picture.txt", "ünï.jpeg"])
def test_type_of_an_image_is_detected(tmp_path, media_type, name):
    """The media type of an image file is detected from its content, not from its name."""
    path = tmp_path / name
    path.write_bytes(IMAGES[media_type])
    image = Image.read(path, "low")
    assert image == Image.read(str(path), "low")
    head, _, data = image.url.partition(";base64,")
    assert (head, image.detail) == (f"data:{media_type}", "low")
    assert base64.b64decode(data) == IMAGES[media_type]


@pytest.mark.parametrize("content", [b"", b"\x89PNG", b"<svg/>", b"BM\0\0", b"RIFF\n\0\0\nWAVE", b"%PDF-1.7", b"GIF"])
def test_unsupported_images_are_rejected(tmp_path, content):
    """A file that is not PNG, JPEG, GIF or WebP raises a ValueError."""
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="PNG, JPEG, GIF or WebP"):
        Image.read(path)


def test_missing_image_is_an_os_error(tmp_path):
    """A missing image file raises FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        Image.read(tmp_path / "picture.png")


@pytest.mark.parametrize("url", ["cat.png", "", "/pictures/cat.png", "C:\\cat.png", 5, None])
def test_invalid_image_url_is_rejected(url):
    """An invalid image URL raises a ValueError that suggests `Image.read`."""
    with pytest.raises(ValueError, match=r"for a file, Image\.read"):
        Image(url)


def test_repr_of_an_image_omits_its_data():
    """The repr of an image omits its data."""
    assert "AAAA" not in repr(Image("data:image/png;base64,AAAA"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("data:image/png;base64,AAAA", "[image/png, 3 bytes]"),
        (f"data:image/png;base64,{'A' * 16_000}", "[image/png, 12 kB]"),
        (f"data:image/webp;base64,{'A' * 1_600_000}", "[image/webp, 1.2 MB]"),
        ("data:,x", "[data, 0 bytes]"),
        ("https://example.com/cat.png", "[https://example.com/cat.png]"),
    ],
)
def test_image_is_shown_as_text(url, words):
    """The text of an image contains its type and length, or its URL."""
    assert str(Image(url)) == words


def test_image_is_read_from_bytes(tmp_path):
    """An image can be read from bytes, and other bytes raise a ValueError."""
    (tmp_path / "a.gif").write_bytes(b"GIF89a...")
    assert Image.read(b"GIF89a...") == Image.read(tmp_path / "a.gif")
    with pytest.raises(ValueError, match="The data is not an image"):
        Image.read(b"%PDF-1.7")


PDF = b"%PDF-1.7 ..."
OPEN_XML = "application/vnd.openxmlformats-officedocument"
MEDIA = {
    "report.pdf": (PDF, "application/pdf", ""),
    "pdf without its ending": (PDF, "application/pdf", ""),
    "blanks first.pdf": (b"\xef\xbb\xbf\r\n" + PDF, "application/pdf", ""),
    "a header first.pdf": (b"\0\xff" * 99 + PDF, "application/pdf", ""),
    "by a phone.m4a": (b"\0\0\0\x18ftypmp42", "audio/mp4", "m4a"),
    "talk.wav": (b"RIFF\n\0\0\nWAVEfmt ", "audio/wav", "wav"),
    "talk.mp3": (b"ID3\x04\0...", "audio/mpeg", "mp3"),
    "frames.mp3": (b"\xff\xfb\x90d", "audio/mpeg", "mp3"),
    "talk.flac": (b"fLaC\0\0", "audio/flac", "flac"),
    "talk.ogg": (b"OggS\0\0", "audio/ogg", "ogg"),
    "talk.m4a": (b"\0\0\0\x1cftypM4A ", "audio/mp4", "m4a"),
    "notes.md": ("# Ghi chú".encode(), "text/plain", ""),
    "a.json": (b"{}", "text/plain", ""),
    "ID3 and other tags.txt": (b"ID3 tags are old.", "text/plain", ""),
    "sheet.xlsx": (b"PK\x03\x04...", f"{OPEN_XML}.spreadsheetml.sheet", ""),
    "old.doc": (b"\xd0\xcf\x11\xe0...", "application/msword", ""),
}


@pytest.mark.parametrize("name", MEDIA)
def test_type_of_a_file_is_detected(tmp_path, name):
    """The media type of a file is detected from its content, and for office documents also from its name."""
    data, media_type, sound = MEDIA[name]
    path = tmp_path / name
    path.write_bytes(data)
    file = File.read(path)
    assert file == File.read(str(path)) == File.read(data, name)
    assert (file.name, file.media_type, file.audio_format, file.data) == (name, media_type, sound, data)
    assert file.validated() == file


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.zip", b"PK\x03\x04", "not a file that models read: a PDF"),
        ("a.bin", b"\xff\xfe\x00", "a text in UTF-8"),
        ("a.txt", "ü".encode("latin-1"), "a text in UTF-8"),
        ("a.txt", b"a\0b", "not a file"),
        ("film.mp4", b"\0\0\0\x18ftypmp42", "not a file"),
        ("cat.pdf", IMAGES["image/png"], r"use Image\.read"),
        ("big.pdf", PDF + bytes(MAX_FILE_BYTES), "more than 50 MB"),
    ],
)
def test_unsupported_files_are_rejected(tmp_path, name, data, message):
    """An unsupported or very large file raises a ValueError."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message):
        File.read(tmp_path / name)


@pytest.mark.parametrize("url", ["report.pdf", "", "/report.pdf", "C:\\report.pdf", 5, None])
def test_invalid_file_url_is_rejected(url):
    """An invalid file URL raises a ValueError that suggests `File.read`."""
    with pytest.raises(ValueError, match=r"for one on disk, File\.read"):
        File(url)


@pytest.mark.parametrize(
    ("file", "text", "word", "sent_as"),
    [
        (File.read(PDF, "a.pdf"), "[a.pdf, application/pdf, 12 bytes]", "[file a.pdf]", "a.pdf"),
        (File.read(PDF), "[application/pdf, 12 bytes]", "[file]", "file.pdf"),
        (File("https://x.example/a.pdf?key=1"), "[https://x.example/a.pdf?key=1]", "[file]", "file"),
        (File.read(PDF, "a\n\x1b[2J.pdf"), "[a[2J.pdf, application/pdf, 12 bytes]", "[file a[2J.pdf]", "a[2J.pdf"),
    ],
)
def test_file_is_shown_as_text(file, text, word, sent_as):
    """A file is shown with its name, type and length or its URL, and its repr omits the data."""
    assert (str(file), part_text(file), file.file_name) == (text, word, sent_as)
    assert (part_text("text"), part_text(Image("data:x"))) == ("text", "[image]")
    assert "JVBER" not in repr(file)


@pytest.mark.for_each(
    ("url", "words"),
    [
        ("data:text/plain;base64,aGk=", "hi"),
        ("data:text/csv,a%2Cb", "a,b"),
        ("DATA:application/json;charset=utf-8,{}", "{}"),
        ("data:application/ld+json;base64,e30=", "{}"),
        ("data:text/plain;base64,77u/aGk=", "hi"),
        ("data:text/plain;base64,/w==", None),
        ("data:text/plain;base64,a", None),
        ("data:application/pdf;base64,JVBERi0=", None),
        ("https://x.example/a.txt", None),
    ],
)
def test_words_of_a_text_file(url, words):
    """The words of a text file are enclosed in lines with its name, and other files have none."""
    quoted = None if words is None else f"[What follows is the file a.txt.]\n{words}\n[Here ends the file a.txt.]"
    assert File(url, "a.txt").quoted_text == quoted


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        (File("data:application/pdf;base64,JVBE*"), "not valid base64"),
        (File("data:application/pdf,%PDF-"), "must begin with https:, or be a data: URL in base64"),
        (File("file:///etc/passwd"), "must begin with https:, or be a data: URL in base64"),
        (File("data:application/pdf;base64,AAAA"), "models read a PDF"),
        (File.read(PDF + bytes(MAX_RETURNED_BYTES)), "more than 15 MB"),
    ],
)
def test_file_rejected_by_providers(file, fault):
    """A file that providers would reject raises a ValueError with the reason."""
    with pytest.raises(ValueError, match=fault):
        file.validated()


def test_wrong_media_type_is_corrected():
    """A wrong media type is corrected from the content, and a URL is unchanged."""
    wrong = File(File.read(PDF).url.replace("application/pdf", "application/octet-stream"), "a.pdf")
    assert wrong.validated() == File.read(PDF, "a.pdf")
    assert File("https://x.example/a.pdf").validated() == File("https://x.example/a.pdf")


def test_path_is_replaced_by_its_content(tmp_path):
    """A path is replaced by its image, PDF or text, and a string is unchanged."""
    for name, data in {"a.png": IMAGES["image/png"], "a.pdf": PDF, "a.txt": b"hi"}.items():
        (tmp_path / name).write_bytes(data)
    read = [load_part(tmp_path / name) for name in ("a.png", "a.pdf", "a.txt")]
    pdf = File.read(tmp_path / "a.pdf")
    assert read == [Image.read(tmp_path / "a.png"), pdf, quoted_file("a.txt", "hi")]
    assert read_part(PDF) == File.read(PDF)
    assert load_part("a.pdf") == "a.pdf"
