"""Validation and repair of the tool calls that the model proposes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.llm.providers.offline.argument_matching import (
    ACTION_KINDS,
    FORMAL_KINDS,
    Offer,
    TextKind,
    contains_span,
    in_unit_of_parameter,
    is_abbreviated,
    is_named,
    is_next_to_name,
    json_value_of,
    lacks_part,
    measures_in,
    operation_in,
    overlap,
    plain_schema,
    texts_in,
    unexplained,
    values_in,
    word_sequence,
)
from agentkit.llm.providers.offline.lexicon import (
    HERE_WORDS,
    STOP_WORDS,
    concept,
    concepts,
    day_of,
    format_day,
    numbers_in,
    places_in,
    plain,
    signed_numbers_in,
    states_date,
    vocabulary,
    word_numbers_in,
    words,
    zones_in,
)
from agentkit.llm.providers.offline.question_parser import Question, Shape, Span


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A tool and its proposed arguments."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallValidation:
    """The calls after repair; `doubts` lists objections, and is empty if the calls can be made.

    `complete` means that every call has all required arguments, so that the user can confirm with a plain yes.
    `unclear` contains pairs of tool and parameter that the question leaves open, if the tool itself is clear.
    """

    calls: tuple[ProposedCall, ...]
    doubts: tuple[str, ...]
    complete: bool
    unclear: tuple[tuple[str, str], ...] = ()


def validated_calls(question: Question, offered: Sequence[Offer], envelope: Mapping[str, Any]) -> CallValidation:
    """Repair the engine's proposals, and collect everything in them that does not follow from the question."""
    by_name = {offer.spec.name: offer for offer in offered}
    calls: list[ProposedCall] = []
    unclear_parameters: list[tuple[str, str]] = []
    proposals = envelope.get("function_calls") or envelope.get("suppressed_calls") or ()
    for proposal in (each for each in proposals if each["name"] in by_name):
        name = proposal["name"]
        call, unclear = _repair_call(
            by_name[name], proposal.get("arguments") or {}, _ungrounded_parameters(envelope, name)
        )
        if call not in calls:
            calls.append(call)
            unclear_parameters.extend((name, parameter) for parameter in unclear)
    doubts = [f"{tool}: {parameter}" for tool, parameter in unclear_parameters]
    is_refused = not calls
    literal_calls = _plain_call(question, offered) or _search(question, offered)
    is_clear = any(by_name[call.tool].evidence >= _CLEAR_SUPPORT for call in literal_calls)
    is_same_tools = {call.tool for call in calls} == {call.tool for call in literal_calls}
    is_refused = is_refused or (is_clear and not is_same_tools and all(by_name[call.tool].is_formal for call in calls))
    if is_refused or (doubts and is_same_tools):
        calls, doubts = literal_calls, []
    used = [by_name[name] for name in dict.fromkeys(call.tool for call in calls)]
    check = _CallCheck(question, offered, used, calls)
    is_sensible = len(check.unexplained) <= 1 and not (check.lacks_arguments and check.unexplained)
    complete = bool(calls) and not doubts and is_sensible and all(offer.evidence for offer in used)
    confidence = float(envelope.get("confidence") or 0)
    is_search = bool(calls) and calls == _search(question, offered)
    if is_refused and not is_search and not any(offer.evidence >= _CLEAR_SUPPORT for offer in used):
        doubts.append("the engine refuses")
    elif not is_refused and confidence < check.needed_confidence:
        doubts.append(f"confidence {confidence:.2f} is below {check.needed_confidence}")
    reported = unclear_parameters if envelope.get("function_calls") and check.is_chosen else ()
    return CallValidation(tuple(calls), (*doubts, *check.objections()), complete, tuple(reported))


def calls_without_engine(question: Question, offered: Sequence[Offer]) -> tuple[ProposedCall, ...]:
    """The call whose tool and arguments follow from the question alone, so that the engine is not needed.

    It explains every word of the question, in which nothing is ambiguous; empty if there is no such call.
    """
    calls = _only_call(question, offered) or _plain_call(question, offered)
    if not calls:
        return _world_search(question, offered)
    used = [offer for offer in offered if offer.spec.name == calls[0].tool]
    if _is_search(used[0]) and not _names_search(question, used[0]):
        return _world_search(question, offered)
    check = _CallCheck(question, offered, used, calls)
    is_checked = question.spans == question.spans_of(Shape.JSON) and "check" in question.concepts
    is_sum = question.spans == question.spans_of(Shape.EXPRESSION)
    needed_confidence = 0.0 if question.spans and (is_sum or is_checked) else check.needed_confidence
    is_certain = (
        not check.unexplained and not check.others and needed_confidence <= _CERTAIN and not any(check.objections())
    )
    return tuple(calls) if is_certain else ()


def _world_search(question: Question, offered: Sequence[Offer]) -> tuple[ProposedCall, ...]:
    """The search for a question about the world; empty if something in the question is not explained by a search."""
    is_asked_for = question.first_concept == "search" and len(offered) > 1 and "and" not in words(question.text)
    calls = _search(question, offered, is_asked_for=is_asked_for)
    check = _CallCheck(question, offered, offered[:1], calls)
    return tuple(calls) if calls and not question.counted_nouns and not any(check.objections()) else ()


def _names_search(question: Question, offer: Offer) -> bool:
    """Whether the request is a single search with this tool: by its name, or in the web."""
    is_named = not (concepts(words(offer.spec.name.replace("_", " "))) - {"search"}).isdisjoint(question.concepts)
    return is_named and "and" not in words(question.text)


def _only_call(question: Question, offered: Sequence[Offer]) -> list[ProposedCall]:
    """The calls of the only tool for a question about sums, or of the only tool that is offered at all.

    Several sums, files or addresses are a call each.
    """
    is_sum = bool(question.spans) and all(span.shape is Shape.EXPRESSION and span.is_certain for span in question.spans)
    usable = [offer for offer in offered if not is_sum or _required_kinds(offer) == [TextKind.EXPRESSION]]
    if (
        len(usable) != 1
        or not usable[0].required
        or not all(kind in ACTION_KINDS for kind in _required_kinds(usable[0]))
    ):
        return []
    tool, candidates = usable[0].spec.name, [usable[0].candidates[name] for name in usable[0].required]
    if len(candidates) == 1 and 1 < len(candidates[0]) == len(question.spans) <= _MAX_CALLS:
        return [ProposedCall(tool, {usable[0].required[0]: values}) for values in candidates[0]]
    if any(len(values) != 1 for values in candidates):
        return []
    return [ProposedCall(tool, dict(zip(usable[0].required, (values[0] for values in candidates), strict=True)))]


def _required_kinds(offer: Offer) -> list[TextKind | None]:
    return [offer.kinds.get(name) for name in offer.required]


def operation_call(question: Question, offered: Sequence[Offer]) -> ProposedCall | None:
    """The call of the one tool named for the question's operation with as many parameters: `add` for 3 plus 4.

    None if the question contains anything else, or if a tool takes the expression itself.
    """
    expressions = question.spans_of(Shape.EXPRESSION)
    if (
        len(expressions) != 1
        or len(question.spans) > 1
        or any(TextKind.EXPRESSION in offer.kinds.values() for offer in offered)
    ):
        return None
    operation_words, numbers = operation_in(expressions[0].text)
    matching = [offer for offer in offered if not operation_words.isdisjoint(words(offer.spec.name.replace("_", " ")))]
    if len(matching) != 1 or unexplained(question, matching):
        return None
    is_integer = all(matching[0].schemas[name].get("type") == "integer" for name in matching[0].required)
    values = [int(number) if is_integer or number.is_integer() else number for number in numbers]
    fits = values == numbers and len(values) == len(matching[0].required) == len(matching[0].numeric)
    return ProposedCall(matching[0].spec.name, dict(zip(matching[0].required, values, strict=True))) if fits else None


def _plain_call(question: Question, offered: Sequence[Offer]) -> list[ProposedCall]:
    """The call that the question spells out literally, if that is unique; otherwise empty."""
    usable = [
        offer
        for offer in offered
        if offer.is_formal and offer.matches and all(len(offer.candidates[name]) == 1 for name in offer.required)
    ]
    best = max(usable, key=lambda offer: offer.evidence, default=None)
    if best is None:
        return []
    arguments = {name: found[0] for name, found in best.candidates.items() if len(found) == 1}
    if unexplained(question, [best], [arguments]):
        return []
    others = [offer for offer in offered if offer is not best and (offer.matches or not _is_search(offer))]
    if any(offer.evidence >= best.evidence for offer in others):
        return []
    names = (*best.required, *(name for name, kind in best.kinds.items() if kind in FORMAL_KINDS))
    return [ProposedCall(best.spec.name, {name: arguments[name] for name in names if name in arguments})]


def _is_search(offer: Offer) -> bool:
    return _required_kinds(offer) == [TextKind.QUERY]


def _search(question: Question, offered: Sequence[Offer], *, is_asked_for: bool = False) -> list[ProposedCall]:
    """A call of the first search tool for a question about the world, if only search tools could serve it."""
    if not offered or not (is_asked_for or question.asks_for_knowledge) or not all(map(_is_search, offered)):
        return []
    name = offered[0].required[0]
    return [ProposedCall(offered[0].spec.name, {name: offered[0].candidates[name][0]})]


def _repair_call(
    offer: Offer, arguments: Mapping[str, Any], ungrounded: frozenset[str]
) -> tuple[ProposedCall, tuple[str, ...]]:
    """The call repaired from the question, and the parameters that stay unclear."""
    repaired: dict[str, Any] = {}
    unclear: list[str] = []
    arguments = {**arguments, **offer.enumerated_numbers}
    for name in offer.schemas:
        value = arguments.get(name)
        if value is None and name not in offer.required:
            if offer.kinds.get(name) in FORMAL_KINDS and len(offer.candidates[name]) == 1:
                repaired[name] = offer.candidates[name][0]
            continue
        if name in offer.kinds:
            repaired_value = _match_in_question(offer, name, value)
        else:
            repaired_value = _value_in_format(offer, name, value)
            if repaired_value is None and name not in ungrounded and _is_grounded(offer, name, value):
                repaired_value = value
        if repaired_value is not None:
            repaired[name] = repaired_value
        elif name in offer.required or not _is_omittable(offer, value):
            unclear.append(name)
    repaired |= _remaining_number(offer, repaired, unclear)
    return ProposedCall(offer.spec.name, repaired), tuple(name for name in unclear if name not in repaired)


def _remaining_number(offer: Offer, repaired: Mapping[str, Any], unclear: Sequence[str]) -> dict[str, float]:
    """The only unused number of the question for the only unclear parameter, if it is next to the parameter's name."""
    used = {number for text in texts_in(repaired) for number in numbers_in(text)}
    remaining = [number for number in offer.question.numbers if number not in used]
    if len(unclear) != 1 or len(remaining) != 1 or unclear[0] not in offer.numeric:
        return {}
    is_near_name = is_next_to_name(remaining[0], unclear[0], offer.schemas[unclear[0]], offer.question.text)
    return {unclear[0]: int(remaining[0]) if remaining[0].is_integer() else remaining[0]} if is_near_name else {}


def _value_in_format(offer: Offer, name: str, value: Any) -> Any:
    """The value in the parameter's format if the question states it in another form; otherwise None."""
    text, schema = offer.question.text, offer.schemas[name]
    if name in offer.enumerated_numbers:
        return value
    if type(value) in (int, float):
        return in_unit_of_parameter(value, name, schema, text)
    if not isinstance(value, str) or "enum" in schema:
        return None
    if (day := day_of(value)) and states_date(day, text):
        return format_day(day, schema) or value
    return value if is_abbreviated(value, text) or is_named(value, text, schema) else None


def _match_in_question(offer: Offer, name: str, value: Any) -> str | None:
    """The part of the question that matches the engine's value; None if it is missing or ambiguous."""
    candidates = offer.candidates[name]
    if not isinstance(value, str) or not value:
        return candidates[0] if len(candidates) == 1 else None
    names = {text: (text, offer.question.original_text(text), *places_in(text)) for text in candidates}
    overlaps = {text: max(overlap(value, each) for each in names[text]) for text in candidates}
    if any(overlaps.values()):
        best = max(candidates, key=lambda text: overlaps[text])
        is_wider = offer.kinds[name] is TextKind.QUERY and best in value and value in offer.question.text
        return value if is_wider else best
    if len(candidates) == 1 and offer.kinds[name] in FORMAL_KINDS and _is_omittable(offer, value):
        return candidates[0]
    if candidates or (offer.has_known_kinds and offer.kinds[name] is not TextKind.MESSAGE):
        return None
    is_stated = _literal(value, offer.question) if offer.has_known_kinds else _is_grounded(offer, name, value)
    return value if is_stated else None


def _is_grounded(offer: Offer, name: str, value: Any) -> bool:
    return grounded(value, offer.question, offer.schemas[name], offer.spec.parameters)


def _is_omittable(offer: Offer, value: Any) -> bool:
    """Whether the value can be omitted: it is not from the question, or only means `here`."""
    value_words = set(words(value)) if isinstance(value, str) else set()
    stated = {word for word in value_words & set(words(offer.question.text)) if concept(word) not in offer.concepts}
    return isinstance(value, str) and stated <= HERE_WORDS | STOP_WORDS


def _ungrounded_parameters(envelope: Mapping[str, Any], tool: str) -> frozenset[str]:
    """The parameters whose values the engine itself reports as ungrounded."""
    flagged = (envelope.get("validation") or {}).get("ungrounded") or ()
    return frozenset(re.split(r"[.\[]", path)[1] for path in flagged if path.startswith(f"{tool}."))


class _CallCheck:
    """All calls, checked against the whole question."""

    def __init__(
        self, question: Question, offered: Sequence[Offer], used: Sequence[Offer], calls: Sequence[ProposedCall]
    ) -> None:
        self.question, self.used, self.calls = question, used, calls
        arguments = [call.arguments for call in calls]
        self.lacks_arguments = not all(arguments)
        self.texts = list(texts_in(arguments))
        self.values = list(values_in(arguments))
        self.certain = all(offer.is_formal for offer in used)
        counted_nouns = frozenset[str]() if self.certain else concepts(question.counted_nouns)
        self.unexplained = unexplained(question, used, arguments) - counted_nouns
        self.others = [offer for offer in offered if offer not in used and self._is_better_match(offer)]

    def _is_better_match(self, offer: Offer) -> bool:
        """Whether a tool has more evidence than those used, or as much while some of the question is unexplained."""
        best_support = max((each.evidence for each in self.used), default=offer.evidence)
        return offer.evidence > best_support or bool(
            self.unexplained and offer.is_formal and offer.evidence == best_support
        )

    @property
    def is_chosen(self) -> bool:
        """Whether a single tool is called that matches words of the question, with parameters of no known kind."""
        return len(self.used) == 1 and bool(self.used[0].matches) and not self.certain

    @property
    def needed_confidence(self) -> float:
        """The confidence required of the engine: higher with less evidence and more unexplained words."""
        margin = sum(offer.evidence for offer in self.used) - len(self.unexplained)
        doubtful = [
            span
            for span in self.question.spans
            if not span.is_certain and contains_span(span, self.texts, self.question)
        ]
        unsure = any(
            span.shape is not Shape.EXPRESSION or "calculation" not in self.question.concepts for span in doubtful
        )
        telling = any(kind in ACTION_KINDS for offer in self.used for kind in offer.kinds.values())
        floor = next(floor for least, floor in _FLOORS[self.certain] if margin >= least)
        if not self.certain and not self.unexplained:
            floor = _ALL_EXPLAINED
        floors = (
            (True, floor),
            (unsure or (self.unexplained and not telling and self.certain), 0.5),
            (self.certain and self.question.first_concept in self.unexplained, 0.75),
            (self.others and not self.certain, 0.75),
            (self.unexplained and not any(offer.matches for offer in self.used), 0.75),
            (self.unexplained and self.lacks_arguments, 0.85),
        )
        return max(floor for applies, floor in floors if applies)

    def objections(self) -> Iterator[str]:
        """Objections to the calls that apply whatever the engine's confidence."""
        yield from (f"not used: {text}" for text in self._unused_parts())
        yield from (f"rather {offer.spec.name}" for offer in self.others if self.certain)
        yield from (f"not stated: {option}" for option in self._unstated_options())
        yield from (f"only a part: {text}" for text in self._partial_texts())
        yield from (f"used twice: {text}" for text in (*self._shared_texts(), *self._repeated_numbers()))
        if self.unexplained and self.certain and not any(offer.matches for offer in self.used):
            yield f"unexplained: {', '.join(sorted(self.unexplained))}"
        if self.lacks_arguments and self.unexplained and len(self.used) == 1:
            # a tool without a place parameter returns the local time
            elsewhere = self.used[0].schemas or any(zones_in(self.question.text))
            if elsewhere or len(self.unexplained) > 1:
                yield f"no argument says: {', '.join(sorted(self.unexplained))}"

    def _unused_parts(self) -> Iterator[str]:
        """Parts of the question missing in all calls: spans, numbers, options and switches of the tools."""
        yield from (
            span.text
            for span in self.question.spans
            if (span.is_certain or span.shape is Shape.EXPRESSION) and not self._has(span)
        )
        used_numbers = {number for text in self.texts for number in numbers_in(text)}
        used_numbers |= {
            text_words
            for text_words, factor in measures_in(self.question.text).items()
            if round(text_words * factor, 9) in used_numbers
        }
        yield from (f"{number:g}" for number in self.question.numbers if number not in used_numbers)
        text_words = f" {' '.join(words(self.question.text))} "
        used_texts = {text.lower() for text in self.texts}
        for option in dict.fromkeys(option for offer in self.used for option in offer.options):
            if f" {' '.join(words(option.replace('_', ' ')))} " in text_words and option.lower() not in used_texts:
                yield option
        yield from self._unset_switches()

    def _has(self, span: Span) -> bool:
        """Whether an argument contains a span, or equals the JSON value of the span."""
        json_value = json_value_of(span.text) if span.shape is Shape.JSON else None
        return contains_span(span, self.texts, self.question) or (json_value is not None and json_value in self.values)

    def _unset_switches(self) -> Iterator[str]:
        """The switches that are off although the question names them."""
        stated = concepts(words(self.question.text))
        for offer in self.used:
            set_names = {name for call in self.calls if call.tool == offer.spec.name for name in call.arguments}
            for name, schema in offer.schemas.items():
                name_concepts = concepts(words(name.replace("_", " ")))
                is_off = name not in set_names and schema.get("type") == "boolean" and not schema.get("default")
                if is_off and name_concepts and name_concepts <= stated:
                    yield name

    def _partial_texts(self) -> Iterator[str]:
        """Texts that lack a part shown in their parameter's description."""
        schemas = {offer.spec.name: offer.schemas for offer in self.used if not offer.is_formal}
        for call in (call for call in self.calls if call.tool in schemas):
            for name, text in call.arguments.items():
                if isinstance(text, str) and lacks_part(text, schemas[call.tool][name]):
                    yield text

    def _shared_texts(self) -> Iterator[str]:
        """Texts used by calls of two tools, although each part of a question has one purpose."""
        texts_by_tool = {
            (call.tool, text) for call in self.calls for text in call.arguments.values() if isinstance(text, str)
        }
        texts = [text for _, text in texts_by_tool]
        yield from (text for text in dict.fromkeys(texts) if texts.count(text) > 1)
        yield from (text for call in self.calls for text in self._overlapping_texts(call))

    def _overlapping_texts(self, call: ProposedCall) -> Iterator[str]:
        """Texts that the parameters of one call use more often than the question contains them, whole or in part."""
        schemas = next(offer.schemas for offer in self.used if offer.spec.name == call.tool)
        values = [value for name, value in call.arguments.items() if "enum" not in schemas[name]]
        used = [word_sequence(text) for text in texts_in(values) if words(text) and not _NUMERIC.fullmatch(text)]
        question = word_sequence(self.question.text)
        for text in dict.fromkeys(used):
            if 1 < sum(each.count(text) for each in used) > question.count(text) > 0:
                yield text.strip()

    def _repeated_numbers(self) -> Iterator[str]:
        """Numbers that one call uses more often than the question contains them, except defaults."""
        stated = Counter((*map(abs, signed_numbers_in(self.question.text)), *word_numbers_in(self.question.text)))
        schemas = {offer.spec.name: offer.schemas for offer in self.used}
        for call in self.calls:
            taken = Counter(
                abs(value)
                for name, value in call.arguments.items()
                if type(value) in (int, float) and value != schemas[call.tool].get(name, {}).get("default")
            )
            yield from (f"{number:g}" for number, count in taken.items() if count > max(stated[number], 1))

    def _unstated_options(self) -> Iterator[str]:
        """Options chosen without a matching word in the question, although some of its words are unexplained."""
        stated = concepts(words(self.question.text))
        chosen = {text for text in self.texts if any(text in offer.options for offer in self.used)}
        for option in chosen if self.unexplained else ():
            named = concepts(words(option.replace("_", " ")))
            if named and stated.isdisjoint(named):
                yield option


def grounded(value: Any, question: Question, schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Whether every part of a value comes from the question. Choices from an enum are left to the engine."""
    schema = plain_schema(schema, root)
    if isinstance(value, bool) or "enum" in schema or "const" in schema or value == schema.get("default", ...):
        return True
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        return all(grounded(each, question, properties.get(key, {}), root) for key, each in value.items())
    if isinstance(value, list) and value in [json_value_of(span.text) for span in question.spans_of(Shape.JSON)]:
        return True
    if isinstance(value, list):
        return all(grounded(each, question, schema.get("items") or {}, root) for each in value)
    if isinstance(value, int | float):
        return value in (*signed_numbers_in(question.text), *word_numbers_in(question.text))
    question_words = {*words(question.text), *plain(words(question.text))}
    return isinstance(value, str) and (schema.get("format") in DATES or set(words(value)) <= question_words)


def _literal(value: str, question: Question) -> bool:
    """Whether the value occurs literally in the question, and is not a description such as `a poem about autumn`."""
    return value in question.text and bool(words(value)) and words(value)[0] not in _DETERMINERS


# The margin is the evidence for the calls minus the unexplained words; the engine's confidence must make up for the
# rest. It is well calibrated for parameters that are names, and hardly for those with a known form.
_FLOORS = {True: ((2, 0.0), (1, 0.1), (0, 0.5), (-99, 0.75)), False: ((1, 0.3), (0, 0.4), (-99, 0.5))}
_ALL_EXPLAINED = 0.25
"""Required confidence if the tool and the arguments explain every word of the question."""

_CERTAIN = 0.1
"""Required confidence up to which the engine is not asked at all."""

_MAX_CALLS = 5
_CLEAR_SUPPORT = 4
"""Evidence at which a literally spelled-out call is made although the engine proposes none."""

DATES = ("date", "date-time", "time")  # the engine reformats these, and checks their years itself
_NUMERIC = re.compile(r"[-+.\d]+|True|False|None")
_DETERMINERS = vocabulary("a an the this that these those it my your our his her their some any")


Leaf = tuple[Any, Mapping[str, Any]]
"""A text, number or choice inside a value, with its schema."""


def leaves(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Leaf]:
    """Every text, number and choice inside a value, with its schema."""
    return (part for part in _partial_texts(value, schema, root) if not isinstance(part[0], Mapping | list))


def _partial_texts(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Leaf]:
    """A value and every value nested in it, with its schema."""
    schema = plain_schema(schema, root)
    yield value, schema
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        for name, each in value.items():
            yield from _partial_texts(each, properties.get(name, {}), root)
    elif isinstance(value, list):
        for each in value:
            yield from _partial_texts(each, schema.get("items") or {}, root)


def with_complete_lists(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], text: str) -> Any:
    """Complete lists of numbers: a list with the first numbers of an enumeration in the text gets all of them."""
    schema = plain_schema(schema, root)
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        return {name: with_complete_lists(each, properties.get(name, {}), root, text) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    kind = plain_schema(schema.get("items") or {}, root).get("type")
    if kind in ("integer", "number") and "maxItems" not in schema:
        return _enumeration(value, text, whole=kind == "integer")
    return value


def omitted_entries(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """Numbers, dates and following entries that the text lists but the lists of an answer lack."""
    lists = list(_lists(fields, schema, schema))
    missing: list[str] = []
    if any(_is_numeric(kind) for entries, inner in lists for _, kind in leaves(entries, {"items": inner}, schema)):
        used = [number for leaf, _ in leaves(fields, schema, schema) for number in numbers_in(str(leaf))]
        missing += [f"{number:g}" for number in numbers_in(text) if number not in used]
    listed_words = {word for leaf, _ in leaves(fields, schema, schema) for word in words(str(leaf))}
    for entries, inner in lists:
        if inner.get("type") == "string" and not _is_numeric(inner) and "enum" not in inner:
            following = _next_entry(entries, text)
            missing += [following] if not set(words(following)) <= listed_words else []
    return list(dict.fromkeys(missing))


def repeated_numbers(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """The numbers that a list contains more often than the text does."""
    stated = Counter(numbers_in(text))
    found: list[str] = []
    for entries, inner in _lists(fields, schema, schema):
        counts = Counter(abs(entry) for entry in entries if inner.get("type") in ("integer", "number"))
        found += [f"{number:g}" for number, count in counts.items() if 0 < stated[number] < count]
    return found


def _lists(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]
) -> Iterator[tuple[list[Any], Mapping[str, Any]]]:
    """Every list inside a value, with the schema of its entries."""
    found = (part for part in _partial_texts(value, schema, root) if isinstance(part[0], list))
    return ((entries, plain_schema(kind.get("items") or {}, root)) for entries, kind in found)


def _is_numeric(schema: Mapping[str, Any]) -> bool:
    """Whether a leaf is written in digits."""
    return schema.get("type") in ("integer", "number") or schema.get("format") in DATES


def _enumeration(values: Sequence[Any], text: str, *, whole: bool) -> list[Any]:
    """The enumeration in the text that starts with the values, otherwise the values."""
    for match in _ENUMERATION.finditer(text):
        numbers = [float(number.replace("\u2212", "-")) for number in _NUMBER.findall(match.group())]
        if values and len(numbers) > len(values) and numbers[: len(values)] == list(values):
            return [int(number) if whole and number.is_integer() else number for number in numbers]
    return list(values)


def _next_entry(entries: Sequence[Any], text: str) -> str:
    """The entry that follows the last one in the text, or an empty text."""
    places = [text.rfind(entry) + len(entry) for entry in entries if isinstance(entry, str) and entry in text]
    match = _NEXT.match(text, max(places)) if places else None
    return (match.group(1) or match.group(2)).strip() if match else ""


_NUMBER = re.compile(r"(?<![\w.,])[-\u2212]?\d+(?:\.\d+)?(?![\w%])")
_AND = r"(?:and|or|và|hoặc|&)"
_ENUMERATION = re.compile(rf"{_NUMBER.pattern}(?:(?:\s*[,;]\s+(?:{_AND}\s+)?|\s+{_AND}\s+){_NUMBER.pattern})+")
_NEXT = re.compile(
    rf"[\"'\u201d\u2019)]?(?:\s*[,;]\s*(?:{_AND}\s+)?([^,;.\n]{{1,60}}?)(?=[,;.\n]|\s+{_AND}\s|\Z)"
    rf"|\s+{_AND}\s+([^\s,;.]+)(?=[\s.!?]*\Z))"
)
