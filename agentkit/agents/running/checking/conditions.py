"""Which tools may a model be offered now? Those whose conditions hold, which are asked before each request."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from agentkit.agents.running.plan import CallingTool, Plan
from agentkit.agents.running.questions import CallFunction
from agentkit.errors import RunError
from agentkit.messages import Message
from agentkit.tooling.functions.conditions import Condition
from agentkit.tooling.functions.context import taken_of
from agentkit.tooling.toolset import AnyTool


def conditions_of(tools: Iterable[AnyTool]) -> dict[Condition, str]:
    """The conditions of tools, and of those that programs may call; each with the name of a tool that has it."""
    found: dict[Condition, str] = {}
    for tool in tools:
        if tool.conditions:
            found |= dict.fromkeys(tool.conditions, tool.name)
        if isinstance(tool, CallingTool):
            found |= conditions_of(tool.tools)
    return found


def met_conditions(
    plan: Plan, read: Sequence[Message], seconds_left: float
) -> Generator[CallFunction, None, frozenset[Condition]]:
    """The conditions that hold now, after these messages. Raises RunError when one fails, is late, or says neither."""
    met: set[Condition] = set()
    context = plan.context.called("", read)
    for condition, tool in plan.conditions.items():
        question = CallFunction(condition.function, taken_of(condition.function, context), seconds_left)
        yield question
        answer = question.answer
        if isinstance(answer, Exception):
            raise RunError(f"The condition of {tool} failed ({type(answer).__name__}: {answer}).") from answer
        if not isinstance(answer, bool):
            raise RunError(f"The condition of {tool} gave {type(answer).__name__}; it returns True or False.")
        if answer:
            met.add(condition)
    return frozenset(met)
