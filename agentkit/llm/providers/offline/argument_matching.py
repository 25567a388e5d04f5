"""Candidate tools for a question, candidate values for their parameters, and comparison of values with schemas."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from agentkit.llm.providers.offline.lexicon import (
    ACTIONS,
    GREETINGS,
    HERE_WORDS,
    STOP_WORDS,
    concept,
    concepts,
    places_in,
    signed_numbers_in,
    stem,
    tokens_in,
    vocabulary,
    words,
    zones_in,
)
from agentkit.llm.providers.offline.question_parser import FILE_ENDING, Question, Shape, Span
from agentkit.messages import ToolSpec


def measures_in(text: str) -> dict[float, float]:
    """Numbers that occur in a text only in percent, dozens, millions and so on, each with its factor."""
    measures = {float(match.group(1)): _FACTORS[match.group(2).lower()] for match in _MEASURE.finditer(text)}
    plain_numbers = signed_numbers_in(_MEASURE.sub(" ", text))
    return {number: factor for number, factor in measures.items() if number not in plain_numbers}


def in_unit_of_parameter(value: float, name: str, schema: Mapping[str, Any], text: str) -> float | None:
    """A number that the text gives in percent or millions, in the parameter's unit; None for any other number.

    5 % is 0.05, unless the parameter is in percent or takes whole numbers; 2 million is 2000000, unless the parameter
    is in millions.
    """
    for stated, factor in measures_in(text).items():
        exact = round(stated * factor, 9)
        if value in (stated, exact):
            description = f"{name} {schema.get('description', '')}".replace("_", " ")
            is_integer = schema.get("type") == "integer"
            keeps_number = _uses_unit(description, factor) or (is_integer and not exact.is_integer())
            number = stated if keeps_number else exact
            return int(number) if is_integer and number.is_integer() else number
    return None


def _uses_unit(description: str, factor: float) -> bool:
    """Whether the parameter's name or description uses this unit."""
    if factor == _HUNDREDTH:
        return bool(_COUNTS_PERCENT.search(description) and not _COUNTS_PARTS.search(description))
    return any(word in description.lower() for word, each in _FACTORS.items() if each == factor)


def is_next_to_name(number: float, name: str, schema: Mapping[str, Any], text: str) -> bool:
    """Whether a number in the text is next to a word of the parameter's name: `2021 season`, `radius of 5`."""
    name_concepts = concepts(words(name.replace("_", " ")))
    near = [
        word
        for match in _NEAR_NUMBER.finditer(text)
        if float(match.group(2).replace(",", "")) == number
        for word in (*words(match.group(1))[-2:], *words(match.group(3))[:1])
    ]
    fits = schema.get("type") != "integer" or number.is_integer()
    return fits and not name_concepts.isdisjoint(concepts(near))


def enumerated_numbers(names: Sequence[str], text: str) -> dict[str, float]:
    """The numbers of the only enumeration in a text, for numbered parameters: `side1`, `side2`, `side3`."""
    numbered = [name for name in names if _NUMBERED.fullmatch(name)]
    stems = {match.group(1) for match in map(_NUMBERED.fullmatch, numbered) if match}
    enumerations = _ENUMERATION.findall(text)
    if len(stems) != 1 or numbered != sorted(numbered) or len(enumerations) != 1:
        return {}
    numbers = [float(number) if "." in number else int(number) for number in _NUMBER.findall(enumerations[0])]
    return dict(zip(numbered, numbers, strict=True)) if len(numbered) == len(numbers) > 1 else {}


def operation_in(text: str) -> tuple[frozenset[str], list[float]]:
    """The operation of a sum, in words, and its numbers; empty for a sum with different operations."""
    signs = {part.strip().lower() for part in _NUMBER.split(text)} - {""}
    for pattern, operation_words in _OPERATIONS.items():
        if signs and all(re.fullmatch(pattern, sign) for sign in signs):
            return operation_words, [float(number) for number in _NUMBER.findall(text)]
    return frozenset(), []


_HUNDREDTH = 0.01
_FACTORS = {
    **dict.fromkeys(("%", "percent", "per cent"), _HUNDREDTH),
    "dozen": 12.0,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
}
_MEASURE = re.compile(
    rf"(?<![\w.,])(\d+(?:\.\d+)?)\s?(%|(?:{'|'.join(name for name in _FACTORS if name != '%')})\b)", re.IGNORECASE
)
_COUNTS_PERCENT = re.compile(r"percent|%", re.IGNORECASE)
_COUNTS_PARTS = re.compile(r"decimal|fraction|\b0?\.\d|between 0 and 1\b|0 to 1\b", re.IGNORECASE)
_NEAR_NUMBER = re.compile(r"(?<![\w.-])((?:[^\W\d]+ +){0,2})(\d[\d,]*(?:\.\d+)?)(?![\w%])(?= *(\w*))")
_NUMBERED = re.compile(r"((?:\w*[^\W\d])?)_?(?:\d|(?<![^\W_])[a-z])")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w%])")
_NOT_CONTINUED = rf"(?<![-\u2212]){_NUMBER.pattern}"
_ENUMERATION = re.compile(rf"{_NOT_CONTINUED}(?:(?:,\s+(?:and\s+)?|\s+and\s+){_NOT_CONTINUED})+")
_OPERATIONS = {
    r"\+|plus": vocabulary("add sum plus total"),
    "[-\u2212]|minus": vocabulary("subtract minus difference"),
    r"[*x\u00d7]|times|multiplied by": vocabulary("multiply product times"),
    "[/\u00f7]|divided by": vocabulary("divide quotient"),
}


def is_abbreviated(name: str, text: str) -> bool:
    """Whether capitals are initials of consecutive words in a text: CAD for `Canadian dollars`.

    For a single word they must be its first three letters or more: EUR for `euros`, but not CA for `Canada`.
    """
    if not _CAPITALS.fullmatch(name):
        return False
    text_words = [word.lower() for word in _WORD.findall(text) if word.isupper() or word.lower() not in STOP_WORDS]
    return any(_are_initials(name.lower(), text_words[place:], len(name)) for place in range(len(text_words)))


def is_named(name: str, text: str, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter's description quotes the name and the text contains it: `detailed` for details."""
    quoted_names = _QUOTED.findall(str(schema.get("description", "")))
    name_stems, text_stems = ({stem(word) for word in words(each) if word not in STOP_WORDS} for each in (name, text))
    return name in quoted_names and bool(name_stems) and name_stems <= text_stems


def lacks_part(text: str, schema: Mapping[str, Any]) -> bool:
    """Whether the parameter's description shows a text of two parts, `'Paris, France'`, and the text has only one."""
    return "," not in text and _TWO_PARTS.search(str(schema.get("description", ""))) is not None


def _are_initials(letters: str, text_words: Sequence[str], length: int) -> bool:
    """Whether the letters are initials of the first words, of at most `length` letters in total."""
    if not letters or not text_words:
        return not letters
    shared = [size for size in range(1, len(letters) + 1) if text_words[0].startswith(letters[:size])]
    sizes = [size for size in shared if size < length or length > 2]
    return any(_are_initials(letters[size:], text_words[1:], length) for size in sizes)


_CAPITALS = re.compile(r"[A-Z]{2,5}")
_WORD = re.compile(r"[^\W\d_]+")
_TWO_PARTS = re.compile(r"([\"'])[A-Z][^\"',]*, ?[A-Z][^\"',]*\1")
_QUOTED = re.compile(r"[\"'`]([^\"'`]{2,30})[\"'`]")


def plain_schema(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with references into `root` resolved and `null` variants removed; empty if it is not a mapping."""
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}
        options = [each for each in schema.get("anyOf") or schema.get("oneOf") or () if isinstance(each, Mapping)]
        variants = [each for each in options if each.get("type") != "null"]
        if isinstance(reference := schema.get("$ref"), str):
            schema = _target(reference, root)
        elif len(variants) == 1:
            schema = {**variants[0], **{key: schema[key] for key in ("default", "description") if key in schema}}
        else:
            break
    types = [kind for kind in schema["type"] if kind != "null"] if isinstance(schema.get("type"), list) else []
    return {**schema, "type": types[0]} if len(types) == 1 else schema


def definitions_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The shared definitions of a schema, under the keywords of different drafts."""
    return {key: schema[key] for key in ("$defs", "definitions") if key in schema}


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    target: Any = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        target = target.get(part, {}) if isinstance(target, Mapping) else {}
    return target


def texts_in(value: Any) -> Iterator[str]:
    """Every value inside lists and dictionaries, as text."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(each)
    else:
        yield str(value)


def word_sequence(text: str) -> str:
    """The words of a text, each surrounded by spaces, so that word sequences can be searched in other texts."""
    return "".join(f" {word} " for word in words(text))


def values_in(value: Any) -> Iterator[Any]:
    """A value and every value nested in it."""
    yield value
    if isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from values_in(each)


def nodes_of(text: str) -> list[ast.AST]:
    """The syntax nodes of a text that is valid Python; otherwise empty."""
    try:
        return list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def json_value_of(text: str) -> Any:
    """The value of a JSON text; None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def overlap(value: str, text: str) -> int:
    """Number of characters that two texts share: all of the shorter if the longer contains it, else common words."""
    short, long = sorted((re.sub(r"\s+", "", each).lower() for each in (value, text)), key=len)
    if short and short in long:
        return len(short)
    value_parts, text_parts = (set(_PIECES.findall(each.lower())) for each in (value, text))
    return sum(map(len, value_parts & text_parts)) if 2 * len(value_parts & text_parts) > len(value_parts) else 0


_PIECES = re.compile(r"\w+|[^\w\s]")


class TextKind(StrEnum):
    """The content of a text parameter, inferred from its name."""

    URL = "url"
    JSON = "json"
    EXPRESSION = "expression"
    PATH = "path"
    ZONE = "zone"
    COMMAND = "command"
    CODE = "code"
    QUERY = "query"
    TEXT = "text"
    MESSAGE = "message"


class Offer:
    """A tool matched against a question: candidate arguments and the evidence for the tool."""

    def __init__(self, question: Question, spec: ToolSpec) -> None:
        self.question, self.spec = question, spec
        self.schemas = _schemas_of(spec)
        self.required: Sequence[str] = spec.parameters.get("required") or ()
        self.kinds = kinds_of(spec)
        self.options = [str(option) for schema in self.schemas.values() for option in schema.get("enum") or ()]
        self.summary = spec.description.strip().split("\n\n")[0]
        self.concepts = _concepts_in(spec.name, *self.schemas, *self.options, self.summary)

    @cached_property
    def candidates(self) -> dict[str, tuple[str, ...]]:
        """For each parameter with a known kind, the parts of the question that it could take."""
        found: dict[str, tuple[str, ...]] = {}
        for name, kind in sorted(self.kinds.items(), key=lambda item: list(TextKind).index(item[1])):
            taken = {text for texts in found.values() for text in texts}
            found[name] = tuple(dict.fromkeys(text for text in _FINDERS[kind](self) if text not in taken))
        return found

    @cached_property
    def matches(self) -> frozenset[str]:
        """The concepts shared by the question and the tool's description."""
        return self.concepts & self.question.concepts

    @property
    def missing(self) -> tuple[str, ...]:
        """Required parameters without a candidate in the question."""
        loose = (None, TextKind.MESSAGE) if self.has_known_kinds else (None, TextKind.MESSAGE, TextKind.TEXT)
        return tuple(name for name in self.required if self.kinds.get(name) not in loose and not self.candidates[name])

    @property
    def has_known_kinds(self) -> bool:
        """Whether the kind of every required parameter is known from its name."""
        return all(name in self.kinds for name in self.required)

    @property
    def is_formal(self) -> bool:
        """Whether the kinds of all required parameters are known: rules are then better than the engine."""
        return self.has_known_kinds and bool(self.kinds)

    @property
    def filled_kinds(self) -> tuple[TextKind, ...]:
        """The kinds of the parameters with candidates, if every required parameter has one."""
        there = {name: kind for name, kind in self.kinds.items() if self.candidates[name]}
        counted_nouns = tuple(kind for name, kind in there.items() if name in self.required or kind in ACTION_KINDS)
        return counted_nouns if there.keys() >= set(self.required) else ()

    @property
    def evidence(self) -> int:
        """The evidence for the tool: shared concepts, and the kinds of filled parameters if none is missing."""
        return sum(2 if kind in ACTION_KINDS else 1 for kind in self.filled_kinds) + len(self.matches)

    @property
    def is_plausible(self) -> bool:
        """Whether the request could refer to the tool. A quotation or a topic alone does not indicate an action."""
        wordless = any(kind is TextKind.MESSAGE and not self.candidates[name] for name, kind in self.kinds.items())
        if self.missing or (self.is_formal and wordless and self.question.concepts.isdisjoint({"save", "send"})):
            return False
        telling = any(self.kinds.get(name) in (*ACTION_KINDS, TextKind.QUERY) for name in self.required)
        return bool(self.matches or telling or not self.has_known_kinds)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The required parameters that are numbers."""
        return tuple(name for name in self.required if self.schemas.get(name, {}).get("type") in ("integer", "number"))

    @cached_property
    def enumerated_numbers(self) -> dict[str, float]:
        """The numbers listed in the question, for numbered parameters."""
        return enumerated_numbers(self.numeric, self.question.text)

    @property
    def coverage(self) -> frozenset[Span]:
        """The spans of the question that the tool could take as arguments."""
        texts = [text for each in self.candidates.values() for text in each]
        return frozenset(
            span for span in self.question.spans if span.is_certain and contains_span(span, texts, self.question)
        )

    def engine_schema(self) -> dict[str, Any]:
        """The tool in the form that works best with the engine: short, without parameters that cannot be filled."""
        properties = {}
        is_explained = not unexplained(self.question, [self])
        for name, schema in self.schemas.items():
            bare = schema.get("type") == "string" and "enum" not in schema and name not in self.required
            if not (bare and (is_explained if name not in self.kinds else not self.candidates[name])):
                properties[name] = {key: value for key, value in schema.items() if key != "default"}
        shape = {"type": "object", "properties": properties, "required": list(self.required)}
        parameters = {**shape, **definitions_of(self.spec.parameters)}
        return {"name": self.spec.name, "description": self.summary, "parameters": parameters}


def offers(question: Question, specs: Iterable[ToolSpec]) -> list[Offer]:
    """The tools that could serve the question, at most five, in the given order."""
    every = [Offer(question, spec) for spec in specs]
    lacking = [offer for offer in every if offer.missing]
    able = [offer for offer in every if offer.is_plausible and (offer.evidence or not offer.has_known_kinds)]
    if question.first_concept in _ACTIONS:
        able = [
            offer
            for offer in able
            if not offer.is_formal or not offer.concepts.isdisjoint({question.first_concept, "search"})
        ]
    able = [
        offer for offer in able if offer.filled_kinds or not any(other.matches > offer.matches for other in lacking)
    ]
    if _needs_no_search(question, every):
        able = [offer for offer in able if offer.matches or TextKind.QUERY not in offer.kinds.values()]
    able = _fitting_path(question, able)
    best = [offer for offer in able if not any(_is_clearly_better(other, offer) for other in able)]
    strongest = sorted(best, key=lambda offer: -offer.evidence)[:_MAX_OFFERS]
    return [offer for offer in best if offer in strongest]


def _fitting_path(question: Question, able: list[Offer]) -> list[Offer]:
    """The tools without those that read files if the only path is that of a folder, or the other way round."""
    paths = question.spans_of(Shape.PATH)
    is_file = len(paths) == 1 and FILE_ENDING.search(paths[0].text) is not None
    is_folder = not paths and "folder" in question.concepts and "file" not in question.concepts
    if not is_folder and (len(paths) != 1 or is_file != question.concepts.isdisjoint(_LISTING)):
        return able
    named = {offer: _concepts_in(offer.spec.name) for offer in able if TextKind.PATH in offer.kinds.values()}
    wanted, other = (_READING, _LISTING) if is_file else (_LISTING, _READING)
    if all(concepts.isdisjoint(wanted) for concepts in named.values()):
        return able
    return [offer for offer in able if offer not in named or named[offer].isdisjoint(other)]


def offer_lacking_arguments(question: Question, specs: Iterable[ToolSpec]) -> Offer | None:
    """The only tool that the question is about, if the question lacks a required argument."""
    incomplete = (offer for offer in (Offer(question, spec) for spec in specs) if offer.matches and offer.missing)
    return next((offer for offer in incomplete if not unexplained(question, [offer])), None)


def _needs_no_search(question: Question, every: Sequence[Offer]) -> bool:
    """Whether the question is about a tool other than a search, even if an argument is missing."""
    others = [offer for offer in every if offer.matches and TextKind.QUERY not in offer.kinds.values()]
    return any(offer.missing for offer in others) or bool(others and not unexplained(question, others))


def _is_clearly_better(one: Offer, other: Offer) -> bool:
    """Whether `one` explains the question so much better that `other` can be dropped.

    For tools whose parameters have no known kind, the engine chooses better than rules do.
    """
    if not other.is_formal:
        return False
    if one.evidence > other.evidence and one.coverage > other.coverage > frozenset():
        return True
    if (
        {*one.kinds.values()} >= {*other.kinds.values()}
        and one.matches > other.matches
        and one.coverage >= other.coverage
    ):
        return True
    return one.evidence >= other.evidence + 2 and one.matches >= other.matches and other.coverage <= one.coverage


def unexplained(
    question: Question, used: Iterable[Offer], arguments: Iterable[Mapping[str, Any]] = ()
) -> frozenset[str]:
    """The concepts of the question that are explained by neither the tools nor the arguments."""
    explained = {each for offer in used for each in offer.concepts}
    explained |= {"file"} if "folder" in explained else set()  # users call the content of a folder its files
    texts = [name for text in texts_in(list(arguments)) for name in (text, *places_in(text))]
    return question.concepts - explained - concepts(words(" ".join(texts))) - _LOOKUP_CONCEPTS - concepts(GREETINGS)


def _schemas_of(spec: ToolSpec) -> dict[str, Mapping[str, Any]]:
    """The plain schema of each parameter."""
    properties: Mapping[str, Any] = spec.parameters.get("properties") or {}
    return {name: plain_schema(schema, spec.parameters) for name, schema in properties.items()}


def kinds_of(spec: ToolSpec) -> dict[str, TextKind]:
    """The kinds of text parameters, inferred from their names.

    A query counts only if the tool searches, and a text that is saved or sent can be worded freely.
    """
    about = _concepts_in(spec.name, spec.description)
    kinds: dict[str, TextKind] = {}
    for name, schema in _schemas_of(spec).items():
        parts = {*words(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)), str(schema.get("format"))}
        kind = next((kind for kind, names in _NAMES.items() if not parts.isdisjoint(names.split())), None)
        if kind is TextKind.TEXT and not about.isdisjoint({"save", "send"}):
            kind = TextKind.MESSAGE
        if (
            kind
            and schema.get("type") == "string"
            and "enum" not in schema
            and (kind is not TextKind.QUERY or "search" in about)
        ):
            kinds[name] = kind
    return kinds


def _concepts_in(*texts: str) -> frozenset[str]:
    return concepts(words(re.sub(r"[_-]", " ", " ".join(texts))))


def contains_span(span: Span, texts: Iterable[str], question: Question) -> bool:
    """Whether one of the texts contains the value of the span, or the span as written."""
    return any(span.text in text or question.text[span.start : span.end] in text for text in texts)


def _shaped_spans(shape: Shape) -> Callable[[Offer], Iterator[str]]:
    """Create a finder for spans of a shape, including quotations that contain only such a span."""

    def find(offer: Offer) -> Iterator[str]:
        yield from (span.text for span in offer.question.spans_of(shape))
        for quote in offer.question.spans_of(Shape.QUOTE):
            inner = Question(quote.text).spans
            if len(inner) == 1 and inner[0].shape is shape and inner[0].text == quote.text.strip():
                yield quote.text

    return find


def _expressions_in(offer: Offer) -> Iterator[str]:
    question = offer.question
    unsure = {span.text for span in question.spans if not span.is_certain}
    asks_for_result = question.asks_for_knowledge or "calculation" in question.concepts
    yield from (text for text in _shaped_spans(Shape.EXPRESSION)(offer) if asks_for_result or text not in unsure)


def _paths_in(offer: Offer) -> Iterator[str]:
    question = offer.question
    quotes = [span for span in question.spans_of(Shape.QUOTE) if "\n" not in span.text]
    named = [span.text for span in quotes if _FILE_NAME.search(span.text) or _is_introduced_as_path(question, span)]
    yield from (*(span.text for span in question.spans_of(Shape.PATH)), *named)
    if not question.concepts.isdisjoint({"file", "folder"}):
        names = [match.group(1) or match.group(2) for match in _NAMED_PATH.finditer(question.text)]
        excluded = STOP_WORDS | HERE_WORDS | _NO_FOLDER_NAMES
        yield from (
            name for name in names if name.lower() not in excluded and concept(name.lower()) not in offer.concepts
        )


def _zones(offer: Offer) -> Iterator[str]:
    """The time zones of the places named in the question."""
    return zones_in(offer.question.text) if "time" in offer.question.concepts else iter(())


def _is_introduced_as_path(question: Question, span: Span) -> bool:
    before = words(question.text[: span.start])
    return bool(before) and (before[-1] in ("named", "called") or concept(before[-1]) in ("file", "folder"))


def _commands_in(offer: Offer) -> Iterator[str]:
    question = offer.question
    quotes = [span.text for span in question.spans_of(Shape.QUOTE)]
    yield from [span.text for span in question.spans_of(Shape.COMMAND)] or question.text_after_colon or quotes


def _commands(offer: Offer) -> Iterator[str]:
    question = offer.question
    if (
        not question.spans_of(Shape.COMMAND)
        and not _mentions_tool_name(offer)
        and question.concepts.isdisjoint(_RUNNING)
    ):
        return
    texts = (text for text in _commands_in(offer) if not text[:1].isdigit())
    yield from (text for text in texts if _mentions_tool_name(offer) or not _is_program(text))


def _programs_in(offer: Offer) -> Iterator[str]:
    python = "python" in words(f"{offer.spec.name.replace('_', ' ')} {offer.summary}")
    yield from (
        text for text in _commands_in(offer) if _is_program(text) or (_mentions_tool_name(offer) and not python)
    )


def _mentions_tool_name(offer: Offer) -> bool:
    """Whether the question mentions the tool's name, apart from `word_sequence`: its shell or language."""
    return not (_concepts_in(offer.spec.name) - {"run"}).isdisjoint(offer.question.concepts)


def _is_program(text: str) -> bool:
    """Whether a text is Python with an effect: `ls -1 | head -3` parses too, as arithmetic with two names."""
    nodes = nodes_of(text)
    acts = any(isinstance(node, ast.Call | ast.Assign | ast.Import | ast.comprehension) for node in nodes)
    return acts or (bool(nodes) and not any(isinstance(node, ast.Name) for node in nodes))


def _named_texts(offer: Offer) -> Iterator[str]:
    question = offer.question
    head, _, appended = question.text.partition("\n\n")  # as text piped into a question is appended
    if appended.strip() and not any(span.start < len(head) for span in question.spans_of(Shape.QUOTE)):
        yield appended.strip()
        return
    first, _, below = question.text.partition("\n")  # as a text is pasted below a question about it
    if below.strip() and first.rstrip().endswith(("?", ":")) and not question.spans_of(Shape.QUOTE):
        yield below.strip()
        return
    marked = [span.text for span in question.spans_of(Shape.QUOTE)]
    single = (match.group(1) for match in _NAMED_WORD.finditer(question.text))
    yield from marked or question.text_after_colon or (word for word in single if word not in STOP_WORDS)


def _messages_in(offer: Offer) -> Iterator[str]:
    json = [span.text for span in offer.question.spans_of(Shape.JSON)]
    stated = _STATED_TEXT.findall(offer.question.text) or [
        text.strip() for text in _WRITTEN.findall(offer.question.text)
    ]
    yield from list(_named_texts(offer)) or json or stated


def _search_topics(offer: Offer) -> Iterator[str]:
    """The question without leading and trailing words that only state the action."""
    question = offer.question
    wanted = not question.concepts.isdisjoint({"search", *_concepts_in(offer.spec.name)})
    elsewhere = question.spans_of(Shape.PATH, Shape.URL) and "web" not in question.concepts
    asks = wanted or (question.asks_for_knowledge and not question.spans)
    if (
        question.is_personal or elsewhere or not asks or "\n" in question.text
    ):  # the text of a file is not a search query
        return
    tokens = list(tokens_in(question.text))
    are_action_words = [all(_states_action_only(word, offer) for word in words(token.group())) for token in tokens]
    if not all(are_action_words):
        first, last = are_action_words.index(False), len(are_action_words) - 1 - are_action_words[::-1].index(False)
        yield question.text[tokens[first].start() : tokens[last].end()].strip(" .,;:?!\"'")


def _states_action_only(word: str, offer: Offer) -> bool:
    return word.removesuffix("'s") in STOP_WORDS or concept(word) in offer.concepts | _LOOKUP_CONCEPTS


_NAMES = {
    TextKind.URL: "url uri link website",
    TextKind.JSON: "json",
    TextKind.EXPRESSION: "expression formula equation calculation",
    TextKind.PATH: "path file filename filepath folder directory",
    TextKind.ZONE: "timezone tz",
    TextKind.COMMAND: "command cmd",
    TextKind.CODE: "code script python program",
    TextKind.QUERY: "query question topic search keyword keywords",
    TextKind.TEXT: "text string sentence phrase",
    TextKind.MESSAGE: "content contents message body",
}
ACTION_KINDS = (TextKind.URL, TextKind.JSON, TextKind.EXPRESSION, TextKind.PATH)
"""The kinds whose form alone suggests an action."""

FORMAL_KINDS = (*ACTION_KINDS, TextKind.ZONE, TextKind.COMMAND, TextKind.CODE)
"""The kinds whose form is found more reliably by rules than by the engine."""
_FINDERS: dict[TextKind, Callable[[Offer], Iterator[str]]] = {
    TextKind.URL: _shaped_spans(Shape.URL),
    TextKind.JSON: _shaped_spans(Shape.JSON),
    TextKind.EXPRESSION: _expressions_in,
    TextKind.PATH: _paths_in,
    TextKind.ZONE: _zones,
    TextKind.COMMAND: _commands,
    TextKind.CODE: _programs_in,
    TextKind.QUERY: _search_topics,
    TextKind.TEXT: _named_texts,
    TextKind.MESSAGE: _messages_in,
}
_MAX_OFFERS = 5
_RUNNING = frozenset({"run", "shell", "code"})
"""Ideas of a question in which a quotation can be a command."""

_NO_FOLDER_NAMES = vocabulary("whole entire parent root main project same other")
_LISTING, _READING = frozenset({"list", "folder"}), frozenset({"see"})
_ACTIONS = concepts(ACTIONS)
"""Actions on something: only a tool with that action in its description applies, whatever the question contains."""

_LOOKUP_CONCEPTS = frozenset({"search", "see", "fetch", "article"})
_FILE_NAME = re.compile(r"[\w-]\.[A-Za-z]\w{0,5}$|^[.~]?/\S")
_NAMED_PATH = re.compile(
    r"\b(?:(?:file|folder|directory|dir|thư mục|tệp|tập tin)(?:\s+(?:named|called|tên))?"
    r"|named|called|in|inside|under|of|at|trong|ở)\s+"
    r"(?:the\s+)?(?!(?:file|folder|directory)\b)([\w-]+)(?=[\s?.!]*$|\s+(?:folder|directory|file)\b|,|\s+(?:and|có)\b)"
    r"|\b(?:list|show|browse|see)\s+(?:(?:me|the|my)\s+)*([\w-]+)(?=\s+(?:folder|directory)\b)",
    re.IGNORECASE,
)
_STATED_TEXT = re.compile(
    r"(?i)\b(?:with (?:the )?(?:contents?|text|words)|containing|saying|that says):? +(.*\S)(?<![.!?])[\s.!?]*$"
)
_WRITTEN = re.compile(
    r"(?i)^(?:(?:please|can you|could you|hãy)\s+)*(?:write|save|put|store|ghi|lưu)\s+"
    r"((?:(?!(?:the|this|that|it|an?|my|some|all|about|or|of|for|file)\b)\S+\s+){1,6})"
    r"(?:to|into|in|vào)\s+(?:(?:the |a )?(?:file|tệp|tập tin)\s+)?[\w./~-]*\.\w+[\s.!?]*$"
)
_NAMED_WORD = re.compile(
    r"\b(?:word|name|string|text|(?:letters|chars|chữ cái)(?: (?:are|there|does|do|in|of|trong|của|từ))+)"
    r"\s+([^\W\d_]{2,})(?=[\s?.!]*$|\s+(?:have|has|contain|is|có)\b)",
    re.IGNORECASE,
)
