"""What came of a request: a reply, or a failure in one word and one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentkit.decisions import Decision
from agentkit.messages import Status
from agentkit.safety.addresses import Url
from agentkit.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a server: where it came from, HTTP status, headers in lower case, decoded body.

    `cut` says in words why the body is not whole; it is empty when it is.
    """

    url: Url
    http_status: int
    headers: Mapping[str, str]
    body: bytes
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer: the status word, a sentence for a model, and the denial if it was one."""

    status: Status
    error: str
    decision: Decision | None = None
    http_status: int | None = None
    retry_after_seconds: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The keys `error` and `status`, and those of the others that have something to say."""
        more = {
            "decision": self.decision.to_dict() if self.decision else None,
            "http_status": self.http_status,
            "retry_after_seconds": self.retry_after_seconds,
        }
        return {"error": self.error, "status": self.status} | {key: value for key, value in more.items() if value}


def denied(decision: Decision) -> Failure:
    """The failure of a request that was judged and may not happen."""
    return Failure("denied", f"{decision.reason} {decision.remedy}".strip(), decision)


def retry_after_seconds(reply: Reply) -> int | None:
    """How long a server asks to wait, when it says so in seconds."""
    wish = reply.headers.get("retry-after", "")
    return int(wish) if _SECONDS.fullmatch(wish) else None


def refused(reply: Reply) -> Failure | None:
    """The failure that the HTTP status of a reply tells, or None for a success (2xx)."""
    from http import HTTPStatus

    code = reply.http_status
    if 200 <= code < 300:
        return None
    phrase = HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "no standard status"
    error = f"{reply.url.host} answered {code} ({phrase})."
    return Failure(_STATUS_OF.get(code, "failed"), error, None, code, retry_after_seconds(reply))


_STATUS_OF: Mapping[int, Status] = {401: "blocked", 403: "blocked", 407: "blocked", 451: "blocked", 429: "rate_limited"}
_SECONDS = re.compile("[0-9]{1,6}")
