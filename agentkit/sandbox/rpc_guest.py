"""Calls from sandboxed code to the host: the sandbox side."""

from __future__ import annotations

import json
import keyword
import os
import re

from agentkit.errors import ToolError
from agentkit.sandbox import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MAX_BYTES = protocol.MAX_FRAME_BYTES - 1_000
"""Maximum length of the arguments or the result of a call as JSON."""

_AS_TEXT = frozenset({"datetime", "decimal", "fractions", "uuid"})

_NOT_IN_A_NAME = re.compile(r"\W", re.ASCII)


def spelled(name: str) -> str:
    """Convert a name to a valid Python identifier."""
    plain = _NOT_IN_A_NAME.sub("_", name)
    return f"_{plain}" if keyword.iskeyword(plain) or not plain.isidentifier() else plain


def functions_of(offered: str, asks: int, replies: int) -> dict[str, Any]:
    """Create the host functions by name, together with the error they raise.

    `offered` is a JSON object that maps each name to its parameter names. Calls are written to `asks`, and their
    replies read from `replies`.
    """
    os.set_inheritable(asks, False)
    names: dict[str, list[str]] = json.loads(offered)
    line = _HostChannel(asks, replies)
    made = {name: _function(name, parameters, line) for name, parameters in names.items()}
    return {**made, ToolError.__name__: ToolError}


class _HostChannel:
    """The channel to the host. It allows only one call at a time."""

    def __init__(self, asks: int, replies: int) -> None:
        self._asks, self._replies = asks, replies
        self._is_waiting = False

    def ask(self, name: str, arguments: str) -> dict[str, str]:
        """Make a call and wait for its reply.

        Raises RuntimeError after a call was interrupted, for example by a lack of memory: the next reply could belong
        to it.
        """
        asked = protocol.encode(tool=name, arguments=arguments)
        if self._is_waiting:
            raise RuntimeError("an earlier call was interrupted, so no more calls can be made")
        self._is_waiting = True
        protocol.send(self._asks, asked)
        reply = protocol.receive(self._replies)
        self._is_waiting = False
        if reply is None:
            raise SystemExit(1)  # the host has exited
        return reply


def _function(name: str, parameters: Sequence[str], line: _HostChannel) -> Callable[..., Any]:
    def function(*given: Any, **named: Any) -> Any:
        reply = line.ask(name, _bound(name, parameters, given, named))
        if "error" in reply:
            raise ToolError(reply["error"])
        return json.loads(reply["value"])[0]

    function.__name__ = function.__qualname__ = name
    return function


def _bound(name: str, parameters: Sequence[str], given: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Bind arguments to parameter names and serialise them as JSON.

    Raises TypeError for too many arguments or two values for a parameter, and ValueError if the JSON is too long.
    """
    if len(given) > len(parameters):
        raise TypeError(f"{name}() takes ({', '.join(map(spelled, parameters))}), and got {len(given)} arguments")
    known = {spelled(each): each for each in parameters}
    arguments = dict(zip(parameters, given, strict=False))
    for key, value in named.items():
        parameter = known.get(key, key)
        if parameter in arguments:
            raise TypeError(f"{name}() got two values for {key!r}")
        arguments[parameter] = value
    text = json.dumps(arguments, default=_plain)
    if len(text) > MAX_BYTES:
        raise ValueError(f"the arguments of {name}() are longer than {MAX_BYTES:,} characters")
    return text


def _plain(value: Any) -> Any:
    """Convert a value that JSON cannot represent. Raises TypeError if that is not possible."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if type(value).__module__ in _AS_TEXT:
        return value.isoformat() if hasattr(value, "isoformat") else str(value)
    raise TypeError(
        f"a {type(value).__name__} cannot be passed to a tool: pass strings, numbers, lists and dictionaries"
    )
