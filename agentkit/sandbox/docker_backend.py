"""Docker containers as a sandbox, for machines whose kernel does not provide one.

A container has a read-only root, no capabilities and, by default, no network. It sees the workspace at its own path,
with the covers and read-only mounts of the kernel sandbox. The daemon must run on this machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentkit.errors import MissingExtra, SandboxError
from agentkit.sandbox.isolation import DOCKER, HOST_NAME, RESOURCE_LIMITS, SECCOMP
from agentkit.sandbox.mounts import SCRATCH, Mount
from agentkit.sandbox.protocol import make_cover
from agentkit.sandbox.watchdog import ProcessLimits, RemoteProgram

DEFAULT_IMAGE = "python:3.12"
"""The default image of containers: an image needs bash, and Python 3.11 or newer."""

_MECHANISMS = frozenset({DOCKER, "pid", "ipc", "uts", "mount", SECCOMP, RESOURCE_LIMITS})
_LOCAL = re.compile(r"unix:|npipe:|http\+unix:|(tcp|https?)://(127\.[\d.]+|localhost|\[::1\])[:/]")
_API_SECONDS, _JOIN_SECONDS = 20, 5.0
_WAITING_COMMAND = 'read -r _ && exec "$@"'
"""The script that reads a line of input as permission to start, and then executes the program."""


class Container(NamedTuple):
    """The configuration of a container: its command, its mounts, its environment and its limits."""

    command: Sequence[str]
    folder: str
    mounts: Sequence[Mount]
    environment: Mapping[str, str]
    limits: ProcessLimits
    network: bool = False
    image: str = DEFAULT_IMAGE
    reads: bool = False
    """Whether the program receives the input after the first line; otherwise it has no input."""


class DockerProgram(RemoteProgram):
    """A program in a container: two pipes receive its outputs, and `returncode` is set when it has ended."""

    def __init__(self, container: Container, scratch: str) -> None:
        """Start the container; its program waits for the first line of `send`. Raises SandboxError."""
        super().__init__()
        self._pipes = [*os.pipe(), *os.pipe()]
        self.stdout, out, self.stderr, err = self._pipes
        self._name = ""
        with _sandbox_errors(f"The container of {container.image!r} cannot be started"):
            self._api = _client().api
            self._name = self._api.create_container(**_settings(container, scratch, self._api))["Id"]
            streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._socket = self._api.attach_socket(self._name, streams)
            self._connection = getattr(self._socket, "_sock", self._socket)
            self._api.start(self._name)
        self._reader = threading.Thread(target=self._read, args=(out, err), name="agentkit-docker", daemon=True)
        self._reader.start()

    def send(self, data: bytes) -> None:
        """Write to the standard input; the first line starts the program."""
        with contextlib.suppress(OSError):
            self._connection.sendall(data)

    def end(self) -> None:
        """Remove the container with all of its processes, and wait for the reader of its outputs."""
        with contextlib.suppress(Exception):  # the daemon may have exited
            self._api.remove_container(self._name, v=True, force=True)
        self._reader.join(_JOIN_SECONDS)

    def close(self) -> None:
        """Remove the container, and close the pipes."""
        self.end()
        self._socket.close()
        self._connection.close()
        os.close(self.stdout)
        os.close(self.stderr)

    def _read(self, out: int, err: int) -> None:
        from docker.utils.socket import frames_iter

        try:
            with contextlib.suppress(OSError, ValueError):
                for stream, data in frames_iter(self._socket, tty=False):
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(out if stream == 1 else err, rest) :]
            with contextlib.suppress(Exception):  # killed from outside, or the daemon has exited
                self.returncode = int(self._api.wait(self._name, timeout=_API_SECONDS)["StatusCode"])
        finally:
            os.close(out)
            os.close(err)
            if self.returncode is None:
                self.returncode = -9


def mechanisms(*, network: bool) -> frozenset[str]:
    """The mechanisms of a container. Raises SandboxError, with the reason, if no daemon answers."""
    with _sandbox_errors("Docker cannot be used"):
        _client().ping()
    return _MECHANISMS if network else _MECHANISMS | {"net"}


@contextlib.contextmanager
def start_container(container: Container, scratch: str) -> Iterator[DockerProgram]:
    """Run a container for the duration of the block."""
    with contextlib.closing(DockerProgram(container, scratch)) as program:
        yield program


@functools.cache
def _client() -> Any:
    """Create the client of the daemon that the environment names. Raises SandboxError."""
    try:
        import docker
    except ImportError as error:
        raise SandboxError(str(MissingExtra("docker", "The Docker sandbox"))) from error
    arguments = docker.utils.kwargs_from_env()
    where = arguments.get("base_url") or ""
    if where and not _LOCAL.match(where):
        raise SandboxError(f"The Docker daemon at {where} runs on another machine, which cannot access the workspace.")
    scheme, _, path = (where or docker.constants.DEFAULT_UNIX_SOCKET).partition("://")
    if scheme.endswith("unix"):
        # The package leaks its socket if no daemon listens.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
    return docker.DockerClient(timeout=_API_SECONDS, **arguments)


def forget() -> None:
    """Close the connection; the next use connects to the daemon that the environment names at that time."""
    if _client.cache_info().currsize:
        _client().close()
    _client.cache_clear()


def _settings(container: Container, scratch: str, api: Any) -> dict[str, Any]:
    from docker.types import Ulimit

    limits = container.limits
    ulimits = {"core": 0, "fsize": limits.file_bytes, "nofile": limits.open_files}
    host = api.create_host_config(
        mounts=list(_docker_mounts(container.mounts, scratch)),
        network_mode="bridge" if container.network else "none",
        read_only=True,
        tmpfs={SCRATCH: f"size={limits.scratch_bytes},mode=1777"},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        mem_limit=limits.memory_bytes,
        memswap_limit=limits.memory_bytes,
        pids_limit=limits.processes,
        ulimits=[Ulimit(name=name, soft=maximum, hard=maximum) for name, maximum in ulimits.items()],
        init=True,
    )
    user = f"{os.geteuid()}:{os.getegid()}" if hasattr(os, "geteuid") else None
    gate = _WAITING_COMMAND if container.reads else f"{_WAITING_COMMAND} </dev/null"
    return {
        "image": container.image,
        "command": ["bash", "--noprofile", "--norc", "-c", gate, "bash", *container.command],
        "entrypoint": [],
        "environment": dict(container.environment),
        "working_dir": container.folder,
        "hostname": HOST_NAME,
        "user": user,
        "stdin_open": True,
        "host_config": host,
        "labels": {"agentkit": "sandbox"},
    }


def _docker_mounts(mounts: Sequence[Mount], scratch: str) -> Iterator[Any]:
    """Convert mounts to those of Docker; covers are created in the folder `scratch`."""
    from docker.types import Mount as DockerMount

    for number, (kind, path, source) in enumerate(mounts):
        if kind == "tmpfs":
            yield DockerMount(path, None, type="tmpfs", tmpfs_size=int(source), tmpfs_mode=0o555)
        elif kind == "cover":
            make_cover(f"{scratch}/docker-{number}", source)
            yield DockerMount(path, f"{scratch}/docker-{number}", type="bind", read_only=True)
        elif kind in ("ro", "rw"):
            yield DockerMount(path, source, type="bind", read_only=kind == "ro")


@contextlib.contextmanager
def _sandbox_errors(what: str) -> Iterator[None]:
    """Translate errors of the package and of the connection."""
    try:
        yield
    except SandboxError:
        raise
    except Exception as error:
        words = " ".join(str(getattr(error, "explanation", None) or error).split())
        raise SandboxError(f"{what}: {words}") from error
