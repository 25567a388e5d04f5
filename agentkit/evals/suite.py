"""`Suite`: cases and the scorers that grade an agent's answers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from typing import Any, Never, Unpack

from agentkit.errors import ConfigError
from agentkit.evals.agent_variants import Agents
from agentkit.evals.case import Case
from agentkit.evals.dataset import read_cases
from agentkit.evals.report import Report
from agentkit.evals.run_config import SuiteConfig, SuiteRunOptions
from agentkit.evals.runner import Trials
from agentkit.evals.scorers import Scorer
from agentkit.event_rendering import count_text
from agentkit.suggestions import refuse_made

_OPTIONS = tuple(SuiteRunOptions.__annotations__)


class Suite:
    """Cases, and scorers that say how well an agent does them.

    Args:
        name: What the suite is called in reports.
        cases: The cases; those of one id are one too many.
        scorers: What scores each answer, as far as the case has what it compares with; a case's own come before these.
        workspace: A folder of which each trial gets a copy to work in, if the agent's tools touch files; by default the
            agent's own workspace, or an empty folder when it has none.
        context: A function from a case to what each trial of it is given as context, made anew: tools get it in their
            RunContext, a function as its parameter `context`, and scorers see what became of it in `result.context`.

    Raises:
        ConfigError: An argument is not what it should be, or nothing scores a case.
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
        """The suite in a file of JSON lines (`.jsonl`) or of comma-separated values (`.csv`), named after the file.

        Raises ConfigError, which tells the line of each row that is no case.
        """
        from pathlib import Path

        return cls(name or Path(path).stem, read_cases(path), scorers, workspace=workspace, context=context)

    def run(self, agents: Agents, **options: Unpack[SuiteRunOptions]) -> Report:
        """Ask each case of each agent, blocking, and report.

        `agents` is an Agent, a list of agents, or agents by the names that they bear in the report. The failure of a
        trial is told in it, and the others go on. `options`:

        cases: Only these, as cases or ids.
        models: Names of models, or LLMs: each agent is run on each of them.
        repeats: How often each case is asked of each agent.
        seed: The seed of the first repeat, the next one's is one more; sent where the provider takes a seed.
        concurrency: How many trials run at the same time, 8 by default.
        limits: What all trials together may take, with their scoring; what is then left is not run, and said to be.
        resume: A file that keeps each trial as it finishes. Where it is there already, its trials are not run again.
        record: A folder of cassettes to record the trials in.
        replay: A folder of such cassettes to answer from, without model, network and key.
        progress: Called with how many trials are done, how many there are, and the newest.

        Raises ConfigError and NoProvider before anything runs, and SessionError when a file cannot be read or written.
        """
        return self._trials(agents, options).report()

    async def arun(self, agents: Agents, **options: Unpack[SuiteRunOptions]) -> Report:
        """Like `run`, awaiting: the trials are tasks of this event loop. Scoring has threads of its own."""
        return await self._trials(agents, options).areport()

    def scorers_of(self, case: Case) -> list[Scorer]:
        """The scorers that score a case: of a conversation, the whole."""
        own = [Scorer.of(each) for each in case.scorers]
        return [scorer for scorer in own or self.scorers if scorer.applies_to(case)]

    def scorers_of_prompt(self, prompt: Case) -> list[Scorer]:
        """The scorers that score one prompt of a conversation: its own, or those that compare with what it expects."""
        return [scorer for scorer in self.scorers_of(prompt) if prompt.scorers or scorer.needs]

    def chosen(self, cases: Iterable[Case | str] | None) -> list[Case]:
        """The cases that are meant by cases and ids, in the suite's order. Raises ConfigError for others."""
        if cases is None:
            return list(self.cases)
        wanted = {each.id if isinstance(each, Case) else each for each in cases}
        unknown = wanted - {case.id for case in self.cases}
        if unknown:
            raise ConfigError(f"The suite {self.name!r} has no case {min(map(str, unknown))!r:.200}.")
        return [case for case in self.cases if case.id in wanted]

    @property
    def digest(self) -> str:
        """What tells this suite from one with other cases, or other scorers, as a hash."""
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
                    f"Nothing scores the case {case.id!r}. Give the suite scorers=[...], or the case what they compare "
                    "with: expected= or tool_calls=."
                )
        twice = [name for name, count in Counter(case.id for case in self.cases).items() if count > 1]
        if twice:
            raise ConfigError(f"Two cases have the id {twice[0]!r}; give each its own.")

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {count_text(len(self), 'case')}, scorers={list(self.scorers)!r})"
