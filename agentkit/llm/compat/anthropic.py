"""Compatibility of requests in Anthropic's protocol (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from agentkit.llm.compat.rules import Adjustment, Body, RequestRefusal, drop, without
from agentkit.llm.protocols.anthropic import LIMIT_NAMES, MAX_TOKENS, budgeted

_SAMPLING = ("top_p", "top_k", "temperature")
_NO_SAMPLING = r"(?i)deprecated|only be set to|cannot both be|not permitted|not support|when thinking"
_NO_FORCE = r"(?i)tool_choice.{0,60} (?:not supported|forces tool use)"
_KIND = r"(?:thinking\.|\"type\": ?\")(?:type\.)?(adaptive|enabled|disabled|between_tools)\b"
_OTHER_KIND = rf"(?i)(?:use|send)\b.{{0,40}}?{_KIND}"
_NO_ADAPTIVE = r"(?i)adaptive.{0,40} not supported|not support.{0,20} adaptive|\badaptive\b.{0,90}expected tags"
_NO_EFFORT = r"(?i)effort\b.{0,60}(?:not support|not permitted)|not support.{0,20} effort|output_config: extra inputs"
_MAX_TOKENS = r"max_tokens: \d+ > (\d+)"
_STRANGE_THOUGHTS = (
    r"(?i)`?signature`? in `?thinking`? block|bound to a different|thinking\.signature"
    r"|thinking.{0,40} blocks .{0,60}cannot be modified"
)
_MISSING_THOUGHTS = r"(?i)expected `?thinking`? or `?redacted_thinking`?,? but found|must start with a thinking"
_BUDGETS = {"low": 2_048, "medium": 8_192}
_BUDGET_TOKENS = 16_000
"""Thinking budgets by effort, and the default, for models that require a number of tokens."""

_SHORT_TOKENS = 4_096
_THOUGHTS = ("thinking", "redacted_thinking")
_DIGEST_CHARS = 16
_MAX_KEPT = 10_000
"""Maximum number of rejected thinking blocks that are remembered."""

_TOOLS_WANTED = r"(?i)tool_(?:use|result).{0,40} must define tools|toolconfig field must be defined"


def learnt_of(refusal: RequestRefusal) -> Adjustment | None:
    """The adjustment for a rejection specific to this protocol; None if the rejection is about something else."""
    return next(filter(None, (lesson(refusal) for lesson in _LESSONS)), None)


def shortened(body: Body, text: str, chosen: Collection[str]) -> Adjustment | None:
    """The adjustment for a request that is too long only because of the token limit that agentkit set itself."""
    is_ours = body.get("max_tokens", 0) >= MAX_TOKENS and LIMIT_NAMES.isdisjoint(chosen)
    if not (is_ours and re.search(r"max_tokens|completion|output", text)):
        return None
    return Adjustment(
        f"max_tokens is {_SHORT_TOKENS} where the conversation is long",
        lambda sent: _limited(sent, _SHORT_TOKENS),
        is_lasting=False,
    )


def _with_manual_thinking(body: Body) -> Body:
    """The body with a thinking budget in place of an effort."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "adaptive":
        return body
    effort = body.get("output_config", {}).get("effort", "")
    budget = {"type": "enabled", "budget_tokens": _BUDGETS.get(effort, _BUDGET_TOKENS)}
    return budgeted({**_without_effort(body), "thinking": budget})


MANUAL_THINKING = Adjustment("thinking has a token budget instead of an effort", _with_manual_thinking)


def _unforced(body: Body) -> Body:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") not in {"any", "tool"}:
        return body
    return {**body, "tool_choice": without({**choice, "type": "auto"}, "name")}


_UNFORCED = Adjustment("tool calls are not forced", _unforced)


def _no_force(refusal: RequestRefusal) -> Adjustment | None:
    """Do not force a tool call; some models reject this, and all of them while thinking."""
    is_forced = _unforced(refusal.body) != refusal.body
    return _UNFORCED if is_forced and re.search(_NO_FORCE, refusal.text) else None


def _other_thinking(refusal: RequestRefusal) -> Adjustment | None:
    """Use the thinking mode that the rejection names; model generations support different modes."""
    thinking = refusal.body.get("thinking")
    if not isinstance(thinking, dict) or "thinking" not in refusal.text:
        return None
    if re.search(_NO_ADAPTIVE, refusal.text) and thinking.get("type") == "adaptive":
        return MANUAL_THINKING
    found = re.search(_OTHER_KIND, refusal.text)
    if found is None or found[1] == thinking.get("type") or found[1] == "enabled":
        return None
    refused, kind = thinking.get("type"), found[1]
    if refused == "disabled" and kind == "adaptive":  # thinking cannot be disabled: leave the setting out
        return drop("thinking")

    def apply(body: Body) -> Body:
        thinking = body.get("thinking")
        if not isinstance(thinking, dict) or thinking.get("type") != refused:
            return body
        return {
            **body,
            "thinking": {"type": kind, **({"display": thinking["display"]} if "display" in thinking else {})},
        }

    return Adjustment(f"thinking is {kind} and not {refused}", apply)


def _no_display(refusal: RequestRefusal) -> Adjustment | None:
    """Drop `display`; thinking is then shown in the server's default form."""
    is_about = "thinking" in refusal.text and "display" in refusal.text and refusal.is_unsupported

    def apply(body: Body) -> Body:
        return {**body, "thinking": without(body["thinking"], "display")} if "thinking" in body else body

    has_display = "display" in (refusal.body.get("thinking") or ())
    return Adjustment("thinking.display is left out", apply) if is_about and has_display else None


def _without_effort(body: Body) -> Body:
    kept = without(body.get("output_config", {}), "effort")
    return without(body, "output_config") | ({"output_config": kept} if kept else {})


def _no_effort(refusal: RequestRefusal) -> Adjustment | None:
    has_effort = "effort" in refusal.body.get("output_config", {})
    return (
        Adjustment("effort is left out", _without_effort)
        if has_effort and re.search(_NO_EFFORT, refusal.text)
        else None
    )


def _no_sampling(refusal: RequestRefusal) -> Adjustment | None:
    """Drop a sampling parameter; newer models accept none, others only one, or none while thinking."""
    named = (name for name in _SAMPLING if name in refusal.body and re.search(rf"\b{name}\b", refusal.text))
    found = next(named, None)
    return drop(found) if found and re.search(_NO_SAMPLING, refusal.text) else None


def _limited(body: Body, most: int) -> Body:
    if body.get("max_tokens", 0) <= most:
        return body
    limited = {**body, "max_tokens": most}
    return budgeted(limited) if "budget_tokens" in (body.get("thinking") or {}) else limited


def _lower_limit(refusal: RequestRefusal) -> Adjustment | None:
    """Lower the token limit to the maximum of the model, whether the user or agentkit set it."""
    found = re.search(_MAX_TOKENS, refusal.text)
    if found is None:
        return None
    most = int(found[1])
    return Adjustment(f"max_tokens is at most {most}", lambda body: _limited(body, most))


def _blocks_of(body: Body, *kinds: str) -> Iterator[Body]:
    """The content blocks of these types in all messages."""
    for turn in body.get("messages", ()):
        blocks = turn["content"] if isinstance(turn.get("content"), list) else ()
        yield from (block for block in blocks if block.get("type") in kinds)


def _digest(block: Body) -> str:
    """Identifies a thinking block by its signature, or else by its content."""
    import hashlib

    content = block.get("signature") or block.get("data") or block.get("thinking") or ""
    return hashlib.sha256(str(content).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]


def _without_thoughts(digests: Iterable[str]) -> Adjustment:
    """An adjustment that removes these thinking blocks, and model messages that contain nothing else."""
    known = tuple(dict.fromkeys(digests))[-_MAX_KEPT:]
    left_out = frozenset(known)

    def is_kept(block: Body) -> bool:
        return block.get("type") not in _THOUGHTS or _digest(block) not in left_out

    def apply(body: Body) -> Body:
        turns = []
        for turn in body["messages"]:
            blocks = turn["content"] if isinstance(turn.get("content"), list) else []
            kept = [block for block in blocks if is_kept(block)]
            if len(kept) == len(blocks):
                turns.append(turn)
            elif kept:
                turns.append({**turn, "content": kept})
        return {**body, "messages": turns}

    name = "thinking of conversations that have changed is not sent back"
    return Adjustment(name, apply, parts=known, of_parts=_without_thoughts)


def _no_thoughts(refusal: RequestRefusal) -> Adjustment | None:
    """Remove thinking blocks, which are signed for a conversation that was shortened or whose instruction changed."""
    digests = [_digest(block) for block in _blocks_of(refusal.body, *_THOUGHTS)]
    return _without_thoughts(digests) if digests and re.search(_STRANGE_THOUGHTS, refusal.text) else None


def _with_earlier_tools(body: Body) -> Body:
    """The body with the tools that were called in its history, and with tool calls disabled."""
    names = dict.fromkeys(block["name"] for block in _blocks_of(body, "tool_use"))
    if "tools" in body or not names:
        return body
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {**body, "tools": tools, "tool_choice": {"type": "none"}}


def _no_unknown_tools(refusal: RequestRefusal) -> Adjustment | None:
    """Declare the tools of earlier calls, which some servers require even if calls are disabled."""
    is_about = re.search(_TOOLS_WANTED, refusal.text) and _with_earlier_tools(refusal.body) != refusal.body
    name = "earlier tools are declared where calls are disabled"
    return Adjustment(name, _with_earlier_tools) if is_about else None


def _without_waiting_code(body: Body) -> Body:
    """Remove server code that waits for a call; the call then counts as one made by the model itself."""
    if "container" in body:
        return body
    answered = {block.get("tool_use_id") for turn in body["messages"] for block in turn["content"]}
    waiting = {block.get("id") for block in _blocks_of(body, "server_tool_use")} - answered

    def is_kept(block: Body) -> bool:
        return block.get("type") != "server_tool_use" or block.get("id") not in waiting

    def called(block: Body) -> Body:
        return without(block, "caller") if (block.get("caller") or {}).get("tool_id") in waiting else block

    turns = [
        {**turn, "content": [called(each) for each in turn["content"] if is_kept(each)]} for turn in body["messages"]
    ]
    return {**body, "messages": turns} if waiting else body


def _no_waiting_code(refusal: RequestRefusal) -> Adjustment | None:
    """Remove waiting code if the server requires a container id that it never sent, as in streams cut at a call."""
    is_about = "container_id is required" in refusal.text and _without_waiting_code(refusal.body) != refusal.body
    return Adjustment("code without a known container is left out", _without_waiting_code) if is_about else None


def _no_thinking_now(refusal: RequestRefusal) -> Adjustment | None:
    """Disable thinking for one request if the server requires thinking blocks that the history lacks."""
    is_about = "thinking" in refusal.body and re.search(_MISSING_THOUGHTS, refusal.text)
    if not is_about:
        return None
    return Adjustment("thinking is disabled", lambda body: without(body, "thinking"), is_lasting=False)


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    nested = {name: _unmarked(value[name]) for name in ("content",) if isinstance(value.get(name), list)}
    return {name: entry for name, entry in value.items() if name != "cache_control"} | nested


def _without_marks(body: Body) -> Body:
    parts = {name: _unmarked(body[name]) for name in ("system", "tools", "messages") if name in body}
    return without(body, "cache_control") | parts


def _no_marks(refusal: RequestRefusal) -> Adjustment | None:
    is_about = "cache_control" in refusal.text and refusal.is_unsupported
    return Adjustment("cache marks are left out", _without_marks) if is_about else None


_LESSONS = (
    *(_no_force, _other_thinking, _no_display, _no_effort, _no_sampling, _lower_limit, _no_thoughts),
    *(_no_waiting_code, _no_thinking_now, _no_unknown_tools, _no_marks),
)
