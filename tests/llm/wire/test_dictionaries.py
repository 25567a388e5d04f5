"""How do plain dictionaries become messages?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.llm.wire.chat import encode_message
from agentkit.llm.wire.dictionaries import typed_messages
from agentkit.messages import AssistantMessage, Image, SystemMessage, ToolCall, ToolMessage, UserMessage

TEXTS = st.text()
IMAGES = st.builds(Image, TEXTS.map("data:".__add__), st.sampled_from([None, "auto", "low", "high"]))
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
CALLS = st.builds(ToolCall, st.text(min_size=1), NAMES, st.just('{"a": 1}'))
MESSAGES = st.one_of(
    st.builds(SystemMessage, TEXTS),
    st.builds(UserMessage, TEXTS | st.lists(TEXTS | IMAGES, min_size=1).map(tuple)),
    st.builds(AssistantMessage, TEXTS, st.lists(CALLS, unique_by=lambda call: call.id, max_size=3).map(tuple)),
    st.builds(ToolMessage, TEXTS, st.just(""), TEXTS),
)


@given(st.lists(MESSAGES))
def test_messages_become_dictionaries_and_back(messages):
    """A message that is written as a dictionary is read as the same message."""
    assert typed_messages(encode_message(message) for message in messages) == tuple(messages)


def test_prompts_of_every_form():
    """A prompt is a text, one dictionary, or any iterable of messages and dictionaries."""
    said = (UserMessage("Hi"),)
    assert typed_messages("Hi") == typed_messages({"role": "user", "content": "Hi"}) == typed_messages(said) == said
    assert typed_messages([]) == ()


def test_contents_of_every_form():
    """A content is a text, null, or parts: texts and images in either protocol's form, or our own."""
    picture = Image("https://x.example/a.png")
    parts = [
        "Look",
        {"type": "text", "text": "here"},
        {"type": "input_text", "text": "now"},
        {"type": "image_url", "image_url": {"url": picture.url}},
        {"type": "input_image", "image_url": picture.url, "detail": "low"},
        picture,
    ]
    (message,) = typed_messages([{"role": "user", "content": parts}])
    assert message.content == ("Look", "here", "now", picture, Image(picture.url, "low"), picture)
    assert typed_messages([{"role": "user"}]) == (UserMessage(""),)
    assert typed_messages([{"role": "system", "content": [{"text": "Be"}]}]) == (SystemMessage("Be"),)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "function", "content": "x"},
        {"role": None},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": None}}]},
        {"role": "user", "content": [7]},
    ],
)
def test_what_cannot_be_sent_is_refused(message):
    """A role or a part that is not understood is refused, not dropped in silence."""
    with pytest.raises(ValueError, match=r"A message's role is|A part of a message is"):
        typed_messages([message])


@pytest.mark.parametrize("entry", ["Hi", None, 7, ["Hi"]])
def test_what_is_no_message_is_refused(entry):
    """A list of something else than messages is refused."""
    with pytest.raises(TypeError, match="A message is a dictionary or one of agentkit's messages"):
        typed_messages([entry])


def test_what_is_no_list_is_refused():
    """Something else than a text or a list of messages is refused, with what it may be."""
    with pytest.raises(TypeError, match="Messages are a text, or a list of messages or dictionaries, not int"):
        typed_messages(5)
