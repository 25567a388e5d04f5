"""Overheads: processor time of a run with one feature switched on, as a ratio to the same run without it.

Each run has one tool call; the model is a server in another process, which answers at once. The features take turns,
each round in another order, so that all share the noise of the machine, and the least time of each counts. The two
requests that `httpx2` sends without agentkit show which part of the price of `arun` is that of its own async transport.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agentkit import LLM, Agent, Tool
from agentkit._dataclass import dataclass
from agentkit.sessions.session import Session
from agentkit.sessions.stores import store_at
from agentkit.testing import record
from agentkit.tracing import Console, JSONLines, OpenTelemetry
from benchmarks.own.times import microseconds
from benchmarks.processes import Server
from benchmarks.workers.workload import INSTRUCTION, KEY, MODEL, PROMPT, lookup, request

ROUNDS = 120
SCRIPT = "turns-1.tool-lookup"


@dataclass(frozen=True)
class Overhead:
    """One feature: `run` performs a run with it. Its time is compared with that of the row named `base`."""

    title: str
    run: Callable[[], object]
    base: str = "nothing else"
    must: str = ""
    want: str = ""


def tables(wishes: argparse.Namespace) -> Iterator[str]:
    """The table of all features."""
    yield from ["### Overheads", "", "| a run with | CPU, least | ratio | to | must | want |"]
    yield "|---|---|---|---|---|---|"
    with Server(with_tls=False) as server, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rows = overheads(server, Path(folder), stack)
        least = measured(rows, 2 if wishes.quick else ROUNDS)
    for row in rows:
        ratio = f"{least[row.title] / least[row.base]:.2f}"
        shown = [row.title, microseconds(least[row.title]), ratio, row.base, row.must, row.want]
        yield f"| {' | '.join(shown)} |"


def measured(rows: list[Overhead], rounds: int) -> dict[str, float]:
    """The least processor time of each row, in seconds.

    Each round begins with another row, and each row runs twice, of which the second counts: the first run after another
    feature is slower by up to a quarter, because the processor's caches hold what that one used.
    """
    least: dict[str, float] = {}
    for number in range(rounds):
        first = number % len(rows)
        for row in [*rows[first:], *rows[:first]]:
            row.run()
            begin = time.process_time()
            row.run()
            seconds = time.process_time() - begin
            least[row.title] = min(least.get(row.title, seconds), seconds)
    return least


def overheads(server: Server, folder: Path, stack: ExitStack) -> list[Overhead]:
    """All rows, with what they share."""
    llm = LLM("openai", model=MODEL, api_key=KEY, base_url=server.url(SCRIPT))
    stack.callback(llm.close)
    tool = Tool(lookup)
    runner = stack.enter_context(asyncio.Runner())
    lines, console, spans = JSONLines(folder / "trace.jsonl"), Console(io.StringIO()), OpenTelemetry()
    store, numbers = store_at(folder / "sessions.db"), iter(range(1_000_000))

    def agent(**options: Any) -> Agent[Any]:
        return Agent("helper", [tool], INSTRUCTION, llm=llm, **options)

    def plain(**options: Any) -> None:
        agent(**options).run(PROMPT).raise_for_status()

    def opened() -> None:
        plain(session=Session.open(folder / "sessions.db", f"opened {next(numbers)}"))

    def recorded() -> None:
        with record(folder / f"{next(numbers)}.jsonl"):
            plain()

    async def awaited() -> None:
        (await agent().arun(PROMPT)).raise_for_status()

    def new_llm() -> None:
        with_own = LLM("openai", model=MODEL, api_key=KEY, base_url=server.url(SCRIPT))
        Agent("helper", [tool], INSTRUCTION, llm=with_own).run(PROMPT).raise_for_status()

    def by_environment() -> None:
        Agent("helper", [tool], INSTRUCTION).run(PROMPT).raise_for_status()

    set_environment(stack, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url(SCRIPT), AGENTKIT_MODEL=MODEL)
    blocking, waiting = bare_requests(server, stack, runner)
    return [
        Overhead("nothing else", plain),
        Overhead("a session in memory", lambda: plain(session=Session()), must="1.05"),
        Overhead(
            "a session of a shared SQLite store", lambda: plain(session=Session(f"{next(numbers)}", store)), must="1.2"
        ),
        Overhead("a SQLite session, opened each time", opened, must="1.5"),
        Overhead("a recording", recorded, must="1.15"),
        Overhead("JSON lines", lambda: plain(listeners=[lines]), must="1.15"),
        Overhead("lines at the console", lambda: plain(listeners=[console]), must="1.15"),
        Overhead("OpenTelemetry without an SDK", lambda: plain(listeners=[spans])),
        Overhead("an agent without `llm=`, by the environment", by_environment, must="1.2"),
        Overhead("a new LLM, with a new connection", new_llm),
        Overhead("`arun` in a running event loop", lambda: runner.run(awaited()), must="1.2"),
        Overhead("`arun` in a new event loop", lambda: asyncio.run(awaited())),
        Overhead("no agentkit: two requests of `httpx2`", blocking, "no agentkit: two requests of `httpx2`"),
        Overhead("no agentkit: two awaited requests", waiting, "no agentkit: two requests of `httpx2`"),
    ]


def set_environment(stack: ExitStack, **variables: str) -> None:
    """Set the variables that choose the model, until the stack is closed."""
    before = dict(os.environ)
    stack.callback(lambda: (os.environ.clear(), os.environ.update(before)))
    for name in [name for name in os.environ if name.startswith(("AGENTKIT_", "AZURE_", "ANTHROPIC_"))]:
        del os.environ[name]
    os.environ.update(variables)


def bare_requests(
    server: Server, stack: ExitStack, runner: asyncio.Runner
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Two requests of httpx2's transports, blocking and awaited, as agentkit uses them."""
    import httpx2

    url, body = f"{server.url('words-12')}/chat/completions", request()
    client, aclient = stack.enter_context(httpx2.Client()), httpx2.AsyncClient()
    stack.callback(lambda: runner.run(aclient.aclose()))

    def blocking() -> None:
        for _ in range(2):
            client.post(url, json=body).raise_for_status()

    async def waiting() -> None:
        for _ in range(2):
            (await aclient.post(url, json=body)).raise_for_status()

    return blocking, lambda: runner.run(waiting())
