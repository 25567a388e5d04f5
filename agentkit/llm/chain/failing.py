"""Is another model asked after an error, and what is said when none has answered? (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.errors import BadResponse, ModelError, Rejected, Unauthorized
from agentkit.llm.wire.failures import is_spent
from agentkit.messages import Missed, usage_of
from agentkit.usage import Tariff, unreported
from agentkit.wording import cut

_NOT_SERVED = frozenset({402, 404, 410})
"""The statuses of a refusal that is not about what was asked: no money, no such model or place, no longer there."""

_NO_MODEL = frozenset(
    {
        "model_not_found",
        "model_not_exist",
        "model_not_available",
        "model_decommissioned",
        "invalid_model",
        "unknown_model",
        "deploymentnotfound",
    }
)
"""The codes with which servers say the same, whatever the status."""

_MOST_CHARS = 600


def goes_on(error: ModelError) -> bool:
    """Whether another model may do better: what is wrong is the service, and not what was asked of it.

    A request that a server understood and refuses, as bad, as too long or for what it says, is not asked elsewhere.
    """
    if not isinstance(error, Rejected):
        return True
    if error.is_too_long:
        return False
    is_unknown = (error.code or "").lower() in _NO_MODEL
    return error.status in _NOT_SERVED or is_unknown or is_spent(f"{error.code} {error}")


def is_lasting(error: ModelError) -> bool:
    """Whether somebody must do something about it before it ends: a wrong key, no money, no such model."""
    return isinstance(error, Unauthorized | Rejected) or is_spent(f"{error.code} {error}")


def missed(name: str, error: ModelError, tariff: Tariff | None) -> Missed:
    """What came of asking a model, with the requests that its server may charge for."""
    return Missed(name, type(error).__name__, str(error), unreported(requests_lost(error), tariff))


def requests_lost(error: ModelError) -> int:
    """How many requests a server was at work on whose answers did not arrive whole: what they cost nobody knows."""
    has_begun = error.status is None and isinstance(error, BadResponse)
    return max(error.unanswered, int(has_begun))


def told_together(last: ModelError, all_missed: Sequence[Missed]) -> ModelError:
    """The error of a request that no model has answered: of the kind of the last, with what each has said."""
    # whoever raised the last may raise it again; copy() would share its attributes where Dask's tblib is at work
    error = type(last).__new__(type(last))
    vars(error).update(vars(last))
    is_refused = not goes_on(last)
    start = "The request was refused" if is_refused else f"None of {len(all_missed)} models has answered"
    error.args = (f"{start}. {' '.join(missed_told(each) for each in all_missed)}",)
    error.missed = tuple(all_missed)
    error.unanswered = usage_of(all_missed).requests
    return error


def missed_told(each: Missed) -> str:
    """Which model gave no answer, and why, as one text."""
    asked = each.model if each.was_asked else f"{each.model}, not asked again so soon"
    return f"[{asked}] {cut(each.error, _MOST_CHARS)}"
