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
_NO_CALL = "The code sent an invalid function call."


class CallingWorker(Protocol):
    """A process of the sandbox whose code can call host functions."""

    calls: int | None
    program: subprocess.Popen[bytes]

    def reply(self, texts: Mapping[str, str]) -> None:
        """Send a reply that the code waits for. Raises SandboxError if it is not read."""
        ...


def takers(worker: CallingWorker, answer: Answer | None) -> dict[int, Callable[[bytes], None]]:
    """The descriptor of calls, if they are enabled, mapped to the handler of the data read from it."""
    return {} if answer is None or worker.calls is None else {worker.calls: _Answering(worker, answer).take}


class _Answering:
    """Assembles calls from chunks of data and replies to each complete one."""

    def __init__(self, worker: CallingWorker, answer: Answer) -> None:
        self._worker, self._answer = worker, answer
        self._received = bytearray()

    def take(self, data: bytes) -> None:
        """Process a chunk. Raises SandboxError for a malformed call or a reply that is not read."""
        if self._worker.program.poll() is not None:
            return
        self._received += data
        length = int.from_bytes(self._received[:_LENGTH], "big")
        awaited = length if length <= protocol.MAX_FRAME_BYTES else 0
        if len(self._received) < _LENGTH + awaited:
            return
        requests = protocol.split(bytes(self._received))
        self._received.clear()  # code that waits for a reply sends nothing else
        if len(requests) != 1 or requests[0].keys() != {"tool", "arguments"}:
            raise SandboxError(_NO_CALL)
        self._worker.reply(self._answer(requests[0]["tool"], requests[0]["arguments"]))
