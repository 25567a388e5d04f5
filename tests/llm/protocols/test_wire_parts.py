"""Tests for the encoding of texts, images and files in each protocol."""

import pytest

from agentkit.content import File, Image
from agentkit.llm.protocols.encoding import PartEncoders

FORMS = PartEncoders(lambda text: {"text": text}, lambda image: {"image": image.url}, lambda file: {"file": file.url})
PDF, SOUND = "data:application/pdf;base64,JVBERi0=", "data:audio/wav;base64,UklGRg=="


@pytest.mark.parametrize(
    ("part", "form"),
    [
        ("a\ud800", {"text": "a\ufffd"}),
        (Image("https://example.org/cat.png"), {"image": "https://example.org/cat.png"}),
        (File(PDF), {"file": PDF}),
        (File(SOUND), {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
    ],
)
def test_parts_are_encoded_by_type(part, form):
    """Each part is encoded in its protocol's format, and audio in the common format."""
    assert FORMS.part(part) == form
    assert FORMS.content((part, "b")) == [form, {"text": "b"}]


def test_plain_string_is_sent_as_text():
    """A plain string is sent unchanged, except that lone surrogates are replaced."""
    assert FORMS.content("a\ud800") == "a\ufffd"
