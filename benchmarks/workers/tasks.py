"""Which tasks can a worker be asked for? Each is put together from the few things that an adapter can do."""

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
    """The adapter says that its library cannot do this."""


def serve(name: str) -> None:
    """Answer lines until there are no more. What the library prints goes nowhere, so that it cannot disturb."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with asyncio.Runner() as runner:
        bench = Bench(name, runner)
        for line in sys.stdin:
            answer_line(bench, json.loads(line), lines)
        os._exit(0)  # what the library still has running is of no interest, and some never end


def answer_line(bench: Bench, task: Task, lines: TextIO) -> None:
    """Do one task and tell what came of it; a failure is an answer, too."""
    try:
        told = bench.do(task)
    except MissingError as error:
        told = {"missing": str(error)}
    except BaseException as error:  # whatever the library raises is told, and the next task may still go well
        if isinstance(error, KeyboardInterrupt):
            raise
        told = {"error": f"{type(error).__name__}: {error}"[:500]}
    lines.write(json.dumps(told, default=str) + "\n")


class Bench:
    """One library, and the work that was made ready for it."""

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
        """Run what the task names so many times; `inner` runs between two looks at the clock count as one."""
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
        """What the adapter can do. Raises MissingError with its reason when it cannot."""
        found = getattr(self.adapter, name, None)
        if found is None:
            reasons = getattr(self.adapter, "MISSING", {})
            raise MissingError(reasons.get(name, "the library has no such thing"))
        return found

    def ask(self, url: str, tools: str = "", history: int = 0) -> Work:
        """Ask one question, with tools of these names or with so many messages said before."""
        if history:
            return self.ability("recall")(url, workload.conversation(history))
        return self._with_tools("ask", url, tools)

    def _with_tools(self, name: str, url: str, tools: str) -> Callable[..., Any]:
        """An adapter may say of a tool that it cannot do it justice."""
        if tools in (reasons := getattr(self.adapter, "MISSING", {})):
            raise MissingError(reasons[tools])
        return self.ability(name)(url, tuple(map(tool_named, tools.split())))

    def respond(self, url: str) -> Work:
        """Ask one question over the Responses protocol."""
        return self.ability("respond")(url)

    def stream(self, url: str) -> Work:
        """Ask one question and count the deltas of its answer."""
        return self.ability("stream")(url)

    def aask(self, url: str, tools: str = "", together: int = 1) -> Work:
        """Ask so many questions at the same time in one event loop."""
        ask = self._with_tools("aask", url, tools)

        async def all_of_them() -> int:
            return len(await asyncio.gather(*(ask() for _ in range(together))))

        return lambda: self._runner.run(all_of_them())

    def stall(self, url: str, other_url: str) -> Work:
        """The longest time, in ms, for which a heart beside it did not beat while a tool gave 1 MB to a model."""
        large = self.ability("aask")(url, (workload.dump,))
        small = self.ability("aask")(other_url, (workload.lookup,))

        async def together() -> float:
            heart = asyncio.ensure_future(longest_pause())
            await asyncio.gather(large(), *(small() for _ in range(5)))
            heart.cancel()
            return await heart

        return lambda: self._runner.run(together())

    def schema(self, _: str) -> Work:
        """Make the schema of a function that was never seen."""
        describe = self.ability("schema")
        told = str(describe(workload.realistic()))
        if missing := [name for name in workload.PARAMETERS if name not in told]:
            raise ValueError(f"The schema lacks {', '.join(missing)}")
        return lambda: describe(workload.realistic())

    def schema_again(self, _: str) -> Work:
        """Give a tool's schema once more."""
        again = self.ability("schema_again")(workload.realistic())
        again()
        return again

    def make(self, url: str) -> Work:
        """Make an agent of ten tools that are ready."""
        make: Work = self.ability("maker")(url, workload.ten_functions())
        return make

    def memory(self, url: str, count: int) -> Work:
        """How many bytes an agent keeps: the process's memory with so many of them, less that without.

        Libraries that need milliseconds for an agent make fewer, as many as they can in 20 seconds.
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
        if "17" not in (told := str(call())):
            raise ValueError(f"The tool told nothing of 17 characters but {told}")
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
    """Beat every millisecond until cancelled; the longest pause between two beats, in milliseconds."""
    longest, last = 0.0, time.perf_counter()
    try:
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return 1_000 * max(longest, time.perf_counter() - last)


def resident() -> int:
    """How many bytes of memory this process has now."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def descriptors() -> int:
    """How many files and sockets this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def profile(work: Work, times: int) -> list[tuple[str, float]]:
    """Which packages the time goes to: the share of each, as its own functions take it; dearest first."""
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
    """Profile what is done meanwhile."""
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
