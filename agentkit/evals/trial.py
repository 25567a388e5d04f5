"""The outcome of one case for one agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from agentkit._dataclass import dataclass
from agentkit.agents.result import RunResult
from agentkit.evals.case import Case
from agentkit.evals.score import Score
from agentkit.event_rendering import call_text, content_text
from agentkit.events import Milestone, RunEnded, RunStarted
from agentkit.messages import Content
from agentkit.sessions.run_state import RunState
from agentkit.usage import Usage

Outcome = Literal["passed", "failed", "refused", "limit", "error", "undone"]
"""How a trial ended.

`failed` has an answer that does not pass, `refused` none as the model would not give one, `limit` met one of its own.

`undone` was not run, or not to its end, as the limits of the suite left too little for it.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One case, asked once of one agent.

    `agent` is what the agent is called in this suite, `model` its model's name; `repeat` counts from 1; `seed` is what
    it was given, if any. `scores` is empty when there was no answer. `seconds` is how long the run took, without its
    scoring; in a replay, how long it took when it was recorded. `error` says why it has no verdict, `refused`
    that the model or its provider would not answer.
    `is_finished` is False when the suite's own limits, a failure of the model or a stop left it undone: such a trial is
    run again when the suite goes on. `is_unjudged` says that those limits left too little to score its answer.
    `result` tells of all prompts of a conversation, and of all runs inside of a function, as of one run. `simulating`
    is what a simulated user has spent on models.
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
        """What tells it from the others of its suite: the case's id, the agent, the repeat."""
        return self.case.id, self.agent, self.repeat

    @property
    def passed(self) -> bool:
        """Whether there is an answer, and every score passes."""
        return bool(self.scores) and not self.error and all(score.passed for score in self.scores)

    @property
    def score(self) -> float:
        """The mean of the scores, from 0 to 1; 0 when there are none."""
        return sum(score.value for score in self.scores) / len(self.scores) if self.scores and not self.error else 0.0

    @property
    def outcome(self) -> Outcome:
        """How it ended, in one word."""
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
        """The answer as text; empty when there is none."""
        return "" if self.result is None else answer_of(self.result)

    @property
    def usage(self) -> Usage:
        """What the run has spent, without the scoring."""
        return Usage() if self.result is None else self.result.usage

    @property
    def judging(self) -> Usage:
        """What the scoring has spent on models."""
        return sum((score.usage for score in self.scores), Usage())

    @property
    def remembering(self) -> frozenset[str]:
        """The agents inside of a function that began with messages from before the trial."""
        began: dict[str, int] = {}
        for part in () if self.result is None else parts_of(self.result):
            for each in part.milestones[1:]:  # the first is of the function itself
                if isinstance(each, RunStarted):
                    began.setdefault(each.agent, each.history)
        return frozenset(agent for agent, history in began.items() if history)

    @property
    def transcript(self) -> str:
        """What was said, from prompt to answer, with the tool calls between them: a line for each."""
        return "" if self.result is None else transcript_of(self.result)

    @property
    def decisions(self) -> Mapping[tuple[str, str], int]:
        """How often each verdict fell by each rule."""
        decisions = () if self.result is None else self.result.decisions
        return Counter((str(decision.verdict), decision.rule) for decision in decisions)


def answer_of(result: RunResult[Any]) -> str:
    """The answer of a run as text, that of a typed one as JSON."""
    if isinstance(result.value, str):
        return result.value
    ends = [each for each in result.milestones if isinstance(each, RunEnded)]
    return ends[-1].output if ends else ""


def parts_of(result: RunResult[Any]) -> list[RunResult[Any]]:
    """The results of the single prompts of a conversation, which `result` joins; of one prompt, `result` itself."""
    parts: list[list[Milestone]] = []
    before: Milestone | None = None
    for milestone in result.milestones:
        if before is None or (isinstance(before, RunEnded) and isinstance(milestone, RunStarted)):
            parts.append([])
        parts[-1].append(milestone)
        before = milestone
    return [result] if len(parts) < 2 else [told_by(RunState.of(part), result.run_id) for part in parts]


def prompt_of(result: RunResult[Any]) -> Content:
    """What a run began with; empty when that is not known."""
    return next((each.prompt for each in result.milestones if isinstance(each, RunStarted)), "")


def transcript_of(result: RunResult[Any]) -> str:
    """The prompts, tool calls and answers of a result, a line for each."""
    lines: list[str] = []
    for part in parts_of(result):
        lines.append(f"user: {content_text(prompt_of(part))}")
        lines += [f"call: {call_text(used.call)} -> {used.result.status}" for used in part.tool_calls]
        lines.append(f"agent: {answer_of(part)}")
    return "\n".join(lines)


def told_by(progress: RunState, run_id: str) -> RunResult[Any]:
    """The result that milestones tell of; its value is the text of the answer."""
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
        milestones=tuple(progress.milestones),
    )
