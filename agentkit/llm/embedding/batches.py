"""Which texts go into one request for vectors, and what when its server refuses them? Pure: asked through a generator.

How many texts a server takes at once differs from 10 to thousands, and most say so only by refusing more: then half
as many are sent, and what was learnt holds for later ones.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentkit.errors import ConfigError, ModelError, Rejected
from agentkit.llm.embedding.vectors import Answer, Embeddings, body_of, check_lengths
from agentkit.llm.wire.failures import ended
from agentkit.usage import Tariff, Usage, is_whole, unreported

MOST_TEXTS = 96
"""How many texts are sent at once at first: few enough for nearly all servers, and for an answer of a few megabytes."""

MOST_TOKENS = 100_000
"""About how many tokens they may have together."""

_BYTES_A_TOKEN = 2.0
"""No kind of text has fewer; English has five."""

_PACKING, _BASE64 = "encoding_format", "base64"
"""A quarter of the bytes of numbers that are written out, and read in a tenth of the time."""

_TOO_MUCH = re.compile(
    r"batch|too many|too large|too long|at most \d|max(?:imum|\.)? (?:number|length|size|allowed)|tokens per request"
    r"|array_above_max_length",
    re.IGNORECASE,
)
"""How servers say that a request has too many texts, or texts of too many tokens."""

_ABOUT_SIZE = frozenset({None, 400, 413, 422})
_NO_VECTORS = frozenset({400, 403, 404, 405, 422, 501})
_NAME_ONE = (
    "Does this model make vectors? One that answers does not: LLM('openai', model='text-embedding-3-small') does, or "
    "LLM(model='ollama:nomic-embed-text')."
)

Body = dict[str, Any]
Asking = Generator[tuple[Body, int], tuple[Answer, int], Embeddings]
"""Yields a request and how many vectors it wants; takes the answer, and how often it was asked for in vain."""


@dataclass
class Lessons:
    """What the refusals of one server have taught."""

    most_texts: int = MOST_TEXTS
    takes_packed: bool = True


def checked(texts: Iterable[str]) -> list[str]:
    """The texts. Raises ConfigError for one text alone, and for what no model makes a vector of."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise ConfigError("embed() takes a list of texts and gives a list of vectors; for one: embed([text])[0].")
    known = list(texts)
    for number, text in enumerate(known):
        if not isinstance(text, str):
            raise ConfigError(f"embed() takes texts; texts[{number}] is {type(text).__name__}.")
        if not text or text.isspace():
            raise ConfigError(f"texts[{number}] is empty: there is no vector of nothing. Leave it out.")
    return known


def checked_settings(dimensions: int | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent beside the texts. Raises ConfigError for a length that no vector has."""
    if dimensions is not None and not is_whole(dimensions, 1):
        raise ConfigError(f"dimensions= takes a whole number from 1 on. Got {dimensions!r:.200}.")
    said = {name: value for name, value in settings.items() if value is not None}
    return said if dimensions is None else {**said, "dimensions": dimensions}


def asking(texts: Sequence[str], settings: Mapping[str, Any], tariff: Tariff, lessons: Lessons) -> Asking:
    """Ask for the vectors of all texts, batch by batch, and put them in order. Raises ModelError."""
    made, most_texts = Embeddings(), lessons.most_texts
    while len(made) < len(texts):
        batch = _batch(texts, len(made), most_texts)
        packed = {_PACKING: _BASE64} if lessons.takes_packed else {}
        body = body_of(batch, tariff.model, {**packed, **settings})
        try:
            answer, in_vain = yield body, len(batch)
        except ModelError as error:
            if _learnt(error, body, settings, lessons):
                continue
            if len(batch) == 1 or not _is_too_much(error):
                _explain(error, batch, len(made), tariff.model)
                raise
            most_texts = (len(batch) + 1) // 2
            continue
        made += answer.vectors
        check_lengths(made, settings.get("dimensions"))
        made.model = answer.model or made.model
        made.usage += _charged(answer, in_vain, tariff)
    lessons.most_texts = most_texts
    return made


def _batch(texts: Sequence[str], first: int, most_texts: int) -> Sequence[str]:
    """The next texts, as many as may go together; one in any case."""
    tokens = 0.0
    for number in range(first, min(first + most_texts, len(texts))):
        tokens += len(texts[number].encode("utf-8", "surrogatepass")) / _BYTES_A_TOKEN
        if tokens > MOST_TOKENS and number > first:
            return texts[first:number]
    return texts[first : first + most_texts]


def _learnt(error: ModelError, body: Body, settings: Mapping[str, Any], lessons: Lessons) -> bool:
    """Whether the server refuses what we have added to the request, so that it helps to leave it out."""
    is_named = error.parameter == _PACKING or _PACKING in str(error)
    if not isinstance(error, Rejected) or _PACKING not in body or _PACKING in settings or not is_named:
        return False
    lessons.takes_packed = False
    return True


def _is_too_much(error: ModelError) -> bool:
    """Whether fewer texts at once may help."""
    if not isinstance(error, Rejected) or error.status not in _ABOUT_SIZE:
        return False
    return error.is_too_long or _TOO_MUCH.search(f"{error.code} {error}") is not None


def _explain(error: ModelError, batch: Sequence[str], first: int, model: str) -> None:
    """Say in an error what to do about it."""
    advice = ""
    if isinstance(error, Rejected) and error.is_too_long and len(batch) == 1:
        length = f"{len(batch[0]):,} characters"
        advice = f"texts[{first}] ({length}) is longer than {model} can read: cut it, as Knowledge cuts documents."
    elif error.status in _NO_VECTORS:
        advice = _NAME_ONE
    if advice:
        error.args = (f"{ended(str(error))} {advice}",)


def _charged(answer: Answer, in_vain: int, tariff: Tariff) -> Usage:
    """What an answer took, with the requests that came to nothing before it."""
    charged = tariff.of_request(answer.model, answer.usage.input_tokens)
    return answer.usage.under(charged) + unreported(in_vain, charged)
