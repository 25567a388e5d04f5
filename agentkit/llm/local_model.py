"""The provider of models in GGUF files, and the processes that run llama.cpp's HTTP server for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, MissingExtra, Rejected, Unreachable
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.pipeline import IOCall, Stage, StageSteps
from agentkit.llm.remote_model import RemoteModel
from agentkit.messages import Request, Response
from agentkit.recording import is_replaying
from agentkit.settings import Secret
from agentkit.text_encoding import split_lines
from agentkit.usage import Price, is_whole

_MAGIC = b"GGUF"


def model_path(name: str) -> Path:
    """The absolute path of a model file."""
    return Path(os.path.expanduser(name)).absolute()  # noqa: PTH111 Path.expanduser raises without a home


def check_model_file(path: Path) -> None:
    """Raise ConfigError unless the file can be read and begins as GGUF files do."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigError(
            f"The model file {str(path)!r} cannot be read: {error.strerror}. Pass the path of a GGUF file, as in "
            "LLM('local', model='model.gguf')."
        ) from error
    if start != _MAGIC:
        raise ConfigError(
            f"{str(path)!r} is not a GGUF file: it begins with {start!r}. Download the model as a .gguf file, or "
            "convert it with llama.cpp's convert_hf_to_gguf.py."
        )


CONTEXT_TOKENS = 8_192
"""Default size of the context."""

_OPTIONS = {"context_tokens": 1, "threads": 1, "gpu_layers": 0}
"""The settings of the server, with their smallest values."""

_OTHER_NAMES = {
    "n_ctx": "context_tokens",
    "num_ctx": "context_tokens",
    "ctx_size": "context_tokens",
    "n_threads": "threads",
    "num_thread": "threads",
    "n_gpu_layers": "gpu_layers",
    "num_gpu": "gpu_layers",
}
"""Names of these settings in llama.cpp, llama-cpp-python and Ollama."""

_HEADERS = {"Connection": "close"}
"""llama.cpp closes idle connections after a few seconds; a new one to this machine takes no time."""


class _RunningServer(NamedTuple):
    """A server that is in use, its address, and the provider that sends requests to it."""

    server: ServerProcess
    address: ServerAddress
    remote: RemoteModel


class LocalModel(Stage):
    """A model in a GGUF file. Each combination of the settings in `_OPTIONS` has a server, started on first use.

    Raises ConfigError if the file cannot be read or is not a GGUF file.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, max_retries: int, price: Price | None) -> None:
        self._endpoint, self._path = endpoint, model_path(endpoint.model)
        if not is_replaying():
            check_model_file(self._path)
        self._arguments = timeout_seconds, max_retries, price
        self._running: dict[tuple[int, ServerOptions], _RunningServer] = {}

    @property
    def adjustments(self) -> tuple[str, ...]:
        """The names of the adjustments made to requests because the server rejected the original form."""
        return tuple(dict.fromkeys(name for each in self._running.values() for name in each.remote.adjustments))

    def close(self) -> None:
        """Close the blocking connections and release the servers; a later request starts them again."""
        for each in self._released():
            each.remote.close()

    async def aclose(self) -> None:
        """Async version of `close`."""
        for each in self._released():
            await each.remote.aclose()

    def steps(self, request: Request, *, streaming: bool, has_fallback: bool = False) -> StageSteps[Response]:
        """The steps that start the server if needed and send it the request."""
        options = self._options(request.settings)
        start = partial(self._started, options)
        running: _RunningServer = yield IOCall(start, partial(asyncio.to_thread, start))
        if request.tools and not running.address.supports_tools:
            raise Rejected(
                f"The chat template of {self._path.name} does not support tools. Pass tool_calling='text' or 'auto', "
                "or use a model that is trained for tool calling.",
                status=400,
            )
        settings = {name: value for name, value in request.settings.items() if name not in _OPTIONS}
        own = replace(request, settings=settings)
        return (yield from running.remote.steps(own, streaming=streaming, has_fallback=has_fallback))

    def _released(self) -> list[_RunningServer]:
        released = list(self._running.values())
        self._running.clear()
        return released

    def _options(self, settings: Mapping[str, Any]) -> ServerOptions:
        """The options of the server in the settings. Raises ConfigError for wrong values and for names of others."""
        for name, known in _OTHER_NAMES.items():
            if name in settings:
                raise ConfigError(f"The provider local has no setting {name!r}. Write {known}={settings[name]!r:.40}.")
        given = {name: settings[name] for name in _OPTIONS if name in settings}
        for name, value in given.items():
            if not is_whole(value, _OPTIONS[name]):
                raise ConfigError(f"{name}= takes a whole number, {_OPTIONS[name]} or more. Got {value!r:.200}.")
        return ServerOptions(path=str(self._path), **{"context_tokens": CONTEXT_TOKENS, **given})

    def _started(self, options: ServerOptions) -> _RunningServer:
        """The running server with these options. Raises MissingExtra and ConfigError if it cannot be started."""
        key = os.getpid(), options
        known = self._running.get(key)
        server = known.server if known else shared_server(options)
        address = server.address()
        if known is None or known.address != address:
            endpoint = replace(
                self._endpoint,
                base_url=address.url,
                api_key=Secret(address.api_key),
                headers=_HEADERS,
                is_direct=True,
            )
            known = self._running[key] = _RunningServer(server, address, RemoteModel(endpoint, *self._arguments))
        return known


_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0}.local_worker import serve; serve()"
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
    questions, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    with contextlib.suppress(BrokenPipeError):
        questions.write(question)
    reply: dict[str, Any] = json.loads(answers.readline() or b"{}")
    return reply


def _load_error(path: str, log: str) -> str:
    """The error for a file that llama.cpp does not load, with the cause from its log."""
    lines = [line for line in split_lines(log) if line.strip()]
    last = lines[-1] if lines else "the process ended without a message"
    cause = next((line.partition(_CAUSE)[2] for line in lines if _CAUSE in line), last)
    return (
        f"llama.cpp cannot load {path!r}: {cause[:_MAX_CAUSE_CHARS]}. Download the file again; if memory is short, use "
        "a smaller model; if the model is newer than the installed xllamacpp, upgrade xllamacpp."
    )


def _stop(process: subprocess.Popen[bytes], host: int) -> None:
    """Close the host's ends of the pipes and, in the process that started it, terminate the server."""
    for pipe in (process.stdin, process.stdout):
        cast("IO[bytes]", pipe).close()
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
