"""Prompt optimisation with a known optimum: a simulated clerk that follows the rules of its instruction.

The clerk follows rules such as "When an order is a gift, add [wrap]."; six of them give a perfect score. The reader is
a simulated proposer that infers one rule from the failures, sometimes a wrong one. The baseline adds random rules with
the same budget. GEPA runs with the same reader if the package is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib import import_module, util
from itertools import combinations
from statistics import fmean
from types import SimpleNamespace
from typing import Any

from agentkit import Agent, Limits
from agentkit.evals import Case, FailedCase, Improvement, Score, Suite, optimize
from agentkit.evals.optimization.history import HELD_OUT, TRAIN
from agentkit.evals.optimization.optimizer import halves_of
from agentkit.messages import Request, UserMessage
from agentkit.testing import ScriptedLLM

RULES = {
    "urgent": "[fast]",
    "fragile": "[foam]",
    "late": "[sorry]",
    "foreign": "[customs]",
    "wholesale": "[invoice]",
    "gift": "[wrap]",
}
START = "You note orders."
TOKENS, MOST_ANSWERS = 6_000, 1_500
SEEDS = range(10)
_RULE = re.compile(r"When an order is (?P<what>\w+), add (?P<mark>\[\w+\])\.")
_CASE = re.compile(r"Prompt: .*?: (?P<kinds>[\w, ]+)\.\nAnswer: Noted\.(?P<got>.*)\nExpected: Noted\.(?P<wanted>.*)")


def tables() -> Iterator[str]:
    """Yield the table: agentkit, GEPA if installed, and random proposals, each with ten seeds."""
    yield from ["### Rules that are recovered", ""]
    yield "| search | proposer | runs that found all six rules | held-out score, mean | answers to training cases |"
    yield "|---|---|---|---|---|"
    yield row("agentkit", "reads the failures", [instruction_of(improved(seed)) for seed in SEEDS])
    if util.find_spec("gepa"):
        peer = import_module("benchmarks.optimising.gepa_peer")
        train = halves_of(suite(), 0.5)[TRAIN].cases
        yield row("GEPA", "reads the failures", [peer.found(seed, train, MOST_ANSWERS) for seed in SEEDS])
    yield row("agentkit", "at random", [instruction_of(improved(seed, reads=False)) for seed in SEEDS])


def row(search: str, proposer: str, found: Sequence[tuple[str, int]]) -> str:
    """One row of the table, from the instructions found and the number of answers for each."""
    whole = sum(rules_in(text) == RULES for text, _ in found)
    scores = [score_of(text) for text, _ in found]
    answers = sum(count for _, count in found) / len(found)
    return f"| {search} | {proposer} | {whole} of {len(found)} | {fmean(scores):.2f} | {answers:.0f} |"


def score_of(text: str) -> float:
    """The mean score of an instruction on the held-out cases."""
    cases = halves_of(suite(), 0.5)[HELD_OUT].cases
    answers = [clerk(Request([UserMessage(case.text)], text)) for case in cases]
    return fmean(noted(case, SimpleNamespace(output=answer)).value for case, answer in zip(cases, answers, strict=True))


def instruction_of(found: Improvement[str]) -> tuple[str, int]:
    """The best instruction, and the number of the clerk's answers to training cases."""
    llm: Any = found.agent.llm
    held = {case.text for case in halves_of(suite(), 0.5)[HELD_OUT].cases}
    return found.best.texts["instruction"], sum(_prompt(request) not in held for request in llm.requests)


def improved(seed: int, *, reads: bool = True, **options: Any) -> Improvement[str]:
    """Optimise the clerk with the reader, or with random proposals."""
    agent = Agent("clerk", instruction=START, llm=ScriptedLLM(clerk, repeat=True))
    proposer: Any = ScriptedLLM(reader, repeat=True) if reads else Random(seed)
    limits = Limits(total_tokens=TOKENS, tool_calls=None, seconds=None)
    return optimize(agent, suite(), proposer=proposer, limits=limits, seed=seed, **{"rounds": 1_000, **options})


def suite() -> Suite:
    """Orders of one, two or three kinds, with the expected notes."""
    kinds = [chosen for count in (1, 2, 3) for chosen in combinations(RULES, count)]
    return Suite("orders", [_case(number, chosen) for number, chosen in enumerate(kinds, 1)], [noted])


def noted(case: Case, result: Any) -> Score:
    """Score a note: the common marks divided by all marks of the two notes."""
    got, wanted = set(str(result.output).split()), set(str(case.expected).split())
    share = len((got & wanted) - {"Noted."}) / len((got | wanted) - {"Noted."})
    return Score("noted", share, f"wanted {case.expected}", share == 1)


def clerk(request: Request) -> str:
    """The simulated clerk: it notes the marks that the rules of its instruction give for the kinds of the order."""
    rules = rules_in(request.instruction)
    return note([rules[kind] for kind in _kinds(_prompt(request)) if kind in rules])


def reader(request: Request) -> str:
    """The simulated proposer: it infers a rule from the first suitable failure, or removes a wrong rule."""
    asked = _prompt(request)
    text = asked.split("<text>\n", 1)[1].split("\n</text>", 1)[0]
    rules = rules_in(text)
    for found in _CASE.finditer(asked):
        got, wanted = found["got"].split(), found["wanted"].split()
        wrong = next((kind for kind, mark in rules.items() if mark in got and mark not in wanted), None)
        if wrong is not None:
            return _proposal(text.replace(f"\n{rule(wrong, rules[wrong])}", ""), f"The rule for {wrong} is wrong.")
        new = [kind for kind in found["kinds"].split(", ") if kind not in rules]
        missing = [mark for mark in wanted if mark not in got]
        if new and missing:
            return _proposal(f"{text}\n{rule(new[0], missing[0])}", f"There is no rule for {new[0]}.")
    return "I see nothing that is wrong."


class Random:
    """Proposes random rules."""

    def __init__(self, seed: int) -> None:
        self.seed, self.count = seed, 0

    def __call__(self, _part: str, text: str, _failures: Sequence[FailedCase]) -> str:
        """The text with one more rule."""
        self.count += 1
        lot = int.from_bytes(sha256(f"{self.seed}/{self.count}".encode()).digest())
        kinds, marks = list(RULES), list(RULES.values())
        return f"{text}\n{rule(kinds[lot % len(kinds)], marks[lot // len(kinds) % len(marks)])}"


def rule(kind: str, mark: str) -> str:
    """A rule as text of the instruction."""
    return f"When an order is {kind}, add {mark}."


def rules_in(text: str) -> dict[str, str]:
    """Parse the rules of an instruction; the last rule for a kind applies."""
    return {found["what"]: found["mark"] for found in _RULE.finditer(text)}


def note(marks: Sequence[str]) -> str:
    """A note with these marks."""
    return " ".join(("Noted.", *marks))


def _case(number: int, kinds: Sequence[str]) -> Case:
    return Case(f"Order {number}: {', '.join(kinds)}.", expected=note([RULES[kind] for kind in kinds]))


def _prompt(request: Request) -> str:
    return str(getattr(request.messages[-1], "content", ""))


def _kinds(prompt: str) -> list[str]:
    return prompt.rpartition(": ")[2].rstrip(".").split(", ")


def _proposal(text: str, reason: str) -> str:
    return f"{reason}\n<new_text>\n{text}\n</new_text>"
