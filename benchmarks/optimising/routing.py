"""Prompt optimisation of tool descriptions for the offline model's choice among six similar tools.

The questions are those of `benchmarks/offline` that one of the tools answers: forty of the development half for
training, the held-out half for the measurement. The offline model cannot write texts, so the proposer is a function
that adds words of the failed questions to the description of the expected tool. The tools do nothing; only the called
tools are scored.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from agentkit import LLM, Agent, Tool
from agentkit.evals import Case, Suite, optimize
from agentkit.evals.optimization.candidates import FailedCase
from agentkit.evals.optimization.optimizer import Improvement
from agentkit.tools.catalog import default_tools
from benchmarks.offline import accuracy

TOOLS = ("web_search", "fetch_url", "wikipedia", "read_file", "write_file", "list_directory")
STARTS = ("the name alone", "as shipped")
ROUNDS, BATCH, MOST_CASES = 30, 6, 40
_MAX_WORDS = 6
_WORD = re.compile(r"[^\W\d_]{3,}")
_QUOTED = re.compile(r"['\"\u2018\u201c].*?['\"\u2019\u201d]|\S*[./\\]\S*")
_COMMON = re.compile(
    "the|and|for|what|how|many|much|are|was|you|can|this|that|with|from|into|his|her|its|please|tell|give|show|did|does"
    "|who|when|where|which|will|have|has|not|all|out|per|there|about"
)


def tables() -> Iterator[str]:
    """Yield the table with a row for each start."""
    yield from ["### The offline model's choice of tools", ""]
    yield "| descriptions at the start | learnt from | held-out, before | after | difference (95 %) | p |"
    yield "|---|---|---|---|---|---|"
    for start in STARTS:
        yield row(start, improved(start))


def improved(start: str, **options: Any) -> Improvement[str]:
    """Optimise from the descriptions of agentkit, or from the names only."""
    shipped = default_tools.only(*TOOLS)
    tools = [_silent(tool, tool.description if start == "as shipped" else _bare(tool.name)) for tool in shipped]
    agent = Agent("router", tools, llm=LLM("offline"))
    halves = {half: Suite(f"tool choice, {half}", list(_cases(half))) for half in ("development", "held-out")}
    options = {"improve": "tools", "rounds": ROUNDS, "batch": BATCH, "concurrency": 1, **options}
    return optimize(agent, halves["development"], held_out=halves["held-out"], proposer=more_words, **options)


def row(start: str, found: Improvement[str]) -> str:
    """One row of the table."""
    gain = found.gain
    if gain is None:
        return f"| {start} | {found.trained_before} | not measured | | | |"
    learnt = f"{found.trained_before:.1%} to {found.trained_after:.1%}"
    difference = f"{gain.difference:+.1%} ({gain.low:+.1%} to {gain.high:+.1%})"
    before, after = f"{gain.before:.1%} of {gain.cases}", f"{gain.after:.1%}"
    return f"| {start} | {learnt} | {before} | {after} | {difference} | {gain.p_value:.2g} |"


def more_words(part: str, text: str, failures: tuple[FailedCase, ...]) -> str:
    """Add the most frequent words of the failed questions that should have called this tool to its description."""
    tool = part.removeprefix("tool:")
    missed = [each for each in failures if tool in each.expected_tools and not _called(each, tool)]
    known = set(_words(text))
    counts = Counter(word for each in missed for word in set(_words(each.prompt)) - known)
    words = [word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_MAX_WORDS]]
    head, gap, rest = text.partition("\n\n")
    return f"{head} For example: {', '.join(words)}.{gap}{rest}" if words else text


def _words(text: str) -> list[str]:
    """The content words of a text."""
    return [word for word in _WORD.findall(_QUOTED.sub(" ", text).lower()) if not _COMMON.fullmatch(word)]


def _called(failure: FailedCase, tool: str) -> bool:
    return any(call.startswith(f"{tool}(") for call in failure.calls)


def _cases(half: str) -> Iterator[Case]:
    """A pseudo-random sample of the questions of one half that exactly one of the tools answers."""
    lines = (accuracy.HERE / "questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    served = [each for each in questions if each["half"] == half and each.get("tools") != "other" and _wanted(each)]
    served.sort(key=lambda each: sha256(each["text"].encode()).hexdigest())
    for question in served[:MOST_CASES]:
        wanted = _wanted(question)
        scorer = _right_tool(wanted)
        yield Case(question["text"], tool_calls=wanted[:1], id=str(question["id"]), tags=wanted[:1], scorers=[scorer])


def _wanted(question: Mapping[str, Any]) -> list[str]:
    """The correct tools of a question with one expected call."""
    calls = [*question["calls"], *question.get("or", [])] if len(question["calls"]) == 1 else []
    return [each["tool"] for call in calls for each in accuracy.options(call) if each["tool"] in TOOLS]


def _right_tool(wanted: list[str]) -> Callable[[Case, Any], bool]:
    """Score whether a correct tool was called, and no other."""

    def right_tool(_: Case, result: Any) -> bool:
        called = {used.call.name for used in result.tool_calls}
        return bool(called) and called <= set(wanted)

    return right_tool


def _silent(tool: Tool[..., Any], description: str) -> Tool[..., Any]:
    """A copy of a tool that does nothing."""

    def nothing(**_: Any) -> str:
        return "done"

    return Tool.from_schema(tool.name, description, tool.parameters, nothing)


def _bare(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}."
