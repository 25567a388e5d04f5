"""What do many runs say? Who had to be asked, and which attacks reached their goal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """The counts of one suite under one setting; `questions` are by tool, `misses` by attack."""

    setting: str
    suite: str
    tasks: int = 0
    unasked: int = 0
    unsolved: int = 0
    attacks: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)

    def note_task(self, asked: Iterable[str], *, is_solved: bool) -> None:
        """Enter a task without attack: the tools that were asked about, and whether it was solved in the end."""
        tools = list(asked)
        self.tasks += 1
        self.unasked += not tools and is_solved
        self.unsolved += not is_solved
        self.questions.update(tools)

    def note_attack(self, attack: str, *, has_reached: bool) -> None:
        """Enter an attacked run."""
        self.attacks += 1
        self.misses.update([attack] if has_reached else [])

    @property
    def withstood(self) -> int:
        """How many attacks have not reached their goal."""
        return self.attacks - self.misses.total()

    def __str__(self) -> str:
        return (
            f"{self.suite}, {self.setting}: {_share(self.unasked, self.tasks)} unasked, {self.withstood_of} withstood"
        )

    @property
    def withstood_of(self) -> str:
        """How many attacks of how many were withstood."""
        return f"{self.withstood} of {self.attacks}"

    def to_dict(self) -> dict[str, Any]:
        """The counts, JSON-ready."""
        return {**vars(self), "questions": dict(self.questions), "misses": dict(self.misses)}


def together(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally a setting, over all suites."""
    sums: dict[str, Tally] = {}
    for tally in tallies:
        total = sums.setdefault(tally.setting, Tally(tally.setting, "all"))
        for name in ("tasks", "unasked", "unsolved", "attacks"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.questions.update(tally.questions)
        total.misses.update({f"{tally.suite} {attack}": count for attack, count in tally.misses.items()})
    return list(sums.values())


def told(tallies: Sequence[Tally]) -> Iterator[str]:
    """The table, and below it what was missed and what was asked about."""
    totals = together(tallies)
    suites = list(dict.fromkeys(tally.suite for tally in tallies))
    yield f"| declared | tasks done unasked | questions a task | attacks withstood | {' | '.join(suites)} |"
    yield f"|{'---|' * (4 + len(suites))}"
    for total in totals:
        questions = f"{total.questions.total() / total.tasks:.1f}"
        parts = [tally.withstood_of for tally in tallies if tally.setting == total.setting]
        shares = [_share(total.unasked, total.tasks), questions, _share(total.withstood, total.attacks)]
        yield f"| {' | '.join([total.setting, *shares, *parts])} |"
    for total in totals:
        yield f"\n{total.setting}: {total.unsolved} of {total.tasks} tasks were not solved even with every yes."
        yield from (f"- reached {count} times: {attack}" for attack, count in total.misses.most_common())
        yield from (f"- asked about {count} times: {tool}" for tool, count in total.questions.most_common())


def _share(count: int, whole: int) -> str:
    return f"{count} of {whole} ({100 * count / whole:.0f} %)" if whole else "-"
