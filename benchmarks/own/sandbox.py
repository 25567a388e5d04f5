"""Time of the tools that run code and commands or fetch pages, compared with the same work without the tools."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from agentkit.tools.system import python_tool, shell_tool_in
from agentkit.tools.web.fetch import fetch_tool
from agentkit.workspace.workspace import Workspace
from benchmarks.own.times import both, microseconds, repeated
from benchmarks.processes import Process, Server, cores

_ROUNDS, _COLD_ROUNDS = 40, 7
_THINKING_SECONDS = 0.5
_COLD = """
import time
from agentkit import python_tool
begin = time.perf_counter()
result = python_tool(code="print(6 * 7)")
print(time.perf_counter() - begin if result.get("output") == "42\\n" else result)
"""
_COMMANDS = (
    "ls -la src",
    "git log --oneline | head -20",
    "grep -rn 'def main' . --include='*.py' | sort | uniq -c",
    'for f in *.txt; do wc -l "$f"; done',
    "rm -rf build && mkdir -p build/out",
    "python3 -c 'print(1)' > out.txt 2>&1",
    "find . -name '*.log' -mtime +7 -exec gzip {} +",
    "cat <<EOF | tee notes.md\nfirst\nsecond\nEOF",
)


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table; the variants alternate."""
    rounds = 3 if options.quick else _ROUNDS
    yield from ["### Code, commands and pages", "", "| operation | median | minimum |", "|---|---|---|"]
    yield from code(rounds)
    yield from commands(rounds)
    yield from pages(rounds)


def code(rounds: int) -> Iterator[str]:
    """Run Python: plain, in a cold process, and in a process with a prepared worker.

    A worker is prepared between calls; a call that follows immediately waits for it.
    """
    yield f"| plain `python -I -S -c pass` | {both(repeated(lambda: ended('-I', '-S', '-c', 'pass'), rounds))} |"
    cold = [float(ended("-c", _COLD)) for _ in range(min(rounds, _COLD_ROUNDS))]
    yield f"| `run_python`, first call of a process | {both(cold)} |"
    right(python_tool(code="print(6 * 7)"), "42")
    run = partial(python_tool, code="print(6 * 7)")
    yield f"| `run_python`, consecutive calls | {both(repeated(run, rounds))} |"
    apart = repeated(run, rounds, before=partial(time.sleep, _THINKING_SECONDS))
    yield f"| `run_python`, calls with a pause for a fast model | {both(apart)} |"


def commands(rounds: int) -> Iterator[str]:
    """Run a command: plain, judged and sandboxed; and only judge it."""
    bash = "/bin/bash"
    with tempfile.TemporaryDirectory() as folder:
        shell = shell_tool_in(Workspace(folder))
        right(shell(command="echo 42"), "42")
        bare, ours = in_turns(lambda: ended("-c", "true", program=bash), lambda: shell(command="true"), rounds)
        yield f"| plain `bash -c true` | {both(bare)} |"
        yield f"| `run_shell` | {both(ours)} |"
        calls: list[Mapping[str, Any]] = [{"command": command} for command in _COMMANDS]
        times = sorted(time for call in calls for time in repeated(partial(shell.judge, call), 5 * rounds))
        centiles = statistics.quantiles(times, n=100)
        cells = f"{microseconds(centiles[49])} | at most {microseconds(centiles[98])} for 99 of 100"
        yield f"| judging a command | {cells} |"


def pages(rounds: int) -> Iterator[str]:
    """Fetch a local page of 20 KB: plain, and judged and converted to Markdown."""
    import http.client

    with Server(with_tls=False) as server:
        place = server.url("page").removeprefix("http://").partition("/")[0]
        fetch = fetch_tool(allow_hosts=[place])
        right(fetch(url=f"http://{place}/page"), "Paragraph")

        def bare() -> object:
            connection = http.client.HTTPConnection(place)
            connection.request("GET", "/page")
            read = connection.getresponse().read()
            connection.close()
            return read

        alone, ours = in_turns(bare, lambda: fetch(url=f"http://{place}/page"), rounds)
        yield f"| a page with `http.client` | {both(alone)} |"
        yield f"| `fetch_url`, as Markdown | {both(ours)} |"


def right(result: Mapping[str, Any], wanted: str) -> None:
    """Raise RuntimeError if a tool did not return the expected result."""
    if wanted not in str(result):
        raise RuntimeError(f"The tool returned an unexpected result: {str(result)[:500]}")


def in_turns(one: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """The times of two functions that alternate."""
    pairs = [(repeated(one, 1)[0], repeated(other, 1)[0]) for _ in range(rounds)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def ended(*arguments: str, program: str | Path = sys.executable) -> bytes:
    """Run a program, and return its output."""
    process = Process([program, *arguments], cores()[1] | cores()[0])
    output = process.read()
    process.wait()
    return output
