"""How do messages look as content blocks, in turns of which no two neighbours are of one role? Pure."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentkit.llm.wire import reading
from agentkit.llm.wire.paragraphs import Paragraphs
from agentkit.llm.wire.parts import Forms
from agentkit.llm.wire.thoughts import is_spoken
from agentkit.llm.wire.writing import Entry
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage, parts_of, well_formed
from agentkit.parts import File, Image

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentkit.messages import Content, Message, ToolCall

BLOCKS = "content"
"""The key in `AssistantMessage.extra` under which the blocks of an answer stand as they came."""

_SENDABLE_ID = re.compile(r"[a-zA-Z0-9_-]+")
_DIGEST_CHARS = 8
_NOTHING = Entry({"role": "user", "content": [{"type": "text", "text": "(Nothing was said.)"}]})
"""What a user says where the protocol wants one to speak, and nobody has: first of all."""

_MEDIA_TYPES = {"image/jpg": "image/jpeg"}


def encode_message(message: Message) -> tuple[dict[str, Any], ...]:
    """The message as a turn of its own; none when it says nothing, as blank texts are refused."""
    match message:
        case UserMessage(content):
            role, blocks = "user", _encode_content(content)
        case AssistantMessage():
            role, blocks = "assistant", encode_answer(message)
        case ToolMessage():
            role, blocks = "user", [_encode_result(message)]
        case _:
            role, blocks = "system", _encode_content(message.text)
    return ({"role": role, "content": blocks},) if blocks else ()


def in_turns(entries: Sequence[Entry]) -> tuple[list[str], list[Entry]]:
    """The leading system messages, as texts, and the turns, in which adjacent messages of one side are joined.

    Later system messages become the user's: only some models take them where they stand.
    """
    first = next((at for at, entry in enumerate(entries) if entry["role"] != "system"), len(entries))
    orders = [block["text"] for entry in entries[:first] for block in entry["content"]]
    turns = [_joined(role, list(said)) for role, said in groupby(entries[first:], _speaker)]
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, _NOTHING)
    return orders, turns


def encode_answer(message: AssistantMessage) -> list[dict[str, Any]]:
    """The original blocks, with the current ids of the calls; rebuilt if the message was changed since."""
    blocks = message.extra.get(BLOCKS, ())
    if blocks and is_spoken(message.text, said_in(blocks)) and sum(map(is_call, blocks)) == len(message.tool_calls):
        calls = iter(message.tool_calls)
        told = [{**block, **_encode_call(next(calls))} if is_call(block) else block for block in blocks]
        return [block for block in told if not _is_blank(block)]
    return [*_encode_content(message.text), *map(_encode_call, message.tool_calls)]


def said_in(blocks: Iterable[Any]) -> str:
    """The text in the blocks of an answer: neighbours go on with each other, others are paragraphs."""
    paragraphs, pieces = Paragraphs(), []
    for block in blocks:
        if _is_of(block, "text"):
            pieces.append(paragraphs.add(reading.text_of(block)))
        else:
            paragraphs.interrupt()
    return "".join(pieces)


def is_call(block: object) -> bool:
    """Whether a block of an answer is a tool call that is ours to make; others a server makes itself."""
    return _is_of(block, "tool_use")


def _is_of(block: object, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


def _is_blank(block: object) -> bool:
    return _is_of(block, "text") and not reading.text_of(block).strip()


def _speaker(entry: Entry) -> str:
    return "assistant" if entry["role"] == "assistant" else "user"


def _joined(role: str, entries: list[Entry]) -> Entry:
    """One turn of what stands in a row. Its JSON is put together, as all of it was encoded before."""
    if len(entries) == 1 and entries[0]["role"] == role:
        return entries[0]
    blocks = [block for entry in entries for block in entry["content"]]
    texts = b",".join(entry.json[entry.json.index(b"[") + 1 : -len(b"]}")] for entry in entries)
    return Entry({"role": role, "content": blocks}, b'{"role":"%b","content":[%b]}' % (role.encode(), texts))


def _encode_content(content: Content) -> list[dict[str, Any]]:
    blocks = (_FORMS.part(part) for part in parts_of(content))
    return [block for block in blocks if not _is_blank(block)]


def _encode_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _encode_image(image: Image) -> dict[str, Any]:
    return {"type": "image", "source": _source(image.url)}


def _encode_file(file: File) -> dict[str, Any]:
    return {"type": "document", "source": _source(file.url), **({"title": file.name} if file.name else {})}


_FORMS = Forms(_encode_text, _encode_image, _encode_file)


def _source(url: str) -> dict[str, Any]:
    """What is shown, by its address, or its data, which are in base64 here."""
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url.removeprefix("data:").partition(",")
    media_type = head.partition(";")[0].lower()
    if not head.endswith(";base64"):
        from base64 import b64encode
        from urllib.parse import unquote_to_bytes

        data = b64encode(unquote_to_bytes(data)).decode("ascii")
    return {"type": "base64", "media_type": _MEDIA_TYPES.get(media_type, media_type), "data": data}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    given = reading.well_formed_json(json.loads(reading.sendable_arguments(call.arguments)))
    return {
        "type": "tool_use",
        "id": _sendable_id(call.id),
        "name": reading.sendable_name(call.name),
        "input": given,
    }


def _encode_result(message: ToolMessage) -> dict[str, Any]:
    """What came of a call; a failure is marked as one. Pictures and files stand beside the text."""
    shown: Any = _encode_content(message.shown) if message.beside else well_formed(message.content)
    content = {"content": shown} if shown else {}
    failed = {"is_error": True} if _tells_failure(message.content) else {}
    return {"type": "tool_result", "tool_use_id": _sendable_id(message.call_id), **content, **failed}


def _tells_failure(content: str) -> bool:
    """Whether a result is what a model is told of a call that came to nothing, `{"error": …, "tool": …}`."""
    if not content.startswith('{"error"'):
        return False
    told = reading.json_or_text(content)
    return isinstance(told, dict) and told.keys() == {"error", "tool"}


def _sendable_id(call_id: str) -> str:
    """The id in the characters that are allowed; one that must be changed gets a digest, so that ids stay distinct."""
    if _SENDABLE_ID.fullmatch(call_id):
        return call_id
    from hashlib import sha256

    digest = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', call_id)}_{digest}"
