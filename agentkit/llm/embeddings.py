"""Embedding requests: encoding, batching and decoding.

The number of texts that servers accept in one request ranges from 10 to thousands, and most report it only by rejecting
more: then half as many are sent, and the limit is remembered for later requests.
"""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from agentkit.errors import BadResponse, ConfigError, ModelError, Rejected
from agentkit.llm.pipeline import Provider, StageSteps
from agentkit.llm.protocols.error_mapping import as_sentence, json_object, raise_error_in
from agentkit.llm.protocols.parsing import dictionaries, dictionary, usage_of, word
from agentkit.messages import EmbeddingAnswer
from agentkit.usage import NO_USAGE, Cost, Tariff, Usage, is_whole, unreported

if TYPE_CHECKING:
    from collections.abc import Iterator


Vector = list[float]

_COUNTS, _DETAILS = ("prompt_tokens", "completion_tokens"), ("prompt_tokens_details", "completion_tokens_details")
_MAX_SHOWN_CHARS, _FLOAT_BYTES = 60, 4
_MAX_DIGITS = 9
_TRY = "Try again, or use another model."


class Embeddings(list[Vector]):
    """A list of vectors, one per text, in the order of the texts, with usage information.

    `usage` is the usage reported by the server, `model` the server's name for the model, or empty.
    """

    def __init__(self, vectors: Iterable[Vector] = (), model: str = "", usage: Usage = NO_USAGE) -> None:
        super().__init__(vectors)
        self.model, self.usage = model, usage

    @property
    def cost(self) -> Cost | None:
        """The cost in US dollars; None if the model's price is unknown."""
        from agentkit.llm.pricing import cost_of

        return cost_of(self.usage)


def body_of(texts: Sequence[str], model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The request body for some texts."""
    return {"model": model, "input": list(texts), **settings}


def read_vectors(text: str, count: int) -> EmbeddingAnswer:
    """Parse the response for `count` texts. Raises ModelError for an error, BadResponse for an invalid response."""
    data = json_object(text)
    raise_error_in(data)
    entries = dictionaries(data.get("data"))
    if len(entries) != count:
        shown = "" if entries else f": it says {text[:_MAX_SHOWN_CHARS]!r}"
        raise BadResponse(f"The server received {count} texts and returned {len(entries)} vectors{shown}. {_TRY}")
    vectors = [_vector(entry.get("embedding")) for entry in _in_order(entries)]
    return EmbeddingAnswer(vectors, word(data.get("model")), _usage(dictionary(data.get("usage"))))


def check_lengths(vectors: Sequence[Vector], dimensions: object) -> None:
    """Raise BadResponse unless all vectors have the same length, equal to `dimensions` if given."""
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise BadResponse(f"The server returned vectors of different lengths: {', '.join(map(str, lengths))}. {_TRY}")
    if dimensions is not None and lengths and lengths != [dimensions]:
        raise BadResponse(
            f"dimensions={dimensions} was requested, but the server returned {lengths[0]} numbers: it or its "
            "model supports one length only. Omit dimensions=."
        )


def _usage(figures: Mapping[str, Any]) -> Usage:
    """Parse usage figures. All tokens are input, and some servers report only the total."""
    return usage_of({"prompt_tokens": figures.get("total_tokens"), **figures}, _COUNTS, _DETAILS)


def _in_order(entries: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The entries in the order of the texts. If the server sends no indexes, or only 0, the order is unchanged."""
    numbers = [_index(entry.get("index")) for entry in entries]
    if not any(numbers):
        return entries
    known = dict(zip(numbers, entries, strict=True))
    if known.keys() != set(range(len(entries))):
        raise BadResponse(
            f"The indexes of the {len(entries)} returned vectors are wrong, so they cannot be assigned to texts. {_TRY}"
        )
    return [known[number] for number in range(len(entries))]


def _index(index: object) -> object:
    """The index of a vector, which some servers send as text or float; 0 if missing."""
    if isinstance(index, str) and index.isdecimal() and len(index) < _MAX_DIGITS:
        return int(index)
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if type(index) is int else word(index) or 0


def _vector(given: object) -> Vector:
    """Decode a vector: 32-bit floats in base64, or a list of numbers. Raises BadResponse."""
    try:
        numbers = _unpack(given) if isinstance(given, str) else list(_numbers(given))
    except (TypeError, ValueError, OverflowError, struct.error):
        numbers = []
    if not numbers or not math.isfinite(sum(numbers)):
        raise BadResponse(
            "The embeddings response contains an invalid vector: not a list of finite numbers. Try another model."
        )
    return numbers


def _unpack(text: str) -> Vector:
    text = "".join(text.split())
    packed = b64decode(text + "=" * (-len(text) % 4), validate=True)
    return list(struct.unpack(f"<{len(packed) // _FLOAT_BYTES}f", packed))


def _numbers(given: object) -> Iterator[float]:
    """The numbers of a list, or of a nested list, as sent by servers that can embed each token."""
    if not isinstance(given, list):
        raise TypeError
    inner = given[0] if len(given) == 1 and isinstance(given[0], list) else given
    return map(float, inner)


class EmbeddingProvider(Protocol):
    """A provider that supports embeddings."""

    def embed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Embed texts, one vector each, blocking."""
        ...

    async def aembed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Async version of `embed`."""
        ...


def embedder(provider: Provider, name: str = "") -> EmbeddingProvider:
    """The provider, if it supports embeddings. Raises ConfigError otherwise."""
    if not hasattr(provider, "embed"):
        provider_text = f"The provider {name!r}" if name else "This provider"
        raise ConfigError(
            f"{provider_text} cannot compute embeddings. Use a model that can: "
            "LLM('openai', model='text-embedding-3-small') or, without a key, LLM(model='ollama:nomic-embed-text')."
        )
    return cast("EmbeddingProvider", provider)


MAX_TEXTS = 96
"""Initial number of texts per request: accepted by nearly all servers, with responses of a few megabytes."""

MAX_TOKENS = 100_000
"""Approximate number of tokens per request."""

_BYTES_A_TOKEN = 2.0
"""Lower bound of bytes per token for any kind of text; English has five."""

_PACKING, _BASE64 = "encoding_format", "base64"
"""Base64 takes a quarter of the bytes of decimal numbers, and a tenth of the time to parse."""

_TOO_MUCH = re.compile(
    r"batch|too many|too large|too long|at most \d|max(?:imum|\.)? (?:number|length|size|allowed)|tokens per request"
    r"|array_above_max_length",
    re.IGNORECASE,
)
"""Messages about too many texts or tokens in a request."""

_ABOUT_SIZE = frozenset({None, 400, 413, 422})
_NO_VECTORS = frozenset({400, 403, 404, 405, 422, 501})
_NAME_ONE = (
    "Chat models cannot compute embeddings: use an embedding model such as LLM('openai', "
    "model='text-embedding-3-small') or LLM(model='ollama:nomic-embed-text')."
)

Body = dict[str, Any]
SendTexts = Callable[[Body, int], StageSteps[tuple[EmbeddingAnswer, int]]]
"""Sends a body with a number of texts; returns the response and the number of unanswered attempts."""


@dataclass
class BatchLimits:
    """Limits of one server, learnt from its rejections."""

    max_texts: int = MAX_TEXTS
    takes_packed: bool = True


def validate_texts(texts: Iterable[str]) -> list[str]:
    """Validate the texts. Raises ConfigError for a single string, and for items that cannot be embedded."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise ConfigError("embed() takes a list of texts. For a single text, use embed([text])[0].")
    known = list(texts)
    for number, text in enumerate(known):
        if not isinstance(text, str):
            raise ConfigError(f"embed() takes texts; texts[{number}] is {type(text).__name__}.")
        if not text or text.isspace():
            raise ConfigError(f"texts[{number}] is empty, and an empty text cannot be embedded. Remove it.")
    return known


def embedding_settings(dimensions: int | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings to send with the texts. Raises ConfigError if `dimensions` is invalid."""
    if dimensions is not None and not is_whole(dimensions, 1):
        raise ConfigError(f"dimensions= takes a whole number of at least 1. Got {dimensions!r:.200}.")
    set_values = {name: value for name, value in settings.items() if value is not None}
    return set_values if dimensions is None else {**set_values, "dimensions": dimensions}


def embedding_steps(
    texts: Sequence[str], settings: Mapping[str, Any], tariff: Tariff, limits: BatchLimits, send: SendTexts
) -> StageSteps[Embeddings]:
    """The steps that request vectors for all texts in batches, in order. Raise ModelError."""
    made, max_texts = Embeddings(), limits.max_texts
    while len(made) < len(texts):
        batch = _batch(texts, len(made), max_texts)
        packed = {_PACKING: _BASE64} if limits.takes_packed else {}
        body = body_of(batch, tariff.model, {**packed, **settings})
        try:
            answer, unanswered = yield from send(body, len(batch))
        except ModelError as error:
            if _drops_encoding_format(error, body, settings, limits):
                continue
            if len(batch) == 1 or not _is_too_much(error):
                _explain(error, batch, len(made), tariff.model)
                raise
            max_texts = (len(batch) + 1) // 2
            continue
        made += answer.vectors
        check_lengths(made, settings.get("dimensions"))
        made.model = answer.model or made.model
        charged = tariff.of_request(answer.model, answer.usage.input_tokens)
        made.usage += answer.usage.with_tariff(charged) + unreported(unanswered, charged)
    limits.max_texts = max_texts
    return made


def _batch(texts: Sequence[str], first: int, max_texts: int) -> Sequence[str]:
    """The next texts within the limits, at least one."""
    tokens = 0.0
    for number in range(first, min(first + max_texts, len(texts))):
        tokens += len(texts[number].encode("utf-8", "surrogatepass")) / _BYTES_A_TOKEN
        if tokens > MAX_TOKENS and number > first:
            return texts[first:number]
    return texts[first : first + max_texts]


def _drops_encoding_format(error: ModelError, body: Body, settings: Mapping[str, Any], limits: BatchLimits) -> bool:
    """Whether the server rejects the encoding format that agentkit added, so that it is dropped."""
    is_named = error.parameter == _PACKING or _PACKING in str(error)
    if not isinstance(error, Rejected) or _PACKING not in body or _PACKING in settings or not is_named:
        return False
    limits.takes_packed = False
    return True


def _is_too_much(error: ModelError) -> bool:
    """Whether fewer texts per request could help."""
    if not isinstance(error, Rejected) or error.status not in _ABOUT_SIZE:
        return False
    return error.is_too_long or _TOO_MUCH.search(f"{error.code} {error}") is not None


def _explain(error: ModelError, batch: Sequence[str], first: int, model: str) -> None:
    """Add advice to an error."""
    advice = ""
    if isinstance(error, Rejected) and error.is_too_long and len(batch) == 1:
        length = f"{len(batch[0]):,} characters"
        advice = f"texts[{first}] ({length}) is too long for {model}. Split it into chunks, as Knowledge does."
    elif error.status in _NO_VECTORS:
        advice = _NAME_ONE
    if advice:
        error.args = (f"{as_sentence(str(error))} {advice}",)
