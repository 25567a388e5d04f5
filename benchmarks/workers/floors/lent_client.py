"""What does agentkit cost over a client of the openai package that its user lends?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import agentkit_adapter
from openai import AsyncOpenAI, OpenAI
from workload import KEY, MODEL, Function, Message

from agentkit import LLM

MISSING = {"respond": "measured over Chat Completions"}


def lent(url: str) -> LLM:
    """The same model as ever, over a client."""
    return LLM(client=OpenAI(base_url=url, api_key=KEY), model=MODEL)


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """One run of an agent."""
    return agentkit_adapter.ask(url, functions, lent(url))


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """One run, awaiting."""
    llm = LLM(client=AsyncOpenAI(base_url=url, api_key=KEY), model=MODEL)
    return agentkit_adapter.aask(url, functions, llm)


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One question more in a long conversation."""
    return agentkit_adapter.recall(url, history, lent(url))


def stream(url: str) -> Callable[[], int]:
    """One run whose deltas are counted."""
    return agentkit_adapter.stream(url, lent(url))
