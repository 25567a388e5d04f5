"""`Suite`: cases and the scorers that grade an agent's answers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from typing import Any, Never, Unpack

from agentkit.errors import ConfigError
from agentkit.evals.case import Case, read_cases
from agentkit.evals.report import Report
from agentkit.evals.run_config import Agents, SuiteConfig, SuiteRunOptions
from agentkit.evals.runner import Trials
from agentkit.evals.scorers import Scorer
from agentkit.event_rendering import count_text
from agentkit.suggestions import refuse_made

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
        refuse_made(Suite, unknown)
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"A suite has a name: Suite('sums', [Case(...)]). Got {name!r:.200}.")
        given = [scorers] if callable(scorers) else scorers
        self.name, self.cases = name, tuple(cases)
        self.scorers = tuple(map(Scorer.of, given))
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
        own = [Scorer.of(each) for each in case.scorers]
        return [scorer for scorer in own or self.scorers if scorer.applies_to(case)]

    def scorers_of_prompt(self, prompt: Case) -> list[Scorer]:
        """The scorers of one prompt of a conversation: its own, or those that compare with its expectations."""
        return [scorer for scorer in self.scorers_of(prompt) if prompt.scorers or scorer.needs]

    def chosen(self, cases: Iterable[Case | str] | None) -> list[Case]:
        """Select cases by case or id, in the suite's order. Raises ConfigError for unknown ones."""
        if cases is None:
            return list(self.cases)
        wanted = {each.id if isinstance(each, Case) else each for each in cases}
        unknown = wanted - {case.id for case in self.cases}
        if unknown:
            raise ConfigError(f"The suite {self.name!r} has no case {min(map(str, unknown))!r:.200}.")
        return [case for case in self.cases if case.id in wanted]

    @property
    def digest(self) -> str:
        """A hash of the suite's cases and scorers."""
        rows = [[case.id, case.digest, list(map(repr, self._all_scorers_of(case)))] for case in self.cases]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def _trials(self, agents: Agents, options: SuiteRunOptions) -> Trials:
        refuse_made(Suite.run, [name for name in options if name not in _OPTIONS], _OPTIONS)
        given: dict[str, Any] = {name: value for name, value in options.items() if name != "cases"}
        return Trials(SuiteConfig(self, self.chosen(options.get("cases")), agents, **given))

    def _all_scorers_of(self, case: Case) -> list[Scorer]:
        prompts = case.said if case.is_conversation else ()
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
        twice = [name for name, count in Counter(case.id for case in self.cases).items() if count > 1]
        if twice:
            raise ConfigError(f"Two cases have the id {twice[0]!r}; give them distinct ids.")

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {count_text(len(self), 'case')}, scorers={list(self.scorers)!r})"
