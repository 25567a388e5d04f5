"""Starts, shares and ends the processes that run llama.cpp's HTTP server, one for each model file and its options."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, MissingExtra, Unreachable
from agentkit.text_encoding import split_lines

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0}.worker import serve; serve()"
_VARIABLES = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR")
_VARIABLE_PREFIXES = ("CUDA_", "GGML_", "HIP_", "OMP_", "ROCR_")
_CAUSE = "error loading model: "
_MAX_CAUSE_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of a server: the model file and how it is run. None leaves an option to llama.cpp."""

    path: str
    context_tokens: int
    threads: int | None = None
    gpu_layers: int | None = None


class ServerAddress(NamedTuple):
    """The address of a running server, its key, and whether the model's chat template supports tools."""

    url: str
    api_key: str
    supports_tools: bool


class ServerProcess:
    """Manages the process of one server: starts it on first use, and again if it died.

    The process ends when this object is collected and when its host exits. A forked process must create its own.
    `executable` is the Python to run, by default the current one.
    """

    def __init__(self, options: ServerOptions, executable: str = sys.executable) -> None:
        self._options, self._executable = options, executable
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stop: weakref.finalize[..., ServerProcess] | None = None
        self._address: ServerAddress | None = None

    def address(self) -> ServerAddress:
        """The address of the server, which is started if it is not running.

        Raises MissingExtra without the `local` extra, ConfigError if llama.cpp cannot load the file, Unreachable if
        the process cannot be started.
        """
        with self._lock:
            if self._address is None or self._process is None or self._process.poll() is not None:
                self._end()
                self._address = self._started()
            return self._address

    def _end(self) -> None:
        self._address = None
        if self._stop:
            self._stop()

    def _started(self) -> ServerAddress:
        if not installed():
            raise MissingExtra("local", "A model in a GGUF file")
        api_key = secrets.token_urlsafe(32)
        question = json.dumps({**asdict(self._options), "api_key": api_key}).encode() + b"\n"
        with tempfile.TemporaryFile() as log:
            self._process = _spawn(self._executable, log)
            self._stop = weakref.finalize(self, _stop, self._process, os.getpid())
            reply: dict[str, Any] = {}
            try:
                reply = _exchange(self._process, question)
            finally:
                if not reply:
                    self._end()
            if not reply:
                log.seek(0)
                raise ConfigError(_load_error(self._options.path, log.read().decode(errors="replace")))
        return ServerAddress(reply["url"], api_key, reply["supports_tools"])


def installed() -> bool:
    """Whether the `local` extra is installed; does not load llama.cpp."""
    return find_spec("xllamacpp") is not None


def _spawn(executable: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    path = [str(Path(entry).absolute()) for entry in sys.path]
    command = [executable, "-I", "-c", _START.format(__package__), json.dumps(path)]
    try:
        return subprocess.Popen(  # noqa: S603 the command is this interpreter with a fixed script
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=_environment(),
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise Unreachable(f"The process of llama.cpp cannot be started: {error}") from error


def _environment() -> dict[str, str]:
    """An environment without the host's keys, proxies or home, with the variables that select graphics cards."""
    return {
        "PATH": os.defpath,
        "HOME": os.devnull,
        **{
            name: value
            for name, value in settings.environment().items()
            if name in _VARIABLES or name.startswith(_VARIABLE_PREFIXES)
        },
    }


def _exchange(process: subprocess.Popen[bytes], question: bytes) -> dict[str, Any]:
    """The reply to the question; empty if the process ended without one."""
    questions, answers = _pipes(process)
    with contextlib.suppress(BrokenPipeError):
        questions.write(question)
    reply: dict[str, Any] = json.loads(answers.readline() or b"{}")
    return reply


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """The host's ends of the pipes of a process that was started with both."""
    return cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)


def _load_error(path: str, log: str) -> str:
    """The error for a file that llama.cpp does not load, with the cause from its log."""
    lines = [line for line in split_lines(log) if line.strip()]
    last = lines[-1] if lines else "the process ended without a message"
    cause = next((line.partition(_CAUSE)[2] for line in lines if _CAUSE in line), last)
    return (
        f"llama.cpp cannot load {path!r}: {cause[:_MAX_CAUSE_CHARS]}. Download the file again, choose a smaller model "
        "if memory is short, or install a newer xllamacpp if the model is newer than it."
    )


def _stop(process: subprocess.Popen[bytes], host: int) -> None:
    """Close the host's ends of the pipes and, in the process that started it, terminate the server."""
    for pipe in _pipes(process):
        pipe.close()
    if os.getpid() == host:
        process.kill()
        process.wait()
    else:
        process.returncode = 0  # the child of another process: do not wait for it, and avoid the warning


# A loaded model takes as much memory as its file, so that the LLMs of a process with the same options share one server,
# which ends when the last LLM releases it. A forked process finds no server under its id and starts its own.
_SERVERS: weakref.WeakValueDictionary[tuple[int, ServerOptions], ServerProcess] = weakref.WeakValueDictionary()
_LOCKS: dict[int, threading.Lock] = {}


def shared_server(options: ServerOptions) -> ServerProcess:
    """The server of this process with these options."""
    process = os.getpid()
    with _LOCKS.setdefault(process, threading.Lock()):
        server = _SERVERS.get((process, options))
        if server is None:
            server = _SERVERS[process, options] = ServerProcess(options)
        return server
