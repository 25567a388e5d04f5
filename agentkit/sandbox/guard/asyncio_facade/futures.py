"""Tasks, futures and the event loop of the `asyncio` facade."""

from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from heapq import heappop, heappush
from itertools import count
from time import monotonic, sleep
from types import CoroutineType
from typing import Any

Step = tuple[Callable[..., object], tuple[Any, ...]]


class CancelledError(BaseException):
    """The task was cancelled."""


class InvalidStateError(Exception):
    """The operation is not allowed in this state."""


class Future:
    """A value that becomes available later."""

    def __init__(self, *, loop: "Loop") -> None:
        self._loop, self._is_done, self._was_cancelled = loop, False, False
        self.value: Any = None
        self.error: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        """Whether it has a value or an error, or was cancelled."""
        return self._is_done

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._was_cancelled

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the future; returns False if it is done."""
        if self._is_done:
            return False
        self._was_cancelled = True
        self.error = CancelledError() if msg is None else CancelledError(msg)
        self._finish()
        return True

    def result(self) -> Any:
        """Return the value or raise the error."""
        if not self._is_done:
            raise InvalidStateError("Result is not ready.")
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self) -> BaseException | None:
        """Return the error, or None."""
        if not self._is_done:
            raise InvalidStateError("Exception is not set.")
        if self._was_cancelled and self.error is not None:
            raise self.error
        return self.error

    def set_result(self, result: Any) -> None:
        """Set the value."""
        self._check_open()
        self.value = result
        self._finish()

    def set_exception(self, exception: Any) -> None:
        """Set the error."""
        self._check_open()
        self.error = exception() if isinstance(exception, type) else exception
        self._finish()

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Call the function with the future when it is done."""
        if self._is_done:
            self._loop.call_soon(fn, self)
        else:
            self._callbacks.append(fn)

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Remove a callback; returns how many were removed."""
        before = len(self._callbacks)
        self._callbacks = [callback for callback in self._callbacks if callback != fn]
        return before - len(self._callbacks)

    def get_loop(self) -> "Loop":
        """Return the event loop."""
        return self._loop

    def _check_open(self) -> None:
        if self._is_done:
            raise InvalidStateError("invalid state")

    def _finish(self) -> None:
        self._is_done = True
        for callback in self._callbacks:
            self._loop.call_soon(callback, self)
        self._callbacks = []

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._is_done:
            yield self
        if not self._is_done:
            raise RuntimeError("await wasn't used with future")
        return self.result()

    __iter__ = __await__


class Task(Future):
    """A coroutine that runs concurrently with others."""

    def __init__(self, coro: Any, *, loop: "Loop", name: Any = None) -> None:
        super().__init__(loop=loop)
        self._coroutine, self._name = coro, str(name or f"Task-{next(loop.numbers)}")
        self._awaited: Future | None = None
        self._must_cancel, self._cancels = False, 0
        self._context = copy_context()
        loop.tasks[self] = None
        loop.call_soon(self._step, None)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def set_name(self, value: object) -> None:
        """Set the name."""
        self._name = str(value)

    def cancel(self, msg: Any = None) -> bool:
        """Throw `CancelledError` into the coroutine when it next resumes."""
        if self._is_done:
            return False
        self._cancels += 1
        if self._awaited is None or not self._awaited.cancel(msg):
            self._must_cancel = True
        return True

    def cancelling(self) -> int:
        """Return the number of cancellations."""
        return self._cancels

    def uncancel(self) -> int:
        """Withdraw one cancellation."""
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def _step(self, error: BaseException | None) -> None:
        if self._is_done:
            return
        if self._must_cancel and not isinstance(error, CancelledError):
            error = CancelledError()
        self._must_cancel, self._awaited = False, None
        before, self._loop.current = self._loop.current, self
        try:
            send, throw = self._coroutine.send, self._coroutine.throw
            asked = self._context.run(*((send, None) if error is None else (throw, error)))
        except StopIteration as ending:
            self._ended(partial(self.set_result, ending.value))
        except CancelledError as ending:
            self.error, self._was_cancelled = ending, True
            self._ended(self._finish)
        except BaseException as failure:
            self._ended(partial(self.set_exception, failure))
            if not isinstance(failure, Exception):
                raise
        else:
            self._wait_for(asked)
        finally:
            self._loop.current = before

    def _ended(self, finish: Callable[[], None]) -> None:
        self._loop.tasks.pop(self, None)
        if self._must_cancel:
            super().cancel()
        else:
            finish()

    def _wait_for(self, asked: Any) -> None:
        if asked is None:
            self._loop.call_soon(self._step, None)
        elif isinstance(asked, Future) and asked is not self:
            self._awaited = asked
            asked.add_done_callback(self._wake)
            if self._must_cancel and asked.cancel():
                self._must_cancel = False
        else:
            self._loop.call_soon(self._step, RuntimeError(f"Task got bad yield: {asked!r}"))

    def _wake(self, asked: Future) -> None:
        self._step(asked.error)


class Loop:
    """Event loop: runs due callbacks one after the other, in the order in which they became due."""

    def __init__(self) -> None:
        self.current: Task | None = None
        self.tasks: dict[Task, None] = {}
        self.numbers = count(1)
        self._ready: deque[Step] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._is_running = self._is_closed = False

    def time(self) -> float:
        """Return the time of a monotonic clock in seconds."""
        return monotonic()

    def is_running(self) -> bool:
        """Whether the loop is running."""
        return self._is_running

    def is_closed(self) -> bool:
        """Whether the loop was closed."""
        return self._is_closed

    def close(self) -> None:
        """Close the loop; it cannot run again."""
        self._is_closed = True

    def create_future(self) -> Future:
        """Create a future of this loop."""
        return Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None) -> Task:
        """Schedule a coroutine as a task."""
        if type(coro) is not CoroutineType:
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        return Task(coro, loop=self, name=name)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call a function in the next iteration."""
        self._ready.append((callback, args))

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> "Timer":
        """Call a function after `delay` seconds."""
        return self.call_at(self.time() + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> "Timer":
        """Call a function at this time of the loop's clock."""
        timer = Timer(when, (callback, args))
        heappush(self._timers, (when, next(self._order), timer))
        return timer

    async def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Call the function directly: there is only one thread."""
        return func(*args)

    def run_until_complete(self, future: Any) -> Any:
        """Run until a coroutine or a future is done; returns its value."""
        if self._is_closed:
            raise RuntimeError("Event loop is closed")
        if self._is_running:
            raise RuntimeError("This event loop is already running")
        awaited = future if isinstance(future, Future) else self.create_task(future)
        self._is_running = True
        try:
            while not awaited.done():
                self._run_once()
        finally:
            self._is_running = False
        return awaited.result()

    def cancel_all(self) -> None:
        """Cancel the remaining tasks and run them to their end."""
        left = list(self.tasks)
        for task in left:
            task.cancel()
        for task in left:
            with suppress(CancelledError, Exception):  # the result is not needed
                self.run_until_complete(task)

    def _run_once(self) -> None:
        self._take_due()
        if not self._ready:
            if not self._timers:
                raise RuntimeError("nothing is left that could wake up what waits")
            sleep(max(0.0, self._timers[0][0] - self.time()))
            self._take_due()
        for _ in range(len(self._ready)):
            callback, arguments = self._ready.popleft()
            callback(*arguments)

    def _take_due(self) -> None:
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= self.time()):
            timer = heappop(self._timers)[2]
            if not timer.cancelled():
                self._ready.append(timer.step)


class Timer:
    """A callback scheduled for a time."""

    def __init__(self, when: float, step: Step) -> None:
        self._when, self.step, self._was_cancelled = when, step, False

    def when(self) -> float:
        """Return the scheduled time of the loop's clock."""
        return self._when

    def cancel(self) -> None:
        """Cancel the callback."""
        self._was_cancelled = True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._was_cancelled


for kind, module in ((CancelledError, "exceptions"), (InvalidStateError, "exceptions"), (Future, ""), (Task, "")):
    kind.__module__ = f"asyncio.{module}" if module else "_asyncio"
