"""Normalisation of command lines, misspellings and arithmetic in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from agentkit.llm.providers.offline.argument_matching import nodes_of
from agentkit.llm.providers.offline.lexicon import (
    GREETINGS,
    NUMBER_PHRASE,
    NUMBER_WORD,
    NUMBER_WORDS,
    SMALL_TALK,
    STOP_WORDS,
    VIETNAMESE_LETTER,
    VIETNAMESE_NUMBER,
    number_from_words,
    table,
    vietnamese_number,
    with_vietnamese_digits,
    word_set,
    words,
)
from agentkit.llm.providers.offline.question_parser import COLON, Question, Shape


def normalised(text: str, *, has_calculator: bool = True) -> str:
    """Rewrite a request as a sentence that names the action; a sentence is returned unchanged.

    Without a calculator, arithmetic in words is not rewritten, because its verb could be the action of a tool.

    Quotations, URLs, paths, JSON and text after a colon are never changed.
    """
    line = text.strip()
    if is_program(line):
        return f"run this Python code: {line}"
    command = _COMMAND.match(_RUN_VERB.sub("", _OUTPUT_QUESTION.sub(r"\1", line)))
    if command and "\n" not in line and (sentence := _sentence(*command.groups(default=""))):
        return sentence
    text = _with_corrected_opening(_OPENING.sub("", text))
    return _with_formulas(text) if has_calculator else text


def is_statement(text: str) -> bool:
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
        return _shell_request(f"{program} {rest}".strip())
    for pattern, sentence in _MEANINGS.get(program.lower(), ()):
        if match := pattern.fullmatch(rest):
            return match.expand(sentence)
    syntax = _STRICT_SYNTAX if program in _WORDS_TOO else _SHELL_SYNTAX
    first, *others = rest.split(" ")
    is_known = first in _PROGRAMS.get(program, "").split(" ") and len(others) < _MAX_WORDS and "?" not in rest
    is_known = is_known or (program in _PRINTING and _LITERAL.fullmatch(rest) is not None)
    if program in _PROGRAMS and (is_known or syntax.search(rest)):
        return _shell_request(f"{program} {rest}".strip())
    return None


def _shell_request(command: str) -> str:
    mark = "" if "`" in command else "`"
    return f"run the shell command{mark and ' '}{mark or ': '}{command}{mark}"


def _with_corrected_opening(text: str) -> str:
    """Expand abbreviations before the first content word, and correct that word if it is a misspelt verb."""
    place = 0
    while match := _WORD.match(text, place):
        word = match.group(1)
        better = _ABBREVIATED.get(word.lower()) or _corrected(word.lower())
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
    for verb in _VERBS:
        parts = [(verb[: place - 1], verb[place - 1], verb[place], verb[place + 1 :]) for place in range(1, len(verb))]
        swapped = {start + second + first + end for start, first, second, end in parts}
        shortened = {start + first + end for start, first, _, end in parts if len(verb) > _SHORT_VERB}
        if word in swapped | shortened:
            return verb
    return None


def _with_formulas(text: str) -> str:
    """Rewrite arithmetic in words as formulas; a long text, or one without arithmetic, is returned unchanged."""
    if len(text) > _MAX_CHARS:
        return text
    text = with_vietnamese_digits(text)
    if not re.search(_NUMBER, text, re.IGNORECASE) and not _names_unit(text):
        return text
    plain = _with_plain_amounts(text)
    for version in dict.fromkeys((plain, text)):
        if (written := _with_templates_applied(version)) != version:
            return _PRICE_QUESTION.sub("is ", _PRICE_PHRASE.sub("", written))
    question = Question(plain)
    shapes = {span.shape if span.is_certain else None for span in question.spans}
    return plain if shapes == {Shape.EXPRESSION} and not question.numbers else text


def _with_templates_applied(text: str) -> str:
    for phrase, formula in (*_UNIT_TEMPLATES, *_templates()) if _names_unit(text) else _templates():
        lower = text.lower()
        is_possible = all(any(word in lower for word in options) for options in _required_words(phrase))
        matches = list(_compiled(phrase).finditer(text)) if is_possible else []
        if not matches:
            continue
        verbatim = [span for span in Question(text).spans_of(*_VERBATIM) if span.is_certain]
        colon = COLON.search(text)
        end = colon.start() if colon else len(text)
        for match in reversed(matches):
            inside = any(span.start < match.end() and match.start() < span.end for span in verbatim)
            if match.start() < end and not inside:
                replacement = (
                    formula(match)
                    if callable(formula)
                    else (_ungrouped(match.expand(formula)) if "," in formula else match.expand(formula))
                )
                text = text[: match.start()] + replacement + text[match.end() :]
    return text


@cache
def _compiled(phrase: str) -> re.Pattern[str]:
    """The pattern of a phrase, in which # is a number and <NAME> one of the parts."""
    ending = _NOT_CONTINUED if phrase.endswith("_") else _END if phrase.endswith("$") else ""
    pattern = _with_parts(phrase[:-1] if ending else phrase)
    pattern = pattern.replace("#%", f"({_NUMBER}){_PERCENT}").replace("#", f"({_NUMBER})")
    return re.compile(pattern + ending, re.IGNORECASE)


def _with_parts(phrase: str) -> str:
    for _ in range(2):  # parts contain other parts
        phrase = re.sub(r"<([A-Z_]+)>", lambda match: _parts()[match.group(1)], phrase)
    return phrase


@cache
def _required_words(phrase: str) -> tuple[tuple[str, ...], ...]:
    """Words of which every text of a phrase contains one of each tuple, so that most patterns need not be compiled.

    The groups of the pattern are replaced from the innermost on by a character that stands for their words.
    """
    words_of_groups: list[tuple[str, ...]] = []

    def words_in(text: str) -> list[tuple[str, ...]]:
        parts = re.findall(r"[^\W\d_]{2,}|[\ue000-\uf8ff]", re.sub(r"\w[?*]", " ", text))
        return [words_of_groups[ord(part) - 0xE000] if part >= "\ue000" else (part,) for part in parts]

    def placeholder(match: re.Match[str]) -> str:
        content, quantifier = match.groups()
        if quantifier.startswith(("?", "*")) or content.startswith(("?=", "?!", "?<")):
            return " "
        options = [words_in(option) for option in re.sub(r"^\?(?:[:>]|P<\w+>)", "", content).split("|")]
        if not all(options):
            return " "
        words_of_groups.append(tuple(word for option in options for word in option[0]))
        return chr(0xE000 + len(words_of_groups) - 1)

    text = re.sub(r"\[[^]]*\]|\\.", " ", _with_parts(phrase))
    while (shorter := re.sub(r"\(([^()]*)\)([?*+]*)", placeholder, text)) != text:
        text = shorter
    percent = [("%", "percent", "phần trăm")] if "#%" in phrase else []
    return () if "|" in text else (*words_in(text), *percent)


@cache
def _parts() -> Mapping[str, str]:
    numbers = {"NUMBER": _NUMBER, "NUMBER_VI": VIETNAMESE_NUMBER, "PERCENT": _PERCENT, "FORMULA": _FORMULA}
    return {**_FORMULA_DATA["parts"], **numbers}


@cache
def _templates() -> tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]:
    """The phrases of arithmetic with their formulas, in the order in which they are applied."""
    return (
        *((pattern, _group_formula) for pattern in _FORMULA_DATA["groups"]["phrases"]),
        (rf"\bhow many dozens?(?: [a-z]+)?(?: (?:are|is|in|make|makes|there))* ({_NUMBER})(?: [a-z]+)?$", r"\1 / 12"),
        (NUMBER_PHRASE.pattern, lambda match: f"{number_from_words(match.group()):.0f}"),
        (rf"\b({'|'.join(_FORMULA_DATA['functions'])}){_OF}{_LIST}_", _list_formula),
        (rf"\b(?:sum|total|tổng){_OF}{_LIST}_", _joined_by(" + ")),
        (rf"\b(?:product|tích){_OF}{_LIST}_", _joined_by(" * ")),
        (rf"\badd(?: up| together)? {_LIST}(?: up| together)?$", _joined_by(" + ")),
        (rf"(?<!\d,)(?<!\d, )\b{_LIST} (?:add|added|sum)(?: up to| up| together| to)\b", _joined_by(" + ")),
        *(
            (phrase if phrase.startswith("(?<!") else rf"\b{phrase}", formula)
            for phrase, formula in _FORMULA_DATA["phrases"].items()
        ),
        (rf"\b({_NUMBER} [-+*/] {_NUMBER})((?:{_STEP.pattern})+)_", _step_formula),
        (_CHANGES, _percentage_chain),
    )


def _with_plain_amounts(text: str) -> str:
    """The text with amounts of money and large numbers in digits: `20% off 2500000` for `20% off $2.5 million`.

    Different currencies are kept, because they cannot be added.
    """
    if not _AMOUNT_WORD.search(text) or Question(text).spans_of(*_VERBATIM):
        return text
    if VIETNAMESE_LETTER.search(text):
        text = re.sub(r"(?<![\d,.])(\d+),(\d{1,2}|\d{4,})(?![\d,.])", r"\1.\2", text)
    text = _FRACTION.sub(_decimal_fraction, text)
    text = re.sub(rf"({_NUMBER}) and a half\b", lambda match: _digits(_value(match.group(1)) + Fraction(1, 2)), text)
    text = _DECIMAL_IN_WORDS.sub(  # 2.5 for `two point five`
        lambda match: f"{_value(match[1])}." + "".join(f"{_value(word)}" for word in match[2].split()), text
    )
    text = _SCALED_NUMBER.sub(lambda match: _digits(_value(match.group(1)) * _SCALES[match.group(2).lower()]), text)
    text = _COMPOUND_QUANTITY.sub(_in_smaller_unit, text)
    currencies = {match.group().strip(" -").lower().removesuffix("s") for match in _CURRENCY.finditer(text)}
    if len({_SAME_CURRENCY.get(name, name) for name in currencies}) != 1:
        return text
    text = _PRICED_ITEM.sub(r"\1", text)
    text = re.sub(rf"({_NUMBER} (?:[a-z]+ ){{1,2}}at) [$€£]({_NUMBER})(?= *(?:[-+?.!]|plus\b|$))", r"\1 \2 each", text)
    return re.sub(r"[$€£]\s?(?=\d)", "", re.sub(rf"(?<=\d){_CURRENCY_WORD}", "", text, flags=re.IGNORECASE))


def _value(number: str) -> Fraction:
    """The value of a number in digits or of one number word."""
    return Fraction(NUMBER_WORDS[number.lower()] if number.lower() in NUMBER_WORDS else number.replace(",", ""))


def _decimal_fraction(match: re.Match[str]) -> str:
    """`3.5` for `3 1/2`, unless the fraction has no exact decimals."""
    whole, top, bottom = (int(part or 0) for part in match.groups())
    value = whole + Fraction(top, bottom or 1)
    return _digits(value) if bottom and _is_decimal(value) else match.group()


def _in_smaller_unit(match: re.Match[str]) -> str:
    """`150 minutes` for `2 hours and 30 minutes`."""
    first, unit, second, smaller = match.groups()
    known = all(name.removesuffix("s") in _units() or name in _units() for name in (unit.lower(), smaller.lower()))
    factor = _factor(unit, smaller) if known else None
    if factor is None or factor <= 1:
        return match.group()
    return f"{_digits(_value(first) * factor + _value(second))} {smaller}"


@cache
def _unit_words() -> frozenset[str]:
    return frozenset(word for name in _units() for word in re.findall(r"[^\W\d_]+", name))


def _names_unit(text: str) -> bool:
    """Whether a text contains a word of a unit's name, so that the long patterns of units are worth compiling."""
    return any({word, word.removesuffix("s")} & _unit_words() for word in re.findall(r"[^\W\d_]+", text.lower()))


def _conversion_formula(match: re.Match[str]) -> str:
    """The formula that converts a quantity between two units: `3 * 1440` for the minutes in 3 days, `90 / 3.6`."""
    factor = _factor(match.group("given"), match.group("wanted"))
    if factor is None:
        return match.group()
    number = match.group("number").lower()
    if number in ("a", "an", "one"):
        count = "1"
    else:
        count = _ungrouped(number) if re.fullmatch(_NUMBER, number, re.IGNORECASE) else vietnamese_number(number)
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
    ones, others = _unit_sizes(given), _unit_sizes(wanted)
    shared = next((kind for kind in ones if kind in others), None)
    return ones[shared] / others[shared] if shared else None


def _unit_sizes(unit: str) -> Mapping[str, Fraction]:
    """The size of a unit by what it measures: a year is 365 days and 12 months. Empty for an ambiguous unit."""
    if _unit_ambiguity(unit):
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
    for kind, sizes in table("lexicon.toml")["units"].items():
        for size, names in sizes.items():
            for name in names.split(", "):
                found.setdefault(name, {})[kind] = Fraction(size)
    return found


def _unit_ambiguity(unit: str) -> str:
    """Why a unit has no single size; empty for any other unit."""
    if _BITS_OR_BYTES.match(unit):
        return f"{unit!r} can be bits or bytes: write {unit[0]}bit or {unit[0]}B."
    if _OF_TWO_COUNTRIES.fullmatch(unit):
        return f"{unit!r} differ between countries: write US {unit} or imperial {unit}."
    return ""


def conversion_error(text: str) -> str:
    """The reason for which a quantity cannot be converted as a text asks; empty for any other text."""
    for pattern in (*_CONVERSIONS, *_VIETNAMESE_CONVERSIONS) if _names_unit(text) else ():
        match = _compiled(pattern).search(text)
        if match is None or _factor(match.group("given"), match.group("wanted")) is not None:
            continue
        units = match.group("given"), match.group("wanted")
        unclear = next(filter(None, map(_unit_ambiguity, units)), "")
        return unclear or f"{units[0]!r} cannot be converted to {units[1]!r}, which measures something else."
    return ""


def is_conversion_only(text: str) -> bool:
    """Whether a text has a number and two units, and no other word of content: it is never a web search."""
    if not _names_unit(text):
        return False
    units = _compiled(rf"(?<![^\W\d_]){_UNIT}(?!\w)").findall(text)
    rest = words(_compiled(rf"(?<![^\W\d_]){_UNIT}(?!\w)|{_NUMBER}").sub(" ", text))
    has_number = bool(re.search(rf"{_NUMBER}|\ban?\b", text, re.IGNORECASE))
    return len(units) > 1 and has_number and STOP_WORDS.union(_CONVERTING).issuperset(rest)


def _group_formula(match: re.Match[str]) -> str:
    """`3 * 12` for 3 dozen, in parentheses if more of the text follows or precedes as a calculation."""
    number, group = match.group("number").lower(), match.group("given").lower()
    count = "1" if number in ("a", "an") else number if re.fullmatch(_NUMBER, number) else vietnamese_number(number)
    size = next(iter(_units()[group].values()))
    written = f"{_ungrouped(count)} * {size}"
    around = match.string[: match.start()][-5:] + match.string[match.end() :][:5]
    return (
        f"({written})" if _compiled(r"plus|minus|times|inus |imes |d by |[-+*/]|divi|multi").search(around) else written
    )


def _list_formula(match: re.Match[str]) -> str:
    """`mean(4, 8, 15)` for `average of 4, 8 and 15`."""
    functions = _FORMULA_DATA["functions"].items()
    function = next(name for names, name in functions if re.fullmatch(names, match.group(1), re.IGNORECASE))
    return f"{function}({', '.join(_numbers(match.group(2)))})"


def _joined_by(sign: str) -> Callable[[re.Match[str]], str]:
    """`5 + 6 + 7` for `add 5, 6 and 7`."""
    return lambda match: sign.join(_numbers(match.group(1)))


def _numbers(text: str) -> list[str]:
    return [_ungrouped(number) for number in re.findall(_NUMBER, text, re.IGNORECASE)]


def _ungrouped(formula: str) -> str:
    """Remove thousands separators from a formula: commas separate arguments."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", formula)


def _step_formula(match: re.Match[str]) -> str:
    """`(13 * 17) - 5` for `13 * 17 and then subtract 5`."""
    written = match.group(1)
    for step in _STEP.finditer(match.group(2)):
        written = f"({written}) {_OPERATORS[step.group(1).lower()]} {step.group(2)}"
    return written


_MAX_CHARS, _MAX_WORDS = 1_000, 3
_VERBATIM = (Shape.QUOTE, Shape.URL, Shape.EMAIL, Shape.JSON, Shape.PATH)
_WORD = re.compile(r"[\s,]*([^\W\d_]+(?:['\u2019][^\W\d_]+)*)")
_RUN_VERB = re.compile(
    r"\A(?:(?:please|can you|could you|hãy)\s+)*(?:run|execute|(?:chạy|thực thi)(?: lệnh)?)\s+(?=[a-z][\w.+-]*\b)",
    re.IGNORECASE,
)
_OUTPUT_QUESTION = re.compile(r"\Awhat does ([a-z][^\n?]*) (?:say|print|output|show|return)\s*\??\Z", re.IGNORECASE)
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

_PROGRAMS: dict[str, str] = {
    **table("lexicon.toml")["programs"],
    **dict.fromkeys(word_set("programs_alone"), ""),
    **dict.fromkeys(word_set("programs_with_arguments"), "-"),
}
_PRINTING = word_set("printing_programs")
_LITERAL = re.compile(
    r"(?:-[neE]+ )*(?:\"[^\"]*\"|'[^']*'|\$\{?\w+\}?"
    r"|(?!(?:chambers?|dots?|shows?|parks?|effects?|of|in|and|the|is|back|this|that|my|your|cancel\w*|locat\w*|sound\w*)\b)"
    r"[\w.,!:$-]+(?: [\w.,!:$-]+){0,2})"
)
"""A text to print: quoted, a variable, or up to three words that do not name a kind of echo."""

_WORDS_TOO = word_set("programs_and_words")
_PROGRAMS |= {word: _PROGRAMS.get(word, "-") for word in _WORDS_TOO}
"""Other programs, and the first arguments that identify a command line without further syntax."""

_SHELL_SYNTAX = re.compile(r"(?:^|\s)--?\w|\s\|{1,2}\s|\s&&\s|\s>{1,2}\s|\$\w|(?:^|\s)(?:~|\.{1,2})?/[\w.]")
_STRICT_SYNTAX = re.compile(r"(?:^|\s)--?\w|\s\|{1,2}\s|\s&&\s|\s>{1,2}\s")
_BUILTINS = word_set("python_functions")

_OPENING = re.compile(
    r"^\s*(?:(?:please|hi|hey|hello)[,\s]+)*i(?:['\u2019]d like| would like| want| need)(?: you)? to(?= \w)\s+",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\s*(?:my|our|his|her|their|the)(?: \w+){1,2} (?:is|are|was|were) (?:(?!:\s)[^,;?])+$", re.IGNORECASE
)

_ABBREVIATED: Mapping[str, str] = table("lexicon.toml")["abbreviations"]
_VERBS = word_set("request_verbs")
_SHORT_VERB = 5

_FORMULA_DATA: Mapping[str, Mapping[str, Any]] = table("formulas.toml")
_NUMBER = rf"(?>(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)(?:\.\d+)?|\b(?:{NUMBER_WORD})\b)"
_LIST = (
    rf"({_NUMBER}(?:, +{_NUMBER})*+,? +(?:and|và) +{_NUMBER}|{_NUMBER}(?:, *{_NUMBER})++"
    rf"|{_NUMBER}(?: +{_NUMBER}){{2,}}+)"
)
_NOT_CONTINUED = (
    r"(?!\s*(?:[-+*/^%\u00d7÷]|(?:plus|minus|times|divided|multiplied|squared|cubed|percent)\b"
    rf"|,? *and +{_NUMBER}| +to\b))"
)
_FORMULA = rf"([a-z]+\([^()]*\)|{_NUMBER}(?: [-+*/] {_NUMBER})++)(?=[\s?.!]*$)"
_END = r"(?=[\s?.!]*$)"
_OF = "(?: of| among| between| in| của| trong)?(?: (?:the|these|following|numbers|các số))*:? "
_PERCENT = r"\s?(?:%|percent|phần trăm)"
_OPERATORS = {"add": "+", "plus": "+", "subtract": "-", "minus": "-", "multiply": "*", "times": "*", "divide": "/"}
_STEP = re.compile(
    rf"(?:,| and| then)+ ({'|'.join(_OPERATORS)})(?: it| that| the result)?(?: by)? ({_NUMBER})", re.IGNORECASE
)
_SCALES = {
    **dict.fromkeys(("thousand", "nghìn", "ngàn"), 10**3),
    **dict.fromkeys(("million", "triệu"), 10**6),
    **dict.fromkeys(("billion", "tỷ", "tỉ"), 10**9),
}
_FRACTION = re.compile(
    r"(?<![\w.,/-])(?:(?<!\d )(\d{1,4}) (?=\d+/)"
    r"|(?=\d+/\d+ (?!(?:of|in|as|to|is|and|or|plus|minus|times|divided|round\w*|percent)\b)[a-z]))"
    r"(\d{1,3})/(\d{1,3})(?![\w/.])"
)
_SCALED_NUMBER = re.compile(rf"\b(\d[\d,]*(?:\.\d+)?) ({'|'.join(_SCALES)})\b", re.IGNORECASE)
_DIGIT_WORD = f"(?:{'|'.join(word for word, value in NUMBER_WORDS.items() if value < 10 and len(word) > 2)})"
_DECIMAL_IN_WORDS = re.compile(rf"\b({_NUMBER}) point ({_DIGIT_WORD}(?: {_DIGIT_WORD})*)\b", re.IGNORECASE)
_COMPOUND_QUANTITY = re.compile(
    rf"\b({_NUMBER}) ([^\W\d_]+),? (?:and )?({_NUMBER}) ([^\W\d_]+)(?! [-+*/])", re.IGNORECASE
)
_CURRENCY_WORD = r"[ -]?(?:dollars?|bucks?|usd|euros?|eur|pounds?|gbp|yen|đồng|vnd|vnđ)\b"
_CURRENCY = re.compile(rf"[$€£](?=\s?\d)|(?<=\d){_CURRENCY_WORD}", re.IGNORECASE)
_SAME_CURRENCY = {"$": "dollar", "usd": "dollar", "buck": "dollar", "€": "euro", "eur": "euro", "£": "pound"}
_PRICED_ITEM = re.compile(
    rf"(?:\ban? )?((?:[$€£]{_NUMBER})|{_NUMBER}[ -](?:dollar|euro|pound|buck)) "
    r"(?!(?:plus|minus|times|with|at|and|or|off|tip|tax|in|to|for|each|per|is|of)\b)[a-z]+"
    r"(?=[,?.!]*$| (?:with|at|plus|minus|after)\b)",
    re.IGNORECASE,
)
_AMOUNT_WORD = re.compile(
    rf"[$€£]\d|\d,\d|\d/\d|\d{_CURRENCY_WORD}|\b(?:{'|'.join(_SCALES)}|and a half|point)\b"
    rf"|\b{_NUMBER} [^\W\d_]+,? (?:and )?{_NUMBER} ",
    re.IGNORECASE,
)
_PRICE_QUESTION = re.compile(
    r"\b(?:do|does|would|will|should) (?:i|we|you|it|that|each(?: of us| person| one)?) (?:have to |need to )?"
    r"(?:pay|cost|owe|spend|get|be)(?: for| in total)?(?: something| an item)?(?: that costs)? (?=\(?\d)",
    re.IGNORECASE,
)
_PRICE_PHRASE = re.compile(
    r",? (?:in total|altogether|for shipping|for delivery|how much is (?:that|it)|what is (?:the )?total"
    r"|how much do (?:i|we) (?:pay|owe))(?=[\s?.!]*$)",
    re.IGNORECASE,
)

_LONG_FRACTION = 9_999
_OF_TWO_COUNTRIES = re.compile("(?:gallon|quart|pint|cup|fluid ounce)s?", re.IGNORECASE)
_BITS_OR_BYTES = re.compile("[KMGT]b(?:/s)?$")
_CONVERTING = word_set("conversion")
_ONE_UNIT = rf"(?:{'|'.join(re.escape(name) for name in sorted(_units(), key=len, reverse=True))})s?(?![^\W\d_])"
_UNIT = rf"{_ONE_UNIT}(?:\s?(?:/|\b(?:per|an?|trên|một)\b)\s?{_ONE_UNIT})?"
_QUANTITY = rf"(?<![-+*/.,])(?<![-+*/] )(?P<number>{{}})\s?(?P<given>{_UNIT})"
_HOW_BIG = (
    "(?:(?:how (?:fast|far|long|heavy|much|big|tall|high|large|deep) (?:is|are)"
    "|(?:an? |the )?(?:speed|length|weight|mass|distance|size|volume|area) of) )?"
)
_CONVERSIONS = (
    rf"\bhow many (?P<wanted>{_UNIT})(?: (?:are|is|does|do|make|makes|equals?))?(?: there)?(?: (?:in|per))?"
    rf" {_QUANTITY.format(rf'{_NUMBER}|an?')}(?: (?:have|has|contain|last|make)s?\b)?",
    rf"\b(?:convert |change |express |turn )?{_HOW_BIG}{_QUANTITY.format(_NUMBER)}"
    rf" (?:in|to|into|as) (?P<wanted>{_UNIT})",
    rf"\b{_QUANTITY.format(rf'{_NUMBER}|an?')} (?:is|are|equals?|=|makes?) (?:how many|how much in|what in)"
    rf" (?P<wanted>{_UNIT})",
    rf"\b(?P<wanted>{_UNIT}) (?:in|per) {_QUANTITY.format(rf'{_NUMBER}|an?')}",
)
_VIETNAMESE_CONVERSIONS = (
    rf"(?:(?:chuyển đổi|quy đổi|đổi|chuyển) )?\b{_QUANTITY.format(f'{_NUMBER}|{VIETNAMESE_NUMBER}')} "
    rf"(?:(?:thì )?(?:bằng|là|có|=|gồm)|(?:đổi |quy )?(?:ra|sang|thành))(?: (?:được )?(?:bao nhiêu|mấy))?"
    rf" (?P<wanted>{_UNIT})(?: là bao nhiêu)?",
    rf"(?:có )?bao nhiêu (?P<wanted>{_UNIT}) (?:trong|ở trong|bằng) "
    rf"{_QUANTITY.format(f'{_NUMBER}|{VIETNAMESE_NUMBER}')}",
)

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
    rf" ?\b(?P<percent>{_NUMBER})\s?(?:%|percent\b|phần trăm\b)"
    rf"(?: (?P<noun>{_UP}|{_DOWN}|sales tax|thuế|phí|nữa))?(?: (?:on top|again|to it|from it|to that|from that))*"
)
_CHANGES = (
    rf"(?:\b(?:start(?:ing)? (?:with|from|at)|begin(?:ning)? (?:with|at)|bắt đầu (?:với|từ)) (?P<start>{_NUMBER})"
    rf"|(?<![-+*/] )(?P<base>{_NUMBER}(?: [-+*/] \(?{_NUMBER}(?: [-+] {_NUMBER}\))?)++))"
    rf"(?P<rest>(?:{re.sub('[?]P<[a-z]+>', '?:', _CHANGE)})++){_END}"
)


def _percentage_chain(match: re.Match[str]) -> str:
    """`(80 * (100 - 25) / 100) * (100 + 8) / 100` for `80 * (100 - 25) / 100 then add 8% tax`."""
    written = match.group("base") or match.group("start")
    rises = "(100 - " not in written
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
        base = written if written == match.group("start") else f"({written})"
        written = f"{base} * (100 {'+' if rises else '-'} {step.group('percent')}) / 100"
    return written


_UNIT_TEMPLATES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (rf"\bhalf an? (?={_UNIT})", "0.5 "),
    *((pattern, _conversion_formula) for pattern in (*_CONVERSIONS, *_VIETNAMESE_CONVERSIONS)),
)
