"""The sandbox worker: it isolates itself, reports its boundary, then receives its task.

The supervisor process stays outside of the process namespace it creates. It monitors the host and the task, and
reports how the task ended, which it observes itself. The process that runs code has no access to the report: its claims
go to the supervisor, which forwards them marked as claims. Changes of state here affect no other process. The module
imports little because every start pays for it.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys

from agentkit.sandbox import protocol
from agentkit.sandbox.process_tree import kill_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FAILED = 63
"""Exit code of a task that could not be started, or that failed because of the sandbox itself."""

_KILL = 9
_HOST_WATCH_MILLISECONDS, _TASK_WATCH_MILLISECONDS = 500, 10
_CONTROL = 0
_ON_LINUX = sys.platform == "linux"

_READ_BYTES = 65_536
_CLAIM_TEXTS, _CLAIM_FRAME_BYTES = 5, 1_000
"""A claim has up to this many texts of the maximum output length, plus this many bytes of overhead for each."""

Setup = dict[str, str]
"""The setup sent by the host: task (python, command, module), mechanisms, resources, mounts, rules, host_name.

Lists are separated by NUL. `calls` is the descriptor on which code calls host functions; the host replies on the
control descriptor. With `stateful`, it is where the outcome of each of several requests is reported.
"""


def main(host: int, report: int) -> NoReturn:
    """Run the supervisor of one task: isolate, fork the task, monitor it, and exit with its exit code."""
    os.set_inheritable(report, False)
    setup = protocol.receive(_CONTROL)
    if setup is None:
        os._exit(0)
    call_pipe = [int(setup["calls"])] if setup["calls"] else []
    for descriptor in call_pipe:
        os.set_inheritable(descriptor, False)
    namespaces = _leave_namespaces(setup)
    reading, writing = os.pipe()
    task = os.fork()
    if task == 0:
        os.close(reading)
        _run_task(setup, namespaces, report, writing)
    for descriptor in (1, 2, writing, *call_pipe):
        os.close(descriptor)
    claim = _Claim(reading, _CLAIM_TEXTS * (int(setup["output_bytes"]) + _CLAIM_FRAME_BYTES))
    code = os.waitstatus_to_exitcode(_watch(task, host, claim))
    if _ON_LINUX and "pid" not in namespaces:
        kill_descendants(os.getpid())
    claim.take_rest()
    with contextlib.suppress(OSError):  # the host has exited
        protocol.send(report, protocol.encode(code=str(code), claim=claim.data.decode("utf-8", "surrogateescape")))
    os._exit(code if code >= 0 else 128 - code)


def serve_container() -> NoReturn:
    """Run one task in a container, which isolates it: read its setup and its request, and write the report to stderr.

    The report follows the `mark` of the setup, which the code does not know.
    """
    setup, request = protocol.receive(_CONTROL), protocol.receive(_CONTROL)
    if setup is None or request is None:
        os._exit(0)
    run = _TASKS[setup["task"]](setup)
    reading, writing = os.pipe()
    task = os.fork()
    if task == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_RDONLY), _CONTROL)
        _limit_resources(split_list(setup["resources"]))
        run(request, writing)
    os.close(writing)
    claim = _Claim(reading, _CLAIM_TEXTS * (int(setup["output_bytes"]) + _CLAIM_FRAME_BYTES))
    while claim.take():
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(task, 0)[1])
    report = protocol.encode(code=str(code), claim=claim.data.decode("utf-8", "surrogateescape"))
    protocol.send(2, setup["mark"].encode() + report)
    os._exit(0)


class _Claim:
    """The bounded claim of the task's process about itself; untrusted, as the code can have written it."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self.descriptor, self.data = descriptor, bytearray()
        self._max_bytes = max_bytes

    def take(self) -> bool:
        """Read available data; returns False at the end."""
        data = os.read(self.descriptor, _READ_BYTES)
        self.data += data[: self._max_bytes - len(self.data)]
        return bool(data)

    def take_rest(self) -> None:
        """Read data written before the task ended, without waiting for other processes that hold the pipe open."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while len(self.data) < self._max_bytes and poll.poll(0) and self.take():
            pass


def split_list(text: str) -> list[str]:
    """Split a list in a frame."""
    return text.split("\0") if text else []


def _leave_namespaces(setup: Setup) -> list[str]:
    if not _ON_LINUX:
        return []
    from agentkit.sandbox import kernel

    namespaces = kernel.leave_namespaces(split_list(setup["mechanisms"]), setup["host_name"])
    if "pid" not in namespaces:
        kernel.adopt_orphans()
    return namespaces


def _watch(task: int, host: int, claim: _Claim) -> int:
    """Wait for the task and return its status; if the host exits, the task is killed first."""
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
        readable = {descriptor for descriptor, _ in watch.poll(patience)}
        if claim.descriptor in readable and not claim.take():
            watch.unregister(claim.descriptor)
        if os.getppid() != host or _CONTROL in readable:
            if _ON_LINUX:
                kill_descendants(os.getpid())
            os.kill(task, _KILL)
            return os.waitpid(task, 0)[1]


def _run_task(setup: Setup, namespaces: list[str], report: int, claims: int) -> NoReturn:
    """Isolate, report, close the report, receive the task and run it. Any failure ends this process."""
    error_pipe = report
    try:
        os.setsid()  # a separate process group, which can be killed as a whole
        nothing = os.open(os.devnull, os.O_RDONLY)
        run = _TASKS[setup["task"]](setup)
        achieved = _isolate(setup, namespaces)
        protocol.send(report, protocol.encode(mechanisms="\0".join(achieved)))
        error_pipe = claims
        os.close(report)
        request = protocol.receive(_CONTROL, int(setup.get("request_bytes", protocol.MAX_FRAME_BYTES)))
        if request is None:
            os._exit(0)
        if not setup["calls"]:
            os.dup2(nothing, _CONTROL)  # from here on neither input nor host can be read
        os.close(nothing)
        run(request, claims)
    except BaseException as error:  # nothing must continue after a failure here
        os.write(error_pipe, protocol.encode(failure=f"{type(error).__name__}: {error}"))
    os._exit(FAILED)


def _isolate(setup: Setup, namespaces: list[str]) -> list[str]:
    """Apply the requested isolation from the outside inwards; returns the mechanisms that are effective.

    A failure to set up the root is reported as an error, not as a missing mechanism.
    """
    wanted = split_list(setup["mechanisms"])
    achieved = [*namespaces]
    if not _ON_LINUX:
        _limit_resources(split_list(setup["resources"]))
        return [*achieved, "rlimits"]
    from agentkit.sandbox import kernel, seccomp

    machine = os.uname().machine
    kernel.die_with_parent()
    if "mount" in namespaces:
        words = split_list(setup["mounts"])
        kernel.enter_root(list(zip(words[::3], words[1::3], words[2::3], strict=True)), machine)
    _limit_resources(split_list(setup["resources"]))  # only now: a mounted cover can exceed the task's file size limit
    kernel.drop_privileges()
    if setup["folder"] and ("mount" in namespaces or setup["task"] == "command"):
        os.chdir(setup["folder"])
    rules = _pairs(setup["rules" if "mount" in namespaces else "bare_rules"])
    if "landlock" in wanted and _is_supported(lambda: kernel.restrict_access(rules, network=bool(setup["network"]))):
        achieved += (
            ["landlock"]
            if kernel.landlock_is_complete(kernel.landlock_version(), own_root="mount" in namespaces)
            else []
        )
    if "seccomp" in wanted and machine in seccomp.MACHINES:
        strict = setup["task"] != "command"
        families = seccomp.INTERNET if setup["network"] or "net" in namespaces else ()
        program = seccomp.python_filter(machine) if strict else seccomp.shell_filter(machine, families)
        if _is_supported(lambda: kernel.filter_calls(program)):
            achieved.append("seccomp")
    return [*achieved, "rlimits"]


def _is_supported(step: Any) -> bool:
    """Whether the kernel supports this mechanism; otherwise the step has no effect."""
    try:
        step()
    except OSError:
        return False
    return True


def _pairs(text: str) -> list[tuple[str, str]]:
    words = split_list(text)
    return list(zip(words[::2], words[1::2], strict=True))


def _limit_resources(limits: list[str]) -> None:
    """Set the kernel's resource limits, capped by the limits of the host process."""
    import resource

    for limit in limits:
        name, _, amount = limit.partition("=")
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:  # a limit of another platform
            continue
        most = resource.getrlimit(kind)[1]
        value = int(amount) if most == resource.RLIM_INFINITY else min(int(amount), most)
        resource.setrlimit(kind, (value, value))


def _command(_: Setup) -> Any:
    return _run_command


def _run_command(request: dict[str, str], claims: int) -> NoReturn:
    """Start the command, reap orphaned processes, and exit with the command's exit code."""
    os.close(claims)
    child = os.fork()
    if child == 0:
        arguments = split_list(request["command"])
        environment = dict(_pairs(request["environment"]))
        os.execve(arguments[0], arguments, environment)  # the command that the policy has judged
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _python(setup: Setup) -> Any:
    """Create the function that runs Python code. The guard and its lazy imports are loaded in advance."""
    max_bytes = int(setup["output_bytes"])
    if not setup["guard"]:
        return lambda request, claims: _run_unguarded(request["code"], claims, max_bytes)
    for folder in split_list(setup["guard"]):  # a bare package, since its `__init__` imports more than needed
        package = type(sys)(os.path.basename(folder))
        package.__path__ = [folder]
        sys.modules[package.__name__] = package
    from agentkit.sandbox import guard

    functions = _host_functions(setup)
    guard.run("import copy\n0", _discard)
    if setup["stateful"]:
        return lambda request, _: _run_requests(
            guard.PersistentNamespace(_write), request, int(setup["calls"]), max_bytes
        )

    def run(request: dict[str, str], claims: int) -> NoReturn:
        _remove_native_modules()
        _finish(claims, max_bytes, _claim_details(guard.run(request["code"], _write, functions(request))))

    return run


def _claim_details(ending: Any) -> dict[str, Any]:
    """The outcome of guarded code as a claim."""
    raised = ending.message.partition(":")[0] if ending.kind == "raised" else ""
    details = {"message": ending.text(), "line": ending.line, "hint": ending.hint, "value": ending.value}
    return {"kind": ending.kind, "raised": raised, **details}


def _run_requests(namespace: Any, request: dict[str, str] | None, outcomes: int, max_bytes: int) -> NoReturn:
    """Run one request after another with the same variables, until the host exits or ends this process."""
    os.set_inheritable(outcomes, False)
    _remove_native_modules()
    while request is not None:
        protocol.send(outcomes, _encode_claim(_claim_details(namespace.run(request["code"])), max_bytes))
        request = protocol.receive(_CONTROL)
    os._exit(0)


def _module(setup: Setup) -> Any:
    """Load the function `run` of a module of this package, imported with its dependencies before isolation.

    It takes the request and yields dictionaries of texts, which are written to standard output as frames.
    """
    from importlib import import_module

    sys.path += split_list(setup["paths"])
    function = import_module(setup["module"]).work

    def run(request: dict[str, str], claims: int) -> NoReturn:
        _remove_native_modules()
        for texts in function(request):
            protocol.send(1, protocol.encode(**texts))
        _finish(claims, int(setup["output_bytes"]), {"kind": "ok"})

    return run


def _host_functions(setup: Setup) -> Any:
    """Create the function that builds the host functions of a request."""
    if not setup["calls"]:
        return lambda _: {}
    from agentkit.sandbox.rpc_guest import host_functions

    return lambda request: host_functions(request["functions"], int(setup["calls"]), _CONTROL)


def _run_unguarded(code: str, claims: int, max_bytes: int) -> NoReturn:
    """Run the code as plain Python, to test the other layers without the guard."""
    kind, raised, message = "ok", "", ""
    try:
        exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})  # executing code is the purpose of the sandbox
    except SystemExit:
        message = "The code called exit()."
    except BaseException as error:  # any exception is reported
        kind, raised = "raised", type(error).__name__
        message = f"{raised}: {error}"
        _write("stderr", message + "\n")
    _finish(claims, max_bytes, {"kind": kind, "raised": raised, "message": message})


def _remove_native_modules() -> None:
    """Remove modules that can call into the C library."""
    for name in [*sys.modules]:
        if name.startswith(("ctypes", "_ctypes", "agentkit.sandbox.kernel", "agentkit.sandbox.seccomp")):
            del sys.modules[name]


def _write(stream: str, text: str) -> None:
    """Write printed text to the host immediately, so that it survives a kill."""
    protocol.send(2 if stream == "stderr" else 1, text.encode("utf-8", "replace"))


def _discard(_stream: str, _text: str) -> None:
    """Discard the output of the warm-up run."""


def _finish(claims: int, max_bytes: int, details: dict[str, Any]) -> NoReturn:
    """Report the outcome and exit at once: no finalizer of the code must run after its result."""
    protocol.send(claims, _encode_claim(details, max_bytes))
    os._exit(0)


def _encode_claim(details: dict[str, Any], max_bytes: int) -> bytes:
    """The outcome as a frame of bounded texts."""
    whole = {name: "" if detail is None else str(detail) for name, detail in details.items()}
    texts = {name: protocol.shorten(text, max_bytes) for name, text in whole.items()}
    is_cut = any(texts[name] != text for name, text in whole.items())
    return protocol.encode(**texts, cut="yes" if is_cut else "")


_TASKS = {"python": _python, "command": _command, "module": _module}
