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

_TEXT_MODULES = frozenset({"datetime", "decimal", "fractions", "uuid"})

_NOT_IN_A_NAME = re.compile(r"\W", re.ASCII)


def python_name(name: str) -> str:
    """Convert a name to a valid Python identifier."""
    plain = _NOT_IN_A_NAME.sub("_", name)
    return f"_{plain}" if keyword.iskeyword(plain) or not plain.isidentifier() else plain


def host_functions(signatures: str, call_descriptor: int, reply_descriptor: int) -> dict[str, Any]:
    """Create the host functions by name, together with the error they raise.

    `signatures` is a JSON object that maps each name to its parameter names. Calls are written to `call_descriptor`,
    and their replies are read from `reply_descriptor`.
    """
    os.set_inheritable(call_descriptor, False)
    names: dict[str, list[str]] = json.loads(signatures)
    channel = _HostChannel(call_descriptor, reply_descriptor)
    functions = {name: _function(name, parameters, channel) for name, parameters in names.items()}
    return {**functions, ToolError.__name__: ToolError}


class _HostChannel:
    """The channel to the host. It allows only one call at a time."""

    def __init__(self, call_descriptor: int, reply_descriptor: int) -> None:
        self._calls, self._replies = call_descriptor, reply_descriptor
        self._is_waiting = False

    def ask(self, name: str, arguments: str) -> dict[str, str]:
        """Make a call and wait for its reply.

        Raises RuntimeError after a call was interrupted, for example by a lack of memory: the next reply could belong
        to it.
        """
        request = protocol.encode(tool=name, arguments=arguments)
        if self._is_waiting:
            raise RuntimeError("an earlier call was interrupted, so no more calls can be made")
        self._is_waiting = True
        protocol.send(self._calls, request)
        reply = protocol.receive(self._replies)
        self._is_waiting = False
        if reply is None:
            raise SystemExit(1)  # the host has exited
        return reply


def _function(name: str, parameters: Sequence[str], channel: _HostChannel) -> Callable[..., Any]:
    def function(*positional: Any, **named: Any) -> Any:
        reply = channel.ask(name, _encode_arguments(name, parameters, positional, named))
        if "error" in reply:
            raise ToolError(reply["error"])
        return json.loads(reply["value"])[0]

    function.__name__ = function.__qualname__ = name
    return function


def _encode_arguments(name: str, parameters: Sequence[str], positional: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Bind arguments to parameter names and serialise them as JSON.

    Raises TypeError for too many arguments or two values of one parameter, and ValueError if the JSON is too long.
    """
    if len(positional) > len(parameters):
        raise TypeError(
            f"{name}() takes ({', '.join(map(python_name, parameters))}), and got {len(positional)} arguments"
        )
    known = {python_name(each): each for each in parameters}
    arguments = dict(zip(parameters, positional, strict=False))
    for key, value in named.items():
        parameter = known.get(key, key)
        if parameter in arguments:
            raise TypeError(f"{name}() got two values for {key!r}")
        arguments[parameter] = value
    text = json.dumps(arguments, default=_to_json_value)
    if len(text) > MAX_BYTES:
        raise ValueError(f"the arguments of {name}() are longer than {MAX_BYTES:,} characters")
    return text


def _to_json_value(value: Any) -> Any:
    """Convert a value that JSON cannot represent. Raises TypeError if that is not possible."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if type(value).__module__ in _TEXT_MODULES:
        return value.isoformat() if hasattr(value, "isoformat") else str(value)
    raise TypeError(
        f"a {type(value).__name__} cannot be passed to a tool: pass strings, numbers, lists and dictionaries"
    )
