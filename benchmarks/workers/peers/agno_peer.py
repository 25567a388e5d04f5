"""Adapter of agno, without a database and telemetry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agno.agent import Agent
from agno.models.message import Message as AgnoMessage
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.tools.function import Function as AgnoFunction
from agno.tools.function import FunctionCall
from workload import INSTRUCTION, KEY, MODEL, PROMPT, Function, Message


def agent_of(model: Any, tools: Sequence[Any]) -> Agent:
    """An agent without telemetry."""
    return Agent(model=model, tools=list(tools), instructions=INSTRUCTION, telemetry=False)


def model_at(url: str) -> OpenAIChat:
    """A model on the server."""
    return OpenAIChat(id=MODEL, api_key=KEY, base_url=url)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One run."""
    agent = agent_of(model_at(url), functions)
    return lambda: str(agent.run(PROMPT).content)


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """One async run."""
    agent = agent_of(model_at(url), functions)

    async def asked() -> str:
        return str((await agent.arun(PROMPT)).content)

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One run with a long conversation."""
    agent = agent_of(model_at(url), ())
    earlier = [AgnoMessage(**message) for message in history]
    prompt = AgnoMessage(role="user", content=PROMPT)
    return lambda: str(agent.run([*earlier, prompt]).content)


def respond(url: str) -> Callable[[], str]:
    """One run with the Responses protocol."""
    agent = agent_of(OpenAIResponses(id=MODEL, api_key=KEY, base_url=url), ())
    return lambda: str(agent.run(PROMPT).content)


def stream(url: str) -> Callable[[], int]:
    """One streamed run; returns the number of deltas."""
    agent = agent_of(model_at(url), ())

    def counted() -> int:
        return sum(1 for event in agent.run(PROMPT, stream=True) if event.event == "RunContent" and event.content)

    return counted


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    made = AgnoFunction.from_callable(function)
    made.process_entrypoint()
    return made.parameters


def maker(url: str, functions: Sequence[Function]) -> Callable[[], Any]:
    """Return a function that creates an agent with existing tools."""
    model = model_at(url)
    return lambda: agent_of(model, functions)


def direct() -> Callable[[], Any]:
    """A function as a tool."""

    def string_length(text: str) -> int:
        """Count the characters of a text."""
        return len(text)

    made = AgnoFunction.from_callable(string_length)
    made.process_entrypoint()
    return lambda: FunctionCall(function=made, arguments={"text": "How long is this?"}).execute()
