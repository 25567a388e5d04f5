"""Baseline with the documented `post` method of the openai package, which takes plain dictionaries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from openai import AsyncOpenAI, OpenAI, Stream
from workload import KEY, Function, Message, answered, converse, request, tool_of

CHAT = "/chat/completions"


def ask(url: str, functions: Sequence[Function], history: Sequence[Message] = ()) -> Callable[[], str]:
    """The handwritten loop, sync; parallel tools run in threads."""
    client = OpenAI(base_url=url, api_key=KEY)

    def post(body: Message) -> Any:
        return client.post(CHAT, cast_to=object, body=body)

    if any(function.__name__ == "wait" for function in functions):
        return partial(_in_threads, post, functions)
    return partial(converse, post, functions, history)


def _in_threads(post: Callable[[Message], Any], functions: Sequence[Function]) -> str:
    body, known = _begun(functions), {function.__name__: function for function in functions}
    while True:
        message = post(body)["choices"][0]["message"]
        calls = message.get("tool_calls")
        if not calls:
            return str(message["content"])
        with ThreadPoolExecutor(len(calls)) as pool:
            body["messages"] += [message, *pool.map(lambda call: answered(call, known), calls)]


def _begun(functions: Sequence[Function]) -> Message:
    return {**request(), **({"tools": [tool_of(function) for function in functions]} if functions else {})}


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """The async version of the loop."""
    client, known = AsyncOpenAI(base_url=url, api_key=KEY), {function.__name__: function for function in functions}

    async def asked() -> str:
        body = _begun(functions)
        while True:
            completion: Any = await client.post(CHAT, cast_to=object, body=body)
            message = completion["choices"][0]["message"]
            calls = message.get("tool_calls")
            if not calls:
                return str(message["content"])
            body["messages"] += [message, *await asyncio.gather(*(_awaited(call, known) for call in calls))]

    return asked


async def _awaited(call: Any, known: dict[str, Function]) -> Message:
    function = known[call["function"]["name"]]
    if not iscoroutinefunction(function):
        return await asyncio.to_thread(answered, call, known)
    value = await function(**json.loads(call["function"]["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": value}


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One question after a long conversation."""
    return ask(url, (), history)


def respond(url: str) -> Callable[[], str]:
    """One question with the Responses protocol."""
    client = OpenAI(base_url=url, api_key=KEY)
    first, last = request()["messages"]
    body = {"model": request()["model"], "instructions": first["content"], "input": [last]}

    def asked() -> str:
        response: Any = client.post("/responses", cast_to=object, body=body)
        return str(response["output"][0]["content"][0]["text"])

    return asked


def stream(url: str) -> Callable[[], int]:
    """One question whose answer is read delta by delta."""
    client = OpenAI(base_url=url, api_key=KEY)

    def counted() -> int:
        body = request(streamed=True)
        chunks: Any = client.post(CHAT, cast_to=object, body=body, stream=True, stream_cls=Stream[object])
        return sum(1 for chunk in chunks if chunk["choices"] and chunk["choices"][0]["delta"].get("content"))

    return counted
