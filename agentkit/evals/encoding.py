"""JSON encoding of trials (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.result import RunResult
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.case import Case, Score
from agentkit.evals.trial import Trial
from agentkit.sessions.codec import Data, decode_part, encode_part, from_line, to_line
from agentkit.usage import Usage

_PLAIN = ("agent", "model", "repeat", "seed", "seconds", "error", "refused", "is_finished", "is_unjudged")


def trial_data(trial: Trial) -> Data:
    """Encode a trial, with its case as an id. Raises SessionError if it cannot be serialised."""
    data: Data = {"case": trial.case.id, **{name: getattr(trial, name) for name in _PLAIN}}
    data["scores"] = [_score_data(score) for score in trial.scores]
    if trial.simulating != Usage():
        data["simulating"] = encode_part(trial.simulating)
    if trial.result is not None:
        data["result"] = from_line(trial.result.to_json())
    return data


def read_trial(data: Mapping[str, Any], cases: Mapping[str, Case]) -> Trial:
    """Decode a trial. Raises SessionError if the data is invalid or the case is unknown."""
    try:
        case = cases[data["case"]]
        scores = tuple(_read_score(each) for each in data["scores"])
        known = {name: data[name] for name in _PLAIN}
        result = RunResult.from_json(to_line(data["result"])) if "result" in data else None
        simulating = decode_part(Usage, data.get("simulating", {}))
        trial = Trial(case, result=result, scores=scores, simulating=simulating, **known)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, ConfigError) as error:
        raise SessionError(f"This is not a trial of this suite ({type(error).__name__}: {error}).") from error
    _check(trial)
    return trial


@dataclass(frozen=True, slots=True)
class TrialCost:
    """The cost of one line of a checkpoint, with the key and seed of its trial."""

    key: tuple[str, str, int]
    seed: int | None
    usage: Usage
    tool_calls: int

    @classmethod
    def by(cls, trial: Trial, *, is_scored_again: bool = False) -> TrialCost:
        """The cost of a trial; only that of its scoring if the run was counted before."""
        if is_scored_again:
            return cls(trial.key, trial.seed, trial.judging, 0)
        calls = 0 if trial.result is None else len(trial.result.tool_calls)
        return cls(trial.key, trial.seed, trial.usage + trial.judging + trial.simulating, calls)

    def to_data(self) -> Data:
        """Encode the cost."""
        case, agent, repeat = self.key
        told = {"usage": encode_part(self.usage), "tool_calls": self.tool_calls}
        return {"case": case, "agent": agent, "repeat": repeat, "seed": self.seed, "spent": told}


def read_spent(data: Mapping[str, Any]) -> TrialCost:
    """Decode a `TrialCost`. Raises SessionError."""
    try:
        key, told = (data["case"], data["agent"], data["repeat"]), data["spent"]
        spent = TrialCost(key, data["seed"], decode_part(Usage, told["usage"]), told["tool_calls"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SessionError(f"This is not the cost of a trial ({type(error).__name__}: {error}).") from error
    if type(spent.tool_calls) is not int or spent.tool_calls < 0:
        raise SessionError("This is not the cost of a trial: its number of tool calls is not 0 or more.")
    return spent


def _check(trial: Trial) -> None:
    """Raise SessionError if a field of the trial is invalid."""
    fits = (
        isinstance(trial.agent, str) and isinstance(trial.model, str) and isinstance(trial.error, str),
        type(trial.repeat) is int and (trial.seed is None or type(trial.seed) is int),
        isinstance(trial.seconds, int | float) and 0 <= trial.seconds < math.inf,
        all(isinstance(each, bool) for each in (trial.refused, trial.is_finished, trial.is_unjudged)),
    )
    if not all(fits):
        raise SessionError("This is not a trial: one of its fields has the wrong type.")


def _score_data(score: Score) -> Data:
    data = {"name": score.name, "value": score.value, "passed": score.passed, "reason": score.reason}
    return {**data, "usage": encode_part(score.usage)} if score.usage != Usage() else data


def _read_score(data: Mapping[str, Any]) -> Score:
    usage = decode_part(Usage, data.get("usage", {}))
    if not isinstance(data["name"], str) or not isinstance(data["reason"], str):
        raise SessionError("This is not a score: its name and its reason must be texts.")
    return Score(data["name"], data["value"], data["reason"], bool(data["passed"]), usage)
