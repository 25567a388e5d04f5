"""Parallel execution of the trials of a suite."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentkit.agents.batch import BatchRun
from agentkit.agents.budget import Known
from agentkit.agents.prompt_run import Job, Outcome, PromptRun, SharedBudget
from agentkit.agents.result import RunResult
from agentkit.evals.checkpoint import Checkpoint
from agentkit.evals.environment import Cassettes, TrialEnvironment
from agentkit.evals.function_trials import FunctionRun, charge_of
from agentkit.evals.report import Report
from agentkit.evals.run_config import PlannedTrial, SuiteConfig
from agentkit.evals.trial import Trial
from agentkit.evals.trials import TrialRun
from agentkit.llm.client import LLM


class Trials(BatchRun):
    """The planned trials of a suite. Raises ConfigError, NoProvider and SessionError before any of them runs."""

    def __init__(self, order: SuiteConfig) -> None:
        self.suite, self._order, self._cassettes = order.suite, order, Cassettes(order.record, order.replay)
        self._began = datetime.now(UTC)
        with self._cassettes.without_world():
            variants = order.variants
        self.todo: list[PlannedTrial] = []
        prompts = (wanted.case.content for wanted in self.todo)
        agents = [each for each in variants if each.function is None]
        self._asks_models = bool(agents)
        agent = (agents or variants)[0].apart(None, None)
        super().__init__(agent, prompts, order.concurrency, limits=order.limits, progress=None, executor=None)
        self._stages: dict[int, TrialEnvironment] = {}
        self._new: dict[int, Trial] = {}
        self._trials: dict[tuple[str, str, int], Trial] = {}
        cases = {case.id: case for case in self.suite.cases}  # stored trials can belong to cases that are not selected
        self._ledger = None if order.resume is None else Checkpoint(Path(order.resume), order.header(), cases)
        self._take_kept()

    def report(self) -> Report:
        """Run the trials, blocking, and return the report."""
        try:
            self.run()
        finally:
            self._close()
        return self._report()

    async def areport(self) -> Report:
        """Async version of `report`."""
        try:
            await self.arun()
        finally:
            self._close()
        return self._report()

    def is_stopping(self) -> bool:
        """Whether all runs must end."""
        return self._is_stopping.is_set()

    def stage(self, index: int) -> TrialEnvironment:
        """The environment of a trial, created on first use. Raises ConfigError and SessionError."""
        if index not in self._stages:
            self._stages[index] = TrialEnvironment(self.todo[index], self._order, self._cassettes)
        return self._stages[index]

    def known(self, index: int) -> Trial | None:
        """The stored trial of an earlier run that answered but did not score it, if any."""
        kept = self._kept.get(self.todo[index].key)
        return kept if kept is not None and kept.result is not None and kept.result.status == "done" else None

    def enter(self, index: int, trial: Trial, *, must_wait: bool = False) -> None:
        """Store a finished trial, unless it must run again. Raises SessionError if it cannot be stored."""
        self._new[index] = trial
        if not must_wait:
            self._leave(index, keep=trial.is_finished)
            if self._ledger is not None:
                self._ledger.write(trial)

    def _take_kept(self) -> None:
        """Skip finished trials, and charge the cost of all stored ones."""
        known = {} if self._ledger is None else self._ledger.trials
        wanted = list(self._order.wanted())
        fitting = {each.key for each in wanted if each.key in known and known[each.key].seed == each.seed}
        self._kept = {key: known[key] for key in fitting}
        self._trials.update({key: trial for key, trial in self._kept.items() if trial.is_finished})
        self.todo += [each for each in wanted if each.key not in self._trials]
        self._total = len(self.todo)
        seeds = {each.key: each.seed for each in wanted}
        for spent in [] if self._ledger is None else self._ledger.spent:
            if spent.key in seeds and seeds[spent.key] == spent.seed:
                self._budget.charge(charge_of(spent.usage, spent.tool_calls, self._budget.limits.unknown_price))

    def _price_teller(self, llm: Callable[[], LLM]) -> Callable[[], Known]:
        return super()._price_teller(llm) if self._asks_models else lambda: None

    def _single(self, job: Job) -> PromptRun:
        share = SharedBudget.of(self._budget, is_alone=job.is_alone)
        function = self.todo[job.index].variant.function
        return TrialRun(self, job, share) if function is None else FunctionRun(self, job, share, function)

    def _ended(self, job: Job, outcome: Outcome) -> RunResult[Any] | None:
        result = super()._ended(job, outcome)
        if result is not None:
            self._leave(job.index, keep=False)  # for trials that were waiting, and are done now
            trial = self._new[job.index]
            self._trials[trial.key] = trial
            if outcome.must_wait and self._ledger is not None:
                self._ledger.write(trial)
            if self._order.progress is not None:
                self._order.progress(len(self._trials), self._order.count, trial)
        return result

    def _lost(self, _job: Job, error: Exception) -> RunResult[Any] | None:
        """An error that cannot be reported in a trial ends the suite, for example when the trial cannot be stored."""
        raise error

    def _leave(self, index: int, *, keep: bool) -> None:
        stage = self._stages.pop(index, None)
        if stage is not None:
            stage.close(keep=keep)

    def _close(self) -> None:
        for index in tuple(self._stages):
            self._leave(index, keep=False)
        if self._ledger is not None:
            self._ledger.close()

    def _report(self) -> Report:
        order = self._order
        trials = [self._trials[wanted.key] for wanted in order.wanted()]
        return Report(self.suite.name, tuple(trials), self._began.isoformat(timespec="seconds"))
