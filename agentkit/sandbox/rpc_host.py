"""Calls from sandboxed code to the host: the host side."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Protocol

from agentkit.errors import SandboxError
from agentkit.sandbox import protocol

Answer = Callable[[str, str], Mapping[str, str]]
"""Makes of a function's name and its arguments as JSON a `value`, as the only entry of a JSON list, or an `error`.

Name and arguments come from strangers.
"""

_LENGTH = 4
_NO_CALL = "The code has sent what is no call of a function."


class CallingWorker(Protocol):
    """A process of the sandbox, as far as its code asks."""

    calls: int | None
    program: subprocess.Popen[bytes]

    def reply(self, texts: Mapping[str, str]) -> None:
        """Give the code a frame that it waits for. Raises SandboxError when it does not take it."""
        ...


def takers(keeper: CallingWorker, answer: Answer | None) -> dict[int, Callable[[bytes], None]]:
    """The descriptor on which code makes calls, if it may, and what handles the data read from it."""
    return {} if answer is None or keeper.calls is None else {keeper.calls: _Answering(keeper, answer).take}


class _Answering:
    """Takes what code asks, piece by piece, and replies to each call as soon as it is whole."""

    def __init__(self, keeper: CallingWorker, answer: Answer) -> None:
        self._keeper, self._answer = keeper, answer
        self._asked = bytearray()

    def take(self, data: bytes) -> None:
        """Take the next piece. Raises SandboxError for what is no call, and when nobody takes the reply."""
        if self._keeper.program.poll() is not None:
            return
        self._asked += data
        length = int.from_bytes(self._asked[:_LENGTH], "big")
        awaited = length if length <= protocol.MAX_FRAME_BYTES else 0
        if len(self._asked) < _LENGTH + awaited:
            return
        asked = protocol.split(bytes(self._asked))
        self._asked.clear()  # who waits for a reply asks nothing else meanwhile
        if len(asked) != 1 or asked[0].keys() != {"tool", "arguments"}:
            raise SandboxError(_NO_CALL)
        self._keeper.reply(self._answer(asked[0]["tool"], asked[0]["arguments"]))
