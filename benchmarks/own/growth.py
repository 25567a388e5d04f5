"""Growth: processor time and memory of an operation as conversations, stores, servers and batches get larger.

Each row measures one operation at several sizes and gives the exponent of growth between the two largest: 0 is
constant, 1 is linear, 2 is quadratic. Times are the processor time of this process, in milliseconds, and the least of
several repetitions; servers run in other processes. Memory is the largest resident size of a fresh process.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agentkit import LLM, Agent, Limits, SafetyLevel, shell_tool, write_file_tool
from agentkit.events import ResponseReceived, RunEnded, RunStarted
from agentkit.knowledge import Knowledge
from agentkit.mcp import MCPServer
from agentkit.messages import AssistantMessage, Response, UserMessage
from agentkit.sessions.session import Session
from agentkit.sessions.stores import store_at
from agentkit.testing import ScriptedLLM, call, record, replay
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace
from benchmarks.processes import Server

REPETITIONS = 3
Measure = Callable[[int, Path], float]


@dataclass(frozen=True)
class Growth:
    """One operation. `measure` returns its cost at a size, in `unit`; `must` and `want` state the bounds in words."""

    title: str
    sizes: Sequence[int]
    must: str
    measure: Measure
    unit: str = "ms"
    want: str = ""


def tables(wishes: argparse.Namespace) -> Iterator[str]:
    """The table of all rows; with `--quick` each is measured at its two smallest sizes only."""
    yield from ["### Growth", "", "| operation | sizes | figures | exponent | must | want |"]
    yield "|---|---|---|---|---|---|"
    for growth in ROWS:
        sizes = growth.sizes[:2] if wishes.quick else growth.sizes
        figures = [figure(growth, size) for size in sizes]
        shown = " / ".join(f"{value:,.2f}" for value in figures)
        slope = exponent(sizes, figures)
        yield f"| {growth.title} | {_listed(sizes)} | {shown} {growth.unit} | {slope} | {growth.must} | {growth.want} |"


def _listed(sizes: Sequence[int]) -> str:
    return " / ".join(f"{size:,}" for size in sizes)


def figure(growth: Growth, size: int) -> float:
    """The least of several measurements, each in an empty folder."""
    figures = []
    for _ in range(REPETITIONS):
        with tempfile.TemporaryDirectory() as folder:
            figures.append(growth.measure(size, Path(folder)))
    return min(figures)


def exponent(sizes: Sequence[int], figures: Sequence[float]) -> str:
    """The exponent between the two largest sizes, where a constant share weighs least."""
    (smaller, larger), (before, after) = sizes[-2:], figures[-2:]
    return f"{math.log(max(after, 1e-3) / max(before, 1e-3)) / math.log(larger / smaller):.2f}"


def cpu_milliseconds(work: Callable[[], object]) -> float:
    """The processor time of one call, in milliseconds."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1_000


def resumed_run(changed: int, folder: Path) -> float:
    """Map a finished prompt again in a workspace whose journal holds `changed` earlier runs that wrote a file."""
    (folder / "workspace").mkdir()
    workspace = Workspace(folder / "workspace", journal=Journal(folder / "journal"))
    lines = [each for number in range(changed) for each in (call("write_file", path="a", content=str(number)), "Done.")]
    writer = Agent("writer", [write_file_tool], safety="system", llm=ScriptedLLM(*lines), workspace=workspace)
    for _ in range(changed):
        writer.run("Write.").raise_for_status()
        writer.reset()
    session = Session.open(folder / "sessions.db", "trip")
    agent = Agent("helper", llm=ScriptedLLM("Hello.", repeat=True), workspace=workspace, session=session)
    agent.map(["Say hello."])
    return cpu_milliseconds(lambda: agent.map(["Say hello."]))


def mapped_again(prompts: int, folder: Path) -> float:
    """Map prompts again that have all finished, per prompt."""
    session = Session.open(folder / "sessions.db", "trip")
    agent = Agent("helper", llm=ScriptedLLM("Hello.", repeat=True), session=session)
    texts = [f"Question {number}?" for number in range(prompts)]
    agent.map(texts)
    return cpu_milliseconds(lambda: agent.map(texts)) / prompts


def stored_session(turns: int, folder: Path) -> Path:
    """A SQLite file with a session of `turns` questions and answers."""
    path = folder / "sessions.db"
    session = Session("long", store_at(path))
    for number in range(turns):
        run = session.begin()
        run.keep(RunStarted("helper", f"What is {number} plus {number}?"))
        run.keep(ResponseReceived(Response(AssistantMessage(f"It is {2 * number}."), model="a-model")))
        run.keep(RunEnded("done"))
        run.leave()
    return path


def opened_session(turns: int, folder: Path) -> float:
    """Open a SQLite session and read its messages."""
    path = stored_session(turns, folder)
    return cpu_milliseconds(lambda: Session("long", store_at(path)).messages)


def run_in_session(turns: int, folder: Path) -> float:
    """A run of one turn in an open session."""
    session = Session("long", store_at(stored_session(turns, folder)))
    agent = Agent("helper", llm=ScriptedLLM("Yes.", repeat=True), session=session)
    agent.run("Are you there?")
    return cpu_milliseconds(lambda: agent.run("Are you there?"))


def appended(turns: int, folder: Path) -> float:
    """Append a turn to a session of `turns`."""
    session = Session("long", store_at(stored_session(turns, folder)))
    _ = session.messages
    messages = [UserMessage("And now?"), AssistantMessage("It is so.")]
    session.append(messages)
    return cpu_milliseconds(lambda: session.append(messages))


def called_remotely(tools: int, _: Path) -> float:
    """A call of one tool of an MCP server that has `tools`."""
    with MCPServer((sys.executable, "-c", _MANY_TOOLS, str(tools)), "many", level=SafetyLevel.SAFE) as server:
        tool = server.tools.find("double_1")

        async def call_often() -> float:
            for _ in range(3):
                await tool.ainvoke({"number": 2})
            begin = time.process_time()
            for _ in range(20):
                result = await tool.ainvoke({"number": 2})
            if result.error is not None:
                raise RuntimeError(result.error)
            return (time.process_time() - begin) * 1_000 / 20

        return asyncio.run(call_often())


_MANY_TOOLS = """
import json, sys
schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
tools = [
    {"name": f"double_{number}", "description": f"Double a number in way {number}.", "inputSchema": schema}
    for number in range(int(sys.argv[1]))
]
results = {"tools/list": {"tools": tools}, "tools/call": {"content": [{"type": "text", "text": "4"}]}, "ping": {}}
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        server = {"name": "many", "version": "1"}
        results["initialize"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if "id" in asked:
        known = asked["method"] in results
        answer = {"result": results[asked["method"]]} if known else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""An MCP server whose number of tools is its argument."""


def descriptors_of(agents: int, folder: Path) -> float:
    """The open descriptors of a process with agents that each have a client and a session, after a run of each."""
    with Server(with_tls=False) as server:
        url, before = server.url("words-12"), len(list(_DESCRIPTORS.iterdir()))
        kept = []
        for number in range(agents):
            session = Session.open(folder / f"{number}.db")
            kept.append(Agent("helper", llm=LLM(base_url=url, model="m", api_key=f"key-{number}"), session=session))
            kept[-1].run("Are you there?").raise_for_status()
        return float(len(list(_DESCRIPTORS.iterdir())) - before)


_DESCRIPTORS = Path("/proc/self/fd")


def history_of(messages: int) -> list[dict[str, Any]]:
    """A conversation in the chat format."""
    return [
        {"role": "assistant" if number % 2 else "user", "content": f"Message {number} of a conversation."}
        for number in range(messages)
    ]


def history_set(messages: int, _: Path) -> float:
    """Set the history and run once against a local server, as a web handler does."""
    rows = history_of(messages)
    with Server(with_tls=False) as server:
        agent = Agent("helper", llm=LLM(base_url=server.url("words-12"), model="m", api_key="a-key"))
        agent.run("Are you there?")
        agent.reset()

        def handle() -> None:
            agent.history = rows
            agent.run("And now?")

        return cpu_milliseconds(handle)


def windowed_run(messages: int, _: Path) -> float:
    """A run of an agent with a window of 2,000 tokens over a long history."""
    agent = Agent("helper", llm=ScriptedLLM("Yes.", repeat=True), window=2_000)
    agent.history = history_of(messages)
    agent.run("Are you there?")
    return cpu_milliseconds(lambda: agent.run("Are you there?"))


def replayed_turn(turns: int, folder: Path) -> float:
    """Replay a cassette, per turn."""

    def double(number: int) -> int:
        return 2 * number

    def agent() -> Agent[str]:
        lines = [*(call("double", number=number) for number in range(turns)), "Done."]
        limits = Limits(tool_calls=None, repeated_calls=None)
        return Agent("helper", [double], max_iterations=turns + 1, llm=ScriptedLLM(*lines), limits=limits)

    with record(folder / "run.jsonl"):
        agent().run("Double them.").raise_for_status()
    with replay(folder / "run.jsonl"):
        return cpu_milliseconds(lambda: agent().run("Double them.").raise_for_status()) / turns


def searched(chunks: int, folder: Path) -> float:
    """Search a knowledge store with common words."""
    words = ("the", "server", "reads", "a", "request", "and", "writes", "an", "answer", "to", "the", "client")
    knowledge = Knowledge(folder / "knowledge.db")
    rows = [" ".join(words[(number + step) % len(words)] for step in range(12)) for number in range(chunks)]
    for begin in range(0, chunks, 1_000):
        parts = (f"# Part {begin + at}\n\n{row}" for at, row in enumerate(rows[begin : begin + 1_000]))
        knowledge.add_text("\n\n".join(parts), f"part-{begin}.md")
    knowledge.search("the answer of the server")
    return cpu_milliseconds(lambda: knowledge.search("the answer of the server"))


def judged_commands(count: int, folder: Path) -> float:
    """Judge different simple shell commands in an empty workspace, the first ones of a fresh process, per command."""
    workspace = folder / "empty"
    workspace.mkdir(exist_ok=True)
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        return processes.submit(milliseconds_of_judgements, count, workspace).result()


def milliseconds_of_judgements(count: int, workspace: Path) -> float:
    """Judge `count` different commands in this process, per command."""
    os.chdir(workspace)
    commands = [{"command": f"grep -rn word{number} src"} for number in range(count)]
    return cpu_milliseconds(lambda: [shell_tool.judge(command) for command in commands]) / count


def memory_of_runs(runs: int, _: Path) -> float:
    """The largest resident memory, in megabytes, of a fresh process that runs an agent and resets it after each run."""
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        return processes.submit(megabytes_after, runs).result()


def megabytes_after(runs: int) -> float:
    """Run an agent whose tool returns two texts of 45 kB a run."""
    texts = (f"{number:08} " * 5_000 for number in count())

    def page(number: int) -> str:
        return f"{number} {next(texts)}"

    lines = [call("page", number=1), call("page", number=2), "Done."]
    llm = ScriptedLLM(*(lines * runs))
    agent = Agent("helper", [page], llm=llm)
    for _ in range(runs):
        agent.run("Read both.").raise_for_status()
        agent.reset()
        llm.requests.clear()  # kept for assertions in tests
    # not getrusage: its maximum also counts the process that this one was forked from
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    return int(found[1]) / 1_024 if found else math.nan


ROWS = (
    Growth("resume a run, by files changed before", (1, 100, 1_000), "constant", resumed_run),
    Growth("map finished prompts again: each", (10, 100, 200), "constant", mapped_again),
    Growth("call a tool of an MCP server, by its tools", (10, 200, 800), "constant, 1.5 ms", called_remotely),
    Growth("open a SQLite session, by turns", (10, 1_000, 5_000, 10_000), "linear, 0.03 ms a turn", opened_session),
    Growth("append a turn to a SQLite session, by turns", (10, 1_000, 10_000), "constant", appended),
    Growth("a run in a SQLite session, by turns", (10, 1_000, 10_000), "5 ms", run_in_session),
    Growth("`history = rows` and a run, by messages", (10, 1_000, 2_000), "8 ms at 1,000", history_set),
    Growth("a run with `window=2000`, by messages", (1_000, 5_000, 20_000), "linear", windowed_run),
    Growth("replay a cassette: each turn", (100, 1_000), "constant", replayed_turn),
    Growth("search with common words, by chunks", (1_000, 10_000, 50_000), "20 ms at 50,000", searched),
    Growth(
        "judge shell commands, by their number: each", (1, 10, 1_000), "5 ms the first", judged_commands, want="0.25 ms"
    ),
    Growth("descriptors of agents with a client and a session", (50, 100, 200), "bounded", descriptors_of, "open"),
    Growth("memory after runs with `reset()`", (100, 1_000, 2_000), "constant", memory_of_runs, "MB"),
)
