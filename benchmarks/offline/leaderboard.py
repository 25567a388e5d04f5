"""Accuracy of the offline model with the Berkeley Function Calling Leaderboard, whose tools are not part of agentkit.

Asks a sample of its questions with one expected call, several calls, and none. As in the leaderboard, a call is correct
if its function is the expected one and each argument has one of the possible values. The questions are not part of this
project: install `bfcl-eval` with `pip install --no-deps bfcl-eval`, or pass the folder of their files. Each category is
split into halves with a fixed seed; the held-out half is used only for measurements.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentkit.errors import AgentKitError
from agentkit.llm.providers.offline.model import OfflineModel
from agentkit.messages import Request, ToolSpec, UserMessage

SEED = 20261123
CATEGORIES = (
    "simple_python",
    "multiple",
    "live_simple",
    "live_multiple",
    "parallel",
    "irrelevance",
    "live_irrelevance",
)
VERDICTS = ("correct", "correct if confirmed", "unconfirmed", "declined", "wrong")
Calls = list[tuple[str, dict[str, Any]]]


def main() -> None:
    """Print a Markdown table, and with `--show` every question that was not answered correctly."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline.leaderboard", description=__doc__)
    parser.add_argument("--half", choices=("development", "held-out"), default="held-out")
    parser.add_argument("--sample", type=int, default=60, help="number of questions per category")
    parser.add_argument("--categories", nargs="+", choices=CATEGORIES, default=CATEGORIES, metavar="NAME")
    parser.add_argument("--folder", type=Path, help="folder of BFCL_v4_*.json, if bfcl-eval is not installed")
    parser.add_argument("--show", action="store_true", help="also print every question without a correct answer")
    options = parser.parse_args()
    folder = options.folder or installed_folder()
    if folder is None or not (folder / "BFCL_v4_simple_python.json").is_file():
        parser.error("the questions are missing: pip install --no-deps bfcl-eval, or pass their --folder")
    model = OfflineModel()
    print(f"{options.sample} questions per category, {options.half} half, seed {SEED}\n")
    print(f"| category | questions | {' | '.join(VERDICTS)} | seconds |\n|{'---|' * (len(VERDICTS) + 3)}")
    for category in options.categories:
        questions = sampled(folder, category, options.half, options.sample)
        begin = time.perf_counter()
        judged = [(question, *asked(model, question)) for question in questions]
        seconds = (time.perf_counter() - begin) / max(len(judged), 1)
        counts = Counter(verdict for _, verdict, _ in judged)
        cells = (category, len(judged), *(counts[verdict] for verdict in VERDICTS), f"{seconds:.2f}")
        notes = [
            f"{verdict}: {question['text']!r} {note}" for question, verdict, note in judged if verdict != "correct"
        ]
        print("\n".join([f"| {' | '.join(map(str, cells))} |", *(notes if options.show else ())]), flush=True)


def installed_folder() -> Path | None:
    """The folder of the questions of an installed bfcl-eval, which is not imported."""
    spec = find_spec("bfcl_eval")
    return next((Path(each, "data") for each in spec.submodule_search_locations or ()), None) if spec else None


def sampled(folder: Path, category: str, half: str, size: int) -> list[dict[str, Any]]:
    """The first `size` questions of a shuffled half, with `text`, `tools` and the expected calls in `wanted`."""
    name = f"BFCL_v4_{category}.json"
    questions = _rows(folder / name)
    order = list(range(len(questions)))
    random.Random(SEED).shuffle(order)
    middle = len(order) // 2
    chosen = order[:middle] if half == "development" else order[middle:]
    key = folder / "possible_answer" / name
    answers = {row["id"]: row["ground_truth"] for row in _rows(key)} if key.is_file() else {}
    return [
        {
            "id": questions[place]["id"],
            "text": questions[place]["question"][0][-1]["content"],
            "tools": [tool(function) for function in questions[place]["function"]],
            "wanted": [
                (_name(name), arguments)
                for call in answers.get(questions[place]["id"], ())
                for name, arguments in call.items()
            ],
        }
        for place in chosen[:size]
    ]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def tool(function: Mapping[str, Any]) -> ToolSpec:
    """Convert a function of the leaderboard, whose types are Python's, to a tool."""
    return ToolSpec(_name(function["name"]), function["description"], _schema(function["parameters"]))


def _name(name: str) -> str:
    return re.sub(r"[^\w-]", "_", name, flags=re.ASCII)


def _schema(schema: Any) -> Any:
    """A schema with JSON types at any depth; a parameter can be named `type`."""
    if not isinstance(schema, Mapping):
        return schema
    kind = schema.get("type")
    plain = {**schema, "type": _TYPES.get(kind, kind)} if isinstance(kind, str) else dict(schema)
    if plain.get("type") == "any":
        del plain["type"]
    if isinstance(inner := plain.get("properties"), Mapping):
        plain["properties"] = {name: _schema(each) for name, each in inner.items()}
    if "items" in plain:
        plain["items"] = _schema(plain["items"])
    return plain


_TYPES = {"dict": "object", "float": "number", "tuple": "array", "int": "integer", "bool": "boolean", "list": "array"}


def asked(model: OfflineModel, question: Mapping[str, Any]) -> tuple[str, Any]:
    """The verdict on one question, and the proposed calls or the text of the answer."""
    try:
        response = model.complete(Request([UserMessage(question["text"])], tools=tuple(question["tools"])))
    except AgentKitError as error:
        return "declined", str(error)
    calls = [(call.name, json.loads(call.arguments)) for call in response.tool_calls]
    suggested = [(name, arguments) for name, arguments in response.message.extra.get("suggested", ())]
    return verdict(question["wanted"], calls, suggested), calls or suggested or response.text[:60]


def verdict(wanted: Calls, calls: Calls, suggested: Calls) -> str:
    """Judge the calls, or the suggested calls. `correct if confirmed` would be correct after a plain "yes"."""
    if calls or not wanted:
        is_right = fits(wanted, calls)
        return "correct" if is_right and not suggested else "unconfirmed" if is_right else "wrong"
    return ("correct if confirmed" if fits(wanted, suggested) else "unconfirmed") if suggested else "declined"


def fits(wanted: Calls, calls: Calls) -> bool:
    """Whether the calls are the expected ones, each once, in any order."""
    left = list(calls)
    for call in wanted:
        found = next((each for each in left if each[0] == call[0] and takes(call[1], each[1])), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def takes(possible: Mapping[str, Sequence[Any]], arguments: Mapping[str, Any]) -> bool:
    """Whether each argument has a possible value; optional arguments have the empty text among them."""
    absent = [name for name, values in possible.items() if name not in arguments and "" not in values]
    known = all(name in possible for name in arguments)
    return known and not absent and all(any(same(one, arguments[name]) for one in possible[name]) for name in arguments)


def same(possible: Any, value: Any) -> bool:
    """Whether a value is a possible one: texts without case, spaces and some punctuation, objects by their fields."""
    if isinstance(possible, Mapping):
        return isinstance(value, Mapping) and takes(possible, value)
    if isinstance(possible, list):
        fitting = isinstance(value, list) and len(value) == len(possible)
        return fitting and all(same(one, each) for one, each in zip(possible, value, strict=True))
    if isinstance(possible, str):
        return isinstance(value, str) and _bare(possible) == _bare(value)
    return bool(isinstance(possible, bool) == isinstance(value, bool) and possible == value)


def _bare(text: str) -> str:
    return re.sub(r"[ ,./\-_*^]", "", text).lower().replace("'", '"')


if __name__ == "__main__":
    main()
