"""Tests for the contents of resources and prompts."""

import base64
import json
from types import SimpleNamespace

import pytest

from agentkit.content import File, Image
from agentkit.mcp.content import Resource, argument_texts, format_resources, prompt_answer, resource_answer

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 8).decode()
PICTURE = Image(f"data:image/png;base64,{PNG}")


def text(text, uri="notes://a"):
    """Return a text content."""
    return SimpleNamespace(uri=uri, text=text, mime_type="text/plain")


def blob(data, media_type=None, uri="notes://b"):
    """Return a binary content."""
    return SimpleNamespace(uri=uri, blob=data, mime_type=media_type)


def message(role, text):
    """Return a message of a prompt."""
    block = SimpleNamespace(type="text", text=text) if isinstance(text, str) else text
    return SimpleNamespace(role=role, content=block)


SHOWN = SimpleNamespace(type="image", mime_type="image/png", data=PNG)
HEARD = SimpleNamespace(type="audio", mime_type="audio/mp3", data="SUQzBAA=")
UNHEARD = SimpleNamespace(type="audio", mime_type="audio/midi", data="TVRoZA==")


@pytest.mark.for_each(
    ("contents", "value"),
    [
        ([], ""),
        ([text("one")], "one"),
        ([text("one"), text("two", "notes://c")], "[notes://a]\none\n[notes://c]\ntwo"),
        ([blob(PNG, "image/png")], [PICTURE]),
        ([blob(PNG)], [PICTURE]),
        ([text("one"), blob(PNG, "image/jpeg")], ["[notes://a]", "one", "[notes://b]", PICTURE]),
        (
            [blob("JVBERi0=", "text/plain", "file:///r/a%20b.pdf?v=1")],
            [File("data:application/pdf;base64,JVBERi0=", "a b.pdf")],
        ),
        ([blob("aGVsbG8=", "image/png")], "[binary data of notes://b]"),
        ([blob("not base64!", "image/png")], "[binary data of notes://b]"),
        ([blob("aGVsbG8=")], "[binary data of notes://b]"),
    ],
)
def test_contents_of_a_resource(contents, value):
    """Text, images and PDFs of a resource are returned; other data is named, and several parts have their URI."""
    assert resource_answer(contents) == value


@pytest.mark.for_each(
    ("messages", "value"),
    [
        ([], ""),
        ([message("user", "Review this.")], "Review this."),
        ([message("user", "Review this:"), message("user", "x = 1")], "Review this:\n\nx = 1"),
        ([message("user", "Look:"), message("user", SHOWN)], ["Look:", PICTURE]),
        ([message("user", HEARD)], [File("data:audio/mpeg;base64,SUQzBAA=")]),
        ([message("user", UNHEARD)], "[audio, audio/midi, 6 bytes: not shown]"),
        (
            [message("user", "1 + 1?"), message("assistant", "2."), message("user", "2 + 2?")],
            "User: 1 + 1?\n\nAssistant: 2.\n\nUser: 2 + 2?",
        ),
        ([message("user", SHOWN), message("assistant", "A cat.")], ["User:", PICTURE, "Assistant: A cat."]),
    ],
)
def test_messages_of_a_prompt(messages, value):
    """A prompt is a string or a list of parts, with roles only if it has model messages."""
    assert prompt_answer(messages) == value


def test_listing():
    """Resources and templates are listed as one JSON object per line."""
    lines = format_resources(
        [
            Resource("notes://a", "a", "The first.", "text/plain"),
            Resource("notes://{name}", "any", is_template=True),
        ]
    ).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"uri": "notes://a", "name": "a", "description": "The first.", "media_type": "text/plain"},
        {"uri_template": "notes://{name}", "name": "any"},
    ]
    assert format_resources([]) == "The server has no resources."


def test_arguments_of_a_prompt():
    """Prompt arguments that are not strings are encoded as JSON, or raise a TypeError."""
    assert argument_texts({"city": "Huế", "days": 3, "is_dry": True}) == {"city": "Huế", "days": "3", "is_dry": "true"}
    with pytest.raises(TypeError, match="not JSON serializable"):
        argument_texts({"city": object()})
