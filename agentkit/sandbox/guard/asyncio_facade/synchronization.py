"""Queues, locks, events and timeouts of the `asyncio` facade."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Self

from agentkit.sandbox.guard.asyncio_facade.futures import CancelledError, Future, Loop, Timer


class QueueEmpty(Exception):
    """There is nothing in the queue."""


class QueueFull(Exception):
    """There is no room in the queue."""


class Waiting:
    """What coroutines wait at, in the order in which they came. The class that a run makes of one knows its loop."""

    _running: Callable[[], Loop]
    _new_lock: Callable[[], "Lock"]

    def __init__(self) -> None:
        self._waiters: deque[Future] = deque()

    async def _wait(self, waiters: deque[Future] | None = None) -> Any:
        line = self._waiters if waiters is None else waiters
        waiter = self._running().create_future()
        line.append(waiter)
        try:
            return await waiter
        except CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._missed(line)
            raise
        finally:
            if waiter in line:
                line.remove(waiter)

    def _missed(self, waiters: deque[Future]) -> None:
        """One was woken and cancelled at once: it is the next one's turn."""
        self._wake(waiters)

    def _wake(self, waiters: deque[Future] | None = None) -> None:
        line = self._waiters if waiters is None else waiters
        while line:
            waiter = line.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return


class Event(Waiting):
    """Something that happens once for all who wait."""

    def __init__(self) -> None:
        super().__init__()
        self._has_happened = False

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._has_happened

    def set(self) -> None:
        """Let it happen."""
        self._has_happened = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(True)

    def clear(self) -> None:
        """Let it be still to come."""
        self._has_happened = False

    async def wait(self) -> bool:
        """Wait until it happens."""
        if not self._has_happened:
            await self._wait()
        return True


class Semaphore(Waiting):
    """Lets so many in at a time."""

    _is_bounded = False

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("Semaphore initial value must be >= 0")
        super().__init__()
        self._value = self._most = value

    def locked(self) -> bool:
        """Whether nobody is let in now."""
        return self._value == 0 or any(not waiter.cancelled() for waiter in self._waiters)

    async def acquire(self) -> bool:
        """Wait until there is room."""
        if not self.locked():
            self._value -= 1
            return True
        await self._wait()
        return True

    def _missed(self, _waiters: deque[Future]) -> None:
        self.release()

    def release(self) -> None:
        """Make room for another."""
        if self._is_bounded and self._value >= self._most:
            raise ValueError("BoundedSemaphore released too many times")
        if any(not waiter.done() for waiter in self._waiters):
            self._wake()  # the room goes to the one that waits
        else:
            self._value += 1

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """Lets so many in at a time, and no more than that out."""

    _is_bounded = True


class Lock(Semaphore):
    """Lets one in at a time."""

    def __init__(self) -> None:
        super().__init__(1)

    def release(self) -> None:
        """Let the next one in."""
        if self._value:
            raise RuntimeError("Lock is not acquired.")
        super().release()


class Condition(Waiting):
    """A lock, and something that others tell of."""

    def __init__(self, lock: Any = None) -> None:
        super().__init__()
        self._lock = self._new_lock() if lock is None else lock
        self.locked, self.acquire, self.release = self._lock.locked, self._lock.acquire, self._lock.release

    async def wait(self) -> bool:
        """Let go of the lock until somebody tells."""
        if not self.locked():
            raise RuntimeError("cannot wait on un-acquired lock")
        self.release()
        try:
            await self._wait()
        finally:
            await self.acquire()
        return True

    async def wait_for(self, predicate: Callable[[], Any]) -> Any:
        """Wait until something is true."""
        while not (result := predicate()):
            await self.wait()
        return result

    def notify(self, n: int = 1) -> None:
        """Tell so many of those who wait."""
        for _ in range(n):
            self._wake()

    def notify_all(self) -> None:
        """Tell all who wait."""
        self.notify(len(self._waiters))

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


class Queue(Waiting):
    """What one coroutine hands to another."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__()
        self._most, self._unfinished = maxsize, 0
        self._putters: deque[Future] = deque()
        self._joining: deque[Future] = deque()
        self._held: Any = deque()

    def _put(self, item: Any) -> None:
        self._held.append(item)

    def _get(self) -> Any:
        return self._held.popleft()

    @property
    def maxsize(self) -> int:
        """How many it holds; 0 for any number."""
        return self._most

    def qsize(self) -> int:
        """How many are in it."""
        return len(self._held)

    def empty(self) -> bool:
        """Whether there are none."""
        return not self._held

    def full(self) -> bool:
        """Whether there is no room."""
        return 0 < self._most <= len(self._held)

    async def put(self, item: Any) -> None:
        """Put one in, when there is room."""
        while self.full():
            await self._wait(self._putters)
        self.put_nowait(item)

    def put_nowait(self, item: Any) -> None:
        """Put one in; raises QueueFull."""
        if self.full():
            raise QueueFull
        self._put(item)
        self._unfinished += 1
        self._wake()

    async def get(self) -> Any:
        """Take one out, when there is one."""
        while self.empty():
            await self._wait()
        return self.get_nowait()

    def get_nowait(self) -> Any:
        """Take one out; raises QueueEmpty."""
        if self.empty():
            raise QueueEmpty
        item = self._get()
        self._wake(self._putters)
        return item

    def task_done(self) -> None:
        """Say that one that was taken out is dealt with."""
        if self._unfinished <= 0:
            raise ValueError("task_done() called too many times")
        self._unfinished -= 1
        while not self._unfinished and self._joining:
            self._wake(self._joining)

    async def join(self) -> None:
        """Wait until all are dealt with."""
        if self._unfinished:
            await self._wait(self._joining)


class LifoQueue(Queue):
    """A queue that hands out the last one first."""

    def _get(self) -> Any:
        return self._held.pop()


class PriorityQueue(Queue):
    """A queue that hands out the smallest first."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        self._held = []

    def _put(self, item: Any) -> None:
        heappush(self._held, item)

    def _get(self) -> Any:
        return heappop(self._held)


class Timeout(Waiting):
    """Cancels the task that entered it when the time is over."""

    def __init__(self, when: float | None) -> None:
        super().__init__()
        self._when, self._timer, self._is_over = when, Timer(0, (print, ())), False
        self._task: Any = None

    def when(self) -> float | None:
        """When it is over, on the loop's clock."""
        return self._when

    def expired(self) -> bool:
        """Whether it is over."""
        return self._is_over

    def reschedule(self, when: float | None) -> None:
        """Let it be over at another time."""
        self._timer.cancel()
        self._when = when
        if when is not None:
            self._timer = self._running().call_at(when, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    async def __aenter__(self) -> Self:
        self._task = self._running().current
        if self._task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self.reschedule(self._when)
        return self

    async def __aexit__(self, kind: Any, error: Any, _: object) -> None:
        self._timer.cancel()
        if self._is_over and self._task.uncancel() <= 0 and kind is not None and issubclass(kind, CancelledError):
            raise TimeoutError from error


class TaskGroup(Waiting):
    """Tasks that end together: the first that fails cancels the others."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: list[Any] = []
        self._errors: list[BaseException] = []
        self._parent: Any = None
        self._is_stopping = False

    async def __aenter__(self) -> Self:
        self._parent = self._running().current
        return self

    def create_task(self, coro: Any, *, name: Any = None) -> Any:
        """Run a coroutine beside others until the group ends."""
        task = self._running().create_task(coro, name=name)
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: Any) -> None:
        self._tasks.remove(task)
        failed = not task.cancelled() and task.exception() is not None
        if failed:
            self._errors.append(task.exception())
            self._stop()
        if not self._tasks:
            self._wake()

    def _stop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            for task in self._tasks:
                task.cancel()
            if not self._waiters:  # the body still runs
                self._parent.cancel()

    async def __aexit__(self, kind: Any, error: Any, _: object) -> None:
        own_cancel = self._is_stopping and kind is not None and issubclass(kind, CancelledError)
        if own_cancel:
            self._parent.uncancel()
        elif kind is not None and not issubclass(kind, CancelledError):
            self._errors.append(error)
        if kind is not None:
            self._is_stopping = True
            for task in list(self._tasks):
                task.cancel()
        while self._tasks:
            try:
                await self._wait()
            except CancelledError:
                self._stop()
        if self._errors:
            raise BaseExceptionGroup("unhandled errors in a TaskGroup", self._errors)


KINDS = (Event, Semaphore, BoundedSemaphore, Lock, Condition, Queue, LifoQueue, PriorityQueue, Timeout, TaskGroup)


def of_run(running: Callable[[], Loop]) -> dict[str, Any]:
    """These classes and the errors, for one run."""
    made: dict[str, Any] = {}
    told = {"_running": lambda _: running(), "_new_lock": lambda _: made["Lock"](), "__module__": "asyncio"}
    for kind in KINDS:
        made[kind.__name__] = type(kind.__name__, (kind,), {**told, "__doc__": kind.__doc__})
    return {**made, "QueueEmpty": QueueEmpty, "QueueFull": QueueFull}
