"""Who is asked for a run? An approver, which may want to know of the run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from agentkit.agents.result import GivenApprover
from agentkit.agents.running.plan import Lineage
from agentkit.safety.approval import Approval, ApprovalRequest, Approver
from agentkit.tooling.functions.context import NO_RUN, RunContext, can_be_called, check_value, run_parameter_of

_CANNOT_WAIT = "The person wants to decide later, and a run inside another run cannot wait."


def is_approver(value: object) -> bool:
    """Whether it is a function that a run can ask."""
    return callable(value) and can_be_called(told_of_run(value, NO_RUN), object())


def approver_in(context: RunContext[Any], approve: GivenApprover | None, above: Lineage) -> Approver | None:
    """Who is asked in a run: its agent's own approver, or else that of the agents above. Not every call can wait."""
    asked = above.approve if approve is None else told_of_run(approve, context)
    return without_waiting(asked) if above.depth and above.sitting is None else asked


def told_of_run(approve: Callable[..., Any], context: RunContext[Any]) -> Approver:
    """The approver as that run asks it, with the request alone."""
    of_run = run_parameter_of(approve)
    return approve if of_run is None else of_run.bound(approve, context)


def check_approver(approve: GivenApprover | None, value: Any) -> None:
    """Raise ConfigError when what a run was given is not what its approver says that it gets."""
    of_run = None if approve is None else run_parameter_of(approve)
    if of_run is not None:
        check_value(value, [of_run.parameter], "The approver")


def without_waiting(approver: Approver | None) -> Approver | None:
    """The approver of a run inside another: what it wants to answer later is a no."""
    return None if approver is None else _AtOnce(approver)


class _AtOnce:
    """An approver that never answers later, whether it must be awaited or not."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    def __call__(self, request: ApprovalRequest) -> Any:
        said = self._approver(request)
        return self._awaited(said) if inspect.isawaitable(said) else _at_once(said)

    async def _awaited(self, said: Any) -> Any:
        return _at_once(await said)


def _at_once(said: object) -> object:
    return _CANNOT_WAIT if said is Approval.LATER else said
