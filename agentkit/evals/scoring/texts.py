"""Does the answer say what is expected? Compared as text, as a number, as JSON."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from agentkit.agents.result import RunResult
from agentkit.errors import ConfigError
from agentkit.evals.case import Case
from agentkit.evals.score import Score
from agentkit.evals.scoring.numbers import is_close
from agentkit.evals.scoring.scorer import Scorer, shown
from agentkit.evals.trial import answer_of

_FENCE = re.compile(r"\s*```[\w-]*\n(?P<inside>.*?)\n?```\s*", re.DOTALL)


def exact(*, ignore_case: bool = False) -> Scorer:
    """Whether the answer is the expected text, but for blanks around it; a list of texts may be given, any of them."""

    def score(case: Case, result: RunResult[Any]) -> Score:
        answer, wanted = answer_of(result).strip(), [text.strip() for text in _texts(case)]
        passed = _folded(answer, ignore_case=ignore_case) in [_folded(text, ignore_case=ignore_case) for text in wanted]
        return _score("exact", passed=passed, why=f"{_shown(answer)} is not {' or '.join(map(_shown, wanted))}")

    return Scorer("exact", score, "expected", f"ignore_case={ignore_case}")


def contains(*, ignore_case: bool = True) -> Scorer:
    """Whether the expected text stands in the answer, whatever the case; of a list of texts, all of them."""

    def score(case: Case, result: RunResult[Any]) -> Score:
        answer = _folded(answer_of(result), ignore_case=ignore_case)
        missing = [text for text in _texts(case) if _folded(text, ignore_case=ignore_case) not in answer]
        return _score("contains", passed=not missing, why=f"{', '.join(map(_shown, missing))} is missing")

    return Scorer("contains", score, "expected", f"ignore_case={ignore_case}")


def matches(pattern: str | None = None, *, ignore_case: bool = False) -> Scorer:
    """Whether a regular expression is found in the answer: this one, or the one that a case expects.

    Raises ConfigError for what is no regular expression, when the scorer is made or the case is scored.
    """
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    given = None if pattern is None else _pattern(pattern, flags)

    def score(case: Case, result: RunResult[Any]) -> Score:
        wanted = given or _pattern(case.expected, flags)
        found = wanted.search(_folded(answer_of(result), ignore_case=False)) is not None
        return _score("matches", passed=found, why=f"{_shown(wanted.pattern)} is not found")

    return Scorer("matches", score, "" if given else "expected", f"{pattern!r}, ignore_case={ignore_case}")


def json_equal() -> Scorer:
    """Whether the answer is the expected JSON, in any order of keys; a Markdown fence around it is ignored.

    What a case expects is a value, or JSON text. 1 and 1.0 are equal, 1 and true are not.
    """

    def score(case: Case, result: RunResult[Any]) -> Score:
        text = answer_of(result)
        fenced = _FENCE.fullmatch(text)
        try:
            answer = json.loads(fenced["inside"] if fenced else text)
        except (ValueError, RecursionError) as error:
            return _score("json_equal", passed=False, why=f"the answer is not JSON: {error}")
        difference = _difference(_wanted_json(case.expected), answer, "")
        return _score("json_equal", passed=difference is None, why=difference or "")

    return Scorer("json_equal", score, "expected")


def _score(name: str, *, passed: bool, why: str) -> Score:
    return Score(name, float(passed), "" if passed else why, passed)


def _texts(case: Case) -> list[str]:
    wanted = case.expected
    rows = wanted if isinstance(wanted, Iterable) and not isinstance(wanted, str | Mapping) else [wanted]
    return [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False, default=str) for row in rows]


def _folded(text: str, *, ignore_case: bool) -> str:
    """The text as it is compared: an accent is the same whether it stands in its letter or behind it."""
    composed = unicodedata.normalize("NFC", text)
    return unicodedata.normalize("NFC", composed.casefold()) if ignore_case else composed


def _pattern(text: Any, flags: re.RegexFlag) -> re.Pattern[str]:
    try:
        return re.compile(unicodedata.normalize("NFC", text), flags)
    except (re.error, TypeError) as error:
        raise ConfigError(f"{text!r:.200} is no regular expression: {error}.") from error


def _wanted_json(expected: Any) -> Any:
    """The expected value: JSON text is parsed, any other text stands for itself."""
    if not isinstance(expected, str):
        return expected
    try:
        return json.loads(expected)
    except ValueError:
        return expected


def _difference(wanted: Any, answer: Any, place: str) -> str | None:
    """Where two JSON values differ first, in words; None when they do not."""
    where = f"{place or 'the answer'} "
    if isinstance(wanted, Mapping) and isinstance(answer, Mapping):
        for key in [*wanted, *(key for key in answer if key not in wanted)]:
            if key not in answer or key not in wanted:
                return f"{where}{'lacks' if key in wanted else 'has in addition'} {_shown(key)}"
        pairs = ((wanted[key], answer[key], f"{place}.{key}") for key in wanted)
    elif isinstance(wanted, list | tuple) and isinstance(answer, list):
        if len(wanted) != len(answer):
            return f"{where}has {len(answer)} entries, not {len(wanted)}"
        pairs = (
            (one, other, f"{place}[{index}]") for index, (one, other) in enumerate(zip(wanted, answer, strict=True))
        )
    else:
        return None if _same(wanted, answer) else f"{where}is {_shown(answer)}, not {_shown(wanted)}"
    return next(filter(None, (_difference(*pair) for pair in pairs)), None)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return is_close(one, other, relative=1e-12)
    if isinstance(one, str) and isinstance(other, str):
        return _folded(one, ignore_case=False) == _folded(other, ignore_case=False)
    return type(one) is type(other) and bool(one == other)


def _shown(value: Any) -> str:
    return shown(json.dumps(value, ensure_ascii=False, default=str))
