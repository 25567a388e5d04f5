"""Adapter of langchain's current agent, without tracing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from workload import INSTRUCTION, KEY, MODEL, MOST_TURNS, PROMPT, Function, Message

UNLIMITED = {"recursion_limit": 4 * MOST_TURNS}
QUESTION = {"messages": [{"role": "user", "content": PROMPT}]}


def model_at(url: str, **settings: Any) -> ChatOpenAI:
    """A model on the server."""
    return ChatOpenAI(model=MODEL, base_url=url, api_key=KEY, **settings)


def tool_of(function: Function) -> StructuredTool:
    """A function as a tool; an async function has no sync version."""
    if function.__name__ == "await_figure":
        return StructuredTool.from_function(coroutine=function)
    return StructuredTool.from_function(function)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One run."""
    agent = create_agent(model_at(url), [tool_of(function) for function in functions], system_prompt=INSTRUCTION)
    return lambda: str(agent.invoke(QUESTION, UNLIMITED)["messages"][-1].content)


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """One async run."""
    agent = create_agent(model_at(url), [tool_of(function) for function in functions], system_prompt=INSTRUCTION)

    async def asked() -> str:
        return str((await agent.ainvoke(QUESTION, UNLIMITED))["messages"][-1].content)

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One run with a long conversation."""
    agent = create_agent(model_at(url), [], system_prompt=INSTRUCTION)
    return lambda: str(agent.invoke({"messages": [*history, *QUESTION["messages"]]})["messages"][-1].content)


def respond(url: str) -> Callable[[], str]:
    """One run with the Responses protocol."""
    agent = create_agent(model_at(url, use_responses_api=True), [], system_prompt=INSTRUCTION)
    return lambda: str(agent.invoke(QUESTION)["messages"][-1].content)


def stream(url: str) -> Callable[[], int]:
    """One streamed run; returns the number of deltas."""
    agent = create_agent(model_at(url, streaming=True), [], system_prompt=INSTRUCTION)
    return lambda: sum(1 for delta, _ in agent.stream(QUESTION, stream_mode="messages") if delta.content)


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    return convert_to_openai_tool(tool_of(function))


def maker(url: str, functions: Sequence[Function]) -> Callable[[], Any]:
    """Return a function that creates an agent with existing tools."""
    model, tools = model_at(url), [tool_of(function) for function in functions]
    return lambda: create_agent(model, tools, system_prompt=INSTRUCTION)


def direct() -> Callable[[], Any]:
    """A function as a tool."""

    @tool
    def string_length(text: str) -> int:
        """Count the characters of a text."""
        return len(text)

    return lambda: string_length.invoke({"text": "How long is this?"})
