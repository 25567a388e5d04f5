"""Is one report better than another? Case by case, with a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from agentkit.evals.reporting.lines import listed, short
from agentkit.evals.statistics import Interval, bootstrap, mcnemar, permutation
from agentkit.evals.trial import Trial
from agentkit.slotted import dataclass
from agentkit.wording import one_line

SIGNIFICANT = 0.05
"""Below this p-value a difference is taken for one."""

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
        """A case passes when more than half of its repeats do."""
        was, now = self.before > 0.5, self.after > 0.5
        return "same" if was == now else "fixed" if now else "broken"

    def __str__(self) -> str:
        """`0 % -> 100 %  What is 2+2?`."""
        return f"{100 * self.before:.0f} % -> {100 * self.after:.0f} %  {one_line(self.text)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two runs of the same cases.

    `difference` is that of the success rates, over the cases that both have; `interval` its 95 % bootstrap interval
    over cases, `p_value` that of a permutation test of the same, `mcnemar` the exact one of the cases fixed and broken.
    `missing` are the ids of cases that only one of them has run.
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
        """The comparison of trials of one agent with others. Trials that were not run are left out."""
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
        """The cases that pass now, and did not."""
        return tuple(row for row in self.rows if row.change == "fixed")

    @property
    def broken(self) -> tuple[Row, ...]:
        """The cases that passed, and do not now."""
        return tuple(row for row in self.rows if row.change == "broken")

    @property
    def is_worse(self) -> bool:
        """Whether fewer pass now, by more than chance explains."""
        return self.difference < 0 and self.p_value < SIGNIFICANT

    def __str__(self) -> str:
        """What changed, in a few lines."""
        low, high = self.interval
        changed = f"{len(self.fixed)} fixed, {len(self.broken)} broken"
        lines = [
            f"{short(self.before)} -> {short(self.after)}: {changed}, of {len(self.rows)} cases",
            f"difference {_points(self.difference)} points ({_points(low)} to {_points(high)}), "
            f"p = {self.p_value:.3g}; McNemar's exact p = {self.mcnemar:.3g}",
        ]
        if self.missing:
            lines.append(f"{len(self.missing)} cases are in one of the two only, and are left out")
        for word, rows in (("broken", self.broken), ("fixed", self.fixed)):
            lines += listed(f"{word}  {row}" for row in rows)
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
