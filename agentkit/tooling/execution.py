"""Execution of tool functions with a timeout, in threads or on an event loop, and the objects that they share."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import io
import os
import queue
import threading
import types
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from agentkit.errors import ToolError, ToolTimeout
from agentkit.tooling.signature import instance_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

GRACE_SECONDS = 1.0
"""Seconds that a cancelled coroutine has for cleanup before it is abandoned."""

IDLE_SECONDS = 10.0
"""Seconds after which an idle thread ends."""

_MAX_VALUES = 100_000
_MAX_LENGTH = 50_000_000
"""Maximum total length, in characters and bytes, of the values of a generator."""

_TEXT_TYPES = (str, bytes, bytearray)
_LIST_TYPES = (list, tuple)
_ENTRY_LENGTH = 8
"""The length counted for each entry of a list or dictionary, in addition to its text."""

_PLAIN_TYPES = frozenset({str, dict, list, int, float, bool, type(None)})
_THREAD_CONTINUES = "its thread could not be stopped and may still be running"
_COROUTINE_STOPPED = "it was cancelled"
_COROUTINE_CONTINUES = "it did not stop when it was cancelled and may still be running"
_CANCELLED_BY_ITSELF = "Its work was cancelled from within (CancelledError), and not by the caller."
_LOOP_IS_BLOCKED = "it blocks its event loop, could not be cancelled and may still be running"

_on_background_loop = contextvars.ContextVar("agentkit_on_own_loop", default=False)
_loops: dict[int, AbstractEventLoop] = {}
_locks: dict[int, threading.Lock] = {}
"""The background event loop and its start lock, by process id: a forked child creates its own."""

_Work = tuple[Callable[[], object], Callable[[], object]]
_idle: dict[int, list[queue.SimpleQueue[_Work]]] = {}
"""The inboxes of idle threads, by process id: a forked child does not have its parent's threads."""


def call(function: Callable[[], Any], timeout_seconds: float | None, *, is_async: bool = False) -> Any:
    """Call the function from synchronous code and await the result if it is awaitable.

    A function with a timeout runs in a daemon thread reserved for it, one without in the caller's thread; coroutines
    run on one background event loop. Context variables are the caller's. The values of a generator are returned as a
    list, up to 100,000 values or 50 MB of text; the generator is then closed. Raises ToolTimeout.
    """
    collecting = _CollectingCall(function)
    in_thread = timeout_seconds is not None and not is_async
    try:
        value = _call_in_thread(collecting, timeout_seconds) if in_thread else collecting()
        return _wait_for(value, timeout_seconds) if inspect.isawaitable(value) else value
    except BaseException as error:
        if _is_cancellation(error):  # synchronous code cannot be cancelled from outside
            raise ToolError(_CANCELLED_BY_ITSELF) from error
        raise
    finally:
        collecting.is_done = True


async def acall(function: Callable[[], Any], timeout_seconds: float | None, *, is_async: bool = False) -> Any:
    """Call the function and await the result if it is awaitable, without blocking the event loop.

    A coroutine runs on the caller's event loop and is cancelled on timeout or together with its caller; any other
    function runs in a daemon thread reserved for it. The values of a generator are returned as a list, up to 100,000
    values or 50 MB of text; the generator is then closed. Raises ToolTimeout.
    """
    collecting = _CollectingCall(function)
    try:
        value = collecting() if is_async else await _acall_in_thread(collecting, timeout_seconds)
        return await _await_with_timeout(value, timeout_seconds) if inspect.isawaitable(value) else value
    finally:
        collecting.is_done = True


class _CollectingCall:
    """A call that collects generator values in a list, up to the limits or until the caller stops waiting."""

    __slots__ = ("_function", "is_done")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.is_done = False

    def __call__(self) -> Any:
        """Return the value of the function, or a coroutine for it."""
        value = self._function()
        if type(value) in _PLAIN_TYPES:
            return value
        if inspect.isawaitable(value):
            return self._await(value)
        return self._collect_async(value) if isinstance(value, AsyncIterator) else self._collect(value)

    async def _await(self, awaitable: Awaitable[Any]) -> Any:
        value = await awaitable
        return await self._collect_async(value) if isinstance(value, AsyncIterator) else self._collect(value)

    def _collect(self, values: Any) -> Any:
        if not isinstance(values, Iterator) or isinstance(values, io.IOBase):
            return values
        values_so_far, length_left = list[Any](), _MAX_LENGTH
        try:
            for value in values:
                values_so_far.append(value)
                length_left -= _length(value)
                if self._is_full(values_so_far, length_left):
                    break
        finally:
            if isinstance(values, Generator):
                values.close()
        return values_so_far

    async def _collect_async(self, values: AsyncIterator[Any]) -> list[Any]:
        values_so_far, length_left = list[Any](), _MAX_LENGTH
        try:
            async for value in values:
                values_so_far.append(value)
                length_left -= _length(value)
                if self._is_full(values_so_far, length_left):
                    break
        finally:
            if isinstance(values, AsyncGenerator):
                await values.aclose()
        return values_so_far

    def _is_full(self, values_so_far: list[Any], length_left: int) -> bool:
        return self.is_done or length_left <= 0 or len(values_so_far) == _MAX_VALUES


def _length(value: Any) -> int:
    """Return a cheap estimate of a value's size: the length of its text, or of its entries."""
    if isinstance(value, _TEXT_TYPES):
        return len(value)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, _LIST_TYPES):
        return 0
    return _ENTRY_LENGTH * len(value) + sum(len(each) for each in value if type(each) in _TEXT_TYPES)


def _no_callback() -> None:
    """Do nothing; the default for `on_done`."""


def start(work: Callable[[], object], on_done: Callable[[], object] = _no_callback) -> None:
    """Run work in an idle daemon thread, or a new one if all are busy, so that it never queues.

    `work` and `on_done`, which is called once the thread is idle again, must not raise. Starting a thread takes three
    times as long as waking one.
    """
    idle = _idle.setdefault(os.getpid(), [])
    try:
        inbox = idle.pop()
    except IndexError:
        inbox = queue.SimpleQueue()
        threading.Thread(target=_run_jobs, args=(inbox, idle), name="agentkit-tool", daemon=True).start()
    inbox.put((work, on_done))


def _run_jobs(
    inbox: queue.SimpleQueue[_Work], idle: list[queue.SimpleQueue[_Work]], idle_seconds: float = IDLE_SECONDS
) -> None:
    """Process work items until none arrives for `idle_seconds`."""
    while True:
        try:
            work, on_done = inbox.get(timeout=idle_seconds)
        except queue.Empty:
            if _retire(inbox, idle):
                return
            continue
        work()
        idle.append(inbox)
        on_done()
        del work, on_done  # the references must not outlive the work while the thread waits


def _retire(inbox: queue.SimpleQueue[_Work], idle: list[queue.SimpleQueue[_Work]]) -> bool:
    """Retire the inbox; False if a caller has just taken it and is about to put work in."""
    try:
        idle.remove(inbox)
    except ValueError:
        return False
    return True


def _is_cancellation(error: BaseException) -> bool:
    """Whether an error is asyncio's CancelledError, judged by name so that asyncio is not imported."""
    return not isinstance(error, Exception) and type(error).__name__ == "CancelledError"


class _Outcome:
    """The result of work done in another thread or task.

    As a context manager it captures the exception; `get` raises it for the caller.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self._error: BaseException | None = None

    def __enter__(self) -> None:
        """Enter the block whose exception is captured."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self._error = error
        return True

    def get(self) -> Any:
        if self._error is None:
            return self.value
        try:
            if _is_cancellation(self._error):
                raise ToolError(_CANCELLED_BY_ITSELF) from self._error
            raise self._error
        finally:
            self._error = None


def _start_in_thread(function: Callable[[], Any], on_done: Callable[[], object]) -> _Outcome:
    outcome = _Outcome()
    context = contextvars.copy_context()

    def work() -> None:
        with outcome:
            outcome.value = context.run(function)

    start(work, on_done)
    return outcome


def _call_in_thread(function: Callable[[], Any], timeout_seconds: float | None) -> Any:
    done = threading.Lock()  # cheaper than an Event, which takes several locks
    done.acquire()
    outcome = _start_in_thread(function, done.release)
    if not done.acquire(timeout=-1 if timeout_seconds is None else min(timeout_seconds, threading.TIMEOUT_MAX)):
        raise _timeout(timeout_seconds, _THREAD_CONTINUES)
    return outcome.get()


async def _acall_in_thread(function: Callable[[], Any], timeout_seconds: float | None) -> Any:
    import asyncio

    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def on_done() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, so the caller is gone
            loop.call_soon_threadsafe(done.set)

    outcome = _start_in_thread(function, on_done)
    try:
        async with asyncio.timeout(timeout_seconds):
            await done.wait()
    except TimeoutError:
        raise _timeout(timeout_seconds, _THREAD_CONTINUES) from None
    return outcome.get()


async def _await_with_timeout(awaitable: Awaitable[Any], timeout_seconds: float | None) -> Any:
    import asyncio

    if timeout_seconds is None:
        return await _await_directly(awaitable)
    outcome = _Outcome()
    task = asyncio.ensure_future(_await_into(awaitable, outcome))
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_seconds)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    if done:
        return outcome.get()
    raise _timeout(timeout_seconds, _COROUTINE_STOPPED if await _cancel(task) else _COROUTINE_CONTINUES)


async def _await_directly(awaitable: Awaitable[Any]) -> Any:
    """Await in the caller's task. A CancelledError that nobody requested of this task is the tool's own failure."""
    import asyncio

    try:
        return await awaitable
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ToolError(_CANCELLED_BY_ITSELF) from error


async def _await_into(awaitable: Awaitable[Any], outcome: _Outcome) -> None:
    """Await inside the outcome: a SystemExit that escaped a task would end the event loop."""
    with outcome:
        outcome.value = await awaitable


async def _cancel(task: Task[Any]) -> bool:
    """Cancel a task and give it GRACE_SECONDS to clean up; return whether it has ended."""
    import asyncio

    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=GRACE_SECONDS)
    return bool(done)


def _wait_for(awaitable: Awaitable[Any], timeout_seconds: float | None) -> Any:
    import asyncio

    outcome = _Outcome()

    async def work() -> None:
        _on_background_loop.set(True)
        await _await_into(_await_with_timeout(awaitable, timeout_seconds), outcome)

    if _on_background_loop.get():  # that loop is blocked waiting for this call: use a new one
        _call_in_thread(lambda: asyncio.run(work()), None)
        return outcome.get()
    future = asyncio.run_coroutine_threadsafe(work(), _background_loop())
    try:
        future.result(_capped_timeout(timeout_seconds, 2 * GRACE_SECONDS))
    except TimeoutError:
        _loops.pop(os.getpid(), None)
        raise _timeout(timeout_seconds, _LOOP_IS_BLOCKED) from None
    finally:
        future.cancel()
    return outcome.get()


def _background_loop() -> AbstractEventLoop:
    import asyncio

    process = os.getpid()
    with _locks.setdefault(process, threading.Lock()):
        if process not in _loops:
            _loops[process] = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=[_loops[process]], name="agentkit-async", daemon=True).start()
        return _loops[process]


def _serve(loop: AbstractEventLoop) -> NoReturn:
    while True:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):  # raised in a task that a tool started
            loop.run_forever()


def shortest(*seconds: float | None) -> float | None:
    """Return the shortest of the given time limits, or None without any."""
    return min((limit for limit in seconds if limit is not None), default=None)


def _capped_timeout(timeout_seconds: float | None, extra_seconds: float = 0.0) -> float | None:
    return None if timeout_seconds is None else min(timeout_seconds + extra_seconds, threading.TIMEOUT_MAX)


def _timeout(timeout_seconds: float | None, thread_state: str) -> ToolTimeout:
    return ToolTimeout(f"It did not finish within {timeout_seconds:g} seconds; {thread_state}.")


_MAX_INSPECTED = 100
_CONCURRENT = ("_thread", "threading", "queue", "_queue", "concurrent", "asyncio", "multiprocessing")
"""Modules of synchronisation objects: a function that holds one is assumed to be thread-safe."""

_ATTRIBUTES = ("__dict__", "__pydantic_private__")
"""Attributes that hold the functions called by an object."""

_IMMUTABLE = (type, types.NoneType, types.EllipsisType, types.ModuleType, types.MethodWrapperType)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)


def shared_objects(function: Callable[..., Any]) -> list[object]:
    """The mutable objects that a function is called on.

    For a method this is its object; otherwise the arguments of partials, a callable object, and the objects that
    functions in these or in the closure are called on. Other closure variables and module globals are ignored: they
    often hold a client that is designed for concurrent use. A function that holds a lock or similar is assumed to be
    thread-safe, as are those of this package: they share nothing.
    """
    owner = instance_of(function)
    return _objects_used(function) if owner is None else [owner]


def _objects_used(function: Callable[..., Any]) -> list[object]:
    found: list[object] = []
    pending: list[object] = [function]
    for position in range(_MAX_INSPECTED):
        if position == len(pending):
            break
        value = pending[position]
        if _is_concurrent(value) or _is_of_this_package(value):
            return []
        pending += [inner for inner in _referenced_objects(value) if not any(inner is each for each in pending)]
        found += [value] if _is_mutable(value) else []
    return found


def _is_concurrent(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in _CONCURRENT


def _is_of_this_package(value: object) -> bool:
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]


def _referenced_objects(value: object) -> Iterator[object]:
    """The objects that a function, a method, a partial or a callable object uses."""
    match value:
        case functools.partial():
            yield from (value.func, *value.args, *value.keywords.values())
        case types.FunctionType():
            cells = _cell_contents(value.__closure__ or ())
            yield from (inner for inner in cells if isinstance(inner, _FUNCTIONS) or _is_concurrent(inner))
        case types.MethodType():
            yield from (value.__func__, value.__self__)
        case types.BuiltinMethodType():
            yield value.__self__
        case tuple():
            yield from value
        case _ if callable(value) and not isinstance(value, type):
            attributes = (getattr(value, name, None) or {} for name in _ATTRIBUTES)
            yield from (inner for group in attributes for inner in group.values() if isinstance(inner, _FUNCTIONS))


def _cell_contents(cells: tuple[types.CellType, ...]) -> Iterator[object]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue


def _is_mutable(value: object) -> bool:
    """Whether a value is a mutable object: values that are compared by content and hashable are immutable."""
    if isinstance(value, _IMMUTABLE + _FUNCTIONS) or type(value) is object:
        return False
    return type(value).__hash__ in (None, object.__hash__)
