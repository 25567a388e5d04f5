"""Are texts, images and files told in the forms of a protocol?"""

import pytest

from agentkit.content import File, Image
from agentkit.llm.protocols.encoding import Forms

FORMS = Forms(lambda text: {"text": text}, lambda image: {"image": image.url}, lambda file: {"file": file.url})
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
def test_a_part_has_the_form_of_its_kind(part, form):
    """A part is told in the form that the protocol has for its kind; a recording, in the one that all have."""
    assert FORMS.part(part) == form
    assert FORMS.content((part, "b")) == [form, {"text": "b"}]


def test_a_text_alone_is_told_as_it_is():
    """What is but a text needs no form; it is well-formed."""
    assert FORMS.content("a\ud800") == "a\ufffd"
