"""Who answers for a person who is not there? What was said later of calls that wait, as an approver."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from agentkit.agents.result import Answers
from agentkit.agents.running.questions import WORDS
from agentkit.errors import ConfigError
from agentkit.memory.progress import Step
from agentkit.safety.approval import Approval, ApprovalRequest, Approver

_CANNOT_WAIT = "The person wants to decide later, and a run inside another run cannot wait."


def approver_from(answers: Answers | None, otherwise: Approver | None, waiting: Sequence[Step]) -> Approver:
    """An approver that gives these answers; without any, the agent's own, or `later` when it has none.

    What was said is of the calls that wait now, and of none that the run may wish for yet: of those the agent's own
    approver is asked. Raises ConfigError for what is no answer, and for the id of a call that does not wait.
    """
    otherwise = _later if otherwise is None else otherwise
    ids = [step.call.id for step in waiting]
    if answers is None:
        return otherwise
    if isinstance(answers, Mapping):
        unknown = [str(each) for each in answers if each not in ids]
        if unknown:
            which = ", ".join(ids) or "none"
            raise ConfigError(f"No call with the id {', '.join(unknown)} waits for an answer. These do: {which}.")
        return _Said(answers, otherwise)
    if isinstance(answers, bool | str):
        return _Said({step.call.id: answers for step in waiting if _is_answer(answers, step)}, otherwise)
    if callable(answers):
        return answers
    raise ConfigError(
        "Waiting calls are answered with True, False, an Approval, words, a function of an ApprovalRequest, "
        f"or a dictionary of these by the ids in result.pending. Got {answers!r:.200}."
    )


def without_waiting(approver: Approver | None) -> Approver | None:
    """The approver of a run inside another: what it wants to answer later is a no."""
    return None if approver is None else _AtOnce(approver)


def _later(_request: ApprovalRequest) -> Approval:
    return Approval.LATER


def _is_answer(said: object, step: Step) -> bool:
    """Whether what was said of all is an answer to what this call waits for: a question wants words."""
    needs_words = step.postponed is not None and step.postponed.decision is None
    return not (needs_words and isinstance(said, bool | Approval))


class _Said:
    """What was said of each call by its id."""

    def __init__(self, said: Mapping[str, Any], otherwise: Approver) -> None:
        self._said, self._otherwise = said, otherwise

    def __call__(self, request: ApprovalRequest) -> Any:
        if request.call_id not in self._said:
            return self._otherwise(request)
        said = self._said[request.call_id]
        is_word = isinstance(said, bool) and request.decision.rule == WORDS
        return ("yes" if said else "no") if is_word else said


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
