"""Normalisation of command lines, misspellings and arithmetic in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache

from agentkit.llm.providers.offline.argument_matching import nodes_of
from agentkit.llm.providers.offline.lexicon import (
    GREETINGS,
    NUMBER_WORD,
    SMALL_TALK,
    SPOKEN_NUMBER,
    STOP_WORDS,
    spoken,
    vocabulary,
    words,
)
from agentkit.llm.providers.offline.question_parser import COLON, Question, Shape
from agentkit.text_encoding import split_lines


def spelled_out(text: str, *, sums: bool = True) -> str:
    """Rewrite a request as a sentence that names the action; a sentence is returned unchanged.

    With `sums` false, arithmetic in words is not rewritten, because its verb could be the action of a tool.

    Quotations, URLs, paths, JSON and text after a colon are never changed.
    """
    line = text.strip()
    if is_program(line):
        return f"run this Python code: {line}"
    command = _COMMAND.match(_TO_RUN.sub("", line))
    if command and "\n" not in line and (sentence := _sentence(*command.groups(default=""))):
        return sentence
    text = _lead_spelled_out(_OPENING.sub("", text))
    return _sums_spelled_out(text) if sums else text


def only_states(text: str) -> bool:
    """Whether the text only states a fact: `my file is called notes.txt`."""
    return _STATEMENT.match(text) is not None


def is_program(text: str) -> bool:
    """Whether the text is Python that calls functions other than those of a calculator."""
    nodes = nodes_of(text)
    if any(isinstance(node, ast.AnnAssign) for node in nodes):  # `python: len('abc')` is a sentence
        return False
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    return any(isinstance(each, ast.Attribute) or getattr(each, "id", "") in _BUILTINS for each in called)


def _sentence(prompt: str, program: str, rest: str) -> str | None:
    """Rewrite a command line as a sentence; None if it is not a command line, as in `more about tulips`."""
    if prompt:
        return _to_run(f"{program} {rest}".strip())
    for pattern, sentence in _MEANINGS.get(program.lower(), ()):
        if match := pattern.fullmatch(rest):
            return match.expand(sentence)
    syntax = _STRICT_SYNTAX if program in _WORDS_TOO else _SHELL_SYNTAX
    first, *others = rest.split(" ")
    is_known = first in _PROGRAMS.get(program, "").split(" ") and len(others) < _MAX_WORDS and "?" not in rest
    is_known = is_known or (program in _PRINTING and _LITERAL.fullmatch(rest) is not None)
    if program in _PROGRAMS and (is_known or syntax.search(rest)):
        return _to_run(f"{program} {rest}".strip())
    return None


def _to_run(command: str) -> str:
    mark = "" if "`" in command else "`"
    return f"run the shell command{mark and ' '}{mark or ': '}{command}{mark}"


def _lead_spelled_out(text: str) -> str:
    """Expand abbreviations before the first content word, and correct that word if it is a misspelt verb."""
    place = 0
    while match := _WORD.match(text, place):
        word = match.group(1)
        better = _HASTY.get(word.lower()) or _corrected(word.lower())
        if better:
            text = text[: match.start(1)] + better + text[match.end(1) :]
        if not better and word.lower() not in STOP_WORDS | GREETINGS:
            break
        place = match.start(1) + len(better or word)
    return text


def _corrected(word: str) -> str | None:
    """The verb that a word misspells by two swapped letters or, for long verbs, a missing letter."""
    if word in STOP_WORDS | SMALL_TALK or word in _VERBS:
        return None
    return next((verb for verb in _VERBS if word in _misspellings(verb)), None)


def _misspellings(verb: str) -> set[str]:
    places = range(1, len(verb))
    lost = {verb[:place] + verb[place + 1 :] for place in places if len(verb) > _SHORT_VERB}
    return lost | {verb[: place - 1] + verb[place] + verb[place - 1] + verb[place + 1 :] for place in places}


def _sums_spelled_out(text: str) -> str:
    """Rewrite arithmetic in words as formulas; long texts are not changed."""
    text = _vietnamese_digits(text) if len(text) <= _MAX_CHARS else text
    rows = (*_UNIT_SUMS, *_SUMS) if _names_unit(text) else _SUMS
    for pattern, formula in rows if len(text) <= _MAX_CHARS else ():
        matches = list(_compiled(pattern).finditer(text)) if _may_match(pattern, text.lower()) else []
        kept = [(span.start, span.end) for span in Question(text).of(*_VERBATIM) if span.sure] if matches else []
        colon = COLON.search(text)
        end = colon.start() if colon else len(text)
        for match in reversed(matches):
            inside = any(start < match.end() and match.start() < stop for start, stop in kept)
            if match.start() < end and not inside:
                text = text[: match.start()] + formula(match) + text[match.end() :]
    return text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@cache
def _words_of(pattern: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]{2,}", re.sub(r"\\[a-z]|\?P<\w+>", " ", pattern)))


def _may_match(pattern: str, text: str) -> bool:
    """Whether a text contains one of the words of a pattern: most patterns need not be compiled."""
    return any(word in text for word in _words_of(pattern))


def _vietnamese_digits(text: str) -> str:
    """The text with Vietnamese numbers in words beside an operation in digits: `2 cộng 3` for `hai cộng ba`."""
    if not _VIETNAMESE_OPERATION.search(text):
        return text
    return _VIETNAMESE_NUMBER.sub(lambda match: _vietnamese_number(match.group().lower()), text)


def _vietnamese_number(text: str) -> str:
    """The number expressed by Vietnamese words: 105 for `một trăm linh năm`, 2.5 for `hai phẩy năm` or `hai rưỡi`."""
    whole, _, decimals = text.partition(" phẩy ")
    if decimals:
        return f"{_vietnamese_integer(whole)}.{_vietnamese_integer(decimals)}"
    if not whole.endswith(" rưỡi"):
        return str(_vietnamese_integer(whole))
    whole = whole.removesuffix(" rưỡi")
    return f"{_vietnamese_integer(whole) + _VIETNAMESE_SCALES.get(whole.split()[-1], 1) / 2:.10g}"


def _vietnamese_integer(text: str) -> int:
    whole = part = 0
    unit: int | None = None
    for word in text.split():
        if word in _VIETNAMESE_SCALES:
            part += (1 if unit is None else unit) * _VIETNAMESE_SCALES[word]
            if _VIETNAMESE_SCALES[word] >= 1_000:
                whole, part = whole + part, 0
            unit = None
        elif word == "mười":
            part, unit = part + 10, None
        elif word not in _VIETNAMESE_FILLERS:
            unit = _VIETNAMESE_UNITS[word]
    return whole + part + (unit or 0)


@cache
def _unit_words() -> frozenset[str]:
    return frozenset(word for name in _units() for word in re.findall(r"[^\W\d_]+", name))


def _names_unit(text: str) -> bool:
    """Whether a text contains a word of a unit's name, so that the long patterns of units are worth compiling."""
    return any({word, word.removesuffix("s")} & _unit_words() for word in re.findall(r"[^\W\d_]+", text.lower()))


def _converted(match: re.Match[str]) -> str:
    """The formula that converts a quantity between two units: `3 * 1440` for the minutes in 3 days, `90 / 3.6`."""
    factor = _factor(match.group("given"), match.group("wanted"))
    if factor is None:
        return match.group()
    number = match.group("number").lower()
    if number in ("a", "an", "one"):
        count = "1"
    else:
        count = _ungrouped(number) if re.fullmatch(_N, number, re.IGNORECASE) else _vietnamese_number(number)
    if factor.numerator == 1 != factor.denominator or (not _is_decimal(factor) and _is_decimal(1 / factor)):
        return f"{count} / {_digits(1 / factor)}"
    exact = _is_decimal(factor) or factor.denominator > _LONG_FRACTION
    return f"{count} * {_digits(factor)}" if exact else f"{count} * {factor.numerator} / {factor.denominator}"


def _is_decimal(value: Fraction) -> bool:
    """Whether a fraction is written exactly with at most twelve decimals."""
    return (value * 10**12).denominator == 1


def _digits(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.12g}"


def _factor(given: str, wanted: str) -> Fraction | None:
    """How many of the wanted unit are one of the given; None if they do not measure the same or are ambiguous."""
    ones, others = _sizes(given), _sizes(wanted)
    shared = next((kind for kind in ones if kind in others), None)
    return ones[shared] / others[shared] if shared else None


def _sizes(unit: str) -> Mapping[str, Fraction]:
    """The size of a unit by what it measures: a year is 365 days and 12 months. Empty for an ambiguous unit."""
    if _ambiguity(unit):
        return {}
    unit = re.sub(r"\s*(?:/|\b(?:per|an?|trên|một)\b)\s*", "/", " ".join(unit.lower().split()))
    units = _units()
    sizes = [
        units.get(part) or units[part.removesuffix("s")] for part in ([unit] if unit in units else unit.split("/"))
    ]
    if len(sizes) == 1:
        return sizes[0]
    top, bottom = sizes
    return {f"{one}/{other}": top[one] / bottom[other] for one in top for other in bottom}


@cache
def _units() -> Mapping[str, Mapping[str, Fraction]]:
    """The table of units: for each name, its size by what it measures."""
    found: dict[str, dict[str, Fraction]] = {}
    for line in split_lines(_UNITS.strip()):
        kind, _, entries = line.strip().partition(": ")
        for entry in entries.split(", "):
            size, *names = entry.replace("_", " ").split("|")
            for name in names:
                found.setdefault(name, {})[kind] = Fraction(size)
    return found


def _ambiguity(unit: str) -> str:
    """Why a unit has no single size; empty for any other unit."""
    if _BITS_OR_BYTES.match(unit):
        return f"{unit!r} can be bits or bytes: write {unit[0]}bit or {unit[0]}B."
    if _OF_TWO_COUNTRIES.fullmatch(unit):
        return f"{unit!r} differ between countries: write US {unit} or imperial {unit}."
    return ""


def refused_conversion(text: str) -> str:
    """The reason for which a quantity cannot be converted as a text asks; empty for any other text."""
    for pattern in (*_CONVERSIONS, *_VIETNAMESE_CONVERSIONS) if _names_unit(text) else ():
        match = _compiled(pattern).search(text)
        if match is None or _factor(match.group("given"), match.group("wanted")) is not None:
            continue
        units = match.group("given"), match.group("wanted")
        unclear = next(filter(None, map(_ambiguity, units)), "")
        return unclear or f"{units[0]!r} cannot be converted to {units[1]!r}, which measures something else."
    return ""


def only_converts(text: str) -> bool:
    """Whether a text has a number and two units, and no other word of content: it is never a web search."""
    if not _names_unit(text):
        return False
    units = _compiled(rf"(?<![^\W\d_]){_UNIT}(?!\w)").findall(text)
    rest = words(_compiled(rf"(?<![^\W\d_]){_UNIT}(?!\w)|{_N}").sub(" ", text))
    has_number = bool(re.search(rf"{_N}|\ban?\b", text, re.IGNORECASE))
    return len(units) > 1 and has_number and STOP_WORDS.union(_CONVERTING).issuperset(rest)


def _counted(match: re.Match[str]) -> str:
    """`3 * 12` for 3 dozen, in parentheses if more of the text follows or precedes as a calculation."""
    number, group = match.group("number").lower(), match.group("given").lower()
    count = "1" if number in ("a", "an") else number if re.fullmatch(_N, number) else _vietnamese_number(number)
    size = next(iter(_units()[group].values()))
    written = f"{_ungrouped(count)} * {size}"
    around = match.string[: match.start()][-5:] + match.string[match.end() :][:5]
    return (
        f"({written})" if _compiled(r"plus|minus|times|inus |imes |d by |[-+*/]|divi|multi").search(around) else written
    )


def _template(written: str) -> Callable[[re.Match[str]], str]:
    return lambda match: _ungrouped(match.expand(written)) if "," in written else match.expand(written)


def _of_list(match: re.Match[str]) -> str:
    """`mean(4, 8, 15)` for `average of 4, 8 and 15`."""
    written = next(name for name, said in _FUNCTIONS.items() if re.fullmatch(said, match.group(1), re.IGNORECASE))
    return written.format(", ".join(_numbers(match.group(2))))


def _joined(sign: str) -> Callable[[re.Match[str]], str]:
    """`5 + 6 + 7` for `add 5, 6 and 7`."""
    return lambda match: sign.join(_numbers(match.group(1)))


def _numbers(text: str) -> list[str]:
    return [_ungrouped(number) for number in re.findall(_N, text, re.IGNORECASE)]


def _ungrouped(formula: str) -> str:
    """Remove thousands separators from a formula: commas separate arguments."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", formula)


def _in_steps(match: re.Match[str]) -> str:
    """`(13 * 17) - 5` for `13 * 17 and then subtract 5`."""
    written = match.group(1)
    for step in _STEP.finditer(match.group(2)):
        written = f"({written}) {_OPERATORS[step.group(1).lower()]} {step.group(2)}"
    return written


def _rows(table: str) -> dict[str, str]:
    """Parse a table of programs and their arguments, one program per line."""
    rows = (line.split(None, 1) for line in split_lines(table.strip()))
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


_MAX_CHARS, _MAX_WORDS = 1_000, 3
_VERBATIM = (Shape.QUOTE, Shape.URL, Shape.EMAIL, Shape.JSON, Shape.PATH)
_WORD = re.compile(r"[\s,]*([^\W\d_]+(?:['\u2019][^\W\d_]+)*)")
_TO_RUN = re.compile(r"\A(?:(?:please|can you|could you)\s+)*(?:run|execute)\s+(?=[a-z][\w.+-]*\b)", re.IGNORECASE)
_COMMAND = re.compile(r"(\$\s+)?([A-Za-z][\w.+-]*)\s*(?:(?<=\s)(.*))?", re.DOTALL)
_FILE = r"((?:~|\.{1,2})?/\S+|\S*[\w-]\.[A-Za-z]\w{0,5}|[A-Z][a-z]+file)"
_NAME = r"((?!-)[\w.~/-]*[\w~/.])"
_ADDRESS = r"[\"']?((?:https?://|www\.)[^\s\"']+)[\"']?"
_READING = ((re.compile(_FILE), r"read the file \1"),)
_LISTING = ((re.compile(""), "list the files"), (re.compile(_NAME), r"list the files in the folder \1"))
_FETCHING = ((re.compile(_ADDRESS), r"fetch \1"),)
_MEANINGS: Mapping[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    **dict.fromkeys(("cat", "less", "more", "head", "tail", "type", "bat"), _READING),
    **dict.fromkeys(("ls", "dir", "ll"), _LISTING),
    **dict.fromkeys(("curl", "wget", "get"), _FETCHING),
    "wc": ((re.compile(r"([\"'].+[\"'])"), r"count the words of \1"),),
}
"""Command-line programs that do the same as a tool, by the pattern of their arguments."""

_PROGRAMS = _rows(
    """
    git status log diff branch pull push stash remote show fetch checkout add commit tag blame init clone
    pip list freeze
    pip3 list freeze
    npm test install start
    docker ps images
    systemctl status
    """
)
_PROGRAMS |= dict.fromkeys(vocabulary("pwd whoami uptime uname hostname ps df du env"), "")
_PROGRAMS |= dict.fromkeys(vocabulary("grep sed awk tar rm mv cp chmod chown ssh mkdir python3 ls wc curl wget"), "-")
_PRINTING = vocabulary("echo printf")
_LITERAL = re.compile(
    r"(?:-[neE]+ )*(?:\"[^\"]*\"|'[^']*'|\$\{?\w+\}?"
    r"|(?!(?:chambers?|dots?|shows?|parks?|effects?|of|in|and|the|is|back|this|that|my|your|cancel\w*|locat\w*|sound\w*)\b)"
    r"[\w.,!:$-]+(?: [\w.,!:$-]+){0,2})"
)
"""A text to print: quoted, a variable, or up to three words that do not name a kind of echo."""

_WORDS_TOO = vocabulary("echo printf find touch kill ping sort python node make cat head tail dir git docker npm pip")
_PROGRAMS |= {word: _PROGRAMS.get(word, "-") for word in _WORDS_TOO}
"""Other programs, and the first arguments that identify a command line without further syntax."""

_SHELL_SYNTAX = re.compile(r"(?:^|\s)--?\w|\s\|{1,2}\s|\s&&\s|\s>{1,2}\s|\$\w|(?:^|\s)(?:~|\.{1,2})?/[\w.]")
_STRICT_SYNTAX = re.compile(r"(?:^|\s)--?\w|\s\|{1,2}\s|\s&&\s|\s>{1,2}\s")
_BUILTINS = vocabulary(
    "print len range sorted reversed list dict set tuple str repr enumerate zip map filter open type isinstance input"
)

_OPENING = re.compile(
    r"^\s*(?:(?:please|hi|hey|hello)[,\s]+)*i(?:['\u2019]d like| would like| want| need)(?: you)? to(?= \w)\s+",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\s*(?:my|our|his|her|their|the)(?: \w+){1,2} (?:is|are|was|were) (?:(?!:\s)[^,;?])+$", re.IGNORECASE
)

_HASTY = {
    **dict.fromkeys(("whats", "wats", "wuts"), "what's"),
    **dict.fromkeys(("wat", "wut", "waht"), "what"),
    **{short: f"{short[:-1]}'s" for short in ("whos", "wheres", "hows", "whens", "whys")},
    "u": "you",
    "exec": "execute",
    "gimme": "give me",
    "tldr": "summarize",
}
_VERBS = vocabulary(
    "calculate compute evaluate search read fetch list show write count parse validate create execute download"
)
_SHORT_VERB = 5

_N = rf"(?>(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)(?:\.\d+)?|\b(?:{NUMBER_WORD})\b)"
_LIST = rf"({_N}(?:, +{_N})*,? +(?:and|và) +{_N}|{_N}(?:, *{_N})+)"
_ALONE = (
    rf"(?!\s*(?:[-+*/^%\u00d7÷]|(?:plus|minus|times|divided|multiplied|squared|cubed|percent)\b|,? *and +{_N}| +to\b))"
)
_SUM = rf"([a-z]+\([^()]*\)|{_N}(?: [-+*/] {_N})+)(?=[\s?.!]*$)"
_END = r"(?=[\s?.!]*$)"
_OF = "(?: of| among| between)?(?: (?:the|these|following|numbers))*:? "
_FUNCTIONS = {
    "mean({})": "average|mean",
    "median({})": "median",
    "max({})": "largest|biggest|greatest|highest|maximum|max",
    "min({})": "smallest|least|lowest|minimum|min",
    "gcd({})": "greatest common (?:divisor|factor)|gcd|hcf",
    "lcm({})": "(?:least|lowest) common multiple|lcm",
}
"""Calculator functions with several arguments, and their names in English."""

_MONEY = r"(?: (?:dollars?|euros?|pounds?|bucks|usd|eur|yen|đồng|vnd)\b)?"

_PERCENT = r"\s?(?:%|percent)"
_PHAN_TRAM = r"\s?(?:%|percent|phần trăm)"
_WHOLE = "(?<!half of )(?<!third of )(?<!quarter of )(?<!twice )(?<!double )"
_MORE = "(?:(?:more|higher|greater|larger|bigger|above|over)(?: than)?)"
_LESS = "(?:(?:less|lower|fewer|smaller|cheaper|below|under)(?: than)?)"
_RAISED = "(?:plus|increased by|raised by|increases by|rises by|grows by|grew by|up by|\\+)"
_LOWERED = "(?:minus|decreased by|reduced by|lowered by|cut by|less|falls by|drops by|down by|-)"
_IN_PERCENT = r"(?:percent(?:age)?\b|%)"
_ROUNDED_TO = "(?:to|with) # (?:(?:decimal )?places?|decimals?|digits?)"
_EVENLY = "(?:evenly |equally )?"
_SHARED = rf"(?:(?:an?|the|our) [a-z]+ (?:of )?)?[$€£]?#{_MONEY}"
_SHARES = r"(?:people|persons|friends|kids|children|students|ways|parts|of us|equal parts|groups|teams)\b"

_OPERATORS = {"add": "+", "plus": "+", "subtract": "-", "minus": "-", "multiply": "*", "times": "*", "divide": "/"}
_STEP = re.compile(
    rf"(?:,| and| then)+ ({'|'.join(_OPERATORS)})(?: it| that| the result)?(?: by)? ({_N})", re.IGNORECASE
)
_VIETNAMESE_UNITS = {
    word: value
    for value, said in enumerate(
        ("không", "một mốt", "hai", "ba", "bốn tư", "năm lăm", "sáu", "bảy bẩy", "tám", "chín")
    )
    for word in said.split()
}
_VIETNAMESE_SCALES = {"mươi": 10, "trăm": 100, "nghìn": 1_000, "ngàn": 1_000, "triệu": 1_000_000}
_VIETNAMESE_FILLERS = frozenset({"linh", "lẻ"})
_VIETNAMESE_WORD = rf"(?:{'|'.join([*_VIETNAMESE_UNITS, *_VIETNAMESE_SCALES, 'mười', *_VIETNAMESE_FILLERS])})"
_VIETNAMESE_PART = rf"{_VIETNAMESE_WORD}(?:\s+{_VIETNAMESE_WORD})*"
_VIETNAMESE_NUMBER = re.compile(
    rf"(?<!phần )(?<!bậc )\b{_VIETNAMESE_PART}(?: phẩy {_VIETNAMESE_PART}| rưỡi)?\b(?!\s+(?:bậc|phương))", re.IGNORECASE
)
_VIETNAMESE_OPERATION = re.compile(
    rf"\b(?:{_VIETNAMESE_WORD}|rưỡi)\s+(?:cộng|trừ|nhân|chia|mũ|tăng|giảm|phần trăm)\b"
    rf"|\b(?:cộng|trừ|nhân|chia|mũ|căn bậc hai(?: của)?|phần trăm của)(?:\s+(?:với|cho|đi))?\s+{_VIETNAMESE_WORD}\b",
    re.IGNORECASE,
)

_UNITS = """
    time: 1|second|sec|s|giây, 60|minute|min|phút, 3600|hour|hr|h|giờ|tiếng, 86400|day|ngày, 604800|week|tuần
    time: 1209600|fortnight, 31536000|year|năm
    months: 1|month|tháng, 12|year|năm, 120|decade|thập_kỷ|thập_niên, 1200|century|centuries|thế_kỷ, 12000|millennium
    length: 1|meter|metre|m|mét, 1000|kilometer|kilometre|km|kilômét|ki-lô-mét|cây_số, 1e-6|micrometer|micron
    length: 1e-3|millimeter|millimetre|mm|milimét, 1e-2|centimeter|centimetre|cm|xentimét|phân, 0.1|decimeter|dm
    length: 0.0254|inch|inches|inche, 0.3048|foot|feet|ft, 0.9144|yard|yd, 1609.344|mile|mi|dặm
    length: 1852|nautical_mile|hải_lý, 1e-9|nanometer|nm
    mass: 1|gram|gramme|g|gam, 1e-3|milligram|mg, 1000|kilogram|kg|kilo|ký|cân, 1000000|ton|tonne|tấn, 100000|tạ
    mass: 453.59237|pound|lb, 28.349523125|ounce|oz, 6350.29318|stone
    volume: 1|liter|litre|l|lít, 1e-3|milliliter|millilitre|ml, 0.01|centiliter|centilitre|cl, 1000|cubic_meter
    volume: 1|gallon|quart|pint|fluid_ounce, 3.785411784|us_gallon, 0.946352946|us_quart, 0.473176473|us_pint
    volume: 4.54609|imperial_gallon|uk_gallon, 1.1365225|imperial_quart|uk_quart, 0.56826125|imperial_pint|uk_pint
    area: 1|square_meter|square_metre|m2|m²|mét_vuông, 10000|hectare|ha|héc-ta, 4046.8564224|acre
    area: 1000000|square_kilometer|square_kilometre|km2|km², 0.09290304|square_foot|square_feet
    length/time: 0.44704|mph, 5/18|kph|kmh|kmph, 463/900|knot|hải_lý_trên_giờ
    data: 1|bit, 8|byte, 8e3|kilobyte|kb, 8e6|megabyte|mb|meg, 8e9|gigabyte|gb|gig, 8e12|terabyte|tb, 8e15|petabyte|pb
    data: 1000|kilobit|kbit, 1e6|megabit|mbit, 1e9|gigabit|gbit, 8192|kibibyte|kib, 8388608|mebibyte|mib
    data: 8589934592|gibibyte|gib, 8796093022208|tebibyte|tib, 4|nibble
    data/time: 1|bps, 1000|kbps, 1e6|mbps, 1e9|gbps
    number: 1|unit|piece|item|cái|quả|chiếc, 2|pair|couple|cặp|đôi, 12|dozen|tá, 20|score, 144|gross
    pressure: 100000|bar, 101325|atm, 1|pascal|pa, 1000|kilopascal|kpa, 6894.757293168|psi
    energy: 1|joule|j, 1000|kilojoule|kj, 4.184|calorie, 4184|kilocalorie|kcal, 3600000|kilowatt_hour|kwh
    power: 1|watt|w, 1000|kilowatt|kw, 745.69987158227|horsepower|hp
"""
"""Units by what they measure, each size before its names. KB, MB and GB are powers of 1,000; KiB and MiB of 1,024."""

_LONG_FRACTION = 9_999
_OF_TWO_COUNTRIES = re.compile("(?:gallon|quart|pint|fluid ounce)s?", re.IGNORECASE)
_BITS_OR_BYTES = re.compile("[KMGT]b(?:/s)?$")
_CONVERTING = vocabulary("convert equal equals exactly express change make makes become becomes fast far heavy worth")
_ONE_UNIT = rf"(?:{'|'.join(re.escape(name) for name in sorted(_units(), key=len, reverse=True))})s?(?![^\W\d_])"
_UNIT = rf"{_ONE_UNIT}(?:\s?(?:/|\b(?:per|an?|trên|một)\b)\s?{_ONE_UNIT})?"
_QUANTITY = rf"(?P<number>{{}})\s?(?P<given>{_UNIT})"
_HOW_BIG = (
    "(?:(?:how (?:fast|far|long|heavy|much|big|tall|high|large|deep) (?:is|are)"
    "|(?:an? |the )?(?:speed|length|weight|mass|distance|size|volume|area) of) )?"
)
_CONVERSIONS = (
    rf"\bhow many (?P<wanted>{_UNIT})(?: (?:are|is|does|do|make|makes|equals?))?(?: there)?(?: (?:in|per))?"
    rf" {_QUANTITY.format(rf'{_N}|an?')}(?: (?:have|has|contain|last|make)s?\b)?",
    rf"\b(?:convert |change |express |turn )?{_HOW_BIG}{_QUANTITY.format(_N)} (?:in|to|into|as) (?P<wanted>{_UNIT})",
    rf"\b{_QUANTITY.format(rf'{_N}|an?')} (?:is|are|equals?|=|makes?) (?:how many|how much in|what in)"
    rf" (?P<wanted>{_UNIT})",
    rf"\b(?P<wanted>{_UNIT}) (?:in|per) {_QUANTITY.format(rf'{_N}|an?')}",
)
_VIETNAMESE_CONVERSIONS = (
    rf"(?:(?:chuyển đổi|quy đổi|đổi|chuyển) )?\b{_QUANTITY.format(f'{_N}|{_VIETNAMESE_PART}')} "
    rf"(?:(?:thì )?(?:bằng|là|có|=|gồm)|(?:đổi |quy )?(?:ra|sang|thành))(?: (?:được )?(?:bao nhiêu|mấy))?"
    rf" (?P<wanted>{_UNIT})(?: là bao nhiêu)?",
    rf"(?:có )?bao nhiêu (?P<wanted>{_UNIT}) (?:trong|ở trong|bằng) {_QUANTITY.format(f'{_N}|{_VIETNAMESE_PART}')}",
)

_GROUPS = "dozen|score|gross|pair|couple"
_GROUPED = rf"(?P<number>{_N}|an?) (?P<given>{_GROUPS})s?"
_COUNTS = (
    rf"\bhow many (?P<noun>[a-z]+)(?: (?:are|is|do|does|make|makes|there|in))* {_GROUPED}(?: (?:of )?(?P=noun))?{_END}",
    rf"\b{_GROUPED}(?: (?:of )?(?P<noun>[a-z]+))? (?:is|are|equals?|=|makes?) (?:how many(?: (?P=noun))?|what){_END}",
    rf"\A(?:(?:what|how (?:much|many)) (?:is|are) |what's )?{_GROUPED}(?: [a-z]+)?{_END}",
    rf"\b{_GROUPED}(?= (?:plus|minus|times|divided|multiplied|[-+*/]))",
    rf"(?<=plus |inus |imes |d by )(?<! of ){_GROUPED}{_END}",
    rf"\A(?P<number>{_VIETNAMESE_PART}|{_N}) (?P<given>tá|cặp|đôi)(?: (?!là|bằng|có)\w+){{0,2}}"
    rf"(?: (?:là|bằng|có)(?: tất cả)? (?:bao nhiêu|mấy)(?: \w+)?)?{_END}",
)
"""Numbers of things that are counted in dozens, scores or pairs."""

_UP = "tax|vat|gst|tip|surcharge|service(?: charge)?|interest|markup|more|fee"
_DOWN = "off|discount|less|markdown|rebate"
_CHARGES = "(?:sales )?tax|vat|gst|tip|surcharge|service(?: charge)?|fee|thuế|phí"
_AFTER = "then|after|follow|on top|rồi|sau"
_REPEATED = " (?:by|another|again|further|additional|extra|nữa|tiếp)\\b"
_RISES = "add|plus|increase|increased|raise|raised|grow|up|with|and|cộng|thêm|tăng|lên"
_FALLS = "take|minus|subtract|decrease|decreased|reduce|reduced|down|cut|less|trừ|giảm|bớt"
_CHANGE = (
    rf"(?:,| and| then| followed by| plus| with| rồi| sau đó| và)*,? ?(?:\b(?P<verb>{_RISES}|{_FALLS})\b)?"
    rf"(?: (?:it|that|the result|by|a|an|another|again|further|additional|extra|thêm|giá|đi|tiếp|lên))*"
    rf" ?\b(?P<percent>{_N})\s?(?:%|percent\b|phần trăm\b)"
    rf"(?: (?P<noun>{_UP}|{_DOWN}|sales tax|thuế|phí|nữa))?(?: (?:on top|again|to it|from it|to that|from that))*"
)
_CHANGES = (
    rf"(?P<base>{_N}(?: [-+*/] \(?{_N}(?: [-+] {_N}\))?)+)(?P<rest>(?:{re.sub('[?]P<[a-z]+>', '?:', _CHANGE)})++){_END}"
)


def _changed(match: re.Match[str]) -> str:
    """`(80 * (100 - 25) / 100) * (100 + 8) / 100` for `80 * (100 - 25) / 100 then add 8% tax`."""
    written, rises = match.group("base"), "(100 - " not in match.group("base")
    for step in _compiled(_CHANGE).finditer(match.group("rest")):
        noun, verb = ((step.group(name) or "").lower() for name in ("noun", "verb"))
        if "(100 + " in written and re.fullmatch(_CHARGES, noun) and not _compiled(_AFTER).search(step.group()):
            return match.group()  # a tip next to a tax can be of the price alone
        if not noun and verb in ("", "and", "with") and not _compiled(_REPEATED).search(step.group()):
            return match.group()
        if re.fullmatch(_DOWN, noun) or (not noun and verb in _FALLS.split("|")):
            rises = False
        elif noun not in ("", "nữa") or verb not in ("", "and", "with"):
            rises = True
        written = f"({written}) * (100 {'+' if rises else '-'} {step.group('percent')}) / 100"
    return written


_UNIT_SUMS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (rf"\bhalf an? (?={_UNIT})", lambda _: "0.5 "),
    *((pattern, _converted) for pattern in (*_CONVERSIONS, *_VIETNAMESE_CONVERSIONS)),
)
_SUMS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    *((pattern, _counted) for pattern in _COUNTS),
    (
        rf"\bhow many dozens?(?: [a-z]+)?(?: (?:are|is|in|make|makes|there))* ({_N})(?: [a-z]+)?{_END}",
        _template(r"\1 / 12"),
    ),
    (SPOKEN_NUMBER.pattern, lambda match: f"{spoken(match.group()):.0f}"),
    *(
        # In the templates # is a number, and _ at the end means that no further arithmetic can follow.
        (
            rf"\b{pattern.replace('#', f'({_N})').replace('_', _ALONE)}",
            _template(written) if isinstance(written, str) else written,
        )
        for pattern, written in (
            (rf"({'|'.join(_FUNCTIONS.values())}){_OF}{_LIST}_", _of_list),
            (rf"(?:sum|total){_OF}{_LIST}_", _joined(" + ")),
            (rf"product{_OF}{_LIST}_", _joined(" * ")),
            (rf"add(?: up| together)? {_LIST}(?: up| together)?{_END}", _joined(" + ")),
            (rf"{_LIST} (?:add|added|sum)(?: up to| up| together| to)\b", _joined(" + ")),
            ("add # (?:and|to) #_", r"\1 + \2"),
            ("(?:subtract|take) #(?: away)? from #_", r"\2 - \1"),
            ("difference between # and #_", r"\1 - \2"),
            ("multiply # (?:by|and|with) #_", r"\1 * \2"),
            ("divide # by #_", r"\1 / \2"),
            (rf"(?:split|share|divide) {_SHARED} {_EVENLY}(?:(?:by|among|between|into|in) )?# {_SHARES}", r"\1 / \2"),
            (rf"(?:split|share) {_SHARED} {_EVENLY}(?:among|between|with) #_", r"\1 / \2"),
            (rf"{_SHARED} (?:split|shared|divided) {_EVENLY}(?:(?:by|among|between|into|in) )?# {_SHARES}", r"\1 / \2"),
            ("remainder (?:of|when|if|for) #(?: is)? (?:divided by|/) #_", r"\1 % \2"),
            ("half of #_", r"\1 / 2"),
            (rf"(?:twice|double) #{_END}", r"2 * \1"),
            (rf"(?:triple|thrice) #{_END}", r"3 * \1"),
            (rf"(?:a|one) third of #{_END}", r"\1 / 3"),
            (rf"(?:a|one) quarter of #{_END}", r"\1 / 4"),
            (rf"two thirds of #{_END}", r"2 / 3 * \1"),
            (rf"three quarters of #{_END}", r"3 / 4 * \1"),
            (r"# to the (\d+)(?:st|nd|rd|th)(?: power)?\b", r"\1 ** \2"),
            ("# raised to the power (?:of )?#", r"\1 ** \2"),
            ("sqrt of #_", r"sqrt(\1)"),
            ("square of #_", r"\1 ** 2"),
            ("cube of #_", r"\1 ** 3"),
            ("# factorial|factorial of #_", lambda match: f"factorial({match.group(1) or match.group(2)})"),
            ("# choose #_", r"comb(\1, \2)"),
            ("log(?:arithm)? of # (?:(?:in|to|with) )?(?:the )?base #_", r"log(\1, \2)"),
            ("log(?:arithm)?(?: in| to| with)?(?: the)? base # of #_", r"log(\2, \1)"),
            ("natural log(?:arithm)? of #_", r"ln(\1)"),
            ("(sin|cos|tan)(?:e|ine|gent)? of #(?: degrees|°)", r"\1(radians(\2))"),
            (rf"(sin|cos|tan)(?:e|ine|gent)? of (pi(?:/\d+)?|{_N})(?: radians)?_", r"\1(\2)"),
            (r"(?:convert )?# degrees (?:in|to|into) radians\b", r"radians(\1)"),
            (r"(?:convert )?# radians (?:in|to|into) degrees\b", r"degrees(\1)"),
            (r"hypotenuse of #(?: and|,) #_", r"hypot(\1, \2)"),
            (r"round # to #(?: decimals?| digits?)?(?: places?)?(?! \w)", r"round(\1, \2)"),
            (rf"round # to the nearest (?:integer|whole number|whole){_END}", r"round(\1)"),
            (r"(?:what|how many) percent(?:age)? of # is #_", r"\2 / \1 * 100"),
            (
                rf"({_N}(?: ?[-+*/] ?{_N})+),? (?:round(?:ed)?(?: off)? )?{_ROUNDED_TO}",
                r"round(\1, \2)",
            ),
            (rf"square root of #,? {_ROUNDED_TO}", r"round(sqrt(\1), \2)"),
            (rf"(?<![-+*/] )#,? round(?:ed)?(?: off)? {_ROUNDED_TO}", r"round(\1, \2)"),
            (rf"({_N}(?: ?[-+*/] ?{_N})+),? rounded{_END}", r"round(\1)"),
            (r"(?:what|how many) percent(?:age)? (?:is )?# (?:is )?of #_", r"\1 / \2 * 100"),
            (r"# is (?:what|how many) percent(?:age)? of #_", r"\1 / \2 * 100"),
            (rf"#\s?(?:%|percent) (?:tip|tax|vat|sales tax) (?:on|for|of) [$€£]?#{_MONEY}", r"\1% of \2"),
            (r"(?:tip|tax|vat) of #\s?(?:%|percent) (?:on|for|of) [$€£]?#", r"\1% of \2"),
            (rf"save (?:with|at|on) #{_PERCENT} off (?:of )?[$€£]?#{_MONEY}", r"\1% of \2"),
            (rf"add #{_PERCENT} (?:tip|tax|vat|sales tax) to [$€£]?#{_MONEY}", r"\2 * (100 + \1) / 100"),
            (rf"#{_MONEY} (?:plus|with|and) #{_PERCENT} (?:tip|tax|vat|sales tax)\b", r"\1 * (100 + \2) / 100"),
            (rf"(?:tip|tax) #{_PERCENT} (?:on|of|for) [$€£]?#{_MONEY}", r"\1% of \2"),
            (
                rf"(?:(?:take|apply|get) )?#{_PERCENT} off (?:of )?(?:an? |the )?[$€£]?#{_MONEY}",
                r"\2 * (100 - \1) / 100",
            ),
            (
                rf"(?:(?:take|apply|get) )?(?:an? )?#{_PERCENT} discount (?:on|off|of|to) [$€£]?#{_MONEY}",
                r"\2 * (100 - \1) / 100",
            ),
            (rf"#{_MONEY} (?:with|at|minus)(?: an?)? #{_PERCENT} (?:off|discount)\b", r"\1 * (100 - \2) / 100"),
            (rf"# (?:out of|of) # (?:in|as an?) {_IN_PERCENT}", r"\1 / \2 * 100"),
            (rf"(?:(?:express|write|convert) )?#\s?/\s?# (?:in|to|as)(?: an?)? {_IN_PERCENT}", r"\1 / \2 * 100"),
            (
                r"(?:convert )?#\s?°?\s?(?:degrees )?(?:c|celsius) (?:in|to|into)(?: degrees)? (?:f|fahrenheit)\b",
                r"\1 * 9 / 5 + 32",
            ),
            (
                r"(?:convert )?#\s?°?\s?(?:degrees )?(?:f|fahrenheit) (?:in|to|into)(?: degrees)? (?:c|celsius)\b",
                r"(\1 - 32) * 5 / 9",
            ),
            (r"(?:increase|raise) # by #\s?(?:%|percent)", r"\1 * (100 + \2) / 100"),
            (r"(?:decrease|reduce|lower|cut) # by #\s?(?:%|percent)", r"\1 * (100 - \2) / 100"),
            (rf"#{_PERCENT} {_MORE} (?:than )?[$€£]?#{_MONEY}_", r"\2 * (100 + \1) / 100"),
            (rf"#{_PERCENT} {_LESS} (?:than )?[$€£]?#{_MONEY}_", r"\2 * (100 - \1) / 100"),
            (rf"{_WHOLE}#{_MONEY},? (?:is )?{_RAISED} #{_PERCENT}(?! *of\b)", r"\1 * (100 + \2) / 100"),
            (rf"{_WHOLE}#{_MONEY},? (?:is )?{_LOWERED} #{_PERCENT}(?! *of\b)", r"\1 * (100 - \2) / 100"),
            (rf"#{_MONEY} and #{_PERCENT} (?:more|extra|on top){_END}", r"\1 * (100 + \2) / 100"),
            (rf"#{_MONEY} and #{_PERCENT} less{_END}", r"\1 * (100 - \2) / 100"),
            (rf"(?:add|apply) (?:an? )?#{_PERCENT} (?:more )?to [$€£]?#{_MONEY}", r"\2 * (100 + \1) / 100"),
            (rf"(?:take|subtract|deduct) #{_PERCENT} (?:away )?from [$€£]?#{_MONEY}", r"\2 * (100 - \1) / 100"),
            (rf"(?:tăng|thêm|cộng)(?: thêm)? #{_PHAN_TRAM} (?:của|cho|vào|từ) #{_MONEY}", r"\2 * (100 + \1) / 100"),
            (
                rf"(?:giảm|bớt|trừ)(?: giá| đi)? #{_PHAN_TRAM} (?:của|cho|từ|trên|khỏi) #{_MONEY}",
                r"\2 * (100 - \1) / 100",
            ),
            (
                rf"#{_MONEY} (?:được )?(?:tăng|cộng|thêm)(?: thêm| lên)* #{_PHAN_TRAM}(?! *(?:của|of)\b)",
                r"\1 * (100 + \2) / 100",
            ),
            (
                rf"#{_MONEY} (?:được )?(?:giảm|trừ|bớt)(?: giá| đi| còn)* #{_PHAN_TRAM}(?! *(?:của|of)\b)"
                "(?: (?:thì )?còn(?: lại)?)?",
                r"\1 * (100 - \2) / 100",
            ),
            (rf"(?:tăng|nâng) # (?:lên |thêm )+#{_PHAN_TRAM}", r"\1 * (100 + \2) / 100"),
            (rf"(?:giảm|hạ) # (?:đi |xuống |bớt )+#{_PHAN_TRAM}", r"\1 * (100 - \2) / 100"),
            (rf"(?:nhiều|cao|lớn|hơn)(?: hơn)? # (?:là )?#{_PHAN_TRAM}", r"\1 * (100 + \2) / 100"),
            (rf"(?:ít|thấp|nhỏ|kém)(?: hơn)? # (?:là )?#{_PHAN_TRAM}", r"\1 * (100 - \2) / 100"),
            (rf"#{_PHAN_TRAM} (?:nhiều|cao|lớn) hơn #{_MONEY}", r"\2 * (100 + \1) / 100"),
            (rf"#{_PHAN_TRAM} (?:ít|thấp|nhỏ) hơn #{_MONEY}", r"\2 * (100 - \1) / 100"),
            (rf"half (?:of )?the {_SUM}", r"(\1) / 2"),
            (rf"(?:twice|double) the {_SUM}", r"2 * (\1)"),
            (rf"third of the {_SUM}", r"(\1) / 3"),
            (rf"square root of the {_SUM}", r"sqrt(\1)"),
            (rf"square of the {_SUM}", r"(\1) ** 2"),
            (rf"#\s?(%|percent) of the {_SUM}", r"\1% of (\3)"),
            (rf"# (plus|minus|times|divided by) the {_SUM}", r"\1 \2 (\3)"),
            (rf"({_N} [-+*/] {_N})((?:{_STEP.pattern})+)_", _in_steps),
        )
    ),
    (_CHANGES, _changed),
)
"""Arithmetic in words, with the calculator's formula. The first row converts long numbers in words to digits."""
