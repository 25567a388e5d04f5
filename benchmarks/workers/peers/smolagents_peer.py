"""Adapter of smolagents' tool-calling agent, without its console; an answer is a call of `final_answer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smolagents import LogLevel, OpenAIServerModel, Tool, ToolCallingAgent, tool
from workload import INSTRUCTION, KEY, MODEL, MOST_TURNS, PROMPT, Function, Message

MISSING = {
    "aask": "the agent has no async API",
    "respond": "only Chat Completions",
}


def model_at(url: str) -> OpenAIServerModel:
    """A model on the server, which ends with a call of `final_answer`."""
    return OpenAIServerModel(MODEL, url.replace("/v1", ".final-final_answer/v1"), KEY)


def agent_of(model: OpenAIServerModel, tools: list[Tool]) -> ToolCallingAgent:
    """An agent without terminal output."""
    quiet = {"instructions": INSTRUCTION, "max_steps": MOST_TURNS, "verbosity_level": LogLevel.OFF}
    return ToolCallingAgent(tools, model, **quiet)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One run of the agent."""
    agent = agent_of(model_at(url), [tool(function) for function in functions])
    return lambda: str(agent.run(PROMPT))


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One call of the model with a long conversation, because the agent stores steps instead of messages."""
    model = OpenAIServerModel(MODEL, url, KEY)
    earlier = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in history]
    first = {"role": "system", "content": [{"type": "text", "text": INSTRUCTION}]}
    last = {"role": "user", "content": [{"type": "text", "text": PROMPT}]}
    return lambda: str(model.generate([first, *earlier, last]).content)


def stream(url: str) -> Callable[[], int]:
    """One answer, streamed by the model, because the agent streams the text of a tool call."""
    model = OpenAIServerModel(MODEL, url, KEY)
    first = {"role": "system", "content": [{"type": "text", "text": INSTRUCTION}]}
    last = {"role": "user", "content": [{"type": "text", "text": PROMPT}]}
    return lambda: sum(1 for delta in model.generate_stream([first, last]) if delta.content)


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    made = tool(function)
    return made.inputs


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
