"""Compatibility of requests in Anthropic's protocol, and continuation of paused responses (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from agentkit.events import Event, TextDelta
from agentkit.llm.compat.rules import Adjustment, Body, RequestRefusal, drop, without
from agentkit.llm.protocols.anthropic import (
    BLOCKS,
    LIMIT_NAMES,
    MAX_TOKENS,
    blocks_in,
    decode_answer,
    is_paused,
    limit_thinking_budget,
    without_pending_calls,
)
from agentkit.llm.protocols.parsing import ParagraphJoiner
from agentkit.messages import AssistantMessage, Request, Response

_SAMPLING = ("top_p", "top_k", "temperature")
_SAMPLING_REFUSED = r"(?i)deprecated|only be set to|cannot both be|not permitted|not support|when thinking"
_FORCE_REFUSED = r"(?i)tool_choice.{0,60} (?:not supported|forces tool use)"
_KIND = r"(?:thinking\.|\"type\": ?\")(?:type\.)?(adaptive|enabled|disabled|between_tools)\b"
_OTHER_KIND = rf"(?i)(?:use|send)\b.{{0,40}}?{_KIND}"
_ADAPTIVE_REFUSED = r"(?i)adaptive.{0,40} not supported|not support.{0,20} adaptive|\badaptive\b.{0,90}expected tags"
_EFFORT_REFUSED = (
    r"(?i)effort\b.{0,60}(?:not support|not permitted)|not support.{0,20} effort|output_config: extra inputs"
)
_MAX_TOKENS = r"max_tokens: \d+ > (\d+)"
_INVALID_THINKING = (
    r"(?i)`?signature`? in `?thinking`? block|bound to a different|thinking\.signature"
    r"|thinking.{0,40} blocks .{0,60}cannot be modified"
)
_MISSING_THINKING = r"(?i)expected `?thinking`? or `?redacted_thinking`?,? but found|must start with a thinking"
_BUDGETS = {"low": 2_048, "medium": 8_192}
_BUDGET_TOKENS = 16_000
"""Thinking budgets by effort, and the default, for models that require a number of tokens."""

_SHORT_TOKENS = 4_096
_THINKING_TYPES = ("thinking", "redacted_thinking")
_DIGEST_CHARS = 16
_MAX_DIGESTS = 10_000
"""Maximum number of rejected thinking blocks that are remembered."""

_TOOLS_REQUIRED = r"(?i)tool_(?:use|result).{0,40} must define tools|toolconfig field must be defined"


def anthropic_adjustment(refusal: RequestRefusal) -> Adjustment | None:
    """The adjustment for a rejection specific to this protocol; None if the rejection is about something else."""
    return next(filter(None, (handler(refusal) for handler in _HANDLERS)), None)


def with_lower_max_tokens(body: Body, text: str, chosen: Collection[str]) -> Adjustment | None:
    """The adjustment for a request that is too long only because of the token limit that agentkit set itself."""
    is_default = body.get("max_tokens", 0) >= MAX_TOKENS and LIMIT_NAMES.isdisjoint(chosen)
    if not (is_default and re.search(r"max_tokens|completion|output", text)):
        return None
    return Adjustment(
        f"max_tokens is {_SHORT_TOKENS} where the conversation is long",
        lambda sent: _limit_max_tokens(sent, _SHORT_TOKENS),
        is_lasting=False,
    )


def _use_manual_thinking(body: Body) -> Body:
    """The body with a thinking budget in place of an effort."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "adaptive":
        return body
    effort = body.get("output_config", {}).get("effort", "")
    budget = {"type": "enabled", "budget_tokens": _BUDGETS.get(effort, _BUDGET_TOKENS)}
    return limit_thinking_budget({**_drop_effort(body), "thinking": budget})


MANUAL_THINKING = Adjustment("thinking has a token budget instead of an effort", _use_manual_thinking)


def _unforce_tool_choice(body: Body) -> Body:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") not in {"any", "tool"}:
        return body
    return {**body, "tool_choice": without({**choice, "type": "auto"}, "name")}


_TOOL_CALLS_UNFORCED = Adjustment("tool calls are not forced", _unforce_tool_choice)


def _handle_forced_tools(refusal: RequestRefusal) -> Adjustment | None:
    """Do not force a tool call; some models reject this, and all of them while thinking."""
    is_forced = _unforce_tool_choice(refusal.body) != refusal.body
    return _TOOL_CALLS_UNFORCED if is_forced and re.search(_FORCE_REFUSED, refusal.text) else None


def _handle_thinking_mode(refusal: RequestRefusal) -> Adjustment | None:
    """Use the thinking mode that the rejection names; model generations support different modes."""
    thinking = refusal.body.get("thinking")
    if not isinstance(thinking, dict) or "thinking" not in refusal.text:
        return None
    if re.search(_ADAPTIVE_REFUSED, refusal.text) and thinking.get("type") == "adaptive":
        return MANUAL_THINKING
    match = re.search(_OTHER_KIND, refusal.text)
    if match is None or match[1] == thinking.get("type") or match[1] == "enabled":
        return None
    refused, kind = thinking.get("type"), match[1]
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


def _handle_display(refusal: RequestRefusal) -> Adjustment | None:
    """Drop `display`; thinking is then shown in the server's default form."""
    is_match = "thinking" in refusal.text and "display" in refusal.text and refusal.is_unsupported

    def apply(body: Body) -> Body:
        return {**body, "thinking": without(body["thinking"], "display")} if "thinking" in body else body

    has_display = "display" in (refusal.body.get("thinking") or ())
    return Adjustment("thinking.display is left out", apply) if is_match and has_display else None


def _drop_effort(body: Body) -> Body:
    remaining = without(body.get("output_config", {}), "effort")
    return without(body, "output_config") | ({"output_config": remaining} if remaining else {})


def _handle_effort(refusal: RequestRefusal) -> Adjustment | None:
    has_effort = "effort" in refusal.body.get("output_config", {})
    return (
        Adjustment("effort is left out", _drop_effort)
        if has_effort and re.search(_EFFORT_REFUSED, refusal.text)
        else None
    )


def _handle_sampling(refusal: RequestRefusal) -> Adjustment | None:
    """Drop a sampling parameter; newer models accept none, others only one, or none while thinking."""
    refused_names = (name for name in _SAMPLING if name in refusal.body and re.search(rf"\b{name}\b", refusal.text))
    refused_name = next(refused_names, None)
    return drop(refused_name) if refused_name and re.search(_SAMPLING_REFUSED, refusal.text) else None


def _limit_max_tokens(body: Body, max_tokens: int) -> Body:
    if body.get("max_tokens", 0) <= max_tokens:
        return body
    limited = {**body, "max_tokens": max_tokens}
    return limit_thinking_budget(limited) if "budget_tokens" in (body.get("thinking") or {}) else limited


def _handle_max_tokens(refusal: RequestRefusal) -> Adjustment | None:
    """Lower the token limit to the maximum of the model, whether the user or agentkit set it."""
    match = re.search(_MAX_TOKENS, refusal.text)
    if match is None:
        return None
    max_tokens = int(match[1])
    return Adjustment(f"max_tokens is at most {max_tokens}", lambda body: _limit_max_tokens(body, max_tokens))


def _blocks_of_type(body: Body, *kinds: str) -> Iterator[Body]:
    """The content blocks of these types in all messages."""
    for turn in body.get("messages", ()):
        blocks = turn["content"] if isinstance(turn.get("content"), list) else ()
        yield from (block for block in blocks if block.get("type") in kinds)


def _digest(block: Body) -> str:
    """Identifies a thinking block by its signature, or else by its content."""
    import hashlib

    content = block.get("signature") or block.get("data") or block.get("thinking") or ""
    return hashlib.sha256(str(content).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]


def _drop_thinking_blocks(digests: Iterable[str]) -> Adjustment:
    """An adjustment that removes these thinking blocks, and model messages that contain nothing else."""
    known = tuple(dict.fromkeys(digests))[-_MAX_DIGESTS:]
    dropped = frozenset(known)

    def is_retained(block: Body) -> bool:
        return block.get("type") not in _THINKING_TYPES or _digest(block) not in dropped

    def apply(body: Body) -> Body:
        turns = []
        for turn in body["messages"]:
            blocks = turn["content"] if isinstance(turn.get("content"), list) else []
            remaining = [block for block in blocks if is_retained(block)]
            if len(remaining) == len(blocks):
                turns.append(turn)
            elif remaining:
                turns.append({**turn, "content": remaining})
        return {**body, "messages": turns}

    name = "thinking of conversations that have changed is not sent back"
    return Adjustment(name, apply, parts=known, for_parts=_drop_thinking_blocks)


def _handle_thinking_signature(refusal: RequestRefusal) -> Adjustment | None:
    """Remove thinking blocks, which are signed for a conversation that was shortened or whose instruction changed."""
    digests = [_digest(block) for block in _blocks_of_type(refusal.body, *_THINKING_TYPES)]
    return _drop_thinking_blocks(digests) if digests and re.search(_INVALID_THINKING, refusal.text) else None


def _declare_earlier_tools(body: Body) -> Body:
    """The body with the tools that were called in its history, and with tool calls disabled."""
    names = dict.fromkeys(block["name"] for block in _blocks_of_type(body, "tool_use"))
    if "tools" in body or not names:
        return body
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {**body, "tools": tools, "tool_choice": {"type": "none"}}


def _handle_undeclared_tools(refusal: RequestRefusal) -> Adjustment | None:
    """Declare the tools of earlier calls, which some servers require even if calls are disabled."""
    is_match = re.search(_TOOLS_REQUIRED, refusal.text) and _declare_earlier_tools(refusal.body) != refusal.body
    name = "earlier tools are declared where calls are disabled"
    return Adjustment(name, _declare_earlier_tools) if is_match else None


def _drop_waiting_code(body: Body) -> Body:
    """Remove server code that waits for a call; the call then counts as one made by the model itself."""
    if "container" in body:
        return body
    answered = {block.get("tool_use_id") for turn in body["messages"] for block in turn["content"]}
    waiting = {block.get("id") for block in _blocks_of_type(body, "server_tool_use")} - answered

    def is_retained(block: Body) -> bool:
        return block.get("type") != "server_tool_use" or block.get("id") not in waiting

    def drop_caller(block: Body) -> Body:
        return without(block, "caller") if (block.get("caller") or {}).get("tool_id") in waiting else block

    turns = [
        {**turn, "content": [drop_caller(each) for each in turn["content"] if is_retained(each)]}
        for turn in body["messages"]
    ]
    return {**body, "messages": turns} if waiting else body


def _handle_missing_container(refusal: RequestRefusal) -> Adjustment | None:
    """Remove waiting code if the server requires a container id that it never sent, as in streams cut at a call."""
    is_match = "container_id is required" in refusal.text and _drop_waiting_code(refusal.body) != refusal.body
    return Adjustment("code without a known container is left out", _drop_waiting_code) if is_match else None


def _handle_missing_thinking(refusal: RequestRefusal) -> Adjustment | None:
    """Disable thinking for one request if the server requires thinking blocks that the history lacks."""
    is_match = "thinking" in refusal.body and re.search(_MISSING_THINKING, refusal.text)
    if not is_match:
        return None
    return Adjustment("thinking is disabled", lambda body: without(body, "thinking"), is_lasting=False)


def _drop_cache_control_in(value: Any) -> Any:
    if isinstance(value, list):
        return [_drop_cache_control_in(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    nested = {name: _drop_cache_control_in(value[name]) for name in ("content",) if isinstance(value.get(name), list)}
    return {name: entry for name, entry in value.items() if name != "cache_control"} | nested


def _drop_cache_control(body: Body) -> Body:
    parts = {name: _drop_cache_control_in(body[name]) for name in ("system", "tools", "messages") if name in body}
    return without(body, "cache_control") | parts


def _handle_cache_control(refusal: RequestRefusal) -> Adjustment | None:
    is_match = "cache_control" in refusal.text and refusal.is_unsupported
    return Adjustment("cache marks are left out", _drop_cache_control) if is_match else None


_HANDLERS = (
    *(
        _handle_forced_tools,
        _handle_thinking_mode,
        _handle_display,
        _handle_effort,
        _handle_sampling,
        _handle_max_tokens,
        _handle_thinking_signature,
    ),
    *(_handle_missing_container, _handle_missing_thinking, _handle_undeclared_tools, _handle_cache_control),
)


MAX_PAUSES = 10
"""Maximum number of continuations of a paused response; each part can reach the token limit."""


def _join_answers(answer: Response, continuation: Response) -> Response:
    """Join two parts of a response."""
    content = [block for part in (answer, continuation) for block in blocks_in(part.raw.get("content"))]
    joined = decode_answer({**continuation.raw, "content": content})
    message = replace(joined.message, origin=continuation.message.origin)
    return replace(joined, message=message, usage=answer.usage + continuation.usage, model=continuation.model)


def _without_pause(answer: Response) -> Response:
    """The response without pending hosted calls, since it is not continued."""
    message = answer.message
    blocks = () if message.tool_calls else message.extra.get(BLOCKS, ())
    if len(settled := without_pending_calls(blocks)) == len(blocks):
        return answer
    return replace(answer, message=replace(message, extra={**message.extra, BLOCKS: tuple(settled)}))


def _paragraphs_after(answer: Response) -> ParagraphJoiner:
    """A joiner for the text of the next part, in the state after this one."""
    paragraphs = ParagraphJoiner()
    paragraphs.add(answer.text)
    if any(block.get("type") != "text" for block in blocks_in(answer.raw.get("content"))[-1:]):
        paragraphs.interrupt()
    return paragraphs


class ResponseParts:
    """The parts of one response. `next_request` is None once `answer` is complete."""

    answer: Response

    def __init__(self, request: Request) -> None:
        self._request = request
        self.next_request: Request | None = request
        self.paragraphs: ParagraphJoiner | None = None
        self._pauses = 0

    def with_rest(self, rest: AssistantMessage | None) -> AssistantMessage | None:
        """The part of a further response, after the parts before it; the rest alone if it is the first."""
        if not self._pauses:
            return rest
        message = self.answer.message
        return message if rest is None else replace(message, text=message.text + rest.text)

    def take(self, part: Response) -> None:
        """Add a part. If the server only paused, the part is sent back with the next request to be continued."""
        is_over = not is_paused(part.raw)
        if is_over and not self._pauses:
            self.next_request, self.answer = None, part
            return
        self.answer = _join_answers(self.answer, part) if self._pauses else part
        self._pauses += 1
        if is_over or self._pauses > MAX_PAUSES:
            self.next_request, self.answer = None, _without_pause(self.answer)
            return
        self.next_request = replace(self._request, messages=[*self._request.messages, self.answer.message])
        self.paragraphs = _paragraphs_after(self.answer)

    def joined(self, event: Event) -> Iterable[Event]:
        """The event of a further part; a paragraph that was interrupted is joined to its beginning."""
        if self.paragraphs is None or not isinstance(event, TextDelta):
            return (event,)
        return (TextDelta(self.paragraphs.add(event.text)),)
