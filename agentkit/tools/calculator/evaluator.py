"""Operators and functions of the calculator, with bounds on their results."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from agentkit.errors import ToolError

Number = int | float

MAX_BITS = 10_000
"""Maximum size of an integer, about 3,010 digits."""

_TOO_LARGE = "is too large: whole numbers may have at most about 3,000 digits, decimals stay below 1.8e308"
_NEEDS_WHOLE = "needs whole numbers"


def format_number(number: Number) -> str:
    """Format a number for an error message: its digits, or their count."""
    if isinstance(number, float) or number.bit_length() <= 100:
        return repr(number)
    return f"<a whole number of about {int(number.bit_length() * math.log10(2)) + 1} digits>"


def operate(symbol: str, left: Number, right: Number) -> Number:
    """Compute `left symbol right` within the bounds. Raises ToolError naming the operation."""
    try:
        return _check_bounds(_OPERATORS[symbol](left, right))
    except (ArithmeticError, TypeError, ValueError) as error:
        base = f"({format_number(left)})" if left < 0 else format_number(left)
        faults = {ZeroDivisionError: "divides by zero", OverflowError: _TOO_LARGE, TypeError: _NEEDS_WHOLE}
        other = "has no real value" if symbol == "**" else "shifts by a negative number"
        raise ToolError(f"{base} {symbol} {format_number(right)} {faults.get(type(error), other)}.") from None


def negate(symbol: str, number: Number) -> Number:
    """Apply the sign `+`, `-` or `~`. Raises ToolError for `~` on a decimal."""
    try:
        return _SIGNS[symbol](number)
    except TypeError:
        raise ToolError(f"{symbol}{format_number(number)} {_NEEDS_WHOLE}.") from None


def call(name: str, arguments: Sequence[Number | list[Number]]) -> Number:
    """Call the function `name`. Raises ToolError naming the call and its requirements."""
    function = FUNCTIONS[name]
    numbers = _numbers(name, function, arguments)
    try:
        return _check_bounds(function.compute(*numbers))
    except (ArithmeticError, TypeError, ValueError) as error:
        description = (
            f"{name}({', '.join(format_number(number) for number in numbers[:4])}{', ...' if len(numbers) > 4 else ''})"
        )
        fault = f"has no value: {name} needs {function.domain}"
        raise ToolError(f"{description} {_TOO_LARGE if isinstance(error, OverflowError) else fault}.") from None


def _check_bounds(value: Number) -> Number:
    """Return the value if it is an int or a finite float within the bounds."""
    if value.bit_length() > MAX_BITS if isinstance(value, int) else not math.isfinite(value):
        raise OverflowError
    return value


def _numbers(name: str, function: Function, arguments: Sequence[Number | list[Number]]) -> list[Number]:
    """Return the arguments as numbers, expanding a list, and check their count."""
    if function.max_arguments is None and len(arguments) == 1:
        only = arguments[0]
        if not isinstance(only, list):
            raise ToolError(f"{name} takes a list or at least 2 numbers, as in {name}([2, 3]) or {name}(2, 3).")
        arguments = only
    numbers = [argument for argument in arguments if not isinstance(argument, list)]
    if len(numbers) < len(arguments):
        takes = "one list, or numbers" if function.max_arguments is None else "numbers"
        raise ToolError(f"{name} takes {takes}, but was given a list among its arguments.")
    if not function.min_arguments <= len(numbers) <= (function.max_arguments or len(numbers)):
        least, most = function.min_arguments, function.max_arguments
        amount = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} or {most}"
        plural = "s" * (most != 1 and not (most is None and least == 1))
        raise ToolError(f"{name} takes {amount} number{plural}, but was given {len(numbers) or 'none'}.")
    return numbers


def _to_integer(number: Number) -> int:
    """Convert a number to int; a float without fraction is accepted if it is exact, below 2**53."""
    if isinstance(number, int):
        return number
    if number.is_integer() and abs(number) <= 2**53:
        return int(number)
    raise ValueError


def _for_integers(compute: Callable[..., int]) -> Callable[..., int]:
    return lambda *numbers: compute(*map(_to_integer, numbers))


def _power(base: Number, exponent: Number) -> Number:
    """Raise to a power, refusing in advance results that are too large or not real."""
    if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > MAX_BITS:
        raise OverflowError
    if base < 0 and exponent % 1:
        raise ValueError
    result: Number = base**exponent
    return result


def _shift_left(number: int, places: int) -> int:
    if places > MAX_BITS:
        raise OverflowError
    return number << places


def _modular_power(base: Number, exponent: Number, modulus: Number | None = None) -> Number:
    if modulus is None:
        return _power(base, exponent)
    whole_exponent, whole_modulus = _to_integer(exponent), _to_integer(modulus)
    if whole_exponent.bit_length() * whole_modulus.bit_length() ** 2 > 2**30:
        raise OverflowError
    return pow(_to_integer(base), whole_exponent, whole_modulus)


def _permutations(total: int, chosen: int | None = None) -> int:
    """Count ordered choices, fewer than n ** k; n! if `chosen` is omitted."""
    count = total if chosen is None else chosen
    if 0 < count <= total and count * math.log2(total) > 2 * MAX_BITS:
        raise OverflowError
    return math.perm(total, count)


def _combinations(total: int, chosen: int) -> int:
    """Count unordered choices: at least (n / k) ** k, computed in k steps."""
    fewer = min(chosen, total - chosen)
    if fewer > 1_000 or (fewer > 0 and fewer * (math.log2(total) - math.log2(fewer)) > MAX_BITS):
        raise OverflowError
    return math.comb(total, chosen)


def _logarithm(number: Number, base: Number | None = None) -> float:
    if base is None:
        return math.log(number)
    if base in (2, 10):
        return math.log2(number) if base == 2 else math.log10(number)
    return math.log(number, base)


def _with_poles(compute: Callable[[float], float], divisor: Callable[[float], float]) -> Callable[[Number], float]:
    """Return a function that is refused where the divisor vanishes: the nearest float would yield about 1e16."""

    def computed(angle: Number) -> float:
        if abs(divisor(angle)) < 1e-15:
            raise ValueError
        return compute(angle)

    return computed


def _round(number: Number, digits: Number = 0) -> Number:
    """Round half to even, like Python; returns an integer without `digits`."""
    places = _to_integer(digits)
    if abs(places) > 30:
        raise ValueError
    return round(number, places) if places else round(number)


def _cube_root(number: Number) -> float:
    """Compute the cube root, exact for integral roots, for which the C library can be off by one digit."""
    root = math.cbrt(number)
    whole = round(root)
    return float(whole) if whole**3 == number else root


def _sum(*numbers: Number) -> Number:
    """Sum exactly for integers, with a single rounding for decimals."""
    if all(isinstance(number, int) for number in numbers):
        return sum(numbers)
    return math.fsum(numbers)


def _reduce(combine: Callable[[Any, Any], Any], *numbers: Number) -> Any:
    """Combine the numbers one by one, within the bounds."""
    result: Number = 1
    for number in numbers:
        result = _check_bounds(combine(result, number))
    return result


def _mean(*numbers: Number) -> float:
    return _sum(*numbers) / len(numbers)


def _median(*numbers: Number) -> Number:
    middle = sorted(numbers)[(len(numbers) - 1) // 2 : len(numbers) // 2 + 1]
    return middle[0] if len(middle) == 1 else _mean(*middle)


def _population_variance(*numbers: Number) -> float:
    center = _mean(*numbers)
    return math.fsum((number - center) ** 2 for number in numbers) / len(numbers)


def _variance(*numbers: Number) -> float:
    return _population_variance(*numbers) * len(numbers) / (len(numbers) - 1)


def _root_of(variance: Callable[..., float]) -> Callable[..., float]:
    return lambda *numbers: math.sqrt(variance(*numbers))


class Function(NamedTuple):
    """An implementation, the number of arguments (`max_arguments` None: any number, or one list), and their domain."""

    compute: Callable[..., Number]
    min_arguments: int = 1
    max_arguments: int | None = 1
    domain: str = "a number of ordinary size"


_WHOLE_DOMAIN = "whole numbers"
_COUNTS = "whole numbers that are not negative"
_NOT_NEGATIVE = "a number that is not negative"
_UNIT = "a number from -1 to 1"
_NO_POLE = "an angle in radians where it is defined"
_NO_ZERO = "a second number other than 0"
_LOGARITHM = "a positive number, and as base a positive number other than 1"
_ANY = "numbers of ordinary size"

_FUNCTIONS_OF_MATH = (
    *("fabs", "floor", "ceil", "trunc", "exp", "exp2", "expm1", "sin", "cos", "atan", "sinh", "cosh", "tanh", "asinh"),
    *("degrees", "radians", "erf", "erfc"),
)
FUNCTIONS: dict[str, Function] = {
    **{name: Function(getattr(math, name)) for name in _FUNCTIONS_OF_MATH},
    "abs": Function(abs),
    "sign": Function(lambda number: (number > 0) - (number < 0)),
    "int": Function(math.trunc),
    "float": Function(float),
    "round": Function(_round, 1, 2, "a number and how many decimal places, from -30 to 30"),
    "sqrt": Function(math.sqrt, domain=_NOT_NEGATIVE),
    "cbrt": Function(_cube_root),
    "isqrt": Function(_for_integers(math.isqrt), domain=_COUNTS),
    "hypot": Function(math.hypot, 2, None, _ANY),
    "pow": Function(_modular_power, 2, 3, "a result among the real numbers, and whole numbers when there are three"),
    "log": Function(_logarithm, 1, 2, _LOGARITHM),
    "ln": Function(math.log, domain="a positive number"),
    "log2": Function(math.log2, domain="a positive number"),
    "log10": Function(math.log10, domain="a positive number"),
    "log1p": Function(math.log1p, domain="a number above -1"),
    "tan": Function(_with_poles(math.tan, math.cos), domain=_NO_POLE),
    "cot": Function(_with_poles(lambda angle: math.cos(angle) / math.sin(angle), math.sin), domain=_NO_POLE),
    "sec": Function(_with_poles(lambda angle: 1 / math.cos(angle), math.cos), domain=_NO_POLE),
    "csc": Function(_with_poles(lambda angle: 1 / math.sin(angle), math.sin), domain=_NO_POLE),
    "asin": Function(math.asin, domain=_UNIT),
    "acos": Function(math.acos, domain=_UNIT),
    "arcsin": Function(math.asin, domain=_UNIT),
    "arccos": Function(math.acos, domain=_UNIT),
    "arctan": Function(math.atan),
    "atan2": Function(math.atan2, 2, 2, _ANY),
    "acosh": Function(math.acosh, domain="a number of at least 1"),
    "atanh": Function(math.atanh, domain="a number between -1 and 1"),
    "mod": Function(operator.mod, 2, 2, _NO_ZERO),
    "fmod": Function(math.fmod, 2, 2, _NO_ZERO),
    "remainder": Function(math.remainder, 2, 2, _NO_ZERO),
    "ldexp": Function(math.ldexp, 2, 2, "a number and a whole number"),
    "copysign": Function(math.copysign, 2, 2, _ANY),
    "xor": Function(_for_integers(operator.xor), 2, 2, _WHOLE_DOMAIN),
    "gcd": Function(_for_integers(math.gcd), 1, None, _WHOLE_DOMAIN),
    "lcm": Function(_for_integers(partial(_reduce, math.lcm)), 1, None, _WHOLE_DOMAIN),
    "factorial": Function(_for_integers(_permutations), domain="a whole number that is not negative"),
    "comb": Function(_for_integers(_combinations), 2, 2, _COUNTS),
    "perm": Function(_for_integers(_permutations), 1, 2, _COUNTS),
    "gamma": Function(math.gamma, domain="a number other than 0, -1, -2, ..."),
    "lgamma": Function(math.lgamma, domain="a number other than 0, -1, -2, ..."),
    "min": Function(min, 1, None, _ANY),
    "max": Function(max, 1, None, _ANY),
    "prod": Function(partial(_reduce, operator.mul), 1, None, _ANY),
    **dict.fromkeys(("mean", "avg", "average"), Function(_mean, 1, None, _ANY)),
    **dict.fromkeys(("sum", "fsum"), Function(_sum, 1, None, _ANY)),
    "median": Function(_median, 1, None, _ANY),
    "variance": Function(_variance, 2, None, _ANY),
    "pvariance": Function(_population_variance, 1, None, _ANY),
    "stdev": Function(_root_of(_variance), 2, None, _ANY),
    "pstdev": Function(_root_of(_population_variance), 1, None, _ANY),
}

CONSTANTS: dict[str, float] = {"pi": math.pi, "π": math.pi, "e": math.e, "tau": math.tau, "τ": math.tau}

_SIGNS: dict[str, Callable[..., Number]] = {"+": operator.pos, "-": operator.neg, "~": operator.invert}

_OPERATORS: dict[str, Callable[..., Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
    "<<": _shift_left,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
}
