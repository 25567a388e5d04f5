"""Adapter of agentkit, written as in its documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from workload import INSTRUCTION, KEY, MODEL, MOST_TURNS, PROMPT, Function, Message

from agentkit import LLM, Agent, Limits, Tool

LIMITS = Limits(tool_calls=None, repeated_calls=None)


def agent_at(url: str, functions: Sequence[Function], llm: LLM | None = None) -> Agent[str]:
    """An agent with a model on the server."""
    llm = llm or LLM("openai", model=MODEL, api_key=KEY, base_url=url)
    return Agent("measured", list(functions), INSTRUCTION, MOST_TURNS, llm=llm, limits=LIMITS)


def ask(url: str, functions: Sequence[Function], llm: LLM | None = None) -> Callable[[], str]:
    """One run of an agent."""
    agent = agent_at(url, functions, llm)

    def asked() -> str:
        agent.reset()
        return agent(PROMPT)

    return asked


def aask(url: str, functions: Sequence[Function], llm: LLM | None = None) -> Callable[[], Awaitable[str]]:
    """One async run. Parallel runs have separate agents, and share the LLM and the tools."""
    llm = llm or LLM("openai", model=MODEL, api_key=KEY, base_url=url)
    tools = [Tool(function) for function in functions]

    async def asked() -> str:
        agent = Agent("measured", tools, INSTRUCTION, MOST_TURNS, llm=llm, limits=LIMITS)
        result = await agent.arun(PROMPT)
        return str(result.raise_for_status().output)

    return asked


def recall(url: str, history: list[Message], llm: LLM | None = None) -> Callable[[], str]:
    """One more question in a long conversation."""
    from agentkit.messages import AssistantMessage, UserMessage

    agent = agent_at(url, (), llm)
    kinds = {"user": UserMessage, "assistant": AssistantMessage}
    agent.session.append([kinds[message["role"]](message["content"]) for message in history])
    return lambda: agent(PROMPT)


def respond(url: str) -> Callable[[], str]:
    """One run with the Responses protocol."""
    llm = LLM("openai", model=MODEL, api_key=KEY, base_url=url, protocol="responses")
    agent = Agent("measured", (), INSTRUCTION, MOST_TURNS, llm=llm)

    def asked() -> str:
        agent.reset()
        return agent(PROMPT)

    return asked


def stream(url: str, llm: LLM | None = None) -> Callable[[], int]:
    """One streamed run; returns the number of deltas."""
    from agentkit.events import TextDelta

    agent = agent_at(url, (), llm)

    def counted() -> int:
        agent.reset()
        return sum(1 for event in agent.stream(PROMPT) if isinstance(event, TextDelta))

    return counted


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    return Tool(function).parameters


def schema_again(function: Function) -> Callable[[], Any]:
    """The schema of an existing tool, for a request."""
    tool = Tool(function)
    return lambda: tool.parameters


def maker(_: str, functions: Sequence[Function]) -> Callable[[], Any]:
    """Return a function that creates an agent with existing tools."""
    from agentkit import Toolset

    tools = Toolset([Tool(function) for function in functions])
    return lambda: Agent("measured", tools, INSTRUCTION)


def direct() -> Callable[[], Any]:
    """A built-in tool, which is judged."""
    from agentkit import string_length_tool

    return lambda: string_length_tool(text="How long is this?")
