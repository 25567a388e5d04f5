"""How is a run shown to a person? Pure text, cleaned of what could trick a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agentkit.agents.result import RunResult
from agentkit.decisions import Verdict
from agentkit.events import ToolCallFinished
from agentkit.messages import ToolResult

SCHEMA_VERSION = 1
_MAX_LINE_CHARS = 100
_CONTROL = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b.?"  # escape sequences
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # control characters besides tab and newline
    "|[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"  # zero-width and direction marks
)


def clean(text: str) -> str:
    """Text without terminal control sequences, zero-width and direction marks."""
    return _CONTROL.sub("", text)


def call_line(used: ToolCallFinished) -> str:
    """A tool call with its result and its decision, on one line."""
    result = used.result
    outcome = result.error or _short(result.value)
    decision = result.decision
    verdict = "" if decision is None else f"  [{decision.verdict}: {decision.rule}]"
    return clean(f"{used.call.name}({_arguments(used.call.arguments)}) → {_cut(outcome)}{verdict}")


def value_text(result: ToolResult) -> str:
    """A tool's value for a person: a flat dictionary as lines, anything else as the text a model gets."""
    value = result.value
    if isinstance(value, dict) and all(isinstance(item, str | int | float | None) for item in value.values()):
        return clean("\n".join(f"{key}: {item}" for key, item in value.items()))
    if isinstance(value, dict | list):
        return clean(json.dumps(value, ensure_ascii=False, indent=2, default=str))
    return clean(result.content)


def run_document(result: RunResult) -> dict[str, Any]:
    """A run as one JSON document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "output": result.output,
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
            {"arguments": used.call.arguments, **result_document(used.result)} for used in result.tool_calls
        ],
    }


def result_document(result: ToolResult) -> dict[str, Any]:
    """A tool's result as one JSON document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": result.tool,
        "status": result.status,
        "error": result.error,
        "result": _loaded(result.content),
        "decision": result.decision.to_dict() if result.decision else None,
        "seconds": round(result.seconds, 6),
    }


def was_refused(result: ToolResult) -> bool:
    """Whether a judge, not a fault, kept the call from happening."""
    return result.decision is not None and result.decision.verdict is Verdict.DENY and result.status == "denied"


def _arguments(text: str) -> str:
    loaded = _loaded(text or "{}")
    if not isinstance(loaded, Mapping):
        return _cut(text)
    return _cut(", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in loaded.items()))


def _short(value: object) -> str:
    """The part of a value that answers, when the value is one of ours: `result`, `output` or the like."""
    if isinstance(value, Mapping):
        for key in ("result", "output", "content", "summary", "datetime"):
            if key in value:
                return str(value[key])
    return str(value)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
