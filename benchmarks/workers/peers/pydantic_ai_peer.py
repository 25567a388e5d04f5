"""Adapter of pydantic-ai, without instrumentation and without its request limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from workload import INSTRUCTION, KEY, MODEL, PROMPT, Function, Message

NO_LIMITS = UsageLimits(request_limit=None)
MISSING = {"direct": "tools can be called only in a run"}


def agent_at(url: str, functions: Sequence[Function]) -> Agent[Any, str]:
    """An agent with a model on the server."""
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key=KEY))
    return Agent(model, instructions=INSTRUCTION, tools=[Tool(function) for function in functions])


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One run."""
    agent = agent_at(url, functions)
    return lambda: agent.run_sync(PROMPT, usage_limits=NO_LIMITS).output


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """One async run."""
    agent = agent_at(url, functions)

    async def asked() -> str:
        return (await agent.run(PROMPT, usage_limits=NO_LIMITS)).output

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One run after a long conversation."""
    agent = agent_at(url, ())
    earlier: list[ModelMessage] = [
        ModelRequest([UserPromptPart(message["content"])])
        if message["role"] == "user"
        else ModelResponse([TextPart(message["content"])])
        for message in history
    ]
    return lambda: agent.run_sync(PROMPT, message_history=earlier).output


def respond(url: str) -> Callable[[], str]:
    """One run with the Responses protocol."""
    model = OpenAIResponsesModel(MODEL, provider=OpenAIProvider(base_url=url, api_key=KEY))
    agent = Agent(model, instructions=INSTRUCTION)
    return lambda: agent.run_sync(PROMPT).output


def stream(url: str) -> Callable[[], int]:
    """One streamed run; returns the number of deltas."""
    agent, loop = agent_at(url, ()), asyncio.new_event_loop()

    async def counted() -> int:
        async with agent.run_stream(PROMPT) as result:
            return sum([1 async for text in result.stream_text(delta=True, debounce_by=None) if text])

    return lambda: loop.run_until_complete(counted())


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    return Tool(function).function_schema.json_schema


def maker(url: str, functions: Sequence[Function]) -> Callable[[], Any]:
    """Return a function that creates an agent with existing tools."""
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key=KEY))
    tools = [Tool(function) for function in functions]
    return lambda: Agent(model, instructions=INSTRUCTION, tools=tools)
