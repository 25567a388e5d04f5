"""Adapter of underthesea, the reference design, without its local traces, which are on by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from underthesea.agent import Agent, OpenAI, Tool
from workload import INSTRUCTION, KEY, MODEL, MOST_TURNS, PROMPT, Function, Message

MISSING = {
    "aask": "the agent has no async API",
    "respond": "only Chat Completions",
}


def agent_at(url: str, functions: Sequence[Function]) -> Agent:
    """An agent with a model on the server."""
    provider = OpenAI(api_key=KEY, model=MODEL, base_url=url)
    return Agent("measured", [Tool(function) for function in functions], INSTRUCTION, MOST_TURNS, provider)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One call of the agent."""
    agent = agent_at(url, functions)

    def asked() -> str:
        agent.reset()
        return str(agent(PROMPT))

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One call of the provider with a long conversation, because the agent accepts none."""
    provider = OpenAI(api_key=KEY, model=MODEL, base_url=url)
    first, last = {"role": "system", "content": INSTRUCTION}, {"role": "user", "content": PROMPT}
    return lambda: str(provider.chat([first, *history, last]).content)


def stream(url: str) -> Callable[[], int]:
    """One answer, streamed."""
    agent = agent_at(url, ())

    def counted() -> int:
        agent.reset()
        return sum(1 for text in agent.stream(PROMPT) if text)

    return counted


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    return Tool(function).to_openai_tool()


def maker(url: str, functions: Sequence[Function]) -> Callable[[], Any]:
    """Return a function that creates an agent with existing tools."""
    provider = OpenAI(api_key=KEY, model=MODEL, base_url=url)
    tools = [Tool(function) for function in functions]
    return lambda: Agent("measured", tools, INSTRUCTION, provider=provider)


def direct() -> Callable[[], Any]:
    """A built-in tool."""
    from underthesea.agent import string_length_tool

    return lambda: string_length_tool(text="How long is this?")
