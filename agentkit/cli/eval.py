"""`agentkit eval`: run a suite, print its report, compare two runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentkit._dataclass import dataclass
from agentkit.agents.agent import Agent
from agentkit.cli.loaders import SUFFIX, run_file, select_object, split_target
from agentkit.cli.options import FILE, Fraction, WholeNumber, limits_option
from agentkit.cli.settings import load_settings, parse_limit
from agentkit.cli.terminal import (
    ANSWERED,
    FAILED,
    INTERRUPTED,
    LIMIT,
    clean,
    json_text,
    print_note,
    quote_word,
    split_remedy,
    with_remedy,
    wrap_lines,
)
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.environment import Cassettes
from agentkit.evals.report import Comparison, Report
from agentkit.evals.run_config import Target, is_target, name_of
from agentkit.evals.trial import Trial
from agentkit.event_rendering import suggestion
from agentkit.llm.pricing import cost_of
from agentkit.settings import is_terminal
from agentkit.usage import NO_USAGE, UNLIMITED

if TYPE_CHECKING:
    from agentkit.cli.settings import Settings
    from agentkit.evals.suite import Suite


_EXAMPLES = """\b
Examples:
  agentkit eval run suite.py --agent bot.txt
  agentkit eval run suite.py --agent pipeline.py:answer
  agentkit eval run suite.py -m gpt-5.4-mini -m ollama:qwen3 --repeats 3
  agentkit eval run cases.csv --scorer numeric --offline --threshold 0.9
  agentkit eval run suite.py --resume trials.jsonl --limit cost=2.00
  agentkit eval run suite.py --baseline main.json --junit report.xml
  agentkit eval compare main.json branch.json
"""
_SCORERS = ("contains", "exact", "json_equal", "matches", "numeric", "tool_calls")
scorer_option = click.option(
    "--scorer", "scorers", multiple=True, type=click.Choice(_SCORERS), help="The scorer for a file of cases."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
_OUTPUT = click.option("-o", "--output", "json_to", type=FILE, metavar="FILE", help="Write the report as JSON.")
_JUNIT = click.option("--junit", "junit_to", type=FILE, metavar="FILE", help="Write JUnit XML, for CI servers.")
_MARKDOWN = click.option(
    "--markdown", "markdown_to", type=FILE, metavar="FILE", help="Write Markdown, for a pull request."
)
_HTML = click.option("--html", "html_to", type=FILE, metavar="FILE", help="Write one HTML page with plots.")


@click.group("eval", epilog=_EXAMPLES, short_help="Evaluate an agent with a suite of cases.")
def evaluation() -> None:
    """Run suites of cases over agents and models, and report success rates with confidence intervals."""


@evaluation.command("run", epilog=_EXAMPLES, short_help="Run a suite over agents and models.")
@click.argument("suite", metavar="SUITE")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="FILE",
    help="An agent: a text file, FILE.py, FILE.py:NAME, or a name in the suite's file, also of a function. Repeatable.",
)
@click.option("-m", "--model", "models", multiple=True, metavar="NAME", help="Run on this model. Repeatable.")
@click.option("--offline", is_flag=True, help="Run on the model in the offline extra: no key, no network.")
@scorer_option
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Only cases with one of these tags. Repeatable.")
@click.option("--repeats", type=WholeNumber(1), default=1, show_default=True, help="How often each case is run.")
@click.option("--seed", type=int, metavar="NUMBER", help="The first repeat's seed; sent to models that support seeds.")
@click.option("--concurrency", type=WholeNumber(1), default=8, show_default=True, help="Number of concurrent trials.")
@limits_option("The limits of all trials together.")
@click.option("--resume", type=FILE, metavar="FILE", help="Store each finished trial in FILE, and continue from there.")
@click.option("--record", type=FILE, metavar="FOLDER", help="Record the trials in cassettes.")
@click.option("--replay", type=FILE, metavar="FOLDER", help="Answer from cassettes: no model, no network, no key.")
@_JSON
@_OUTPUT
@_JUNIT
@_HTML
@_MARKDOWN
@click.option(
    "--threshold", type=Fraction(0, 1), metavar="SHARE", help="Fail when a smaller share of the trials passes: 0 to 1."
)
@click.option(
    "--baseline", type=FILE, metavar="FILE", help="Fail when the results are significantly worse than this report."
)
@click.option("--no-broken", is_flag=True, help="With --baseline: fail when any case that passed before fails.")
def run_suite(**options: Any) -> int:
    """Run the SUITE: FILE.py, FILE.py:NAME, or a file of cases (.jsonl, .csv).

    The table goes to stdout. The exit code is 0 when all thresholds are met, 1 when a threshold is missed, the
    baseline was better, or nothing was answered, 3 when a limit prevented some trials.
    """
    _check(**options)
    files = ReportFiles(**{each.name: options.pop(each.name) for each in fields(ReportFiles)})
    threshold, baseline_path, no_broken = (options.pop(name) for name in ("threshold", "baseline", "no_broken"))
    limits: dict[str, Any] = dict(map(parse_limit, options.pop("limits")))
    baseline = None if baseline_path is None else load_report(baseline_path)
    try:
        report = _report(options.pop("suite"), **options, limits=replace(UNLIMITED, **limits) if limits else None)
    except KeyboardInterrupt:
        # Print how to resume the suite; return the exit code
        resume_file = options["resume"]
        if resume_file is None:
            print_note("Interrupted.\nNothing was stored. With --resume FILE, each finished trial is stored.")
        else:
            print_note(
                f"Interrupted.\nThe work so far is stored. Continue with: --resume {quote_word(str(resume_file))}"
            )
        return INTERRUPTED
    print_report(report, files)
    codes = [_threshold_exit_code(report, threshold)]
    # If JSON is written to stdout, everything else goes to stderr.
    if baseline is not None and print_comparison(baseline, report, no_broken=no_broken, to_stderr=files.as_json):
        print_note(f"The results are worse than {baseline_path}.", "red")
        codes.append(FAILED)
    return max(codes, key=(ANSWERED, FAILED, LIMIT).index)


@evaluation.command("show", short_help="Show a report, also as a page, JUnit XML or Markdown.")
@click.argument("report", type=FILE, metavar="REPORT")
@_JSON
@_OUTPUT
@_JUNIT
@_HTML
@_MARKDOWN
def show_report(*, report: Path, **artifacts: Any) -> None:
    """Show the REPORT that `eval run -o` wrote, also as a page, JUnit XML or Markdown."""
    print_report(load_report(report), ReportFiles(**artifacts))


@evaluation.command("compare", short_help="Compare two reports.")
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option("--agent", metavar="NAME", help="The agent to compare, if the reports contain several.")
@click.option("--no-broken", is_flag=True, help="Fail when any case that passed before fails.")
def compare_reports(*, before: Path, after: Path, agent: str | None, no_broken: bool) -> int:
    """Compare two reports of the same cases; the exit code is 1 when the second is significantly worse."""
    is_worse = print_comparison(load_report(before), load_report(after), agent, no_broken=no_broken)
    return FAILED if is_worse else ANSWERED


def load_suite(target: str, scorers: Sequence[str] = ()) -> tuple[Suite, Mapping[str, Any]]:
    """Load the suite from `FILE.py`, `FILE.py:NAME` or a file of cases, and the other names in a Python file.

    Raises UsageError if the suite is missing, ConfigError if the file is invalid.
    """
    from agentkit import evals

    path, name = split_target(target)
    if path.suffix != SUFFIX:
        chosen = [getattr(evals, each)() for each in scorers or ("contains", "tool_calls")]
        return _load_cases(path, chosen), {}
    if scorers:
        raise click.UsageError("--scorer is for files of cases; a Python file names its scorers itself.")
    found = run_file(path)
    return select_object(found, name, evals.Suite, path), found


def _load_cases(path: Path, scorers: Sequence[Any]) -> Suite:
    """Load the suite from a file of cases. Raises ConfigError with a remedy."""
    from agentkit.evals.case import FIELDS
    from agentkit.evals.suite import Suite

    try:
        return Suite.read(path, scorers)
    except ConfigError as error:
        if isinstance(error.__cause__, OSError):
            raise
        remedy = f"Correct the file; the fields of a case are {', '.join(FIELDS)}."
        raise ConfigError(with_remedy(error, remedy)) from error


def load_agents(targets: Sequence[str], others: Mapping[str, Any], settings: Settings) -> dict[str, Target]:
    """Load the named agents: text files, `FILE.py`, `FILE.py:NAME`, or names in the suite's file.

    A function is named as `FILE.py:NAME` or by its name in the suite's file. Without names, use the agents in that
    file, or else the agent from the settings. Raises UsageError and ConfigError.
    """
    if not targets:
        found = [each for each in others.values() if isinstance(each, Agent)] or [settings.agent()]
        return {agent.name: agent for agent in found}
    agents = [load_agent(target, others, settings) for target in targets]
    by_name = {name_of(agent): agent for agent in agents}
    if len(by_name) == len(agents):
        return by_name
    return dict(zip(targets, agents, strict=True))


def _suggestion(name: str, found: Mapping[str, Any]) -> str:
    """Suggest the agent or function of a file closest to a name; empty if none is close."""
    return suggestion(
        name, [each for each, value in found.items() if is_target(value) and not each.startswith("_")], 0.7
    )


def load_agent(target: str, others: Mapping[str, Any], settings: Settings) -> Target:
    """Load one named agent or function. A text file without a model uses the model of the settings."""
    from agentkit.agents.agent_file import read_manifesto

    if is_target(others.get(target)):
        agent: Target = others[target]
        return agent
    path, name = split_target(target)
    if path.suffix == SUFFIX:
        found = run_file(path)
        if name and not is_target(found.get(name)) and (suggested := _suggestion(name, found)):
            raise click.UsageError(f"{path} defines no agent or function {name!r}.{suggested}")
        return found[name] if is_target(found.get(name)) else select_object(found, name, Agent, path)
    known = [each for each, value in others.items() if isinstance(value, Agent)]
    if known and not path.exists():
        text = f"Neither a file nor an agent is named {target!r}.{_suggestion(target, others)}"
        raise click.UsageError(f"{text} Known: {', '.join(known)}.")
    return Agent.from_file(path, llm=settings.llm()) if read_manifesto(path).model is None else Agent.from_file(path)


def load_report(path: Path) -> Report:
    """Load a report from a file. Raises ConfigError with a remedy."""
    try:
        return Report.read(path)
    except SessionError as error:
        problem, _ = split_remedy(f"{error}")
        path_hint = "report.json" if path.exists() else str(path)  # an existing file can be the suite
        raise ConfigError(f"{problem} Write one with: agentkit eval run SUITE -o {quote_word(path_hint)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The files that a report is written to, one per format."""

    as_json: bool = False
    json_to: Path | None = None
    junit_to: Path | None = None
    html_to: Path | None = None
    markdown_to: Path | None = None


def print_report(report: Report, to: ReportFiles) -> None:
    """Print the table, or JSON if that is to go to stdout, and write the files. Raises SessionError."""
    click.echo(json_text(report.to_data()) if to.as_json else _format_report(report))
    writers = {
        to.json_to: report.to_json,
        to.junit_to: report.to_junit,
        to.html_to: report.to_html,
        to.markdown_to: report.to_markdown,
    }
    from agentkit.evals.report import write_whole

    for path, make in writers.items():
        if path is not None:
            write_whole(path, make())
            print_note(f"Written: {path}", faint=True)


def _format_report(report: Report) -> str:
    """Render the report as text, fitted to the terminal if stdout is one."""
    from shutil import get_terminal_size

    from agentkit.evals.text_reports import report_text

    columns = get_terminal_size().columns if is_terminal(sys.stdout) else None
    return wrap_lines(clean(report_text(report, columns)), sys.stdout, 4)


def print_comparison(
    before: Report, after: Report, agent: str | None = None, *, no_broken: bool, to_stderr: bool = False
) -> bool:
    """Print the comparison of each agent; return whether one is worse, or has broken cases with `no_broken` set.

    Raises UsageError if no agent is in both reports.
    """
    comparisons = _comparisons(before, after, agent)
    for each in comparisons:
        click.echo(wrap_lines(clean(str(each)), sys.stderr if to_stderr else sys.stdout, 4), err=to_stderr)
    return any(each.is_worse or (no_broken and each.broken) for each in comparisons)


def _comparisons(before: Report, after: Report, agent: str | None) -> list[Comparison]:
    if agent is None and len(before.agents) == len(after.agents) == 1:
        return [before.compare(after)]
    shared = [name for name in before.agents if name in after.agents and agent in (None, name)]
    if not shared:
        known = ", ".join(before.agents), ", ".join(after.agents)
        subject = "No agent is" if agent is None else f"The agent {agent!r} is not"
        raise click.UsageError(f"{subject} in both reports. The first has {known[0]}; the second has {known[1]}.")
    return [before.only(agent=name).compare(after.only(agent=name)) for name in shared]


class ProgressLine:
    """Show progress and cost of the suite on one line of a terminal; print nothing elsewhere."""

    def __init__(self) -> None:
        self._usage, self._count, self._width = NO_USAGE, 0, 0

    def __call__(self, done: int, total: int, trial: Trial) -> None:
        """Update the line with a finished trial."""
        self._usage += trial.usage + trial.judging + trial.simulating
        self._count += 1
        if sys.stderr.isatty():
            text = f"{done} of {total}{self._cost_text(total - done)}".ljust(self._width)
            click.echo(f"\r{text} " if done < total else f"\r{' ' * (self._width + 1)}\r", err=True, nl=False)
            self._width = len(text)

    def _cost_text(self, left: int) -> str:
        """The cost of the trials so far and an estimate of the total; empty if the price is unknown."""
        cost = cost_of(self._usage)
        if cost is None or not cost.dollars or cost.unpriced_requests:
            return ""
        return f", ≈ ${cost.dollars:.4f}, with the rest ≈ ${cost.dollars * (1 + left / self._count):.4f}"


def _check(*, offline: bool, models: Sequence[str], baseline: object, no_broken: bool, **options: Any) -> None:
    """Raise UsageError if two options contradict."""
    if offline and models:
        raise click.UsageError("Use --offline or --model, not both: the offline model is another model.")
    if no_broken and baseline is None:
        raise click.UsageError("--no-broken needs --baseline FILE: the report to compare with.")
    if options["record"] is not None and options["replay"] is not None:
        raise click.UsageError("Use --record or --replay, not both: the first asks the model, the second does not.")
    if options["threshold"] is not None and isnan(options["threshold"]):
        raise click.UsageError("--threshold takes a share from 0 to 1. Got nan.")


def _report(
    folder: str,
    agents: Sequence[str],
    models: Sequence[str],
    scorers: Sequence[str],
    tags: Sequence[str],
    **options: Any,
) -> Report:
    """Run the suite. Raises UsageError, ConfigError, NoProvider and SessionError."""
    is_offline = options.pop("offline")
    settings = load_settings({"provider": "offline" if is_offline else None, "model": next(iter(models), None)})
    for note in settings.notes:
        print_note(note, "yellow")
    suite, others = load_suite(folder, scorers)
    cases = [case for case in suite if not tags or set(case.tags) & set(tags)]
    if not cases:
        known = ", ".join(dict.fromkeys(tag for case in suite for tag in case.tags))
        problem = f"No case of {folder} has the tag {' or '.join(tags)}."
        raise click.UsageError(f"{problem} Its tags are {known}." if known else f"{problem} Its cases have no tags.")
    with Cassettes(None, None if options["replay"] is None else str(options["replay"])).without_provider():
        targets = load_agents(agents, others, settings)
        llms = [settings.llm()] if is_offline else [settings.llm(name) for name in models]
    try:
        return suite.run(targets, cases=cases, models=llms, progress=ProgressLine(), **options)
    except SessionError as error:
        raise SessionError(with_remedy(error, "Name another file.")) from error


def _threshold_exit_code(report: Report, threshold: float | None) -> int:
    """Print undone trials and missed thresholds; return the exit code for them."""
    undone = [trial for trial in report.trials if trial.outcome == "undone"]
    if undone:
        reason, _ = split_remedy(undone[0].error)
        print_note(f"{len(undone)} of {len(report.trials)} trials were not run. {reason}", "red")
        return LIMIT
    below = [each for each in report.figures if threshold is not None and each.rate.value < threshold]
    for each in below:
        print_note(
            f"{each.agent}: {100 * each.rate.value:.1f} % passed, below the threshold of {100 * (threshold or 0):g} %.",
            "red",
        )
    has_answers = any(trial.scores for trial in report.trials)
    if not has_answers:
        print_note("No case was answered.", "red")
    return FAILED if below or not has_answers else ANSWERED
