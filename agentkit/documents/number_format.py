"""Number formats of spreadsheets: the text that a cell shows for its value (pure)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

BUILT_IN_FORMATS = {
    "1": "0",
    "2": "0.00",
    "3": "#,##0",
    "4": "#,##0.00",
    "9": "0%",
    "10": "0.00%",
    "11": "0.00E+00",
    "12": "# ?/?",
    "13": "# ??/??",
    **dict.fromkeys(map(str, range(14, 18)), "yyyy-mm-dd"),
    **dict.fromkeys(map(str, range(18, 22)), "hh:mm:ss"),
    "22": "yyyy-mm-dd hh:mm",
    "37": "#,##0;-#,##0",
    "38": "#,##0;-#,##0",
    "39": "#,##0.00;-#,##0.00",
    "40": "#,##0.00;-#,##0.00",
    "45": "mm:ss",
    "46": "[h]:mm:ss",
    "47": "mm:ss.0",
    "48": "##0.0E+0",
}
"""The formats that have no code in the file, by number."""

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]')
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?[0-9.]+)\]")
_DIGITS = re.compile(r"[#0?](?:[#0?,.]*[#0?.])?,*")
_FRACTION = re.compile(r"(?:[#0?]+ +)?([#0?]+)/([0-9]+|[#0?]+)")
_SCIENTIFIC = re.compile(r"([#0?.,]+)E([+-])(0+)", re.IGNORECASE)
_MAX_CHARS = 200
_MAX_SHOWN_INTEGER = Decimal(10) ** 21
_DAYS_FROM, _DAYS_FROM_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
_FALSE_LEAP_DAY = 60
"""Excel counts a 29 February 1900; before it, its days are one more."""


def shown_value(value: str, code: str, *, is_1904: bool = False) -> str:
    """The text that a spreadsheet shows for a number in this format; dates are written as in ISO 8601.

    The general format shows up to 15 significant digits. A format that is not understood shows the plain number.
    """
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    section, is_signed = _section(code[:_MAX_CHARS], number)
    if elapsed := _ELAPSED.search(section):
        return _duration(number, elapsed[1][0].lower(), section)
    bare = _LITERAL.sub("", section)
    if _DATE.search(bare) and "general" not in bare.lower():
        return _date(float(number), is_1904=is_1904) or value
    if not re.search(r"[0#?]", bare) or "general" in bare.lower():
        literal = "".join(filter(None, (found[1] or found[2] for found in _LITERAL.finditer(section))))
        return literal if literal and not bare.strip() else _general(value, number)
    text = _number(abs(number), section)
    return f"-{text}" if number < 0 and is_signed and re.search("[1-9]", text) else text


@lru_cache(maxsize=1_000)
def _sections(code: str) -> tuple[str, ...]:
    return tuple(re.findall(r'(?:"[^"]*"|\\.|\[[^\]]*\]|[^;])+|(?<=;)(?=;|$)', code)) or ("General",)


def _section(code: str, number: Decimal) -> tuple[str, bool]:
    """The section of a format for a number, by its condition or sign, and whether a negative number needs a sign."""
    sections = _sections(code)
    for section in sections[:3]:
        if (condition := _CONDITION.search(section)) and _holds(number, condition[1], Decimal(condition[2])):
            return section, True
    if _CONDITION.search(code):
        return sections[-1], True
    if len(sections) > 1 and number < 0:
        return sections[1] or sections[0], not sections[1]
    if len(sections) > 2 and number == 0:
        return sections[2] or sections[0], False
    return sections[0], True


def _holds(number: Decimal, sign: str, limit: Decimal) -> bool:
    return {
        "<": number < limit,
        ">": number > limit,
        "=": number == limit,
        "<=": number <= limit,
        ">=": number >= limit,
        "<>": number != limit,
    }[sign]


def _general(value: str, number: Decimal) -> str:
    """Up to 15 significant digits, without an exponent where that is short."""
    if re.fullmatch(r"-?[0-9]{1,20}", value):
        return value
    text = f"{float(number):.15g}"
    if "e" not in text:
        return text
    return f"{number:.0f}" if 1 <= abs(number) < _MAX_SHOWN_INTEGER else text.upper()


def _date(days: float, *, is_1904: bool) -> str:
    """A number of days as a date, a time, or both; empty if it is out of range."""
    if 0 <= days < 1 and not is_1904:
        return f"{_DAYS_FROM + timedelta(seconds=round(days * 86_400)):%H:%M:%S}"
    start = _DAYS_FROM_1904 if is_1904 else _DAYS_FROM
    try:
        moment = start + timedelta(seconds=round(days * 86_400), days=int(not is_1904 and days < _FALSE_LEAP_DAY))
    except OverflowError:
        return ""
    return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M:%S}"


def _duration(days: Decimal, unit: str, section: str) -> str:
    """Elapsed hours, minutes or seconds, as in `36:15`."""
    seconds = int((abs(days) * 86_400).to_integral_value(ROUND_HALF_UP))
    has_seconds = "s" in _ELAPSED.sub("", section).lower()
    has_minutes = "m" in _ELAPSED.sub("", section).lower()
    if unit == "s":
        text = str(seconds)
    elif unit == "m":
        text = f"{seconds // 60}:{seconds % 60:02}" if has_seconds else str(seconds // 60)
    else:
        text = str(seconds // 3_600)
        text += f":{seconds // 60 % 60:02}" if has_minutes or has_seconds else ""
        text += f":{seconds % 60:02}" if has_seconds else ""
    return f"-{text}" if days < 0 else text


def _number(number: Decimal, section: str) -> str:
    """A number in a format of digits, with the literal text around it."""
    literals: list[str] = []

    def keep(found: re.Match[str]) -> str:
        literals.append(found[1] or found[2] or found[3] or "")
        return f"\x00{len(literals) - 1}\x01"

    plain = _LITERAL.sub(keep, section)
    number *= Decimal(100) ** plain.count("%")
    if scientific := _SCIENTIFIC.search(plain):
        text = plain[: scientific.start()] + _scientific(number, scientific) + plain[scientific.end() :]
    elif fraction := _FRACTION.search(plain):
        text = plain[: fraction.start()] + _fraction(number, fraction) + plain[fraction.end() :]
    else:
        text = _digits(number, plain)
    return re.sub("\x00([0-9]+)\x01", lambda found: literals[int(found[1])], text).strip()


def _digits(number: Decimal, plain: str) -> str:
    """Fill a pattern such as `#,##0.00`, or one whose digits have text between them, such as `000-00-0000`."""
    outside = re.sub("\x00[0-9]+\x01", lambda found: "\x02" * len(found[0]), plain)
    runs = list(_DIGITS.finditer(outside))
    first = runs[0]
    if len(runs) > 1:
        return _between(number, plain, outside)
    pattern = first[0]
    scale = len(pattern) - len(pattern.rstrip(","))
    number /= Decimal(1_000) ** scale
    whole, _, decimals = pattern.rstrip(",").partition(".")
    places, fewest = len(decimals), decimals.count("0")
    rounded = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP) if number < _MAX_SHOWN_INTEGER else number
    text = f"{rounded:,.{places}f}" if "," in whole else f"{rounded:.{places}f}"
    integer, _, part = text.partition(".")
    integer = integer.rjust(whole.count("0"), "0") if "," not in whole else integer
    while len(part) > fewest and part.endswith("0"):
        part = part[:-1]
    return plain[: first.start()] + (f"{integer}.{part}" if part else integer) + plain[first.end() :]


def _between(number: Decimal, plain: str, outside: str) -> str:
    """Fill digits from the right into a pattern that has other text between its digits."""
    digits = f"{number.to_integral_value(ROUND_HALF_UP):f}"
    out = []
    for position in range(len(plain) - 1, -1, -1):
        char = outside[position]
        if char not in "0#?":
            out.append(plain[position])
        elif digits:
            out.append(digits[-1])
            digits = digits[:-1]
        elif char == "0":
            out.append("0")
    return digits + "".join(reversed(out))


def _scientific(number: Decimal, pattern: re.Match[str]) -> str:
    places = len(pattern[1].partition(".")[2])
    mantissa, _, exponent = f"{number:.{places}E}".partition("E")
    sign = "-" if exponent.startswith("-") else "+" if pattern[2] == "+" else ""
    return f"{mantissa}E{sign}{exponent.lstrip('+-').rjust(len(pattern[3]), '0')}"


def _fraction(number: Decimal, pattern: re.Match[str]) -> str:
    whole = int(number)
    rest = Fraction(number - whole)
    if pattern[2].isdigit() and int(pattern[2]):
        part, denominator = round(rest * int(pattern[2])), int(pattern[2])
    else:
        near = rest.limit_denominator(10 ** len(pattern[2]) - 1)
        part, denominator = near.numerator, near.denominator
    if part == denominator:
        whole, part = whole + 1, 0
    shown = [str(whole)] if whole or not part else []
    return " ".join([*shown, f"{part}/{denominator}"] if part else shown)
