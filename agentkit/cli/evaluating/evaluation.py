"""`agentkit eval`: run a suite, show what came of it, compare two runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentkit.cli.arguments import Fraction, WholeNumber
from agentkit.cli.completing import limits_option
from agentkit.cli.exit_codes import ANSWERED, FAILED

_EXAMPLES = """\b
Examples:
  agentkit eval run suite.py --agent bot.txt
  agentkit eval run suite.py --agent pipeline.py:answer
  agentkit eval run suite.py -m gpt-5.4-mini -m ollama:qwen3 --repeats 3 --html report.html
  agentkit eval run cases.csv --scorer numeric --offline --threshold 0.9
  agentkit eval run suite.py --resume trials.jsonl --limit cost=2.00
  agentkit eval run suite.py --baseline main.json --junit report.xml
  agentkit eval compare main.json branch.json
"""
_SCORERS = ("contains", "exact", "json_equal", "matches", "numeric", "tool_calls")
_FILE = click.Path(path_type=Path)
scorers_of_a_file = click.option(
    "--scorer", "scorers", multiple=True, type=click.Choice(_SCORERS), help="For a file of cases: what scores them."
)
_JSON = click.option("--json", "json_to", metavar="FILE", help="Write the report as JSON; - is stdout.")
_JUNIT = click.option("--junit", "junit_to", type=_FILE, metavar="FILE", help="Write JUnit XML, for CI servers.")
_MARKDOWN = click.option(
    "--markdown", "markdown_to", type=_FILE, metavar="FILE", help="Write Markdown, for a pull request."
)
_HTML = click.option("--html", "html_to", type=_FILE, metavar="FILE", help="Write one HTML page with plots.")


@click.group("eval", epilog=_EXAMPLES, short_help="Measure how good an agent is.")
def evaluation() -> None:
    """Run suites of cases over agents and models, and report how often they are right, and how sure that is."""


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
@scorers_of_a_file
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Only cases with one of these tags. Repeatable.")
@click.option("--repeats", type=WholeNumber(1), default=1, show_default=True, help="How often each case is asked.")
@click.option("--seed", type=int, metavar="NUMBER", help="The first repeat's seed; sent where a model takes one.")
@click.option("--concurrency", type=WholeNumber(1), default=8, show_default=True, help="Trials at the same time.")
@limits_option("What all trials together may take.")
@click.option("--resume", type=_FILE, metavar="FILE", help="Keep each finished trial in FILE, and go on from there.")
@click.option("--record", type=_FILE, metavar="FOLDER", help="Record the trials in cassettes.")
@click.option("--replay", type=_FILE, metavar="FOLDER", help="Answer from cassettes: no model, no network, no key.")
@_JSON
@_JUNIT
@_HTML
@_MARKDOWN
@click.option(
    "--threshold", type=Fraction(0, 1), metavar="SHARE", help="Fail when less than this share passes: 0 to 1."
)
@click.option("--baseline", type=_FILE, metavar="FILE", help="Fail when it is significantly worse than this report.")
@click.option("--no-broken", is_flag=True, help="With --baseline: fail when any case is broken that passed.")
def run_suite(**options: Any) -> int:
    """Run the SUITE: FILE.py, FILE.py:NAME, or a file of cases (.jsonl, .csv).

    The table goes to stdout. The exit code is 0 when nothing that was asked for is missed, 1 when a threshold is, the
    baseline was better, or nothing was answered, 3 when a limit has left trials undone.
    """
    from agentkit.cli.evaluating.running import Wanted, run

    return run(Wanted(**options))


@evaluation.command("show", short_help="Show a report, also as a page, JUnit XML or Markdown.")
@click.argument("report", type=_FILE, metavar="REPORT")
@_JSON
@_JUNIT
@_HTML
@_MARKDOWN
def show_report(*, report: Path, **places: Any) -> None:
    """Show the REPORT that `eval run --json` wrote, also as a page, JUnit XML or Markdown."""
    from agentkit.cli.evaluating.telling import Places, report_in, tell_report

    tell_report(report_in(report), Places(**places))


@evaluation.command("compare", short_help="Say what two reports differ in.")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option("--agent", metavar="NAME", help="The agent that is compared, when the reports have several.")
@click.option("--no-broken", is_flag=True, help="Fail when any case is broken that passed.")
def compare_reports(*, before: Path, after: Path, agent: str | None, no_broken: bool) -> int:
    """Compare two reports of the same cases; the exit code is 1 when the second is significantly worse."""
    from agentkit.cli.evaluating.telling import compared, report_in

    is_worse = compared(report_in(before), report_in(after), agent, no_broken=no_broken)
    return FAILED if is_worse else ANSWERED
