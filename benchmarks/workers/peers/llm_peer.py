"""Adapter of llm: a model and its chains of tool calls, without logging."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import llm
from llm.default_plugins.openai_models import AsyncChat, Chat
from workload import INSTRUCTION, KEY, MODEL, PROMPT, Function, Message

MISSING = {"maker": "the library has no agents", "respond": "works only with OpenAI's URL"}


def model_at(url: str) -> Chat:
    """A model on the server."""
    return Chat(MODEL, key=KEY, api_base=url, supports_tools=True)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One prompt, or one chain of tool calls."""
    model, tools = model_at(url), list(functions)
    if not tools:
        return lambda: model.prompt(PROMPT, system=INSTRUCTION, stream=False).text()

    def asked() -> str:
        conversation = model.conversation(tools=tools, chain_limit=0)
        return conversation.chain(PROMPT, system=INSTRUCTION, stream=False).text()

    return asked


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """The async version."""
    model, tools = AsyncChat(MODEL, key=KEY, api_base=url, supports_tools=True), list(functions)

    async def asked() -> str:
        conversation = model.conversation(tools=tools, chain_limit=0)
        return await conversation.chain(PROMPT, system=INSTRUCTION, stream=False).text()

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One prompt with a long conversation."""
    model, say = model_at(url), {"user": llm.user, "assistant": llm.assistant}
    earlier = [llm.system(INSTRUCTION), *(say[message["role"]](message["content"]) for message in history)]
    return lambda: model.prompt(messages=[*earlier, llm.user(PROMPT)], stream=False).text()


def stream(url: str) -> Callable[[], int]:
    """One streamed prompt; returns the number of deltas."""
    model = model_at(url)
    return lambda: sum(1 for text in model.prompt(PROMPT, system=INSTRUCTION, stream=True) if text)


def schema(function: Function) -> Any:
    """The schema of a new tool."""
    return llm.Tool.function(function).input_schema


def direct() -> Callable[[], Any]:
    """A function as a tool."""

    def string_length(text: str) -> int:
        """Count the characters of a text."""
        return len(text)

    made = llm.Tool.function(string_length)
    return lambda: made.implementation(text="How long is this?")
