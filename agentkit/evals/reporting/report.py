"""Report: what came of a suite."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from agentkit.errors import ConfigError, SessionError
from agentkit.evals.keeping.encoding import read_trial, trial_data
from agentkit.evals.keeping.reading import case_from
from agentkit.evals.reporting.comparing import Comparison
from agentkit.evals.reporting.figures import Reported
from agentkit.memory.cassettes.hiding import Hiding
from agentkit.memory.codec import from_line, to_line
from agentkit.slotted import dataclass

VERSION = 1
_KEY = "agentkit_report"


@dataclass(frozen=True, slots=True)
class Report(Reported):
    """What came of a suite: its trials, in the order in which they were ordered. `began` is an ISO time.

    `print(report)` shows it. It holds the conversations: what is saved of it is redacted, and its owner's alone.
    """

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Report:
        """The report that `save` wrote. Raises SessionError when there is none, or it is damaged."""
        try:
            return _read(from_line(Path(path).read_bytes()))
        except OSError as error:
            raise SessionError(f"The report {os.fspath(path)} cannot be read: {error.strerror or error}.") from error
        except (SessionError, ConfigError) as error:
            raise SessionError(f"{os.fspath(path)} is no report that Report.save() wrote. {error}") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file, which only its owner can read, without what is or looks like a secret.

        By its suffix it is a page (`.html`), JUnit XML (`.xml`), Markdown (`.md`), or else JSON. Raises SessionError.
        """
        from agentkit.evals.keeping.writing import write_whole

        suffix = Path(path).suffix.lower()
        make = {".html": self.to_html, ".xml": self.to_junit, ".md": self.to_markdown}.get(suffix, self.to_json)
        write_whole(path, make())

    @property
    def success_rate(self) -> float:
        """The share of the completed trials that passed, over all agents together."""
        run = [trial for trial in self.trials if trial.outcome != "undone"]
        return sum(trial.passed for trial in run) / len(run) if run else 0.0

    @property
    def is_complete(self) -> bool:
        """Whether every trial was run."""
        return all(trial.outcome != "undone" for trial in self.trials)

    def compare(self, other: Report) -> Comparison:
        """What changed from this report to `other`, case by case. Cases are the same when they have the same id.

        Both must be of one agent, or have just one in common. Raises ConfigError otherwise.
        """
        before, after = self, other
        if (len(self.agents), len(other.agents)) != (1, 1):
            both = [agent for agent in self.agents if agent in other.agents]
            if len(both) != 1:
                raise ConfigError(
                    f"Which agents are compared? Here are {', '.join(self.agents) or 'none'}; there "
                    f"{', '.join(other.agents) or 'none'}. Say it: report.only(agent=...).compare(other)."
                )
            before, after = self.only(agent=both[0]), other.only(agent=both[0])
        return Comparison.of(before.trials, after.trials)

    def to_data(self) -> dict[str, Any]:
        """The report as JSON-able data: figures, cases, and each trial with its run; secrets are redacted."""
        return Hiding().hidden(
            {
                _KEY: VERSION,
                "suite": self.suite,
                "began": self.began,
                "figures": [figures.to_data() for figures in self.figures],
                "cases": [case.to_data() for case in self.cases],
                "trials": [trial_data(trial) for trial in self.trials],
            }
        )

    def to_json(self) -> str:
        """The report as JSON text, which `read` reads."""
        return to_line(self.to_data()) + "\n"

    def to_junit(self) -> str:
        """The report as JUnit XML, as CI servers read it: a test suite for each agent, a test case for each trial."""
        from agentkit.evals.reporting.junit import junit

        return junit(self)

    def to_markdown(self) -> str:
        """The report as Markdown, for a pull request or the summary of a job; what did not pass is folded."""
        from agentkit.evals.reporting.markdown import markdown

        return markdown(self)

    def to_html(self) -> str:
        """The report as one HTML page with plots that needs no script, no network and nothing beside it."""
        from agentkit.evals.reporting.page import page

        return page(self)

    def __str__(self) -> str:
        """The report as a table, with what failed below it."""
        from agentkit.evals.reporting.table import report_text

        return report_text(self)


def _read(data: Mapping[str, Any]) -> Report:
    if data.get(_KEY) != VERSION:
        raise SessionError(f"It does not say that it is one of version {VERSION}.")
    try:
        cases = {case.id: case for case in map(case_from, data["cases"])}
        trials = tuple(read_trial(each, cases) for each in data["trials"])
        return Report(str(data["suite"]), trials, str(data["began"]))
    except (KeyError, TypeError) as error:
        raise SessionError(f"It lacks {error}.") from error
