"""How does a body become bytes, when most of it was sent before?"""

import json
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from agentkit.llm.protocols.chat_completions import ChatCompletions
from agentkit.llm.protocols.encoding import EncodedEntry, EncodingCache, written
from agentkit.llm.protocols.responses import Responses
from agentkit.messages import Request, SystemMessage, ToolSpec, UserMessage

TOOL = ToolSpec(
    "f", "Does f", {"type": "object", "properties": {}}, {"type": "object", "properties": {}, "required": []}
)


def encode(message):
    """A message as an entry."""
    return [{"said": message.text}]


def encode_twice(message):
    """The same in another way."""
    return [{"said": message.text}, {"again": message.text}]


def test_bytes_say_what_the_body_says():
    """A body is written as JSON without blanks, whatever of it was known before."""
    body = {
        "model": "m",
        "messages": [EncodedEntry({"role": "user", "content": 'Xin chào "bạn"'}), {"n": 1}],
        "stop": [],
        "n": 1.5,
    }
    assert json.loads(written(body)) == body
    assert written({"a": [EncodedEntry({"b": 1}), {"c": None}]}) == b'{"a":[{"b":1},{"c":null}]}'
    assert written({}) == b"{}"


def test_a_message_is_encoded_once():
    """What was sent before is found again, and only what is new is encoded; each way of encoding has its own."""
    before, old, new = EncodingCache(), SystemMessage("a"), SystemMessage("b")
    (first,) = before.entries([old], encode)
    again, added = before.entries([old, new], encode)
    assert again is first
    assert (first, added) == ({"said": "a"}, {"said": "b"})
    assert before.entries([old], encode_twice) == [{"said": "a"}, {"again": "a"}]


def test_messages_are_encoded_in_the_form_in_which_they_may_be_sent():
    """What may not be sent is taken out before a message is encoded."""
    before = EncodingCache(lambda message: SystemMessage(message.text.upper()))
    assert before.entries([SystemMessage("a")], encode) == [{"said": "A"}]


def test_what_is_known_is_bounded():
    """Long conversations do not fill the memory: what is known is let go, and encoded again when it is needed."""
    before, first = EncodingCache(), SystemMessage("a")
    (known,) = before.entries([first], encode)
    before.entries([SystemMessage("x" * 9_000_000) for _ in range(2)], encode)
    before.entries([SystemMessage("b")], encode)
    (made_anew,) = before.entries([first], encode)
    assert made_anew == known
    assert made_anew is not known


@pytest.mark.parametrize("wire", [ChatCompletions(), Responses()], ids=["chat", "responses"])
@pytest.mark.parametrize("strict", [True, False])
def test_both_protocols_encode_alike_with_and_without_what_was_sent_before(wire, strict):
    """A body is the same whether its parts were known or not."""
    before, messages = EncodingCache(), [UserMessage("Hi"), SystemMessage("Be brief")]
    wire.encode(Request(messages, tools=(TOOL,)), "m", strict=not strict, before=before)
    request = Request([*messages, UserMessage("Bye")], "You help", (TOOL,))
    fresh = wire.encode(request, "m", strict=strict)
    assert wire.encode(request, "m", strict=strict, before=before) == fresh
    assert json.loads(written(fresh)) == fresh


class Point(BaseModel):
    """A value of a library that servers' own packages take as a setting."""

    x: int
    y: int = 0


def test_settings_may_be_moments_and_models():
    """A moment is written as text, a pydantic model as what was set in it."""
    body = {"at": datetime(2026, 11, 22, tzinfo=UTC), "point": Point(x=1)}
    assert json.loads(written(body)) == {"at": "2026-11-22T00:00:00+00:00", "point": {"x": 1}}


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (object(), TypeError, "Object of type object is not JSON serializable"),
        (float("nan"), ValueError, "Out of range"),
        ("\ud800", UnicodeEncodeError, "surrogates not allowed"),
    ],
)
def test_what_json_cannot_hold_is_refused(value, kind, words):
    """A value that is no JSON is refused before anything is sent."""
    with pytest.raises(kind, match=words):
        written({"setting": value})


@pytest.mark.parametrize("text", ["", "plain", 'say "x" \\ /', "a\nb\t\x00\x7f", "Xin chào 🎉 \u2028", "</script>"])
def test_plain_messages_are_written_like_any_json(text):
    """The shortcut for messages of a role and a text writes the same bytes as the encoder."""
    fields = {"role": "user", "content": text}
    longer = fields | {"name": "a"}
    expected = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    assert EncodedEntry(fields).json == expected
    assert EncodedEntry(longer).json == expected[:-1] + b',"name":"a"}'
    assert EncodedEntry({"content": text, "role": "user"}).json.startswith(b'{"content":')
    assert EncodedEntry(fields | {"content": None}).json == b'{"role":"user","content":null}'
