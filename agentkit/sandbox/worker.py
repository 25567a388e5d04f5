"""What runs inside the sandbox? A process that isolates itself, says how far it got, and only then takes its task.

The keeper stays outside of the process namespace it makes, watches whether the host still lives and whether the task
does, and passes on how the task ended. All of this is a process of its own: what it sets, nobody else sees.
It imports little, because every start pays for it.
"""

from __future__ import annotations

import os
import select
import sys

from agentkit.sandbox import protocol
from agentkit.sandbox.process_tree import kill_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SIGNAL_BASE = 64
"""A Python task that a signal ended ends the keeper with this number plus the signal; a command with 128 plus it."""

FAILED = 63
"""The keeper's own failure."""

_KILL = 9
_HOST_WATCH_MILLISECONDS, _TASK_WATCH_MILLISECONDS = 500, 10
_CONTROL = 0
_ON_LINUX = sys.platform == "linux"

Setup = dict[str, str]
"""What the host wishes: task (python, command), mechanisms, resources, mounts, rules, families; lists by NUL."""


def main(host: int, report: int) -> NoReturn:
    """Be the keeper of one task: isolate, fork the task, watch over it, and end as it ended."""
    os.set_inheritable(report, False)
    setup = protocol.receive(_CONTROL)
    if setup is None:
        os._exit(0)
    left = _leave(setup)
    task = os.fork()
    if task == 0:
        _be_task(setup, left, report)
    os.close(report)
    for stream in (1, 2):
        os.close(stream)
    status = _watch(task, host)
    if _ON_LINUX and "pid" not in left:
        kill_descendants(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    base = SIGNAL_BASE if setup["task"] == "python" else 128
    os._exit(code if code >= 0 else base - code)


def listed(text: str) -> list[str]:
    """The items of a list in a frame."""
    return text.split("\0") if text else []


def _leave(setup: Setup) -> list[str]:
    if not _ON_LINUX:
        return []
    from agentkit.sandbox.kernel import namespaces

    left = namespaces.leave(listed(setup["mechanisms"]))
    if "pid" not in left:
        namespaces.adopt_orphans()
    return left


def _watch(task: int, host: int) -> int:
    """The task's status when it has ended; when the host has gone, the task is ended first."""
    watch = select.poll()
    watch.register(_CONTROL, 0)
    exact = hasattr(os, "pidfd_open")
    if exact:
        watch.register(os.pidfd_open(task), select.POLLIN)
    while True:
        ended, status = os.waitpid(task, os.WNOHANG)
        if ended:
            return status
        events = watch.poll(_HOST_WATCH_MILLISECONDS if exact else _TASK_WATCH_MILLISECONDS)
        if os.getppid() != host or any(descriptor == _CONTROL for descriptor, _ in events):
            if _ON_LINUX:
                kill_descendants(os.getpid())
            os.kill(task, _KILL)
            return os.waitpid(task, 0)[1]


def _be_task(setup: Setup, left: list[str], report: int) -> NoReturn:
    """Isolate, report, take the task and do it. Whatever fails ends this process, and so the sandbox."""
    try:
        os.setsid()  # a group of its own, which can be ended as one
        nothing = os.open(os.devnull, os.O_RDONLY)
        work = _TASKS[setup["task"]](setup)
        achieved = _isolate(setup, left)
        protocol.send(report, protocol.encode(mechanisms="\0".join(achieved)))
        request = protocol.receive(_CONTROL)
        if request is None:
            os._exit(0)
        os.dup2(nothing, _CONTROL)  # from here on there is nothing to read and no host to hear from
        os.close(nothing)
        work(request, report)
    except BaseException as error:  # nothing may run on past a failure here
        os.write(report, protocol.encode(failure=f"{type(error).__name__}: {error}"))
    os._exit(FAILED)


def _isolate(setup: Setup, left: list[str]) -> list[str]:
    """Put up what the host wishes, from the outside inwards; what was put up. A root that fails is told as none."""
    wanted = listed(setup["mechanisms"])
    achieved = [*left]
    _limit_resources(listed(setup["resources"]))
    if not _ON_LINUX:
        return [*achieved, "rlimits"]
    from agentkit.sandbox.kernel import landlock, namespaces, seccomp

    machine = os.uname().machine
    namespaces.die_with_parent()
    if "mount" in left:
        namespaces.enter_root(_triples(setup["mounts"]), machine)
    namespaces.give_up_privileges()
    if setup["folder"] and ("mount" in left or setup["task"] == "command"):
        os.chdir(setup["folder"])
    rules = _pairs(setup["rules" if "mount" in left else "bare_rules"])
    if "landlock" in wanted and _works(lambda: landlock.restrict(rules, network=bool(setup["network"]))):
        achieved.append("landlock")
    if "seccomp" in wanted and machine in seccomp.MACHINES:
        strict = setup["task"] == "python"
        families = seccomp.INTERNET if setup["network"] or "net" in left else ()
        program = seccomp.python_filter(machine) if strict else seccomp.shell_filter(machine, families)
        if _works(lambda: namespaces.filter_calls(program)):
            achieved.append("seccomp")
    return [*achieved, "rlimits"]


def _works(step: Any) -> bool:
    """Whether the kernel has this mechanism; without it the step changes nothing."""
    try:
        step()
    except OSError:
        return False
    return True


def _pairs(text: str) -> list[tuple[str, str]]:
    words = listed(text)
    return list(zip(words[::2], words[1::2], strict=True))


def _triples(text: str) -> list[tuple[str, str, str]]:
    words = listed(text)
    return list(zip(words[::3], words[1::3], words[2::3], strict=True))


def _limit_resources(limits: list[str]) -> None:
    """Set the kernel's limits, never above what the host itself may use."""
    import resource

    for limit in limits:
        name, _, amount = limit.partition("=")
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:  # a limit of another system
            continue
        most = resource.getrlimit(kind)[1]
        value = int(amount) if most == resource.RLIM_INFINITY else min(int(amount), most)
        resource.setrlimit(kind, (value, value))


def _command(_: Setup) -> Any:
    return _run_command


def _run_command(request: dict[str, str], report: int) -> NoReturn:
    """Start the command, bury whatever dies meanwhile, and end as the command ended."""
    os.close(report)
    child = os.fork()
    if child == 0:
        arguments = listed(request["command"])
        environment = dict(_pairs(request["environment"]))
        os.execve(arguments[0], arguments, environment)  # the command that was judged
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _python(setup: Setup) -> Any:
    """How Python code is run. The guard is loaded while its files can still be seen."""
    if not setup["guard"]:
        return _run_unguarded
    for folder in listed(setup["guard"]):  # a package without its own first module, which loads more than is needed
        package = type(sys)(os.path.basename(folder))
        package.__path__ = [folder]
        sys.modules[package.__name__] = package
    from agentkit.sandbox import guard

    guard.run("0", _discard)  # loads all of it

    def work(request: dict[str, str], report: int) -> NoReturn:
        nonce, code = request.pop("nonce"), request.pop("code")
        _forget_the_way_out()
        ending = guard.run(code, _write)
        details = {"message": ending.text(), "line": ending.line, "hint": ending.hint, "value": ending.value}
        _finish(report, nonce, ending.kind, details)

    return work


def _run_unguarded(request: dict[str, str], report: int) -> NoReturn:
    """Run the code as plain Python, so that everything else can be tried without the guard."""
    nonce, code = request.pop("nonce"), request.pop("code")
    kind, message = "ok", ""
    try:
        exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})  # the sandbox is there for this
    except SystemExit:
        message = "The code called exit()."
    except BaseException as error:  # whatever the code raises is told
        kind, message = "raised", f"{type(error).__name__}: {error}"
        sys.stdout.flush()
        _write("stderr", message + "\n")
    sys.stdout.flush()
    sys.stderr.flush()
    _finish(report, nonce, kind, {"message": message})


def _forget_the_way_out() -> None:
    """Drop the modules that could call into the C library."""
    for name in [*sys.modules]:
        if name.startswith(("ctypes", "_ctypes", "agentkit.sandbox.kernel")):
            del sys.modules[name]


def _write(stream: str, text: str) -> None:
    """Write printed text through to the host at once: what was printed before a kill is kept."""
    protocol.send(2 if stream == "stderr" else 1, text.encode("utf-8", "replace"))


def _discard(_stream: str, _text: str) -> None:
    """Where the output of a first, empty run goes."""


def _finish(report: int, nonce: str, kind: str, details: dict[str, Any]) -> NoReturn:
    """Tell how it went, signed, and end at once: no finalizer of the code may run after its result."""
    texts = {name: "" if detail is None else str(detail) for name, detail in details.items()}
    protocol.send(report, protocol.encode(nonce=nonce, kind=kind, **texts))
    os._exit(0)


_TASKS = {"python": _python, "command": _command}
