"""The `asyncio` facade: `run`, `sleep`, `gather` and `create_task`, and the event loop behind them."""

import heapq
import time
from collections import deque
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from itertools import count
from types import CoroutineType
from typing import Any, NamedTuple


class _Sleep(NamedTuple):
    """Wait until a time of the monotonic clock."""

    until: float

    def __await__(self) -> Generator[Any, None, None]:
        yield self


class _FirstOf(list["Task"]):
    """Wait until one of these tasks is done."""

    def __await__(self) -> Generator[Any, None, None]:
        yield self


class Task:
    """A scheduled coroutine, which can be awaited."""

    def __init__(self, coroutine: Any, loop: "_Loop") -> None:
        self._coroutine, self._loop, self._context = coroutine, loop, copy_context()
        self._is_done = False
        self._value: Any = None
        self.error: Exception | None = None
        self.waits_for: object = None
        self.waiters: list[tuple[Task, object]] = []

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._is_done:
            yield _FirstOf([self])
        return self.result()

    def done(self) -> bool:
        """Whether the coroutine has finished."""
        return self._is_done

    def result(self) -> Any:
        """Return the value of the coroutine, or raise its error."""
        if not self._is_done:
            raise RuntimeError("Result is not set.")
        if self.error is not None:
            raise self.error
        return self._value

    def close(self) -> None:
        """End the coroutine where it waits."""
        self._coroutine.close()

    def step(self) -> None:
        """Run the coroutine until it waits or ends."""
        try:
            awaited = self._context.run(self._coroutine.send, None)
        except StopIteration as end:
            self._finish(end.value, None)
        except Exception as error:
            self._finish(None, error)
        else:
            self._loop.park(self, awaited)

    def _finish(self, value: Any, error: Exception | None) -> None:
        self._is_done, self._value, self.error = True, value, error
        for task, reason in self.waiters:
            if task.waits_for is reason:
                self._loop.resume(task)


class _Loop:
    """Runs tasks in turn, in the order in which they can continue."""

    def __init__(self) -> None:
        self._ready: deque[Task] = deque()
        self._sleeping: list[tuple[float, int, Task]] = []
        self._tasks: list[Task] = []
        self._numbers = count()

    def add(self, coroutine: Any) -> Task:
        """Schedule a coroutine."""
        task = Task(coroutine, self)
        self._tasks.append(task)
        self._ready.append(task)
        return task

    def resume(self, task: Task) -> None:
        """Schedule the next step of a task."""
        task.waits_for = None
        self._ready.append(task)

    def park(self, task: Task, awaited: Any) -> None:
        """Resume a task once what it awaits has happened. Raises RuntimeError for anything foreign to this loop."""
        task.waits_for = awaited
        if awaited is None:
            self.resume(task)
        elif type(awaited) is _Sleep:
            heapq.heappush(self._sleeping, (awaited.until, next(self._numbers), task))
        elif type(awaited) is _FirstOf:
            for each in awaited:
                each.waiters.append((task, awaited))
        else:
            raise RuntimeError(f"Task got bad yield: {awaited!r}")

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine to completion, and close the others."""
        task = self.add(coroutine)
        try:
            while not task.done():
                self._wake()
                self._ready.popleft().step()
            return task.result()
        finally:
            for each in self._tasks:
                each.close()

    def _wake(self) -> None:
        """Resume the tasks whose time has come, after a pause if no other task can continue."""
        if not (self._ready or self._sleeping):
            raise RuntimeError("The tasks wait for each other, so none of them can continue.")
        while self._sleeping and (not self._ready or self._sleeping[0][0] <= time.monotonic()):
            until, _, task = heapq.heappop(self._sleeping)
            time.sleep(max(0.0, until - time.monotonic()))
            self.resume(task)


class Coroutines:
    """The functions of the module, for one run."""

    def __init__(self) -> None:
        self._loop: _Loop | None = None

    def names(self) -> dict[str, Any]:
        """The names of the module."""
        return {name: getattr(self, name) for name in ("create_task", "gather", "run", "sleep")}

    def run(self, main: Any, **_: Any) -> Any:
        """Run a coroutine to completion; other tasks that are still running are closed."""
        if self._loop is not None:
            raise RuntimeError("asyncio.run() cannot be called from a running event loop")
        if type(main) is not CoroutineType:
            raise ValueError(f"a coroutine was expected, got {main!r}")
        self._loop = _Loop()
        try:
            return self._loop.run(main)
        finally:
            self._loop = None

    def create_task(self, coro: Any, **_: Any) -> Task:
        """Schedule a coroutine as a task."""
        if self._loop is None:
            raise RuntimeError("no running event loop")
        if type(coro) is not CoroutineType:
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        return self._loop.add(coro)

    async def sleep(self, delay: float, result: Any = None) -> Any:
        """Wait for `delay` seconds."""
        await _Sleep(time.monotonic() + max(0.0, delay))
        return result

    def gather(self, *coros_or_futures: Any, return_exceptions: bool = False) -> Coroutine[Any, Any, list[Any]]:
        """Schedule coroutines; awaiting the result returns their values in the given order."""
        tasks = [each if type(each) is Task else self.create_task(each) for each in coros_or_futures]
        return _gathered(tasks, return_exceptions=return_exceptions)


async def _gathered(tasks: list[Task], *, return_exceptions: bool) -> list[Any]:
    while waiting := _FirstOf(task for task in tasks if not task.done()):
        await waiting
        if not return_exceptions:
            for task in tasks:
                if task.done():
                    task.result()  # raises its error
    return [task.error if return_exceptions and task.error else task.result() for task in tasks]
