"""The worker process of the offline engine, without network or keys."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentkit import settings
from agentkit.errors import BadResponse, Unreachable

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0} import Engine; Engine.serve(int(sys.argv[2]))"
)


class EngineProcess:
    """The engine's process, seen from its host: started when first asked, and again when it has died.

    Threads take turns. A process that was forked from the host must make a worker of its own. `executable` is the
    Python to run, normally the host's.
    """

    def __init__(self, executable: str = sys.executable) -> None:
        self._executable = executable
        self._turn = threading.Lock()
        self._engine: _Process | None = None
        self._stop: weakref.finalize[..., EngineProcess] | None = None

    def ask(self, question: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """The engine's reply, with the keys `envelope` and `network`.

        Raises Unreachable when there is none in time or the process dies twice, BadResponse when the engine fails.
        """
        line = json.dumps(question).encode() + b"\n"
        if not self._turn.acquire(timeout=timeout_seconds):
            raise Unreachable(f"The offline model was busy with other requests for {timeout_seconds:g} seconds.")
        try:
            answer = self._exchange(line, timeout_seconds) or self._exchange(line, timeout_seconds)
        finally:
            self._turn.release()
        if answer is None:
            raise Unreachable("The offline model's process died twice while it was answering.")
        reply: dict[str, Any] = json.loads(answer)
        if "error" in reply:
            raise BadResponse(f"The offline model failed: {reply['error']}")
        return reply

    def _exchange(self, line: bytes, timeout_seconds: float) -> bytes | None:
        """The answer to one line, or None when the process died over it."""
        engine = self._running()
        late = threading.Event()
        timer = threading.Timer(timeout_seconds, _give_up, (late, engine.process))
        timer.daemon = True
        timer.start()
        answer = None
        try:
            answer = engine.exchange(line)
        finally:
            timer.cancel()
            if answer is None:  # also when interrupted: an answer to this line must never meet the next one
                self._end()
        if late.is_set() and answer is None:
            raise Unreachable(f"The offline model gave no answer within {timeout_seconds:g} seconds.")
        return answer

    def _running(self) -> _Process:
        if self._engine is None or self._engine.process.poll() is not None:
            self._end()
            self._engine = _start(self._executable)
            self._stop = weakref.finalize(self, _stop, self._engine, os.getpid())
        return self._engine

    def _end(self) -> None:
        if self._stop:
            self._stop()


class _Process(NamedTuple):
    """The process and our ends of its pipes, as plain descriptors: nothing is buffered that a fork could copy."""

    process: subprocess.Popen[bytes]
    questions: int
    answers: int

    def exchange(self, line: bytes) -> bytes | None:
        """Write a line and read one; None when the process has ended."""
        answer = b""
        try:
            while line:
                line = line[os.write(self.questions, line) :]
            while not answer.endswith(b"\n"):
                piece = os.read(self.answers, 65_536)
                if not piece:
                    return None
                answer += piece
        except OSError:
            return None
        return answer


def _give_up(late: threading.Event, process: subprocess.Popen[bytes]) -> None:
    late.set()
    process.kill()


def _start(executable: str) -> _Process:
    path = [str(Path(entry).absolute()) for entry in sys.path]
    command = [executable, "-I", "-c", _START.format(__spec__.name), json.dumps(path), str(os.getpid())]
    their_questions, questions = os.pipe()
    answers, their_answers = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 the command is this interpreter and code of our own
            command,
            stdin=their_questions,
            stdout=their_answers,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
        )
    except OSError as error:
        _close(questions, answers)
        raise Unreachable(f"The offline model's process cannot be started: {error}") from error
    finally:
        _close(their_questions, their_answers)
    return _Process(process, questions, answers)


def _environment() -> dict[str, str]:
    """No key of the host, no home to write to, and both of the engine's switches against being counted."""
    kept = {name: value for name, value in settings.environment().items() if name in ("LANG", "LC_ALL", "SYSTEMROOT")}
    return {**kept, "PATH": os.defpath, "HOME": os.devnull, "NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}


def _stop(engine: _Process, host: int) -> None:
    """Close our ends of the pipes and, in the process that started it, end the engine's process."""
    _close(engine.questions, engine.answers)
    if os.getpid() == host:
        engine.process.kill()
        engine.process.wait()
    else:
        engine.process.returncode = 0  # another process's child: not ours to wait for, nor to be warned about


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def replies(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """For each question, a JSON line, the engine's envelope or the error it raised.

    Reading the tools is the larger part of the work, so the engine keeps them until others come.
    """
    engine: Any = None
    held: object = None
    for line in lines:
        question = json.loads(line)
        try:
            setting = (question["tools"], question["dated"])
            if engine is None or setting != held:
                engine, held = _engine(*setting), setting
            yield {"envelope": engine.complete(question["text"], question["max_tokens"])}
        except (ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            engine = None
            yield {"error": f"{type(error).__name__}: {error}"}


def _engine(tools: str, dated: object) -> Any:
    import needle

    return needle.Needle(tools=tools, auto_date=bool(dated), stateless=True)


class Engine:  # pragma: no cover - the tests watch it from outside, where it is a process of its own
    """The process itself."""

    @classmethod
    def serve(cls, host: int) -> None:
        """Answer each JSON line on standard input with one on standard output, until `host` ends."""
        network = "none" if cls._leave_network() else "open"
        threading.Thread(target=cls._end_with, args=(host,), daemon=True).start()
        answers = os.dup(1)
        os.dup2(2, 1)  # what the engine itself may print goes nowhere, not between the answers
        for reply in replies(iter(sys.stdin.buffer.readline, b"")):
            line = json.dumps({**reply, "network": network}).encode() + b"\n"
            while line:
                line = line[os.write(answers, line) :]

    @staticmethod
    def _leave_network() -> bool:
        """Move into a network of our own that leads nowhere, and look whether that succeeded."""
        import ctypes
        import socket

        new_user, new_network = 0x10000000, 0x40000000
        try:
            ctypes.CDLL(None).unshare(new_user | new_network)
            return [name for _, name in socket.if_nameindex()] == ["lo"]
        except (AttributeError, OSError, TypeError):
            return False

    @staticmethod
    def _end_with(host: int) -> None:
        """End this process within a second of its host's end, even while the engine computes."""
        while os.getppid() == host:
            time.sleep(1)
        os._exit(0)
