"""The tasks of a worker, composed from the functions of an adapter."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import workload

Work = Callable[[], Any]
Task = dict[str, Any]


class MissingError(Exception):
    """The library does not support a task."""


def serve(name: str) -> None:
    """Answer lines until the input ends. The output of the library is discarded."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with asyncio.Runner() as runner:
        bench = Bench(name, runner)
        for line in sys.stdin:
            answer_line(bench, json.loads(line), lines)
        os._exit(0)  # exit without waiting for the library's threads, some of which never end


def answer_line(bench: Bench, task: Task, lines: TextIO) -> None:
    """Run one task and return its result; a failure is also returned."""
    try:
        result = bench.do(task)
    except MissingError as error:
        result = {"missing": str(error)}
    except BaseException as error:  # any exception of the library is returned, and the next task can still succeed
        if isinstance(error, KeyboardInterrupt):
            raise
        result = {"error": f"{type(error).__name__}: {error}"[:500]}
    lines.write(json.dumps(result, default=str) + "\n")


class Bench:
    """One library, with its prepared work."""

    def __init__(self, name: str, runner: asyncio.Runner) -> None:
        self._name, self._runner = name, runner
        self._adapter: ModuleType | None = None
        self._ready: dict[str, Work] = {}

    @property
    def adapter(self) -> ModuleType:
        """The adapter, which imports its library."""
        if self._adapter is None:
            self._adapter = importlib.import_module(self._name)
        return self._adapter

    def do(self, task: Task) -> dict[str, Any]:
        """Run a task several times; each measurement covers `inner` runs."""
        key = json.dumps([task["does"], task.get("url"), task.get("options")], sort_keys=True)
        if key not in self._ready:
            self._ready[key] = self._make(task["does"], task.get("url", ""), task.get("options") or {})
        work = self._ready[key]
        if task.get("profile"):
            return {"profile": profile(work, task["times"])}
        return self._timed(work, task["times"], task.get("inner", 1))

    def _make(self, does: str, url: str, options: dict[str, Any]) -> Work:
        return WORK[does](self, url, **options)

    def _timed(self, work: Work, times: int, inner: int) -> dict[str, Any]:
        wall, cpu, values = [], [], []
        for _ in range(times):
            cpu_begin, begin = time.process_time_ns(), time.perf_counter_ns()
            for _ in range(inner):
                value = work()
            wall.append((time.perf_counter_ns() - begin) // inner)
            cpu.append((time.process_time_ns() - cpu_begin) // inner)
            values.append(value if isinstance(value, int | float | str) else None)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
        state = {"resident": resident(), "descriptors": descriptors(), "threads": threading.active_count()}
        return {"wall": wall, "cpu": cpu, "values": values, "peak": peak, **state}

    def ability(self, name: str) -> Callable[..., Any]:
        """A function of the adapter. Raises MissingError with the reason if the library does not support it."""
        found = getattr(self.adapter, name, None)
        if found is None:
            reasons = getattr(self.adapter, "MISSING", {})
            raise MissingError(reasons.get(name, "the library does not support it"))
        return found

    def ask(self, url: str, tools: str = "", history: int = 0) -> Work:
        """Ask one question, with the named tools or with a number of earlier messages."""
        if history:
            return self.ability("recall")(url, workload.conversation(history))
        return self._with_tools("ask", url, tools)

    def _with_tools(self, name: str, url: str, tools: str) -> Callable[..., Any]:
        """An adapter can declare that its library does not support a tool."""
        if tools in (reasons := getattr(self.adapter, "MISSING", {})):
            raise MissingError(reasons[tools])
        return self.ability(name)(url, tuple(map(tool_named, tools.split())))

    def respond(self, url: str) -> Work:
        """Ask one question with the Responses protocol."""
        return self.ability("respond")(url)

    def stream(self, url: str) -> Work:
        """Ask one question and count the deltas of its answer."""
        return self.ability("stream")(url)

    def aask(self, url: str, tools: str = "", together: int = 1) -> Work:
        """Ask several questions in parallel in one event loop."""
        ask = self._with_tools("aask", url, tools)

        async def all_of_them() -> int:
            return len(await asyncio.gather(*(ask() for _ in range(together))))

        return lambda: self._runner.run(all_of_them())

    def stall(self, url: str, other_url: str) -> Work:
        """The longest pause of the event loop, in ms, while a tool returns 1 MB to a model."""
        large = self.ability("aask")(url, (workload.dump,))
        small = self.ability("aask")(other_url, (workload.lookup,))

        async def together() -> float:
            heart = asyncio.ensure_future(longest_pause())
            await asyncio.gather(large(), *(small() for _ in range(5)))
            heart.cancel()
            return await heart

        return lambda: self._runner.run(together())

    def schema(self, _: str) -> Work:
        """Create the schema of a new function."""
        describe = self.ability("schema")
        result = str(describe(workload.realistic()))
        if missing := [name for name in workload.PARAMETERS if name not in result]:
            raise ValueError(f"The schema lacks {', '.join(missing)}")
        return lambda: describe(workload.realistic())

    def schema_again(self, _: str) -> Work:
        """Return the schema of an existing tool."""
        again = self.ability("schema_again")(workload.realistic())
        again()
        return again

    def make(self, url: str) -> Work:
        """Create an agent with ten existing tools."""
        make: Work = self.ability("maker")(url, workload.ten_functions())
        return make

    def memory(self, url: str, count: int) -> Work:
        """The bytes of memory per agent: the memory of the process with many agents, minus that without.

        For libraries that need milliseconds per agent, the number of agents is limited by 20 seconds.
        """
        make = self.make(url)

        def grown() -> float:
            make()
            gc.collect()
            before = resident()
            kept, end = [], time.monotonic() + 20
            while len(kept) < count and (time.monotonic() < end or len(kept) < 100):
                kept.append(make())
            gc.collect()
            return (resident() - before) / len(kept)

        return grown

    def direct(self, _: str) -> Work:
        """Call a tool directly."""
        call: Work = self.ability("direct")()
        if "17" not in (result := str(call())):
            raise ValueError(f"The tool did not return 17 characters but {result}")
        return call


WORK: dict[str, Callable[..., Work]] = {
    name: getattr(Bench, name)
    for name in ("ask", "aask", "respond", "stream", "stall", "schema", "schema_again", "make", "memory", "direct")
}


def tool_named(name: str) -> workload.Function:
    """One of the functions of the workload."""
    function: workload.Function = getattr(workload, name)
    return function


async def longest_pause() -> float:
    """Measure the event loop every millisecond until cancelled; returns the longest pause, in milliseconds."""
    longest, last = 0.0, time.perf_counter()
    try:
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return 1_000 * max(longest, time.perf_counter() - last)


def resident() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def descriptors() -> int:
    """The number of open files and sockets of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def profile(work: Work, times: int) -> list[tuple[str, float]]:
    """The share of the time of each package, by the own time of its functions; largest first."""
    import cProfile
    import pstats

    work()
    with profiled(cProfile.Profile()) as profiler:
        for _ in range(times):
            work()
    taken: dict[str, float] = {}
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profiler).stats.items():
        place = package_of(file, name)
        taken[place] = taken.get(place, 0.0) + own
    whole = sum(taken.values()) or 1.0
    return sorted(((place, own / whole) for place, own in taken.items()), key=lambda each: -each[1])[:12]


@contextmanager
def profiled(profiler: Any) -> Iterator[Any]:
    """Profile the code of a block."""
    profiler.enable()
    try:
        yield profiler
    finally:
        profiler.disable()


def package_of(file: str, name: str) -> str:
    """The package, or the module of the standard library, that a function belongs to."""
    if file == "~":
        return name.strip("<>").removeprefix("built-in method ").removeprefix("method ")[:60]
    parts = file.replace("\\", "/").split("/")
    for folder in ("site-packages", "agentkit", "workers"):
        if folder in parts:
            at = parts.index(folder) + (folder == "site-packages")
            return "/".join(parts[at : at + (3 if folder == "agentkit" else 1)]).removesuffix(".py")
    return "/".join(parts[-2:]).removesuffix(".py")
