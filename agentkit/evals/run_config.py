"""The configuration of a suite run: trials, seeds, limits and storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike, fspath
from typing import Any, Protocol, TypedDict

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.evals.agent_variants import Agents, Variant, has_room_for, variants_of
from agentkit.evals.case import Case
from agentkit.evals.scorers import Scorer
from agentkit.evals.trial import Trial
from agentkit.llm.client import LLM
from agentkit.usage import Limits

OnProgress = Callable[[int, int, Trial], object]
"""Called with the number of finished trials, the total, and the newest trial."""

_Place = str | PathLike[str] | None


class Scored(Protocol):
    """The part of a suite used here."""

    name: str
    cases: tuple[Case, ...]
    workspace: str | None
    context: Callable[[Case], Any] | None

    @property
    def digest(self) -> str:
        """A hash that identifies the suite."""
        ...

    def scorers_of(self, case: Case, /) -> list[Scorer]:
        """The scorers of a case."""
        ...

    def scorers_of_prompt(self, prompt: Case, /) -> list[Scorer]:
        """The scorers of a prompt of a conversation."""
        ...


class SuiteRunOptions(TypedDict, total=False):
    """The keyword arguments of `Suite.run`."""

    cases: Iterable[Case | str] | None
    models: Sequence[str | LLM]
    repeats: int
    seed: int | None
    concurrency: int
    limits: Limits | None
    resume: _Place
    record: _Place
    replay: _Place
    progress: OnProgress | None


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial to run."""

    case: Case
    variant: Variant
    repeat: int
    seed: int | None

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the trial."""
        return self.case.id, self.variant.name, self.repeat


class SuiteConfig:
    """The validated options of `Suite.run`. Raises ConfigError and NoProvider."""

    def __init__(
        self,
        suite: Scored,
        cases: Sequence[Case],
        agents: Agents,
        *,
        models: Sequence[str | LLM] = (),
        repeats: int = 1,
        seed: int | None = None,
        concurrency: int = 8,
        limits: Limits | None = None,
        resume: _Place = None,
        record: _Place = None,
        replay: _Place = None,
        progress: OnProgress | None = None,
    ) -> None:
        _check_count("repeats", repeats)
        _check_count("concurrency", concurrency)
        if seed is not None and type(seed) is not int:
            raise ConfigError(f"seed= takes a whole number, or None. Got {seed!r:.200}.")
        if record is not None and replay is not None:
            raise ConfigError("Give record= or replay=, not both: the first asks the world, the second a recording.")
        self.suite, self.cases = suite, tuple(cases)
        self._agents, self._models = agents, models
        self.repeats, self.seed, self.concurrency, self.limits = repeats, seed, concurrency, limits
        self.progress = progress
        self.resume, self.record, self.replay = (
            None if place is None else fspath(place) for place in (resume, record, replay)
        )
        self._variants: list[Variant] = []

    @property
    def variants(self) -> list[Variant]:
        """The agents to run. Raises ConfigError and NoProvider."""
        if not self._variants:
            found = variants_of(self._agents, self._models)
            for variant in found:
                _check_asked(variant, self.cases)
            self._variants = found
        return self._variants

    @property
    def count(self) -> int:
        """The total number of trials."""
        return len(self.cases) * len(self.variants) * self.repeats

    def header(self) -> dict[str, Any]:
        """The data that must be unchanged when the suite is resumed."""
        return {
            "name": self.suite.name,
            "suite": self.suite.digest,
            "agents": {variant.name: variant.digest for variant in self.variants},
        }

    def wanted(self) -> Iterator[PlannedTrial]:
        """Yield all trials, ordered by case: an interrupted suite has run the same cases for each agent."""
        for repeat in range(1, self.repeats + 1):
            seed = None if self.seed is None else self.seed + repeat - 1
            for case in self.cases:
                for variant in self.variants:
                    yield PlannedTrial(case, variant, repeat, seed)


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}= takes a whole number of at least 1. Got {value!r:.200}.")


def _check_asked(variant: Variant, cases: Sequence[Case]) -> None:
    """Raise ConfigError for unsuitable cases: arguments for an agent, or a conversation for a stateless function."""
    for case in cases:
        if variant.function is None and case.arguments is not None:
            raise ConfigError(
                f"The case {case.id!r} has arguments=, which a function takes; the agent {variant.name!r} takes none."
            )
        forgets = variant.function is not None and not has_room_for(variant.function, "history", ("",))
        if forgets and case.is_conversation:
            raise ConfigError(
                f"The case {case.id!r} is a conversation, and the function {variant.name!r} would forget it. "
                "Give it a parameter `history`: a list of dictionaries with role and content."
            )
