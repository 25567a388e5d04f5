"""Execution and scoring of one trial of an agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Protocol

from agentkit.agents.prompt_run import Job, Outcome, PromptRun, SharedBudget
from agentkit.agents.result import RunResult
from agentkit.agents.run_config import LINEAGE
from agentkit.agents.runner import Runner
from agentkit.errors import AgentKitError, Cancelled, ModelError, Rejected, ReplayError, RunError
from agentkit.evals.environment import TrialEnvironment, joined
from agentkit.evals.run_config import PlannedTrial, Scored
from agentkit.evals.scorers import marked, marked_prompts
from agentkit.evals.trial import Trial, parts_of
from agentkit.recording import TAPE, Recording, ScopedRecording

_REFUSALS = ("refusal", "content_filter")


class TrialContext(Protocol):
    """The batch of trials, as used by a single trial."""

    agent: Runner
    suite: Scored
    todo: list[PlannedTrial]

    def is_stopping(self) -> bool:
        """Whether all runs must end."""
        ...

    def stage(self, index: int, /) -> TrialEnvironment:
        """The environment of a trial."""
        ...

    def known(self, index: int, /) -> Trial | None:
        """The stored trial of an earlier run that answered but did not score it, if any."""
        ...

    def enter(self, index: int, trial: Trial, /, *, must_wait: bool = False) -> None:
        """Store a finished trial, unless it must run again."""
        ...


class TrialRun(PromptRun):
    """The run of one trial, which is scored when it ends."""

    def __init__(self, trials: TrialContext, job: Job, share: SharedBudget) -> None:
        super().__init__(trials.agent, job, share, trials.is_stopping)
        self._trials, self._index = trials, job.index
        self._wanted = trials.todo[job.index]
        self._stage: TrialEnvironment
        self._tape: Recording | None = None
        self._last: Outcome | None = None
        self._fault: AgentKitError | None = None

    def run(self) -> Outcome:
        """Run the trial, blocking."""
        try:
            self._on_stage()
        except (AgentKitError, OSError) as error:
            return self._not_begun(error)
        while self._goes_on():
            with self._stage.timed():
                self._last = self._answered()
        return self._entered()

    async def arun(self) -> Outcome:
        """Async version of `run`; folders are copied, users simulated and answers scored in a thread."""
        try:
            await asyncio.to_thread(self._trials.stage, self._index)
            self._on_stage()
        except (AgentKitError, OSError) as error:
            return self._not_begun(error)
        while await asyncio.to_thread(self._goes_on):
            with self._stage.timed():
                self._last = await self._aanswered()
        return await asyncio.to_thread(self._entered)

    def _answered(self) -> Outcome:
        """Run the agent on the prompt."""
        TAPE.set(self._tape)
        return super().run()

    async def _aanswered(self) -> Outcome:
        TAPE.set(self._tape)
        return await super().arun()

    def _on_stage(self) -> None:
        """Set up the agent and the cassette of this trial in the context of this run."""
        self._stage = stage = self._trials.stage(self._index)
        self.agent = stage.agent
        LINEAGE.set(replace(LINEAGE.get(), budget=self.share))
        if stage.tape is not None:
            TAPE.set(stage.tape)
            self.job = replace(self.job, index=0)  # the recording uses the index, which must not depend on other trials
        self._tape = TAPE.get()

    def _goes_on(self) -> bool:
        """Fetch the next prompt and set it as the job's; False if the conversation has ended."""
        talk, last = self._stage.talk, self._last
        if self._known is not None or (last is not None and last.result.status != "done"):
            return False
        if last is not None:
            talk.runs.append(last.result)
            self.job = replace(self.job, earlier=None)
        self.events, self.known, self.result = [], 0, None
        if self._tape is not None:  # trials run at the same time, so each has separate clocks
            TAPE.set(ScopedRecording(self._tape, f"user {self.job.index}"))
        try:
            goes_on = talk.go_on()
        except AgentKitError as error:
            self._fault, goes_on = error, False
        if talk.prompt is not None:
            self.job = replace(self.job, prompt=talk.prompt)
        return goes_on

    @property
    def _known(self) -> Trial | None:
        """The stored trial, if only its scores are missing."""
        return self._trials.known(self._index)

    def _start(self) -> Any:
        start = super()._start()
        if self._wanted.case.is_conversation:
            self.session = self._stage.session
        return start

    def _not_begun(self, error: Exception) -> Outcome:
        outcome = Outcome(self._failed_result(error), must_wait=False)
        self._trials.enter(self._index, replace(self._trial(outcome.result), is_finished=False))
        return outcome

    def _entered(self) -> Outcome:
        """Score and store the trial, and return the outcome."""
        known, stage = self._known, self._stage
        if known is not None:
            trial = self._scored(replace(known, scores=(), error="", is_finished=True, is_unjudged=False))
            outcome = Outcome(self._told(trial), must_wait=False)
        else:
            outcome = self._ended_with()
            runs = stage.talk.runs if outcome.result.status == "done" else [*stage.talk.runs, outcome.result]
            trial = replace(self._trial(joined(runs)), is_finished=self._is_finished(outcome.result))
            trial = replace(trial, seconds=round(stage.seconds, 6), simulating=stage.talk.usage)
            is_unjudged = self._fault is not None and self.share.refusal is not None
            trial = replace(trial, is_unjudged=True, is_finished=False) if is_unjudged else trial
            trial = self._scored(trial) if outcome.result.status == "done" else trial
        outcome = replace(outcome, must_wait=outcome.must_wait or (trial.is_unjudged and not self.job.is_alone))
        self._trials.enter(self._index, trial, must_wait=outcome.must_wait)
        return outcome

    def _ended_with(self) -> Outcome:
        """The outcome of the last prompt, or the error of the simulated user."""
        if self._fault is not None:
            return Outcome(self._failed_result(self._fault), must_wait=False)
        return self._last or Outcome(self._stage.talk.runs[-1], must_wait=False)

    def _trial(self, result: RunResult[Any]) -> Trial:
        wanted = self._wanted
        return Trial(
            wanted.case,
            wanted.variant.name,
            wanted.repeat,
            result,
            error="" if result.status == "done" else str(result.error or f"The run is {result.status}."),
            model=wanted.variant.model,
            seed=wanted.seed,
            refused=isinstance(result.error, Rejected) and result.error.code in _REFUSALS,
        )

    def _scored(self, trial: Trial) -> Trial:
        """Score the trial as a whole and, for a conversation, each prompt."""
        case, whole = trial.case, self._told(trial)
        scores, fault = marked(self._trials.suite.scorers_of(case), case, whole)
        if case.is_conversation and not fault:
            runs = self._stage.talk.runs or parts_of(whole)
            more, fault = marked_prompts(self._trials.suite.scorers_of_prompt, case.said, runs)
            scores += more
        is_unjudged = bool(fault) and self.share.refusal is not None
        return replace(trial, scores=scores, error=fault, is_finished=not fault, is_unjudged=is_unjudged)

    def _told(self, trial: Trial) -> RunResult[Any]:
        """The result of the trial."""
        return self._failed_result(RunError("The run has no result.")) if trial.result is None else trial.result

    def _is_finished(self, result: RunResult[Any]) -> bool:
        """Whether the run ended by itself, not by the suite's limits, a provider failure or a cancellation."""
        error, limit = result.error, result.limit
        if result.status == "limit":
            is_late = limit == "seconds" and self.share.out_of_time() is not None
            return not (is_late or (limit is not None and self.share.was_too_small(limit)))
        if isinstance(error, Rejected):
            return error.code in _REFUSALS
        return not isinstance(error, Cancelled | ReplayError | ModelError)
