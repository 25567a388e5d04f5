"""Coroutines and the functions of the `asyncio` facade."""

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from functools import partial
from types import CoroutineType, FunctionType
from typing import Any

from agentkit.sandbox.guard.asyncio_facade import synchronization
from agentkit.sandbox.guard.asyncio_facade.futures import CancelledError, Future, InvalidStateError, Loop, Task
from agentkit.sandbox.guard.attributes import Guard
from agentkit.sandbox.guard.errors import RefusedCall

FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED = "FIRST_COMPLETED", "FIRST_EXCEPTION", "ALL_COMPLETED"
_IS_COROUTINE = 0x80


class Coroutines:
    """The functions of the module, for one run."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._loop: Loop | None = None
        self._kinds = synchronization.of_run(self.get_running_loop)

    def names(self) -> dict[str, Any]:
        """The names of the module."""
        functions = {name: getattr(self, name) for name in vars(Coroutines) if name != "names" and name[0] != "_"}
        errors = {
            "CancelledError": CancelledError,
            "InvalidStateError": InvalidStateError,
            "TimeoutError": TimeoutError,
        }
        likened = {"Task": self._guard.likeness(Task), "Future": self._guard.likeness(Future)}
        choices = {name: name for name in (FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED)}
        return {**functions, **errors, **likened, **choices, **self._kinds}

    # Loops

    def run(self, main: Any, **_: Any) -> Any:
        """Run a coroutine to completion; tasks that are still running are cancelled."""
        if self._loop is not None and self._loop.is_running():
            raise RuntimeError("asyncio.run() cannot be called from a running event loop")
        if not self.iscoroutine(main):
            raise ValueError(f"a coroutine was expected, got {main!r}")
        loop = self._loop = Loop()
        try:
            return loop.run_until_complete(main)
        finally:
            loop.cancel_all()
            loop.close()
            self._loop = None

    def get_event_loop(self) -> Loop:
        """Return the current loop, creating it if necessary."""
        self._loop = self._loop or Loop()
        return self._loop

    def get_running_loop(self) -> Loop:
        """Return the running loop."""
        if self._loop is None or not self._loop.is_running():
            raise RuntimeError("no running event loop")
        return self._loop

    # Tasks

    def create_task(self, coro: Any, *, name: Any = None) -> Task:
        """Schedule a coroutine as a task."""
        return self.get_running_loop().create_task(coro, name=name)

    def ensure_future(self, coro_or_future: Any) -> Future:
        """Return a future unchanged; wrap a coroutine in a task."""
        if isinstance(coro_or_future, Future):
            return coro_or_future
        loop = self.get_event_loop()
        if self.iscoroutine(coro_or_future):
            return loop.create_task(coro_or_future)
        return loop.create_task(_awaiting(coro_or_future))

    def current_task(self) -> Task | None:
        """Return the running task."""
        return self.get_running_loop().current

    def all_tasks(self) -> set[Task]:
        """Return the tasks that are not done."""
        return set(self.get_running_loop().tasks)

    def iscoroutine(self, obj: Any) -> bool:
        """Whether it is a coroutine object."""
        return type(obj) is CoroutineType

    def iscoroutinefunction(self, func: Any) -> bool:
        """Whether it is an `async def` function."""
        return type(func) is FunctionType and bool(func.__code__.co_flags & _IS_COROUTINE)

    def isfuture(self, obj: Any) -> bool:
        """Whether it is a future."""
        return isinstance(obj, Future)

    # Waiting

    async def sleep(self, delay: float, result: Any = None) -> Any:
        """Wait for `delay` seconds."""
        if delay <= 0:
            await _Turn()
            return result
        loop = self.get_running_loop()
        future = loop.create_future()
        timer = loop.call_later(delay, _give, future, result)
        try:
            return await future
        finally:
            timer.cancel()

    def wait_for(self, fut: Any, timeout: float | None) -> Coroutine[Any, Any, Any]:
        """Wait for at most `timeout` seconds; raises TimeoutError."""
        return self._within(fut, timeout)

    async def _within(self, awaited: Any, seconds: float | None) -> Any:
        if seconds is None:
            return await awaited
        async with self.timeout(seconds):
            return await self.ensure_future(awaited)

    def timeout(self, delay: float | None) -> Any:
        """Cancel the body of a `with` block after `delay` seconds."""
        return self._kinds["Timeout"](None if delay is None else self.get_running_loop().time() + delay)

    def timeout_at(self, when: float | None) -> Any:
        """Cancel the body of a `with` block at a time of the loop's clock."""
        return self._kinds["Timeout"](when)

    def gather(self, *coros_or_futures: Any, return_exceptions: bool = False) -> Future:
        """Wait for all awaitables; returns their values in the given order."""
        made: dict[int, Future] = {}
        futures = [made.setdefault(id(each), self.ensure_future(each)) for each in coros_or_futures]
        outer = _Gathered(futures, loop=self.get_event_loop())

        def ended(future: Future) -> None:
            failed = future.cancelled() or future.exception() is not None
            if failed and not return_exceptions and not outer.done():
                outer.fail(future)
            elif all(each.done() for each in futures) and not outer.done():
                outer.succeed()

        for future in made.values():
            future.add_done_callback(ended)
        if not futures:
            outer.set_result([])
        return outer

    def wait(
        self, fs: Iterable[Any], *, timeout: float | None = None, return_when: str = ALL_COMPLETED
    ) -> Coroutine[Any, Any, tuple[set[Any], set[Any]]]:
        """Wait for some or all awaitables; returns those that are done and the others."""
        return self._some(fs, timeout, return_when)

    async def _some(self, given: Iterable[Any], seconds: float | None, return_when: str) -> tuple[set[Any], set[Any]]:
        futures = list(dict.fromkeys(given))
        if any(self.iscoroutine(future) for future in futures):
            raise TypeError("Passing coroutines is forbidden, use tasks explicitly.")
        if not futures:
            raise ValueError("Set of Tasks/Futures is empty.")
        over = self.get_running_loop().create_future()

        def check(_: object = None) -> None:
            done = [future for future in futures if future.done()]
            failed = [future for future in done if not future.cancelled() and future.exception() is not None]
            enough = {FIRST_COMPLETED: done, FIRST_EXCEPTION: failed}.get(return_when)
            if not over.done() and (enough or len(done) == len(futures)):
                over.set_result(None)

        for future in futures:
            future.add_done_callback(check)
        check()
        timer = None if seconds is None else self.get_running_loop().call_later(seconds, _give, over, None)
        await over
        if timer:
            timer.cancel()
        done = {future for future in futures if future.done()}
        return done, set(futures) - done

    def as_completed(self, fs: Iterable[Any], *, timeout: float | None = None) -> Iterator[Coroutine[Any, Any, Any]]:
        """Yield an awaitable for each result, in order of completion."""
        futures = [self.ensure_future(each) for each in dict.fromkeys(fs)]
        ended = self._kinds["Queue"]()
        for future in futures:
            future.add_done_callback(ended.put_nowait)

        async def following() -> Any:
            taken = await self.wait_for(ended.get(), timeout)
            return taken.result()

        for _ in futures:
            yield following()

    async def shield(self, arg: Any) -> Any:
        """Wait for an awaitable without cancelling it when the wait is cancelled."""
        inner = self.ensure_future(arg)
        outer = self.get_running_loop().create_future()
        inner.add_done_callback(partial(_pass_on, outer))
        return await outer

    async def to_thread(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly: there is only one thread."""
        return func(*args, **kwargs)

    def start_server(self, *_: Any, **__: Any) -> Any:
        """Refuse: there is no network."""
        raise RefusedCall("asyncio has no network here", "web pages are fetched with fetch_url")

    open_connection = start_server


class _Turn:
    def __await__(self) -> Generator[None, None, None]:
        yield


class _Gathered(Future):
    def __init__(self, futures: list[Future], *, loop: Loop) -> None:
        super().__init__(loop=loop)
        self._futures, self._is_cancelling = futures, False

    def cancel(self, msg: Any = None) -> bool:
        """Cancel all gathered futures."""
        if self._is_done:
            return False
        cancelled = [future.cancel(msg) for future in self._futures]
        self._is_cancelling = any(cancelled)
        return self._is_cancelling

    def fail(self, future: Future) -> None:
        """Finish with the error or cancellation of one of the futures."""
        self._was_cancelled, self.error = future.cancelled(), future.error
        self._finish()

    def succeed(self) -> None:
        """Finish with the results of all futures."""
        if self._is_cancelling:
            super().cancel()
        else:
            self.set_result([each.value if each.error is None else each.error for each in self._futures])


def _give(future: Future, value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _pass_on(outer: Future, inner: Future) -> None:
    if outer.done():
        return
    if inner.cancelled():
        outer.cancel()
    elif (error := inner.exception()) is not None:
        outer.set_exception(error)
    else:
        outer.set_result(inner.result())


async def _awaiting(awaitable: Any) -> Any:
    return await awaitable
