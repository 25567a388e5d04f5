"""How does a body become bytes, when most of it was sent before? Each part of it is encoded once. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MOST_BYTES = 16_000_000
"""How much is kept before all of it is let go."""

OVERHEAD_BYTES = 1_000
"""About what each thing that is kept takes beside its text."""


class Entry(dict[str, Any]):
    """An entry of a body, with itself as JSON. It never changes: what would change it makes another dictionary.

    `json` is given by who has put it together already.
    """

    __slots__ = ("json",)

    def __init__(self, fields: Mapping[str, Any], json: bytes | None = None) -> None:
        super().__init__(fields)
        self.json = _json(fields) if json is None else json


class Written:
    """Messages and tools as they look in a body, those of earlier requests too. Any thread may use it.

    A conversation only grows and its messages never change, so that what is known of one is found by its identity.
    `sendable` gives the form in which a part is sent.
    """

    def __init__(self, sendable: Callable[[Any], Any] = lambda part: part) -> None:
        self._sendable = sendable
        self._known: dict[object, dict[int, tuple[object, Sequence[Entry]]]] = {}
        self._bytes = 0

    def entries(self, parts: Iterable[object], encode: Callable[[Any], Sequence[Mapping[str, Any]]]) -> list[Entry]:
        """The entries that `encode`, which is a function of a module, makes of the parts, in order."""
        known = self._known.setdefault(encode, {})
        entries: list[Entry] = []
        for part in parts:
            found = known.get(id(part))
            entries += self._made(part, encode) if found is None else found[1]
        return entries

    def _made(self, part: object, encode: Callable[[Any], Sequence[Mapping[str, Any]]]) -> Sequence[Entry]:
        """The entries of a part that is new. It is kept beside them, so that nothing else gets its identity."""
        made = [Entry(fields) for fields in encode(self._sendable(part))]
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
    return b"[%b]" % b",".join([entry.json if type(entry) is Entry else _json(entry) for entry in value])


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
