"""`Suite`: cases and the scorers that grade an agent's answers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Never, Unpack

from agentkit.agents.batch import BatchRun
from agentkit.agents.budget import RequestPrice
from agentkit.agents.prompt_run import Job, PromptOutcome, PromptRun, SharedBudget
from agentkit.agents.result import RunResult
from agentkit.errors import ConfigError
from agentkit.evals.case import Case, read_cases
from agentkit.evals.checkpoint import Checkpoint
from agentkit.evals.environment import Cassettes, TrialEnvironment
from agentkit.evals.function_trials import FunctionTrialRun, charge_of
from agentkit.evals.report import Report
from agentkit.evals.run_config import Agents, PlannedTrial, SuiteConfig, SuiteRunOptions
from agentkit.evals.scorers import Scorer
from agentkit.evals.trial import Trial
from agentkit.evals.trial_run import TrialRun
from agentkit.event_rendering import count_text
from agentkit.llm.client import LLM
from agentkit.suggestions import check_unknown_arguments


class Trials(BatchRun):
    """The planned trials of a suite. Raises ConfigError, NoProvider and SessionError before any of them runs."""

    def __init__(self, config: SuiteConfig) -> None:
        self.suite, self._config, self._cassettes = config.suite, config, Cassettes(config.record, config.replay)
        self._began = datetime.now(UTC)
        with self._cassettes.without_provider():
            variants = config.variants
        self.todo: list[PlannedTrial] = []
        prompts = (wanted.case.content for wanted in self.todo)
        agents = [each for each in variants if each.function is None]
        self._asks_models = bool(agents)
        agent = (agents or variants)[0].for_trial(None, None)
        super().__init__(agent, prompts, config.concurrency, limits=config.limits, progress=None, executor=None)
        self._environments: dict[int, TrialEnvironment] = {}
        self._new: dict[int, Trial] = {}
        self._trials: dict[tuple[str, str, int], Trial] = {}
        cases = {case.id: case for case in self.suite.cases}  # stored trials can belong to cases that are not selected
        self._checkpoint = None if config.resume is None else Checkpoint(Path(config.resume), config.header(), cases)
        self._load_stored()

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

    def environment(self, index: int) -> TrialEnvironment:
        """The environment of a trial, created on first use. Raises ConfigError and SessionError."""
        if index not in self._environments:
            self._environments[index] = TrialEnvironment(self.todo[index], self._config, self._cassettes)
        return self._environments[index]

    def stored_trial(self, index: int) -> Trial | None:
        """The stored trial of an earlier run that answered but did not score it, if any."""
        stored = self._stored.get(self.todo[index].key)
        return stored if stored is not None and stored.result is not None and stored.result.status == "done" else None

    def store_trial(self, index: int, trial: Trial, *, must_wait: bool = False) -> None:
        """Store a finished trial, unless it must run again. Raises SessionError if it cannot be stored."""
        self._new[index] = trial
        if not must_wait:
            self._release(index, keep=trial.is_finished)
            if self._checkpoint is not None:
                self._checkpoint.write(trial)

    def _load_stored(self) -> None:
        """Skip finished trials, and charge the cost of all stored ones."""
        stored = {} if self._checkpoint is None else self._checkpoint.trials
        planned = list(self._config.planned())
        matching = {each.key for each in planned if each.key in stored and stored[each.key].seed == each.seed}
        self._stored = {key: stored[key] for key in matching}
        self._trials.update({key: trial for key, trial in self._stored.items() if trial.is_finished})
        self.todo += [each for each in planned if each.key not in self._trials]
        self._total = len(self.todo)
        seeds = {each.key: each.seed for each in planned}
        for spent in [] if self._checkpoint is None else self._checkpoint.spent:
            if spent.key in seeds and seeds[spent.key] == spent.seed:
                self._budget.charge(charge_of(spent.usage, spent.tool_calls, self._budget.limits.unknown_price))

    def _price_function(self, llm: Callable[[], LLM]) -> Callable[[], RequestPrice]:
        return super()._price_function(llm) if self._asks_models else lambda: None

    def _prompt_run(self, job: Job) -> PromptRun:
        share = SharedBudget.of(self._budget, is_alone=job.is_alone)
        function = self.todo[job.index].variant.function
        return TrialRun(self, job, share) if function is None else FunctionTrialRun(self, job, share, function)

    def _local_result(self, job: Job, outcome: PromptOutcome) -> RunResult[Any] | None:
        result = super()._local_result(job, outcome)
        if result is not None:
            self._release(job.index, keep=False)  # for trials that were waiting, and are done now
            trial = self._new[job.index]
            self._trials[trial.key] = trial
            if outcome.must_wait and self._checkpoint is not None:
                self._checkpoint.write(trial)
            if self._config.progress is not None:
                self._config.progress(len(self._trials), self._config.count, trial)
        return result

    def _lost_result(self, _job: Job, error: Exception) -> RunResult[Any] | None:
        """An error that cannot be reported in a trial ends the suite, for example when the trial cannot be stored."""
        raise error

    def _release(self, index: int, *, keep: bool) -> None:
        environment = self._environments.pop(index, None)
        if environment is not None:
            environment.close(keep=keep)

    def _close(self) -> None:
        for index in tuple(self._environments):
            self._release(index, keep=False)
        if self._checkpoint is not None:
            self._checkpoint.close()

    def _report(self) -> Report:
        config = self._config
        trials = [self._trials[wanted.key] for wanted in config.planned()]
        return Report(self.suite.name, tuple(trials), self._began.isoformat(timespec="seconds"))


_OPTIONS = tuple(SuiteRunOptions.__annotations__)


class Suite:
    """Cases, and the scorers that grade an agent's answers.

    Args:
        name: The name of the suite in reports.
        cases: The cases, with unique ids.
        scorers: The scorers of each answer, applied if the case has the field they need; a case's own scorers replace
            them.
        workspace: A folder copied for each trial if the agent's tools touch files; by default the agent's own
            workspace, or an empty folder if it has none.
        context: A function from a case to the context of a trial, called for each trial: tools get it in their
            RunContext, a function as its parameter `context`, and scorers see its final state in `result.context`.

    Raises:
        ConfigError: An argument is invalid, or a case has no scorer.
    """

    def __init__(
        self,
        name: str,
        cases: Iterable[Case],
        scorers: Iterable[Any] = (),
        *,
        workspace: str | PathLike[str] | None = None,
        context: Callable[[Case], Any] | None = None,
        **unknown: Never,
    ) -> None:
        check_unknown_arguments(Suite, unknown)
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"A suite has a name: Suite('sums', [Case(...)]). Got {name!r:.200}.")
        scorer_list = [scorers] if callable(scorers) else scorers
        self.name, self.cases = name, tuple(cases)
        self.scorers = tuple(map(Scorer.of, scorer_list))
        self.workspace = None if workspace is None else fspath(workspace)
        self.context = context
        if context is not None and not callable(context):
            raise ConfigError(f"Suite(context=) takes a function from a case to its context. Got {context!r:.200}.")
        self._check()

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        scorers: Iterable[Any] = (),
        *,
        name: str | None = None,
        workspace: str | PathLike[str] | None = None,
        context: Callable[[Case], Any] | None = None,
    ) -> Suite:
        """Load a suite from a JSON-lines (`.jsonl`) or CSV (`.csv`) file, named after the file.

        Raises ConfigError with the line number of each invalid row.
        """
        from pathlib import Path

        return cls(name or Path(path).stem, read_cases(path), scorers, workspace=workspace, context=context)

    def run(self, agents: Agents, **options: Unpack[SuiteRunOptions]) -> Report:
        """Run each case with each agent, blocking, and return the report.

        `agents` is an Agent, a list of agents, or agents by their names in the report. A failed trial is recorded in
        the report, and the others continue. `options`:

        cases: Only these, as cases or ids.
        models: Names of models, or LLMs: each agent is run on each of them.
        repeats: The number of trials of each case with each agent.
        seed: The seed of the first repeat, incremented for each further one; sent if the provider supports seeds.
        concurrency: The number of trials that run at the same time, 8 by default.
        limits: Limits of all trials together, including scoring; the remaining trials are not run, and reported as
        undone.
        resume: A file that stores each trial as it finishes. Trials in an existing file are not run again.
        record: A folder of cassettes to record the trials in.
        replay: A folder of such cassettes to answer from, without model, network and key.
        progress: Called with the number of finished trials, the total, and the newest trial.

        Raises ConfigError and NoProvider before anything runs, and SessionError if a file cannot be read or written.
        """
        return self._trials(agents, options).report()

    async def arun(self, agents: Agents, **options: Unpack[SuiteRunOptions]) -> Report:
        """Async version of `run`: the trials are tasks of this event loop. Scoring runs in separate threads."""
        return await self._trials(agents, options).areport()

    def scorers_of(self, case: Case) -> list[Scorer]:
        """The scorers of a case; for a conversation, those of the whole."""
        case_scorers = [Scorer.of(each) for each in case.scorers]
        return [scorer for scorer in case_scorers or self.scorers if scorer.applies_to(case)]

    def scorers_of_prompt(self, prompt: Case) -> list[Scorer]:
        """The scorers of one prompt of a conversation: its own, or those that compare with its expectations."""
        return [scorer for scorer in self.scorers_of(prompt) if prompt.scorers or scorer.needs]

    def select(self, cases: Iterable[Case | str] | None) -> list[Case]:
        """Select cases by case or id, in the suite's order. Raises ConfigError for unknown ones."""
        if cases is None:
            return list(self.cases)
        ids = {each.id if isinstance(each, Case) else each for each in cases}
        unknown = ids - {case.id for case in self.cases}
        if unknown:
            raise ConfigError(f"The suite {self.name!r} has no case {min(map(str, unknown))!r:.200}.")
        return [case for case in self.cases if case.id in ids]

    @property
    def digest(self) -> str:
        """A hash of the suite's cases and scorers."""
        rows = [[case.id, case.digest, list(map(repr, self._all_scorers_of(case)))] for case in self.cases]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def _trials(self, agents: Agents, options: SuiteRunOptions) -> Trials:
        check_unknown_arguments(Suite.run, [name for name in options if name not in _OPTIONS], _OPTIONS)
        run_options: dict[str, Any] = {name: value for name, value in options.items() if name != "cases"}
        return Trials(SuiteConfig(self, self.select(options.get("cases")), agents, **run_options))

    def _all_scorers_of(self, case: Case) -> list[Scorer]:
        prompts = case.turns if case.is_conversation else ()
        return self.scorers_of(case) + [scorer for each in prompts for scorer in self.scorers_of_prompt(each)]

    def _check(self) -> None:
        if not self.cases:
            raise ConfigError(f"The suite {self.name!r} has no cases: Suite({self.name!r}, [Case(...)]).")
        for case in self.cases:
            if not isinstance(case, Case):
                raise ConfigError(f"A suite is made of cases: Case('2+2?', expected=4). Got {case!r:.200}.")
            if not self._all_scorers_of(case):
                raise ConfigError(
                    f"The case {case.id!r} has no scorer. Pass scorers=[...] to the suite, or expected= or tool_calls= "
                    "to the case."
                )
        duplicates = [name for name, count in Counter(case.id for case in self.cases).items() if count > 1]
        if duplicates:
            raise ConfigError(f"Two cases have the id {duplicates[0]!r}; give them distinct ids.")

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {count_text(len(self), 'case')}, scorers={list(self.scorers)!r})"
