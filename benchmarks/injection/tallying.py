"""Counts of many runs: approvals, solved tasks, and attacks that succeeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """The counts of one suite under one setting: `questions` are approvals by tool, `misses` successful attacks."""

    setting: str
    suite: str
    tasks: int = 0
    unasked: int = 0
    unsolved: int = 0
    attacks: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)

    def note_task(self, asked: Iterable[str], *, is_solved: bool) -> None:
        """Count a task without attack: the tools that needed approval, and whether the task was solved."""
        tools = list(asked)
        self.tasks += 1
        self.unasked += not tools and is_solved
        self.unsolved += not is_solved
        self.questions.update(tools)

    def note_attack(self, attack: str, *, has_reached: bool) -> None:
        """Count a run under attack."""
        self.attacks += 1
        self.misses.update([attack] if has_reached else [])

    @property
    def withstood(self) -> int:
        """The number of attacks that failed."""
        return self.attacks - self.misses.total()

    def __str__(self) -> str:
        unasked = _share(self.unasked, self.tasks)
        return f"{self.suite}, {self.setting}: {unasked} without approval, {self.withstood_of} blocked"

    @property
    def withstood_of(self) -> str:
        """The number of blocked attacks and of all attacks, as text."""
        return f"{self.withstood} of {self.attacks}"

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a JSON-serialisable dictionary."""
        return {**vars(self), "questions": dict(self.questions), "misses": dict(self.misses)}


def together(tallies: Iterable[Tally]) -> list[Tally]:
    """Sum the tallies of all suites, per setting."""
    sums: dict[str, Tally] = {}
    for tally in tallies:
        total = sums.setdefault(tally.setting, Tally(tally.setting, "all"))
        for name in ("tasks", "unasked", "unsolved", "attacks"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.questions.update(tally.questions)
        total.misses.update({f"{tally.suite} {attack}": count for attack, count in tally.misses.items()})
    return list(sums.values())


def report(tallies: Sequence[Tally]) -> Iterator[str]:
    """Render the table, followed by the successful attacks and the approvals by tool."""
    totals = together(tallies)
    suites = list(dict.fromkeys(tally.suite for tally in tallies))
    yield f"| declarations | tasks without approval | approvals per task | attacks blocked | {' | '.join(suites)} |"
    yield f"|{'---|' * (4 + len(suites))}"
    for total in totals:
        questions = f"{total.questions.total() / total.tasks:.1f}"
        parts = [tally.withstood_of for tally in tallies if tally.setting == total.setting]
        shares = [_share(total.unasked, total.tasks), questions, _share(total.withstood, total.attacks)]
        yield f"| {' | '.join([total.setting, *shares, *parts])} |"
    for total in totals:
        yield f"\n{total.setting}: {total.unsolved} of {total.tasks} tasks were not solved even with all approvals."
        yield from (f"- succeeded {count} times: {attack}" for attack, count in total.misses.most_common())
        yield from (f"- needed approval {count} times: {tool}" for tool, count in total.questions.most_common())


def _share(count: int, whole: int) -> str:
    return f"{count} of {whole} ({100 * count / whole:.0f} %)" if whole else "-"
