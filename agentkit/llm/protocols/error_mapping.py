"""Mapping of provider errors to agentkit errors, including exceeded context windows (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.llm.protocols.parsing import dictionaries, dictionary, json_or_text
from agentkit.text_encoding import lazy_pattern

FILTERED = "content_filter"
"""Error code of a response withheld by the provider's content filter."""

CUT_SHORT, GENERATION_FAILED = "stream_cut_short", "generation_failed"
"""Error codes of responses that ended too early; they are retried if nothing was emitted."""

_PAYMENT_REQUIRED, _FORBIDDEN = 402, 403
_CLASS_BY_STATUS: dict[int, type[ModelError]] = {
    401: Unauthorized,
    403: Unauthorized,
    408: Unreachable,
    424: Unreachable,  # Text Generation Inference: the generation failed
    425: Unreachable,
    429: RateLimited,
    498: Unreachable,  # Groq: no capacity left
    499: Unreachable,  # proxies: the upstream server gave up
}
_CODE_FIELDS = ("code", "type", "status", "error_code", "error_type")
"""Fields that contain an error code."""

_STATUS_FIELDS = ("status_code", "http_status_code", "statusCode")
"""Fields with the status of an error inside a 200 response, if its code does not contain it."""

_CLASS_BY_CODE: dict[str, type[ModelError]] = {
    "invalid_api_key": Unauthorized,
    "invalid_authentication_error": Unauthorized,
    "api_key_invalid": Unauthorized,
    "authentication_error": Unauthorized,
    "permission_error": Unauthorized,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "insufficient_quota": RateLimited,
    "credit_balance_exhausted": RateLimited,
    "organization_spend_limit_exceeded": RateLimited,
    "organization_usage_limit_exceeded": RateLimited,
    "project_spend_limit_exceeded": RateLimited,
    "exceeded_current_quota_error": RateLimited,
    "billing_hard_limit_reached": RateLimited,
    "too_many_requests": RateLimited,
    "rate_limit_reached_error": RateLimited,
    "rate_limited": RateLimited,
    "throttling": RateLimited,
    "throttlingexception": RateLimited,
    "resource_exhausted": RateLimited,
    "server_error": Unreachable,
    "internal_error": Unreachable,
    "internal_server_error": Unreachable,
    "overloaded": Unreachable,
    "overloaded_error": Unreachable,
    "server_is_overloaded": Unreachable,
    "engine_overloaded_error": Unreachable,
    "service_unavailable": Unreachable,
    "service_unavailable_error": Unreachable,
    "unavailable": Unreachable,
    "timeout": Unreachable,
    "timeout_error": Unreachable,
    "generation": Unreachable,
    "incomplete_generation": Unreachable,
}

_ADVICE: dict[int, str] = {
    401: "Check the API key.",
    402: "Check the account's balance.",
    403: "The key is valid but lacks permission; check its permissions and the model's name.",
    404: "Check the model's name and the base URL.",
    405: "Check the base URL.",
    409: "Try again.",
}
_WAIT_OR_PAY = "Wait, or check the account's quota."
_SHORTEN = "Shorten the conversation, or use a model with a larger context window."
_NO_REASON = "Check the base URL, the model's name and the settings."
_CHANGE_WORDING = "Change the wording."
_NO_BALANCE = "Check the account's balance and quota; waiting does not help."

_BAD_KEY = lazy_pattern(
    r"(?:incorrect|invalid|expired|missing) api[ _-]?key|api[ _-]?key (?:is |was |has )?(?:not valid|invalid|expired)"
    r"|bearer token (?:is |has )?(?:not valid|invalid|expired)|login fail",
    re.IGNORECASE,
)
"""Messages for an invalid key, with status 400 or inside a 200 response."""

_CLASS_BY_TEXT: tuple[tuple[re.Pattern[str], type[ModelError]], ...] = (
    (lazy_pattern(r"rate.?limit|too many requests|quota exceeded|throttl", re.IGNORECASE), RateLimited),
    (
        lazy_pattern(
            r"internal (?:server )?error|overloaded|unavailable|timed? ?out|bad gateway|at capacity"
            r"|upstream (?:connect )?error|connection (?:was )?(?:reset|refused|closed|terminated)",
            re.IGNORECASE,
        ),
        Unreachable,
    ),
)
"""Messages for temporary failures inside a 200 response, used if neither status nor a known code identifies them."""

_UNSUPPORTED_CODES = frozenset({"not_supported_error", "not_implemented"})
_UNSUPPORTED = lazy_pattern(
    r"\bmmproj\b|\b(?:image|audio|video|file|media|multi-?modal)s?(?: \w+){0,2} (?:is|are) not supported", re.IGNORECASE
)
"""Codes and messages with status 5xx, as sent by llama.cpp, for features that the model or server lacks."""

_FLAGGED = lazy_pattern(r"\b(?:was|were|been) flagged\b|requires moderation", re.IGNORECASE)
"""Messages with status 403 for content that is refused, regardless of the key."""

_QUOTA_EXHAUSTED = lazy_pattern(
    r"insufficient[_ ](?:quota|balance|credit|funds)|billing_|billing hard limit|credit[_ ]balance|out of credits"
    r"|(?:spend|usage)_limit_exceeded"
    r"|exceeded_current_quota|arrearage|余额",
    re.IGNORECASE,
)
"""Messages for an exhausted balance or quota."""

_STATED_PAUSE = lazy_pattern(
    r"(?:try again|retry) (?:in|after) (?:(\d+)h ?)?(?:(\d+)m(?!s) ?)?(?:(\d+(?:\.\d+)?) ?(ms|s))?"
)
_MESSAGE_FIELDS = ("message", "detail", "error_msg", "status_msg", "Message", "errorMessage", "msg")
_CONTROLS = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
_SEQUENCES = lazy_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x7f-\x9f]")
"""Terminal control sequences."""
_MAX_PAGE_CHARS, _MAX_TEXT_CHARS, _MAX_WRITTEN_CHARS = 4_000, 200, 20_000
_MAX_MESSAGE_CHARS = 30_000  # per text of an error: scanning megabytes would take seconds


def error_from_body(body: object, *, status: int | None = None, retry_after_seconds: float | None = None) -> ModelError:
    """Map an error body to a ModelError.

    `status` is the HTTP status; an error inside a 200 response can contain its own. A conversation that is too long
    becomes Rejected with a single code, whatever the provider's wording, and with the limit if the provider states it.
    """
    details = _truncate_texts(_details(body))
    codes = [code for code in (_text(details.get(name)) for name in _CODE_FIELDS) if code]
    code = next((code for code in codes if not code.isdigit()), codes[0] if codes else None)
    if status is None:
        statuses = [*codes, *(str(details.get(name)) for name in _STATUS_FIELDS)]
        status = next((int(code) for code in statuses if re.fullmatch(r"[45]\d\d", code)), None)
    text = _CONTROLS.sub(" ", _SEQUENCES.sub("", _message(details, body)[:_MAX_MESSAGE_CHARS]))
    kind = _error_class(status, [*codes, *_detail_values(details.get("details"), "reason")], text)
    if kind is Rejected and status == _FORBIDDEN:
        code = FILTERED
    written = _failed_generation(details)
    full_text = f"{text.rstrip('.')}: {written[:_MAX_PAGE_CHARS]}" if written else text
    parameter = _text(details.get("param")) or _location(_invalid_fields(details))
    if (length := context_length_error(details, codes, status)) is not None:
        message, limit = _error_message(full_text, status, _SHORTEN), length.limit_tokens
        error: ModelError = Rejected(message, status=status, code=TOO_LONG, parameter=parameter, limit_tokens=limit)
        error.written = written
        return error
    advice = _advice(kind, status, f"{codes} {text}") or ("" if _has_message(details, body) else _NO_REASON)
    error = kind(_error_message(full_text, status, advice), status=status, code=code, parameter=parameter)
    if isinstance(error, RateLimited):
        seconds = _stated_seconds(details, text) if retry_after_seconds is None else retry_after_seconds
        error.retry_after_seconds = seconds
    error.written = written
    return error


_ERROR_FIELDS = frozenset({"error", "errors", "detail", "x_groq", "base_resp", *_MESSAGE_FIELDS})


def raise_error_in(data: Mapping[str, Any]) -> None:
    """Raise the error that a body or chunk contains although its HTTP status was 200.

    Servers put it under `error`, mark the whole body as an error, or send its text instead of a response.
    """
    is_error = "error" in (data.get("object"), data.get("type"))
    if not is_error and _ERROR_FIELDS.isdisjoint(data):
        return
    is_answer = not data.keys().isdisjoint({"choices", "output", "response", "content"})
    is_text = any(isinstance(data.get(name), str) for name in _MESSAGE_FIELDS) or data.get("detail")
    if data.get("error") or is_error or ((is_text or data.get("errors")) and not is_answer):
        raise error_from_body(data)
    if isinstance(groq := data.get("x_groq"), dict) and groq.get("error"):
        raise error_from_body(groq)
    if dictionary(data.get("base_resp")).get("status_code"):
        raise error_from_body(data)


def is_quota_exhausted(text: str) -> bool:
    """Whether an error reports an exhausted balance or quota, so that waiting does not help."""
    return _QUOTA_EXHAUSTED.search(text) is not None


def json_object(text: str) -> dict[str, Any]:
    """Parse the JSON object of a response. Raises ModelError for anything else."""
    data = json_or_text(text)
    if isinstance(data, dict):
        return data
    if not text.strip():
        raise BadResponse("The provider sent an empty response. Try again, or check the base URL.", code=CUT_SHORT)
    if isinstance(data, list) and any(map(dictionary, data)):
        if len(data) == 1 and not data[0].get("error"):
            return dictionary(data[0])
        raise error_from_body(data)
    if isinstance(data, str) and text.lstrip().startswith(("{", "[")):
        raise BadResponse(f"The response is invalid JSON: it ends with {text[-80:]!r}. Try again.")
    raise not_compatible_error(text)


def missing_field_error(field_name: str, data: Mapping[str, Any]) -> BadResponse:
    """The error for JSON that lacks a required field of a response."""
    return BadResponse(
        f"The answer has no {field_name}: {str(data)[:200]}. Try again; if the error persists, check protocol= and the "
        "base URL."
    )


def not_compatible_error(text: str) -> BadResponse:
    """The error for an endpoint that sends something other than JSON."""
    if _CONTROLS.search(text[:_MAX_TEXT_CHARS]) and "\ufffd" in text[:_MAX_TEXT_CHARS]:
        return BadResponse(
            f"The response is not text ({_start(text[:20])!r}): it may be compressed in an encoding that was not "
            "requested. Try again, or check for a proxy that modifies responses."
        )
    return BadResponse(
        f"This is not an OpenAI-compatible endpoint: it answered with text that is not JSON ({_start(text)!r}). "
        "Check the base URL; it usually ends in /v1."
    )


def cut_short_error(chars: int) -> BadResponse:
    """The error for a stream that ended early, after `chars` characters of text."""
    message = (
        f"The stream was cut short after {chars} characters of text, before the server marked the response as "
        "complete. Try again."
    )
    return BadResponse(message, code=CUT_SHORT)


def unfinished_error(reason: str) -> BadResponse:
    """The error for a response that the provider could not finish, with its finish reason or status."""
    message = f"The provider did not finish the response; its reason is {reason!r}. Try again."
    return BadResponse(message, code=GENERATION_FAILED)


def refusal_error(refusal: str) -> Rejected:
    """The error for a model that refuses to answer."""
    return Rejected(f"The model refused to answer: {refusal}", code="refusal")


def filtered_error() -> Rejected:
    """The error for a response withheld by the provider's content filter."""
    return Rejected(
        "The provider's content filter withheld the answer. Change the wording, or the filter's settings.",
        code=FILTERED,
    )


def as_sentence(text: str) -> str:
    """A text that ends with punctuation, so that a sentence can follow."""
    return text if text.endswith((".", "!", "?", "。")) else f"{text}."


def _start(text: str) -> str:
    return " ".join(text.split())[:120]


def _error_class(status: int | None, codes: Iterable[str], text: str) -> type[ModelError]:
    """The error class: by status if it is specific, otherwise by the first known code, otherwise by the text."""
    if status == _FORBIDDEN and _FLAGGED.search(text):
        return Rejected
    if status in _CLASS_BY_STATUS:
        return _CLASS_BY_STATUS[status]
    if status is not None and status >= 500:
        is_permanent = _UNSUPPORTED.search(text) or not _UNSUPPORTED_CODES.isdisjoint(codes)
        return Rejected if is_permanent else Unreachable
    default: type[ModelError] = Unauthorized if _BAD_KEY.search(text) else Rejected
    if status is None and default is Rejected:
        default = next((kind for words, kind in _CLASS_BY_TEXT if words.search(text)), Rejected)
    return next((_CLASS_BY_CODE[code.lower()] for code in codes if code.lower() in _CLASS_BY_CODE), default)


def _advice(kind: type[ModelError], status: int | None, text: str) -> str:
    """Advice for the user; empty if the provider's message is enough."""
    if kind in (RateLimited, Rejected) and status != _PAYMENT_REQUIRED and is_quota_exhausted(text):
        return _NO_BALANCE
    if kind is Unauthorized and status != _FORBIDDEN:
        return _ADVICE[401]
    if kind is Unreachable:
        return "Try again later."
    if kind is RateLimited:
        return _WAIT_OR_PAY
    return _CHANGE_WORDING if kind is Rejected and status == _FORBIDDEN else _ADVICE.get(status or 0, "")


def _stated_seconds(details: Mapping[str, Any], text: str) -> float | None:
    """The pause stated in the error itself, as sent by Google's and OpenAI's servers."""
    delays = " ".join(f"retry in {delay}" for delay in _detail_values(details.get("details"), "retryDelay"))
    match = _STATED_PAUSE.search(f"{delays} {text.lower()}")
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds, unit = match.groups()
    return int(hours or 0) * 3_600 + int(minutes or 0) * 60 + float(seconds or 0) / (1_000 if unit == "ms" else 1)


def _details(body: object) -> Mapping[str, Any]:
    """The object that describes the error: servers nest it under `error`, send it at the top level, or in a list."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {"message": _text_of_page(body) if isinstance(body, str) else ""}
    error = body.get("error") or next(iter(dictionaries(body.get("errors"))), None) or body.get("base_resp") or body
    if isinstance(error, str) and error.startswith("{"):
        error = json_or_text(error)  # Bedrock's servers send the object as text
    if isinstance(error, dict):
        return error
    numbered = {"code": error} if type(error) is int else {}
    return {**numbered, **body, "message": body.get("message") or error}


def _truncate_texts(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """The details with very long texts truncated."""
    return {name: value[:_MAX_MESSAGE_CHARS] if isinstance(value, str) else value for name, value in details.items()}


def _message(details: Mapping[str, Any], body: object) -> str:
    """The provider's message, or the whole body if it has none."""
    if fields := _invalid_fields(details):
        return "; ".join(f"{_location([field])}: {field.get('msg')}" for field in fields)
    text = next(filter(None, (_text(details.get(name)) for name in _MESSAGE_FIELDS)), None)
    if text and (upstream := _upstream_message(details)) and upstream not in text:
        return f"{text.rstrip('.')}: {upstream[:_MAX_PAGE_CHARS]}"
    return text or (json.dumps(body, default=str) if body else "no explanation was given")


def _has_message(details: Mapping[str, Any], body: object) -> bool:
    """Whether the error contains a message; a page of HTML does not count."""
    if isinstance(body, str):
        return bool(body.strip()) and not body.lstrip().startswith("<")
    return any(_text(details.get(name)) for name in _MESSAGE_FIELDS)


def _upstream_message(details: Mapping[str, Any]) -> str:
    """The message of the provider behind a router, if the router passes it on."""
    raw = dictionary(details.get("metadata")).get("raw")
    body = json_or_text(raw) if isinstance(raw, str) else raw
    return _message(_details(body), body) if body else ""


def _failed_generation(details: Mapping[str, Any]) -> str:
    """Model output that the server failed to parse as a tool call; empty if it is very long."""
    written = details.get("failed_generation")
    return written if isinstance(written, str) and len(written) <= _MAX_WRITTEN_CHARS else ""


def _invalid_fields(details: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The list of invalid fields that FastAPI servers send, with their locations."""
    entries = details.get("detail") or dictionary(details.get("message")).get("detail")
    return [entry for entry in dictionaries(entries) if "loc" in entry]


def _location(fields: list[Mapping[str, Any]]) -> str | None:
    """The path of the first field, such as `messages.0.name`."""
    steps = fields[0]["loc"] if fields else None
    if not isinstance(steps, list):
        return _text(steps)
    return ".".join(str(step) for step in steps if step != "body") or None


def _detail_values(details: object, name: str) -> list[str]:
    """The values of a field in the details of Google's servers."""
    return [str(entry[name]) for entry in dictionaries(details) if name in entry]


def _error_message(message: str, status: int | None, advice: str) -> str:
    prefix = f"The provider answered {status}: " if status else "The provider answered with an error: "
    return f"{prefix}{as_sentence(message)} {advice}" if advice else f"{prefix}{message}"


def _text_of_page(text: str) -> str:
    """The text of a body that can be a page of HTML."""
    words = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", text[:_MAX_PAGE_CHARS], flags=re.DOTALL).split()
    return " ".join(words)[:_MAX_TEXT_CHARS]


def _text(value: object) -> str | None:
    """A code or message as text; servers send strings, numbers, objects and null."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value, default=str)


TOO_LONG = "context_length_exceeded"
"""The code used for every error about an exceeded context window."""

_CONTEXT_LENGTH_CODES = {
    TOO_LONG,
    "context_window_exceeded",
    "contextwindowexceedederror",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "tokens_limit_reached",
}
_NOT_LENGTH_STATUSES = {401, 403, 404}
_CONTENT_TOO_LARGE = 413
_MAX_CHARS = 4_000

_TOO_LONG_PATTERNS = (
    r"(?:maximum|max) (?:context|prompt|input|model|sequence) length (?:is|of) [\d,]+",
    r"exceed\w*\b[^.]{0,60}\b(?:context|maximum|max)(?: \w+)? (?:length|window|size|limit)",
    r"context (?:length|window|size|limit)[^.]{0,40} (?:exceeded|overflow)",
    r"(?:longer|larger|greater) than (?:the |this )?[\w' ]{0,20}context (?:length|window|size)",
    r"context (?:the )?overflows",
    r"(?:prompt|input)(?: \([^)]{1,60}\)| for [\w ]{1,30})? (?:is )?too long",
    r"prompt contains [\d,]+ tokens[^.]{0,80}too large",
    r"input \([\d,]+ tokens\) is too large to process",
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
    # Servers that subtract the prompt from the context window to get the room for the answer.
    r"max_tokens must be at least 1, got -\d",
    # One request above the tokens-per-minute limit: waiting never helps, only a shorter request does.
    r"request too large\b.{0,300}tokens per min",
)
_TOO_LONG = lazy_pattern("|".join(_TOO_LONG_PATTERNS), re.IGNORECASE | re.DOTALL)

_LIMITS = tuple(
    lazy_pattern(pattern.replace("#", r"(\d[\d,]*)"), re.IGNORECASE)
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
        r"batch size: #",
        r"(?:, maximum|exceeds maximum(?: [a-z]+)*) #",
    )
)
"""Patterns for the token limit in such a message; the first match is used."""


@dataclass(frozen=True, slots=True)
class ContextLengthExceeded:
    """The conversation is too long. `limit_tokens` is the model's limit, if the provider states it."""

    limit_tokens: int | None = None


def context_length_error(
    details: Mapping[str, Any], codes: Iterable[str], status: int | None
) -> ContextLengthExceeded | None:
    """Detect an error about the length of the conversation; None for any other error.

    Servers that limit the size in bytes use status 413, often without a message.
    """
    if status in _NOT_LENGTH_STATUSES:
        return None
    text = _messages(details)
    has_code = status == _CONTENT_TOO_LARGE or not _CONTEXT_LENGTH_CODES.isdisjoint(code.lower() for code in codes)
    if not has_code and not _TOO_LONG.search(text):
        return None
    limit = details.get("n_ctx")
    return ContextLengthExceeded(limit if isinstance(limit, int) else _limit(text))


def _messages(details: Mapping[str, Any]) -> str:
    """The messages of the provider and of the provider behind it, without fields that quote the request."""
    metadata = details.get("metadata")
    upstream = metadata.get("raw") if isinstance(metadata, dict) else None
    texts = (details.get("message"), details.get("detail"), upstream)
    return "\n".join(text[:_MAX_CHARS] for text in texts if isinstance(text, str))


def _limit(text: str) -> int | None:
    match = next(filter(None, (pattern.search(text) for pattern in _LIMITS)), None)
    return int(match[1].replace(",", "")) if match else None
