"""Declarations and results of tools that providers execute (pure)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse, ConfigError
from agentkit.llm.protocols import parsing
from agentkit.messages import HostedUse, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentkit.messages import ToolSpec

_DECLARED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("responses", "web_search"): {"type": "web_search"},
    ("responses", "code_execution"): {"type": "code_interpreter", "container": {"type": "auto"}},
    ("messages", "web_search"): {"type": "web_search_20250305", "name": "web_search"},
    ("messages", "code_execution"): {"type": "code_execution_20250825", "name": "code_execution"},
    ("gemini", "web_search"): {"googleSearch": {}},
    ("gemini", "code_execution"): {"codeExecution": {}},
}
"""Declarations of the tools that several providers offer; any other tool is declared in the provider's own format."""

_COMMON_TOOLS = frozenset(name for _, name in _DECLARED)

_DECLARED_NAMES = {
    "code_interpreter": "code_execution",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
"""The names under which providers report the use of a tool, with the name that was declared."""

_CALL_REQUEST_TYPES = frozenset(
    f"{name}_call" for name in ("function", "custom_tool", "computer", "local_shell", "shell", "apply_patch")
)
"""Items that request a tool call, rather than report one that the provider executed."""

_APPROVAL = "mcp_approval_request"
_UNANSWERED = "The model requested {kind!r}, which agentkit cannot answer. {remedy}"
_REMEDIES = {
    _APPROVAL: "Set require_approval='never' for that server, or connect to it with MCPServer of agentkit.mcp."
}
_DEFAULT_REMEDY = "Remove the hosted tool of that type, and pass a tool of your program instead."

_INPUT_FIELDS = ("action", "queries", "code", "server_label", "name", "arguments")
"""The fields of such an item that contain the input of the tool."""


def declaration_of(tool: ToolSpec, protocol: str) -> dict[str, Any]:
    """Declare a hosted tool in a request. Raises ConfigError if the protocol lacks the tool."""
    settings = dict(tool.hosted or {})
    kind = settings.pop("type")
    if protocol != "messages":
        settings.pop("name", None)  # used by the Messages protocol only
    if kind not in _COMMON_TOOLS:
        return {kind: settings} if protocol == "gemini" else {"type": kind, **settings}
    declaration = _DECLARED.get((protocol, kind))
    if declaration is None:
        raise ConfigError(
            f"The protocol {protocol!r} of this provider has no hosted tool {kind!r}. Use a local tool, such as "
            "web_search_tool or python_tool, or a provider with the protocol 'responses' (OpenAI) or 'messages' "
            "(Anthropic)."
        )
    if protocol == "responses" and "allowed_domains" in settings:
        settings["filters"] = {**settings.get("filters", {}), "allowed_domains": settings.pop("allowed_domains")}
    if protocol == "gemini":
        return {name: {**defaults, **settings} for name, defaults in declaration.items()}
    return {**declaration, **settings}


def uses_in_items(items: Sequence[Mapping[str, Any]]) -> tuple[HostedUse, ...]:
    """The uses of hosted tools in the output items of a response."""
    uses = [
        _hosted_use(
            item, _tool_name(item, kind), _input_of(item), parsing.dictionary(item.get("action")).get("sources")
        )
        for item in items
        if (kind := parsing.word(item.get("type"))).endswith("_call") and _is_done(item, kind)
    ]
    parts = (part for item in items for part in parsing.dictionaries(item.get("content")))
    return _with_citations(uses, [note for part in parts for note in parsing.dictionaries(part.get("annotations"))])


def raise_unanswerable(items: Sequence[Mapping[str, Any]]) -> None:
    """Raise BadResponse if the response waits for an action that agentkit cannot perform."""
    for item in items:
        kind = parsing.word(item.get("type"))
        if kind == _APPROVAL or (kind in _CALL_REQUEST_TYPES and kind != "function_call" and not _is_done(item, kind)):
            raise BadResponse(_UNANSWERED.format(kind=kind, remedy=_REMEDIES.get(kind, _DEFAULT_REMEDY)))


def uses_in_blocks(blocks: Sequence[Mapping[str, Any]]) -> tuple[HostedUse, ...]:
    """The uses of hosted tools in the content blocks of a response."""
    results = {parsing.word(block.get("tool_use_id")): block for block in blocks if "tool_use_id" in block}
    uses = [block for block in blocks if block.get("type") in ("server_tool_use", "mcp_tool_use")]
    return tuple(
        _hosted_use(
            {"id": block.get("id"), "error": _error_in(result)},
            parsing.word(block.get("name")),
            block.get("input"),
            result.get("content"),
        )
        for block in uses
        for result in [results.get(parsing.word(block.get("id")), {})]
    )


def uses_in_message(message: Mapping[str, Any]) -> tuple[HostedUse, ...]:
    """The uses of hosted tools in a Chat Completions message: Groq's list, or a web search inferred from citations."""
    executed = parsing.dictionaries(message.get("executed_tools"))
    cited = [note for note in parsing.dictionaries(message.get("annotations")) if note.get("type") == "url_citation"]
    uses = []
    for tool in executed:
        arguments = tool.get("arguments")
        arguments = parsing.json_or_text(arguments) if isinstance(arguments, str) else arguments
        results = parsing.dictionary(tool.get("search_results")).get("results")
        uses.append(_hosted_use({}, parsing.word(tool.get("type")), arguments, results))
    return _with_citations(uses or [_hosted_use({}, "web_search", {}) for _ in cited[:1]], cited)


def grounded_search(grounding: Mapping[str, Any]) -> tuple[HostedUse, ...]:
    """The web search behind an answer that Google grounds in pages; empty if it did not search."""
    queries = grounding.get("webSearchQueries")
    chunks = [parsing.dictionary(chunk.get("web")) for chunk in parsing.dictionaries(grounding.get("groundingChunks"))]
    pages = [{"url": page.get("uri"), "title": page.get("title")} for page in chunks]
    return (_hosted_use({}, "web_search", {"queries": queries}, pages),) if queries or any(chunks) else ()


def _hosted_use(report: Mapping[str, Any], name: str, tool_input: object, results: object = ()) -> HostedUse:
    """Build one use: `report` has its id and error status, `results` its results."""
    arguments = json.dumps(parsing.well_formed_json(parsing.dictionary(tool_input)), ensure_ascii=False)
    call = ToolCall(parsing.word(report.get("id")), _DECLARED_NAMES.get(name, name), arguments)
    error = report.get("error") or (report.get("status") == "failed" and "it failed")
    reason = error if isinstance(error, str) else "it failed"
    return HostedUse(call, f"The provider could not use {call.name}: {reason}." if error else "", _sources(results))


def _with_citations(uses: Sequence[HostedUse], notes: Sequence[Mapping[str, Any]]) -> tuple[HostedUse, ...]:
    """The uses, with cited pages added to the last search that reports no sources."""
    cited = _sources([parsing.dictionary(note.get("url_citation")) or note for note in notes])
    index = max(
        (index for index, use in enumerate(uses) if "search" in use.call.name and not use.sources), default=None
    )
    if not cited or index is None:
        return tuple(uses)
    return (*uses[:index], replace(uses[index], sources=cited), *uses[index + 1 :])


def _sources(results: object) -> tuple[Mapping[str, str], ...]:
    """The pages among the results, without duplicates."""
    titles: dict[str, str] = {}
    for page in parsing.dictionaries(results):
        if url := parsing.word(page.get("url")):
            titles.setdefault(url, parsing.word(page.get("title")))
    return tuple({"url": url, "title": title} for url, title in titles.items())


def _is_done(item: Mapping[str, Any], kind: str) -> bool:
    """Whether an item reports a finished use; commands count if they ran in the provider's container."""
    environment = parsing.word(parsing.dictionary(item.get("environment")).get("type"))
    return kind not in _CALL_REQUEST_TYPES or environment.startswith("container")


def _tool_name(item: Mapping[str, Any], kind: str) -> str:
    """The name of the tool in an item; for MCP the label of the server."""
    return parsing.word(item.get("server_label")) or kind.removesuffix("_call")


def _input_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """The input of a tool, without its results."""
    return {name: item[name] for name in _INPUT_FIELDS if item.get(name) is not None}


def _error_in(result: Mapping[str, Any]) -> str:
    """The error in a result, or an empty text."""
    content = parsing.dictionary(result.get("content"))
    return parsing.word(content.get("error_code")) or ("it failed" if result.get("is_error") else "")
