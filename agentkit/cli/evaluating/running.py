"""How is a suite run from the command line, and what does its exit code say?"""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import click

from agentkit.agents.running.budget import UNLIMITED
from agentkit.cli.evaluating.loading import agents_in, models_in, suite_in
from agentkit.cli.evaluating.telling import STDOUT, Places, Progress, compared, report_in, tell_report
from agentkit.cli.exit_codes import ANSWERED, FAILED, INTERRUPTED, LIMIT
from agentkit.cli.settings.keys import limit_of
from agentkit.cli.settings.layers import settings_here
from agentkit.cli.terminal import halves, remedied, shown_word, tell
from agentkit.errors import SessionError
from agentkit.evals.keeping.cassettes import Cassettes
from agentkit.evals.reporting.report import Report
from agentkit.slotted import dataclass
from agentkit.usage import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(Places):
    """The options of `eval run`, each as the command line gave it. Raises UsageError when two of them contradict."""

    suite: str
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    offline: bool = False
    scorers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    repeats: int = 1
    seed: int | None = None
    concurrency: int = 8
    limits: tuple[str, ...] = ()
    resume: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    threshold: float | None = None
    baseline: Path | None = None
    no_broken: bool = False

    def __post_init__(self) -> None:
        if self.offline and self.models:
            raise click.UsageError("Use --offline or --model, not both: the offline model is a model of its own.")
        if self.no_broken and self.baseline is None:
            raise click.UsageError("--no-broken needs --baseline FILE: the report whose cases may not break.")
        if self.record is not None and self.replay is not None:
            raise click.UsageError("Use --record or --replay, not both: the first asks the model, the second does not.")
        if self.threshold is not None and isnan(self.threshold):
            raise click.UsageError("--threshold takes a share from 0 to 1. Got nan.")

    @property
    def flags(self) -> dict[str, Any]:
        """The settings that the flags make; None where they say nothing."""
        return {"provider": "offline" if self.offline else None, "model": self.models[0] if self.models else None}

    @property
    def shared_limits(self) -> Limits | None:
        """What all trials together may take; None when nothing is said. Raises ConfigError."""
        given: dict[str, Any] = dict(map(limit_of, self.limits))
        return replace(UNLIMITED, **given) if given else None


def run(wanted: Wanted) -> int:
    """Run the suite and tell of it; the exit code. Raises UsageError, ConfigError, NoProvider and SessionError."""
    limits = wanted.shared_limits
    baseline = None if wanted.baseline is None else report_in(wanted.baseline)
    settings = settings_here(wanted.flags)
    for note in settings.notes:
        tell(note, "yellow")
    suite, beside = suite_in(wanted.suite, wanted.scorers)
    cases = [case for case in suite if not wanted.tags or set(case.tags) & set(wanted.tags)]
    if not cases:
        known = ", ".join(dict.fromkeys(tag for case in suite for tag in case.tags))
        what = f"No case of {wanted.suite} has the tag {' or '.join(wanted.tags)}."
        raise click.UsageError(f"{what} Its tags are {known}." if known else f"{what} Its cases have no tags.")
    with Cassettes(None, None if wanted.replay is None else str(wanted.replay)).without_world():
        agents = agents_in(wanted.agents, beside, settings)
        models = models_in(wanted.models, settings, offline=wanted.offline)
    try:
        report = suite.run(
            agents,
            cases=cases,
            models=models,
            repeats=wanted.repeats,
            seed=wanted.seed,
            concurrency=wanted.concurrency,
            limits=limits,
            resume=wanted.resume,
            record=wanted.record,
            replay=wanted.replay,
            progress=Progress(),
        )
    except KeyboardInterrupt:
        return _interrupted(wanted.resume)
    except SessionError as error:
        raise SessionError(remedied(error, "Name another file.")) from error
    tell_report(report, wanted)
    return max(
        _missed(report, wanted.threshold), _against(baseline, report, wanted), key=(ANSWERED, FAILED, LIMIT).index
    )


def _interrupted(kept: Path | None) -> int:
    """Say how the suite goes on; the exit code."""
    if kept is None:
        tell("Interrupted.\nNothing is kept. With --resume FILE each trial is, as soon as it is finished.")
    else:
        tell(f"Interrupted.\nWhat was done is kept. Go on with: --resume {shown_word(str(kept))}")
    return INTERRUPTED


def _missed(report: Report, threshold: float | None) -> int:
    """What the exit code must say of the report alone, which is told."""
    left = [trial for trial in report.trials if trial.outcome == "undone"]
    if left:
        reason, _ = halves(left[0].error)
        tell(f"{len(left)} of {len(report.trials)} trials are undone. {reason}", "red")
        return LIMIT
    below = [each for each in report.figures if threshold is not None and each.rate.value < threshold]
    for each in below:
        tell(
            f"{each.agent}: {100 * each.rate.value:.1f} % passed, below the threshold of {100 * (threshold or 0):g} %.",
            "red",
        )
    has_answers = any(trial.scores for trial in report.trials)
    if not has_answers:
        tell("Nothing was answered.", "red")
    return FAILED if below or not has_answers else ANSWERED


def _against(baseline: Report | None, report: Report, wanted: Wanted) -> int:
    """What the exit code must say of the comparison, which is told."""
    if baseline is None:
        return ANSWERED
    # Where JSON goes to stdout, nothing else may.
    is_worse = compared(baseline, report, no_broken=wanted.no_broken, to_stderr=wanted.json_to == STDOUT)
    if is_worse:
        tell(f"It is worse than {wanted.baseline}.", "red")
    return FAILED if is_worse else ANSWERED
