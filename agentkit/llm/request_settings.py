"""Settings of requests: validation and merging, and the names that need special treatment (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit.errors import ConfigError

LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
"""Token limits, which are not dropped either, since this would cost money. They can be renamed."""

OF_TOOLS = {"tool_choice", "parallel_tool_calls"}
"""Settings that servers reject without tools, as in the last request of a run that reached its limit."""


def given_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not None (None leaves a setting to the server), with the fields of `extra_body`.

    Raises ConfigError for settings of the connection, which belong to the LLM, and for `stream=True`.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    if _NO_SETTINGS.isdisjoint(chosen):
        return chosen
    for name in chosen:
        if advice := _OF_CONNECTION.get(name):
            raise ConfigError(f"{name}= is not a setting of a request. {advice}")
    if chosen.pop("stream", False):
        raise ConfigError("stream=True is not a setting; use LLM.stream or LLM.astream.")
    extra = chosen.pop("extra_body", {})
    if not isinstance(extra, Mapping):
        raise ConfigError(f"extra_body= takes a dictionary of fields of the request. Got {extra!r:.200}.")
    chosen = {**chosen, **extra}
    return {**chosen, **_ANY_TOOL} if chosen.get("tool_choice") == "any" else chosen


_OF_CONNECTION = {
    "extra_headers": "Pass headers= to LLM(): LLM(headers={'X-Team': 'blue'}).",
    "extra_query": "Add the query to base_url= of LLM(): LLM(base_url='https://host/v1?team=blue').",
    "timeout": "Pass timeout_seconds= to LLM(): LLM(timeout_seconds=30); for a run: Limits(seconds=30).",
    "timeout_seconds": "Pass it to LLM(): LLM(timeout_seconds=30); for a run: Limits(seconds=30).",
    "max_retries": "Pass it to LLM(): LLM(max_retries=0).",
    "headers": "Pass it to LLM(): LLM(headers={'X-Team': 'blue'}).",
    "api_key": "Pass it to LLM(): LLM(api_key=...).",
    "base_url": "Pass it to LLM(): LLM(base_url='https://host/v1').",
}
"""Arguments of other clients' calls that are arguments of `LLM` here, with advice."""

_NO_SETTINGS = frozenset({*_OF_CONNECTION, "stream", "extra_body", "tool_choice"})


_ANY_TOOL = {"tool_choice": "required"}
"""Forces a call of any tool. Most servers use this value; Mistral and Anthropic call it `any`."""


def merge_settings(own: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an LLM's settings with those of a request; a token limit replaces limits under its other names."""
    is_limited = not LIMITS.isdisjoint(chosen)
    merged = {name: value for name, value in own.items() if not (is_limited and name in LIMITS)}
    return {**merged, **chosen}
