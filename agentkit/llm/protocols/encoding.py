"""Encoding of message content, with a cache of messages encoded before (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.content import File, Image, worded
from agentkit.messages import Content, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of one protocol: of a text, which is well-formed, of an image, and of a file."""

    text: Callable[[str], _Fields]
    image: Callable[[Image], _Fields]
    file: Callable[[File], _Fields]

    def content(self, content: Content) -> str | list[_Fields]:
        """What a user says: a text as it is, or its parts."""
        return well_formed(content) if isinstance(content, str) else list(map(self.part, content))

    def part(self, part: str | Image | File) -> _Fields:
        """A part of it.

        A recording has the same form everywhere: where OpenAI and Anthropic refuse it, others that speak their
        protocols may take it.
        """
        given = worded(part)
        if isinstance(given, str):
            return self.text(well_formed(given))
        if isinstance(given, Image):
            return self.image(given)
        if given.sound:
            data = given.url.partition(",")[2]
            return {"type": "input_audio", "input_audio": {"data": data, "format": given.sound}}
        return self.file(given)


MOST_BYTES = 16_000_000
"""How much is kept before all of it is let go."""

OVERHEAD_BYTES = 1_000
"""About what each thing that is kept takes beside its text."""


class EncodedEntry(dict[str, Any]):
    """An entry of a body, with itself as JSON. It never changes: what would change it makes another dictionary.

    `json` is given by who has put it together already.
    """

    __slots__ = ("json",)

    def __init__(self, fields: Mapping[str, Any], json: bytes | None = None) -> None:
        super().__init__(fields)
        self.json = _json(fields) if json is None else json


class EncodingCache:
    """Messages and tools as they look in a body, those of earlier requests too. Any thread may use it.

    A conversation only grows and its messages never change, so that what is known of one is found by its identity.
    `sendable` gives the form in which a part is sent.
    """

    def __init__(self, sendable: Callable[[Any], Any] = lambda part: part) -> None:
        self._sendable = sendable
        self._known: dict[object, dict[int, tuple[object, Sequence[EncodedEntry]]]] = {}
        self._bytes = 0

    def entries(
        self, parts: Iterable[object], encode: Callable[[Any], Sequence[Mapping[str, Any]]]
    ) -> list[EncodedEntry]:
        """The entries that `encode`, which is a function of a module, makes of the parts, in order."""
        known = self._known.setdefault(encode, {})
        entries: list[EncodedEntry] = []
        for part in parts:
            found = known.get(id(part))
            entries += self._made(part, encode) if found is None else found[1]
        return entries

    def _made(self, part: object, encode: Callable[[Any], Sequence[Mapping[str, Any]]]) -> Sequence[EncodedEntry]:
        """The entries of a part that is new. It is kept beside them, so that nothing else gets its identity."""
        made = [EncodedEntry(fields) for fields in encode(self._sendable(part))]
        if self._bytes > MOST_BYTES:
            self._known, self._bytes = {}, 0
        for entry in made:
            self._bytes += len(entry.json) + OVERHEAD_BYTES
        self._known.setdefault(encode, {})[id(part)] = part, made
        return made


def written(body: Mapping[str, Any]) -> bytes:
    """The body as JSON. Raises ValueError for what JSON cannot hold, UnicodeEncodeError for half a character."""
    return b"{%b}" % b",".join([b"%b:%b" % (_json(name), _value(value)) for name, value in body.items()])


def _value(value: object) -> bytes:
    if not isinstance(value, list):
        return _json(value)
    return b"[%b]" % b",".join([entry.json if type(entry) is EncodedEntry else _json(entry) for entry in value])


def _as_data(value: Any) -> Any:
    """What a setting that is no JSON stands for: a moment, or a pydantic model."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_as_data).encode


def _json(value: object) -> bytes:
    return _encode(value).encode()
