"""Candidate tools for a question, and candidate values for their parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from agentkit.llm.providers.offline.lexicon import (
    DEEDS,
    GREETINGS,
    HERE,
    STOP_WORDS,
    idea,
    ideas,
    places_in,
    stretches,
    words,
    zones_in,
)
from agentkit.llm.providers.offline.question_parser import Question, Shape, Span
from agentkit.llm.providers.offline.value_matching import definitions_of, in_turn, nodes_of, plain_schema, texts_in
from agentkit.messages import ToolSpec


class TextKind(StrEnum):
    """The content of a text parameter, inferred from its name."""

    URL = "url"
    JSON = "json"
    SUM = "sum"
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
        self.ideas = _ideas_in(spec.name, *self.schemas, *self.options, self.summary)

    @cached_property
    def candidates(self) -> dict[str, tuple[str, ...]]:
        """For each parameter with a known kind, the parts of the question that it could take."""
        found: dict[str, tuple[str, ...]] = {}
        for name, kind in sorted(self.kinds.items(), key=lambda item: list(TextKind).index(item[1])):
            taken = {text for texts in found.values() for text in texts}
            found[name] = tuple(dict.fromkeys(text for text in _FINDERS[kind](self) if text not in taken))
        return found

    @cached_property
    def matched(self) -> frozenset[str]:
        """The ideas shared by the question and the tool's description."""
        return self.ideas & self.question.ideas

    @property
    def missing(self) -> tuple[str, ...]:
        """Required parameters without a candidate in the question."""
        loose = (None, TextKind.MESSAGE) if self.known else (None, TextKind.MESSAGE, TextKind.TEXT)
        return tuple(name for name in self.required if self.kinds.get(name) not in loose and not self.candidates[name])

    @property
    def known(self) -> bool:
        """Whether the kind of every required parameter is known from its name."""
        return all(name in self.kinds for name in self.required)

    @property
    def formal(self) -> bool:
        """Whether the kinds of all required parameters are known: rules are then better than the engine."""
        return self.known and bool(self.kinds)

    @property
    def filled(self) -> tuple[TextKind, ...]:
        """The kinds of the parameters with candidates, if every required parameter has one."""
        there = {name: kind for name, kind in self.kinds.items() if self.candidates[name]}
        counted = tuple(kind for name, kind in there.items() if name in self.required or kind in TELLING)
        return counted if there.keys() >= set(self.required) else ()

    @property
    def support(self) -> int:
        """The evidence for the tool: shared ideas, and the kinds of filled parameters if no required one is missing."""
        return sum(2 if kind in TELLING else 1 for kind in self.filled) + len(self.matched)

    @property
    def plausible(self) -> bool:
        """Whether the tool could be meant at all. A quotation or a topic alone does not indicate an action."""
        wordless = any(kind is TextKind.MESSAGE and not self.candidates[name] for name, kind in self.kinds.items())
        if self.missing or (self.formal and wordless and self.question.ideas.isdisjoint({"save", "send"})):
            return False
        telling = any(self.kinds.get(name) in (*TELLING, TextKind.QUERY) for name in self.required)
        return bool(self.matched or telling or not self.known)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The required parameters that are numbers."""
        return tuple(name for name in self.required if self.schemas.get(name, {}).get("type") in ("integer", "number"))

    @cached_property
    def in_turn(self) -> dict[str, float]:
        """The numbers listed in the question, for numbered parameters."""
        return in_turn(self.numeric, self.question.text)

    @property
    def reach(self) -> frozenset[Span]:
        """The spans of the question that the tool could take as arguments."""
        texts = [text for each in self.candidates.values() for text in each]
        return frozenset(span for span in self.question.spans if span.sure and held(span, texts, self.question))

    def shown(self) -> dict[str, Any]:
        """The tool in the form that works best with the engine: short, without parameters that cannot be filled."""
        properties = {}
        idle = not leftover(self.question, [self])
        for name, schema in self.schemas.items():
            bare = schema.get("type") == "string" and "enum" not in schema and name not in self.required
            if not (bare and (idle if name not in self.kinds else not self.candidates[name])):
                properties[name] = {key: value for key, value in schema.items() if key != "default"}
        shape = {"type": "object", "properties": properties, "required": list(self.required)}
        parameters = {**shape, **definitions_of(self.spec.parameters)}
        return {"name": self.spec.name, "description": self.summary, "parameters": parameters}


def offers(question: Question, specs: Iterable[ToolSpec]) -> list[Offer]:
    """The tools that could serve the question, at most five, in the given order."""
    every = [Offer(question, spec) for spec in specs]
    lacking = [offer for offer in every if offer.missing]
    able = [offer for offer in every if offer.plausible and (offer.support or not offer.known)]
    if question.lead in _DEEDS:
        able = [offer for offer in able if not offer.formal or not offer.ideas.isdisjoint({question.lead, "search"})]
    able = [offer for offer in able if offer.filled or not any(other.matched > offer.matched for other in lacking)]
    if _is_plain(question, every):
        able = [offer for offer in able if offer.matched or TextKind.QUERY not in offer.kinds.values()]
    best = [offer for offer in able if not any(_outdoes(other, offer) for other in able)]
    kept = sorted(best, key=lambda offer: -offer.support)[:_MOST_OFFERS]
    return [offer for offer in best if offer in kept]


def unfilled(question: Question, specs: Iterable[ToolSpec]) -> Offer | None:
    """The only tool that the question is about, if the question lacks a required argument."""
    wanting = (offer for offer in (Offer(question, spec) for spec in specs) if offer.matched and offer.missing)
    return next((offer for offer in wanting if not leftover(question, [offer])), None)


def _is_plain(question: Question, every: Sequence[Offer]) -> bool:
    """Whether the question is about a tool other than a search, even if an argument is missing."""
    others = [offer for offer in every if offer.matched and TextKind.QUERY not in offer.kinds.values()]
    return any(offer.missing for offer in others) or bool(others and not leftover(question, others))


def _outdoes(one: Offer, other: Offer) -> bool:
    """Whether `one` explains the question so much better that `other` can be dropped.

    For tools whose parameters have no known kind, the engine chooses better than rules do.
    """
    if not other.formal:
        return False
    if one.support > other.support and one.reach > other.reach > frozenset():
        return True
    if {*one.kinds.values()} >= {*other.kinds.values()} and one.matched > other.matched and one.reach >= other.reach:
        return True
    return one.support >= other.support + 2 and one.matched >= other.matched and other.reach <= one.reach


def leftover(question: Question, used: Iterable[Offer], arguments: Iterable[Mapping[str, Any]] = ()) -> frozenset[str]:
    """The ideas of the question that are explained by neither the tools nor the arguments."""
    told = {each for offer in used for each in offer.ideas}
    told |= {"file"} if "folder" in told else set()  # users call the content of a folder its files
    texts = [said for text in texts_in(list(arguments)) for said in (text, *places_in(text))]
    return question.ideas - told - ideas(words(" ".join(texts))) - _ASKING - ideas(GREETINGS)


def _schemas_of(spec: ToolSpec) -> dict[str, Mapping[str, Any]]:
    """The plain schema of each parameter."""
    properties: Mapping[str, Any] = spec.parameters.get("properties") or {}
    return {name: plain_schema(schema, spec.parameters) for name, schema in properties.items()}


def kinds_of(spec: ToolSpec) -> dict[str, TextKind]:
    """The kinds of text parameters, inferred from their names.

    A query counts only if the tool searches, and a text that is saved or sent can be worded freely.
    """
    about = _ideas_in(spec.name, spec.description)
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


def _ideas_in(*texts: str) -> frozenset[str]:
    return ideas(words(re.sub(r"[_-]", " ", " ".join(texts))))


def held(span: Span, texts: Iterable[str], question: Question) -> bool:
    """Whether one of the texts contains the value of the span, or the span as written."""
    return any(span.text in text or question.text[span.start : span.end] in text for text in texts)


def _shaped(shape: Shape) -> Callable[[Offer], Iterator[str]]:
    """Create a finder for spans of a shape, including quotations that contain only such a span."""

    def find(offer: Offer) -> Iterator[str]:
        yield from (span.text for span in offer.question.of(shape))
        for quote in offer.question.of(Shape.QUOTE):
            inner = Question(quote.text).spans
            if len(inner) == 1 and inner[0].shape is shape and inner[0].text == quote.text.strip():
                yield quote.text

    return find


def _sums(offer: Offer) -> Iterator[str]:
    question = offer.question
    unsure = {span.text for span in question.spans if not span.sure}
    asked = question.asks_for_knowledge or "calculation" in question.ideas
    yield from (text for text in _shaped(Shape.SUM)(offer) if asked or text not in unsure)


def _paths(offer: Offer) -> Iterator[str]:
    question = offer.question
    quotes = [span for span in question.of(Shape.QUOTE) if "\n" not in span.text]
    named = [span.text for span in quotes if _FILE_NAME.search(span.text) or _introduced(question, span)]
    yield from (*(span.text for span in question.of(Shape.PATH)), *named)
    if not question.ideas.isdisjoint({"file", "folder"}):
        names = [match.group(1) for match in _NAMED_PATH.finditer(question.text)]
        idle = STOP_WORDS | HERE
        yield from (name for name in names if name.lower() not in idle and idea(name.lower()) not in offer.ideas)


def _zones(offer: Offer) -> Iterator[str]:
    """The time zones of the places named in the question."""
    return zones_in(offer.question.text) if "time" in offer.question.ideas else iter(())


def _introduced(question: Question, span: Span) -> bool:
    before = words(question.text[: span.start])
    return bool(before) and (before[-1] in ("named", "called") or idea(before[-1]) in ("file", "folder"))


def _orders(offer: Offer) -> Iterator[str]:
    question = offer.question
    quotes = [span.text for span in question.of(Shape.QUOTE)]
    yield from [span.text for span in question.of(Shape.ORDER)] or question.tail or quotes


def _commands(offer: Offer) -> Iterator[str]:
    texts = (text for text in _orders(offer) if not text[:1].isdigit())
    yield from (text for text in texts if _spoken_of(offer) or not _is_program(text))


def _codes(offer: Offer) -> Iterator[str]:
    python = "python" in words(f"{offer.spec.name.replace('_', ' ')} {offer.summary}")
    yield from (text for text in _orders(offer) if _is_program(text) or (_spoken_of(offer) and not python))


def _spoken_of(offer: Offer) -> bool:
    """Whether the question mentions the tool's name, apart from `run`: its shell or language."""
    return not (_ideas_in(offer.spec.name) - {"run"}).isdisjoint(offer.question.ideas)


def _is_program(text: str) -> bool:
    """Whether a text is Python with an effect: `ls -1 | head -3` parses too, as arithmetic with two names."""
    nodes = nodes_of(text)
    acts = any(isinstance(node, ast.Call | ast.Assign | ast.Import | ast.comprehension) for node in nodes)
    return acts or (bool(nodes) and not any(isinstance(node, ast.Name) for node in nodes))


def _named_texts(offer: Offer) -> Iterator[str]:
    question = offer.question
    head, _, appended = question.text.partition("\n\n")  # as text piped into a question is appended
    if appended.strip() and not any(span.start < len(head) for span in question.of(Shape.QUOTE)):
        yield appended.strip()
        return
    first, _, below = question.text.partition("\n")  # as a text is pasted below a question about it
    if below.strip() and first.rstrip().endswith(("?", ":")) and not question.of(Shape.QUOTE):
        yield below.strip()
        return
    marked = [span.text for span in question.of(Shape.QUOTE)]
    single = (match.group(1) for match in _NAMED_TEXT.finditer(question.text))
    yield from marked or question.tail or (word for word in single if word not in STOP_WORDS)


def _messages(offer: Offer) -> Iterator[str]:
    json = [span.text for span in offer.question.of(Shape.JSON)]
    yield from list(_named_texts(offer)) or json or _SAID.findall(offer.question.text)


def _topics(offer: Offer) -> Iterator[str]:
    """The question without leading and trailing words that only state the action."""
    question = offer.question
    wanted = not question.ideas.isdisjoint({"search", *_ideas_in(offer.spec.name)})
    elsewhere = question.of(Shape.PATH, Shape.URL) and "web" not in question.ideas
    asks = wanted or (question.asks_for_knowledge and not question.spans)
    if question.personal or elsewhere or not asks or "\n" in question.text:  # the text of a file is not a search query
        return
    tokens = list(stretches(question.text))
    idle = [all(_is_idle(word, offer) for word in words(token.group())) for token in tokens]
    if not all(idle):
        first, last = idle.index(False), len(idle) - 1 - idle[::-1].index(False)
        yield question.text[tokens[first].start() : tokens[last].end()].strip(" .,;:?!\"'")


def _is_idle(word: str, offer: Offer) -> bool:
    return word.removesuffix("'s") in STOP_WORDS or idea(word) in offer.ideas | _ASKING


_NAMES = {
    TextKind.URL: "url uri link website",
    TextKind.JSON: "json",
    TextKind.SUM: "expression formula equation calculation",
    TextKind.PATH: "path file filename filepath folder directory",
    TextKind.ZONE: "timezone tz",
    TextKind.COMMAND: "command cmd",
    TextKind.CODE: "code script python program",
    TextKind.QUERY: "query question topic search keyword keywords",
    TextKind.TEXT: "text string sentence phrase",
    TextKind.MESSAGE: "content contents message body",
}
TELLING = (TextKind.URL, TextKind.JSON, TextKind.SUM, TextKind.PATH)
"""The kinds whose form alone suggests an action."""

FORMS = (*TELLING, TextKind.ZONE, TextKind.COMMAND, TextKind.CODE)
"""The kinds whose form is found more reliably by rules than by the engine."""
_FINDERS: dict[TextKind, Callable[[Offer], Iterator[str]]] = {
    TextKind.URL: _shaped(Shape.URL),
    TextKind.JSON: _shaped(Shape.JSON),
    TextKind.SUM: _sums,
    TextKind.PATH: _paths,
    TextKind.ZONE: _zones,
    TextKind.COMMAND: _commands,
    TextKind.CODE: _codes,
    TextKind.QUERY: _topics,
    TextKind.TEXT: _named_texts,
    TextKind.MESSAGE: _messages,
}
_MOST_OFFERS = 5
_DEEDS = ideas(DEEDS)
"""Actions on something: only a tool with that action in its description applies, whatever the question contains."""

_ASKING = frozenset({"search", "see", "fetch", "article"})
_FILE_NAME = re.compile(r"[\w-]\.[A-Za-z]\w{0,5}$|^[.~]?/\S")
_NAMED_PATH = re.compile(
    r"\b(?:(?:file|folder|directory|dir|thư mục|tệp|tập tin)(?:\s+(?:named|called|tên))?"
    r"|named|called|in|inside|under|of|at|trong|ở)\s+"
    r"(?:the\s+)?(?!(?:file|folder|directory)\b)([\w-]+)(?=[\s?.!]*$|\s+(?:folder|directory|file)\b|,|\s+(?:and|có)\b)",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?i)\b(?:with (?:the )?(?:contents?|text|words)|containing|saying|that says):? +(.*\S)(?<![.!?])[\s.!?]*$"
)
_NAMED_TEXT = re.compile(
    r"\b(?:word|name|string|text|(?:letters|chars|chữ cái)(?: (?:are|there|does|do|in|of|trong|của|từ))+)"
    r"\s+([^\W\d_]{2,})(?=[\s?.!]*$|\s+(?:have|has|contain|is|có)\b)",
    re.IGNORECASE,
)
