"""Trials: an answer with its scores, and the JSON encoding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from agentkit._dataclass import dataclass
from agentkit.agents.result import RunResult
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.case import Case, Score
from agentkit.event_rendering import call_text, content_text
from agentkit.events import RunEnded, RunStarted, StoredEvent
from agentkit.messages import Content
from agentkit.sessions.codec import Data, decode_part, encode_part, from_line, to_line
from agentkit.sessions.state import RunState
from agentkit.usage import Usage

TrialOutcome = Literal["passed", "failed", "refused", "limit", "error", "undone"]
"""How a trial ended.

`failed`: the answer does not pass. `refused`: the model refused to answer. `limit`: the trial reached one of its
limits.

`undone`: it was not run, or not completed, because the limits of the suite were exhausted.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one case with one agent.

    `agent` is the agent's name in this suite, `model` its model's name; `repeat` counts from 1; `seed` is its seed, if
    any. `scores` is empty without an answer. `seconds` is the duration of the run without scoring; in a replay, the
    recorded duration. `error` is the reason for a missing verdict; `refused` is true if the model or its provider
    refused to answer.
    `is_finished` is false if the suite's limits, a failure of the model or a stop interrupted the trial; it is then run
    again when the suite is resumed. `is_unjudged` is true if those limits did not allow scoring the answer.
    `result` combines all prompts of a conversation, and all runs inside a function, into one run. `simulating` is the
    usage of a simulated user.
    """

    case: Case
    agent: str
    repeat: int = 1
    result: RunResult[Any] | None = field(default=None, repr=False)
    scores: tuple[Score, ...] = ()
    seconds: float = 0.0
    error: str = ""
    model: str = ""
    seed: int | None = None
    refused: bool = False
    is_finished: bool = True
    is_unjudged: bool = False
    simulating: Usage = field(default_factory=Usage, compare=False)

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the trial in its suite: the case's id, the agent, the repeat."""
        return self.case.id, self.agent, self.repeat

    @property
    def passed(self) -> bool:
        """Whether there is an answer, and every score passes."""
        return bool(self.scores) and not self.error and all(score.passed for score in self.scores)

    @property
    def score(self) -> float:
        """The mean of the scores, from 0 to 1; 0 without scores."""
        return sum(score.value for score in self.scores) / len(self.scores) if self.scores and not self.error else 0.0

    @property
    def outcome(self) -> TrialOutcome:
        """How the trial ended."""
        if self.passed:
            return "passed"
        if self.is_unjudged:
            return "undone"
        if self.result is not None and self.result.status == "limit":
            return "limit" if self.is_finished else "undone"
        if self.refused:
            return "refused"
        return "error" if self.error or not self.scores else "failed"

    @property
    def answer(self) -> str:
        """The answer as text; empty without one."""
        return "" if self.result is None else answer_of(self.result)

    @property
    def usage(self) -> Usage:
        """The usage of the run, without scoring."""
        return Usage() if self.result is None else self.result.usage

    @property
    def judging(self) -> Usage:
        """The usage of the scorers."""
        return sum((score.usage for score in self.scores), Usage())

    @property
    def remembering(self) -> frozenset[str]:
        """The agents inside a function that started with messages from before the trial."""
        began: dict[str, int] = {}
        for part in () if self.result is None else parts_of(self.result):
            for each in part.events[1:]:  # the first stored event is the function's own
                if isinstance(each, RunStarted):
                    began.setdefault(each.agent, each.history)
        return frozenset(agent for agent, history in began.items() if history)

    @property
    def transcript(self) -> str:
        """The transcript from prompt to answer, including tool calls, one line each."""
        return "" if self.result is None else transcript_of(self.result)

    @property
    def decisions(self) -> Mapping[tuple[str, str], int]:
        """The number of decisions by verdict and rule."""
        decisions = () if self.result is None else self.result.decisions
        return Counter((str(decision.verdict), decision.rule) for decision in decisions)


def answer_of(result: RunResult[Any]) -> str:
    """The answer of a run as text; a typed answer as JSON."""
    if isinstance(result.value, str):
        return result.value
    ends = [each for each in result.events if isinstance(each, RunEnded)]
    return ends[-1].output if ends else ""


def parts_of(result: RunResult[Any]) -> list[RunResult[Any]]:
    """Split the joined result of a conversation into the results of its prompts; for one prompt, `result` itself."""
    parts: list[list[StoredEvent]] = []
    before: StoredEvent | None = None
    for event in result.events:
        if before is None or (isinstance(before, RunEnded) and isinstance(event, RunStarted)):
            parts.append([])
        parts[-1].append(event)
        before = event
    return [result] if len(parts) < 2 else [result_from_state(RunState.of(part), result.run_id) for part in parts]


def prompt_of(result: RunResult[Any]) -> Content:
    """The prompt of a run; empty if it is unknown."""
    return next((each.prompt for each in result.events if isinstance(each, RunStarted)), "")


def transcript_of(result: RunResult[Any]) -> str:
    """Render the prompts, tool calls and answers of a result, one line each."""
    lines: list[str] = []
    for part in parts_of(result):
        lines.append(f"user: {content_text(prompt_of(part))}")
        lines += [f"call: {call_text(used.call)} -> {used.result.status}" for used in part.tool_calls]
        lines.append(f"agent: {answer_of(part)}")
    return "\n".join(lines)


def result_from_state(progress: RunState, run_id: str) -> RunResult[Any]:
    """Build the result from a state; its value is the text of the answer."""
    return RunResult(
        value=progress.text,
        status=progress.status or "interrupted",
        messages=progress.valid_messages(),
        tool_calls=tuple(progress.tool_calls),
        iterations=progress.iterations,
        usage=progress.usage,
        limit=None if progress.limit is None else progress.limit.limit,
        agent=progress.agent,
        run_id=run_id,
        events=tuple(progress.events),
    )


_PLAIN_FIELDS = ("agent", "model", "repeat", "seed", "seconds", "error", "refused", "is_finished", "is_unjudged")


def trial_data(trial: Trial) -> Data:
    """Encode a trial, with its case as an id. Raises SessionError if it cannot be serialised."""
    data: Data = {"case": trial.case.id, **{name: getattr(trial, name) for name in _PLAIN_FIELDS}}
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
        plain = {name: data[name] for name in _PLAIN_FIELDS}
        result = RunResult.from_json(to_line(data["result"])) if "result" in data else None
        simulating = decode_part(Usage, data.get("simulating", {}))
        trial = Trial(case, result=result, scores=scores, simulating=simulating, **plain)
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
    def of(cls, trial: Trial, *, is_scored_again: bool = False) -> TrialCost:
        """The cost of a trial; only that of its scoring if the run was counted before."""
        if is_scored_again:
            return cls(trial.key, trial.seed, trial.judging, 0)
        calls = 0 if trial.result is None else len(trial.result.tool_calls)
        return cls(trial.key, trial.seed, trial.usage + trial.judging + trial.simulating, calls)

    def to_data(self) -> Data:
        """Encode the cost."""
        case, agent, repeat = self.key
        data = {"usage": encode_part(self.usage), "tool_calls": self.tool_calls}
        return {"case": case, "agent": agent, "repeat": repeat, "seed": self.seed, "spent": data}


def read_cost(data: Mapping[str, Any]) -> TrialCost:
    """Decode a `TrialCost`. Raises SessionError."""
    try:
        key, spent_data = (data["case"], data["agent"], data["repeat"]), data["spent"]
        spent = TrialCost(key, data["seed"], decode_part(Usage, spent_data["usage"]), spent_data["tool_calls"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SessionError(f"This is not the cost of a trial ({type(error).__name__}: {error}).") from error
    if type(spent.tool_calls) is not int or spent.tool_calls < 0:
        raise SessionError("This is not the cost of a trial: its number of tool calls is not 0 or more.")
    return spent


def _check(trial: Trial) -> None:
    """Raise SessionError if a field of the trial is invalid."""
    checks = (
        isinstance(trial.agent, str) and isinstance(trial.model, str) and isinstance(trial.error, str),
        type(trial.repeat) is int and (trial.seed is None or type(trial.seed) is int),
        isinstance(trial.seconds, int | float) and 0 <= trial.seconds < math.inf,
        all(isinstance(each, bool) for each in (trial.refused, trial.is_finished, trial.is_unjudged)),
    )
    if not all(checks):
        raise SessionError("This is not a trial: one of its fields has the wrong type.")


def _score_data(score: Score) -> Data:
    data = {"name": score.name, "value": score.value, "passed": score.passed, "reason": score.reason}
    return {**data, "usage": encode_part(score.usage)} if score.usage != Usage() else data


def _read_score(data: Mapping[str, Any]) -> Score:
    usage = decode_part(Usage, data.get("usage", {}))
    if not isinstance(data["name"], str) or not isinstance(data["reason"], str):
        raise SessionError("This is not a score: its name and its reason must be texts.")
    return Score(data["name"], data["value"], data["reason"], bool(data["passed"]), usage)
