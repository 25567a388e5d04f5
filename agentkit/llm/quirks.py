"""What does a model family refuse or rename? A table of what is known, and how more is learnt from a 400 (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentkit.errors import Rejected

Body = dict[str, Any]

ESSENTIAL = frozenset({"model", "messages", "input", "tools", "stream"})
"""Without these a request is no longer the one that was asked for, so they are never dropped."""

_UNSUPPORTED = re.compile(
    r"unsupported|not supported|not support|unrecognized|unrecognised|unknown|unexpected|not permitted|not allowed"
    r"|extra inputs|extra fields|no such|cannot be used|incompatible|use '?max_completion_tokens",
    re.IGNORECASE,
)
_MESSAGE_FIELD = re.compile(r"messages[.\[](?:\d+)\]?\.(?:\w+\.)*(\w+)|property '(\w+)' is unsupported")


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One change to a body that a server would refuse; `name` tells changes apart."""

    name: str
    apply: Callable[[Body], Body]


def drop(name: str) -> Adjustment:
    """Leave the top-level parameter out."""
    return Adjustment(f"drop {name}", lambda body: {key: value for key, value in body.items() if key != name})


def rename(old: str, new: str) -> Adjustment:
    """Send the parameter under its other name."""
    return Adjustment(
        f"rename {old}", lambda body: {(new if key == old else key): value for key, value in body.items()}
    )


def put(name: str, value: object) -> Adjustment:
    """Send the parameter with the one value that is taken, unless the user chose one."""
    return Adjustment(f"put {name}", lambda body: {name: value, **body})


def drop_message_field(name: str) -> Adjustment:
    """Leave the field out of every message."""

    def apply(body: Body) -> Body:
        messages = [{key: value for key, value in entry.items() if key != name} for entry in body["messages"]]
        return {**body, "messages": messages}

    return Adjustment(f"drop messages.{name}", apply)


def _without_strict(body: Body) -> Body:
    return {**body, "tools": [_plain_tool(tool) for tool in body["tools"]]}


def _plain_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in tool.items() if key != "strict"}
    return {**plain, "function": _plain_tool(plain["function"])} if "function" in plain else plain


UNSTRICT = Adjustment("unstrict tools", _without_strict)

_FAMILIES: tuple[tuple[re.Pattern[str], str, str, Adjustment], ...] = (
    # model, protocol, when the body has this parameter, what to do
    (re.compile(r"^(gpt-[5-9]|o\d)"), "chat", "max_tokens", rename("max_tokens", "max_completion_tokens")),
    (re.compile(r"^(gpt-5\.[6-9]|gpt-[6-9])"), "chat", "tools", put("reasoning_effort", "none")),
    (re.compile(r"^(gpt-[34]|chatgpt)"), "responses", "include", drop("include")),
)


def known(body: Body, model: str, protocol: str) -> Body:
    """The body with what is known of the model's family taken into account."""
    for family, wire, parameter, adjustment in _FAMILIES:
        if wire == protocol and parameter in body and family.match(model):
            body = adjustment.apply(body)
    return body


def learnt(body: Body, error: Rejected) -> Adjustment | None:
    """What to change after a refusal that names a parameter of `body` as not supported; None when nothing helps.

    A parameter whose *value* is wrong is the user's to mend, so such a refusal teaches nothing.
    """
    text = str(error)
    if error.status not in {400, 422} or not _UNSUPPORTED.search(f"{text} {error.code}"):
        return None
    if "max_tokens" in body and "max_completion_tokens" in text:
        return rename("max_tokens", "max_completion_tokens")
    if "tools" in body and "reasoning_effort" not in body and "reasoning_effort" in text:
        return put("reasoning_effort", "none")
    if "tools" in body and re.search(r"\bstrict\b", f"{text} {error.parameter}"):
        return UNSTRICT
    field = _MESSAGE_FIELD.search(f"{error.parameter} {text}")
    if field and "messages" in body and (field[1] or field[2]) not in {"role", "content"}:
        return drop_message_field(field[1] or field[2])
    named = _named(body, error)
    return drop(named) if named else None


def _named(body: Body, error: Rejected) -> str | None:
    """The droppable parameter that the refusal names, by its own field or as a word of its text."""
    droppable = [name for name in body if name not in ESSENTIAL]
    top = re.split(r"[.\[]", error.parameter or "")[0]
    if top in droppable:
        return top
    if top in ESSENTIAL:
        return None
    return next((name for name in droppable if re.search(rf"\b{re.escape(name)}\b", str(error))), None)
