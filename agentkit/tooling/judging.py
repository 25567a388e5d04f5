"""What does a tool's own judge say of a call?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentkit.decisions import Decision, Verdict
from agentkit.levels import SafetyLevel
from agentkit.tooling.arguments import copied
from agentkit.tooling.functions.context import CONTEXT, RunContext, check_value, run_parameter_of
from agentkit.tooling.result import told

Judge = Callable[[Mapping[str, Any]], Decision] | Callable[[Mapping[str, Any], RunContext[Any]], Decision]
"""Judges the checked keyword arguments of a call, of which it gets a copy, and maybe the run that makes the call."""

UNCONFIRMED = "unconfirmed"
"""The rule of the decision on a direct call that destroys and was not confirmed."""

_CONFIRM = (
    "If you mean it, confirm this one call in your code: tool.confirmed(...), or tool.invoke({...}, confirm=True)."
)


def judgment(
    judge: Judge | None, name: str, level: SafetyLevel, arguments: Mapping[str, Any], run: RunContext[Any] | None
) -> Decision:
    """The decision of the judge of the tool of that name and level; one that fails has not allowed anything.

    Where no run is given it is that in which the tool is called. Outside of all runs, one that needs a run asks.
    """
    if judge is None:
        leaves = level >= SafetyLevel.NETWORK
        return Decision(Verdict.ALLOW, "no-rule", f"The tool {name} has no judge of its own.", egress=leaves)
    decide: Callable[..., object] = judge
    of_run = run_parameter_of(judge)
    if of_run is not None:
        run = CONTEXT.get() if run is None else run
        if run is not None:
            decide = of_run.bound(judge, run)
        elif of_run.parameter.required:
            return Decision(Verdict.ASK, "no-run", f"The judge of {name} looks at the run, and here there is none.")
    try:
        decision = decide(copied(arguments))
    except Exception as error:
        return Decision(Verdict.DENY, "judge-failed", f"The judge of {name} failed ({told(error)}).")
    if isinstance(decision, Decision):
        return decision
    reason = f"The judge of {name} gave {type(decision).__name__} instead of a Decision."
    return Decision(Verdict.DENY, "judge-failed", reason)


def unconfirmed(decision: Decision) -> Decision:
    """The decision on a direct call that its caller has not confirmed: one that destroys is denied."""
    if decision.denied or not decision.destroys:
        return decision
    reason = f"Command blocked for safety: {decision.destroys}"
    return Decision(Verdict.DENY, UNCONFIRMED, reason, decision.evidence, _CONFIRM, decision.level, decision.egress)


def check_told(judge: Judge | None, name: str, value: Any) -> None:
    """Raise ConfigError when what a run was given is not what the judge says that it gets."""
    of_run = None if judge is None else run_parameter_of(judge)
    if of_run is not None:
        check_value(value, [of_run.parameter], f"The judge of {name}")
