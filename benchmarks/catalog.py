"""The scenarios and the libraries of the benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Library:
    """A measured library: `kind` is `floor`, `own` or `peer`; `adapter` is its module in `benchmarks/workers`."""

    name: str
    kind: str
    adapter: str
    module: str = ""
    """The import statement for the package."""
    program: str = ""
    """The imports of a program that runs an agent with an OpenAI-compatible server."""
    requires: tuple[str, ...] = ()
    """The requirements that are installed in the virtual environment of a peer."""
    distribution: str = ""


@dataclass(frozen=True, eq=False)
class Scenario:
    """A measurement. `does` is a task of a worker, or a kind of new process.

    The time of a run is divided by `per`. A round reports the median of `times` runs; the report has the median and
    quartiles of `rounds` rounds. A run must send at least `requests` requests to the server, so that no library is
    faster by doing less.
    """

    name: str
    title: str
    does: str
    script: str = "words-12"
    options: dict[str, Any] = field(default_factory=dict)
    per: int = 1
    times: int = 10
    inner: int = 1
    rounds: int = 15
    requests: int = 0
    tls: bool = False
    metric: str = "wall"
    unit: str = "ns"
    reference: str = "openai"
    must: str = ""
    want: str = ""
    quick: bool = False
    value: str | int | None = None
    messages: int = 0
    """The minimum number of messages in the longest request."""
    kinds: tuple[str, ...] = ("floor", "own", "peer")
    """The kinds of libraries that support the scenario."""

    @property
    def is_fresh(self) -> bool:
        """Whether each run is a new process."""
        return self.does in {"import", "program", "first"}

    @property
    def is_counted(self) -> bool:
        """Whether the server measures the figure instead of the worker."""
        return self.metric in {"sent_bytes", "rewritten"}


LIBRARIES = (
    Library("openai", "floor", "floors.openai_typed", "import openai", "from openai import OpenAI"),
    Library("openai post", "floor", "floors.openai_post"),
    Library(
        "agentkit lent",
        "floor",
        "floors.lent_client",
        "",
        "from openai import OpenAI; from agentkit import Agent, LLM",
    ),
    Library("httpx2", "floor", "floors.httpx2_client", "import httpx2", "import httpx2"),
    Library("http.client", "floor", "floors.http_client", "import http.client", "import http.client, json"),
    Library("raw socket", "floor", "floors.raw_socket", "import socket", "import socket, json"),
    Library(
        "agentkit",
        "own",
        "agentkit_adapter",
        "import agentkit",
        "from agentkit import Agent, LLM",
        (),
        "agentkit-tools",
    ),
    Library(
        "underthesea",
        "peer",
        "peers.underthesea_peer",
        "import underthesea",
        "from underthesea.agent import Agent, LLM, Tool",
        ("underthesea",),
    ),
    Library(
        "smolagents",
        "peer",
        "peers.smolagents_peer",
        "import smolagents",
        "from smolagents import OpenAIServerModel, ToolCallingAgent, tool",
        ("smolagents[openai]",),
    ),
    Library(
        "openai-agents",
        "peer",
        "peers.openai_agents_peer",
        "import agents",
        "from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool",
        ("openai-agents",),
    ),
    Library(
        "pydantic-ai",
        "peer",
        "peers.pydantic_ai_peer",
        "import pydantic_ai",
        "from pydantic_ai import Agent; from pydantic_ai.models.openai import OpenAIChatModel",
        ("pydantic-ai",),
    ),
    Library(
        "agno",
        "peer",
        "peers.agno_peer",
        "import agno",
        "from agno.agent import Agent; from agno.models.openai import OpenAIChat",
        ("agno", "openai"),
    ),
    Library(
        "strands-agents",
        "peer",
        "peers.strands_peer",
        "import strands",
        "from strands import Agent, tool; from strands.models.openai import OpenAIModel",
        ("strands-agents[openai]",),
    ),
    Library(
        "langchain",
        "peer",
        "peers.langchain_peer",
        "import langchain",
        "from langchain.agents import create_agent; from langchain_openai import ChatOpenAI",
        ("langchain", "langchain-openai"),
    ),
    Library("llm", "peer", "peers.llm_peer", "import llm", "import llm", ("llm",)),
)

SCENARIOS = (
    Scenario("import", "`import`", "import", times=1, must="30 ms of CPU", want="15 ms"),
    Scenario("program", "the imports of a program with an agent", "program", times=1),
    Scenario("first", "process start to first answer", "first", times=1, requests=1, must="1.0x", want="0.85x"),
    Scenario("first-tls", "process start to first answer, over TLS", "first", times=1, requests=1, tls=True),
    Scenario("chat", "one chat, warm", "ask", requests=1, times=20, must="0.75x", want="0.65x", quick=True),
    Scenario("chat-tls", "one chat, warm, over TLS", "ask", requests=1, times=20, tls=True, must="0.75x", want="0.65x"),
    Scenario("responses", "one chat over the Responses protocol", "respond", requests=1, times=20),
    Scenario(
        "loop",
        "a turn of a 10-turn tool loop",
        "ask",
        "turns-9",
        {"tools": "lookup"},
        per=10,
        times=4,
        requests=10,
        must="0.5x",
        want="0.4x",
        quick=True,
    ),
    Scenario(
        "long-loop",
        "a turn of a 100-turn tool loop",
        "ask",
        "turns-99",
        {"tools": "lookup"},
        per=100,
        times=1,
        rounds=5,
        requests=100,
    ),
    Scenario(
        "stream",
        "a delta of a 2,000-delta stream",
        "stream",
        "words-2000",
        per=2_000,
        times=1,
        requests=1,
        must="0.35x",
        want="0.2x",
        value=2_000,
    ),
    Scenario(
        "history-200", "one call with 200 messages of history", "ask", options={"history": 200}, times=3, requests=1
    ),
    Scenario(
        "history",
        "one call with 2,000 messages of history",
        "ask",
        options={"history": 2_000},
        times=2,
        rounds=7,
        requests=1,
        must="0.04x",
        want="0.02x",
        messages=2_001,
    ),
    Scenario(
        "concurrent",
        "200 concurrent async runs of 3 turns at 20 ms, per run",
        "aask",
        "turns-2.delay-20",
        {"tools": "lookup", "together": 200},
        per=200,
        times=1,
        rounds=5,
        requests=600,
        must="0.77x",
        want="0.67x",
        value=200,
    ),
    Scenario(
        "parallel-sync",
        "8 parallel 100 ms tools: sync",
        "ask",
        "turns-1.width-8.tool-wait",
        {"tools": "wait"},
        times=1,
        requests=2,
        must="110 ms",
        want="104 ms",
    ),
    Scenario(
        "parallel-async",
        "8 parallel 100 ms tools: async",
        "aask",
        "turns-1.width-8.tool-await_figure",
        {"tools": "await_"},
        times=1,
        requests=2,
        must="110 ms",
        want="104 ms",
    ),
    Scenario(
        "parallel-mixed",
        "8 parallel 100 ms tools: sync under async",
        "aask",
        "turns-1.width-8.tool-wait",
        {"tools": "wait"},
        times=1,
        requests=2,
        must="110 ms",
        want="104 ms",
    ),
    Scenario(
        "stall",
        "the longest pause of the event loop while a tool returns 1 MB",
        "stall",
        "turns-1.tool-dump",
        times=1,
        rounds=7,
        requests=12,
        metric="values",
        unit="ms",
    ),
    Scenario(
        "economy",
        "bytes of tools and messages of a task with four requests",
        "ask",
        "turns-3.tool-lookup.weigh-1",
        {"tools": "lookup book_trip"},
        times=1,
        rounds=2,
        requests=4,
        metric="sent_bytes",
        unit="B",
        reference="",
        must="the least",
        kinds=("own", "peer"),
        quick=True,
    ),
    Scenario(
        "prefix",
        "requests of that task that do not start with the previous one",
        "ask",
        "turns-3.tool-lookup.weigh-1",
        {"tools": "lookup book_trip"},
        times=1,
        rounds=2,
        requests=4,
        metric="rewritten",
        unit="",
        reference="",
        must="0",
        kinds=("own", "peer"),
    ),
    Scenario(
        "schema",
        "a schema for a realistic function",
        "schema",
        times=10,
        reference="",
        kinds=("own", "peer"),
        must="1.2 ms",
        want="0.5 ms",
        quick=True,
    ),
    Scenario(
        "schema-again",
        "a cached schema",
        "schema_again",
        times=10,
        inner=20,
        reference="",
        kinds=("own",),
    ),
    Scenario(
        "agent",
        "an agent with 10 existing tools",
        "make",
        times=20,
        inner=5,
        reference="",
        kinds=("own", "peer"),
        must="15 µs",
        want="5 µs",
    ),
    Scenario(
        "memory",
        "memory per agent, of 10,000 such agents",
        "memory",
        options={"count": 10_000},
        times=1,
        rounds=1,
        metric="values",
        unit="bytes",
        reference="",
        kinds=("own", "peer"),
        must="2 KB",
    ),
    Scenario(
        "direct",
        "a direct call of a core tool, with its judge",
        "direct",
        times=20,
        inner=50,
        reference="",
        kinds=("own", "peer"),
        must="20 µs",
        want="5 µs",
        quick=True,
    ),
)
