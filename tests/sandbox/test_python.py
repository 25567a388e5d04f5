"""Tests for the isolation of untrusted Python code, and the integrity of its result."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from agentkit.errors import ConfigError, SandboxError
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.kernel import landlock_is_complete
from agentkit.sandbox.launcher import start_isolated
from agentkit.sandbox.mounts import python_mounts
from agentkit.sandbox.python import PYTHON_LIMITS, PythonSession, WorkerPool, WorkerSpec, python_boundary, run_python
from agentkit.sandbox.watchdog import MEGABYTE, ProcessLimits, run_cancellable

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ESCAPED = "MARKER_ESCAPED"
TOKEN = "CANARY-7f3a"
SHORT = ProcessLimits(
    timeout_seconds=0.6, memory_bytes=512 * MEGABYTE, processes=8, scratch_bytes=32 * MEGABYTE, open_files=64
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not python_boundary().is_strong, reason="this machine lacks a part of the boundary"),
]


def rows(name):
    """Return the rows of a file of attacks."""
    parsed = [json.loads(line) for line in (HERE / name).read_text("utf-8").splitlines()]
    return [pytest.param(row["code"], id=f"{row['id']} {row['why']}") for row in parsed]


def plain(code, **options):
    """Return the outcome of code without the language guard, isolated by the sandbox alone."""
    return run_python(code, guard=False, **options)


async def awaited(code):
    """Return the outcome asynchronously."""
    return await run_cancellable(lambda request: plain(code, cancellation=request))


@pytest.fixture(scope="module")
def outside():
    """A file outside of the sandbox, a path to write to, and local listeners."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        canary = Path(folder, "canary.txt")
        canary.write_text(TOKEN)
        os.utime(canary, (10**9, 10**9))
        with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as abstract:
            unix.bind(f"{folder}/unix")
            unix.listen()
            abstract.bind(f"\0agentkit-{os.getpid()}")
            abstract.listen()
            places = {"CANARY": canary, "TOUCH": Path(folder, "touch"), "HOST": os.getpid(), "UNIX": f"{folder}/unix"}
            yield places | {"PORT": server.getsockname()[1], "ABSTRACT": f"agentkit-{os.getpid()}"}


@pytest.mark.parametrize("code", rows("os_escapes.jsonl"))
def test_nothing_outside_is_accessible(code, outside, monkeypatch):
    """Without the guard, code cannot access files, connections or processes outside of the sandbox."""
    monkeypatch.setenv("CANARY_VARIABLE", TOKEN)
    for name, value in outside.items():
        code = code.replace(f"{{{name}}}", str(value))
    before = outside["CANARY"].stat()
    outcome = plain(code, limits=SHORT, sandbox="required")
    after = outside["CANARY"].stat()
    assert ESCAPED not in outcome.stdout.splitlines()
    assert TOKEN not in outcome.output
    assert outcome.status != "ok"
    assert (before.st_mode, before.st_mtime, before.st_uid) == (after.st_mode, after.st_mtime, after.st_uid)
    assert outside["CANARY"].read_text() == TOKEN
    assert not outside["TOUCH"].exists()
    assert not any(Path("/dev", "shm").glob("agentkit_touch*"))


@pytest.mark.parametrize("code", rows("resources.jsonl"))
def test_code_that_exceeds_a_limit_is_ended(code):
    """Code that exceeds time, memory, output, files or processes is ended with a reason."""
    before, started = set(psutil.Process().children(recursive=True)), time.monotonic()
    outcome = plain(code, limits=SHORT)
    assert time.monotonic() - started < 10
    assert outcome.status in {"failed", "timed_out"}
    assert outcome.error
    assert len(outcome.output) < 2 * SHORT.output_bytes
    spawned = set(psutil.Process().children(recursive=True)) - before
    assert len(spawned) <= 2  # the worker that waits for the next snippet, and its keeper


def test_printed_text_is_returned():
    """Printed text is returned for each stream and combined, in the order of printing."""
    outcome = plain("import sys\nprint('one')\nsys.stdout.flush()\nprint('two', file=sys.stderr)\n")
    assert (outcome.status, outcome.output) == ("ok", "one\ntwo\n")
    assert (outcome.stdout, outcome.stderr, outcome.error) == ("one\n", "two\n", "")


def test_sandbox_mechanisms_are_listed():
    """Every outcome lists the active sandbox mechanisms."""
    described = plain("pass").boundary.describe()
    assert described.startswith("user, pid, net, ipc, uts and mount namespaces")
    assert described.endswith("Landlock, seccomp, resource limits")


@pytest.mark.parametrize(
    ("code", "word"),
    [("x" * 100_001, "100,001 bytes"), ("a\0b", "NUL"), ("'\ud800'", "surrogate"), ("é" * 60_000, "120")],
)
def test_invalid_code_is_not_run(code, word):
    """Code that is too long or is not valid text is rejected with a reason."""
    outcome = plain(code)
    assert (outcome.status, outcome.kind) == ("failed", "refused")
    assert word in outcome.error


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import time\ntime.sleep(60)", "timed out after 0.6 seconds"),
        ("'x' * 10 ** 12", "out of memory: the limit is 512 MB"),
        ("import ctypes\nctypes.string_at(0)", "ended by SIGSEGV"),
        ("import os\nos._exit(0)", "exit code 0) before it finished"),
        ("import os\nos._exit(63)", "exit code 63) before it finished"),
        ("import os\nos._exit(64 + 31)", "exit code 95) before it finished"),
        ("raise ValueError('MemoryError')", "ValueError: MemoryError"),
        ("while True: print('x' * 9999)", "more than 64 MB of output"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_outcomes_have_distinct_messages(code, words):
    """Time, memory, a crash, a silent exit, a flood and an exception have distinct messages."""
    outcome = plain(code, limits=SHORT if "sleep" in code else PYTHON_LIMITS)
    assert words in outcome.error
    assert "\n" not in outcome.error


def test_output_before_timeout_is_returned():
    """Output printed before the timeout is returned."""
    assert plain("print('so far', flush=True)\nwhile True: pass", limits=SHORT).output == "so far\n"


def test_exit_is_successful():
    """Code that calls exit() is successful."""
    assert plain("print('x')\nraise SystemExit(3)").status == "ok"


@pytest.mark.parametrize(
    ("number", "words"), [(31, "rule of the sandbox"), (24, "it ran for more than 0.6 seconds"), (62, "signal 62")]
)
def test_signal_is_reported_by_the_supervisor(number, words):
    """The kernel's signals for forbidden calls and spent time are distinguished from similar exit codes."""
    code = f"import os\nos.kill(os.getpid(), {number})"
    assert words in plain(code, limits=SHORT, available=frozenset({"landlock"})).error


FORGERY = """
import os
from agentkit.sandbox import protocol
forged = protocol.encode(kind="ok", value="forged")
for n in range(3, 64):
    for data in (protocol.encode(code="0", claim=forged.decode(), mechanisms="all"), forged):
        try:
            os.write(n, data)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("while True: pass", "timed out after 0.6 seconds"),
        ("os._exit(3)", "exit code 3)"),
        ("os._exit(63)", "exit code 63)"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_code_cannot_forge_its_outcome(end, words):
    """Code cannot forge its outcome, limits or sandbox by writing to its descriptors."""
    outcome = plain(FORGERY + end, limits=SHORT)
    assert outcome.status != "ok"
    assert words in outcome.error
    assert outcome.boundary == plain("1").boundary
    assert outcome.value == ""


def test_forged_result_is_untrusted_text():
    """Forged result frames are treated as untrusted text of bounded length."""
    forged = "protocol.encode(kind=chr(0xdc80), line='9' * 5000, message='x' * 10 ** 5, hint=chr(0xdcff))"
    code = f"for n in range(3, 64):\n    try:\n        protocol.send(n, {forged})\n    except OSError:\n        pass"
    outcome = plain(f"import os\nfrom agentkit.sandbox import protocol\n{code}\nos._exit(0)")
    assert (outcome.status, outcome.kind, outcome.line) == ("failed", "raised", None)
    assert len(outcome.error) < PYTHON_LIMITS.output_bytes + 200
    assert (outcome.error + outcome.hint).encode()


@pytest.mark.parametrize(
    "forged",
    [
        "protocol.encode(nonce='0' * 32)",
        "protocol.encode(code='0', claim='')",
        "protocol.encode(nonce='', value='forged')",
        "protocol.encode(mechanisms='all', failure='no')",
        'b\'{"status": "ok"}\'',
        "b'\\xff' * 2000",
        "b'\\0\\0\\0\\1' * 500",
        "__import__('pickle').dumps(print)",
    ],
)
def test_early_exit_is_not_successful(forged):
    """Whatever is written to any descriptor, code that ends its process early is not successful."""
    code = (
        f"import os\nfrom agentkit.sandbox import protocol\nfor n in range(3, 64):\n    try:\n"
        f"        os.write(n, {forged})\n    except OSError:\n        pass\nos._exit(0)"
    )
    outcome = plain(code)
    assert outcome.status == "failed"
    assert outcome.value == ""


def test_each_snippet_has_its_own_process():
    """A snippet sees no changes that an earlier one made in memory or in files."""
    write = "import math\nmath.pi = 3\nopen('/tmp/left', 'w').write('x')\nprint(math.pi)"
    assert plain(write).output == "3\n"
    assert plain("import math, os\nprint(math.pi > 3.1, os.path.exists('/tmp/left'))").output == "True False\n"


def test_many_threads_run_code_concurrently():
    """Fifty snippets from fifty threads each return their own output."""
    with ThreadPoolExecutor(50) as threads:
        outcomes = list(threads.map(lambda n: plain(f"print({n} * {n})"), range(50)))
    assert [outcome.output for outcome in outcomes] == [f"{n * n}\n" for n in range(50)]


def test_code_can_be_awaited():
    """Awaiting a snippet does not block the event loop."""

    async def main():
        waiting = asyncio.create_task(awaited("import time\ntime.sleep(0.3)\nprint('slept')"))
        beats = 0
        while not waiting.done():
            beats += 1
            await asyncio.sleep(0.02)
        return beats, (await waiting).output

    beats, output = asyncio.run(main())
    assert output == "slept\n"
    assert beats > 3


def test_cancelled_snippet_is_ended():
    """Cancelling the awaiting task ends the snippet's process."""

    async def main():
        await asyncio.wait_for(awaited("while True: pass"), 0.5)

    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(TimeoutError):
        asyncio.run(main())
    left = set(psutil.Process().children(recursive=True)) - before
    assert [child for child in left if child.is_running() and child.cpu_times().user > 0.2] == []


@pytest.mark.parametrize("missing", ["landlock", "seccomp", "user", "pid", "net"])
def test_missing_mechanism_is_reported_or_refused(missing):
    """Without one mechanism, code runs with the others, which are listed, or fails if all are required."""
    available = MECHANISMS - {missing}
    outcome = plain("print(1)", available=available)
    assert outcome.output == "1\n"
    assert missing in outcome.boundary.missing
    assert not outcome.boundary.is_strong
    with pytest.raises(SandboxError, match="is not available on this machine"):
        plain("print(1)", available=available, sandbox="required")


def test_session_does_not_run_code_without_a_required_mechanism():
    """A session that requires all mechanisms refuses each call where one is missing, and keeps no worker."""
    session = PythonSession("required", available=MECHANISMS - {"seccomp"})
    before = set(psutil.Process().children(recursive=True))
    for _ in range(2):
        with pytest.raises(SandboxError, match="is not available on this machine"):
            session.run("print(1)")
    assert not session.has_variables
    assert not [child for child in set(psutil.Process().children(recursive=True)) - before if child.is_running()]


def test_session_has_the_variables_of_earlier_calls():
    """A session keeps variables until a call is ended by a limit, and reports whether they are there."""
    with contextlib.closing(PythonSession(limits=SHORT)) as session:
        assert [session.run(code).output for code in ("x = 6", "print(x * 7)")] == ["", "42\n"]
        ended = session.run("while True: pass")
        assert (ended.kind, ended.variables, session.has_variables) == ("limit", "lost", False)
        assert "NameError" in session.run("print(x)").error


def test_landlock_alone_blocks_reading_files(outside):
    """Without mounts, Landlock alone prevents reading files outside the sandbox."""
    outcome = plain(f"print(open('{outside['CANARY']}').read())", available=MECHANISMS - {"mount"})
    assert "PermissionError" in outcome.error
    assert outcome.boundary.is_strong


def test_isolation_can_be_switched_off():
    """With the sandbox off, only resource limits apply, and the outcome reports this."""
    outcome = plain("while True: pass", sandbox="off", limits=SHORT)
    assert outcome.status == "timed_out"
    assert outcome.boundary.describe() == "resource limits"


def test_unknown_isolation_is_rejected():
    """An unknown isolation value raises an error."""
    with pytest.raises(ConfigError, match="required"):
        plain("1", sandbox="on")


PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from agentkit.sandbox.python import run_python
run_python("1", guard=False)
print("ready", flush=True)
run_python("while True: pass", guard=False)
"""


def host():
    """Start a program that has run a snippet, keeps a worker, and runs another snippet."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ROOT)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert program.stdout.readline() == "ready\n"
    time.sleep(0.5)
    return program, psutil.Process(program.pid).children(recursive=True)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_processes_end_with_their_host(how):
    """When the host is killed or interrupted, all its processes end shortly afterwards."""
    program, children = host()
    with program:
        assert len(children) >= 2
        program.send_signal(how)
        program.wait(20)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_forked_process_has_its_own_workers():
    """A forked process uses its own workers and leaves the parent's waiting worker alone."""
    pool = WorkerPool()
    spec = WorkerSpec(guard=False)
    pool.achievable_mechanisms(spec)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            keeper, mechanisms = pool.take(spec)
            keeper.close()
            status = 0 if mechanisms else 1
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    keeper, mechanisms = pool.take(spec)
    keeper.close()
    pool.close()
    assert "seccomp" in mechanisms


def test_waiting_worker_is_used_once_and_expires():
    """A pool holds a limited number of workers for a limited time."""
    before = len(psutil.Process().children())
    pool = WorkerPool(size=1, idle_seconds=0.5)
    specs = [WorkerSpec(guard=False), WorkerSpec(PYTHON_LIMITS, MECHANISMS - {"uts"}, guard=False)]
    for spec in (*specs, specs[1]):
        pool.refill(spec)
        assert pool.achievable_mechanisms(spec) >= {"seccomp"}
    assert len(psutil.Process().children()) <= before + 1
    deadline = time.monotonic() + 20
    while len(psutil.Process().children()) > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(psutil.Process().children()) == before


def test_killed_waiting_worker_is_replaced():
    """A waiting worker that was killed is replaced by another one."""
    pool = WorkerPool()
    spec = WorkerSpec(guard=False)
    pool.refill(spec)
    for _, keeper in pool._waiting:
        keeper.program.kill()
        keeper.program.wait()
    keeper, mechanisms = pool.take(spec)
    keeper.close()
    pool.close()
    assert mechanisms


def test_pool_may_be_empty():
    """A pool of size zero starts a worker for each snippet."""
    pool = WorkerPool(size=0)
    pool.refill(WorkerSpec(guard=False))
    assert pool._waiting == []


def test_snippets_leak_no_resources():
    """Repeated snippets leak no processes, file descriptors or threads."""

    def counts():
        process = psutil.Process()
        return len(process.children(recursive=True)), process.num_fds(), threading.active_count()

    for _ in range(3):
        plain("print(1)")
    before = counts()
    for n in range(20):
        plain("print(1)" if n % 4 else "import os\nos._exit(1)")
    time.sleep(0.3)
    after = counts()
    assert all(late <= early + 1 for late, early in zip(after, before, strict=True))
    assert [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE] == []


def test_worker_that_cannot_start_raises_an_error():
    """If not even a bare process can be started, the error contains its cause."""
    setup = {"task": "python", "guard": "", "resources": "CPU=many", "output_bytes": "9"}
    with pytest.raises(SandboxError, match="ValueError"):
        start_isolated(setup, frozenset())


@pytest.mark.parametrize("code", ["list(range(200_000))", "'x' * 3_000_000", "raise ValueError('x' * 3_000_000)"])
def test_values_and_errors_are_bounded(code):
    """A long value or error is shortened in the middle, with a note about the omitted bytes."""
    outcome = run_python(code)
    text = outcome.value + outcome.error
    assert "bytes left out" in text
    assert len(text) < PYTHON_LIMITS.output_bytes + 200
    assert outcome.truncated
    assert outcome.status == ("failed" if "raise" in code else "ok")


def test_error_is_reported_by_its_own_type():
    """Only an exception of that type is reported as out of memory."""
    outcome = run_python("raise ValueError('MemoryError: no')")
    assert (outcome.kind, "ValueError: MemoryError: no" in outcome.error) == ("raised", True)
    assert run_python("raise MemoryError('no')").error.startswith("It ran out of memory")


def test_standard_library_output_is_returned():
    """Text printed by standard library functions is returned as output."""
    assert run_python("import calendar\ncalendar.TextCalendar().prmonth(2026, 11)").output.startswith(
        "   November 2026"
    )
    assert plain("import sys\nsys.stdout.write('no line end')").output == "no line end"


def test_code_does_not_see_the_host_name():
    """The host name inside the sandbox is "sandbox"."""
    assert plain("import os\nprint(os.uname().nodename)").output == "sandbox\n"


def test_only_the_standard_library_is_accessible():
    """Only the system libraries that Python needs are accessible, and all computing modules can be imported."""
    names = "ssl, sqlite3, zlib, bz2, lzma, decimal, uuid, ctypes, hashlib, zoneinfo, xml.parsers.expat"
    outcome = plain(f"import os, {names}\nprint(zoneinfo.ZoneInfo('Europe/Paris'))")
    assert outcome.output == "Europe/Paris\n"
    view = python_mounts([], scratch_bytes=1_000_000)
    shown = [path for kind, path, _ in view.mounts if kind == "ro"]
    assert not {"/lib", "/usr/lib", "/usr/local/lib", "/usr/lib64"} & {*shown}
    library = str(Path(os.__file__).resolve().parent)
    assert all(path == library or ".so." in path or path in ("/usr/share/zoneinfo", "/etc/localtime") for path in shown)


def test_package_may_be_installed_below_tmp(tmp_path):
    """A package installed below the folder that the sandbox empties can be imported."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        shutil.copytree(ROOT / "agentkit", Path(folder, "agentkit"))
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); from agentkit.sandbox.python import run_python\n"
            "print(run_python('from dataclasses import dataclass\\nimport copy\\n"
            "@dataclass\\nclass A:\\n    x: int\\ncopy.deepcopy(A(1))'))"
        )
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert "status='ok'" in done.stdout


def test_files_outside_cannot_be_truncated_without_mounts(outside):
    """Without a private root, code cannot truncate files outside, by name or by opening them."""
    for change in ("os.truncate({path!r}, 0)", "os.open({path!r}, os.O_WRONLY | os.O_TRUNC)"):
        code = "import os\n" + change.format(path=str(outside["CANARY"]))
        assert "PermissionError" in plain(code, available=MECHANISMS - {"mount"}).error
    assert outside["CANARY"].read_text() == TOKEN


def test_landlock_without_truncation_rights_is_weak():
    """On a kernel whose Landlock cannot restrict truncation, only a private root protects files."""
    assert [landlock_is_complete(version, own_root=False) for version in (1, 2, 3, 6)] == [False, False, True, True]
    assert landlock_is_complete(1, own_root=True)


@pytest.mark.parametrize("available", [MECHANISMS, MECHANISMS - {"mount"}], ids=["own root", "no mount namespace"])
def test_kernel_files_cannot_be_opened_for_writing(available):
    """Python code without its guard cannot open any kernel file for writing; the files are never written to."""
    code = """
import os
opened = []
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/comm", "/sys/power/state"):
    try:
        os.close(os.open(path, os.O_WRONLY))
        opened.append(path)
    except OSError:
        pass
print(opened)
"""
    assert plain(code, available=available).output == "[]\n"
