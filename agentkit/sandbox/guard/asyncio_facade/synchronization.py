"""Queues, locks, events and timeouts of the `asyncio` facade."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Self

from agentkit.sandbox.guard.asyncio_facade.futures import CancelledError, Future, Loop, Timer


class QueueEmpty(Exception):
    """The queue is empty."""


class QueueFull(Exception):
    """The queue is full."""


class Waiting:
    """Base class of objects with waiting coroutines in FIFO order.

    The subclass created for a run has access to its loop.
    """

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
        """Handle a waiter that was woken and cancelled at once: wake the next one."""
        self._wake(waiters)

    def _wake(self, waiters: deque[Future] | None = None) -> None:
        line = self._waiters if waiters is None else waiters
        while line:
            waiter = line.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return


class Event(Waiting):
    """An event that wakes all waiting coroutines."""

    def __init__(self) -> None:
        super().__init__()
        self._has_happened = False

    def is_set(self) -> bool:
        """Whether the event is set."""
        return self._has_happened

    def set(self) -> None:
        """Set the event."""
        self._has_happened = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(True)

    def clear(self) -> None:
        """Reset the event."""
        self._has_happened = False

    async def wait(self) -> bool:
        """Wait until the event is set."""
        if not self._has_happened:
            await self._wait()
        return True


class Semaphore(Waiting):
    """Limits the number of concurrent holders."""

    _is_bounded = False

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("Semaphore initial value must be >= 0")
        super().__init__()
        self._value = self._most = value

    def locked(self) -> bool:
        """Whether it cannot be acquired immediately."""
        return self._value == 0 or any(not waiter.cancelled() for waiter in self._waiters)

    async def acquire(self) -> bool:
        """Wait until it is available and acquire it."""
        if not self.locked():
            self._value -= 1
            return True
        await self._wait()
        return True

    def _missed(self, _waiters: deque[Future]) -> None:
        self.release()

    def release(self) -> None:
        """Release it."""
        if self._is_bounded and self._value >= self._most:
            raise ValueError("BoundedSemaphore released too many times")
        if any(not waiter.done() for waiter in self._waiters):
            self._wake()  # passed directly to the waiter
        else:
            self._value += 1

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """A semaphore that cannot be released more often than acquired."""

    _is_bounded = True


class Lock(Semaphore):
    """A mutual exclusion lock."""

    def __init__(self) -> None:
        super().__init__(1)

    def release(self) -> None:
        """Release the lock."""
        if self._value:
            raise RuntimeError("Lock is not acquired.")
        super().release()


class Condition(Waiting):
    """A lock with notifications."""

    def __init__(self, lock: Any = None) -> None:
        super().__init__()
        self._lock = self._new_lock() if lock is None else lock
        self.locked, self.acquire, self.release = self._lock.locked, self._lock.acquire, self._lock.release

    async def wait(self) -> bool:
        """Release the lock until notified, then acquire it again."""
        if not self.locked():
            raise RuntimeError("cannot wait on un-acquired lock")
        self.release()
        try:
            await self._wait()
        finally:
            await self.acquire()
        return True

    async def wait_for(self, predicate: Callable[[], Any]) -> Any:
        """Wait until the predicate is true."""
        while not (result := predicate()):
            await self.wait()
        return result

    def notify(self, n: int = 1) -> None:
        """Wake `n` waiting coroutines."""
        for _ in range(n):
            self._wake()

    def notify_all(self) -> None:
        """Wake all waiting coroutines."""
        self.notify(len(self._waiters))

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


class Queue(Waiting):
    """A FIFO queue between coroutines."""

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
        """Maximum number of items; 0 for unlimited."""
        return self._most

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._held)

    def empty(self) -> bool:
        """Whether the queue is empty."""
        return not self._held

    def full(self) -> bool:
        """Whether the queue is full."""
        return 0 < self._most <= len(self._held)

    async def put(self, item: Any) -> None:
        """Add an item, waiting for a free slot."""
        while self.full():
            await self._wait(self._putters)
        self.put_nowait(item)

    def put_nowait(self, item: Any) -> None:
        """Add an item; raises QueueFull."""
        if self.full():
            raise QueueFull
        self._put(item)
        self._unfinished += 1
        self._wake()

    async def get(self) -> Any:
        """Remove and return an item, waiting for one."""
        while self.empty():
            await self._wait()
        return self.get_nowait()

    def get_nowait(self) -> Any:
        """Remove and return an item; raises QueueEmpty."""
        if self.empty():
            raise QueueEmpty
        item = self._get()
        self._wake(self._putters)
        return item

    def task_done(self) -> None:
        """Mark one removed item as processed."""
        if self._unfinished <= 0:
            raise ValueError("task_done() called too many times")
        self._unfinished -= 1
        while not self._unfinished and self._joining:
            self._wake(self._joining)

    async def join(self) -> None:
        """Wait until all items are processed."""
        if self._unfinished:
            await self._wait(self._joining)


class LifoQueue(Queue):
    """A queue that returns the last item first."""

    def _get(self) -> Any:
        return self._held.pop()


class PriorityQueue(Queue):
    """A queue that returns the smallest item first."""

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
        """Return the deadline of the loop's clock."""
        return self._when

    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self._is_over

    def reschedule(self, when: float | None) -> None:
        """Change the deadline."""
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
    """A group of tasks that finish together: the first failure cancels the others."""

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
        """Schedule a coroutine as a task that finishes before the group does."""
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
            if not self._waiters:  # the body is still running
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
    """Create the classes for one run, and return them with the errors."""
    made: dict[str, Any] = {}
    told = {"_running": lambda _: running(), "_new_lock": lambda _: made["Lock"](), "__module__": "asyncio"}
    for kind in KINDS:
        made[kind.__name__] = type(kind.__name__, (kind,), {**told, "__doc__": kind.__doc__})
    return {**made, "QueueEmpty": QueueEmpty, "QueueFull": QueueFull}
