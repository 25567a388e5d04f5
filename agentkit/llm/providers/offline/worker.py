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
    """Manages the engine's process: starts it on first use, and again if it died.

    Requests are processed one at a time. A forked process must create its own instance. `executable` is the Python to
    run, by default the current one.
    """

    def __init__(self, executable: str = sys.executable) -> None:
        self._executable = executable
        self._lock = threading.Lock()
        self._engine: _ProcessPipes | None = None
        self._stop: weakref.finalize[..., EngineProcess] | None = None

    def ask(self, question: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """The engine's reply, with the keys `envelope` and `network`.

        Raises Unreachable after the timeout or if the process dies twice, BadResponse if the engine fails.
        """
        line = json.dumps(question).encode() + b"\n"
        if not self._lock.acquire(timeout=timeout_seconds):
            raise Unreachable(f"The offline model was busy with other requests for {timeout_seconds:g} seconds.")
        try:
            answer = self._send_line(line, timeout_seconds) or self._send_line(line, timeout_seconds)
        finally:
            self._lock.release()
        if answer is None:
            raise Unreachable("The offline model's process died twice while it was answering.")
        reply: dict[str, Any] = json.loads(answer)
        if "error" in reply:
            raise BadResponse(f"The offline model failed: {reply['error']}")
        return reply

    def _send_line(self, line: bytes, timeout_seconds: float) -> bytes | None:
        """The reply to one line, or None if the process died."""
        engine = self._running_process()
        late = threading.Event()
        timer = threading.Timer(timeout_seconds, _kill_late, (late, engine.process))
        timer.daemon = True
        timer.start()
        answer = None
        try:
            answer = engine.exchange(line)
        finally:
            timer.cancel()
            if answer is None:  # also when interrupted: a late reply must not be read as the reply to the next line
                self._end()
        if late.is_set() and answer is None:
            raise Unreachable(f"The offline model did not answer within {timeout_seconds:g} seconds.")
        return answer

    def _running_process(self) -> _ProcessPipes:
        if self._engine is None or self._engine.process.poll() is not None:
            self._end()
            self._engine = _start(self._executable)
            self._stop = weakref.finalize(self, _stop, self._engine, os.getpid())
        return self._engine

    def _end(self) -> None:
        if self._stop:
            self._stop()


class _ProcessPipes(NamedTuple):
    """The process and the host's ends of its pipes, as plain descriptors: a fork must not copy buffered data."""

    process: subprocess.Popen[bytes]
    questions: int
    answers: int

    def exchange(self, line: bytes) -> bytes | None:
        """Write a line and read one; None if the process has ended."""
        answer = b""
        try:
            while line:
                line = line[os.write(self.questions, line) :]
            while not answer.endswith(b"\n"):
                chunk = os.read(self.answers, 65_536)
                if not chunk:
                    return None
                answer += chunk
        except OSError:
            return None
        return answer


def _kill_late(late: threading.Event, process: subprocess.Popen[bytes]) -> None:
    late.set()
    process.kill()


def _start(executable: str) -> _ProcessPipes:
    path = [str(Path(entry).absolute()) for entry in sys.path]
    command = [executable, "-I", "-c", _START.format(__spec__.name), json.dumps(path), str(os.getpid())]
    child_questions, questions = os.pipe()
    answers, child_answers = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 the command is this interpreter with a fixed script
            command,
            stdin=child_questions,
            stdout=child_answers,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
        )
    except OSError as error:
        _close(questions, answers)
        raise Unreachable(f"The offline model's process cannot be started: {error}") from error
    finally:
        _close(child_questions, child_answers)
    return _ProcessPipes(process, questions, answers)


def _environment() -> dict[str, str]:
    """An environment without the host's keys or a writable home, with both telemetry switches of the engine off."""
    inherited = {
        name: value for name, value in settings.environment().items() if name in ("LANG", "LC_ALL", "SYSTEMROOT")
    }
    return {**inherited, "PATH": os.defpath, "HOME": os.devnull, "NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}


def _stop(engine: _ProcessPipes, host: int) -> None:
    """Close the host's ends of the pipes and, in the process that started it, terminate the engine."""
    _close(engine.questions, engine.answers)
    if os.getpid() == host:
        engine.process.kill()
        engine.process.wait()
    else:
        engine.process.returncode = 0  # the child of another process: do not wait for it, and avoid the warning


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def engine_replies(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """For each question, a line of JSON, yield the engine's envelope or the error it raised.

    Loading the tools is the larger part of the work, so that the engine is reused until they change.
    """
    engine: Any = None
    loaded_setting: object = None
    for line in lines:
        question = json.loads(line)
        try:
            setting = (question["tools"], question["dated"])
            if engine is None or setting != loaded_setting:
                engine, loaded_setting = _engine(*setting), setting
            yield {"envelope": engine.complete(question["text"], question["max_tokens"])}
        except (ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            engine = None
            yield {"error": f"{type(error).__name__}: {error}"}


def _engine(tools: str, dated: object) -> Any:
    import needle

    return needle.Needle(tools=tools, auto_date=bool(dated), stateless=True)


class Engine:  # pragma: no cover - tested from outside, as a separate process
    """The entry point of the worker process."""

    @classmethod
    def serve(cls, host: int) -> None:
        """Answer each line of JSON on standard input with one on standard output, until `host` exits."""
        network = "none" if cls._leave_network() else "open"
        threading.Thread(target=cls._exit_with_host, args=(host,), daemon=True).start()
        answers = os.dup(1)
        os.dup2(2, 1)  # output that the engine prints itself must not mix with the replies
        for reply in engine_replies(iter(sys.stdin.buffer.readline, b"")):
            line = json.dumps({**reply, "network": network}).encode() + b"\n"
            while line:
                line = line[os.write(answers, line) :]

    @staticmethod
    def _leave_network() -> bool:
        """Move into a network namespace with a loopback interface only, and return whether this succeeded."""
        import ctypes
        import socket

        new_user, new_network = 0x10000000, 0x40000000
        try:
            ctypes.CDLL(None).unshare(new_user | new_network)
            return [name for _, name in socket.if_nameindex()] == ["lo"]
        except (AttributeError, OSError, TypeError):
            return False

    @staticmethod
    def _exit_with_host(host: int) -> None:
        """Exit within a second of the host's exit, even during a computation."""
        while os.getppid() == host:
            time.sleep(1)
        os._exit(0)
