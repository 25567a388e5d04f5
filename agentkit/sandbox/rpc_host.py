"""Calls from sandboxed code to the host: the host side."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Protocol

from agentkit.errors import SandboxError
from agentkit.sandbox import protocol

Answer = Callable[[str, str], Mapping[str, str]]
"""Answers a call, given the function's name and its arguments as JSON.

Returns a `value`, as the only item of a JSON list, or an `error`. Name and arguments are untrusted.
"""

_LENGTH = 4
_NO_CALL = "The code has sent what is no call of a function."


class CallingWorker(Protocol):
    """A process of the sandbox whose code can call host functions."""

    calls: int | None
    program: subprocess.Popen[bytes]

    def reply(self, texts: Mapping[str, str]) -> None:
        """Send a reply that the code waits for. Raises SandboxError if it is not read."""
        ...


def takers(keeper: CallingWorker, answer: Answer | None) -> dict[int, Callable[[bytes], None]]:
    """The descriptor of calls, if they are enabled, mapped to the handler of the data read from it."""
    return {} if answer is None or keeper.calls is None else {keeper.calls: _Answering(keeper, answer).take}


class _Answering:
    """Assembles calls from chunks of data and replies to each complete one."""

    def __init__(self, keeper: CallingWorker, answer: Answer) -> None:
        self._keeper, self._answer = keeper, answer
        self._asked = bytearray()

    def take(self, data: bytes) -> None:
        """Process a chunk. Raises SandboxError for a malformed call or a reply that is not read."""
        if self._keeper.program.poll() is not None:
            return
        self._asked += data
        length = int.from_bytes(self._asked[:_LENGTH], "big")
        awaited = length if length <= protocol.MAX_FRAME_BYTES else 0
        if len(self._asked) < _LENGTH + awaited:
            return
        asked = protocol.split(bytes(self._asked))
        self._asked.clear()  # code that waits for a reply sends nothing else
        if len(asked) != 1 or asked[0].keys() != {"tool", "arguments"}:
            raise SandboxError(_NO_CALL)
        self._keeper.reply(self._answer(asked[0]["tool"], asked[0]["arguments"]))
