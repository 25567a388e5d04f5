"""Plain-text rendering of run events for terminals."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentkit.cli.terminal import SCHEMA_VERSION, clean, escape_invisible, for_shell, line_text
from agentkit.decisions import Verdict
from agentkit.event_rendering import arguments_text, is_shallow, main_text, parse_arguments, parse_json
from agentkit.safety.approval import APPROVED

if TYPE_CHECKING:
    from agentkit.agents.result import RunResult
    from agentkit.events import ToolCallFinished
    from agentkit.messages import FailedModel, ToolCall, ToolResult

_MAX_REFUSAL_CHARS = 240  # longer, because a refusal ends with its remedy
_MIN_SHOWN_SECONDS = 0.3


def json_line(document: Mapping[str, Any]) -> str:
    """Render a document as one line of JSON; characters that `clean` would remove are escaped. Raises SessionError."""
    from agentkit.sessions.codec import to_line

    return escape_invisible(to_line(document))


def started_line(call: ToolCall) -> str:
    """A running tool call, on one line."""
    return f"{line_text(call.name)}({line_text(arguments_text(call.arguments))})"


def call_line(used: ToolCallFinished) -> str:
    """A tool call with its result and decision, on one line whatever text the model and the tool produce."""
    result = used.result
    judgment = judgment_text(result)
    verdict = f"  [{judgment}]" if judgment else ""
    seconds = "" if result.seconds < _MIN_SHOWN_SECONDS else f"  {result.seconds:.1f} s"
    return f"{started_line(used.call)} → {outcome_text(result)}{verdict}{seconds}"


def fallback_line(missed: FailedModel) -> str:
    """A model that failed, and why, on one line; another model has answered."""
    return f"no answer from {missed.model}: {line_text(missed.error)}"


def outcome_text(result: ToolResult) -> str:
    """The result or error of a tool call, on one line."""
    if was_refused(result):
        return line_text(for_shell(result.error or ""), _MAX_REFUSAL_CHARS)
    return line_text(result.error or main_text(result)) or "(nothing)"


def judgment_text(result: ToolResult) -> str:
    """The verdict on a tool call, or that it was approved, and its rule; empty without a decision."""
    decision = result.decision
    if decision is None:
        return ""
    verdict = "approved" if decision.allowed and decision.reason.startswith(APPROVED) else decision.verdict
    return f"{verdict}: {line_text(decision.rule)}"


def value_text(result: ToolResult) -> str:
    """A tool's value for a person: a flat dictionary as lines, a shallow value as JSON, else the text for the model."""
    value = result.value
    if isinstance(value, dict) and "output" in value:  # it contains both streams
        value = {key: item for key, item in value.items() if key not in {"stdout", "stderr"}}
    if isinstance(value, dict) and all(isinstance(item, str | int | float | None) for item in value.values()):
        return clean("\n".join(f"{key}: {item}" for key, item in value.items()))
    if isinstance(value, dict | list) and is_shallow(value):
        return clean(json.dumps(value, ensure_ascii=False, indent=2, default=str))
    return clean(result.content)


def run_document(result: RunResult[Any], plain: Callable[[Any], Any] = str) -> dict[str, Any]:
    """A run as a JSON document; `plain` converts its output to JSON data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "output": None if result.value is None else plain(result.value),
        "status": result.status,
        "error": str(result.error) if result.error else None,
        "iterations": result.iterations,
        "usage": {
            "input_tokens": result.usage.input_tokens,
            "output_tokens": result.usage.output_tokens,
            "requests": result.usage.requests,
            "unreported": result.usage.unreported,
        },
        "tool_calls": [
            {"arguments": parse_arguments(used.call.arguments), **result_fields(used.result)}
            for used in result.tool_calls
        ],
    }


def result_fields(result: ToolResult) -> dict[str, Any]:
    """A tool result as JSON data."""
    return {
        "tool": result.tool,
        "status": result.status,
        "error": result.error,
        "result": parse_json(result.content),
        "decision": result.decision.to_dict() if result.decision else None,
        "seconds": round(result.seconds, 6),
    }


def was_refused(result: ToolResult) -> bool:
    """Whether a judge denied the call, as opposed to a failure."""
    return result.decision is not None and result.decision.verdict is Verdict.DENY and result.status == "denied"
