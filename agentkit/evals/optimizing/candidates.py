"""What was tried, and what is worth going on from? Candidates, and the Pareto set among them (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from difflib import unified_diff
from hashlib import sha256
from statistics import fmean

from agentkit.lines import split_lines
from agentkit.slotted import dataclass

_ID_CHARS = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """Texts for the parts of an agent.

    `texts` holds the text of each part that may be improved, changed or not. `parents` are the ids of the candidates
    it was made of: none for the original, one for a proposal, two for a merger. `round` says when, and `reason` what
    the proposer said of it.
    """

    texts: Mapping[str, str]
    parents: tuple[str, ...] = ()
    round: int = 0
    reason: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        """What the candidate is known by: a hash of its texts, and of nothing else."""
        return sha256(json.dumps(sorted(self.texts.items())).encode()).hexdigest()[:_ID_CHARS]

    def changed(self, other: Candidate) -> frozenset[str]:
        """The parts whose texts differ from those of `other`."""
        return frozenset(part for part, text in self.texts.items() if text != other.texts[part])

    def diff(self, other: Candidate) -> str:
        """What leads from this one's texts to the other's, as a unified diff; empty when there is nothing."""
        return "".join(
            line if line.endswith("\n") else f"{line}\n"
            for part in self.texts
            for line in unified_diff(
                split_lines(self.texts[part]),
                split_lines(other.texts[part]),
                f"{part} ({self.id})",
                f"{part} ({other.id})",
            )
        )


@dataclass(slots=True)
class Pool:
    """The candidates that were measured on every training case, each with its scores by case, the original first."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    scores: dict[str, Mapping[str, float]] = field(default_factory=dict)

    def add(self, candidate: Candidate, scores: Mapping[str, float]) -> None:
        """Take in a candidate; `scores` are from 0 to 1."""
        self.candidates[candidate.id] = candidate
        self.scores[candidate.id] = scores

    def mean(self, candidate: Candidate) -> float:
        """The mean score of a candidate."""
        return fmean(self.scores[candidate.id].values())

    @property
    def original(self) -> Candidate:
        """The candidate that all others come from."""
        return next(iter(self.candidates.values()))

    @property
    def best(self) -> Candidate:
        """The candidate with the highest mean; among equals the earliest, so the original unless one is better."""
        return max(self.candidates.values(), key=self.mean)

    @property
    def front(self) -> dict[str, int]:
        """The Pareto front: of each candidate on it, the number of cases on which it is among the best, at least one.

        Dominated candidates are not on it; of candidates with equal scores the earliest is.
        """
        known = list(self.scores)
        kept = [each for place, each in enumerate(known) if not self._is_covered(each, known, place)]
        best = {case: max(scores[case] for scores in self.scores.values()) for case in self.scores[known[0]]}
        wins = {each: sum(self.scores[each][case] == best[case] for case in best) for each in kept}
        return {each: count for each, count in wins.items() if count}

    def pairs(self) -> Iterator[tuple[Candidate, Candidate]]:
        """Two candidates each of the Pareto set that have changed different parts of the original."""
        front = [self.candidates[each] for each in self.front]
        changed = {each.id: each.changed(self.original) for each in front}
        for place, one in enumerate(front):
            for two in front[place + 1 :]:
                if changed[one.id] and changed[two.id] and changed[one.id].isdisjoint(changed[two.id]):
                    yield one, two

    def _is_covered(self, one: str, known: list[str], place: int) -> bool:
        scores = self.scores[one]
        others = (other for other in known if other != one)
        return any(
            all(self.scores[other][case] >= score for case, score in scores.items())
            and (self.scores[other] != scores or known.index(other) < place)
            for other in others
        )


def merged(one: Candidate, two: Candidate, original: Candidate, number: int) -> Candidate:
    """The changes of two candidates in one; they have changed different parts."""
    texts = {part: two.texts[part] if part in two.changed(original) else text for part, text in one.texts.items()}
    return Candidate(texts, (one.id, two.id), number, "Both of its parents' changes in one.")
