"""Tests for the encoding of request bodies, and the cache of encoded messages."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from agentkit.llm.protocols.chat_completions import ChatCompletions
from agentkit.llm.protocols.encoding import EncodedEntry, EncodingCache, serialise_body
from agentkit.llm.protocols.responses import Responses
from agentkit.messages import Request, SystemMessage, ToolSpec, UserMessage

TOOL = ToolSpec(
    "f", "Does f", {"type": "object", "properties": {}}, {"type": "object", "properties": {}, "required": []}
)


def encode(message):
    """Encode a message."""
    return [{"said": message.text}]


def encode_twice(message):
    """Encode a message in another way."""
    return [{"said": message.text}, {"again": message.text}]


def test_body_is_written_as_compact_json():
    """A body is written as compact JSON, whether or not its parts are cached."""
    body = {
        "model": "m",
        "messages": [EncodedEntry({"role": "user", "content": 'Xin chào "bạn"'}), {"n": 1}],
        "stop": [],
        "n": 1.5,
    }
    assert json.loads(serialise_body(body)) == body
    assert serialise_body({"a": [EncodedEntry({"b": 1}), {"c": None}]}) == b'{"a":[{"b":1},{"c":null}]}'
    assert serialise_body({}) == b"{}"


def test_message_is_encoded_once():
    """Encoded messages are cached separately for each encoder, and only new ones are encoded."""
    before, old, new = EncodingCache(), SystemMessage("a"), SystemMessage("b")
    (first,) = before.entries([old], encode)
    again, added = before.entries([old, new], encode)
    assert again is first
    assert (first, added) == ({"said": "a"}, {"said": "b"})
    assert before.entries([old], encode_twice) == [{"said": "a"}, {"again": "a"}]


def test_messages_are_filtered_before_they_are_encoded():
    """A message is filtered before it is encoded."""
    before = EncodingCache(lambda message: SystemMessage(message.text.upper()))
    assert before.entries([SystemMessage("a")], encode) == [{"said": "A"}]


def test_cached_encodings_are_evicted():
    """Cached encodings are evicted above the size limit, and encoded again when needed."""
    before, first = EncodingCache(), SystemMessage("a")
    (known,) = before.entries([first], encode)
    before.entries([SystemMessage("x" * 9_000_000) for _ in range(2)], encode)
    before.entries([SystemMessage("b")], encode)
    (made_anew,) = before.entries([first], encode)
    assert made_anew == known
    assert made_anew is not known


@pytest.mark.parametrize("wire", [ChatCompletions(), Responses()], ids=["chat", "responses"])
@pytest.mark.parametrize("strict", [True, False])
def test_cached_parts_do_not_change_the_body(wire, strict):
    """A body is the same with and without cached parts in both protocols."""
    before, messages = EncodingCache(), [UserMessage("Hi"), SystemMessage("Be brief")]
    wire.encode(Request(messages, tools=(TOOL,)), "m", strict=not strict, cache=before)
    request = Request([*messages, UserMessage("Bye")], "You help", (TOOL,))
    fresh = wire.encode(request, "m", strict=strict)
    assert wire.encode(request, "m", strict=strict, cache=before) == fresh
    assert json.loads(serialise_body(fresh)) == fresh


class Point(BaseModel):
    """A value of a library that the providers' packages accept as a setting."""

    x: int
    y: int = 0


def test_settings_may_be_datetimes_and_models():
    """A datetime is written as a string, and a pydantic model as its explicitly set fields."""
    body = {"at": datetime(2026, 11, 22, tzinfo=UTC), "point": Point(x=1)}
    assert json.loads(serialise_body(body)) == {"at": "2026-11-22T00:00:00+00:00", "point": {"x": 1}}


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (object(), TypeError, "Object of type object is not JSON serializable"),
        (float("nan"), ValueError, "Out of range"),
        ("\ud800", UnicodeEncodeError, "surrogates not allowed"),
    ],
)
def test_unserializable_value_is_rejected(value, kind, words):
    """A value that is not JSON serializable is rejected before a request is sent."""
    with pytest.raises(kind, match=words):
        serialise_body({"setting": value})


@pytest.mark.parametrize("text", ["", "plain", 'say "x" \\ /', "a\nb\t\x00\x7f", "Xin chào 🎉 \u2028", "</script>"])
def test_plain_messages_are_written_like_any_json(text):
    """The fast path for messages with only role and text writes the same bytes as the encoder."""
    fields = {"role": "user", "content": text}
    longer = fields | {"name": "a"}
    expected = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    assert EncodedEntry(fields).json == expected
    assert EncodedEntry(longer).json == expected[:-1] + b',"name":"a"}'
    assert EncodedEntry({"content": text, "role": "user"}).json.startswith(b'{"content":')
    assert EncodedEntry(fields | {"content": None}).json == b'{"role":"user","content":null}'
