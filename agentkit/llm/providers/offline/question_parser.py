"""Recognition of quotations, URLs, JSON, arithmetic and file names in a question."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import cached_property

from agentkit._dataclass import dataclass
from agentkit.llm.providers.offline.lexicon import (
    ARITHMETIC_WORDS,
    GREETINGS,
    INTERROGATIVES,
    LOOKUP_REQUEST,
    NUMBER_WORD,
    NUMBER_WORDS,
    SMALL_TALK,
    SMALL_TALK_ADDITIONS,
    STOP_WORDS,
    asks_in_vietnamese,
    concept,
    concepts,
    in_english,
    numbers_in,
    operators_in_english,
    plain,
    vocabulary,
    words,
)
from agentkit.tooling.output_types import closing_bracket


class Shape(StrEnum):
    """The form by which a part of a text is recognised."""

    QUOTE = "quote"
    URL = "url"
    EMAIL = "email"
    JSON = "json"
    EXPRESSION = "expression"
    PATH = "path"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Span:
    """A recognised part of a text from `start` to `end`; `text` is its value (a quotation without its marks).

    `sure` is False if the form alone is ambiguous: `555-1234`, `and/or`, `run away`, an unclosed JSON text.
    """

    shape: Shape
    text: str
    start: int
    end: int
    is_certain: bool = True


class Question:
    """A parsed question: `spans` are ordered and do not overlap, `outer_words` are the words outside them.

    With `has_commands`, the text after `run` or `execute` is one span, whatever it contains.
    """

    def __init__(self, text: str, *, has_commands: bool = False) -> None:
        self.text, self.has_commands = text, has_commands
        self.spans = tuple(
            sorted(_spans(text, (_commands_in, *_FINDERS) if has_commands else _FINDERS), key=lambda span: span.start)
        )

    @cached_property
    def outer_words(self) -> tuple[str, ...]:
        """The lower-case words outside every span, in order."""
        return tuple(words(self._outer_text))

    @property
    def first_concept(self) -> str:
        """The concept of the first content word: the action, if the question is an order."""
        return next((concept(word) for word in plain(self.outer_words) if concepts([word]) - concepts(GREETINGS)), "")

    @cached_property
    def concepts(self) -> frozenset[str]:
        """The concepts of the content words outside the spans, and those implied by `how much` and `how long`."""
        outside = in_english(self._outer_text)
        implied = {concept for pattern, concept in _ASKED_FOR if pattern.search(outside)}
        stated = concepts(self.outer_words) | implied
        return stated | {"list", "folder"} if self._requests_file_list(outside, stated) else stated

    def _requests_file_list(self, outside: str, stated: frozenset[str]) -> bool:
        """Whether the question asks for a list of files: all of them, or those in a path that is not a file."""
        places = self.spans_of(Shape.PATH)
        if self.spans_of(Shape.URL) or "save" in stated or any(FILE_ENDING.search(place.text) for place in places):
            return False
        within = "see" not in stated and any(_WITHIN.search(self.text[: place.start]) for place in places)
        return within or any(place.text.endswith("/") for place in places) or bool(_FILES.search(outside))

    @property
    def is_negated(self) -> bool:
        """Whether the text outside the spans contains a negation, before any colon."""
        outer_words = plain(words(COLON.split(self._outer_text)[0]))
        return any(word in _NEGATIONS or word.endswith("n't") for word in outer_words)

    @property
    def is_personal(self) -> bool:
        """Whether the question is about the user or the assistant, beyond `for me` and `can you`, or a personal matter.

        Such a question is never sent to a web search.
        """
        words = _POLITE.sub(" ", " ".join(plain(self.outer_words))).split()
        return not _PERSONS.isdisjoint(words) or self.is_private

    @property
    def is_private(self) -> bool:
        """Whether the question is about a personal matter, which no tool can help with."""
        return any(request.search(self.text) and matter.search(self.text) for request, matter in _PERSONAL_MATTERS)

    @property
    def asks_for_knowledge(self) -> bool:
        """Whether it is a question about the world: an interrogative first, not personal and without a sum."""
        first, *rest = plain(self.outer_words) or [""]
        counts = self.numbers and (ARITHMETIC_WORDS.intersection(rest) or _SUM_SIGN.search(self._outer_text))
        asks = first in INTERROGATIVES or LOOKUP_REQUEST.match(self.text) or asks_in_vietnamese(self.text)
        return bool(asks) and not self.is_personal and not counts and not self._asks_for_count

    @property
    def asks_how_many(self) -> bool:
        """Whether it starts with `how many`, `how much` or `how long`."""
        return _HOW_MANY.match(self.text) is not None

    @property
    def _asks_for_count(self) -> bool:
        """Whether it asks for a number that follows from the question or the time: how many eggs in 2 boxes."""
        if not self.asks_how_many:
            return False
        counts = [count for count, noun in _COUNTED.findall(self._outer_text) if len(count) < 4]
        return bool(counts) or _UNTIL.search(self.text) is not None or _LETTER_COUNT.search(self.text) is not None

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers in digits outside every span, except digits of a name or a unit: CO2, m^3."""
        return numbers_in(_DIGIT_OF_NAME.sub(" ", self._outer_text))

    @property
    def counted_nouns(self) -> list[str]:
        """The words counted by the numbers outside every span: the word after each."""
        return [noun.lower() for _, noun in _COUNTED.findall(self._outer_text)]

    @property
    def is_small_talk(self) -> bool:
        """Whether it is small talk: only greetings, thanks and function words, without spans."""
        outer_words = set(plain(self.outer_words))
        if self.spans or not outer_words <= STOP_WORDS | SMALL_TALK | SMALL_TALK_ADDITIONS:
            return False
        return (
            self.is_personal or outer_words.isdisjoint(SMALL_TALK_ADDITIONS) or not outer_words.isdisjoint(SMALL_TALK)
        )

    @property
    def text_after_colon(self) -> tuple[str, ...]:
        """The text after a colon outside the spans, unless it is a quotation."""
        match = COLON.search(self._outer_text)
        rest = self.text[match.end() :].strip() if match else ""
        quoted = any(self.text[span.start : span.end] == rest for span in self.spans_of(Shape.QUOTE))
        return (rest,) if rest and not quoted else ()

    def clauses(self) -> tuple[str, ...]:
        """The clauses of a question that are joined by `and` outside every span, if there are two to five."""
        places = [match.span() for match in _AND.finditer(self._outer_text)]
        if not 0 < len(places) < _MAX_CLAUSES:
            return ()
        starts, ends = (0, *(end for _, end in places)), (*(start for start, _ in places), len(self.text))
        return tuple(self.text[start:end] for start, end in zip(starts, ends, strict=True))

    def original_text(self, text: str) -> str:
        """The original text of a span's value: `subtract 2 from 5` for `5 - 2`."""
        return next((self.text[span.start : span.end] for span in self.spans if span.text == text), text)

    def spans_of(self, *shapes: Shape) -> tuple[Span, ...]:
        """The spans of these shapes, in order."""
        return tuple(span for span in self.spans if span.shape in shapes)

    @cached_property
    def _outer_text(self) -> str:
        return _blanked(self.text, [(span.start, span.end) for span in self.spans])


def _spans(text: str, finders: Iterable[Callable[[str], Iterator[Span]]]) -> Iterator[Span]:
    """The spans of all finders, each searching the text left by the previous ones."""
    taken: list[tuple[int, int]] = []
    for find in finders:
        for span in list(find(_blanked(text, taken))):
            taken.append((span.start, span.end))
            yield span


def _blanked(text: str, taken: list[tuple[int, int]]) -> str:
    """The text with taken parts replaced by U+0000, so that later spans cannot overlap them."""
    characters = list(text)
    for start, end in taken:
        characters[start:end] = "\0" * (end - start)
    return "".join(characters)


def _commands_in(text: str) -> Iterator[Span]:
    """The text to be run: everything after the verb, or the quotation that it consists of."""
    quotes = [(span.start, span.end) for span in _quotations_and_json(text)]
    match = _COMMAND_VERB.search(_blanked(text, quotes))
    if match:
        where = _WHERE_TO_RUN.search(text, match.end())
        start, end = match.end(), where.start() if where else len(text.rstrip())
        whole = _quote_at(text, start)
        if whole and not text[whole.end : end].strip(" .?!\n"):
            yield Span(Shape.COMMAND, whole.text, start, whole.end)
        elif end > start and "`" not in text[start:end]:
            is_sure = _COMMAND_NAMED.search(match.group()) or not all(map(str.isalnum, text[start:end].split()))
            yield Span(Shape.COMMAND, text[start:end], start, end, is_certain=bool(is_sure))


def _quotations_and_json(text: str) -> Iterator[Span]:
    """Quotations and JSON in order of their start: each can contain the other."""
    place = 0
    unclosed: set[str] = set()
    while match := _MARK.search(text, place):
        start, mark = match.start(), match.group()
        span = _json_at(text, start) if mark in "[{" else _quote_at(text, start) if mark not in unclosed else None
        place = span.end if span else match.end()
        if span:
            yield span
        elif mark not in "[{":
            unclosed.add(mark)  # a mark not closed from here is not closed later either


def _quote_at(text: str, start: int) -> Span | None:
    matches = (pattern.match(text, start) for pattern in _QUOTES)
    match = next(filter(None, matches), None)
    return Span(Shape.QUOTE, match.group(1), start, match.end()) if match else None


def _json_at(text: str, start: int) -> Span | None:
    """The JSON text that starts here. Invalid text that looks like JSON is included up to its closing bracket."""
    try:
        end = json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        if not _JSON_START.match(text, start):
            return None
        closed = closing_bracket(text, start) or text.rfind("}" if text[start] == "{" else "]", start) + 1
        end = closed or len(text)
        return Span(Shape.JSON, text[start:end], start, end, is_certain=bool(closed))
    return Span(Shape.JSON, text[start:end], start, end)


def _addresses_in(text: str) -> Iterator[Span]:
    for match in _URL.finditer(text):
        address = _without_trailing_marks(match.group())
        yield Span(Shape.URL, address, match.start(), match.start() + len(address))
    for match in _EMAIL.finditer(text):
        yield Span(Shape.EMAIL, match.group(), match.start(), match.end())


def _without_trailing_marks(address: str) -> str:
    """Strip punctuation of the sentence; a closing bracket is part of the URL if it was opened in it."""
    while address and (address[-1] in ".,;:!?'\"" or (address[-1] == ")" and address.count("(") < address.count(")"))):
        address = address[:-1]
    return address


def _expressions_in(text: str) -> Iterator[Span]:
    text_words = words(text)
    for match in _SUM.finditer(text):
        found = _balanced(match.group().strip(" \t\n,"))
        start = match.start() + match.group().index(found)
        if (
            _OPERATION.search(found)
            and found.count("(") == found.count(")")
            and not _is_part_of_other_text(text, start, found)
        ):
            sure = text_words == words(found) or not _AMBIGUOUS_SUM.fullmatch(found)
            written = _NUMBER_WORD.sub(lambda word: f"{NUMBER_WORDS[word.group().lower()]:g}", found)
            yield Span(Shape.EXPRESSION, operators_in_english(written), start, start + len(found), sure)


def _is_part_of_other_text(text: str, start: int, found: str) -> bool:
    """Whether the match is part of something else: an operator at either end, or a piece of a date or version."""
    rest = text[start + len(found) :]
    return any(
        (
            _OPERATOR_AT_END.search(text[max(start - _MAX_OPERATOR, 0) : start]),
            _OPERATOR_AT_END.search(found[-_MAX_OPERATOR:]),
            _JOINED.match(rest),
            _NO_SUM.search(found),
        )
    )


def _balanced(text: str) -> str:
    """Strip unbalanced parentheses at both ends."""
    while text.startswith("(") and text.count("(") > text.count(")"):
        text = text[1:].lstrip()
    while text.endswith(")") and text.count(")") > text.count("("):
        text = text[:-1].rstrip()
    return text


def _paths_in(text: str) -> Iterator[Span]:
    for match in _PATH.finditer(text):
        path = match.group().rstrip(".,;:!?")
        if _is_file_like(path) and path.lower() not in _ABBREVIATIONS:
            sure = not _PLAIN_ALTERNATIVE.fullmatch(path)
            yield Span(Shape.PATH, path, match.start(), match.start() + len(path), sure)


def _is_file_like(path: str) -> bool:
    """Whether a word looks like a path: a folder or name contains a letter, or it has an extension."""
    folders = path.split("/")
    named = any(_LETTER.search(each.rpartition("*")[2]) for each in folders[:-1])
    named = named or any(_LETTER.search(each.partition("*")[0]) for each in folders[1:])
    return named or _FILE_LIKE.search(path) is not None


_FINDERS = (_quotations_and_json, _addresses_in, _expressions_in, _paths_in)

_MAX_CLAUSES = 5
_AND = re.compile(r",?\s+(?:and(?: then| also)?|then|và)\s+|;\s+", re.IGNORECASE)
COLON = re.compile(r":\s+(?=\S)")
"""Precedes literal text."""

_ASKED_FOR = (
    (re.compile(r"\bhow\s+much\b", re.IGNORECASE), "calculation"),
    (re.compile(r"\bhow\s+long\b[^\0]*\0", re.IGNORECASE), "measure"),
)
_FILES = re.compile(
    r"(?:\b(?:which|what|all|show|list|any)(?: (?:me|the|of|all|my))*|\A) ?(?:files|folders)\b", re.IGNORECASE
)
_WITHIN = re.compile(r"\b(?:in|inside|under)\s+$", re.IGNORECASE)
FILE_ENDING = re.compile(r"[\w-]\.[A-Za-z]\w{0,5}$")
_COMMAND_VERB = re.compile(
    r"(?:^|[,;:.!?]\s*|\b(?:please|you|and|then|to|just|hãy|và|rồi|giúp tôi)\s+)(?:run|execute|chạy|thực thi)\b"
    r"(?:(?:\s+(?:the|this|following|a))*(?:\s+(?:shell|bash|terminal|command|code|script|snippet"
    r"|(?:câu )?lệnh|(?:đoạn )?mã"
    r"|python(?=\s*:|\s+(?:code|script|snippet)\b)))+"
    r"|(?!\s+(?:the|this|that|a|an|my|it|all)\b))\s*:?\s+",
    re.IGNORECASE,
)
_COMMAND_NAMED = re.compile(r"\b(?:command|lệnh)\b", re.IGNORECASE)
_WHERE_TO_RUN = re.compile(
    r"\s+(?:in|with|using|on)\s+(?:(?:the|a|my)\s+)?(?:shell|terminal|bash|console|command line|python)[\s.!?]*$",
    re.IGNORECASE,
)
_MARK = re.compile(r"""```|[\[{"“`«]|(?<!\w)['\u2018]""")
_QUOTES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"```(?:\w*[ \t]*\n|[ \t]+)?(.+?)\s*```",
        r"`([^`]+)`",
        r'"([^"]+)"',
        r"“([^”]+)”",
        r"«\s*([^»]+?)\s*»",
        r"[\u2018'](.+?)[\u2019'](?!\w)",
    )
)
_JSON_START = re.compile(r"""\{\s*(?:["'}]|\w+\s*:)|\[\s*(?:["'\[\]{]|-?\d+\s*[,\]]|(?:true|false|null)\b)""")

_URL = re.compile(
    r"\b(?:https?|ftp|file)://[^\s\0<>\"]+|(?<![\w@./])(?:www\.)?(?:[\w-]{1,63}\.){1,8}(?:com|org|net|edu|gov|info)\b(?:/[^\s\0]*)?",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+")

_NUMBER_WORD = re.compile(rf"\b(?:{NUMBER_WORD})\b", re.IGNORECASE)
_NUMBER = (
    r"(?<![\d.])(?>(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)%?"
    rf"|{_NUMBER_WORD.pattern})"
)
_ATOM = rf"(?:{_NUMBER}!?|\b(?:pi|tau|e)\b|[πτ])"
_CALL = (
    r"(?:\b(?:sqrt|cbrt|root|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|log|log2|log10|ln|exp|pow|abs|round|floor|ceil"
    r"|trunc|min|max|mean|median|sum|gcd|lcm|factorial|comb|perm|hypot|degrees|radians|mod)\s*\()"
)
_INFIX = (
    r"(?:\*\*|//|<<|>>|[-+*/^\u00d7÷·\u2212\u2013%]|\b(?:x|plus|minus|times|mod|modulo)\b|\b(?:multiplied|divided)\s+by\b"
    r"|\bto\s+the\s+power\s+of\b|(?<=%)\s*(?:of|của)\b|(?<=%\s)(?:of|của)\b|(?<=percent\s)of\b|(?<=phần trăm\s)của\b"
    r"|\b(?:cộng(?:\s+với)?|trừ(?:\s+đi)?|nhân(?:\s+với)?|chia(?:\s+cho)?|mũ)\b)"
)
_PREFIX = r"(?:\b(?:the\s+)?(?:square|cube)\s+root\s+of\b|\bcăn\s+bậc\s+(?:hai|ba)\b(?:\s+của\b)?|[√∛])"
_POSTFIX = r"(?:\b(?:squared|cubed|percent|bình phương|lập phương|phần trăm)\b|[²³])"
_OPERAND = rf"(?:[-+\u2212(]|{_ATOM}|{_CALL}|{_PREFIX})"
_SUM = re.compile(
    rf"(?<![\w.:@\0-])(?:{_CALL}|{_PREFIX}|\(|[-+\u2212](?=[\d.(])|{_ATOM})\s*"
    rf"(?:(?:{_CALL}|{_PREFIX}|{_INFIX}|{_POSTFIX}|{_ATOM}|[(),])\s*)*(?<!\s)",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    rf"{_CALL}|{_PREFIX}\s*{_OPERAND}|(?:{_ATOM}|\)|{_POSTFIX})\s*{_INFIX}\s*{_OPERAND}"
    rf"|{_ATOM}\s*(?:squared|cubed|bình phương|lập phương|[²³])|\d!",
    re.IGNORECASE,
)
_OPERATOR_AT_END = re.compile(rf"{_INFIX}\s*$", re.IGNORECASE)
_MAX_OPERATOR = 40
_JOINED = re.compile(r"[\w:@]|\.\d")
_NO_SUM = re.compile(r"\b(?:9/11|24/7)\b|\d%?\s+\d|\d+\.\d+\.\d|\d[-/]\d+[-/]\d|(?<![\d.,])0\d")
_AMBIGUOUS_SUM = re.compile(r"\d+(?:[-/\u2013]\d+)+")

_PATH = re.compile(r"(?<![\w@.\0])(?:~|\.{1,2})?/?[\w.-]*(?:/[\w.*-]*)*", re.UNICODE)
_FILE_LIKE = re.compile(r"^(?:~|\.{0,2}/.)|[\w-]\.[A-Za-z]\w{0,5}$")
_LETTER = re.compile(r"[^\W\d]")
_PLAIN_ALTERNATIVE = re.compile(r"[^\W\d]+/[^\W\d]+")
_DIGIT_OF_NAME = re.compile(r"(?<![A-Z]{3})(?<=[^\W\d_])\^?\d(?![\d.,]*\d)")
_COUNTED = re.compile(r"(?<!\d)(\d++)\s*([^\W\d_]+)")
_HOW_MANY = re.compile(r"\s*(?:how (?:many|much|long)|bao nhiêu)\b", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:until|till|left|remaining)\b", re.IGNORECASE)
_LETTER_COUNT = re.compile(r"\bmany \w['\u2019]s\b", re.IGNORECASE)
_SUM_SIGN = re.compile(r"\d\s*[-+*/^%]")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "etc"})

_NEGATIONS = frozenset({"not", "never", "without", "don't", "dont", "no"})
_PERSONS = vocabulary("i i'm i've i'd i'll me my mine myself we us our you you're your yours yourself")
_PERSONAL_MATTERS = tuple(
    (re.compile(request, re.IGNORECASE), re.compile(matter, re.IGNORECASE))
    for request, matter in (
        (
            r"\b(?:get(?:ting)? (?:over|through)|cop(?:e|ing) with|deal(?:ing)? with|recover(?:ing)? from|live with)\b",
            r"\b(?:break ?-?ups?|divorce|loss|grief|death|heartbreak|rejection|anxiety|depression|stress"
            r"|addiction|anger|guilt|losing)\b",
        ),
        (
            r"\b(?:how (?:to|can|do|should)|should|is it (?:normal|okay|ok|wrong|bad|weird)|why (?:do|does|am))\b",
            r"\b(?:overthink\w*|self[- ]harm|suicid\w+|panic attacks?|insomnia|loneliness|lonely|heartbreak"
            r"|self[- ]esteem|cry(?:ing)?|lose weight|divorc\w+|dating|crush|break ?up|hate (?:my|one)self"
            r"|pregnan\w+)\b",
        ),
        (
            r"\b(?:làm sao|làm thế nào|làm gì|có nên|cách|tại sao|vì sao)\b",
            r"\b(?:người yêu|bạn trai|bạn gái|chia tay|ly hôn|ly dị|thất tình|cô đơn|trầm cảm|buồn|tự tử|mất ngủ|tự ti"
            r"|ngoại tình|giảm cân|mang thai|thích (?:mình|tôi))\b",
        ),
        (
            "",
            r"\bfeel(?:ing)? (?:so |very |less |more )?(?:sad|lonely|depressed|anxious|guilty|worthless|hopeless"
            r"|empty)\b|\bbreak(?:ing)? up with\b|\bstop (?:crying|drinking|smoking|worrying)\b"
            r"|\bkill (?:one|her|him)self\b",
        ),
    )
)
"""Requests and matters that are personal in combination, without naming a person."""

_POLITE = re.compile(
    r"\b(?:can|could|would|will) you\b|\bdo you know\b|\b(?:for|tell|give|show|find|get|let) (?:me|us)\b"
    r"|\bdo (?:you|i|we) get (?:to|from)\b|\bare we in\b|\b(?:i|we) (?:want|need|would like)(?: to)?\b"
)
