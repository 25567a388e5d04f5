"""Accuracy of the offline model: correct, unconfirmed, declined and wrong tool calls.

Each question of `questions.jsonl` is asked with the four core tools and with all twelve, or with five third-party
tools. The questions of `typed.jsonl` are terse, misspelt or command lines. The result is a Markdown table for the
held-out half and for both halves. No tool runs: the proposed calls are compared with the expected ones.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentkit.errors import ToolError
from agentkit.llm.providers.offline.model import OfflineModel
from agentkit.llm.providers.offline.worker import EngineProcess
from agentkit.messages import Request, ToolSpec, UserMessage
from agentkit.tools.calculator import calculate
from agentkit.tools.catalog import default_tools

HERE = Path(__file__).parent
Calls = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one question: `verdict` is correct, unconfirmed, declined or wrong."""

    tools: str
    held_out: bool
    kind: str
    served: bool
    verdict: str
    right_tools: bool
    seconds: float
    note: str


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table; `engine_alone`, `show` and `half` are options of the command line."""
    ask = engine_alone() if options.engine_alone else offline_model()
    outcomes = list(measure(ask, options.half))
    yield from ["### The offline model", ""]
    yield from (outcome.note for outcome in outcomes if options.show and outcome.verdict != "correct")
    yield from ["", *table(outcomes)]


def measure(ask: Any, half: str | None) -> Iterator[Outcome]:
    """Ask every question with each of its sets of tools."""
    specs = json.loads((HERE / "tools.json").read_text("utf-8"))
    shipped = {tool.name: tool.spec for tool in default_tools}
    sets = {"core": specs["core"], "all twelve": specs["core"] + specs["web"] + specs["system"]}
    for file, suffix in (("questions.jsonl", ""), ("typed.jsonl", ", as typed")):
        questions = [json.loads(line) for line in (HERE / file).read_text("utf-8").splitlines()]
        for name, chosen in {**sets, "five others": specs["other"]}.items():
            tools = [shipped.get(spec["name"]) or ToolSpec(**spec) for spec in chosen]
            for question in questions:
                if (question.get("tools") == "other") == (name == "five others") and half in (None, question["half"]):
                    yield judged(question, name + suffix, tools, ask)


def judged(question: Mapping[str, Any], name: str, tools: Sequence[ToolSpec], ask: Any) -> Outcome:
    """Ask one question and compare the calls with the expected ones."""
    names = {tool.name for tool in tools}
    wanted = [[each for each in options(call) if each["tool"] in names] for call in question["calls"]]
    served = [choices for choices in wanted if choices]
    begin = time.perf_counter()
    calls, is_unconfirmed = ask(question["text"], tools)
    seconds = time.perf_counter() - begin
    allowed = [[each] for each in question.get("or", []) if each["tool"] in names]
    right = fits(served, calls) or (bool(calls) and any(fits([choices], calls) for choices in allowed))
    tool_names = sorted(tool for tool, _ in calls)
    right_tools = right or (len(calls) == len(served) and fits_tools(served, tool_names))
    verdict = "correct" if right else "wrong" if calls else "unconfirmed" if is_unconfirmed else "declined"
    note = f"{verdict}: [{name}, {question['kind']}] {question['text']!r} {calls}"
    return Outcome(
        name, question["half"] == "held-out", question["kind"], bool(served), verdict, right_tools, seconds, note
    )


def options(call: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of an expected call: `tool` can list several names, separated by a bar."""
    return [
        {"tool": tool, "arguments": each["arguments"]}
        for each in call.get("any", [call])
        for tool in each["tool"].split("|")
    ]


def fits(wanted: Sequence[Sequence[Mapping[str, Any]]], calls: Calls) -> bool:
    """Whether the calls are the expected ones, each once, in any order."""
    left = list(calls)
    for choices in wanted:
        found = next((call for call in left if any(same_call(choice, call) for choice in choices)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def fits_tools(wanted: Sequence[Sequence[Mapping[str, Any]]], names: list[str]) -> bool:
    """Whether the tools are the expected ones, regardless of the arguments."""
    return fits(
        [[{"tool": each["tool"], "arguments": {}} for each in choices] for choices in wanted], [(n, {}) for n in names]
    )


def same_call(wanted: Mapping[str, Any], call: tuple[str, Mapping[str, Any]]) -> bool:
    """Whether a call is the expected one; arguments without an expected value must be defaults."""
    tool, arguments = call
    return tool == wanted["tool"] and all(
        name in arguments and same_value(values, arguments[name]) for name, values in wanted["arguments"].items()
    )


def same_value(wanted: Any, value: Any) -> bool:
    """Whether a value is an expected one: equal except for spaces and case, or an expression with an equal value."""
    if isinstance(wanted, Mapping):
        return all(word.lower() in str(value).lower() for word in wanted["words"])
    return any(one == value or plain(one) == plain(value) or worth(one) == worth(value) != value for one in wanted)


def plain(value: Any) -> str:
    """A value as text without spaces and case."""
    return re.sub(r"\s+", "", str(value)).lower()


def worth(value: Any) -> Any:
    """The calculator's result for a value, or the value."""
    try:
        return calculate(str(value))
    except ToolError:
        return value


def offline_model() -> Any:
    """Return a function that asks the model with its rules."""
    model = OfflineModel(timeout_seconds=1_000)

    def ask(text: str, tools: Sequence[ToolSpec]) -> tuple[Calls, bool]:
        response = model.complete(Request([UserMessage(text)], tools=tuple(tools)))
        calls = [(call.name, json.loads(call.arguments)) for call in response.tool_calls]
        return calls, bool(response.message.extra.get("suggested"))

    return ask


def engine_alone() -> Any:
    """Return a function that asks only the engine, and accepts every call that it does not flag."""
    worker = EngineProcess()

    def ask(text: str, tools: Sequence[ToolSpec]) -> tuple[Calls, bool]:
        specs = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
        question = {"tools": json.dumps(specs), "text": text, "max_tokens": 192, "dated": False}
        envelope = worker.ask(question, timeout_seconds=120)["envelope"]
        flags = envelope.get("validation") or {}
        calls = [] if flags.get("ungrounded") or flags.get("negation") else envelope["function_calls"]
        return [(call["name"], call["arguments"]) for call in calls], bool(envelope["suppressed_calls"])

    return ask


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the Markdown table."""
    yield "| tools | questions | tool choice | arguments | no tool | unconfirmed | wrong answers | median s |"
    yield "|---|---|---|---|---|---|---|---|"
    for label, chosen in (("held-out", [each for each in outcomes if each.held_out]), ("both halves", outcomes)):
        for name in dict.fromkeys(outcome.tools for outcome in chosen):
            yield row(f"{name}, {label}", [each for each in chosen if each.tools == name])


def row(label: str, some: Sequence[Outcome]) -> str:
    """One row of the table: shares of the questions with an expected call, and of those without."""
    served = [each for each in some if each.served]
    others = [each for each in some if not each.served]
    cells = (
        label,
        len(some),
        share(each.right_tools for each in served),
        share(each.verdict == "correct" for each in served),
        share(each.verdict == "correct" for each in others),
        share(each.verdict == "unconfirmed" for each in some),
        f"**{sum(each.verdict == 'wrong' for each in some)}**",
        f"{statistics.median(each.seconds for each in some):.2f}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def share(cases: Iterable[bool]) -> str:
    """The number of true values, the total, and the percentage."""
    flags = list(cases)
    return f"{sum(flags)} of {len(flags)} ({sum(flags) / max(len(flags), 1):.0%})"
