"""How does a command run that nobody trusts? In the best isolation there is, within limits, leaving nothing behind."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from agentkit import config
from agentkit.errors import SandboxError
from agentkit.sandbox import bubblewrap
from agentkit.sandbox.databases import folders_to_open, opened
from agentkit.sandbox.git import Git, repository_of
from agentkit.sandbox.isolation import COMMAND_NEEDS, MECHANISMS, Boundary, check_isolation
from agentkit.sandbox.keeper import start_isolated
from agentkit.sandbox.process_tree import process_count
from agentkit.sandbox.supervision import Cancellation, Capture, ProcessLimits, attend
from agentkit.sandbox.view import OWN_SETTINGS, PROTECTED, SCRATCH, View, command_view
from agentkit.slotted import dataclass

SHELL_LIMITS = ProcessLimits()
"""What a command may use, unless its caller says otherwise."""

_INHERITED = ("PATH", "LANG", "TZ", "TERM")
_CAUTIOUS = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.bareRepository", "GIT_CONFIG_VALUE_0": "explicit"}
"""Where no strong boundary stands: any folder can look like a repository, and git runs what its settings name."""

_SYNTAX_CHECK_SECONDS = 2.0
_ULIMITS = {"CORE": ("c", 1), "FSIZE": ("f", 1024), "NOFILE": ("n", 1), "DATA": ("d", 1024), "NPROC": ("u", 1)}
"""The letter and the unit, in bytes, of a kernel's limit in the shell's `ulimit`."""


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """What came of a command, in a word (ok, timed_out, failed), and where it ran.

    `appeared` names what now decides over later runs and was not there before, such as .git/hooks; settings of the
    agent itself have been taken away again. `return_code` is None when it was ended from outside; then `error` says
    why. A command that a signal ended gives 128 plus its number. `output` is stdout and stderr together, in the
    order in which they came.
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
    appeared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """How a command is confined: `writable=False` shows it the workspace, but lets it change nothing.

    `network=True` lets it talk to whatever its host can talk to. `available` are the mechanisms that may be used:
    with some taken away it is as on a machine without them. `hidden` are files and folders it is shown empty, where
    a root can be built. Raises ConfigError for an unknown isolation.
    """

    isolation: str = "auto"
    network: bool = False
    writable: bool = True
    limits: ProcessLimits = SHELL_LIMITS
    available: frozenset[str] = MECHANISMS
    hidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_isolation(self.isolation)

    @property
    def wanted(self) -> frozenset[str]:
        """The mechanisms to put up."""
        if self.isolation == "off":
            return frozenset()
        return self.available - {"net"} if self.network else self.available

    def boundary(self, mechanisms: frozenset[str]) -> Boundary:
        """These mechanisms, against what this confinement needs."""
        return Boundary(mechanisms, COMMAND_NEEDS - {"net"} if self.network else COMMAND_NEEDS)


DEFAULT = Confinement()


class _Job(NamedTuple):
    command: str
    folder: str
    scratch: str
    confinement: Confinement
    git: Git


class _Running(NamedTuple):
    program: subprocess.Popen[bytes]
    stdout: int
    stderr: int
    boundary: Boundary


def run_command(
    command: str, folder: str, confinement: Confinement = DEFAULT, cancellation: Cancellation | None = None
) -> ProcessOutcome:
    """Run a command line with bash in `folder`, its workspace, and wait for it.

    It gets no input and no secret of the environment, and all it started ends with it. Raises SandboxError when it
    cannot be run as confined as it must be.
    """
    _refuse_unspeakable(command)
    with tempfile.TemporaryDirectory(prefix="agentkit-") as scratch:
        place = os.path.realpath(folder)
        git = Git(place, scratch, confinement.writable, repository_of(place, confinement.hidden))
        git.prepare(config.environment())
        job = _Job(command, place, scratch, confinement, git)
        start = _in_bubblewrap if bubblewrap.mechanisms(confinement.wanted) else _in_worker
        missing = [name for name in PROTECTED if not os.path.lexists(os.path.join(job.folder, name))]
        with start(job) as running:
            outcome = _attended(running, confinement.limits, cancellation)
        git.finish()
        return replace(outcome, appeared=_appeared(job.folder, missing))


def _appeared(folder: str, missing: list[str]) -> tuple[str, ...]:
    """What of this is there now. Settings of the agent itself are removed: they would loosen its next run."""
    found = tuple(name for name in missing if os.path.lexists(os.path.join(folder, name)))
    for name in {*found} & {*OWN_SETTINGS}:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
    return found


def command_boundary(confinement: Confinement = DEFAULT) -> Boundary:
    """The boundary that commands get on this machine, found out once by running a harmless command behind it."""
    wanted = confinement.wanted
    return confinement.boundary(bubblewrap.mechanisms(wanted) or _mechanisms_of_worker(wanted))


@functools.cache
def _mechanisms_of_worker(wanted: frozenset[str]) -> frozenset[str]:
    with tempfile.TemporaryDirectory(prefix="agentkit-") as folder:
        git = Git(folder, folder, writable=False, repository=None)
        git.prepare({})
        job = _Job("", folder, folder, Confinement(available=wanted), git)
        keeper, mechanisms = start_isolated(_setup(job), wanted)
        keeper.close()
    return mechanisms


def _refuse_unspeakable(command: str) -> None:
    """Raise SandboxError for what no program can be given as its argument."""
    try:
        is_speakable = b"\0" not in os.fsencode(command)
    except UnicodeEncodeError:
        is_speakable = False
    if not is_speakable:
        raise SandboxError("The command contains a NUL character or half of one (a lone surrogate), so it was not run.")


def _attended(running: _Running, limits: ProcessLimits, cancellation: Cancellation | None) -> ProcessOutcome:
    started = time.perf_counter()
    together, stdout, stderr = (Capture(limits.output_bytes) for _ in range(3))
    takers = {running.stdout: stdout.also(together), running.stderr: stderr.also(together)}
    stop = attend(running.program, takers, limits, cancellation)
    return ProcessOutcome(
        status="ok" if stop is None else "timed_out" if stop.word == "timed_out" else "failed",
        return_code=running.program.returncode if stop is None else None,
        output=together.text(),
        stdout=stdout.text(),
        stderr=stderr.text(),
        truncated=together.truncated,
        seconds=time.perf_counter() - started,
        boundary=running.boundary,
        error="" if stop is None else stop.sentence,
    )


@contextlib.contextmanager
def _in_bubblewrap(job: _Job) -> Iterator[_Running]:
    confinement, chosen = job.confinement, bubblewrap.mechanisms(job.confinement.wanted)
    boundary = confinement.boundary(chosen)
    boundary.require(confinement.isolation)
    words = [*_view(job).bubblewrap_arguments(job.scratch), "--chdir", job.folder]
    for name, value in _environment(job, SCRATCH).items():
        words += ["--setenv", name, value]
    with bubblewrap.started(_limited(job), words, chosen) as wrapped:
        yield _Running(wrapped.program, wrapped.stdout, wrapped.stderr, boundary)
        wrapped.check()


@contextlib.contextmanager
def _in_worker(job: _Job) -> Iterator[_Running]:
    confinement = job.confinement
    keeper, mechanisms = start_isolated(_setup(job), confinement.wanted)
    with contextlib.closing(keeper):
        boundary = confinement.boundary(mechanisms)
        boundary.require(confinement.isolation)
        home = SCRATCH if "mount" in mechanisms else job.scratch
        given = _environment(job, home) | ({} if boundary.is_strong else _CAUTIOUS)
        environment = "\0".join(f"{name}\0{value}" for name, value in given.items())
        keeper.send({"command": "\0".join(_bash(job.command)), "environment": environment})
        yield _Running(keeper.program, keeper.stdout, keeper.stderr, boundary)


def _setup(job: _Job) -> dict[str, str]:
    """What a worker is told before it is given a command."""
    resources = _resources(job.confinement.limits).items()
    return {
        **_view(job).texts(),
        "task": "command",
        "folder": job.folder,
        "output_bytes": "0",
        "network": "yes" if job.confinement.network else "",
        "resources": "\0".join(f"{name}={amount}" for name, amount in resources),
    }


def _view(job: _Job) -> View:
    confinement = job.confinement
    scratch_bytes = confinement.limits.scratch_bytes
    view = command_view(
        job.folder,
        job.scratch,
        writable=confinement.writable,
        scratch_bytes=scratch_bytes,
        hidden=confinement.hidden,
    )
    view = job.git.adapted(view)
    return view if confinement.writable else _with_databases(view, job)


def _with_databases(view: View, job: _Job) -> View:
    """The view of a command that only reads, in which it can open the databases that it names."""
    folders = folders_to_open(job.command, job.folder)
    at = view.mounts.index(("ro", job.folder, job.folder)) + 1
    more = [mount for folder in sorted(folders) for mount in opened(folder, job.confinement.limits.scratch_bytes)]
    rules = tuple(("all", folder) for folder in folders)
    return replace(view, mounts=(*view.mounts[:at], *more, *view.mounts[at:]), rules=(*view.rules, *rules))


def _environment(job: _Job, home: str) -> dict[str, str]:
    """What a command may know of its host's environment, and a home of its own."""
    host = config.environment()
    kept = {name: value for name, value in host.items() if name in _INHERITED or name.startswith("LC_")}
    return {"PATH": os.defpath, **kept, "HOME": home, "TMPDIR": home, **job.git.environment(home, host)}


def _resources(limits: ProcessLimits) -> dict[str, int]:
    """The kernel's limits. It may count a user's processes on the whole machine, so those there are come on top."""
    resources = limits.resources(of_one_process=False)
    return {**resources, "NPROC": resources["NPROC"] + process_count()}


def _limited(job: _Job) -> list[str]:
    """The command behind a shell that sets its limits, for a program that cannot set them."""
    limits = ((*_ULIMITS[name], amount) for name, amount in _resources(job.confinement.limits).items())
    setting = "; ".join(f"ulimit -{letter} {amount // unit}" for letter, unit, amount in limits)
    script = f'{{ {setting}; }} 2>/dev/null; exec "$0" --noprofile --norc -c -- "$1"'
    return [*_bash(script), _bash_path(), job.command]


def _bash(command: str) -> list[str]:
    return [_bash_path(), "--noprofile", "--norc", "-c", "--", command]


@functools.cache
def _bash_path() -> str:
    """Where bash is. Raises SandboxError."""
    path = shutil.which("bash")
    if path is None:
        raise SandboxError("There is no bash on this machine, and commands are bash's.")
    return path


def bash_agrees(command: str) -> bool:
    """Whether bash itself can read the command; nothing of it is run."""
    try:
        shell = [_bash_path(), "--noprofile", "--norc", "-n", "-c", "--", command]
        done = subprocess.run(  # only read, with -n
            shell,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            timeout=_SYNTAX_CHECK_SECONDS,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError, ValueError, SandboxError):
        return False
    return done.returncode == 0
