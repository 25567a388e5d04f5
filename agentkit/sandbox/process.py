"""Execution of shell commands in the strongest available isolation, within limits."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple, Protocol

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.errors import SandboxError
from agentkit.redaction import value_redactor
from agentkit.sandbox import bubblewrap, docker_backend
from agentkit.sandbox.created_settings import NOTHING_CREATED, Created, remove_created_settings, small_text
from agentkit.sandbox.git_access import Git, is_git_settings, repository_of
from agentkit.sandbox.isolation import (
    BUBBLEWRAP,
    COMMAND_NEEDS,
    DOCKER,
    LANDLOCK,
    MECHANISMS,
    RESOURCE_LIMITS,
    Boundary,
    check_backend,
    check_isolation,
    check_platform,
    uses_docker,
)
from agentkit.sandbox.launcher import start_isolated
from agentkit.sandbox.mounts import SCRATCH, MountPlan, command_mounts, with_databases
from agentkit.sandbox.process_tree import process_count
from agentkit.sandbox.secret_search import NOTHING_FOUND, Survey
from agentkit.sandbox.watchdog import Cancellation, Capture, ProcessLimits, Program, attend

SHELL_LIMITS = ProcessLimits()
"""Default limits of a command."""

_INHERITED = ("PATH", "LANG", "TZ", "TERM")
_SAFE_GIT_SETTINGS = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
"""For weak boundaries: any folder can look like a repository, and git runs programs that its settings name."""

_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.01
_MOUNT_POINT_MODE = 0o444
_SYNTAX_CHECK_SECONDS = 2.0
_MAX_APPEARED, _MAX_VALUES, _SHORTEST_VALUE = 100, 300, 8
_MAX_PLAIN_CHARS = 1_000
_RESERVED = r"(?:if|then|elif|else|fi|for|in|do|done|case|esac|while|until|select|function|coproc|time)(?![^\s;|&])"
_WORD = r"""(?:[\w./=:,@%+-]|'[^'\n]*'|"[^"$`\\!\n]*")++"""
_SIMPLE = rf"(?!{_RESERVED}){_WORD}(?: ++{_WORD})*+"
PLAIN_COMMAND = re.compile(rf"{_SIMPLE}(?: *+(?:\|\|?|&&|;) *+{_SIMPLE})*+", re.ASCII)
"""Commands of plain and quoted words, which bash can always parse."""
_ULIMIT_OPTIONS = {"CORE": ("c", 1), "FSIZE": ("f", 1024), "NOFILE": ("n", 1), "DATA": ("d", 1024), "NPROC": ("u", 1)}
"""The letter and the unit, in bytes, of a kernel's limit in the shell's `ulimit`."""


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """The outcome of a command: its status (ok, timed_out, failed), output and boundary.

    `created` are settings made by the command that other programs would run later: they were set aside, unless
    they were permitted. `incomplete_because` is the reason if not all secrets of the workspace were found and hidden.
    `appeared` are files with secrets that were created or replaced while it ran, so that it could read them; their
    values are removed from the output.
    `return_code` is None if the command was ended from outside; then `error` gives the reason. For a command that was
    ended by a signal it is 128 plus the number of the signal. `output` is stdout and stderr together, in the order in
    which they were written.
    """

    status: str
    return_code: int | None
    output: str
    stdout: str
    stderr: str
    truncated: bool
    seconds: float
    boundary: Boundary
    error: str = ""
    created: Created = NOTHING_CREATED
    incomplete_because: str = ""
    appeared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The confinement of a command; with `writable=False` the workspace is read-only.

    `network=True` gives it the network of its host. `available` are the mechanisms that may be used; a restricted set
    simulates a machine without the others. `hidden` are files and folders that it sees empty, if a private root is
    possible. `backend` is the sandbox, "kernel" or "docker" (a container of `image`); the default is set by
    `AGENTKIT_SANDBOX`. Raises ConfigError for an unknown isolation or backend.
    """

    isolation: str = "auto"
    network: bool = False
    writable: bool = True
    limits: ProcessLimits = SHELL_LIMITS
    available: frozenset[str] = MECHANISMS
    hidden: tuple[str, ...] = ()
    backend: str = ""
    image: str = docker_backend.DEFAULT_IMAGE

    def __post_init__(self) -> None:
        check_isolation(self.isolation)
        if self.backend:
            check_backend(self.backend)

    @property
    def in_docker(self) -> bool:
        """Whether commands run in containers. Raises SandboxError if the environment names an unknown backend."""
        return self.isolation != "off" and uses_docker(self.backend)

    @property
    def requested(self) -> frozenset[str]:
        """The mechanisms to set up."""
        if self.isolation == "off":
            return frozenset()
        return self.available - {"net"} if self.network else self.available

    def boundary(self, mechanisms: frozenset[str]) -> Boundary:
        """The boundary of these mechanisms, with those that this confinement requires."""
        if DOCKER in mechanisms:
            return Boundary(mechanisms, frozenset({DOCKER}))
        return Boundary(mechanisms, COMMAND_NEEDS - {"net"} if self.network else COMMAND_NEEDS)


DEFAULT = Confinement()


class _Job(NamedTuple):
    command: str
    folder: str
    scratch: str
    confinement: Confinement
    git: Git
    found: Survey = NOTHING_FOUND


class _Running(NamedTuple):
    """A shell that waits behind its boundary; `go` lets it run the command."""

    program: Program
    stdout: int
    stderr: int
    boundary: Boundary
    go: Callable[[], None]


class SandboxBackend(Protocol):
    """Starts a command behind a boundary, with the workspace of the job, and makes it wait."""

    def __call__(self, job: _Job, boundary: Boundary) -> AbstractContextManager[_Running]:
        """Provide the waiting command for the duration of a block, with its actual boundary."""


def _permit_nothing(_: str) -> bool:
    return False


def run_command(
    command: str,
    folder: str,
    confinement: Confinement = DEFAULT,
    cancellation: Cancellation | None = None,
    *,
    permitted: Callable[[str], bool] = _permit_nothing,
    searched: bool = False,
) -> ProcessOutcome:
    """Run a command line with bash in `folder`, its workspace, and wait for it.

    It has no input and no secrets in its environment, and every process that it starts ends with it. `permitted`
    decides by path which settings that other programs run later it may create in the workspace. With `searched`,
    it is not run if the workspace cannot be searched for secrets. Raises SandboxError if the boundary reported by
    `command_boundary` cannot be set up for the workspace, and for text that cannot be passed to a program.
    """
    # Raise SandboxError for text that cannot be passed as an argument.
    try:
        is_valid = b"\0" not in os.fsencode(command)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise SandboxError("The command contains a NUL character or a lone surrogate, so it was not run.")
    boundary = command_boundary(confinement)
    boundary.require(confinement.isolation)
    with _commands.count_running():
        job, outcome = _run_attempts(
            (command, os.path.realpath(folder), confinement), boundary, cancellation, searched=searched
        )
        after = job.git.search()
        outcome = _redact_new_secrets(outcome, sorted(after.appeared(job.found)), job.folder)
        if not confinement.writable:
            return replace(outcome, incomplete_because=job.found.incomplete_because)
        created = remove_created_settings(job.folder, job.found, after, permitted, outside=job.git.outside)
    return replace(
        outcome, created=created, incomplete_because=job.found.incomplete_because or after.incomplete_because
    )


def _redact_new_secrets(outcome: ProcessOutcome, appeared: list[str], folder: str) -> ProcessOutcome:
    """Redact the values of these files, which were not hidden from the command because they appeared later."""
    values: dict[str, None] = {}
    for line in "\n".join(small_text(path) for path in appeared[:_MAX_APPEARED]).split("\n"):
        parts = (part.strip(" \t\r\"',;") for part in (re.split("[=:]", line, maxsplit=1)[-1], line))
        values |= dict.fromkeys(next(([part] for part in parts if len(part) >= _SHORTEST_VALUE), []))
    clean = value_redactor(tuple(values)[:_MAX_VALUES])
    names = tuple(path.removeprefix(f"{folder}/") for path in appeared)
    if values:
        output, stdout, stderr = map(clean, (outcome.output, outcome.stdout, outcome.stderr))
        outcome = replace(outcome, output=output, stdout=stdout, stderr=stderr)
    return replace(outcome, appeared=names) if names else outcome


def _run_attempts(
    task: tuple[str, str, Confinement], boundary: Boundary, cancellation: Cancellation | None, *, searched: bool
) -> tuple[_Job, ProcessOutcome]:
    """Search the workspace and run the command; repeat both if the found files change before the command starts."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt)
        others = _commands.watch()
        with _prepare(*task) as job, contextlib.suppress(_SecretsMoved):
            if searched and job.found.incomplete_because:
                reason = f"secrets in the workspace may stay readable, because {job.found.incomplete_because}"
                raise SandboxError(f"The command was not run: {reason}.")
            return job, _run_once(job, boundary, cancellation, others)
    raise SandboxError(
        "The sandbox cannot be started: files that must be hidden are being moved or replaced. Try again later."
    )


@contextlib.contextmanager
def _prepare(command: str, folder: str, confinement: Confinement) -> Iterator[_Job]:
    """Prepare an attempt to run a command: git first, since it creates settings, then the search; clean up at the end.

    The scratch folder of an attempt is deleted at its end.
    """
    with tempfile.TemporaryDirectory(prefix="agentkit-") as scratch:
        git = Git(folder, scratch, confinement.writable, repository_of(folder, confinement.hidden))
        try:
            git.prepare(settings.environment())
            yield _Job(command, folder, scratch, confinement, git, git.search())
        finally:
            git.finish()


def _run_once(
    job: _Job, boundary: Boundary, cancellation: Cancellation | None, others: Callable[[], bool]
) -> ProcessOutcome:
    """Run the command once behind this boundary. Raises _SecretsMoved if the files have moved since the search."""
    start = _backend(job, boundary, others=others())
    try:
        with start(job, boundary) as running:
            if "mount" in boundary.mechanisms and not _is_current(job, others=others()):
                raise _SecretsMoved
            running.go()
            return _collect_outcome(running, job.confinement.limits, cancellation)
    except SandboxError:
        if not (job.found.matches(job.git.search()) and job.found.still_holds()):
            raise _SecretsMoved from None
        # Forget the detected boundaries, because one of them could not be set up.
        _mechanisms_of_worker.cache_clear()
        bubblewrap.forget()
        raise


def _is_current(job: _Job, *, others: bool) -> bool:
    """Whether a new search finds the paths that are hidden and locked in this sandbox, and none was replaced."""
    if others:
        return job.found.still_holds(job.git.search)
    return job.found.still_holds() and job.found.matches(job.git.search())


class _Commands:
    """Counts the commands of this process, which may change a workspace while it is searched for another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = self._started = 0

    @contextlib.contextmanager
    def count_running(self) -> Iterator[None]:
        """Count a command while it runs."""
        with self._lock:
            self._running += 1
            self._started += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def watch(self) -> Callable[[], bool]:
        """Return a function that reports whether any other command has run since this call."""
        with self._lock:
            alone, started = self._running == 1, self._started
        return lambda: not alone or self._started != started


_commands = _Commands()


class _SecretsMoved(Exception):
    """Files with secrets were moved or replaced after the search."""


def _backend(job: _Job, boundary: Boundary, *, others: bool) -> SandboxBackend:
    """Choose Docker if configured, and bubblewrap if available, unless our own worker is faster and as strong."""
    if DOCKER in boundary.mechanisms:
        return _start_in_docker
    if BUBBLEWRAP not in boundary.mechanisms:
        return _start_in_worker
    is_large = len(job.found.hidden) + len(job.found.locked) > bubblewrap.MAX_MOUNTS
    return _start_in_worker if (others or is_large) and _worker_suffices(job, boundary) else _start_in_bubblewrap


def _worker_suffices(job: _Job, boundary: Boundary) -> bool:
    """Whether our own worker can set up all required mechanisms."""
    return boundary.required & boundary.mechanisms <= _mechanisms_of_worker(job.confinement.requested - {BUBBLEWRAP})


def command_boundary(confinement: Confinement = DEFAULT) -> Boundary:
    """The boundary of commands on this machine, detected once by running a harmless command behind it."""
    if confinement.in_docker:
        return confinement.boundary(docker_backend.mechanisms(network=confinement.network))
    check_platform()
    wanted = confinement.requested
    return confinement.boundary(bubblewrap.mechanisms(wanted) or _mechanisms_of_worker(wanted))


@functools.cache
def _mechanisms_of_worker(wanted: frozenset[str]) -> frozenset[str]:
    with tempfile.TemporaryDirectory(prefix="agentkit-") as folder:
        git = Git(folder, folder, writable=False, repository=None)
        git.prepare({})
        job = _Job("", folder, folder, Confinement(available=wanted), git)
        worker, mechanisms = start_isolated(_setup(job), wanted)
        worker.close()
    return mechanisms


def _collect_outcome(running: _Running, limits: ProcessLimits, cancellation: Cancellation | None) -> ProcessOutcome:
    started = time.perf_counter()
    combined, stdout, stderr = (Capture(limits.output_bytes) for _ in range(3))
    handlers = {running.stdout: stdout.tee(combined), running.stderr: stderr.tee(combined)}
    stop = attend(running.program, handlers, limits, cancellation)
    return ProcessOutcome(
        status="ok" if stop is None else "timed_out" if stop.word == "timed_out" else "failed",
        return_code=running.program.returncode if stop is None else None,
        output=combined.text(),
        stdout=stdout.text(),
        stderr=stderr.text(),
        truncated=combined.truncated,
        seconds=time.perf_counter() - started,
        boundary=running.boundary,
        error="" if stop is None else stop.sentence,
    )


@contextlib.contextmanager
def _start_in_bubblewrap(job: _Job, boundary: Boundary) -> Iterator[_Running]:
    arguments = [*_mount_plan(job).bubblewrap_arguments(job.scratch), "--chdir", job.folder]
    for name, value in _environment(job, SCRATCH).items():
        arguments += ["--setenv", name, value]
    with contextlib.closing(bubblewrap.Gate()) as gate:
        command, chosen = _with_limits(job, gate.script), boundary.mechanisms - {RESOURCE_LIMITS}
        with bubblewrap.run_in_bubblewrap(command, arguments, chosen, gate.passed) as wrapped:
            try:
                gate.wait(wrapped)
            finally:
                _remove_mount_points(job)
            yield _Running(*wrapped, boundary, gate.open)


def _remove_mount_points(job: _Job) -> None:
    """Remove the empty files, and their folders, that bubblewrap created where hidden files were moved away."""
    for path in job.found.replaced():
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            if status.st_size == 0 and stat.S_IMODE(status.st_mode) == _MOUNT_POINT_MODE:
                os.unlink(path)
                while (path := os.path.dirname(path)).startswith(f"{job.folder}/"):
                    os.rmdir(path)


@contextlib.contextmanager
def _start_in_worker(job: _Job, boundary: Boundary) -> Iterator[_Running]:
    required = boundary.mechanisms & boundary.required
    wanted = job.confinement.requested & {*boundary.mechanisms, LANDLOCK}
    worker, mechanisms = start_isolated(_setup(job), wanted, required)
    with contextlib.closing(worker):
        achieved = job.confinement.boundary(mechanisms)
        home = SCRATCH if "mount" in mechanisms else job.scratch
        variables = _environment(job, home) | ({} if achieved.is_strong else _SAFE_GIT_SETTINGS)
        environment = "\0".join(f"{name}\0{value}" for name, value in variables.items())
        task = {"command": "\0".join(_bash(job.command)), "environment": environment}
        yield _Running(worker.program, worker.stdout, worker.stderr, achieved, lambda: worker.send(task))


@contextlib.contextmanager
def _start_in_docker(job: _Job, boundary: Boundary) -> Iterator[_Running]:
    shared_folders = (job.folder, *job.git.outside, *((job.git.repository.top,) if job.git.repository else ()))
    prefixes = tuple(f"{path}/" for path in shared_folders)
    mounts = [
        mount for mount in _mount_plan(job).mounts if f"{mount[1]}/".startswith(prefixes) or is_git_settings(mount)
    ]
    confinement = job.confinement
    variables = {name: value for name, value in _environment(job, SCRATCH).items() if name != "PATH"}
    command = ("bash", "--noprofile", "--norc", "-c", "--", job.command)
    container = docker_backend.Container(
        command, job.folder, mounts, variables, confinement.limits, confinement.network, confinement.image
    )
    with docker_backend.start_container(container, job.scratch) as program:
        yield _Running(program, program.stdout, program.stderr, boundary, lambda: program.send(b"\n"))


def _setup(job: _Job) -> dict[str, str]:
    """The setup frame of a worker for a command."""
    resources = _resource_limits(job.confinement.limits).items()
    return {
        **_mount_plan(job).texts(),
        "task": "command",
        "folder": job.folder,
        "output_bytes": "0",
        "network": "yes" if job.confinement.network else "",
        "resources": "\0".join(f"{name}={amount}" for name, amount in resources),
    }


def _mount_plan(job: _Job) -> MountPlan:
    confinement = job.confinement
    scratch_bytes = confinement.limits.scratch_bytes
    view = command_mounts(
        job.folder,
        job.scratch,
        writable=confinement.writable,
        scratch_bytes=scratch_bytes,
        found=job.found,
        hidden=confinement.hidden,
    )
    view = job.git.with_repository(view)
    return view if confinement.writable else with_databases(view, job.command, job.folder, scratch_bytes)


def _environment(job: _Job, home: str) -> dict[str, str]:
    """The environment of a command: a few variables of the host, and a private home."""
    host = settings.environment()
    inherited = {name: value for name, value in host.items() if name in _INHERITED or name.startswith("LC_")}
    return {"PATH": os.defpath, **inherited, "HOME": home, "TMPDIR": home, **job.git.environment(home, host)}


def _resource_limits(limits: ProcessLimits) -> dict[str, int]:
    """The kernel's limits. NPROC counts a user's processes on the whole machine, so the existing ones are added."""
    resources = limits.resources(of_one_process=False)
    return {**resources, "NPROC": resources["NPROC"] + process_count()}


def _with_limits(job: _Job, gate: str) -> list[str]:
    """Wrap the command in a shell that waits at the gate and sets the limits, because bubblewrap cannot set them."""
    limits = ((*_ULIMIT_OPTIONS[name], amount) for name, amount in _resource_limits(job.confinement.limits).items())
    setting = "; ".join(f"ulimit -{letter} {amount // unit}" for letter, unit, amount in limits)
    script = f'{gate}{{ {setting}; }} 2>/dev/null; exec "$0" --noprofile --norc -c -- "$1"'
    return [*_bash(script), _bash_path(), job.command]


def _bash(script: str) -> list[str]:
    return [_bash_path(), "--noprofile", "--norc", "-c", "--", script]


@functools.cache
def _bash_path() -> str:
    """The path of bash. Raises SandboxError."""
    path = shutil.which("bash")
    if path is None:
        raise SandboxError("bash is not installed on this machine; commands need it.")
    return path


def bash_can_parse(command: str) -> bool:
    """Whether bash can parse the command. Nothing is run; bash is not started for a command of plain words."""
    if len(command) <= _MAX_PLAIN_CHARS and PLAIN_COMMAND.fullmatch(command):
        return True
    try:
        return check_syntax(command)
    except (subprocess.TimeoutExpired, OSError, ValueError, SandboxError):
        return False


@functools.lru_cache(maxsize=256)
def check_syntax(command: str) -> bool:
    """Whether `bash -n` parses the command."""
    process = subprocess.run(  # with -n, bash only parses
        [_bash_path(), "--noprofile", "--norc", "-n", "-c", "--", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        timeout=_SYNTAX_CHECK_SECONDS,
        check=False,
    )
    return process.returncode == 0
