"""Adapter of openai-agents, with Chat Completions as in the others, without tracing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    Tool,
    function_tool,
    set_tracing_disabled,
)
from agents.tool_context import ToolContext
from openai import AsyncOpenAI
from workload import INSTRUCTION, KEY, MODEL, MOST_TURNS, PROMPT, Function, Message

set_tracing_disabled(True)


def agent_at(url: str, tools: list[Tool]) -> Agent[Any]:
    """An agent with a model on the server."""
    client = AsyncOpenAI(base_url=url, api_key=KEY)
    return Agent("measured", instructions=INSTRUCTION, tools=tools, model=OpenAIChatCompletionsModel(MODEL, client))


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One run."""
    agent = agent_at(url, [function_tool(function) for function in functions])
    return lambda: str(Runner.run_sync(agent, PROMPT, max_turns=MOST_TURNS).final_output)


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """One async run."""
    agent = agent_at(url, [function_tool(function) for function in functions])

    async def asked() -> str:
        return str((await Runner.run(agent, PROMPT, max_turns=MOST_TURNS)).final_output)

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One run after a long conversation."""
    agent, prompt = agent_at(url, []), {"role": "user", "content": PROMPT}
    return lambda: str(Runner.run_sync(agent, [*history, prompt]).final_output)


def respond(url: str) -> Callable[[], str]:
    """One run with the Responses protocol."""
    model = OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=url, api_key=KEY))
    agent = Agent("measured", instructions=INSTRUCTION, model=model)
    return lambda: str(Runner.run_sync(agent, PROMPT).final_output)


def stream(url: str) -> Callable[[], int]:
    """One streamed run; returns the number of deltas."""
    agent, loop = agent_at(url, []), asyncio.new_event_loop()

    async def counted() -> int:
        count = 0
        async for event in Runner.run_streamed(agent, PROMPT).stream_events():
            count += event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        return count

    return lambda: loop.run_until_complete(counted())


def schema(function: Function) -> Any:
    """The schema of a new tool; strict mode does not allow free dictionaries."""
    return function_tool(function).params_json_schema


def maker(url: str, functions: Sequence[Function]) -> Callable[[], Any]:
    """Return a function that creates an agent with existing tools."""
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=url, api_key=KEY))
    tools: list[Tool] = [function_tool(function) for function in functions]
    return lambda: Agent("measured", instructions=INSTRUCTION, tools=tools, model=model)


def direct() -> Callable[[], Any]:
    """A function as a tool, called with its arguments as JSON text, since this is its only interface."""

    @function_tool
    def string_length(text: str) -> int:
        """Count the characters of a text."""
        return len(text)

    arguments, loop = json.dumps({"text": "How long is this?"}), asyncio.new_event_loop()
    context = ToolContext(None, tool_name="string_length", tool_call_id="call_1", tool_arguments=arguments)
    return lambda: loop.run_until_complete(string_length.on_invoke_tool(context, arguments))
