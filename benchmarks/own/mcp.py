"""Time of an MCP tool call through agentkit, compared with the client of the mcp package.

The server is mcp-server-time in another process. Both clients are connected before the measurement, and alternate call
by call. agentkit validates the arguments, judges the call, truncates, labels and redacts the result, and passes the
work to the thread of the connection.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator

from agentkit import SafetyLevel
from agentkit.mcp import MCPServer
from benchmarks.own.times import both

ROUNDS = 500
WORDS = (sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC")
TOOL, ARGUMENTS = "get_current_time", {"timezone": "Asia/Ho_Chi_Minh"}


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of call times."""
    rounds = 3 if options.quick else ROUNDS
    with MCPServer(WORDS, "time", level=SafetyLevel.SAFE) as server:
        bare, ours = asyncio.run(_measured(server, rounds))
    yield from ["### MCP tool calls", "", "| client | a call, median | minimum | ratio of minimums |"]
    yield "|---|---|---|---|"
    for name, times in (("`Client` of the mcp package", bare), ("agentkit, async", ours)):
        yield f"| {name} | {both(times)} | {min(times) / min(bare):.2f} |"


async def _measured(server: MCPServer, rounds: int) -> tuple[list[float], list[float]]:
    """The seconds of each call of the package's client, and of agentkit."""
    from mcp import Client, StdioServerParameters, stdio_client

    tool = server.tools.find(TOOL)
    bare: list[float] = []
    ours: list[float] = []
    async with Client(stdio_client(StdioServerParameters(command=WORDS[0], args=[*WORDS[1:]]))) as client:
        for _ in range(rounds):
            begin = time.perf_counter()
            text = await client.call_tool(TOOL, ARGUMENTS)
            between = time.perf_counter()
            result = await tool.ainvoke(ARGUMENTS)
            bare.append(between - begin)
            ours.append(time.perf_counter() - between)
            if text.is_error or result.error is not None:
                raise RuntimeError(f"The server failed: {result.error or text}")
    return bare, ours
