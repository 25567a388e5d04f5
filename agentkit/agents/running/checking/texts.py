"""What does a check make of a prompt or an answer?"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from agentkit.agents.answers import Check
from agentkit.agents.running.budget import Budget
from agentkit.agents.running.questions import CallFunction
from agentkit.errors import LimitExceeded, RunError


def judged_by(check: Check, value: Any, budget: Budget) -> Generator[CallFunction, None, Any]:
    """What a check makes of a value. Raises what it refuses with, and RunError when it fails or ends too late."""
    question = CallFunction(check.function, (value,), budget.seconds_left)
    yield question
    answer, late = question.answer, budget.out_of_time()
    if late is not None:
        raise LimitExceeded(late.reason)
    if isinstance(value, str) and not isinstance(answer, str | Exception | None):
        kind = type(answer).__name__
        raise RunError(f"The check {check.name} gave {kind} for a text; it returns None to pass, or another text.")
    match answer:
        case ValueError() | AssertionError() as refusal:
            raise ValueError(check.refusal(refusal)) from refusal
        case Exception() as fault:
            raise RunError(f"The check {check.name} failed ({type(fault).__name__}: {fault}).") from fault
    return answer
