"""Data-flow rule: private data must not leave after untrusted content was read (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from unicodedata import category

from agentkit.decisions import Decision, Label, Verdict
from agentkit.messages import AssistantMessage, Message, ToolMessage, UserMessage

FLOW = "flow"
"""The rule that requires approval because of data read before."""

_SHOWN_CHARS = 80
_SMALL_NUMBER = 1_000
_MAX_LEAVES, _MAX_NUMBERS, _MAX_FREE_CALLS = 8, 3, 5
_MAX_WRITTEN_LEAVES = 100
_MAX_PLACES = 1_000
"""Maximum number of matches examined per text: a pasted text can contain a word a million times."""

_JOINING = r"\w/?&=%@\uff20+\-\u2010\u2011\u2012\u2013\u2212\u2044\\"
_BETWEEN_WORDS = r"[!#$*^|~`{}\u00b7\u066b\u066c'\u2019]"
_BLANK = r"[ \u00a0\u2009\u202f]"
_NOT_WITHIN = rf"(?<![{_JOINING}.])(?<!\d[,:])(?<!\w{_BETWEEN_WORDS})(?!(?<=\d{_BLANK})\d{{3}}(?!\d))"
_NOR_GOES_ON = (  # 'Ann' is part of a longer word in Ann-Marie but not in Ann's; 10 in 10 000 but not in 10 of us
    rf"(?![{_JOINING}]|[.:\u3002\uff0e\uff61]\w|,\d|(?!['\u2019]s\b){_BETWEEN_WORDS}\w)"
    rf"(?!(?<=\d){_BLANK}\d{{3}}(?!\d))"
)
_ALONE = r"(?<![^\s\"'`])", r"(?![^\s\"'`])"
_COMBINING_CATEGORIES = {"Mn", "Mc", "Me", "Cf"}
_CAUSES = (Label.UNTRUSTED, Label.PRIVATE)
_CALLING_AGENT = "the conversation of the calling agent"
_CALL_ITSELF = "the call itself"
_PROVIDER_TOOL = "a tool that the provider has used"


def judge_flow(
    messages: Sequence[Message],
    tool: str,
    arguments: Mapping[str, Any],
    decision: Decision,
    above: frozenset[Label] = frozenset(),
    brought: frozenset[Label] = frozenset(),
) -> Decision:
    """Return the decision, or `ask` if the call could send out what a conversation with both labels has read.

    A call whose arguments are the user's own words carries almost nothing; a few such calls are allowed. `above` are
    the labels read by the agents that called this one: if there are any, its prompt does not count as the user's words.
    `brought` are the labels of data that the call can read before it sends anything.
    """
    if decision.denied or not decision.egress:
        return decision
    others = {**dict.fromkeys(brought, _CALL_ITSELF), **dict.fromkeys(above, _CALLING_AGENT)}
    causes = [_cause(messages, label) or others.get(label) for label in _CAUSES]
    if None in causes:
        return decision
    if not above and _all_written_by_user(messages, arguments) and _count_other_calls(messages, tool) < _MAX_FREE_CALLS:
        return decision
    reason = (
        f"The call could send private data (read by {causes[1]}) out of a conversation that has read untrusted text "
        f"(by {causes[0]})."
    )
    if not decision.allowed:
        reason = f"{reason} {decision.reason}"
    remedy = "Ask the user to approve it, or start a new conversation."
    return replace(decision, verdict=Verdict.ASK, rule=FLOW, reason=reason, remedy=remedy)


def user_written_arguments(messages: Sequence[Message], arguments: Mapping[str, Any]) -> frozenset[str]:
    """The names of the arguments that the user wrote, each text and number as a whole; empty values always qualify."""
    words = list(_user_texts(messages))
    return frozenset(name for name, value in arguments.items() if _is_written_by_user(value, words))


def _is_written_by_user(value: Any, words: Sequence[str]) -> bool:
    leaves = list(islice(_leaves(value), _MAX_WRITTEN_LEAVES + 1))
    return len(leaves) <= _MAX_WRITTEN_LEAVES and all(
        any(_occurs_in(spelling, text) for spelling in _spellings(leaf) for text in words)
        for leaf in leaves
        if leaf is not None and leaf != ""
    )


def _spellings(leaf: object) -> tuple[str, ...]:
    """The ways a user can write a text or number; booleans are never found in text."""
    match leaf:
        case str():
            return (leaf,)
        case bool():
            return ()
        case int():
            return (str(leaf), f"{leaf:,}")
        case float() if math.isfinite(leaf):
            whole = _spellings(int(leaf)) if leaf.is_integer() else ()
            hundredths = (f"{leaf:.2f}", f"{leaf:,.2f}") if round(leaf, 2) == leaf else ()
            return (*whole, *hundredths, str(leaf))
    return ()


def _count_other_calls(messages: Sequence[Message], tool: str) -> int:
    """Count other calls of the tool since both labels were read, including those in the same response.

    Parallel calls can carry as much data as sequential ones.
    """
    seen: set[Label] = set()
    count = newest = 0
    for message in messages:
        newest = 0
        if isinstance(message, AssistantMessage) and seen.issuperset(_CAUSES):
            newest = sum(call.name == tool for call in message.tool_calls)
        if isinstance(message, ToolMessage | AssistantMessage):
            seen |= message.labels
        count += newest
    return count - bool(newest)  # a response at the end contains this call


def _cause(messages: Sequence[Message], label: Label) -> str | None:
    """The first call whose result has the label, rendered for people; None if no call has it."""
    for message in messages:
        if isinstance(message, ToolMessage) and label in message.labels:
            return f"{message.name}({_arguments_of(messages, message.call_id)})"
        if isinstance(message, AssistantMessage) and label in message.labels:
            return _PROVIDER_TOOL
    return None


def _arguments_of(messages: Sequence[Message], call_id: str) -> str:
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if call.id == call_id:
                return " ".join(call.arguments[:_SHOWN_CHARS].split())
    return ""


def _all_written_by_user(messages: Sequence[Message], arguments: Mapping[str, Any]) -> bool:
    """Whether the user wrote everything that could leave, each text as a whole; a few small numbers are exempt."""
    leaves = list(islice(_leaves(list(arguments.values())), _MAX_LEAVES + 1))
    texts = [leaf for leaf in leaves if isinstance(leaf, str)]
    others = [leaf for leaf in leaves if not isinstance(leaf, str)]
    if not texts or len(leaves) > _MAX_LEAVES or len(others) > _MAX_NUMBERS:
        return False
    user_texts = list(_user_texts(messages))
    return all(map(_is_small, others)) and all(any(_occurs_in(text, words) for words in user_texts) for text in texts)


def _is_small(value: object) -> bool:
    return value is None or (isinstance(value, int) and abs(value) < _SMALL_NUMBER)


def _occurs_in(text: str, words: str) -> bool:
    """Whether the text occurs as a whole, not as part of longer words, numbers or addresses.

    Text without a letter or digit, such as `*`, must be delimited by whitespace.
    """
    if text not in words or _is_joined(text[:1]):
        return False
    before, after = _ALONE if text and re.search(r"\w", text) is None else (_NOT_WITHIN, _NOR_GOES_ON)
    found = islice(re.finditer(f"{before}{re.escape(text)}{after}", words), _MAX_PLACES)
    places = (each.span() for each in found)
    return any(not _is_joined(words[max(start - 1, 0) : start] + words[end : end + 1]) for start, end in places)


def _is_joined(text: str) -> bool:
    """Whether a character combines with its neighbours: an accent, a vowel sign, a joiner."""
    return any(category(each) in _COMBINING_CATEGORIES for each in text)


def _user_texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, UserMessage) and message.by_person:
            parts = (message.content,) if isinstance(message.content, str) else message.content
            yield from (part for part in parts if isinstance(part, str))


def _leaves(value: Any) -> Iterator[Any]:
    """Every scalar in a value, including keys; for a pydantic model only the fields that were set."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif hasattr(type(value), "model_fields_set"):
        known = type(value).model_fields
        values = {name: getattr(value, name) for name in value.model_fields_set}
        yield from _leaves([item if name in known else {name: item} for name, item in values.items()])
    else:
        yield value
