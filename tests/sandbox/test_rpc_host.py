"""Tests for answers to calls of sandboxed code, and the rejection of invalid calls."""

import os
import signal
import subprocess
import sys

import pytest

from agentkit.errors import SandboxError
from agentkit.sandbox import protocol
from agentkit.sandbox.launcher import WorkerHandle
from agentkit.sandbox.python import call_handlers, python_boundary, run_program
from agentkit.sandbox.watchdog import Cancellation

CALL = protocol.encode(tool="add", arguments='{"a": 1}')
strong = pytest.mark.skipif(not python_boundary().is_strong, reason="this machine lacks a part of the boundary")


class Asking:
    """A process whose code sends requests on a descriptor, and the replies it received."""

    def __init__(self):
        self.calls, self.replies = 7, []
        self.program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def reply(self, texts):
        """Record the reply."""
        self.replies.append(texts)


@pytest.fixture
def asking():
    """A process that runs as long as the test."""
    keeper = Asking()
    yield keeper
    keeper.program.kill()
    keeper.program.wait()
    keeper.program.stdin.close()


def answer(tool, arguments):
    """Return the answer to a call."""
    return {"value": f'["{tool} {len(arguments)}"]'}


def test_call_is_answered_when_it_is_complete(asking):
    """A call that arrives in pieces is answered once when it is complete."""
    take = call_handlers(asking, answer)[7]
    for index in range(len(CALL)):
        take(CALL[index : index + 1])
    take(CALL)
    assert asking.replies == [{"value": '["add 8"]'}] * 2


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        protocol.encode(tool="add"),
        protocol.encode(tool="add", arguments="{}", more="x"),
        b"\x00\x00\x00\x05\x00\x00\x00\x09a",
        b"\x00\x00\x00\x00",
        CALL + CALL,
    ],
    ids=["too long", "without arguments", "with more", "no frame", "nothing", "two at once"],
)
def test_invalid_call_ends_the_program(asking, data):
    """An invalid function call message raises a SandboxError and gets no reply."""
    with pytest.raises(SandboxError, match="invalid function call"):
        call_handlers(asking, answer)[7](data)
    assert asking.replies == []


def test_call_of_an_ended_program_is_not_made(asking):
    """A call of a program that has already ended is not made."""
    asking.program.kill()
    asking.program.wait()
    call_handlers(asking, answer)[7](CALL)
    call_handlers(asking, answer)[7](b"\xff\xff\xff\xff")
    assert asking.replies == []


def test_calls_without_functions_are_ignored(asking):
    """Without functions, calls are ignored."""
    assert call_handlers(asking, None) == {}
    asking.calls = None
    assert call_handlers(asking, answer) == {}


@strong
def test_unread_reply_is_abandoned():
    """Replying to a process that does not read its reply raises an error after the timeout."""
    keeper = WorkerHandle({"mechanisms": "", "calls": "yes", "task": "python"})
    try:
        os.kill(keeper.program.pid, signal.SIGSTOP)
        with pytest.raises(SandboxError, match="did not read the response"):
            keeper.reply({"value": "x" * 1_000_000}, seconds=0.2)
    finally:
        os.kill(keeper.program.pid, signal.SIGCONT)
        keeper.close()


@strong
def test_reply_to_ended_code_is_abandoned():
    """Code that ends during its call gets no reply, which is reported like an unread reply."""
    keeper = WorkerHandle({"mechanisms": "", "calls": "yes", "task": "python"})
    keeper.program.kill()
    keeper.program.wait()
    with pytest.raises(SandboxError, match="did not read the response"):
        keeper.reply({"value": "x" * 1_000_000})
    keeper.close()


@strong
def test_output_before_an_invalid_call_is_returned():
    """Code that is ended for an invalid call keeps its output and boundary."""

    def refusing(_function, _arguments):
        raise SandboxError("That is not a call.")

    outcome = run_program("print('before')\nadd()", {"add": []}, refusing)
    assert (outcome.status, outcome.error, outcome.output) == ("failed", "That is not a call.", "before\n")
    assert outcome.boundary.is_strong


@strong
@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("print(add(1, b=2))", "{'a': 1, 'b': 2}\n"),
        ("print(add(**{'b_c': 1}))", "{'b-c': 1}\n"),
        (
            "import datetime, decimal\nprint(add(datetime.date(2026, 1, 2), b={1, 2}, c=decimal.Decimal('1.5')))",
            "{'a': '2026-01-02', 'b': [1, 2], 'c': '1.5'}\n",
        ),
        ("print(add(a='ä' * 3), add.__name__)", "{'a': 'äää'} add\n"),
        ("def add(): return 'mine'\nprint(add())", "mine\n"),
    ],
)
def test_values_are_converted_to_json(code, shown):
    """Arguments and results are JSON values; dates, decimals and sets are converted to JSON."""
    outcome = run_program(code, {"add": ["a", "b", "b-c"]}, lambda _, arguments: {"value": f"[{arguments}]"})
    assert (outcome.error, outcome.output) == ("", shown)


@strong
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("add(1, 2, 3, 4)", "takes (a, b, c), and got 4 arguments"),
        ("await add(1)", "call functions without await"),
        ("tools.add(1)", "available by name, without import: add, fail"),
        ("from tools import add", "available by name, without import: add, fail; available: base64"),
        ("import requests", "fetch_url; available: base64"),
        ("from math import add", "has no 'add' here\navailable: acos"),
        ("{'a': 1}.a", "of a dictionary with ['a']"),
        ("add(1, a=2)", "got two values for 'a'"),
        ("add(print)", "a function cannot be passed to a tool"),
        ("'text'['key']", "the value is text; parse JSON with json.loads(text)"),
        ("add('x' * 9_000_000)", "are longer than"),
        ("fail()", "ToolError: It failed."),
        ("raise ToolError('mine')", "ToolError: mine"),
    ],
)
def test_invalid_use_of_a_function_is_explained(code, error):
    """An invalid call is reported with the line of the code, like a failed one."""

    def failing(_function, _arguments):
        return {"error": "It failed."}

    outcome = run_program(code, {"add": ["a", "b", "c"], "fail": []}, failing)
    assert error in outcome.error
    assert outcome.line == 1


@strong
@pytest.mark.parametrize(
    "code",
    [
        "asyncio.run(add(1))",
        "async def go():\n    await add(1)\nasyncio.run(go())",
        "async def go():\n    await asyncio.gather(add(1), add(2))\nasyncio.run(go())",
        "async def go():\n    asyncio.create_task(add(1))\nasyncio.run(go())",
    ],
)
def test_awaiting_a_function_is_explained(code):
    """Awaiting a function raises an error that says to call functions without await."""
    outcome = run_program(f"import asyncio\n{code}", {"add": ["a"]}, lambda *_: {"value": "[3]"})
    assert "call functions without await, and without asyncio" in outcome.error


@strong
def test_host_error_is_raised_to_the_caller():
    """An exception in the host's function is raised to the caller and ends the program."""

    def failing(_function, _arguments):
        raise KeyError("a bug of the host")

    with pytest.raises(KeyError, match="a bug"):
        run_program("add()", {"add": []}, failing)


@strong
def test_cancelled_program_makes_no_further_calls():
    """A cancelled program makes no further calls after the current one."""
    cancellation, made = Cancellation(), []

    def cancelling(_function, _arguments):
        made.append(1)
        cancellation.cancel()
        return {"value": "[1]"}

    outcome = run_program("while True: add()", {"add": []}, cancelling, cancellation=cancellation)
    assert outcome.status == "failed"
    assert "cancelled" in outcome.error
    assert len(made) < 1000
