"""How are an agent's texts improved? The search is driven by a world that answers it, within a budget, and reported."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from os import PathLike
from typing import Any, TypedDict, TypeVar, Unpack

from agentkit.agents.agent import Agent
from agentkit.agents.running.plan import LINEAGE
from agentkit.errors import ConfigError
from agentkit.evals.case import Case
from agentkit.evals.optimizing.answering import HELD_OUT, TRAIN, Half, World, all_limits, check_prices, given_price
from agentkit.evals.optimizing.candidates import Candidate
from agentkit.evals.optimizing.improvement import Gain, Improvement
from agentkit.evals.optimizing.lineage import Lineage
from agentkit.evals.optimizing.parts import INSTRUCTION, TOOLS, texts_of
from agentkit.evals.optimizing.proposing import Proposer, Writer
from agentkit.evals.optimizing.search import Search, Stop, Tried
from agentkit.evals.suite import Suite
from agentkit.evals.variants import standing_order
from agentkit.llm.client import LLM
from agentkit.naming import refuse_made
from agentkit.slotted import dataclass
from agentkit.usage import Limits

T = TypeVar("T")


class SearchOptions(TypedDict, total=False):
    """The further keyword arguments of `optimize`."""

    rounds: int
    batch: int
    seed: int
    path: str | PathLike[str] | None
    concurrency: int
    progress: Callable[[Tried], object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options, checked. Raises ConfigError."""

    rounds: int = 20
    batch: int = 6
    seed: int = 0
    path: str | PathLike[str] | None = None
    concurrency: int = 8
    progress: Callable[[Tried], object] | None = None

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        refuse_made(optimize, given, SearchOptions.__annotations__)

    def __post_init__(self) -> None:
        for name in ("rounds", "batch", "concurrency"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name}= takes a whole number of at least 1. Got {value!r:.200}.")


def optimize(
    agent: Agent[T],
    suite: Suite,
    *,
    limits: Limits | None = None,
    proposer: LLM | Writer | None = None,
    improve: str | Iterable[str] = (INSTRUCTION, TOOLS),
    held_out: float | Suite = 0.5,
    **options: Unpack[SearchOptions],
) -> Improvement[T]:
    """Improve an agent's instruction and the descriptions of its tools by what a suite finds wrong with it.

    Each round takes a candidate of the Pareto set, shows the proposer traces of training cases that fail with it, and
    tries the text that comes back: on a mini-batch first, and where that is better on all training cases. The one with
    the best mean is compared with the original on cases that neither the proposer nor the search has seen, and is kept
    unless it is no better there. Nothing but texts changes: not tools, schemas, levels, judges, policy or limits.

    Args:
        agent: The agent, which stays as it is.
        suite: What it should do.
        limits: What the whole search may take: the agent's runs, their scoring and the proposer, tokens and money.
        proposer: An LLM, by default the agent's own, or a function (part, text, failures) -> text, whose own spending
            nobody counts.
        improve: `instruction`, `tools`, or the names of single tools.
        held_out: The share of the cases that is held out, alike of each set of tags; or a suite of other cases.
        options: `rounds` (20), how many proposals there are at most; `batch` (6), the size of a mini-batch; `seed` (0);
            `path`, a file that keeps all, and with which a search that was cut off goes on without paying again;
            `concurrency` (8), of the runs; `progress`, called with each Tried.

    Raises:
        ConfigError: An argument cannot be right, or nobody knows the price of a model whose cost is limited.
        NoProvider: The agent has no model.
        SessionError: The file cannot be used, or is another search's.
    """
    settings = Settings(**options)
    given: object = agent
    if not isinstance(given, Agent):
        raise ConfigError(
            f"optimize() takes an Agent, whose texts it changes; a function has none. Got {given!r:.200}."
        )
    halves = halves_of(suite, held_out)
    original = Candidate(texts_of(agent, improve))
    asked = Proposer(agent.llm if proposer is None else proposer)
    chosen = all_limits(limits)
    check_prices(chosen, agent.llm, asked.llm)
    check_prices(agent.limits, agent.llm)
    key = _key(agent, original, halves, settings)
    lineage = Lineage(settings.path, key, {"agent": agent.name, "suite": suite.name})
    try:
        world = World(agent, halves, asked, lineage, chosen, settings.concurrency, settings.progress)
        search = Search(original, halves[TRAIN].ids, settings.rounds, settings.batch, settings.seed)
        return _improved(world, search)
    finally:
        lineage.close()


async def aoptimize(
    agent: Agent[T],
    suite: Suite,
    *,
    limits: Limits | None = None,
    proposer: LLM | Writer | None = None,
    improve: str | Iterable[str] = (INSTRUCTION, TOOLS),
    held_out: float | Suite = 0.5,
    **options: Unpack[SearchOptions],
) -> Improvement[T]:
    """Like `optimize`, awaiting: the search has a thread of its own, in which `progress` is called.

    When it is cancelled, its runs end at their next event; what was paid for is kept in the file that `path` names.
    """
    stopped = threading.Event()

    def search() -> Improvement[T]:
        above = LINEAGE.get()
        context = replace(above.context, stopping=lambda: stopped.is_set() or above.context.is_stopped)
        LINEAGE.set(replace(above, context=context))
        return optimize(agent, suite, limits=limits, proposer=proposer, improve=improve, held_out=held_out, **options)

    work = asyncio.ensure_future(asyncio.to_thread(search))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.gather(work, return_exceptions=True)  # so that the file is free for whoever goes on
        raise


def halves_of(suite: Suite, held_out: float | Suite) -> dict[str, Half]:
    """The training cases and those held out. Raises ConfigError when one half is empty, or both share a case.

    Who goes where is decided by the ids alone, as evenly as can be among the cases of the same tags. Cases with the
    same prompt stay together.
    """
    if isinstance(held_out, Suite):
        _refuse_shared(suite, held_out)
        return {TRAIN: Half(suite, suite.cases), HELD_OUT: Half(held_out, held_out.cases)}
    if not isinstance(held_out, int | float) or not 0 < held_out < 1:
        raise ConfigError(f"held_out= takes a share between 0 and 1, or a Suite. Got {held_out!r:.200}.")
    groups: dict[str, list[Case]] = {}
    for case in sorted(suite.cases, key=lambda case: sha256(case.id.encode("utf-8", "replace")).digest()):
        groups.setdefault(case.text, []).append(case)
    held: set[str] = set()
    for place, group in enumerate(sorted(groups.values(), key=lambda group: sorted(group[0].tags))):
        if int((place + 1) * held_out) > int(place * held_out):
            held.update(case.id for case in group)
    halves = {
        TRAIN: Half(suite, tuple(case for case in suite.cases if case.id not in held)),
        HELD_OUT: Half(suite, tuple(case for case in suite.cases if case.id in held)),
    }
    if not all(half.cases for half in halves.values()):
        raise ConfigError(
            f"The suite {suite.name!r} has too few cases to hold some out; add cases, or give held_out=Suite."
        )
    return halves


def drive(search: Search, answer: Callable[[Any], Any]) -> None:
    """Have the search's steps answered until it ends, or there is no answer."""
    steps = search.steps()
    said: Any = None
    while True:
        try:
            said = answer(steps.send(said))
        except StopIteration:
            return
        if isinstance(said, Stop):
            search.ended = said.reason
            steps.close()
            return


def _improved(world: World, search: Search) -> Improvement[Any]:
    """Measure the original on what is held out, search, and measure the best there, too."""
    original, held = search.original, world.halves[HELD_OUT].ids
    gain = None
    before = world.measured(HELD_OUT, original, held)
    if isinstance(before, Stop):
        search.ended = before.reason
    else:
        world.set_aside(original)
        drive(search, world.answer)
        world.release()
        best = search.best
        after = before if best is original else world.measured(HELD_OUT, best, held)
        if not isinstance(after, Stop):
            gain = Gain.of([(before[case].score, after[case].score) for case in held])
    return Improvement.of(world.agent, search, world.lineage, gain, given_price(world.limits))


def _refuse_shared(suite: Suite, held_out: Suite) -> None:
    known = {case.text for case in suite.cases}
    shared = next((case for case in held_out.cases if case.text in known), None)
    if shared is not None:
        raise ConfigError(
            f"The case {shared.id!r} is held out, and its prompt is among the training cases, too; "
            "what is held out must be new to the search."
        )


def _key(agent: Agent[Any], original: Candidate, halves: dict[str, Half], settings: Settings) -> str:
    """What tells this search from all others: agent, texts, model, cases, scorers, seed and size of batches."""
    tools = [[tool.name, tool.parameters, tool.level.name] for tool in agent.tools]
    parts = [[half.suite.digest, half.ids] for half in halves.values()]
    texts = [standing_order(agent), *(tool.description for tool in agent.tools)]
    told = [original.id, texts, str(agent.llm.tariff), tools, parts, settings.seed, settings.batch]
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
