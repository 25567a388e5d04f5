"""Tests for the engine's process: answers, isolation from the host, and termination."""

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from agentkit.errors import BadResponse, Unreachable
from agentkit.llm.providers.offline.worker import EngineProcess, engine_replies

pytestmark = pytest.mark.slow

TOOLS = json.dumps(
    [{"name": "get_time", "description": "Tell the time.", "parameters": {"type": "object", "properties": {}}}]
)
QUESTION = {"tools": TOOLS, "text": "what time is it?", "max_tokens": 64, "dated": False}
PATIENCE = 300
"""Seconds that a busy machine may take for one answer."""


@pytest.fixture(scope="module")
def worker():
    """One engine for the tests that only ask questions."""
    return EngineProcess()


@pytest.fixture
def program(tmp_path):
    """Return a function that creates an executable shell script in place of the engine's Python."""

    def make(script):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


def run(script, **environment):
    """Run a Python program in a separate process and return the words that it prints."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def alive(process):
    """Return whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_dead(process):
    """Wait for a process to end."""
    deadline = time.monotonic() + 60
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(process)


def test_engine_returns_an_envelope(worker):
    """An answer contains the engine's calls, its confidence, and the access of its process."""
    reply = worker.ask(QUESTION, PATIENCE)
    assert reply["envelope"]["function_calls"] == [{"name": "get_time", "arguments": {}}]
    assert 0 < reply["envelope"]["confidence"] <= 1
    assert reply["network"] in ("none", "open")


def test_every_question_starts_from_a_clean_state(worker):
    """The same question has the same answer, whatever was asked in between."""
    first = worker.ask(QUESTION, PATIENCE)["envelope"]
    worker.ask({**QUESTION, "text": "good night"}, PATIENCE)
    again = worker.ask(QUESTION, PATIENCE)["envelope"]
    assert (first["function_calls"], first["confidence"]) == (again["function_calls"], again["confidence"])


def test_engine_error_raises_bad_response(worker):
    """An engine error raises BadResponse, and the next question is answered."""
    with pytest.raises(BadResponse, match="needle_init"):
        worker.ask({**QUESTION, "tools": json.dumps([{"name": "x", "description": "long " * 9_000}])}, PATIENCE)
    assert worker.ask(QUESTION, PATIENCE)["envelope"]["function_calls"]


def test_killed_process_is_replaced(worker):
    """A killed process is replaced for the next question."""
    worker.ask(QUESTION, PATIENCE)
    process = worker._engine.process.pid
    os.kill(process, signal.SIGKILL)
    assert worker.ask(QUESTION, PATIENCE)["envelope"]["function_calls"]
    assert worker._engine.process.pid != process


def test_concurrent_threads_receive_their_own_answers(worker):
    """Concurrent questions from several threads each receive their own answer."""
    texts = ["what time is it?", "good night", "the time please"]
    alone = [worker.ask({**QUESTION, "text": text}, PATIENCE)["envelope"]["reasoning"] for text in texts]
    together = [None] * len(texts)

    def ask(place):
        together[place] = worker.ask({**QUESTION, "text": texts[place]}, PATIENCE)["envelope"]["reasoning"]

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_process_has_no_key_no_home_and_no_network():
    """The engine process has no key, home directory or, if the system allows it, network access."""
    own = EngineProcess()
    reply = own.ask(QUESTION, PATIENCE)
    process = own._engine.process.pid
    variables = dict(entry.split("=", 1) for entry in Path(f"/proc/{process}/environ").read_text().split("\0") if entry)
    assert variables.keys() <= {"PATH", "HOME", "NEEDLE_TELEMETRY", "DO_NOT_TRACK", "LANG", "LC_ALL"}
    assert (variables["HOME"], variables["NEEDLE_TELEMETRY"], variables["DO_NOT_TRACK"]) == (os.devnull, "0", "1")
    apart = Path(f"/proc/{process}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    assert apart or reply["network"] == "open"


def test_unreferenced_worker_leaves_no_process():
    """The process and its pipes are closed when the worker is garbage collected."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    own = EngineProcess()
    own.ask(QUESTION, PATIENCE)
    process = own._engine.process.pid
    del own
    gc.collect()
    assert not Path(f"/proc/{process}").exists()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_process_ends_with_its_host():
    """At the exit of the interpreter the process ends without a warning."""
    (process,) = run(
        f"""
        from agentkit.llm.providers.offline.worker import EngineProcess
        worker = EngineProcess()
        worker.ask({QUESTION!r}, {PATIENCE})
        print(worker._engine.process.pid)
        """
    )
    assert not alive(process)


def test_process_ends_when_its_host_is_killed():
    """`kill -9` of the host also ends the process."""
    (process,) = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, signal; from agentkit.llm.providers.offline.worker import EngineProcess;"
            "worker = EngineProcess();"
            f"worker.ask({QUESTION!r}, {PATIENCE}); print(worker._engine.process.pid, flush=True);"
            "os.kill(os.getpid(), signal.SIGKILL)",
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    ).stdout.split()
    wait_until_dead(process)


def test_forked_child_does_not_stop_the_engine_of_its_parent():
    """Deleting the inherited worker in a forked child does not stop the parent's engine."""
    first, second = run(
        f"""
        import os
        from agentkit.llm.providers.offline.worker import EngineProcess
        worker = EngineProcess()
        worker.ask({QUESTION!r}, {PATIENCE})
        print(worker._engine.process.pid, flush=True)
        if os.fork() == 0:
            del worker
            raise SystemExit
        os.wait()
        worker.ask({QUESTION!r}, {PATIENCE})
        print(worker._engine.process.pid)
        """
    )
    assert first == second


def test_timeout_kills_the_process(program):
    """A timeout kills the process and raises Unreachable."""
    own = EngineProcess(program("exec sleep 600"))
    with pytest.raises(Unreachable, match=r"within 0\.5 seconds"):
        own.ask(QUESTION, 0.5)
    assert own._engine.process.poll() is not None


def test_process_that_exits_is_restarted_once(program, tmp_path):
    """A process that exits instead of answering is restarted once."""
    own = EngineProcess(program(f"echo started >> {tmp_path}/starts; read line"))
    with pytest.raises(Unreachable, match="died twice"):
        own.ask(QUESTION, PATIENCE)
    assert (tmp_path / "starts").read_text().count("started") == 2


def test_process_that_exits_early_raises_unreachable(program):
    """A process that exits before it reads its input raises Unreachable."""
    with pytest.raises(Unreachable, match="died twice"):
        EngineProcess(program("exit 3")).ask({**QUESTION, "text": "x" * 1_000_000}, PATIENCE)


def test_missing_interpreter_raises_unreachable():
    """A process that cannot be started raises Unreachable with the system's reason."""
    with pytest.raises(Unreachable, match="cannot be started"):
        EngineProcess("/no/such/python").ask(QUESTION, PATIENCE)


def test_wait_for_a_busy_engine_times_out(program):
    """A question that waits too long for a busy engine fails without affecting the running one."""
    own = EngineProcess(program("sleep 5; echo '{}'; exec sleep 600"))
    replied = []
    thread = threading.Thread(target=lambda: replied.append(own.ask(QUESTION, PATIENCE)))
    thread.start()
    time.sleep(0.5)
    with pytest.raises(Unreachable, match="busy"):
        own.ask(QUESTION, 0.1)
    thread.join()
    assert replied == [{}]


def test_interrupted_question_ends_the_process(program):
    """Ctrl-C ends the process, so that the next question cannot receive a late answer."""
    own = EngineProcess(program("exec sleep 600"))

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            own.ask(QUESTION, PATIENCE)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert own._engine.process.poll() is not None


def test_engine_is_initialized_again_for_other_tools(monkeypatch):
    """The engine is initialized again after a failure or for other tools, and answers every line."""
    monkeypatch.setenv("NEEDLE_TELEMETRY", "0")
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    other, failing = (
        TOOLS.replace("the time", "what time it is"),
        json.dumps([{"name": "x", "description": "long " * 9_000}]),
    )
    lines = [{**QUESTION, "tools": tools} for tools in (TOOLS, TOOLS, other, failing, TOOLS)]
    given = list(engine_replies(json.dumps(line).encode() for line in lines))
    assert [next(iter(reply)) for reply in given] == ["envelope", "envelope", "envelope", "error", "envelope"]
    assert (
        given[0]["envelope"]["confidence"] == given[1]["envelope"]["confidence"] == given[4]["envelope"]["confidence"]
    )
