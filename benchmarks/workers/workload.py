"""The common workload of all libraries: prompts, tools and conversation, and the loop of the baselines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal

MODEL = "gpt-4.1-mini"
KEY = "sk-no-key-is-needed"
INSTRUCTION = "You are a helpful assistant. Answer briefly, and use the tools when they help."
PROMPT = "What are the figures of the first quarter, and what follows from them for the second one?"
MOST_TURNS = 1_000

Message = dict[str, Any]
Function = Callable[..., Any]


def lookup(number: int) -> str:
    """Look up one figure.

    Args:
        number: Which figure, from 0.
    """
    return f"result-{number:04}: the figure is {17 * number}."


def wait(number: int) -> str:
    """Wait for one figure.

    Args:
        number: Which figure, from 0.
    """
    time.sleep(0.1)
    return f"result-{number:04}: waited."


async def await_(number: int) -> str:
    """Wait for one figure.

    Args:
        number: Which figure, from 0.
    """
    import asyncio

    await asyncio.sleep(0.1)
    return f"result-{number:04}: awaited."


def dump(number: int) -> str:
    """Read a whole file.

    Args:
        number: Which file, from 0.
    """
    return f"result-{number:04}: " + "0123456789abcdef" * 65_536


await_.__name__ = "await_figure"


PARAMETERS = ("destination", "travellers", "nights", "budget", "travel_class", "urgency")


class Urgency(Enum):
    """The urgency of a request."""

    LOW = "low"
    HIGH = "high"


def realistic() -> Function:
    """A function with parameters of many types; a new one for each call, so that no library has it in a cache."""

    def book_trip(
        destination: str,
        travellers: list[str],
        nights: int = 3,
        budget: float | None = None,
        travel_class: Literal["economy", "business", "first"] = "economy",
        urgency: Urgency = Urgency.LOW,
    ) -> str:
        """Book a trip for some people.

        Args:
            destination: The city to go to, with its country.
            travellers: Full names, as in the passports.
            nights: How many nights to stay.
            budget: The most to spend, in euros.
            travel_class: The class of the flight.
            urgency: How soon an answer is needed.
        """
        return f"{destination}: {travellers}, {nights} nights, {budget}, {travel_class}, {urgency}"

    return book_trip


book_trip = realistic()


def ten_functions() -> list[Function]:
    """Ten functions for the tools of an agent."""

    def named(index: int) -> Function:
        def look(number: int) -> str:
            """Look up one figure.

            Args:
                number: Which figure.
            """
            return f"{index}: {number}"

        look.__name__ = look.__qualname__ = f"look_{index}"
        return look

    return [named(index) for index in range(10)]


def conversation(count: int) -> list[Message]:
    """A number of earlier messages, by user and model in turn, as plain dictionaries."""
    question = "What was the figure of month {}, and by how much did it differ from that of the month before?"
    reply = "The figure of month {} was 1,234; it was about two percent higher than that of the month before."
    return [
        {"role": "assistant", "content": reply.format(number)}
        if number % 2
        else {"role": "user", "content": question.format(number)}
        for number in range(count)
    ]


def tool_of(function: Function) -> dict[str, Any]:
    """A handwritten tool description."""
    description = (function.__doc__ or "").strip().splitlines()[0]
    number = {"type": "integer", "description": "Which figure, from 0."}
    parameters = {"type": "object", "properties": {"number": number}, "required": ["number"]}
    spec = {"name": function.__name__, "description": description, "parameters": parameters}
    return {"type": "function", "function": spec}


def converse(post: Callable[[Message], Any], functions: Sequence[Function], history: Iterable[Message] = ()) -> str:
    """The handwritten loop: plain dictionaries, tools one after the other."""
    known = {function.__name__: function for function in functions}
    prompt = {"role": "user", "content": PROMPT}
    messages = [{"role": "system", "content": INSTRUCTION}, *history, prompt]
    body: Message = {"model": MODEL, "messages": messages}
    if functions:
        body["tools"] = [tool_of(function) for function in functions]
    while True:
        message = post(body)["choices"][0]["message"]
        calls = message.get("tool_calls")
        if not calls:
            return str(message["content"])
        messages.append({"role": "assistant", "content": message["content"], "tool_calls": calls})
        messages.extend(answered(call, known) for call in calls)


def answered(call: Mapping[str, Any], known: Mapping[str, Function]) -> Message:
    """The message with the result of a call."""
    value = known[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": value}


def request(*, streamed: bool = False) -> Message:
    """The body of a chat without tools."""
    messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": PROMPT}]
    return {"model": MODEL, "messages": messages, **({"stream": True} if streamed else {})}
