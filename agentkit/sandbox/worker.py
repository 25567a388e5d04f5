"""The sandbox worker: it isolates itself, reports its boundary, then receives its task.

The keeper stays outside of the process namespace it makes, watches whether the host still lives and whether the task
does, and reports how the task ended, which it sees itself. The process that runs code has no way to the report: what
it claims goes to the keeper, which passes it on as a claim. What is set here, nobody else sees.
It imports little, because every start pays for it.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys

from agentkit.sandbox import protocol
from agentkit.sandbox.watchdog import kill_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FAILED = 63
"""How a task ends that could not be begun or failed for the sandbox's own reasons."""

_KILL = 9
_HOST_WATCH_MILLISECONDS, _TASK_WATCH_MILLISECONDS = 500, 10
_CONTROL = 0
_ON_LINUX = sys.platform == "linux"

_READ_BYTES = 65_536
_CLAIM_TEXTS, _CLAIM_FRAME_BYTES = 5, 1_000
"""A claim has so many texts of the length of an output, and so many bytes besides."""

Setup = dict[str, str]
"""What the host wishes: task (python, command, module), mechanisms, resources, mounts, rules, host_name; lists by NUL.

`calls` is the descriptor on which code asks for functions of the host, which answers as it has sent the task.
"""


def main(host: int, report: int) -> NoReturn:
    """Be the keeper of one task: isolate, fork the task, watch over it, and end as it ended."""
    os.set_inheritable(report, False)
    setup = protocol.receive(_CONTROL)
    if setup is None:
        os._exit(0)
    asking = [int(setup["calls"])] if setup["calls"] else []
    for descriptor in asking:
        os.set_inheritable(descriptor, False)
    left = _leave(setup)
    reading, writing = os.pipe()
    task = os.fork()
    if task == 0:
        os.close(reading)
        _be_task(setup, left, report, writing)
    for descriptor in (1, 2, writing, *asking):
        os.close(descriptor)
    claim = _Claim(reading, _CLAIM_TEXTS * (int(setup["output_bytes"]) + _CLAIM_FRAME_BYTES))
    code = os.waitstatus_to_exitcode(_watch(task, host, claim))
    if _ON_LINUX and "pid" not in left:
        kill_descendants(os.getpid())
    claim.take_rest()
    with contextlib.suppress(OSError):  # the host has gone
        protocol.send(report, protocol.encode(code=str(code), claim=claim.data.decode("utf-8", "surrogateescape")))
    os._exit(code if code >= 0 else 128 - code)


class _Claim:
    """What the task's process says of itself, as far as it is worth keeping: the code may have written it."""

    def __init__(self, descriptor: int, most_bytes: int) -> None:
        self.descriptor, self.data = descriptor, bytearray()
        self._most_bytes = most_bytes

    def take(self) -> bool:
        """Take in what is there; False at the end."""
        data = os.read(self.descriptor, _READ_BYTES)
        self.data += data[: self._most_bytes - len(self.data)]
        return bool(data)

    def take_rest(self) -> None:
        """Take in what was written before the task ended; whoever else holds the pipe open is not waited for."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while len(self.data) < self._most_bytes and poll.poll(0) and self.take():
            pass


def listed(text: str) -> list[str]:
    """The items of a list in a frame."""
    return text.split("\0") if text else []


def _leave(setup: Setup) -> list[str]:
    if not _ON_LINUX:
        return []
    from agentkit.sandbox.kernel import namespaces

    left = namespaces.leave(listed(setup["mechanisms"]), setup["host_name"])
    if "pid" not in left:
        namespaces.adopt_orphans()
    return left


def _watch(task: int, host: int, claim: _Claim) -> int:
    """The task's status when it has ended; when the host has gone, the task is ended first."""
    watch = select.poll()
    watch.register(_CONTROL, 0)
    watch.register(claim.descriptor, select.POLLIN)
    patience = _TASK_WATCH_MILLISECONDS
    if hasattr(os, "pidfd_open"):
        watch.register(os.pidfd_open(task), select.POLLIN)
        patience = _HOST_WATCH_MILLISECONDS
    while True:
        ended, status = os.waitpid(task, os.WNOHANG)
        if ended:
            return status
        spoken = {descriptor for descriptor, _ in watch.poll(patience)}
        if claim.descriptor in spoken and not claim.take():
            watch.unregister(claim.descriptor)
        if os.getppid() != host or _CONTROL in spoken:
            if _ON_LINUX:
                kill_descendants(os.getpid())
            os.kill(task, _KILL)
            return os.waitpid(task, 0)[1]


def _be_task(setup: Setup, left: list[str], report: int, claims: int) -> NoReturn:
    """Isolate, report, let go of the report, take the task and do it. Whatever fails ends this process."""
    told = report
    try:
        os.setsid()  # a group of its own, which can be ended as one
        nothing = os.open(os.devnull, os.O_RDONLY)
        work = _TASKS[setup["task"]](setup)
        achieved = _isolate(setup, left)
        protocol.send(report, protocol.encode(mechanisms="\0".join(achieved)))
        told = claims
        os.close(report)
        request = protocol.receive(_CONTROL, int(setup.get("request_bytes", protocol.MAX_FRAME_BYTES)))
        if request is None:
            os._exit(0)
        if not setup["calls"]:
            os.dup2(nothing, _CONTROL)  # from here on there is nothing to read and no host to hear from
        os.close(nothing)
        work(request, claims)
    except BaseException as error:  # nothing may run on past a failure here
        os.write(told, protocol.encode(failure=f"{type(error).__name__}: {error}"))
    os._exit(FAILED)


def _isolate(setup: Setup, left: list[str]) -> list[str]:
    """Put up what the host wishes, from the outside inwards; what was put up. A root that fails is told as none."""
    wanted = listed(setup["mechanisms"])
    achieved = [*left]
    if not _ON_LINUX:
        _limit_resources(listed(setup["resources"]))
        return [*achieved, "rlimits"]
    from agentkit.sandbox.kernel import landlock, namespaces, seccomp

    machine = os.uname().machine
    namespaces.die_with_parent()
    if "mount" in left:
        namespaces.enter_root(_triples(setup["mounts"]), machine)
    _limit_resources(listed(setup["resources"]))  # not before: a cover may be larger than a file of the task
    namespaces.give_up_privileges()
    if setup["folder"] and ("mount" in left or setup["task"] == "command"):
        os.chdir(setup["folder"])
    rules = _pairs(setup["rules" if "mount" in left else "bare_rules"])
    if "landlock" in wanted and _works(lambda: landlock.restrict(rules, network=bool(setup["network"]))):
        achieved += ["landlock"] if landlock.is_complete(landlock.version(), own_root="mount" in left) else []
    if "seccomp" in wanted and machine in seccomp.MACHINES:
        strict = setup["task"] != "command"
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


def _run_command(request: dict[str, str], claims: int) -> NoReturn:
    """Start the command, bury whatever dies meanwhile, and end as the command ended."""
    os.close(claims)
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
    """How Python code is run. The guard is loaded beforehand, with what it loads when it is first needed."""
    most_bytes = int(setup["output_bytes"])
    if not setup["guard"]:
        return lambda request, claims: _run_unguarded(request["code"], claims, most_bytes)
    for folder in listed(setup["guard"]):  # a package without its own first module, which loads more than is needed
        package = type(sys)(os.path.basename(folder))
        package.__path__ = [folder]
        sys.modules[package.__name__] = package
    from agentkit.sandbox import guard

    functions = _functions(setup)
    guard.run("import copy\n0", _discard)

    def work(request: dict[str, str], claims: int) -> NoReturn:
        _forget_the_way_out()
        ending = guard.run(request["code"], _write, functions(request))
        raised = ending.message.partition(":")[0] if ending.kind == "raised" else ""
        details = {"message": ending.text(), "line": ending.line, "hint": ending.hint, "value": ending.value}
        _finish(claims, most_bytes, {"kind": ending.kind, "raised": raised, **details})

    return work


def _module(setup: Setup) -> Any:
    """The function `work` of a module of this package, imported before isolation with all it needs.

    It takes the request and yields dictionaries of texts, which are written to standard output as frames.
    """
    from importlib import import_module

    sys.path += listed(setup["paths"])
    function = import_module(setup["module"]).work

    def work(request: dict[str, str], claims: int) -> NoReturn:
        _forget_the_way_out()
        for texts in function(request):
            protocol.send(1, protocol.encode(**texts))
        _finish(claims, int(setup["output_bytes"]), {"kind": "ok"})

    return work


def _functions(setup: Setup) -> Any:
    """What makes of a request the functions of the host that its code may call."""
    if not setup["calls"]:
        return lambda _: {}
    from agentkit.sandbox.rpc_guest import functions_of

    return lambda request: functions_of(request["functions"], int(setup["calls"]), _CONTROL)


def _run_unguarded(code: str, claims: int, most_bytes: int) -> NoReturn:
    """Run the code as plain Python, so that everything else can be tried without the guard."""
    kind, raised, message = "ok", "", ""
    try:
        exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})  # the sandbox is there for this
    except SystemExit:
        message = "The code called exit()."
    except BaseException as error:  # whatever the code raises is told
        kind, raised = "raised", type(error).__name__
        message = f"{raised}: {error}"
        _write("stderr", message + "\n")
    _finish(claims, most_bytes, {"kind": kind, "raised": raised, "message": message})


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


def _finish(claims: int, most_bytes: int, details: dict[str, Any]) -> NoReturn:
    """Tell how it went, in bounded texts, and end at once: no finalizer of the code may run after its result."""
    whole = {name: "" if detail is None else str(detail) for name, detail in details.items()}
    texts = {name: protocol.shortened(text, most_bytes) for name, text in whole.items()}
    is_cut = any(texts[name] != text for name, text in whole.items())
    protocol.send(claims, protocol.encode(**texts, cut="yes" if is_cut else ""))
    os._exit(0)


_TASKS = {"python": _python, "command": _command, "module": _module}
