"""Results of built-in tools whose direct call was denied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from agentkit.decisions import Decision
from agentkit.tooling.results import objection
from agentkit.tooling.tool import WhenDenied


def denied_with(*names: str, **more: Any) -> WhenDenied:
    """Create a handler for denied calls that returns the named arguments, `error`, `status`, `decision` and `more`."""
    return partial(_denied, names, more)


def _denied(
    names: Sequence[str], more: Mapping[str, Any], arguments: Mapping[str, Any], decision: Decision
) -> dict[str, Any]:
    told = {name: arguments[name] for name in names}
    return {**told, "error": objection(decision), "status": "denied", "decision": decision.to_dict(), **more}
