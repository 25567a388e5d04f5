"""Tests for the conversion of plain dictionaries to messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import File, Image, quoted_file
from agentkit.llm.protocols.chat_completions import encode_message
from agentkit.llm.protocols.chat_format import MessageReader, typed_messages
from agentkit.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage

TEXTS = st.text()
IMAGES = st.builds(Image, TEXTS.map("data:".__add__), st.sampled_from([None, "auto", "low", "high"]))
FILES = st.builds(File, TEXTS.map("data:application/pdf;base64,".__add__), st.sampled_from(["a.pdf", "b c.pdf"]))
SOUNDS = st.builds(File, st.sampled_from(["wav", "mpeg", "flac", "mp4"]).map("data:audio/{};base64,AAAA".format))
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
CALLS = st.builds(ToolCall, st.text(min_size=1), NAMES, st.just('{"a": 1}'))
MESSAGES = st.one_of(
    st.builds(SystemMessage, TEXTS),
    st.builds(UserMessage, TEXTS | st.lists(TEXTS | IMAGES | FILES | SOUNDS, min_size=1).map(tuple)),
    st.builds(AssistantMessage, TEXTS, st.lists(CALLS, unique_by=lambda call: call.id, max_size=3).map(tuple)),
    st.builds(
        ToolMessage,
        st.text(min_size=1),
        st.just(""),
        TEXTS,
        images=st.lists(IMAGES, max_size=2).map(tuple),
        files=st.lists(FILES | SOUNDS, max_size=2).map(tuple),
    ),
)


@given(st.lists(MESSAGES))
def test_messages_round_trip_through_dictionaries(messages):
    """A message that is converted to a dictionary and back is equal to the original."""
    assert typed_messages(encode_message(message) for message in messages) == tuple(messages)


def test_prompts_of_every_form():
    """A prompt is a string, one dictionary, or any iterable of messages and dictionaries."""
    messages = (UserMessage("Hi"),)
    assert (
        typed_messages("Hi")
        == typed_messages({"role": "user", "content": "Hi"})
        == typed_messages(messages)
        == messages
    )
    assert typed_messages([]) == ()


def test_contents_of_every_form():
    """Content is a string, null, or parts: texts and images in the format of either protocol, or agentkit's own."""
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


PDF = File("data:application/pdf;base64,JVBERi0=", "a.pdf")
SOUND = File("data:audio/mpeg;base64,SUQzAg==")


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF.url}}, PDF),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBERi0="}}, PDF),
        ({"type": "input_file", "filename": "a.pdf", "file_data": PDF.url}, PDF),
        ({"type": "input_file", "file_url": "https://x.example/a.pdf"}, File("https://x.example/a.pdf")),
        ({"type": "input_audio", "input_audio": {"data": "SUQzAg==", "format": "mp3"}}, SOUND),
        ({"type": "file", "file": {"filename": "a.txt", "file_data": "aGk="}}, quoted_file("a.txt", "hi")),
        (PDF, PDF),
    ],
)
def test_files_in_the_form_of_either_protocol(part, read):
    """A PDF, recording or text file in a content is parsed from both formats, as data or as a URL."""
    assert typed_messages([{"role": "user", "content": ["Look", part]}])[0].content == ("Look", read)


def test_files_in_the_result_of_a_tool():
    """A tool result in a history keeps its files, and a text file as its text."""
    text = {"type": "file", "file": {"filename": "a.txt", "file_data": "aGk="}}
    content = [{"type": "text", "text": "done"}, {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF.url}}]
    (output,) = typed_messages([{"role": "tool", "tool_call_id": "1", "content": [*content, text]}])
    assert (output.files, output.content) == ((PDF,), f"done\n{quoted_file('a.txt', 'hi')}")


@pytest.mark.for_each(
    "message",
    [
        {},
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
        {"role": "critic", "content": "x"},
        {"role": None},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": None}}]},
        {"role": "user", "content": [7]},
    ],
)
def test_unknown_role_or_part_raises_value_error(message):
    """An unknown role or content part raises ValueError."""
    with pytest.raises(
        ValueError,
        match=r"The role of a message must be|The type of a message part must be|A file in "
        r"a message needs",
    ):
        typed_messages([message])


@pytest.mark.parametrize("entry", ["Hi", None, 7, ["Hi"]])
def test_list_of_non_messages_raises_type_error(entry):
    """A list of anything other than messages raises TypeError."""
    with pytest.raises(TypeError, match="A message must be a dictionary or one of agentkit's message classes"):
        typed_messages([entry])


def test_invalid_messages_argument_raises_type_error():
    """A value that is neither a string nor a list of messages raises TypeError."""
    with pytest.raises(TypeError, match="Messages must be a string, or a list of messages or dictionaries, not int"):
        typed_messages(5)


def test_equal_dictionaries_return_the_same_message():
    """Equal dictionaries of role and text are converted to the same message object."""
    rereading = MessageReader()
    question, reply = {"role": "user", "content": "How much?"}, {"role": "assistant", "content": "17."}
    first = typed_messages([question, reply], rereading.read)
    again = typed_messages([dict(question), dict(reply)], rereading.read)
    assert first == again == (UserMessage("How much?"), AssistantMessage("17."))
    assert [id(message) for message in again] == [id(message) for message in first]


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "user", "content": [{"type": "text", "text": "Look"}]},
        {"role": "assistant", "content": "Wait.", "reasoning": "Why?"},
        {"role": "tool", "content": "17", "tool_call_id": "c1"},
    ],
)
def test_dictionary_with_other_fields_is_converted_again(entry):
    """A dictionary with more than role and text is converted again each time."""
    rereading = MessageReader()
    (first,), (again,) = typed_messages(entry, rereading.read), typed_messages(entry, rereading.read)
    assert first == again
    assert first is not again


def test_changed_dictionary_is_converted_again():
    """A dictionary that is changed between two requests is sent with its new content."""
    rereading, entry = MessageReader(), {"role": "user", "content": "one"}
    first = typed_messages(entry, rereading.read)
    entry["content"] = "two"
    assert (first, typed_messages(entry, rereading.read)) == ((UserMessage("one"),), (UserMessage("two"),))


def test_cached_messages_are_evicted():
    """All cached messages are evicted when they exceed the size limit."""
    rereading, entry = MessageReader(), {"role": "user", "content": "How much?"}
    first = rereading.read(entry)
    assert rereading.read(entry) is first
    rereading.read({"role": "user", "content": "x" * 16_000_000})
    rereading.read({"role": "user", "content": "y"})
    assert rereading.read(entry) is not first


def test_unknown_role_is_rejected_on_each_call():
    """An unknown role is rejected on each call, and nothing is cached."""
    rereading = MessageReader()
    for _ in range(2):
        with pytest.raises(ValueError, match="The role of a message must be"):
            rereading.read({"role": "critic", "content": "x"})


DONE = [
    UserMessage(("Hi",)),
    AssistantMessage("Let me see.", (ToolCall("c", "look", '{"a": 1}'),)),
    ToolMessage("c", "", "done"),
]
"""A conversation in which a tool was called."""


@pytest.mark.parametrize(
    "history",
    [
        [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "Hm."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "c", "name": "look", "input": {"a": 1}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]},
        ],
        [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True},
                    {"text": "Let me see."},
                    {"functionCall": {"id": "c", "name": "look", "args": {"a": 1}}},
                ],
            },
            {"role": "user", "parts": [{"functionResponse": {"id": "c", "response": "done"}}]},
        ],
    ],
)
def test_histories_of_other_protocols_are_converted(history):
    """Blocks of Anthropic's protocol and turns of Gemini's are converted to the same messages as the chat format."""
    assert list(typed_messages(history)) == DONE


def test_responses_items_are_converted():
    """Responses items are converted to messages, calls and results, and reasoning is dropped."""
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
    ]
    assert list(typed_messages(items)) == [DONE[0], AssistantMessage("", DONE[1].tool_calls), DONE[2]]


def test_images_and_documents_of_anthropic_are_converted():
    """Images and documents in blocks of Anthropic's protocol are sent to any model."""
    blocks = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}},
        {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}, "title": "a.pdf"},
    ]
    (message,) = typed_messages([{"role": "user", "content": blocks}])
    assert [part.url for part in message.content] == ["data:image/png;base64,aaaa", "https://x.example/a.pdf"]
    results = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": blocks[:1]}]}]
    assert typed_messages(results)[0].images[0].url == "data:image/png;base64,aaaa"
    data = {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}
    (turn,) = typed_messages([{"role": "user", "parts": [data]}])
    assert turn.content[0].url == "data:application/pdf;base64,JVBERi0="
