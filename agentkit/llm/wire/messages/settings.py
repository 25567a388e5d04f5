"""How do the settings of a request look in this protocol, whatever protocol's names they were given? Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_RENAMED = {"max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens", "stop": "stop_sequences"}
_PARALLEL = "parallel_tool_calls"

LIMIT_NAMES = frozenset({"max_tokens", *(name for name, own in _RENAMED.items() if own == "max_tokens")})
"""The names under which it may be said how long an answer may be."""

_CHOICES = {"required": "any"}
_EFFORTS = {"minimal": "low"}

MAX_TOKENS = 16_000
"""How long an answer may be when nobody has said it: this protocol wants it said."""

_MAX_TOKENS_WITH_THOUGHTS = 32_000
"""The same of one that is thought about first, as thoughts count."""

_LEAST_BUDGET_TOKENS = 1_024
_UNTHINKING = r"claude-(?:[23]|instant|\w+-4)|^(?!.*claude)"
"""The models that think only when they are asked to."""

_THINKING = {"type": "adaptive", "display": "summarized"}
"""What is asked for with an effort: as much thinking as the model finds right, and what it comes to."""


def entered(body: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the settings, and with a limit on the answer, which this protocol demands."""
    said = {_RENAMED.get(name, name): value for name, value in settings.items()}
    effort, choice, parallel = (said.pop(name, None) for name in ("reasoning_effort", "tool_choice", _PARALLEL))
    if isinstance(said.get("stop_sequences"), str):
        said["stop_sequences"] = [said["stop_sequences"]]
    wish = {"effort": _EFFORTS.get(str(effort), effort)} if effort and effort != "none" else {}
    config = {**wish, **body.get("output_config", {}), **said.pop("output_config", {})}
    if config:
        said["output_config"] = config
    if effort:
        said.setdefault("thinking", {"type": "disabled"} if effort == "none" else _THINKING)
    if "container" in body and isinstance(said.get("container"), dict):
        said["container"] = {"id": body["container"], **said["container"]}
    if chosen := _tool_choice(choice, parallel):
        said["tool_choice"] = chosen
    return _limited({**body, **said})


def _tool_choice(choice: object, parallel: object) -> dict[str, Any] | None:
    """Which tools may or must be called, and whether several at once; None where nothing was said of it."""
    chosen = _chosen(choice)
    if parallel is None or (chosen or {}).get("type") == "none":
        return chosen
    return {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": not parallel}


def _chosen(choice: object) -> dict[str, Any] | None:
    if isinstance(choice, dict):
        function = choice.get("function")
        return {"type": "tool", "name": function["name"]} if isinstance(function, dict) else choice
    if not isinstance(choice, str):
        return None
    if choice in {"auto", "none", "required", "any"}:
        return {"type": _CHOICES.get(choice, choice)}
    return {"type": "tool", "name": choice}


def _limited(body: dict[str, Any]) -> dict[str, Any]:
    """The body with a limit on the answer, and a budget of thoughts that is below it."""
    budget = _thinking_in(body).get("budget_tokens")
    if "max_tokens" in body:
        return budgeted(body) if isinstance(budget, int) else body
    if not _thinks(body):
        return {**body, "max_tokens": MAX_TOKENS}
    return {**body, "max_tokens": budget + MAX_TOKENS if isinstance(budget, int) else _MAX_TOKENS_WITH_THOUGHTS}


def _thinking_in(body: dict[str, Any]) -> dict[str, Any]:
    return body["thinking"] if isinstance(body.get("thinking"), dict) else {}


def _thinks(body: dict[str, Any]) -> bool:
    """Whether the model thinks before it answers: as was asked for, or as it does unasked."""
    if thinking := _thinking_in(body):
        return bool(thinking.get("type") != "disabled")
    return not re.search(_UNTHINKING, body["model"])


def budgeted(body: dict[str, Any]) -> dict[str, Any]:
    """The body with a budget of thoughts that is at most half of what the answer may be; none where that is too little.

    A budget that is below the whole already stays.
    """
    most, thinking = body["max_tokens"], body["thinking"]
    if thinking["budget_tokens"] < most:
        return body
    if most // 2 < _LEAST_BUDGET_TOKENS:
        return {name: value for name, value in body.items() if name != "thinking"}
    return {**body, "thinking": {**thinking, "budget_tokens": most // 2}}
