"""Encoding of message content, with a cache of messages encoded before (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.content import File, Image, load_part
from agentkit.messages import Content, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartEncoders:
    """The encoders of one protocol for text (well-formed), images and files."""

    text: Callable[[str], _Fields]
    image: Callable[[Image], _Fields]
    file: Callable[[File], _Fields]

    def content(self, content: Content) -> str | list[_Fields]:
        """Encode user content: a string unchanged, or a list of parts."""
        return well_formed(content) if isinstance(content, str) else list(map(self.part, content))

    def part(self, part: str | Image | File) -> _Fields:
        """Encode one part.

        Audio has the same form in every protocol: where OpenAI and Anthropic reject it, other servers that use their
        protocols can accept it.
        """
        loaded = load_part(part)
        if isinstance(loaded, str):
            return self.text(well_formed(loaded))
        if isinstance(loaded, Image):
            return self.image(loaded)
        if loaded.audio_format:
            data = loaded.url.partition(",")[2]
            return {"type": "input_audio", "input_audio": {"data": data, "format": loaded.audio_format}}
        return self.file(loaded)


def base64_source(url: str) -> tuple[str, str]:
    """Media type and base64 data of a data: URL."""
    head, _, data = url.removeprefix("data:").partition(",")
    media_type = head.partition(";")[0].lower()
    if not head.endswith(";base64"):
        from base64 import b64encode
        from urllib.parse import unquote_to_bytes

        data = b64encode(unquote_to_bytes(data)).decode("ascii")
    return _MEDIA_TYPES.get(media_type, media_type), data


_MEDIA_TYPES = {"image/jpg": "image/jpeg"}

MAX_BYTES = 16_000_000
"""Maximum size of the cache; beyond it the cache is cleared."""

OVERHEAD_BYTES = 1_000
"""Estimated memory per cached item, in addition to its text."""


class EncodedEntry(dict[str, Any]):
    """An immutable entry of a request body, with its JSON encoding.

    `json` is passed if the encoding is already known.
    """

    __slots__ = ("json",)

    def __init__(self, fields: Mapping[str, Any], json: bytes | None = None) -> None:
        super().__init__(fields)
        self.json = _to_json(fields) if json is None else json


class EncodingCache:
    """Caches encoded messages and tools across requests. Thread-safe.

    Conversations only grow and messages are immutable, so that items are looked up by identity. `prepare` converts a
    part to the form in which it is sent.
    """

    def __init__(self, prepare: Callable[[Any], Any] = lambda part: part) -> None:
        self._prepare = prepare
        self._entries: dict[object, dict[int, tuple[object, Sequence[EncodedEntry]]]] = {}
        self._bytes = 0

    def entries(
        self, parts: Iterable[object], encode: Callable[[Any], Sequence[Mapping[str, Any]]]
    ) -> list[EncodedEntry]:
        """The entries for the parts, in order, encoded by `encode`, which must be a module-level function."""
        cached = self._entries.setdefault(encode, {})
        entries: list[EncodedEntry] = []
        for part in parts:
            cached_entry = cached.get(id(part))
            entries += self._encode_part(part, encode) if cached_entry is None else cached_entry[1]
        return entries

    def _encode_part(
        self, part: object, encode: Callable[[Any], Sequence[Mapping[str, Any]]]
    ) -> Sequence[EncodedEntry]:
        """Encode a new part. The part is stored with its entries, so that its identity is not reused."""
        entries = [EncodedEntry(fields) for fields in encode(self._prepare(part))]
        if self._bytes > MAX_BYTES:
            self._entries, self._bytes = {}, 0
        for entry in entries:
            self._bytes += len(entry.json) + OVERHEAD_BYTES
        self._entries.setdefault(encode, {})[id(part)] = part, entries
        return entries


def serialise_body(body: Mapping[str, Any]) -> bytes:
    """Serialise a body as JSON. Raises ValueError for values outside JSON, UnicodeEncodeError for a lone surrogate."""
    fields = []
    for name, value in body.items():
        entries = value if isinstance(value, list) else [value]
        encoded = b",".join([entry.json if type(entry) is EncodedEntry else _to_json(entry) for entry in entries])
        fields.append(b"%b:%b" % (_to_json(name), b"[%b]" % encoded if isinstance(value, list) else encoded))
    return b"{%b}" % b",".join(fields)


def _setting_to_json(value: Any) -> Any:
    """Convert a datetime or a pydantic model in a setting to JSON data."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_setting_to_json).encode


_quote = json.encoder.encode_basestring


def _to_json(value: object) -> bytes:
    if (
        type(value) is dict and len(value) == 2 and list(value) == _PLAIN_MESSAGE
    ):  # most messages, in a quarter of the time
        role, content = value.values()
        if type(role) is str and type(content) is str:
            return f'{{"role":{_quote(role)},"content":{_quote(content)}}}'.encode()
    return _encode(value).encode()


_PLAIN_MESSAGE = ["role", "content"]
