"""agentkit with a client of the openai package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import agentkit_adapter
from openai import AsyncOpenAI, OpenAI
from workload import KEY, MODEL, Function, Message

from agentkit import LLM

MISSING = {"respond": "measured over Chat Completions"}


def lent(url: str) -> LLM:
    """The same model, with a client."""
    return LLM(client=OpenAI(base_url=url, api_key=KEY), model=MODEL)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One run of an agent."""
    return agentkit_adapter.ask(url, functions, lent(url))


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """One async run."""
    llm = LLM(client=AsyncOpenAI(base_url=url, api_key=KEY), model=MODEL)
    return agentkit_adapter.aask(url, functions, llm)


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One more question in a long conversation."""
    return agentkit_adapter.recall(url, history, lent(url))


def stream(url: str) -> Callable[[], int]:
    """One streamed run; returns the number of deltas."""
    return agentkit_adapter.stream(url, lent(url))
