"""How is a tool declared that the provider runs itself, and what has it used one for? Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentkit.errors import ConfigError
from agentkit.llm.wire import reading
from agentkit.messages import HostedUse, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentkit.messages import ToolSpec

_DECLARED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("responses", "web_search"): {"type": "web_search"},
    ("responses", "code_execution"): {"type": "code_interpreter", "container": {"type": "auto"}},
    ("messages", "web_search"): {"type": "web_search_20250305", "name": "web_search"},
    ("messages", "code_execution"): {"type": "code_execution_20250825", "name": "code_execution"},
}
"""What each protocol calls the tools that several providers have; any other is declared as its provider has it."""

_EVERYWHERE = frozenset(name for _, name in _DECLARED)

_USED_AS = {
    "code_interpreter": "code_execution",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
"""The tool that was declared, by the name under which its use is told."""


_ASKED_OF_US = frozenset(
    f"{name}_call" for name in ("function", "custom_tool", "computer", "local_shell", "shell", "apply_patch")
)
"""The items with which a model asks for a tool, rather than tell of one that was used."""

_GIVEN = ("action", "queries", "code", "server_label", "name", "arguments")
"""Where such an item says what a tool was used with."""


def declared(tool: ToolSpec, protocol: str) -> dict[str, Any]:
    """A hosted tool as a request declares it. Raises ConfigError where the protocol has no such tool."""
    said = dict(tool.hosted or {})
    kind = said.pop("type")
    if protocol != "messages":
        said.pop("name", None)  # which only that protocol wants
    if kind not in _EVERYWHERE:
        return {"type": kind, **said}
    own = _DECLARED.get((protocol, kind))
    if own is None:
        raise ConfigError(
            f"The provider is asked over the protocol {protocol!r}, which has no hosted tool {kind!r}: use a tool of "
            "your own, such as web_search_tool or python_tool; or a provider that is asked over 'responses' (OpenAI) "
            "or 'messages' (Anthropic)."
        )
    if protocol == "responses" and "allowed_domains" in said:
        said["filters"] = {**said.get("filters", {}), "allowed_domains": said.pop("allowed_domains")}
    return {**own, **said}


def uses_in_items(items: Iterable[Mapping[str, Any]]) -> tuple[HostedUse, ...]:
    """What the output items of a response tell of the provider's tools."""
    return tuple(
        _use(item.get("id"), _named(item, kind), _given(item), _failed(item))
        for item in items
        if (kind := reading.word(item.get("type"))).endswith("_call") and kind not in _ASKED_OF_US
    )


def uses_in_blocks(blocks: Sequence[Mapping[str, Any]]) -> tuple[HostedUse, ...]:
    """What the content blocks of an answer tell of the provider's tools."""
    results = {reading.word(block.get("tool_use_id")): block for block in blocks if "tool_use_id" in block}
    return tuple(
        _use(
            block.get("id"),
            reading.word(block.get("name")),
            reading.dictionary(block.get("input")),
            _error_in(results.get(reading.word(block.get("id")), {})),
        )
        for block in blocks
        if block.get("type") in ("server_tool_use", "mcp_tool_use")
    )


def uses_in_message(message: Mapping[str, Any]) -> tuple[HostedUse, ...]:
    """What a message of Chat Completions tells of them: Groq's list, or else that it cites what is on the web."""
    executed = reading.dictionaries(message.get("executed_tools"))
    if not executed:
        cited = reading.dictionaries(message.get("annotations"))
        return (_use("", "web_search", {}),) if any(note.get("type") == "url_citation" for note in cited) else ()
    return tuple(
        _use("", reading.word(tool.get("type")), reading.dictionary(_parsed(tool.get("arguments"))))
        for tool in executed
    )


def _use(call_id: object, name: str, given: Mapping[str, Any], error: str = "") -> HostedUse:
    arguments = json.dumps(reading.well_formed_json(dict(given)), ensure_ascii=False)
    call = ToolCall(reading.word(call_id), _USED_AS.get(name, name), arguments)
    return HostedUse(call, f"The provider could not use {call.name}: {error}." if error else "")


def _named(item: Mapping[str, Any], kind: str) -> str:
    """The tool that an item tells of; a server of tools goes by its own name."""
    return reading.word(item.get("server_label")) or kind.removesuffix("_call")


def _given(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool was used with, without what came of it."""
    return {name: item[name] for name in _GIVEN if item.get(name) is not None}


def _failed(item: Mapping[str, Any]) -> str:
    return "it failed" if item.get("status") == "failed" or item.get("error") else ""


def _error_in(result: Mapping[str, Any]) -> str:
    """Why nothing came of a use, as its result says."""
    content = reading.dictionary(result.get("content"))
    return reading.word(content.get("error_code")) or ("it failed" if result.get("is_error") else "")


def _parsed(arguments: object) -> dict[str, Any]:
    return reading.dictionary(reading.json_or_text(arguments) if isinstance(arguments, str) else arguments)
