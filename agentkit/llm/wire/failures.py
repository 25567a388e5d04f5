"""Which error of ours is a provider's error? One table over status and code (pure)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

_BY_STATUS: dict[int, type[ModelError]] = {401: Unauthorized, 403: Unauthorized, 408: Unreachable, 429: RateLimited}

_BY_CODE: dict[str, type[ModelError]] = {
    "invalid_api_key": Unauthorized,
    "authentication_error": Unauthorized,
    "permission_error": Unauthorized,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "insufficient_quota": RateLimited,
    "too_many_requests": RateLimited,
    "server_error": Unreachable,
    "internal_error": Unreachable,
    "internal_server_error": Unreachable,
    "overloaded_error": Unreachable,
    "service_unavailable": Unreachable,
    "timeout": Unreachable,
}

_ADVICE: dict[int, str] = {
    401: "Check the API key.",
    403: "The key is valid but may not do this; check its permissions and the model's name.",
    404: "Check the model's name and the base URL.",
    429: "Wait, or check the account's quota.",
}
_MAX_MESSAGE_CHARS = 2_000


def failure(body: object, *, status: int | None = None, retry_after_seconds: float | None = None) -> ModelError:
    """The error that an error body stands for.

    `status` is the HTTP status; an error inside a 200 has its own in `code`, or none.
    """
    details = _details(body)
    code = _text(details.get("code")) or _text(details.get("type"))
    if status is None and code and code.isdigit():
        status = int(code)
    kind = _kind(status, {code, _text(details.get("type"))})
    message = _sentence(details, body, status)
    facts = {"status": status, "code": code, "parameter": _text(details.get("param"))}
    if kind is RateLimited:
        return RateLimited(message, status=status, code=code, retry_after_seconds=retry_after_seconds)
    return kind(message, **facts)  # type: ignore[arg-type]  # the three facts fit by name


def raise_error_inside(data: Mapping[str, Any]) -> None:
    """Raise the error that a body carries although its HTTP status was 200."""
    error = data.get("error")
    if error:
        raise failure(data)


def not_compatible(text: str) -> BadResponse:
    """What to say of an endpoint that answers with something else than JSON."""
    start = " ".join(text.split())[:120]
    return BadResponse(
        f"This is not an OpenAI-compatible endpoint: it answered with text that is no JSON ({start!r}). "
        "Check the base URL; it usually ends in /v1."
    )


def _kind(status: int | None, codes: set[str | None]) -> type[ModelError]:
    by_code = next((_BY_CODE[code] for code in codes if code in _BY_CODE), None)
    if status is None:
        return by_code or Rejected
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return Unreachable
    return by_code or Rejected


def _details(body: object) -> Mapping[str, Any]:
    """The part of an error body that says what is wrong: servers nest it under `error`, or do not, or send a list."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {"message": body if isinstance(body, str) else ""}
    error = body.get("error", body)
    if isinstance(error, dict):
        return error
    return {**body, "message": body.get("message") or error}


def _sentence(details: Mapping[str, Any], body: object, status: int | None) -> str:
    message = _text(details.get("message")) or _text(details.get("detail"))
    if not message:
        message = json.dumps(body, default=str) if body else "no explanation was given"
    where = f"The provider answered {status}: " if status else "The provider answered with an error: "
    advice = _ADVICE.get(status or 0, "")
    return f"{where}{message[:_MAX_MESSAGE_CHARS]} {advice}".rstrip()


def _text(value: object) -> str | None:
    """A code or message as text; servers send strings, numbers, objects and null."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value, default=str)
