"""Execution and scoring of one trial of an agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Protocol

from agentkit.agents.prompt_run import Job, PromptOutcome, PromptRun, SharedBudget
from agentkit.agents.result import RunResult
from agentkit.agents.run_config import LINEAGE
from agentkit.agents.runner import Runner
from agentkit.errors import AgentKitError, Cancelled, ModelError, Rejected, ReplayError, RunError
from agentkit.evals.environment import TrialEnvironment, join_runs
from agentkit.evals.run_config import PlannedTrial, ScoredSuite
from agentkit.evals.scorers import run_scorers, score_prompts
from agentkit.evals.trial import Trial, parts_of
from agentkit.recording import TAPE, Recording, ScopedRecording

_REFUSALS = ("refusal", "content_filter")


class TrialContext(Protocol):
    """The batch of trials, as used by a single trial."""

    agent: Runner
    suite: ScoredSuite
    todo: list[PlannedTrial]

    def is_stopping(self) -> bool:
        """Whether all runs must end."""
        ...

    def environment(self, index: int, /) -> TrialEnvironment:
        """The environment of a trial."""
        ...

    def stored_trial(self, index: int, /) -> Trial | None:
        """The stored trial of an earlier run that answered but did not score it, if any."""
        ...

    def store_trial(self, index: int, trial: Trial, /, *, must_wait: bool = False) -> None:
        """Store a finished trial, unless it must run again."""
        ...


class TrialRun(PromptRun):
    """The run of one trial, which is scored when it ends."""

    def __init__(self, trials: TrialContext, job: Job, share: SharedBudget) -> None:
        super().__init__(trials.agent, job, share, trials.is_stopping)
        self._trials, self._index = trials, job.index
        self._planned = trials.todo[job.index]
        self._environment: TrialEnvironment
        self._tape: Recording | None = None
        self._last: PromptOutcome | None = None
        self._user_error: AgentKitError | None = None

    def run(self) -> PromptOutcome:
        """Run the trial, blocking."""
        try:
            self._enter_environment()
        except (AgentKitError, OSError) as error:
            return self._setup_failed(error)
        while self._next_prompt():
            with self._environment.timed():
                self._last = self._run_prompt()
        return self._finish()

    async def arun(self) -> PromptOutcome:
        """Async version of `run`; folders are copied, users simulated and answers scored in a thread."""
        try:
            await asyncio.to_thread(self._trials.environment, self._index)
            self._enter_environment()
        except (AgentKitError, OSError) as error:
            return self._setup_failed(error)
        while await asyncio.to_thread(self._next_prompt):
            with self._environment.timed():
                self._last = await self._arun_prompt()
        return await asyncio.to_thread(self._finish)

    def _run_prompt(self) -> PromptOutcome:
        """Run the agent on the prompt."""
        TAPE.set(self._tape)
        return super().run()

    async def _arun_prompt(self) -> PromptOutcome:
        TAPE.set(self._tape)
        return await super().arun()

    def _enter_environment(self) -> None:
        """Set up the agent and the cassette of this trial in the context of this run."""
        self._environment = environment = self._trials.environment(self._index)
        self.agent = environment.agent
        LINEAGE.set(replace(LINEAGE.get(), budget=self.share))
        if environment.tape is not None:
            TAPE.set(environment.tape)
            self.job = replace(self.job, index=0)  # the recording uses the index, which must not depend on other trials
        self._tape = TAPE.get()

    def _next_prompt(self) -> bool:
        """Fetch the next prompt and set it as the job's; False if the conversation has ended."""
        conversation, last = self._environment.conversation, self._last
        if self._stored is not None or (last is not None and last.result.status != "done"):
            return False
        if last is not None:
            conversation.runs.append(last.result)
            self.job = replace(self.job, earlier=None)
        self.events, self.known, self.result = [], 0, None
        if self._tape is not None:  # trials run at the same time, so each has separate clocks
            TAPE.set(ScopedRecording(self._tape, f"user {self.job.index}"))
        try:
            has_prompt = conversation.advance()
        except AgentKitError as error:
            self._user_error, has_prompt = error, False
        if conversation.prompt is not None:
            self.job = replace(self.job, prompt=conversation.prompt)
        return has_prompt

    @property
    def _stored(self) -> Trial | None:
        """The stored trial, if only its scores are missing."""
        return self._trials.stored_trial(self._index)

    def _start(self) -> Any:
        start = super()._start()
        if self._planned.case.is_conversation:
            self.session = self._environment.session
        return start

    def _setup_failed(self, error: Exception) -> PromptOutcome:
        outcome = PromptOutcome(self._failed_result(error), must_wait=False)
        self._trials.store_trial(self._index, replace(self._trial(outcome.result), is_finished=False))
        return outcome

    def _finish(self) -> PromptOutcome:
        """Score and store the trial, and return the outcome."""
        stored, environment = self._stored, self._environment
        if stored is not None:
            trial = self._score(replace(stored, scores=(), error="", is_finished=True, is_unjudged=False))
            outcome = PromptOutcome(self._result(trial), must_wait=False)
        else:
            outcome = self._last_outcome()
            runs = (
                environment.conversation.runs
                if outcome.result.status == "done"
                else [*environment.conversation.runs, outcome.result]
            )
            trial = replace(self._trial(join_runs(runs)), is_finished=self._is_finished(outcome.result))
            trial = replace(trial, seconds=round(environment.seconds, 6), simulating=environment.conversation.usage)
            is_unjudged = self._user_error is not None and self.share.refusal is not None
            trial = replace(trial, is_unjudged=True, is_finished=False) if is_unjudged else trial
            trial = self._score(trial) if outcome.result.status == "done" else trial
        outcome = replace(outcome, must_wait=outcome.must_wait or (trial.is_unjudged and not self.job.is_alone))
        self._trials.store_trial(self._index, trial, must_wait=outcome.must_wait)
        return outcome

    def _last_outcome(self) -> PromptOutcome:
        """The outcome of the last prompt, or the error of the simulated user."""
        if self._user_error is not None:
            return PromptOutcome(self._failed_result(self._user_error), must_wait=False)
        return self._last or PromptOutcome(self._environment.conversation.runs[-1], must_wait=False)

    def _trial(self, result: RunResult[Any]) -> Trial:
        planned = self._planned
        return Trial(
            planned.case,
            planned.variant.name,
            planned.repeat,
            result,
            error="" if result.status == "done" else str(result.error or f"The run is {result.status}."),
            model=planned.variant.model,
            seed=planned.seed,
            refused=isinstance(result.error, Rejected) and result.error.code in _REFUSALS,
        )

    def _score(self, trial: Trial) -> Trial:
        """Score the trial as a whole and, for a conversation, each prompt."""
        case, result = trial.case, self._result(trial)
        scores, error = run_scorers(self._trials.suite.scorers_of(case), case, result)
        if case.is_conversation and not error:
            runs = self._environment.conversation.runs or parts_of(result)
            more, error = score_prompts(self._trials.suite.scorers_of_prompt, case.turns, runs)
            scores += more
        is_unjudged = bool(error) and self.share.refusal is not None
        return replace(trial, scores=scores, error=error, is_finished=not error, is_unjudged=is_unjudged)

    def _result(self, trial: Trial) -> RunResult[Any]:
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
