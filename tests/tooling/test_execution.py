"""Tests for the execution of tool functions with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentkit.errors import ToolTimeout
from agentkit.tooling import execution

language = contextvars.ContextVar("language", default="none")
LONG = 30.0
"""Seconds that a test would hang if it waited for the work."""


def prompt(started: float) -> bool:
    """Return whether much less than the long wait has passed."""
    return time.perf_counter() - started < LONG / 3


def test_function_without_timeout_runs_in_the_caller_thread() -> None:
    """With `timeout_seconds=None` a function runs in the thread of the caller."""
    assert execution.call(threading.get_ident, None) == threading.get_ident()


def test_function_with_timeout_runs_in_a_daemon_thread() -> None:
    """A function with a timeout runs in a daemon thread."""
    thread = execution.call(threading.current_thread, LONG)
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_thread_is_reused_after_its_call_has_ended() -> None:
    """Consecutive calls share one thread; a call that hangs does not block the next one."""
    release = threading.Event()
    first = execution.call(threading.get_ident, LONG)
    assert execution.call(threading.get_ident, LONG) == first
    with pytest.raises(ToolTimeout):
        execution.call(partial(release.wait, LONG), 0.01)
    assert execution.call(threading.get_ident, LONG) != first
    release.set()


def test_idle_thread_releases_arguments_of_last_call() -> None:
    """The arguments of a call are released when it has ended, although its thread lives on."""

    class Held:
        """An object whose release can be observed."""

    held = Held()
    gone = weakref.ref(held)
    execution.call(partial(isinstance, held, Held), LONG)
    del held
    execution.call(int, LONG)  # the thread has other work, so it has released the first
    assert gone() is None


def test_idle_thread_exits() -> None:
    """A thread that has been idle for a while exits, unless a new call is already on its way."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    idle: list[queue.SimpleQueue[Any]] = []
    done: list[str] = []
    thread = threading.Thread(target=execution._run_jobs, args=(inbox, idle, 0.01), daemon=True)
    thread.start()
    thread.join(0.1)  # it is not registered as idle, so it may be about to get work
    assert thread.is_alive()
    inbox.put((lambda: done.append("worked"), lambda: done.append("told")))
    thread.join(LONG)
    assert (thread.is_alive(), idle, done) == (False, [], ["worked", "told"])


@pytest.mark.parametrize("timeout_seconds", [None, LONG])
def test_context_variables_are_inherited(timeout_seconds: float | None) -> None:
    """A function has the context variables of its caller in any thread."""
    language.set("vi")
    assert execution.call(language.get, timeout_seconds) == "vi"
    assert asyncio.run(execution.acall(language.get, timeout_seconds)) == "vi"

    async def read() -> str:
        return language.get()

    assert execution.call(read, timeout_seconds, is_async=True) == "vi"


@pytest.mark.for_each("timeout_seconds", [None, LONG])
@pytest.mark.for_each("error", [ValueError("no"), TimeoutError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_exception_is_raised_in_the_caller(error: BaseException, timeout_seconds: float | None) -> None:
    """Any exception of a function, including its own TimeoutError, is raised unchanged."""

    def fail() -> None:
        raise error

    async def afail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        execution.call(fail, timeout_seconds)
    assert caught.value is error
    with pytest.raises(type(error)) as caught:
        execution.call(afail, timeout_seconds, is_async=True)
    assert caught.value is error
    for function, is_async in ((fail, False), (afail, True)):
        with pytest.raises(type(error)) as caught:
            asyncio.run(execution.acall(function, timeout_seconds, is_async=is_async))
        assert caught.value is error
    assert execution.call(_one, LONG, is_async=True) == 1


def test_hung_function_raises_a_timeout() -> None:
    """A sync function that exceeds its timeout raises an error which says that its thread still runs."""
    release = threading.Event()
    started = time.perf_counter()
    with pytest.raises(ToolTimeout, match=r"within 0\.05 seconds; its thread could not be stopped"):
        execution.call(partial(release.wait, LONG), 0.05)
    with pytest.raises(ToolTimeout, match="could not be stopped"):
        asyncio.run(execution.acall(partial(release.wait, LONG), 0.05))
    assert prompt(started)
    release.set()


def test_huge_timeout_is_accepted() -> None:
    """A timeout beyond the maximum of the system is reduced to the maximum."""
    assert execution.call(lambda: 1, 1e300) == 1
    assert execution.call(_one, 1e300, is_async=True) == 1


async def _one() -> int:
    await asyncio.sleep(0)
    return 1


def _handed_out() -> Coroutine[None, None, int]:
    return _one()


def test_hung_function_does_not_block_the_exit_of_the_interpreter() -> None:
    """The interpreter exits while a function hangs in a thread and the background loop runs."""
    code = (
        "import asyncio, time\n"
        "from agentkit.tooling import execution\n"
        "async def one(): return 1\n"
        "assert execution.call(one, 5, is_async=True) == 1\n"
        "try: execution.call(lambda: time.sleep(600), 0.05)\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ToolTimeout\n", "", 0)


def test_async_function_is_cancelled_at_its_timeout() -> None:
    """A coroutine is cancelled at its timeout and can clean up."""
    seen: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.sleep(LONG)
        finally:
            seen.append("cleaned up")

    for attempt in (
        lambda: execution.call(hang, 0.05, is_async=True),
        lambda: asyncio.run(execution.acall(hang, 0.05, is_async=True)),
    ):
        with pytest.raises(ToolTimeout, match=r"within 0\.05 seconds; it was cancelled"):
            attempt()
    assert seen == ["cleaned up", "cleaned up"]


def test_coroutine_that_ignores_cancellation_is_abandoned() -> None:
    """A coroutine that suppresses its cancellation is abandoned, and the error says so."""

    async def stubborn() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(LONG)

    started = time.perf_counter()
    with pytest.raises(ToolTimeout, match="did not stop when it was cancelled"):
        execution.call(stubborn, 0.05, is_async=True)
    assert prompt(started)


def test_error_during_cancellation_does_not_hide_timeout() -> None:
    """An exception raised by a coroutine during its cancellation does not hide the timeout."""

    async def clumsy() -> None:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            raise ValueError("clumsy") from None

    with pytest.raises(ToolTimeout, match="it was cancelled"):
        execution.call(clumsy, 0.05, is_async=True)


def test_blocked_background_loop_is_replaced() -> None:
    """A coroutine that blocks its event loop is abandoned, and the next one gets a new loop."""
    release = threading.Event()

    async def block() -> None:
        release.wait(LONG)

    started = time.perf_counter()
    with pytest.raises(ToolTimeout, match="blocks its event loop"):
        execution.call(block, 0.05, is_async=True)
    assert execution.call(_one, LONG, is_async=True) == 1
    assert prompt(started)
    release.set()


def test_coroutines_share_one_background_loop_across_calls() -> None:
    """All coroutines called from sync code run on the same event loop."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    first = execution.call(loop, LONG, is_async=True)
    assert execution.call(loop, None, is_async=True) is first


def test_background_loop_survives_system_exit() -> None:
    """A SystemExit in a task reaches the awaiting coroutine, and the event loop continues."""

    async def leave() -> None:
        raise SystemExit(3)

    async def start() -> str:
        with contextlib.suppress(SystemExit):
            await asyncio.create_task(leave())
        return "went on"

    assert execution.call(start, LONG, is_async=True) == "went on"
    assert execution.call(_one, LONG, is_async=True) == 1


def test_concurrent_threads_share_one_background_loop() -> None:
    """Threads that start the background loop at the same time share one event loop."""
    code = (
        "import asyncio, sys, threading\n"
        "from agentkit.tooling import execution\n"
        "sys.setswitchinterval(1e-6)\n"
        "async def loop(): return asyncio.get_running_loop()\n"
        "start, found = threading.Barrier(16), []\n"
        "def work():\n"
        "    start.wait()\n"
        "    found.append(execution.call(loop, 20, is_async=True))\n"
        "threads = [threading.Thread(target=work) for _ in range(16)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "print(len(found), len(set(found)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=LONG
    )
    assert (done.stdout, done.stderr) == ("16 1\n", "")


def test_async_function_can_be_called_inside_a_running_loop() -> None:
    """Sync code inside a running event loop can call an async function."""

    async def notebook() -> int:
        return int(execution.call(_one, LONG, is_async=True))

    assert asyncio.run(notebook()) == 1


def test_nested_async_tools_do_not_deadlock() -> None:
    """An async tool whose sync helpers call async tools does not wait for itself."""

    async def nested(depth: int) -> int:
        if depth == 0:
            return await _one()
        return 1 + int(execution.call(partial(nested, depth - 1), LONG, is_async=True))

    assert execution.call(partial(nested, 3), LONG, is_async=True) == 4


def test_function_that_returns_an_awaitable_is_awaited() -> None:
    """A plain function that returns a coroutine returns the value of the coroutine."""
    assert execution.call(_handed_out, LONG) == 1
    assert execution.call(_handed_out, None) == 1
    assert asyncio.run(execution.acall(_handed_out, LONG)) == 1


def test_sync_functions_run_concurrently() -> None:
    """Sync functions started in one event loop run concurrently."""
    meeting = threading.Barrier(24, timeout=LONG)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(execution.acall(meeting.wait, None) for _ in range(24)))

    assert sorted(asyncio.run(all_at_once())) == list(range(24))


def test_sync_function_does_not_block_the_event_loop() -> None:
    """The event loop keeps running while a sync function runs."""
    ticked = threading.Event()

    async def tick() -> None:
        await asyncio.sleep(0.01)
        ticked.set()

    async def both() -> bool:
        waited, _ = await asyncio.gather(execution.acall(partial(ticked.wait, LONG), None), tick())
        return bool(waited)

    assert asyncio.run(both())


@pytest.mark.parametrize("is_async", [False, True])
def test_cancelling_the_caller_is_prompt(*, is_async: bool) -> None:
    """Cancelling the caller returns immediately; a coroutine is cancelled, a thread is abandoned."""
    release = threading.Event()
    ended: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def caller() -> None:
        function = hang if is_async else partial(release.wait, LONG)
        task = asyncio.create_task(execution.acall(function, LONG, is_async=is_async))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = time.perf_counter()
    asyncio.run(caller())
    assert prompt(started)
    assert ended == (["cancelled"] if is_async else [])
    release.set()


def test_thread_outliving_its_event_loop_ends_silently() -> None:
    """A sync function left behind by a closed event loop ends silently."""
    release, ended = threading.Event(), threading.Event()

    def hang() -> None:
        release.wait(LONG)
        threading.Timer(0.1, ended.set).start()

    with pytest.raises(ToolTimeout):
        asyncio.run(execution.acall(hang, 0.05))
    release.set()
    assert ended.wait(LONG)


def test_interrupting_the_caller_cancels_the_coroutine() -> None:
    """An interrupt of the waiting thread cancels the coroutine."""
    code = (
        "import asyncio, signal, threading, time\n"
        "from agentkit.tooling import execution\n"
        "cancelled = threading.Event()\n"
        "async def hang():\n"
        "    main = threading.main_thread().ident\n"
        "    threading.Timer(0.1, signal.pthread_kill, [main, signal.SIGINT]).start()\n"
        "    try: await asyncio.sleep(600)\n"
        "    except asyncio.CancelledError: cancelled.set(); raise\n"
        "try: execution.call(hang, None, is_async=True)\n"
        "except KeyboardInterrupt: print('interrupted', cancelled.wait(20))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=LONG
    )
    assert (done.stdout, done.stderr) == ("interrupted True\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child_starts_a_new_background_loop() -> None:
    """A forked child process starts a new background event loop."""
    assert execution.call(_one, LONG, is_async=True) == 1
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(execution.call, (_one, LONG), {"is_async": True}).get(LONG) == 1


def test_async_client_bound_to_its_loop_works_across_calls() -> None:
    """A queue made in one call can be used in the next: both ran on the same loop."""

    async def make() -> asyncio.Queue[int]:
        queue: asyncio.Queue[int] = asyncio.Queue()
        waiting = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        waiting.cancel()
        return queue

    async def use(queue: asyncio.Queue[int]) -> int:
        asyncio.get_running_loop().call_later(0.01, queue.put_nowait, 7)
        return await queue.get()

    queue = execution.call(make, LONG, is_async=True)
    assert execution.call(partial(use, queue), LONG, is_async=True) == 7


def test_async_generators_in_a_tool() -> None:
    """A coroutine can use async generators and context managers."""

    @contextlib.asynccontextmanager
    async def resource() -> AsyncIterator[int]:
        yield 5

    async def use() -> int:
        async with resource() as value:
            return value

    assert execution.call(use, LONG, is_async=True) == 5


def count(stop: int) -> Iterator[int]:
    """Count."""
    yield from range(stop)


async def count_slowly(stop: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(stop):
        await asyncio.sleep(0)
        yield number


async def hand_out(values: Any) -> Any:
    """Return the given values."""
    return values


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (partial(count, 3), False),
        (partial(count_slowly, 3), True),
        (partial(count_slowly, 3), False),
        (lambda: map(int, "012"), False),
        (lambda: hand_out(count(3)), True),
        (lambda: hand_out(count_slowly(3)), True),
    ],
)
def test_yielded_values_are_returned_as_a_list(function: Any, *, is_async: bool) -> None:
    """The values that a generator yields are returned as a list."""
    for seconds in (None, LONG):
        assert execution.call(function, seconds, is_async=is_async) == [0, 1, 2]
        assert asyncio.run(execution.acall(function, seconds, is_async=is_async)) == [0, 1, 2]


def test_open_file_is_returned_unread(tmp_path: Path) -> None:
    """An open file is returned as a file instead of a list of its lines."""
    place = tmp_path / "a.txt"
    place.write_text("a\nb\n", "utf-8")
    with execution.call(place.open, LONG) as file:
        assert file.read() == "a\nb\n"


def test_endless_generator_is_stopped() -> None:
    """An endless generator is stopped after 100,000 values."""

    async def endless() -> AsyncIterator[int]:
        while True:
            yield 1

    assert len(execution.call(itertools.count, LONG)) == 100_000
    assert len(execution.call(endless, LONG, is_async=True)) == 100_000


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000_000, b"x" * 1_000_000, {"text": "x" * 999_992}, ("x" * 999_992,), [0] * 125_000],
    ids=["text", "bytes", "dictionary", "tuple", "list"],
)
def test_generator_of_long_values_is_stopped_and_closed(value: Any) -> None:
    """A generator is closed after it has yielded 50 MB of values."""
    closed: list[str] = []

    def endless() -> Iterator[Any]:
        try:
            while True:
                yield value
        finally:
            closed.append("sync")

    async def aendless() -> AsyncIterator[Any]:
        try:
            while True:
                yield value
        finally:
            await asyncio.sleep(0)
            closed.append("async")

    assert len(execution.call(endless, LONG)) == 50
    assert len(execution.call(aendless, LONG, is_async=True)) == 50
    assert closed == ["sync", "async"]
    assert len(execution.call(partial(itertools.repeat, value), None)) == 50


@pytest.mark.parametrize("is_awaited", [False, True])
def test_generator_is_closed_after_timeout(*, is_awaited: bool) -> None:
    """A generator whose call has timed out is closed at its next value, and its thread is released."""
    release, closed = threading.Event(), threading.Event()
    given: list[int] = []

    def slow() -> Iterator[int]:
        try:
            for number in itertools.count():
                release.wait(LONG)
                given.append(number)
                yield number
        finally:
            closed.set()

    attempt = (lambda: asyncio.run(execution.acall(slow, 0.05))) if is_awaited else partial(execution.call, slow, 0.05)
    with pytest.raises(ToolTimeout):
        attempt()
    release.set()
    assert closed.wait(LONG)
    assert given == [0]


def test_blocking_async_generator_is_closed_after_timeout() -> None:
    """An async generator that blocks its event loop is closed at its next value after a timeout."""
    release, closed = threading.Event(), threading.Event()

    async def slow() -> AsyncIterator[int]:
        try:
            while True:
                release.wait(LONG)
                yield 1
        finally:
            closed.set()

    with pytest.raises(ToolTimeout, match="blocks its event loop"):
        execution.call(slow, 0.05, is_async=True)
    release.set()
    assert closed.wait(LONG)


def test_generator_error_is_raised_in_the_caller() -> None:
    """An exception of a generator is raised in the caller, and earlier values are discarded."""

    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        execution.call(failing, LONG)


def test_async_iterator_without_close_is_accepted() -> None:
    """Any async iterator is accepted, also one that cannot be closed."""

    class Countdown:
        """An iterator that yields three, two, one."""

        left = 4

        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            self.left -= 1
            if self.left == 0:
                raise StopAsyncIteration
            return self.left

    assert execution.call(Countdown, LONG) == [3, 2, 1]
