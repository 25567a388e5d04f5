"""How is a Python value told to a model? As text or JSON, within bounds, the work as well as the length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from agentkit.decisions import Decision, Label
from agentkit.errors import Blocked, Postponed, ToolError, ToolTimeout
from agentkit.messages import Status, ToolResult, failure_content, well_formed
from agentkit.parts import files_in, images_in
from agentkit.redaction import redact, redact_value, redactor
from agentkit.tooling.rendering import cut_text, naming_handle, rendered, text_of

_STATUSES: dict[object, Status] = {word: word for word in get_args(Status)}
_GOOD: frozenset[Status | None] = frozenset({"ok", "empty", "truncated"})
_OF_A_RUN = frozenset({"waiting", "interrupted"})
"""What only a run can say of a call."""

BAD_ARGUMENTS, UNKNOWN_TOOL = "bad-arguments", "unknown-tool"
"""The rules of decisions on calls that could not be understood."""

_NOT_UNDERSTOOD = {BAD_ARGUMENTS, UNKNOWN_TOOL}
_MOST_NAME_CHARS = 64
_MOST_ERROR_CHARS = 2_000
_MOST_WHOLE_CHARS, _MOST_WHOLE_VALUES = 1_000_000, 40_000
_STATUS_OF: tuple[tuple[type[BaseException], Status], ...] = (
    (ToolTimeout, "timed_out"),
    (Blocked, "denied"),
    (Postponed, "waiting"),
)


def returned(
    tool_name: str,
    value: Any,
    max_chars: int,
    decision: Decision | None = None,
    seconds: float = 0.0,
    labels: frozenset[Label] = frozenset(),
) -> ToolResult:
    """What a function returned after `seconds`, without secrets, told in at most `max_chars` characters.

    Pictures and files are shown beside the text, whatever its length. A dictionary speaks for itself: by its
    `error`, with a status word as its `status`, or by the status of something empty or truncated. When something was
    left out, `whole` is the text in at most 1,000,000 characters, of at most 40,000 values, without secrets too.
    """
    clean = redactor()
    value = redact_value(value, clean)
    status, error = _standing(value)
    if type(value) is str:
        content, was_cut, shown = rendered(value, max_chars, clean=str)
    else:
        content, was_cut, shown = rendered(value, max_chars, clean=clean)
        content = clean(content)
    status = "truncated" if was_cut and status == "ok" else status
    whole = _whole(value, clean) if was_cut and max_chars < _MOST_WHOLE_CHARS else None
    told = _without_secrets(decision, clean)
    result = ToolResult(tool_name, status, content, value, error, told, seconds, labels, whole)
    return replace(result, images=images_in(shown), files=files_in(shown)) if shown else result


def with_handle(result: ToolResult, handle: str) -> ToolResult:
    """The result, when it was cut, with a note that tells the model how to read the rest: `read_more(handle=…)`.

    Text stays as long as it was; JSON grows by the length of the note.
    """
    if result.whole is None:
        return result
    return replace(result, content=naming_handle(result.content, handle))


def failure(tool_name: str, error: str, status: Status, decision: Decision | None = None) -> ToolResult:
    """A call that came to nothing, told as the JSON text `{"error": …, "tool": …}`."""
    error = well_formed(cut_text(redact(error), _MOST_ERROR_CHARS))
    content = failure_content(well_formed(tool_name[:_MOST_NAME_CHARS]), error)
    return ToolResult(tool_name, status, content, error=error, decision=_without_secrets(decision))


def fault(
    tool_name: str,
    error: Exception,
    decision: Decision | None = None,
    seconds: float = 0.0,
    labels: frozenset[Label] = frozenset(),
) -> ToolResult:
    """A call that raised: `TypeName: message`, or only the message when it was raised to be told to a model."""
    status: Status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), "failed")
    return replace(failure(tool_name, told(error), status, decision), seconds=seconds, labels=labels)


def denial(tool_name: str, decision: Decision) -> ToolResult:
    """A call that was judged and may not happen: the reason, and what would be allowed.

    A call that could not be understood has failed, rather than been denied.
    """
    status: Status = "failed" if decision.rule in _NOT_UNDERSTOOD else "denied"
    return failure(tool_name, objection(decision), status, decision)


def objection(decision: Decision) -> str:
    """Reason and remedy of a decision as one text."""
    return f"{decision.reason} {decision.remedy}".strip()


def told(error: Exception) -> str:
    """An exception in words, without traceback."""
    message = text_of(error)
    if isinstance(error, ToolError) and message:
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _whole(value: Any, clean: Callable[[str], str]) -> str:
    """The text of a value that is too long for a model, as far as it is kept. A text is without secrets already."""
    if type(value) is str:
        return well_formed(cut_text(value, _MOST_WHOLE_CHARS))
    return clean(rendered(value, _MOST_WHOLE_CHARS, _MOST_WHOLE_VALUES, clean)[0])


def _without_secrets(decision: Decision | None, clean: Callable[[str], str] | None = None) -> Decision | None:
    """The decision as it may be shown: its evidence quotes what a model wrote."""
    if decision is None:
        return None
    clean = clean or redactor()
    texts = decision.reason, decision.evidence, decision.remedy
    reason, evidence, remedy = shown = clean(texts[0]), clean(texts[1]), clean(texts[2])
    return decision if shown == texts else replace(decision, reason=reason, evidence=evidence, remedy=remedy)


def _standing(value: Any) -> tuple[Status, str | None]:
    """The status and error that a dictionary tells of its call; a status without an error may be that of an order."""
    if not isinstance(value, dict):
        return "ok", None
    error = well_formed(cut_text(redact(text_of(value["error"])), _MOST_ERROR_CHARS)) if value.get("error") else None
    word = value.get("status")
    told = _STATUSES.get(word) if isinstance(word, str) and word not in _OF_A_RUN else None
    if error is None and told not in _GOOD:
        return "ok", None
    return told or "failed", error
