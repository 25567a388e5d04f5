"""Normalisation of command lines, misspellings and arithmetic in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
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
    for pattern, formula in _SUMS if len(text) <= _MAX_CHARS else ():
        matches = list(_compiled(pattern).finditer(text)) if _may_match(pattern, text.lower()) else []
        kept = [(span.start, span.end) for span in Question(text).of(*_VERBATIM)] if matches else []
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


def _converted(match: re.Match[str]) -> str:
    """The formula that converts a quantity between two units: `3 * 1440` for the minutes in 3 days."""
    wanted, number, given = match.group("wanted"), match.group("number"), match.group("given")
    (kind, smaller), (other, larger) = _UNITS[_singular(wanted)], _UNITS[_singular(given)]
    if kind != other:
        return match.group()
    count = "1" if number.lower() in ("a", "an", "one") else _ungrouped(number)
    divisor = round(smaller / larger, 9)
    if divisor > 1 and divisor.is_integer():
        return f"{count} / {divisor:.0f}"
    return f"{count} * {round(larger / smaller, 12):.12g}"


def _singular(unit: str) -> str:
    unit = {"feet": "foot", "inches": "inch"}.get(unit.lower(), unit.lower())
    return unit if unit in _UNITS else unit.removesuffix("s")


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
_WORDS_TOO = vocabulary("echo find touch kill ping sort python node make cat head tail dir git docker npm pip")
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
    rf"\b(?:{_VIETNAMESE_WORD}|rưỡi)\s+(?:cộng|trừ|nhân|chia|mũ|phần trăm)\b"
    rf"|\b(?:cộng|trừ|nhân|chia|mũ|căn bậc hai(?: của)?|phần trăm của)(?:\s+(?:với|cho|đi))?\s+{_VIETNAMESE_WORD}\b",
    re.IGNORECASE,
)

_UNITS: Mapping[str, tuple[str, float]] = {
    **{name: ("time", seconds) for name, seconds in (("second", 1.0), ("minute", 60.0), ("hour", 3_600.0))},
    **{name: ("time", seconds) for name, seconds in (("day", 86_400.0), ("week", 604_800.0))},
    **{name: ("length", metres) for name, metres in (("millimeter", 0.001), ("centimeter", 0.01), ("meter", 1.0))},
    **{name: ("length", metres) for name, metres in (("millimetre", 0.001), ("centimetre", 0.01), ("metre", 1.0))},
    **dict.fromkeys(("kilometer", "kilometre", "km"), ("length", 1000.0)),
    **{name: ("length", metres) for name, metres in (("mm", 0.001), ("cm", 0.01), ("inch", 0.0254), ("foot", 0.3048))},
    **{name: ("length", metres) for name, metres in (("yard", 0.9144), ("mile", 1_609.344))},
    **{name: ("time", seconds) for name, seconds in (("min", 60.0), ("year", 31_536_000.0))},
    **{name: ("mass", grams) for name, grams in (("pound", 453.59237), ("lb", 453.59237), ("ounce", 28.349523125))},
    **{name: ("mass", grams) for name, grams in (("milligram", 0.001), ("gram", 1.0), ("kilogram", 1_000.0))},
    **{name: ("mass", grams) for name, grams in (("kg", 1_000.0), ("ton", 1_000_000.0), ("tonne", 1_000_000.0))},
    **{name: ("volume", litres) for name, litres in (("milliliter", 0.001), ("millilitre", 0.001), ("ml", 0.001))},
    **dict.fromkeys(("liter", "litre"), ("volume", 1.0)),
}
"""Units that a factor converts into each other, with their dimension and size; a year has 365 days."""

_UNIT = rf"(?:{'|'.join(_UNITS)}|inche|feet)s?"
_QUANTITY = rf"(?P<number>{{}})\s?(?P<given>{_UNIT})\b"
_CONVERSIONS = (
    rf"\bhow many (?P<wanted>{_UNIT})(?: (?:are|is|does|do))?(?: there)?(?: in)? {_QUANTITY.format(rf'{_N}|an?')}"
    r"(?: (?:have|has|contain|last)s?\b)?",
    rf"\b(?:convert |change )?{_QUANTITY.format(_N)} (?:in|to|into|as) (?P<wanted>{_UNIT})\b",
    rf"\b(?P<wanted>{_UNIT}) in {_QUANTITY.format(rf'{_N}|an?')}",
)

_SUMS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    *((pattern, _converted) for pattern in _CONVERSIONS),
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
            (rf"#{_PERCENT} off (?:of )?(?:an? |the )?[$€£]?#{_MONEY}", r"\2 * (100 - \1) / 100"),
            (rf"(?:an? )?#{_PERCENT} discount (?:on|off|of) [$€£]?#{_MONEY}", r"\2 * (100 - \1) / 100"),
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
            (r"(?:decrease|reduce) # by #\s?(?:%|percent)", r"\1 * (100 - \2) / 100"),
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
)
"""Arithmetic in words, with the calculator's formula. The first row converts long numbers in words to digits."""
