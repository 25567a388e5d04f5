"""Which part of a request is worth keeping in the server's cache? Pure."""

from __future__ import annotations

from typing import Any

_MARK = {"type": "ephemeral"}
_SETTING = "cache_control"
_MARKED_TURNS = 2
"""How many of a user's turns are marked: the last, and the one that was the last in the request before."""


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """The body with marks up to which the server keeps it, where another request is likely to begin with the same.

    That is where there are tools, or an answer already. To write into the cache costs a quarter more, to read from it a
    tenth; so a single question without tools is not marked. Who says `cache_control` decides: False marks nothing.
    """
    if _SETTING in body:
        return body if body[_SETTING] else {name: value for name, value in body.items() if name != _SETTING}
    turns = body["messages"]
    if "tools" not in body and all(turn["role"] == "user" for turn in turns):
        return body
    return {**body, **_with_stable_part(body), "messages": _with_last_turns(turns)}


def _with_stable_part(body: dict[str, Any]) -> dict[str, Any]:
    """The instruction, before which the tools stand for the server, or else the tools."""
    if isinstance(body.get("system"), str):
        return {"system": [{"type": "text", "text": body["system"], _SETTING: _MARK}]}
    if "tools" in body:
        return {"tools": [*body["tools"][:-1], {**body["tools"][-1], _SETTING: _MARK}]}
    return {}


def _with_last_turns(turns: list[Any]) -> list[Any]:
    """The turns, of which the last ones of the user are marked at their end.

    The server looks for what it knows only a few blocks before a mark, and the calls of one answer may be more.
    """
    places = [at for at, turn in enumerate(turns) if turn["role"] == "user"][-_MARKED_TURNS:]
    return [_with_mark(turn) if at in places else turn for at, turn in enumerate(turns)]


def _with_mark(turn: dict[str, Any]) -> dict[str, Any]:
    *blocks, last = turn["content"]
    return {**turn, "content": [*blocks, {**last, _SETTING: _MARK}]}
