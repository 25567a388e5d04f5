"""How is a report shown beside a change? As Markdown, for a pull request or the summary of a job (pure).

What others wrote stands in code only, where it can be no link, picture, tag or mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from agentkit.evals.reporting.figures import Reported
from agentkit.evals.reporting.lines import facts_of, why
from agentkit.evals.reporting.table import HEADS, notes_of, row_of, tag_rows, title_of
from agentkit.evals.trial import Trial
from agentkit.lines import split_lines
from agentkit.wording import one_line, visible

_WORDS = re.compile(r"(?!\d+[.)](?: |$)|[-+ ])(?:[A-Za-z0-9 ,:;%()'+-]|\.(?![A-Za-z]))*")
"""What is a text wherever it stands: no mark of Markdown's, no list, and no address that would be made a link."""

_MOST_TOLD = 20
_MOST_FACT_CHARS = 1_000


def markdown(report: Reported) -> str:
    """The report as Markdown: a table of the agents, what else there is to say, and what did not pass, folded."""
    figures = report.figures
    notes = [f"- {_told(line)}" for each in figures for line in notes_of(each, alone=len(figures) == 1)]
    blocks = [
        [f"### {_told(title_of(report))}"],
        _table([HEADS, *map(row_of, figures)]),
        notes,
        _table(tag_rows(report)),
        list(_failures(report.failures)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as a table, the first being its head."""
    if not rows:
        return []
    head, *rest = rows
    return [_line(head), _line(["---"] * len(head)), *(_line([_cell(cell) for cell in row]) for row in rest)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """A text in a table, where a bar would end the cell even in code."""
    return _told(text).replace("|", r"\|")


def _told(text: str) -> str:
    """A text that is no more than words and figures as it is, anything else as code."""
    return text if _WORDS.fullmatch(text) else _code(text)


def _code(text: str) -> str:
    """A text on one line as code, between more backticks than stand in it."""
    ticks = "`" * (_most_ticks(text) + 1)
    edge = " " if "`" in text else ""
    return f"{ticks}{edge}{text}{edge}{ticks}"


def _block(text: str) -> Iterator[str]:
    """A text of many lines as a block of code, between longer fences than stand in it."""
    fence = "`" * max(3, _most_ticks(text) + 1)
    yield from (f"{fence}text", *map(visible, split_lines(text)), fence)


def _most_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _failures(trials: Sequence[Trial]) -> Iterator[str]:
    if trials:
        yield f"<details><summary>{len(trials):,} did not pass</summary>"
        for trial in trials[:_MOST_TOLD]:
            yield from _failure(trial)
        if len(trials) > _MOST_TOLD:
            yield from ("", f"{len(trials) - _MOST_TOLD:,} more are in the JSON of the report.")
        yield from ("", "</details>")


def _failure(trial: Trial) -> Iterator[str]:
    agent = f"{trial.agent}{f', repeat {trial.repeat}' if trial.repeat > 1 else ''}"
    yield from ("", f"#### {trial.outcome}: {_code(one_line(trial.case.text, 80))}", "")
    yield f"{_told(one_line(agent))}: {_code(one_line(why(trial), 120))}"
    for head, text in facts_of(trial, _MOST_FACT_CHARS).items():
        yield from ("", f"{head}:", "", *_block(text))
