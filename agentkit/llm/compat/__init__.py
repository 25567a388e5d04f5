"""Compatibility of requests: what models and servers refuse, and the adjustments learnt from refusals (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from agentkit.errors import Rejected
from agentkit.llm.compat.adjustments import (
    NESTS,
    Adjustment,
    Body,
    RequestRefusal,
    camel_case,
    drop,
    drop_entry_field,
    rename,
    without,
    without_inside,
)
from agentkit.llm.compat.anthropic import MANUAL_THINKING, learnt_of, shortened
from agentkit.llm.compat.content_fallback import no_files, no_named_files, no_pictures
from agentkit.llm.compat.rule_lessons import RULE_LESSONS, no_reasoning

ESSENTIAL = frozenset(
    {
        *("model", "messages", "input", "instructions", "system", "tools", "stream"),
        *("response_format", "text", "output_config"),
        *("previous_response_id", "conversation", "prompt", "mcp_servers"),
        *("web_search_options", "plugins", "modalities", "audio"),
        *("moderation", "safe_prompt", "safety_settings"),
    }
)
"""Parameters that are never dropped, because the request would no longer be the one that was made.

They determine the content of the response, the resources available to it, and its moderation.
"""

LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
"""Token limits, which are not dropped either, since this would cost money. They can be renamed."""

_OURS = {"store", "include", "stream_options", "reasoning_effort"}
"""Parameters that agentkit adds itself; they are dropped whatever reason the server gives."""

_ESSENTIAL_FIELDS = {
    *("role", "content", "type", "name", "arguments", "output", "call_id", "tool_calls", "tool_call_id"),
    *("function", "text", "image_url", "file", "filename", "file_data", "file_url", "input_audio"),
    *("input", "source", "tool_use_id"),
}

_ENTRY_FIELD = (
    r"\b(?P<entries>messages|input)[.\[]\d+\]?\.(?:\w+[.\[\]]+)*(?P<field>\w+)"
    r"|property '(?P<property>\w+)' is unsupported"
)


def _answered(body: Body) -> Body:
    """Insert an assistant message between each tool result and a user message that follows it."""
    entries: list[Body] = []
    for entry in body["messages"]:
        if entries and (entries[-1].get("role"), entry.get("role")) == ("tool", "user"):
            entries.append({"role": "assistant", "content": "OK."})
        entries.append(entry)
    return {**body, "messages": entries}


def _alternating(*, keeps_first: bool) -> Callable[[Body], Body]:
    """Convert system messages, all or all but the first, to user messages, and join adjacent user messages."""

    def apply(body: Body) -> Body:
        entries: list[Body] = []
        for entry in body["messages"]:
            is_order = entry.get("role") == "system" and (entries or not keeps_first)
            sent = {**entry, "role": "user"} if is_order else entry
            if entries and entries[-1].get("role") == sent.get("role") == "user":
                entries[-1] = {**sent, "content": _both(entries[-1]["content"], sent["content"])}
            else:
                entries.append(sent)
        return {**body, "messages": entries}

    return apply


def _both(first: str | list[Body], second: str | list[Body]) -> str | list[Body]:
    """Join two contents."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in (first, second)]
    return [*parts[0], *parts[1]]


def _in_answers(add: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """Apply a change to every assistant message."""
    return lambda body: {
        **body,
        "messages": [add(entry) if entry.get("role") == "assistant" else entry for entry in body["messages"]],
    }


def _reasoned(entry: Body) -> Body:
    return entry if entry.get("reasoning_content") else {**entry, "reasoning_content": " "}


def _signed(entry: Body) -> Body:
    """Add a signature to the first call, which Google requires for calls that it did not sign itself."""
    calls = entry.get("tool_calls")
    if not calls or any("extra_content" in call for call in calls):
        return entry
    return {**entry, "tool_calls": [{**calls[0], "extra_content": _UNSIGNED}, *calls[1:]]}


_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}

_DEMANDED: tuple[tuple[str, Adjustment], ...] = (
    (
        # DeepSeek; Moonshot, which treats an empty text as missing
        r"(?i)reasoning_content\b.{0,60} (?:missing|must be)|(?:missing|requires) .?reasoning_content",
        Adjustment("answers without reasoning_content get a blank one", _in_answers(_reasoned)),
    ),
    (
        r"missing a thought_signature",
        Adjustment("calls without thought_signature get a placeholder", _in_answers(_signed)),
    ),
    (
        r"(?i)role:? .?user.? after (?:role )?.?tool",  # Mistral, and other servers with its models
        Adjustment("an answer is inserted between a tool and a user", _answered),
    ),
    (
        # chat templates of Mistral's models, on any server
        r"(?i)after the optional system message, conversation roles must alternate",
        Adjustment("consecutive messages of a user are joined", _alternating(keeps_first=True)),
    ),
    (
        # Gemma and older models, on any server; Google; o1-mini; Bedrock
        (
            r"(?i)\bsystem (?:role|message|prompt)s? (?:is |are )?not supported|roles must alternate"
            r"|developer instruction is not enabled|only user(?:,| and) assistant[\w ]{0,20} roles are supported"
            r"|(?:not|n't) support (?:the )?['\"`]?system\b"
        ),
        Adjustment("the instruction is sent as a user message", _alternating(keeps_first=False)),
    ),
)
"""Requirements of servers on messages: fields of assistant messages that are missing in messages of other providers
or written by hand, and the order of roles."""

UNSTRICT = Adjustment("schemas of tools are not sent as strict", lambda body: body, keeps_strict=False)

NO_EFFORT = Adjustment(
    "reasoning_effort is 'none' if there are tools",
    lambda body: {"reasoning_effort": "none", **body} if "tools" in body else body,
)
STRICT_UNSAID = Adjustment(
    "tools are sent without strict",
    lambda body: (
        {**body, "tools": [without_inside(tool, "strict") for tool in body["tools"]]} if "tools" in body else body
    ),
)

_ENCRYPTED = "reasoning.encrypted_content"


def _unencrypted(body: Body) -> Body:
    kept = [each for each in body.get("include", ()) if each != _ENCRYPTED]
    return {**body, "include": kept} if kept else without(body, "include")


_UNENCRYPTED = Adjustment("reasoning is not asked for", _unencrypted)
"""Models without reasoning reject the request for it; other values of `include` were set by the user."""

_FAMILIES: tuple[tuple[str, str, str, Adjustment], ...] = (
    # model, protocol, parameter in the body, adjustment
    (r"^(gpt-[5-9]|o\d)", "chat", "max_tokens", rename("max_tokens", "max_completion_tokens")),
    (r"^(gpt-5\.[6-9]|gpt-[6-9])", "chat", "tools", NO_EFFORT),
    (r"^(gpt-[34]|chatgpt)", "responses", "include", _UNENCRYPTED),
    (r"^claude-(3|\w+-4-([0-5]\b|20))", "messages", "thinking", MANUAL_THINKING),
)


OF_TOOLS = {"tool_choice", "parallel_tool_calls"}
"""Settings that servers reject without tools, as in the last request of a run that reached its limit."""


def known(body: Body, model: str, protocol: str) -> Body:
    """Apply the known adjustments for the model's family, and drop tool settings if there are no tools."""
    if "tools" not in body and not OF_TOOLS.isdisjoint(body):
        body = {name: value for name, value in body.items() if name not in OF_TOOLS}
    for family, wire, parameter, adjustment in _FAMILIES:
        if wire == protocol and parameter in body and re.match(family, model):
            body = adjustment.apply(body)
    return body


def learnt(body: Body, error: Rejected, chosen: Collection[str] = ()) -> Adjustment | None:
    """The adjustment for a rejection that names something in `body` as not supported; None if nothing helps.

    `chosen` are the settings that the user made. If the *value* of one of these is wrong, the user must correct it, so
    that nothing is learnt from the rejection.
    """
    lessons = _LESSONS_BY_STATUS.get(error.status or 0, ())
    if error.is_too_long:
        return shortened(body, str(error), chosen)
    refusal = RequestRefusal(body, f"{error} {error.code or ''}", error.parameter or "", chosen)
    return next(filter(None, (lesson(refusal) for lesson in lessons)), None)


def _other_limit(refusal: RequestRefusal) -> Adjustment | None:
    """Rename the token limit, which has two names in Chat Completions."""
    old, new = "max_tokens", "max_completion_tokens"
    if old in refusal.body and new in refusal.text:
        return rename(old, new)
    is_named = refusal.parameter == new or refusal.names(new)
    return rename(new, old) if new in refusal.body and is_named and refusal.is_unsupported else None


def _no_effort(refusal: RequestRefusal) -> Adjustment | None:
    """Disable reasoning for models that accept tools only without it."""
    is_open = "tools" in refusal.body and "reasoning_effort" not in refusal.body
    return NO_EFFORT if is_open and "reasoning_effort" in refusal.text else None


def _no_strict(refusal: RequestRefusal) -> Adjustment | None:
    """Send schemas in non-strict mode if strict mode rejects them; drop `strict` if the server does not know it."""
    tools = [{**tool, **tool.get("function", {})} for tool in refusal.body.get("tools", ())]
    if "invalid_function_parameters" in refusal.text and any(tool.get("strict") for tool in tools):
        return UNSTRICT
    is_named = refusal.parameter.endswith("strict") or refusal.names("strict")
    return STRICT_UNSAID if is_named and refusal.is_unsupported and any("strict" in tool for tool in tools) else None


def _no_field(refusal: RequestRefusal) -> Adjustment | None:
    """Drop a field of messages that the server rejects, although others require it."""
    found = re.search(_ENTRY_FIELD, f"{refusal.parameter} {refusal.text}")
    if found is None or not refusal.is_unsupported:
        return None
    entries, field = found["entries"] or "messages", found["field"] or found["property"]
    return drop_entry_field(entries, field) if field in _fields_in(refusal.body, entries) else None


def _no_field_of_this_name(refusal: RequestRefusal) -> Adjustment | None:
    """Like `_no_field`, for servers that give only the name of the field, or describe its place in free text."""
    entries = "messages" if "messages" in refusal.body else "input"
    named = next(filter(refusal.names, sorted(_fields_in(refusal.body, entries))), None)
    return drop_entry_field(entries, named) if named and refusal.is_unsupported else None


def _fields_in(body: Body, entries: str) -> set[str]:
    """The optional fields of messages or items, and of the objects one level below."""
    objects = [entry for entry in body.get(entries, ()) if isinstance(entry, dict)]
    lists = [entry[name] for entry in objects for name in NESTS if isinstance(entry.get(name), list)]
    below = [part for parts in lists for part in parts if isinstance(part, dict)]
    return {name for fields in (*objects, *below) for name in fields} - _ESSENTIAL_FIELDS


def _demanded(refusal: RequestRefusal) -> Adjustment | None:
    """Adjust messages to a requirement of the server."""
    found = (adjustment for words, adjustment in _DEMANDED if re.search(words, refusal.text))
    return next(found, None) if "messages" in refusal.body else None


def _no_parameter(refusal: RequestRefusal) -> Adjustment | None:
    """Drop the parameter that the rejection names, in its `parameter` field or in its text."""
    top = re.split(r"[.\[]", refusal.parameter)[0]
    kept = ESSENTIAL | LIMITS
    droppable = [name for name in refusal.body if name not in kept]
    top = next((name for name in droppable if top in (name, camel_case(name))), top)
    named = top if top in refusal.body else next(filter(refusal.names, droppable), None)
    if named == "include" and _ENCRYPTED in refusal.body["include"]:
        return _UNENCRYPTED
    is_ours = named in _OURS and named not in refusal.chosen
    return drop(named) if named and named not in kept and (is_ours or refusal.is_unsupported) else None


_LESSONS = (
    *(learnt_of, *RULE_LESSONS, _demanded, no_named_files, no_pictures, no_files, _other_limit, _no_effort, _no_strict),
    *(_no_field, _no_parameter),
    _no_field_of_this_name,
)
_CONTENT_LESSONS = (no_named_files, no_pictures)
_LESSONS_BY_STATUS = {
    **dict.fromkeys((400, 422), _LESSONS),
    404: (no_reasoning, *_CONTENT_LESSONS),
    **dict.fromkeys((500, 501), _CONTENT_LESSONS),
}


def merged(own: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an LLM's settings with those of a request; a token limit replaces limits under its other names."""
    is_limited = not LIMITS.isdisjoint(chosen)
    kept = {name: value for name, value in own.items() if not (is_limited and name in LIMITS)}
    return {**kept, **chosen}
