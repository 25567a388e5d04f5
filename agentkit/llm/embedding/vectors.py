"""How do texts look as a request for vectors, and what is in its answer? Pure."""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentkit.errors import BadResponse
from agentkit.llm.wire.failures import json_object, raise_error_inside
from agentkit.llm.wire.reading import dictionaries, dictionary, usage_of, word
from agentkit.usage import NO_USAGE, Cost, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

Vector = list[float]

PATH = "/embeddings"

_COUNTS, _DETAILS = ("prompt_tokens", "completion_tokens"), ("prompt_tokens_details", "completion_tokens_details")
_MOST_SHOWN_CHARS, _FLOAT_BYTES = 60, 4
_MOST_DIGITS = 9
_TRY = "Try again, or take another model."


class Embeddings(list[Vector]):
    """A vector for each text, in the order of the texts: a list like any other, that also knows what it took.

    `usage` is what the server counted, `model` what it calls the model, empty when it does not say.
    """

    def __init__(self, vectors: Iterable[Vector] = (), model: str = "", usage: Usage = NO_USAGE) -> None:
        super().__init__(vectors)
        self.model, self.usage = model, usage

    @property
    def cost(self) -> Cost | None:
        """What they cost, in US dollars; None when nobody knows the model's price."""
        from agentkit.llm.prices import cost_of

        return cost_of(self.usage)


class Answer(NamedTuple):
    """What a server says to one request: the vectors in the order of its texts, and what they took."""

    vectors: list[Vector]
    model: str
    usage: Usage


def body_of(texts: Sequence[str], model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The request for the vectors of some texts."""
    return {"model": model, "input": list(texts), **settings}


def read(text: str, count: int) -> Answer:
    """The answer for so many texts. Raises ModelError for an error, and BadResponse for anything but their vectors."""
    data = json_object(text)
    raise_error_inside(data)
    entries = dictionaries(data.get("data"))
    if len(entries) != count:
        shown = "" if entries else f": it says {text[:_MOST_SHOWN_CHARS]!r}"
        raise BadResponse(f"The server was sent {count} texts and gave {len(entries)} vectors{shown}. {_TRY}")
    vectors = [_vector(entry.get("embedding")) for entry in _in_order(entries)]
    return Answer(vectors, word(data.get("model")), _usage(dictionary(data.get("usage"))))


def check_lengths(vectors: Sequence[Vector], dimensions: object) -> None:
    """Raises BadResponse unless all vectors have one length, which is `dimensions` where that was asked for."""
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise BadResponse(f"The server gave vectors of several lengths: {', '.join(map(str, lengths))}. {_TRY}")
    if dimensions is not None and lengths and lengths != [dimensions]:
        raise BadResponse(
            f"dimensions={dimensions} was asked for, and the server gave {lengths[0]} numbers: it or its model knows "
            "one length only. Leave dimensions= out."
        )


def _usage(figures: Mapping[str, Any]) -> Usage:
    """What was counted. All of it is input, and some servers name the total alone."""
    return usage_of({"prompt_tokens": figures.get("total_tokens"), **figures}, _COUNTS, _DETAILS)


def _in_order(entries: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The entries in the order of the texts. A server that numbers none of them, or all with 0, keeps the order."""
    numbers = [_place(entry.get("index")) for entry in entries]
    if not any(numbers):
        return entries
    known = dict(zip(numbers, entries, strict=True))
    if known.keys() != set(range(len(entries))):
        raise BadResponse(
            f"The server numbers its {len(entries)} vectors wrongly, so that nobody knows whose they are. {_TRY}"
        )
    return [known[number] for number in range(len(entries))]


def _place(index: object) -> object:
    """The number of a vector, which some servers write as a text or a fraction; none is 0."""
    if isinstance(index, str) and index.isdecimal() and len(index) < _MOST_DIGITS:
        return int(index)
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if type(index) is int else word(index) or 0


def _vector(given: object) -> Vector:
    """A vector in an answer: 32-bit floats in base64, or a list of numbers. Raises BadResponse."""
    try:
        numbers = _unpacked(given) if isinstance(given, str) else list(_numbers(given))
    except (TypeError, ValueError, OverflowError, struct.error):
        numbers = []
    if not numbers or not math.isfinite(sum(numbers)):
        raise BadResponse("The server gave a vector that is none: it is no list of finite numbers. Try another model.")
    return numbers


def _unpacked(text: str) -> Vector:
    text = "".join(text.split())
    packed = b64decode(text + "=" * (-len(text) % 4), validate=True)
    return list(struct.unpack(f"<{len(packed) // _FLOAT_BYTES}f", packed))


def _numbers(given: object) -> Iterator[float]:
    """Numbers in a list, or in a list within it, as servers have them that can tell of each token."""
    if not isinstance(given, list):
        raise TypeError
    inner = given[0] if len(given) == 1 and isinstance(given[0], list) else given
    return map(float, inner)
