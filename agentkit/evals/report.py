"""Suite reports and the comparison of two reports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from agentkit import atomic_write
from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.case import case_from
from agentkit.evals.metrics import Interval, Reported, bootstrap, mcnemar, permutation
from agentkit.evals.text_reports import indented_list, short
from agentkit.evals.trial import Trial, read_trial, trial_data
from agentkit.event_rendering import one_line
from agentkit.sessions.cassettes.entries import EntryRedactor
from agentkit.sessions.codec import from_line, to_line

SIGNIFICANT = 0.05
"""Differences with a smaller p-value are treated as significant."""

Change = Literal["fixed", "broken", "same"]


@dataclass(frozen=True, slots=True)
class Row:
    """One case: the share of its repeats that passed before, and after."""

    case: str
    text: str
    before: float
    after: float

    @property
    def change(self) -> Change:
        """The change of the case, which passes if more than half of its repeats do."""
        was, now = self.before > 0.5, self.after > 0.5
        return "same" if was == now else "fixed" if now else "broken"

    def __str__(self) -> str:
        """`0 % -> 100 %  What is 2+2?`."""
        return f"{100 * self.before:.0f} % -> {100 * self.after:.0f} %  {one_line(self.text)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The changes between two runs of the same cases.

    `difference` is the difference of the success rates, over the cases in both; `interval` its 95 % bootstrap interval
    over cases, `p_value` that of a permutation test, `mcnemar` the exact p-value of McNemar's test on the cases fixed
    and broken. `missing` are the ids of cases that only one of the runs contains.
    """

    before: str
    after: str
    rows: tuple[Row, ...]
    missing: tuple[str, ...]
    difference: float
    interval: Interval
    p_value: float
    mcnemar: float

    @classmethod
    def of(cls, before: Sequence[Trial], after: Sequence[Trial]) -> Comparison:
        """Compare the trials of two agents or runs. Undone trials are ignored."""
        old, new = _shares(before), _shares(after)
        texts = {trial.case.id: trial.case.text for trial in (*before, *after)}
        rows = tuple(Row(case, texts[case], old[case], new[case]) for case in old if case in new)
        differences = [row.after - row.before for row in rows]
        changes = [row.change for row in rows]
        return cls(
            _name(before),
            _name(after),
            rows,
            tuple(case for case in texts if (case in old) != (case in new)),
            sum(differences) / len(differences) if differences else 0.0,
            bootstrap(differences),
            permutation(differences),
            mcnemar(changes.count("fixed"), changes.count("broken")),
        )

    @property
    def fixed(self) -> tuple[Row, ...]:
        """The cases that pass now, and did not before."""
        return tuple(row for row in self.rows if row.change == "fixed")

    @property
    def broken(self) -> tuple[Row, ...]:
        """The cases that passed before, and do not now."""
        return tuple(row for row in self.rows if row.change == "broken")

    @property
    def is_worse(self) -> bool:
        """Whether the success rate has dropped significantly."""
        return self.difference < 0 and self.p_value < SIGNIFICANT

    def __str__(self) -> str:
        """Render the changes as a few lines."""
        low, high = self.interval
        changed = f"{len(self.fixed)} fixed, {len(self.broken)} broken"
        lines = [
            f"{short(self.before)} -> {short(self.after)}: {changed}, of {len(self.rows)} cases",
            f"difference {_points(self.difference)} points ({_points(low)} to {_points(high)}), "
            f"p = {self.p_value:.3g}; McNemar's exact p = {self.mcnemar:.3g}",
        ]
        if self.missing:
            cases, are = ("case", "is") if len(self.missing) == 1 else ("cases", "are")
            lines.append(f"{len(self.missing)} {cases} {are} in only one of the two reports, and {are} left out")
        for word, rows in (("broken", self.broken), ("fixed", self.fixed)):
            lines += indented_list(f"{word}  {row}" for row in rows)
        return "\n".join(lines)


def _shares(trials: Sequence[Trial]) -> Mapping[str, float]:
    passed: dict[str, list[bool]] = {}
    for trial in trials:
        if trial.outcome != "undone":
            passed.setdefault(trial.case.id, []).append(trial.passed)
    return {case: sum(each) / len(each) for case, each in passed.items()}


def _name(trials: Sequence[Trial]) -> str:
    return ", ".join(dict.fromkeys(trial.agent for trial in trials))


def _points(share: float) -> str:
    return f"{100 * share:+.0f}"


VERSION = 1
_KEY = "agentkit_report"


@dataclass(frozen=True, slots=True)
class Report(Reported):
    """The result of a suite: its trials, in the order in which they were planned. `began` is an ISO time.

    `print(report)` shows it. It contains the conversations, so saved reports are redacted and readable for their owner
    only.
    """

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Report:
        """Load a report written by `save`. Raises SessionError if it does not exist or is damaged."""
        try:
            return _read(from_line(Path(path).read_bytes()))
        except OSError as error:
            raise SessionError(f"The report {os.fspath(path)} cannot be read: {error.strerror or error}.") from error
        except (SessionError, ConfigError) as error:
            raise SessionError(f"{os.fspath(path)} was not written by Report.save(). {error}") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report, redacted, to a file that only its owner can read.

        The suffix selects HTML (`.html`), JUnit XML (`.xml`), Markdown (`.md`), or else JSON. Raises SessionError.
        """
        suffix = Path(path).suffix.lower()
        make = {".html": self.to_html, ".xml": self.to_junit, ".md": self.to_markdown}.get(suffix, self.to_json)
        write_whole(path, make())

    @property
    def success_rate(self) -> float:
        """The share of the completed trials that passed, over all agents."""
        run = [trial for trial in self.trials if trial.outcome != "undone"]
        return sum(trial.passed for trial in run) / len(run) if run else 0.0

    @property
    def is_complete(self) -> bool:
        """Whether every trial was completed."""
        return all(trial.outcome != "undone" for trial in self.trials)

    def compare(self, other: Report) -> Comparison:
        """Compare this report with a later one, case by case. Cases are matched by id.

        Both must have a single agent, or exactly one in common. Raises ConfigError otherwise.
        """
        before, after = self, other
        if (len(self.agents), len(other.agents)) != (1, 1):
            both = [agent for agent in self.agents if agent in other.agents]
            if len(both) != 1:
                raise ConfigError(
                    "Both reports must have the same agent, or only one. This report has "
                    f"{', '.join(self.agents) or 'none'}; the other has {', '.join(other.agents) or 'none'}. Select "
                    "one: report.only(agent=...).compare(other)."
                )
            before, after = self.only(agent=both[0]), other.only(agent=both[0])
        return Comparison.of(before.trials, after.trials)

    def to_data(self) -> dict[str, Any]:
        """Encode the report as JSON-compatible data: metrics, cases, and each trial with its run.

        Secrets are redacted.
        """
        return EntryRedactor().redact(
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
        """Render the report as JSON text, which `read` loads."""
        return to_line(self.to_data()) + "\n"

    def to_junit(self) -> str:
        """Render the report as JUnit XML for CI servers: a test suite for each agent, a test case for each trial."""
        from agentkit.evals.text_reports import junit

        return junit(self)

    def to_markdown(self) -> str:
        """Render the report as Markdown, for a pull request or a job summary; failures are collapsed."""
        from agentkit.evals.text_reports import markdown

        return markdown(self)

    def to_html(self) -> str:
        """Render the report as a self-contained HTML page with plots, without scripts or network access."""
        from agentkit.evals.html_report import page

        return page(self)

    def __str__(self) -> str:
        """Render the report as a table, followed by the failures."""
        from agentkit.evals.text_reports import report_text

        return report_text(self)


def _read(data: Mapping[str, Any]) -> Report:
    if data.get(_KEY) != VERSION:
        raise SessionError(f"It has no field for version {VERSION}.")
    try:
        cases = {case.id: case for case in map(case_from, data["cases"])}
        trials = tuple(read_trial(each, cases) for each in data["trials"])
        return Report(str(data["suite"]), trials, str(data["began"]))
    except (KeyError, TypeError) as error:
        raise SessionError(f"It lacks {error}.") from error


def write_whole(path: str | PathLike[str], text: str) -> None:
    """Write the text to the file, readable for its owner only. Raises SessionError if it cannot be written."""
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write.write_whole(file, text)
    except OSError as error:
        raise SessionError(f"{file} cannot be written: {error.strerror}. Is its folder writable?") from error
