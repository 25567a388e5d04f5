"""Baseline with the typed methods of the openai package, and the loop of its documentation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import iscoroutinefunction
from typing import Any

from openai import AsyncOpenAI, OpenAI
from workload import INSTRUCTION, KEY, MODEL, PROMPT, Function, Message, tool_of


def begun(functions: Sequence[Function]) -> tuple[list[Any], dict[str, Any], dict[str, Function]]:
    """The first messages, the tools if there are any, and the functions by name."""
    messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": PROMPT}]
    tools = {"tools": [tool_of(function) for function in functions]} if functions else {}
    return messages, tools, {function.__name__: function for function in functions}


def ask(url: str, functions: Sequence[Function]) -> Callable[[], str]:
    """The handwritten loop, sync; parallel tools run in threads."""
    client = OpenAI(base_url=url, api_key=KEY)

    def asked() -> str:
        messages, tools, known = begun(functions)
        while True:
            completion = client.chat.completions.create(model=MODEL, messages=messages, **tools)
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message)
            messages.extend(answers(message.tool_calls, known))

    return asked


def answers(calls: Sequence[Any], known: dict[str, Function]) -> list[Message]:
    """The results of some calls, which run in parallel."""
    if len(calls) == 1:
        return [answer(calls[0], known)]
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: answer(call, known), calls))


def answer(call: Any, known: dict[str, Function]) -> Message:
    """The result of one call."""
    value = known[call.function.name](**json.loads(call.function.arguments))
    return {"role": "tool", "tool_call_id": call.id, "content": value}


async def aanswer(call: Any, known: dict[str, Function]) -> Message:
    """Async version of `answer`; a sync function runs in a thread."""
    function, arguments = known[call.function.name], json.loads(call.function.arguments)
    value = await (function(**arguments) if iscoroutinefunction(function) else asyncio.to_thread(function, **arguments))
    return {"role": "tool", "tool_call_id": call.id, "content": value}


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """The async version of the loop."""
    client = AsyncOpenAI(base_url=url, api_key=KEY)

    async def asked() -> str:
        messages, tools, known = begun(functions)
        while True:
            completion = await client.chat.completions.create(model=MODEL, messages=messages, **tools)
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message)
            messages.extend(await asyncio.gather(*(aanswer(call, known) for call in message.tool_calls)))

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One question after a long conversation."""
    client = OpenAI(base_url=url, api_key=KEY)
    first, last = {"role": "system", "content": INSTRUCTION}, {"role": "user", "content": PROMPT}

    def asked() -> str:
        completion = client.chat.completions.create(model=MODEL, messages=[first, *history, last])
        return completion.choices[0].message.content or ""

    return asked


def respond(url: str) -> Callable[[], str]:
    """One question with the Responses protocol."""
    client = OpenAI(base_url=url, api_key=KEY)

    def asked() -> str:
        question = [{"role": "user", "content": PROMPT}]
        return client.responses.create(model=MODEL, instructions=INSTRUCTION, input=question).output_text

    return asked


def stream(url: str) -> Callable[[], int]:
    """One question whose answer is read delta by delta."""
    client = OpenAI(base_url=url, api_key=KEY)

    def counted() -> int:
        messages, _, _ = begun(())
        chunks = client.chat.completions.create(model=MODEL, messages=messages, stream=True)
        return sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content)

    return counted
