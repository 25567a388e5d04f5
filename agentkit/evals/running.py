"""How are the trials of a suite run? As the prompts of one map, each by an agent of its own, and scored at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentkit.agents.many.mapping import Many
from agentkit.agents.many.single import Job, Outcome, Share, Single
from agentkit.agents.result import RunResult
from agentkit.agents.running.plan import LINEAGE
from agentkit.errors import AgentKitError, Cancelled, ModelError, Rejected, ReplayError
from agentkit.evals.keeping.cassettes import Cassettes
from agentkit.evals.keeping.encoding import Spent
from agentkit.evals.keeping.ledger import Ledger
from agentkit.evals.order import Order, Wanted
from agentkit.evals.reporting.report import Report
from agentkit.evals.scoring.marking import marked
from agentkit.evals.trial import Trial
from agentkit.evals.variants import own_folder
from agentkit.llm.prices import cost_of
from agentkit.tape import TAPE
from agentkit.usage import Charge, Price

_REFUSALS = ("refusal", "content_filter")


class Stage:
    """What one trial has for itself until it is done: the agent, its folder, its cassette, the time that it took."""

    def __init__(self, wanted: Wanted, order: Order, cassettes: Cassettes) -> None:
        self.seconds = 0.0
        self._resources = ExitStack()
        self.tape = cassettes.tape(wanted.key)
        folder = own_folder(wanted.variant, wanted.case.workspace or order.suite.workspace)
        self.agent = wanted.variant.apart(self._resources.enter_context(folder), wanted.seed)

    def close(self, *, keep: bool) -> None:
        """End it; a recording is kept or not. Raises SessionError."""
        with self._resources:
            if self.tape is not None:
                self.tape.finish(keep=keep)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds of the block: those of the recording when it is replayed."""
        now = time.perf_counter if self.tape is None else self.tape.now
        began = now()
        try:
            yield
        finally:
            self.seconds += now() - began


class TrialRun(Single):
    """The run of one trial, which is scored when it ends."""

    def __init__(self, trials: Trials, job: Job, share: Share) -> None:
        super().__init__(trials.agent, job, share, trials.is_stopping)
        self._trials, self._index = trials, job.index

    def run(self) -> Outcome:
        """The outcome, blocking."""
        try:
            stage = self._on_stage()
        except (AgentKitError, OSError) as error:
            return self._not_begun(error)
        with stage.timed():
            outcome = super().run()
        return self._entered(stage, outcome)

    async def arun(self) -> Outcome:
        """Like `run`, awaiting; folders are copied, and answers scored, in a thread."""
        try:
            stage = await asyncio.to_thread(self._trials.stage, self._index)
            self._on_stage()
        except (AgentKitError, OSError) as error:
            return self._not_begun(error)
        with stage.timed():
            outcome = await super().arun()
        return await asyncio.to_thread(self._entered, stage, outcome)

    def _on_stage(self) -> Stage:
        """Take the agent and the cassette that are this trial's, in the context of this run."""
        stage = self._trials.stage(self._index)
        self.agent = stage.agent
        if stage.tape is not None:
            TAPE.set(stage.tape)
            self.job = replace(self.job, index=0)  # which the recording names, whatever else is run beside it
        return stage

    def _start(self) -> Any:
        """What is to be run; nothing when only the scores of an answer are missing."""
        known = self._trials.known(self._index)
        if known is None:
            return super()._start()
        LINEAGE.set(replace(LINEAGE.get(), budget=self.share))
        self.result = known
        return known

    def _not_begun(self, error: Exception) -> Outcome:
        outcome = Outcome(self._failed(error), must_wait=False)
        self._trials.enter(self._index, self._trial(outcome.result, 0.0, is_finished=False))
        return outcome

    def _entered(self, stage: Stage, outcome: Outcome) -> Outcome:
        """The outcome, once the trial is scored and kept."""
        trial = self._trial(outcome.result, stage.seconds, is_finished=self._is_finished(outcome.result))
        outcome = replace(outcome, must_wait=outcome.must_wait or (trial.is_unjudged and not self.job.is_alone))
        self._trials.enter(self._index, trial, must_wait=outcome.must_wait)
        return outcome

    def _trial(self, result: RunResult[Any], seconds: float, *, is_finished: bool) -> Trial:
        wanted = self._trials.todo[self._index]
        error = "" if result.status == "done" else str(result.error or f"The run is {result.status}.")
        refused = isinstance(result.error, Rejected) and result.error.code in _REFUSALS
        trial = Trial(
            wanted.case,
            wanted.variant.name,
            wanted.repeat,
            result,
            seconds=self._trials.earlier_seconds(self._index, round(seconds, 6)),
            error=error,
            model=wanted.variant.model,
            seed=wanted.seed,
            refused=refused,
            is_finished=is_finished,
        )
        if result.status != "done":
            return trial
        scores, fault = marked(self._trials.scorers(wanted.case), wanted.case, result)
        is_unjudged = bool(fault) and self.share.refusal is not None
        return replace(trial, scores=scores, error=fault, is_finished=not fault, is_unjudged=is_unjudged)

    def _is_finished(self, result: RunResult[Any]) -> bool:
        """Whether the run has ended by itself: not by the suite's limits, a failing provider or from outside."""
        error, limit = result.error, result.limit
        if result.status == "limit":
            is_late = limit == "seconds" and self.share.out_of_time() is not None
            return not (is_late or (limit is not None and self.share.is_too_little(limit)))
        if isinstance(error, Rejected):
            return error.code in _REFUSALS
        return not isinstance(error, Cancelled | ReplayError | ModelError)


class Trials(Many):
    """The trials that were ordered of a suite. Raises ConfigError, NoProvider and SessionError before any is run."""

    def __init__(self, order: Order) -> None:
        self._order, self._cassettes = order, Cassettes(order.record, order.replay)
        self._began = datetime.now(UTC)
        with self._cassettes.without_world():
            variants = order.variants
        self.todo: list[Wanted] = []
        prompts = (wanted.case.content for wanted in self.todo)
        agent = variants[0].apart(None, None)
        super().__init__(agent, prompts, order.concurrency, limits=order.limits, progress=None, executor=None)
        self._stages: dict[int, Stage] = {}
        self._new: dict[int, Trial] = {}
        self._trials: dict[tuple[str, str, int], Trial] = {}
        self._ledger = None if order.resume is None else Ledger(Path(order.resume), order.header(), order.by_id())
        self._take_kept()

    def report(self) -> Report:
        """Run them, blocking, and report."""
        try:
            self.run()
        finally:
            self._close()
        return self._report()

    async def areport(self) -> Report:
        """Like `report`, awaiting."""
        try:
            await self.arun()
        finally:
            self._close()
        return self._report()

    def is_stopping(self) -> bool:
        """Whether all runs are to end."""
        return self._is_stopping.is_set()

    def scorers(self, case: Any) -> Any:
        """What scores a case."""
        return self._order.suite.scorers_of(case)

    def stage(self, index: int) -> Stage:
        """What the trial of that number has for itself. Raises ConfigError and SessionError."""
        if index not in self._stages:
            self._stages[index] = Stage(self.todo[index], self._order, self._cassettes)
        return self._stages[index]

    def known(self, index: int) -> RunResult[Any] | None:
        """The run of a trial whose scores alone are missing."""
        kept = self._kept.get(self.todo[index].key)
        return kept.result if kept is not None and kept.result is not None and kept.result.status == "done" else None

    def earlier_seconds(self, index: int, now: float) -> float:
        """How long the run took: in its own time, when it is only scored now."""
        return now if self.known(index) is None else self._kept[self.todo[index].key].seconds

    def enter(self, index: int, trial: Trial, *, must_wait: bool = False) -> None:
        """Take in a trial that has ended, unless it must be run again. Raises SessionError when it cannot be kept."""
        self._new[index] = trial
        if not must_wait:
            self._leave(index, keep=trial.is_finished)
            if self._ledger is not None:
                self._ledger.write(trial)

    def _take_kept(self) -> None:
        """Leave out what is finished already, and charge what it has cost."""
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
                self._budget.charge(_charge(spent, self._budget.limits.unknown_price))

    def _single(self, job: Job) -> Single:
        return TrialRun(self, job, Share.of(self._budget, is_alone=job.is_alone))

    def _ended(self, job: Job, outcome: Outcome) -> RunResult[Any] | None:
        result = super()._ended(job, outcome)
        if result is not None:
            self._leave(job.index, keep=False)  # one that waited, and now waits no more
            trial = self._new[job.index]
            self._trials[trial.key] = trial
            if outcome.must_wait and self._ledger is not None:
                self._ledger.write(trial)
            if self._order.progress is not None:
                self._order.progress(len(self._trials), self._order.count, trial)
        return result

    def _lost(self, _job: Job, error: Exception) -> RunResult[Any] | None:
        """What a trial cannot tell must end the suite: it cannot be kept, for one."""
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
        return Report(order.suite.name, tuple(trials), self._began.isoformat(timespec="seconds"))


def _charge(spent: Spent, unknown: Any) -> Charge:
    """What was taken of the limits."""
    cost = cost_of(spent.usage, unknown if isinstance(unknown, Price) else None)
    usage = spent.usage
    return Charge(usage.input_tokens, usage.output_tokens, spent.tool_calls, () if cost is None else (cost.dollars,))
