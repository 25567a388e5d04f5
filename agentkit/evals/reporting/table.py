"""How is a report shown at a terminal? As lines of text without what could trick one (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentkit.evals.reporting.figures import Figures, Reported
from agentkit.evals.reporting.lines import MOST_NAME_CHARS, columns_of, listed, seconds_text, short, why
from agentkit.evals.trial import Trial
from agentkit.usage import Usage, shown_cost
from agentkit.wording import count_text, one_line

HEADS = ("agent", "passed", "rate (95 %)", "score", "p50", "p90", "tokens", "money")


def report_text(report: Reported, most_columns: int | None = None) -> str:
    """The whole report; with a column for each agent, not a line, where the table would be wider than that."""
    figures = report.figures
    notes = [line for each in figures for line in notes_of(each, alone=len(figures) == 1)]
    rows = [HEADS, *map(row_of, figures)]
    table = _aligned(rows)
    if most_columns is not None and max(map(columns_of, table)) > most_columns:
        table = _aligned([*zip(*rows, strict=True)])
    blocks = [[title_of(report)], table, notes, _aligned(tag_rows(report)), _failures(report.failures)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def title_of(report: Reported) -> str:
    """What was tried: the suite, its cases and repeats."""
    repeats = max((trial.repeat for trial in report.trials), default=0)
    again = f", each {repeats} times" if repeats > 1 else ""
    return f"{one_line(report.suite)}: {count_text(len(report.cases), 'case')}{again}"


def row_of(figures: Figures) -> tuple[str, ...]:
    """The figures of an agent, as cells of a table."""
    rate = figures.rate
    return (
        short(figures.agent),
        f"{figures.outcomes['passed']} of {rate.trials}",
        str(rate) if rate.trials else "-",
        f"{figures.score:.2f}",
        seconds_text(figures.latency(0.5)) if figures.seconds else "-",
        seconds_text(figures.latency(0.9)) if figures.seconds else "-",
        _tokens(figures.usage),
        shown_cost(figures.cost),
    )


def _tokens(usage: Usage) -> str:
    """How many tokens were taken; with a plus when not every request has told, and unknown when none has."""
    if usage.requests and usage.unreported == usage.requests:
        return "unknown"
    return f"{usage.total_tokens:,}{'+' if usage.unreported else ''}"


def notes_of(figures: Figures, *, alone: bool) -> Iterator[str]:
    """What else there is to say of an agent."""
    words = {
        "error": "errors",
        "refused": "refused by the model",
        "limit": "ended by a limit",
        "undone": "left undone by the limits",
    }
    told = [
        "1 error" if (name, count) == ("error", 1) else f"{count} {words[name]}"
        for name, count in figures.outcomes.items()
        if count and name in words
    ]
    if figures.most_repeats > 1:
        count = figures.most_repeats
        shares = f"{100 * figures.all_of(count):.0f} % pass each of {count} times"
        told.insert(0, f"of the cases {shares}, {100 * figures.any_of(count):.0f} % at least once")
    if figures.tool_accuracy is not None:
        told.append(f"tool-call accuracy {100 * figures.tool_accuracy:.0f} %")
    if figures.decisions:
        rules = ", ".join(
            f"{verdict} {times} by {one_line(rule, MOST_NAME_CHARS)}"
            for (verdict, rule), times in figures.decisions.items()
            if verdict != "allow"
        )
        told.append(f"tool calls: {_verdicts(figures)}{f' ({rules})' if rules else ''}")
    if figures.judging.requests:
        told.append(f"judging took {figures.judging.total_tokens:,} tokens, cost {shown_cost(figures.judging_cost)}")
    if figures.simulating.requests:
        spent = f"{figures.simulating.total_tokens:,} tokens, cost {shown_cost(figures.simulating_cost)}"
        told.append(f"simulated users took {spent}")
    told += [
        f"in {times} trials {short(agent)} began with what was said before: make it in the function, or reset() it"
        for agent, times in figures.remembering.items()
    ]
    if told:
        yield f"{'' if alone else f'{short(figures.agent)}: '}{'; '.join(told)}"


def _verdicts(figures: Figures) -> str:
    return ", ".join(f"{times} {verdict}" for verdict, times in sorted(figures.verdicts.items()))


def tag_rows(report: Reported) -> list[tuple[str, ...]]:
    """The figures of each tag and agent, as rows of a table behind its head; none where there are no tags."""
    tags = list(dict.fromkeys(tag for case in report.cases for tag in case.tags))
    rows = [
        (
            one_line(tag, MOST_NAME_CHARS),
            short(each.agent),
            f"{each.outcomes['passed']} of {each.rate.trials}",
            str(each.rate),
        )
        for tag in tags
        for each in report.only(tag=tag).figures
        if each.rate.trials
    ]
    return [("tag", "agent", "passed", "rate (95 %)"), *rows] if rows else []


def _failures(trials: Sequence[Trial]) -> list[str]:
    """What did not pass: one line for the repeats of a case, and one for all trials with the same error."""
    alike: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in trials:
        met = trial.error if trial.outcome == "error" else trial.case.id
        alike.setdefault((trial.outcome, trial.agent, met), []).append(trial)
    return listed(_failure(some) for some in alike.values())


def _failure(some: Sequence[Trial]) -> str:
    first, more = some[0], len(some) - 1
    is_one_case = len({trial.case.id for trial in some}) == 1
    times = f"  ({more + 1} times)" if is_one_case else f"  and {more} {'other' if more == 1 else 'others'}"
    times = times if more else ""
    head = f"{first.outcome}  [{short(first.agent)}] {one_line(first.case.text, 60)}{times}"
    return f"{head}\n    {one_line(why(first))}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - columns_of(cell))
