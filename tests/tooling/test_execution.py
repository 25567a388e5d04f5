"""Proves how a tool's function runs inside its time limit."""

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
"""Seconds that a test would hang if the work were waited for."""


def prompt(started: float) -> bool:
    """Whether less than the long wait has passed, by far."""
    return time.perf_counter() - started < LONG / 3


def test_without_a_limit_a_function_runs_in_the_caller_s_thread() -> None:
    """`timeout_seconds=None` costs no thread: the function runs where it is called."""
    assert execution.call(threading.get_ident, None) == threading.get_ident()


def test_with_a_limit_a_function_runs_in_a_daemon_thread() -> None:
    """A function with a time limit runs in a daemon thread, so that a hung one never keeps the interpreter alive."""
    thread = execution.call(threading.current_thread, LONG)
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_a_thread_is_used_again_when_its_call_has_ended() -> None:
    """Calls that follow each other share one thread; one that hangs keeps its own, and nobody waits for it."""
    release = threading.Event()
    first = execution.call(threading.get_ident, LONG)
    assert execution.call(threading.get_ident, LONG) == first
    with pytest.raises(ToolTimeout):
        execution.call(partial(release.wait, LONG), 0.01)
    assert execution.call(threading.get_ident, LONG) != first
    release.set()


def test_a_waiting_thread_holds_nothing_of_its_last_call() -> None:
    """What a call was given is let go when it has ended, although its thread lives on."""

    class Held:
        """Something that can be watched."""

    held = Held()
    gone = weakref.ref(held)
    execution.call(partial(isinstance, held, Held), LONG)
    del held
    execution.call(int, LONG)  # the thread has taken up other work, so it has let go of the first
    assert gone() is None


def test_a_thread_without_work_ends() -> None:
    """A thread that nobody has needed for a while ends, unless work is on its way to it just then."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    idle: list[queue.SimpleQueue[Any]] = []
    done: list[str] = []
    thread = threading.Thread(target=execution._work_on, args=(inbox, idle, 0.01), daemon=True)
    thread.start()
    thread.join(0.1)  # nobody knows that it is idle, so that somebody may be about to give it work
    assert thread.is_alive()
    inbox.put((lambda: done.append("worked"), lambda: done.append("told")))
    thread.join(LONG)
    assert (thread.is_alive(), idle, done) == (False, [], ["worked", "told"])


@pytest.mark.parametrize("timeout_seconds", [None, LONG])
def test_context_variables_are_the_caller_s(timeout_seconds: float | None) -> None:
    """A function sees the caller's context variables, wherever it runs."""
    language.set("vi")
    assert execution.call(language.get, timeout_seconds) == "vi"
    assert asyncio.run(execution.acall(language.get, timeout_seconds)) == "vi"

    async def read() -> str:
        return language.get()

    assert execution.call(read, timeout_seconds, is_async=True) == "vi"


@pytest.mark.for_each("timeout_seconds", [None, LONG])
@pytest.mark.for_each("error", [ValueError("no"), TimeoutError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_function_raises_is_raised_at_the_caller(error: BaseException, timeout_seconds: float | None) -> None:
    """Whatever a function raises, a TimeoutError of its own included, arrives as it is."""

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


def test_a_hung_function_is_left_behind_and_that_is_said() -> None:
    """A sync function cannot be stopped: at its timeout the caller goes on, and the error says so honestly."""
    release = threading.Event()
    started = time.perf_counter()
    with pytest.raises(ToolTimeout, match=r"within 0\.05 seconds; its thread could not be stopped"):
        execution.call(partial(release.wait, LONG), 0.05)
    with pytest.raises(ToolTimeout, match="could not be stopped"):
        asyncio.run(execution.acall(partial(release.wait, LONG), 0.05))
    assert prompt(started)
    release.set()


def test_a_huge_limit_is_as_good_as_none() -> None:
    """A limit beyond what the system can wait for is cut to the longest wait, not refused."""
    assert execution.call(lambda: 1, 1e300) == 1
    assert execution.call(_one, 1e300, is_async=True) == 1


async def _one() -> int:
    await asyncio.sleep(0)
    return 1


def _handed_out() -> Coroutine[None, None, int]:
    return _one()


def test_a_hung_function_does_not_keep_the_interpreter_alive() -> None:
    """A program ends although a tool of it still hangs in a thread, and an event loop still runs in the background."""
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


def test_an_async_function_is_cancelled_at_its_timeout() -> None:
    """A coroutine is cancelled at its timeout and may clean up."""
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


def test_a_coroutine_that_refuses_to_be_cancelled_is_given_up() -> None:
    """A coroutine that swallows its cancellation is left behind after a moment, and the error says so."""

    async def stubborn() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(LONG)

    started = time.perf_counter()
    with pytest.raises(ToolTimeout, match="did not stop when it was cancelled"):
        execution.call(stubborn, 0.05, is_async=True)
    assert prompt(started)


def test_a_coroutine_that_fails_while_it_is_cancelled_has_still_timed_out() -> None:
    """What a coroutine raises while it cleans up after its timeout does not hide the timeout."""

    async def clumsy() -> None:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            raise ValueError("clumsy") from None

    with pytest.raises(ToolTimeout, match="it was cancelled"):
        execution.call(clumsy, 0.05, is_async=True)


def test_a_coroutine_that_blocks_the_background_loop_is_left_behind_with_its_loop() -> None:
    """A coroutine that never awaits cannot be cancelled; the next one gets a fresh event loop."""
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
    """Async clients bound to an event loop keep working: every call from sync code runs on the same loop."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    first = execution.call(loop, LONG, is_async=True)
    assert execution.call(loop, None, is_async=True) is first


def test_the_background_loop_survives_a_task_that_ends_the_program() -> None:
    """A SystemExit in a task that a coroutine started reaches that coroutine, and the event loop goes on."""

    async def leave() -> None:
        raise SystemExit(3)

    async def start() -> str:
        with contextlib.suppress(SystemExit):
            await asyncio.create_task(leave())
        return "went on"

    assert execution.call(start, LONG, is_async=True) == "went on"
    assert execution.call(_one, LONG, is_async=True) == 1


def test_many_threads_that_start_the_background_loop_at_once_share_it() -> None:
    """Threads that race for the first coroutine all end up on one event loop."""
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


def test_an_async_function_can_be_called_inside_a_running_loop() -> None:
    """In a notebook a loop is running already: sync code there can still call an async tool."""

    async def notebook() -> int:
        return int(execution.call(_one, LONG, is_async=True))

    assert asyncio.run(notebook()) == 1


def test_an_async_function_can_call_another_one_from_sync_code_however_deep() -> None:
    """An async tool whose sync helpers call async tools does not wait for itself."""

    async def nested(depth: int) -> int:
        if depth == 0:
            return await _one()
        return 1 + int(execution.call(partial(nested, depth - 1), LONG, is_async=True))

    assert execution.call(partial(nested, 3), LONG, is_async=True) == 4


def test_a_function_that_returns_an_awaitable_is_awaited() -> None:
    """A plain function that hands out a coroutine gives the coroutine's value, not its text."""
    assert execution.call(_handed_out, LONG) == 1
    assert execution.call(_handed_out, None) == 1
    assert asyncio.run(execution.acall(_handed_out, LONG)) == 1


def test_under_an_event_loop_sync_functions_run_side_by_side() -> None:
    """However many functions are started together, none waits for another: here each waits for all of them."""
    meeting = threading.Barrier(24, timeout=LONG)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(execution.acall(meeting.wait, None) for _ in range(24)))

    assert sorted(asyncio.run(all_at_once())) == list(range(24))


def test_a_sync_function_does_not_block_the_event_loop() -> None:
    """While a sync function runs, the event loop goes on."""
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
    """Whoever awaits a tool can be cancelled at once: a coroutine is cancelled with it, a thread is left behind."""
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


def test_a_thread_that_ends_after_its_event_loop_is_closed_does_no_harm() -> None:
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
    """When the thread that waits for a coroutine is interrupted, the coroutine is cancelled, not forgotten."""
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
def test_a_forked_child_starts_a_background_loop_of_its_own() -> None:
    """After a fork the parent's event loop is dead in the child, which therefore starts one of its own."""
    assert execution.call(_one, LONG, is_async=True) == 1
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(execution.call, (_one, LONG), {"is_async": True}).get(LONG) == 1


def test_an_async_client_bound_to_its_loop_works_across_calls() -> None:
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


def test_asynchronous_generators_keep_working_inside_a_tool() -> None:
    """A coroutine may use async generators and context managers as anywhere else."""

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
    """Give what was given."""
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
def test_what_is_yielded_comes_as_a_list(function: Any, *, is_async: bool) -> None:
    """Values that come one by one are taken within the time limit, and given together."""
    for seconds in (None, LONG):
        assert execution.call(function, seconds, is_async=is_async) == [0, 1, 2]
        assert asyncio.run(execution.acall(function, seconds, is_async=is_async)) == [0, 1, 2]


def test_an_open_file_is_not_read(tmp_path: Path) -> None:
    """A file gives its lines one by one, but is more than these."""
    place = tmp_path / "a.txt"
    place.write_text("a\nb\n", "utf-8")
    with execution.call(place.open, LONG) as file:
        assert file.read() == "a\nb\n"


def test_who_never_stops_yielding_is_stopped() -> None:
    """Of endless values the first 100,000 are given."""

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
def test_who_yields_long_texts_is_stopped_earlier(value: Any) -> None:
    """Of long values the first 50 MB are given; the generator is closed then, so that it puts away what it opened."""
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
def test_a_generator_is_closed_when_nobody_waits_for_it_any_more(*, is_awaited: bool) -> None:
    """After the timeout no more values are asked for: the generator is closed at the next, and its thread is free."""
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


def test_an_asynchronous_generator_that_blocks_is_closed_when_nobody_waits_for_it_any_more() -> None:
    """One that never lets its event loop go on cannot be cancelled, but is asked for no more values either."""
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


def test_what_a_generator_raises_is_raised_at_the_caller() -> None:
    """Values that came before are not told: the call has failed."""

    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        execution.call(failing, LONG)


def test_what_comes_one_by_one_need_not_be_a_generator() -> None:
    """Any asynchronous iterator is taken; one that cannot be closed is just left."""

    class Countdown:
        """Three, two, one."""

        left = 4

        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            self.left -= 1
            if self.left == 0:
                raise StopAsyncIteration
            return self.left

    assert execution.call(Countdown, LONG) == [3, 2, 1]
