"""Baseline with httpx2, which the openai package uses."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import httpx2
from workload import KEY, Function, Message, answered, converse, request, tool_of

HEADERS = {"Authorization": f"Bearer {KEY}"}
ONE_BY_ONE = "this loop runs one tool after the other"
MISSING = {"respond": "written for Chat Completions only", "wait": ONE_BY_ONE, "await_": ONE_BY_ONE}


def ask(url: str, functions: Sequence[Function], history: Sequence[Message] = ()) -> Callable[[], str]:
    """The handwritten loop."""
    client, where = httpx2.Client(headers=HEADERS, verify=url.startswith("https:")), f"{url}/chat/completions"

    def post(body: Message) -> Any:
        return client.post(where, json=body).raise_for_status().json()

    return partial(converse, post, functions, history)


def aask(url: str, functions: Sequence[Function]) -> Callable[[], Awaitable[str]]:
    """The async version of the loop, with sync tools."""
    limits = httpx2.Limits(max_connections=1_000, max_keepalive_connections=1_000)
    client = httpx2.AsyncClient(headers=HEADERS, limits=limits, timeout=60, verify=url.startswith("https:"))
    known = {function.__name__: function for function in functions}

    async def asked() -> str:
        body = {**request(), "tools": [tool_of(function) for function in functions]}
        while True:
            response = await client.post(f"{url}/chat/completions", json=body)
            message = response.raise_for_status().json()["choices"][0]["message"]
            calls = message.get("tool_calls")
            if not calls:
                return str(message["content"])
            body["messages"] += [message, *(answered(call, known) for call in calls)]

    return asked


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One question after a long conversation."""
    return ask(url, (), history)


def stream(url: str) -> Callable[[], int]:
    """One question whose answer is read line by line."""
    client, where = httpx2.Client(headers=HEADERS, verify=url.startswith("https:")), f"{url}/chat/completions"

    def counted() -> int:
        count = 0
        with client.stream("POST", where, json=request(streamed=True)) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    count += bool(choices and choices[0]["delta"].get("content"))
        return count

    return counted
