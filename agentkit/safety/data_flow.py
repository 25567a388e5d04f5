"""Data-flow rule: private data must not leave after untrusted content was read (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from unicodedata import category

from agentkit.decisions import Decision, Label, Verdict
from agentkit.messages import AssistantMessage, Message, ToolMessage, UserMessage

FLOW = "flow"
"""The rule that asks because of what was read."""

_SHOWN_CHARS = 80
_CARRIES_NOTHING = 1_000
_MOST_LEAVES, _MOST_NUMBERS, _MOST_SAID_CALLS = 8, 3, 5
_MOST_SAID_LEAVES = 100
_MOST_PLACES = 1_000
"""At how many places in a person's words one of them is looked at: a pasted text may hold it a million times."""

_JOINING = r"\w/?&=%@\uff20+\-\u2010\u2011\u2012\u2013\u2212\u2044\\"
_BETWEEN_WORDS = r"[!#$*^|~`{}\u00b7\u066b\u066c'\u2019]"
_BLANK = r"[ \u00a0\u2009\u202f]"
_NOT_WITHIN = rf"(?<![{_JOINING}.])(?<!\d[,:])(?<!\w{_BETWEEN_WORDS})(?!(?<=\d{_BLANK})\d{{3}}(?!\d))"
_NOR_GOES_ON = (  # Ann goes on in Ann-Marie, not in Ann's; 10 in 10 000, not in 10 of us
    rf"(?![{_JOINING}]|[.:\u3002\uff0e\uff61]\w|,\d|(?!['\u2019]s\b){_BETWEEN_WORDS}\w)"
    rf"(?!(?<=\d){_BLANK}\d{{3}}(?!\d))"
)
_ALONE = r"(?<![^\s\"'`])", r"(?![^\s\"'`])"
_JOINED = {"Mn", "Mc", "Me", "Cf"}
_CAUSES = (Label.UNTRUSTED, Label.PRIVATE)
_ABOVE = "what the agent above had read"
_ITSELF = "the call itself"
_BY_PROVIDER = "a tool that the provider has used"


def labels_of(messages: Iterable[Message]) -> frozenset[Label]:
    """All that the results in a conversation may hold, and what hosted tools have brought into answers."""
    found = [message.labels for message in messages if isinstance(message, ToolMessage | AssistantMessage)]
    return frozenset[Label]().union(*found)


def judge_flow(
    messages: Sequence[Message],
    tool: str,
    arguments: Mapping[str, Any],
    decision: Decision,
    above: frozenset[Label] = frozenset(),
    brought: frozenset[Label] = frozenset(),
) -> Decision:
    """The decision, or `ask` when the call could carry out what a conversation with both labels has read.

    A call whose arguments are the person's own words carries next to nothing; a few such calls are let through.
    `above` is what the agents have read that set this one to work: with any of it, its prompt is no person's own words.
    `brought` is what the call may read before it sends anything.
    """
    if decision.denied or not decision.egress:
        return decision
    others = {**dict.fromkeys(brought, _ITSELF), **dict.fromkeys(above, _ABOVE)}
    causes = [_cause(messages, label) or others.get(label) for label in _CAUSES]
    if None in causes:
        return decision
    if not above and _is_said(messages, arguments) and _other_calls_of(messages, tool) < _MOST_SAID_CALLS:
        return decision
    reason = (
        f"The call could carry data out of a conversation that has read untrusted text, by {causes[0]}, "
        f"and private data, by {causes[1]}."
    )
    if not decision.allowed:
        reason = f"{reason} {decision.reason}"
    remedy = "A person must approve it; or start a new conversation that has not read both."
    return replace(decision, verdict=Verdict.ASK, rule=FLOW, reason=reason, remedy=remedy)


def said_in(messages: Sequence[Message], arguments: Mapping[str, Any]) -> frozenset[str]:
    """The names of the arguments that the person wrote, each text and number as a whole; nothing is said anyway."""
    words = list(_words(messages))
    return frozenset(name for name, value in arguments.items() if _all_said(value, words))


def _all_said(value: Any, words: Sequence[str]) -> bool:
    leaves = list(islice(_leaves(value), _MOST_SAID_LEAVES + 1))
    return len(leaves) <= _MOST_SAID_LEAVES and all(
        any(_stands_in(spelling, said) for spelling in _spellings(leaf) for said in words)
        for leaf in leaves
        if leaf is not None and leaf != ""
    )


def _spellings(leaf: object) -> tuple[str, ...]:
    """How a person may have written a text or number; yes and no are never found in words."""
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


def _other_calls_of(messages: Sequence[Message], tool: str) -> int:
    """How often else the tool was called since both kinds had been read, also beside this call, in the same response.

    Calls that are made at the same time carry as much as those that follow each other.
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
    return count - bool(newest)  # a response at the end is the one that makes this call


def _cause(messages: Sequence[Message], label: Label) -> str | None:
    """The first call whose result has the label, as a person would write it; None when there is none."""
    for message in messages:
        if isinstance(message, ToolMessage) and label in message.labels:
            return f"{message.name}({_arguments_of(messages, message.call_id)})"
        if isinstance(message, AssistantMessage) and label in message.labels:
            return _BY_PROVIDER
    return None


def _arguments_of(messages: Sequence[Message], call_id: str) -> str:
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if call.id == call_id:
                return " ".join(call.arguments[:_SHOWN_CHARS].split())
    return ""


def _is_said(messages: Sequence[Message], arguments: Mapping[str, Any]) -> bool:
    """Whether the person wrote everything that could leave, each text as a whole; few numbers, and small ones, pass."""
    leaves = list(islice(_leaves(list(arguments.values())), _MOST_LEAVES + 1))
    texts = [leaf for leaf in leaves if isinstance(leaf, str)]
    others = [leaf for leaf in leaves if not isinstance(leaf, str)]
    if not texts or len(leaves) > _MOST_LEAVES or len(others) > _MOST_NUMBERS:
        return False
    said = list(_words(messages))
    return all(map(_is_small, others)) and all(any(_stands_in(text, words) for words in said) for text in texts)


def _is_small(value: object) -> bool:
    return value is None or (isinstance(value, int) and abs(value) < _CARRIES_NOTHING)


def _stands_in(text: str, words: str) -> bool:
    """Whether the text stands there as a whole, not as a part of longer words, numbers or addresses.

    What has neither letter nor digit, such as `*`, stands between blanks.
    """
    if text not in words or _is_joined(text[:1]):
        return False
    before, after = _ALONE if text and re.search(r"\w", text) is None else (_NOT_WITHIN, _NOR_GOES_ON)
    found = islice(re.finditer(f"{before}{re.escape(text)}{after}", words), _MOST_PLACES)
    places = (each.span() for each in found)
    return any(not _is_joined(words[max(start - 1, 0) : start] + words[end : end + 1]) for start, end in places)


def _is_joined(text: str) -> bool:
    """Whether some of it belongs to the characters around it: an accent, a vowel sign, a joiner."""
    return any(category(each) in _JOINED for each in text)


def _words(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, UserMessage) and message.by_person:
            parts = (message.content,) if isinstance(message.content, str) else message.content
            yield from (part for part in parts if isinstance(part, str))


def _leaves(value: Any) -> Iterator[Any]:
    """Every text, number and other single value in a value, keys included; of a pydantic model only what was given."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif hasattr(type(value), "model_fields_set"):
        known = type(value).model_fields
        given = {name: getattr(value, name) for name in value.model_fields_set}
        yield from _leaves([item if name in known else {name: item} for name, item in given.items()])
    else:
        yield value
