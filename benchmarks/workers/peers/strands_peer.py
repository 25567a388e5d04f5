"""Adapter of strands-agents, without terminal output; it always streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel
from workload import INSTRUCTION, KEY, MODEL, PROMPT, Function, Message


def model_at(url: str) -> OpenAIModel:
    """A model on the server."""
    return OpenAIModel(client_args={"base_url": url, "api_key": KEY}, model_id=MODEL)


def agent_of(model: Any, tools: list[Any]) -> Agent:
    """An agent without terminal output."""
    return Agent(model=model, tools=tools, system_prompt=INSTRUCTION, callback_handler=None)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One call, in a new conversation."""
    agent = agent_of(model_at(url), [tool(function) for function in functions])

    def asked() -> str:
        agent.messages.clear()
        return str(agent(PROMPT))

    return asked


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """One async call; parallel calls need separate agents."""
    model, tools = model_at(url), [tool(function) for function in functions]

    async def asked() -> str:
        return str(await agent_of(model, tools).invoke_async(PROMPT))

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One call after a long conversation."""
    agent = agent_of(model_at(url), [])
    earlier: Any = [{**message, "content": [{"text": message["content"]}]} for message in history]

    def asked() -> str:
        agent.messages[:] = earlier
        return str(agent(PROMPT))

    return asked


def respond(url: str) -> Callable[[], str]:
    """One call with the Responses protocol."""
    model = OpenAIResponsesModel(client_args={"base_url": url, "api_key": KEY}, model_id=MODEL)
    agent = agent_of(model, [])

    def asked() -> str:
        agent.messages.clear()
        return str(agent(PROMPT))

    return asked


def stream(url: str) -> Callable[[], int]:
    """One streamed call; returns the number of deltas."""
    agent, loop = agent_of(model_at(url), []), asyncio.new_event_loop()

    async def counted() -> int:
        agent.messages.clear()
        return sum([1 async for event in agent.stream_async(PROMPT) if event.get("data")])

    return lambda: loop.run_until_complete(counted())


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    return tool(function).tool_spec


def maker(url: str, functions: Sequence[Function]) -> Callable[[], Any]:
    """Return a function that creates an agent with existing tools."""
    model, tools = model_at(url), [tool(function) for function in functions]
    return lambda: agent_of(model, tools)


def direct() -> Callable[[], Any]:
    """A function as a tool."""

    @tool
    def string_length(text: str) -> int:
        """Count the characters of a text.

        Args:
            text: The text.
        """
        return len(text)

    return lambda: string_length(text="How long is this?")
