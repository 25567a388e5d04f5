"""Tests for the detection of pages and texts, their charsets, and the marking of foreign text."""

import re
import time

import pytest

from agentkit.tools.web.page_text import decode, enclose, kind_of, remove_controls


@pytest.mark.for_each(
    ("content_type", "body", "kind"),
    [
        ("text/html", b"<p>x", "html"),
        ("Text/HTML; charset=utf-8", b"", "html"),
        ("application/xhtml+xml", b"<html/>", "html"),
        ("", b" \n<!DOCTYPE html><p>x", "html"),
        ("", b"<!-- x --><html>", "html"),
        ("application/octet-stream", b"<html>", "html"),
        ("", b"words", "text"),
        ("text/plain", b"<html>", "text"),
        ("text/markdown", b"# x", "text"),
        ("text/csv", b"a,b", "text"),
        ("application/json", b"{}", "text"),
        ("application/ld+json;x=y", b"{}", "text"),
        ("application/vnd.api+json", b"{}", "text"),
        ("application/rss+xml", b"<rss/>", "text"),
        ("application/xml", b"<a/>", "text"),
        ("application/javascript", b"x()", "text"),
        ("application/x-yaml", b"a: b", "text"),
        ("image/svg+xml", b"<svg/>", "text"),
        ("application/pdf", b"%PDF-1.7", "binary"),
        ("text/html", b"%PDF-1.7", "binary"),
        ("", b"%PDF-1.7", "binary"),
        ("image/png", b"\x89PNG", "binary"),
        ("application/zip", b"PK\x03\x04", "binary"),
        ("text/plain", b"PK\x03\x04", "binary"),
        ("audio/mpeg", b"xyz", "binary"),
        ("text/html", b"a\x00b", "binary"),
        ("application/octet-stream", b"\x00\x01", "binary"),
        ("text/plain", "\ufeffx".encode("utf-16-le"), "text"),
        ("text/plain", "\ufeffx".encode("utf-32-be"), "text"),
    ],
)
def test_kind_of_content(content_type, body, kind):
    """The kind of a document is determined by its content type and first bytes."""
    assert kind_of(content_type, body) == kind


@pytest.mark.for_each(
    ("body", "content_type", "text"),
    [
        ("käse".encode(), "", "käse"),
        ("käse".encode(), "text/html; charset=utf-8", "käse"),
        ("käse".encode("latin-1"), "", "käse"),
        ("käse €".encode("cp1252"), "text/html; charset=ISO-8859-1", "käse €"),
        ("văn".encode("cp1258"), 'text/html; charset="windows-1258"', "văn"),
        ("привет".encode("koi8-r"), "text/plain; charset=koi8-r", "привет"),
        ("привет".encode("cp1251"), "text/plain; Charset='cp1251'", "привет"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        ("日本".encode("euc-jp"), "text/html; charset=euc-jp", "日本"),
        ("中文".encode("gb18030"), "text/html; charset=gb2312", "中文"),
        ("中文".encode("big5"), "text/html; charset=big5", "中文"),
        ("한국".encode("euc-kr"), "text/html; charset=euc-kr", "한국"),
        ("\ufeffkäse".encode(), "text/html; charset=latin-1", "käse"),
        ("\ufeffkäse".encode("utf-16-le"), "", "käse"),
        ("\ufeffkäse".encode("utf-16-be"), "", "käse"),
        ("\ufeffkäse".encode("utf-32-le"), "", "käse"),
        ("\ufeffkäse".encode("utf-32-be"), "", "käse"),
        (b'<meta charset="cp1251">' + "да".encode("cp1251"), "text/html", '<meta charset="cp1251">да'),
        (
            b"<?xml version='1.0' encoding='koi8-r'?>" + "да".encode("koi8-r"),
            "",
            "<?xml version='1.0' encoding='koi8-r'?>да",
        ),
        ("käse".encode(), "text/html; charset=no-such", "käse"),
        ("käse".encode(), "text/html; charset=rot13", "käse"),
        (b"+AGE-", "text/html; charset=utf-7", "+AGE-"),
        (b"xn--a", "text/html; charset=idna", "xn--a"),
        (b"\\x41", "text/html; charset=unicode_escape", "\\x41"),
        (b"a\xffb", "text/html; charset=utf-8", "a\ufffdb"),
        (b"", "", ""),
    ],
)
def test_charset_is_found(body, content_type, text):
    """The charset is taken from the BOM, header or document, and defaults to UTF-8 or Western European."""
    assert decode(body, content_type).text == text


def test_incomplete_last_character_is_dropped():
    """An incomplete last character of a truncated body is dropped."""
    assert decode("kä".encode()[:-1], "", is_cut=True).text == "k"


def test_detected_charset_has_a_note():
    """A charset that is neither declared nor Unicode is detected, with its confidence."""
    decoded = decode("Příliš žluťoučký kůň".encode("cp1250"), "text/csv")
    assert (decoded.text, decoded.encoding) == ("Příliš žluťoučký kůň", "cp1250")
    assert "detected as cp1250" in decoded.note


def test_slow_codec_is_not_used():
    """A server cannot select a slow codec."""
    started = time.monotonic()
    decode(b"a" * 3_000_000, "text/html; charset=punycode")
    assert time.monotonic() - started < 10


def test_invisible_characters_are_removed():
    """Control, bidirectional, tag and zero-width characters are removed, but emoji and joiners remain."""
    text = "a\x00\x1b[31mb\u202ec\u200bd\U000e0041e\ufefff\r\ng\rh\ti\ud800"
    assert remove_controls(text) == "a[31mbcdef\ng\nh\ti"
    assert remove_controls("a\ufe01b\ufe0fc\U000e0101d \u2764\ufe0f 1\ufe0f\u20e3") == "abcd \u2764\ufe0f 1\ufe0f\u20e3"
    joined = "\U0001f469\u200d\U0001f52c \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert remove_controls(joined) == joined


def test_end_marker_of_foreign_text_is_random():
    """The lines around foreign text contain a random marker and the name of its source."""
    first, second = enclose("x", "example.com"), enclose("x", "example.com")
    mark = re.match(r"\[([0-9a-f]{16}) begins: what example\.com wrote\..*never instructions", first)[1]
    assert first.endswith(f"\nx\n[{mark} ends: what example.com wrote.]")
    assert mark not in second
