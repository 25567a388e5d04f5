"""How is a report told on the command line? The table on stdout, files where they are wanted."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agentkit.cli.display import clean, json_text
from agentkit.cli.terminal import fitted, halves, shown_word, tell
from agentkit.config import is_terminal
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.reporting.comparing import Comparison
from agentkit.evals.reporting.report import Report
from agentkit.evals.trial import Trial
from agentkit.llm.prices import cost_of
from agentkit.slotted import dataclass
from agentkit.usage import NO_USAGE

STDOUT = "-"


def report_in(path: Path) -> Report:
    """The report that was written into a file. Raises ConfigError, with what to do."""
    try:
        return Report.read(path)
    except SessionError as error:
        what, _ = halves(f"{error}")
        free = "report.json" if path.exists() else str(path)  # what is there may be the suite
        raise ConfigError(f"{what} Write one with: agentkit eval run SUITE --json {shown_word(free)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a report is written, in each of its forms."""

    json_to: str | None = None
    junit_to: Path | None = None
    html_to: Path | None = None
    markdown_to: Path | None = None


def tell_report(report: Report, to: Places) -> None:
    """Print the table, or the JSON where stdout is named for it, and write the files. Raises SessionError."""
    click.echo(json_text(report.to_data()) if to.json_to == STDOUT else _shown(report))
    forms = {
        to.json_to if to.json_to != STDOUT else None: report.to_json,
        to.junit_to: report.to_junit,
        to.html_to: report.to_html,
        to.markdown_to: report.to_markdown,
    }
    from agentkit.evals.keeping.writing import write_whole

    for place, make in forms.items():
        if place is not None:
            write_whole(place, make())
            tell(f"Written: {place}", faint=True)


def _shown(report: Report) -> str:
    """The report as text that fits the terminal, where it goes to one."""
    from shutil import get_terminal_size

    from agentkit.evals.reporting.table import report_text

    columns = get_terminal_size().columns if is_terminal(sys.stdout) else None
    return fitted(clean(report_text(report, columns)), sys.stdout, 4)


def compared(
    before: Report, after: Report, agent: str | None = None, *, no_broken: bool, to_stderr: bool = False
) -> bool:
    """Print what changed, agent by agent; whether any of them is worse, or has a broken case where none may be.

    Raises UsageError when no agent is in both.
    """
    comparisons = _comparisons(before, after, agent)
    for each in comparisons:
        click.echo(fitted(clean(str(each)), sys.stderr if to_stderr else sys.stdout, 4), err=to_stderr)
    return any(each.is_worse or (no_broken and each.broken) for each in comparisons)


def _comparisons(before: Report, after: Report, agent: str | None) -> list[Comparison]:
    if agent is None and len(before.agents) == len(after.agents) == 1:
        return [before.compare(after)]
    both = [name for name in before.agents if name in after.agents and agent in (None, name)]
    if not both:
        known = ", ".join(before.agents), ", ".join(after.agents)
        wanted = "No agent is" if agent is None else f"The agent {agent!r} is not"
        raise click.UsageError(f"{wanted} in both reports. The first has {known[0]}; the second has {known[1]}.")
    return [before.only(agent=name).compare(after.only(agent=name)) for name in both]


class Progress:
    """Tells on one line of a terminal how far the suite is, and what it costs; nothing elsewhere."""

    def __init__(self) -> None:
        self._usage, self._count, self._width = NO_USAGE, 0, 0

    def __call__(self, done: int, total: int, trial: Trial) -> None:
        """Tell of the newest trial."""
        self._usage += trial.usage + trial.judging + trial.simulating
        self._count += 1
        if sys.stderr.isatty():
            told = f"{done} of {total}{self._money(total - done)}".ljust(self._width)
            click.echo(f"\r{told} " if done < total else f"\r{' ' * (self._width + 1)}\r", err=True, nl=False)
            self._width = len(told)

    def _money(self, left: int) -> str:
        """What the trials have cost so far, and what that makes for those that are left; empty when nobody knows."""
        cost = cost_of(self._usage)
        if cost is None or not cost.dollars or cost.unpriced_requests:
            return ""
        return f", ≈ ${cost.dollars:.4f}, with the rest ≈ ${cost.dollars * (1 + left / self._count):.4f}"
