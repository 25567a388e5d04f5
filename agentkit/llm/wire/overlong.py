"""Does a provider's error say that the conversation is too long for the model, and how long it may be? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agentkit.slotted import dataclass

TOO_LONG = "context_length_exceeded"
"""The one code that stands for all of them."""

_CODES = {
    TOO_LONG,
    "context_window_exceeded",
    "contextwindowexceedederror",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "tokens_limit_reached",
}
_NOT_ABOUT_LENGTH = {401, 403, 404}
_TOO_MANY_BYTES = 413
_MOST_CHARS = 4_000

_SAYINGS = (
    r"(?:maximum|max) (?:context|prompt|input|model|sequence) length (?:is|of) [\d,]+",
    r"exceed\w*\b[^.]{0,60}\b(?:context|maximum|max)(?: \w+)? (?:length|window|size|limit)",
    r"context (?:length|window|size|limit)[^.]{0,40} (?:exceeded|overflow)",
    r"(?:longer|larger|greater) than (?:the |this )?[\w' ]{0,20}context (?:length|window|size)",
    r"context (?:the )?overflows",
    r"(?:prompt|input)(?: \([^)]{1,60}\)| for [\w ]{1,30})? (?:is )?too long",
    r"prompt contains [\d,]+ tokens[^.]{0,80}too large",
    r"input tokens? (?:count )?(?:\([\d,]+\) )?exceeds? the",
    r"input length \([\d,]+ tokens\) exceeds",
    r"prompt token count of [\d,]+ exceeds",
    r"reduce the length of (?:the|your|either)",
    r"`inputs`[^.]{0,60} must (?:be <=|have less than)",
    # Cohere and AI21; Moonshot; MiniMax; Zhipu; DashScope; watsonx; Perplexity; NVIDIA and Databricks; GitHub.
    r"too many tokens:|prompt has too many tokens",
    r"exceed\w* (?:the )?model token limit",
    r"context window exceeds",
    r"tokens in request more than max tokens|prompt 超长",
    r"range of input length should be",
    r"input tokens [\d,]+ (?:cannot|can not) exceed",
    r"conversation (?:is )?too long",
    r"input length [\d,]+ exceeds",
    r"request body too large for [\w. -]+ model",
    # What a server that reckons the room for the answer says when there is none left.
    r"max_tokens must be at least 1, got -\d",
    # One request that takes more than a minute may bring: waiting never helps, a shorter one does.
    r"request too large\b.{0,300}tokens per min",
)
_TOO_LONG = re.compile("|".join(_SAYINGS), re.IGNORECASE | re.DOTALL)

_LIMITS = tuple(
    re.compile(pattern.replace("#", r"(\d[\d,]*)"), re.IGNORECASE)
    for pattern in (
        r"n_ctx: #",
        r"\d(?: tokens)? > #",
        r"(?:maximum|max) \w+ length (?:is|of) #",
        r"context (?:length|window|size)(?: of)?(?: only)? \(?(?:context length )?#",
        r"with # maximum context length",
        r"configured limit of #",
        r"limit (?:is|of) #",
        r"allowed(?: length)? \(#",
        r"must (?:be <=|have less than) #",
        r"limit:? #, requested",
        r"(?:cannot exceed|total tokens limit|token limit:|maximum context length:) #",
        r"length should be \[\d+, #",
        r"max size: # tokens",
        r"\(max #",
        r"(?:, maximum|exceeds maximum(?: [a-z]+)*) #",
    )
)
"""Where the limit stands in such a text; the first that is found counts."""


@dataclass(frozen=True, slots=True)
class Overlong:
    """The conversation is too long. `limit_tokens` is what the model can take, when the provider says it."""

    limit_tokens: int | None = None


def overlong(details: Mapping[str, Any], codes: Iterable[str], status: int | None) -> Overlong | None:
    """What an error body says about the length of the conversation; None when something else is wrong.

    A server that takes only so many bytes says it with status 413, often without a word.
    """
    if status in _NOT_ABOUT_LENGTH:
        return None
    said = _said(details)
    is_coded = status == _TOO_MANY_BYTES or not _CODES.isdisjoint(code.lower() for code in codes)
    if not is_coded and not _TOO_LONG.search(said):
        return None
    known = details.get("n_ctx")
    return Overlong(known if isinstance(known, int) else _limit(said))


def _said(details: Mapping[str, Any]) -> str:
    """The provider's words, and those of the provider behind it; nothing that quotes the request."""
    metadata = details.get("metadata")
    behind = metadata.get("raw") if isinstance(metadata, dict) else None
    texts = (details.get("message"), details.get("detail"), behind)
    return "\n".join(text[:_MOST_CHARS] for text in texts if isinstance(text, str))


def _limit(said: str) -> int | None:
    found = next(filter(None, (pattern.search(said) for pattern in _LIMITS)), None)
    return int(found[1].replace(",", "")) if found else None
