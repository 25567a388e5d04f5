"""Which number does an answer give, and is it the expected one?"""

from __future__ import annotations

import math
import re
from typing import Any

from agentkit.agents.result import RunResult
from agentkit.errors import ConfigError
from agentkit.evals.case import Case
from agentkit.evals.score import Score
from agentkit.evals.scoring.scorer import Scorer
from agentkit.evals.trial import answer_of

_SPACES = "\u00a0\u202f\u2009 _"
_NUMBER = {
    ".": re.compile(
        rf"(?<![\w.])[-+\u2212]?(?:\d{{1,3}}(?:[,{_SPACES}]\d{{3}})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|(?<![\w.])[-+]?\.\d+"
    ),
    ",": re.compile(
        rf"(?<![\w,])[-+\u2212]?(?:\d{{1,3}}(?:[.{_SPACES}]\d{{3}})+(?!\d)|\d+)(?:,\d+)?(?:[eE][-+]?\d+)?|(?<![\w,])[-+]?,\d+"
    ),
}
_GROUPS = {".": re.compile(f"[,{_SPACES}]"), ",": re.compile(f"[.{_SPACES}]")}


def numeric(tolerance: float = 0.0, *, relative: float = 1e-9, decimal: str = ".") -> Scorer:
    """Whether the answer gives the expected number, within `tolerance`, or within `relative` of its size.

    Of several numbers in an answer the last counts, those of the question aside: so "408, which is 17 % of 2,400" gives
    408. Numbers may have groups of three digits; `decimal` is the mark that their decimals have, `.` or `,`.
    Raises ConfigError for arguments that cannot be right, and for a case that expects no number.
    """
    if decimal not in _NUMBER or not 0 <= tolerance < math.inf or not 0 <= relative < math.inf:
        raise ConfigError("numeric() takes tolerances of 0 or more, and decimal='.' or ','.")

    def score(case: Case, result: RunResult[Any]) -> Score:
        wanted = _wanted(case.expected, decimal)
        found = given_number(answer_of(result), case.text, decimal)
        if found is None:
            return Score("numeric", 0.0, f"there is no number in it, {wanted:g} is expected", passed=False)
        passed = math.isclose(found, wanted, rel_tol=relative, abs_tol=tolerance)
        return Score("numeric", float(passed), "" if passed else f"{found:.12g} is not {wanted:.12g}", passed)

    return Scorer("numeric", score, "expected", f"{tolerance!r}, relative={relative!r}, decimal={decimal!r}")


def is_close(one: float, other: float, relative: float = 1e-9) -> bool:
    """Whether two numbers are equal up to rounding; an integer too large for a float is close to itself alone."""
    try:
        return one == other or math.isclose(one, other, rel_tol=relative)
    except OverflowError:
        return False


def given_number(answer: str, question: str = "", decimal: str = ".") -> float | None:
    """The number that an answer gives: the last that is not in the question, or else the last; None if it has none."""
    numbers = numbers_in(answer, decimal)
    asked = set(numbers_in(question, decimal))
    return next((number for number in reversed(numbers) if number not in asked), numbers[-1] if numbers else None)


def numbers_in(text: str, decimal: str = ".") -> list[float]:
    """The numbers in a text, in order."""
    return [_value(found[0], decimal) for found in _NUMBER[decimal].finditer(text)]


def _value(written: str, decimal: str) -> float:
    return float(_GROUPS[decimal].sub("", written).replace("\u2212", "-").replace(",", "."))


def _wanted(expected: Any, decimal: str) -> float:
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return float(expected)
    numbers = numbers_in(expected, decimal) if isinstance(expected, str) else []
    if len(numbers) != 1:
        raise ConfigError(f"numeric() needs a case that expects a number. This one expects {expected!r:.100}.")
    return numbers[0]
