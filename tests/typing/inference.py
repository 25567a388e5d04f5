"""The types that checkers infer for agents, and the mistakes that they report, which are marked by comments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, assert_type

from agentkit import Agent, ApprovalRequest, RunContext, RunFinished, RunResult, Tool, core_tools, tool
from agentkit.testing import ScriptedLLM


@dataclass
class Shop:
    """The context of the runs of a shop."""

    city: str


@dataclass
class Branch(Shop):
    """A kind of shop."""

    number: int = 0


@dataclass
class Library:
    """The context of other runs."""

    shelves: int


@dataclass
class Flight:
    """An answer."""

    number: str


@dataclass
class NoFlight:
    """Another answer."""


def open_today(output: Any, run: RunContext[Shop]) -> None:
    """A guardrail that needs a shop."""


def short(prompt: str) -> None:
    """A guardrail that needs no context."""


def owner(request: ApprovalRequest, run: RunContext[Shop]) -> bool:
    """An approver that needs a shop."""
    return run.value.city == "Hue"


def order(run: RunContext[Shop]) -> str:
    """An instruction that needs a shop."""
    return f"You work in {run.value.city}."


@tool
def sell(run: RunContext[Shop], item: str) -> str:
    """A tool that needs a shop."""
    return f"{item} in {run.value.city}"


def count(run: RunContext[Shop], item: str) -> int:
    """A function that needs a shop."""
    return len(item) + len(run.value.city)


class Till:
    """A class with a method that can be a tool."""

    def pay(self, euros: int) -> str:
        """Pay."""
        return f"{euros} EUR"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


llm = ScriptedLLM("Hello.", repeat=True)


def outputs() -> None:
    """The type of the answer is that of `output_type`."""
    assert_type(Agent("helper").run("Hi!"), RunResult[str])
    assert_type(Agent("helper", output_type=Flight).run("Hi!").output, Flight)
    assert_type(Agent("helper", output_type=Flight | NoFlight).run("Hi!").output, Flight | NoFlight)
    assert_type(Agent("helper", output_type=list[Flight]).run("Hi!").output, list[Flight])
    assert_type(Agent("helper").run("Hi!", output_type=Literal["yes", "no"]).output, Literal["yes", "no"])
    for event in Agent("helper", output_type=Flight).stream("Hi!"):
        if isinstance(event, RunFinished):
            str(event.result.output.price)  # error


def contexts() -> None:
    """The type of the context is that of the first argument that has one; otherwise it is unconstrained."""
    typed = Agent("helper", guardrails=[open_today, short], approve=owner, llm=llm)
    assert_type(typed, Agent[str, Shop])
    typed.run("Hi!", context=Branch("Hue"))
    typed.stream("Hi!", context=Library(3))  # error
    typed.run("Hi!", context=Library(3))  # error
    assert_type(Agent("helper", context=Shop("Hue")), Agent[str, Shop])
    Agent("helper", context=Branch("Hue"), guardrails=[open_today], approve=owner)
    Agent("helper", instruction=order).run("Hi!", context=Library(3))  # error
    Agent("helper", context=Library(3), guardrails=[open_today])  # error
    Agent("helper", context=Library(3), approve=owner)  # error
    Agent("helper").run("Hi!", context=Library(3))
    free: Agent[str] = Agent("helper")
    free.run("Hi!", context=Shop("Hue"))


def tools() -> None:
    """Tools whose first parameter is the context have its type, and so have agents with these tools."""
    named: list[Tool[..., Any, Shop]] = [sell, Tool(count, "count").renamed("number")]
    other: Tool[..., Any, Library] = sell  # error
    assert_type(Agent("helper", named), Agent[str, Shop])
    assert_type(Agent("helper", other).run("Hi!"), RunResult[str])
    assert_type(tool(level="safe")(count)(RunContext(Shop("Hue")), "hat"), int)
    assert_type(Agent("helper", [sell]), Agent[str, Shop])
    Agent("helper", [sell]).run("Hi!", context=Branch("Hue"))
    Agent("helper", [sell]).run("Hi!", context=Library(3))  # error
    Agent("helper", [sell], context=Library(3))  # error
    Agent("helper", [sell], approve=owner, output_type=Flight).run("Hi!", context=Library(3))  # error
    Agent("helper", [sell], instruction=order).run("Hi!", context=Library(3))  # error
    Agent("helper", [sell, add, Till().pay, partial(count, item="hat"), Agent("other"), core_tools])
    Agent("helper", [add, add.when(lambda: True)]).run("Hi!", context=Library(3))
    Agent("helper", core_tools).run("Hi!", context=Library(3))
    Agent("helper", Till().pay).run("Hi!", context=Library(3))
    llm.complete("Hi!", tools=[add])
    Agent("helper", [5])  # error
    sell(RunContext(Library(3)), "hat")  # error


def arguments() -> None:
    """Levels are literals, and tools keep the parameters of their functions."""
    Agent("helper", safety="system", unlabelled="ask", approve="later")
    Agent("helper", safety="hgih")  # error
    Agent("helper", unlabelled="deny")  # error
    tool(level="hgih")  # error
    Agent("helper", guardrails=[5])  # error
    Agent("helper", guardrails=[lambda: None])  # error
    assert_type(add(1, b=2), int)
    add("1", b=2)  # error
    Agent("helper").run("Hi!", max_iterations="3")  # error
