"""Did the agent make the tool calls that are expected?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentkit.agents.result import RunResult
from agentkit.evals.case import Case, ExpectedCall
from agentkit.evals.score import Score
from agentkit.evals.scoring.numbers import is_close
from agentkit.evals.scoring.scorer import Scorer, shown
from agentkit.messages import ToolCall

Order = Literal["any", "same"]


def tool_calls(*, order: Order = "any", arguments: bool = True, more: bool = False) -> Scorer:
    """Whether the expected tool calls were made, each once: the tools, and their arguments as far as a case names them.

    `order="same"` wants them in the order in which they are expected; `arguments=False` looks at the tools alone; with
    `more` others may be made beside them. A call counts as made when the model asked for it, also when it was denied.
    The value is the share of the calls that are right, of those expected and those made, whichever are more.
    """

    def score(case: Case, result: RunResult[Any]) -> Score:
        wanted = list(case.expected_calls or ())
        made = [used.call for used in result.tool_calls]
        if not arguments:
            wanted = [ExpectedCall(call.tool) for call in wanted]
        right = _in_order(wanted, made) if order == "same" else _in_any_order(wanted, made)
        passed = right == len(wanted) and (more or right == len(made))
        most = len(wanted) if more else max(len(wanted), len(made))
        return Score("tool_calls", right / most if most else 1.0, "" if passed else _why(wanted, made), passed)

    return Scorer("tool_calls", score, "tool_calls", f"order={order!r}, arguments={arguments}, more={more}")


def _in_any_order(wanted: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> int:
    """The size of a maximum matching between expected calls and calls that were made (augmenting paths)."""
    pairs: dict[int, int] = {}

    def is_paired(index: int, tried: set[int]) -> bool:
        for place, call in enumerate(made):
            if place in tried or not is_made(wanted[index], call):
                continue
            tried.add(place)
            if place not in pairs or is_paired(pairs[place], tried):
                pairs[place] = index
                return True
        return False

    return sum(is_paired(index, set()) for index in range(len(wanted)))


def _in_order(wanted: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> int:
    """How many of the wanted calls were made in their order: the longest common subsequence."""
    before = [0] * (len(made) + 1)
    for each in wanted:
        row = [0]
        for place, call in enumerate(made):
            row.append(before[place] + 1 if is_made(each, call) else max(row[-1], before[place + 1]))
        before = row
    return before[-1]


def is_made(wanted: ExpectedCall, call: ToolCall) -> bool:
    """Whether a call matches an expected one: the same tool, and the same value of each argument that is expected."""
    if call.name != wanted.tool:
        return False
    if not wanted.arguments:
        return True
    try:
        given = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(given, Mapping) and all(
        name in given and _is_as(value, given[name]) for name, value in wanted.arguments.items()
    )


def _is_as(wanted: Any, given: Any) -> bool:
    """Whether an argument is the wanted value; texts may differ in blanks around them."""
    if callable(wanted):
        return bool(wanted(given))
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, int | float) and isinstance(given, int | float):
        return is_close(wanted, given)
    if isinstance(wanted, str) and isinstance(given, str):
        return wanted.strip() == given.strip()
    return bool(wanted == given)


def _why(wanted: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> str:
    expected = ", ".join(_shown(call.tool, call.to_data().get("arguments")) for call in wanted) or "none"
    came = ", ".join(_shown(call.name, call.arguments) for call in made) or "none"
    return f"made: {came}; expected: {expected}"


def _shown(tool: str, arguments: Any) -> str:
    if arguments is None:
        return tool
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"{tool}({shown(text)})"
