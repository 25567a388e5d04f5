"""The provider that answers requests with the offline model, and typed answers that it extracts from a text."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.errors import BadResponse, ConfigError, MissingExtra, Rejected
from agentkit.events import Event, response_events
from agentkit.llm.protocols.parsing import json_or_text
from agentkit.llm.providers.offline.argument_matching import (
    Offer,
    TextKind,
    definitions_of,
    kinds_of,
    offer_lacking_arguments,
    offers,
    plain_schema,
)
from agentkit.llm.providers.offline.lexicon import (
    date_answer,
    in_english,
    places_in,
    separate_time_requests,
    states_date,
    table,
    word_set,
    words,
    zones_in,
)
from agentkit.llm.providers.offline.normalisation import conversion_error, is_conversion_only, is_statement, normalised
from agentkit.llm.providers.offline.question_parser import Question
from agentkit.llm.providers.offline.validation import (
    DATES,
    CallValidation,
    ProposedCall,
    calls_without_engine,
    grounded,
    leaves,
    omitted_entries,
    operation_call,
    repeated_numbers,
    validated_calls,
    with_complete_lists,
)
from agentkit.llm.providers.offline.worker import EngineProcess
from agentkit.messages import (
    REASONING_EFFORTS,
    AssistantMessage,
    Message,
    OutputSchema,
    Request,
    Response,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    calls_in,
    parts_of,
    with_distinct_ids,
)
from agentkit.suggestions import closest
from agentkit.usage import Tariff, is_number, is_whole, unreported

ORIGIN = "offline"
"""The `origin` of this model's messages."""

MODEL = "needle3"
MAX_CHARS = 1_000
"""Maximum length in characters of the text passed to the engine, after long quotations, URLs and JSON are shortened."""

MAX_REQUEST_CHARS = 10_000
"""Maximum length in characters of a request before it is shortened."""


def installed() -> bool:
    """Whether the `offline` extra is installed; does not load the engine."""
    from importlib.util import find_spec

    spec = find_spec("needle")
    folders = spec.submodule_search_locations if spec else None
    return any(Path(folder, f"{MODEL}.cact").exists() for folder in folders or ())


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    suggested: tuple[ProposedCall, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)


class OfflineModel:
    """A provider without key or network that selects tools and fills in their arguments; it cannot chat.

    Only the last user message is used, without the earlier conversation, except that a plain yes accepts the last
    suggestion. A call is made only if all of it follows from the question; otherwise the text states what was unclear.
    Results of calls are reported unchanged. The engine runs in a separate process, started with the first request.

    Args:
        timeout_seconds: Maximum time for one response, after which the engine's process is terminated.

    Settings such as the temperature have no effect, but invalid values raise ConfigError.

    Requests raise MissingExtra without the `offline` extra, Rejected for images and texts that are too long,
    Unreachable after the timeout, BadResponse if an `output_schema` could not be filled with certainty.
    """

    def __init__(self, *, timeout_seconds: float = 120) -> None:
        self._timeout_seconds = timeout_seconds
        self._worker: EngineProcess | None = None
        self._owner = 0

    def close(self) -> None:
        """Release the engine's process, which exits with its last user. A later request starts a new one."""
        self._worker = None

    def complete(self, request: Request) -> Response:
        """Answer one request, blocking."""
        _check_settings(request.settings)
        answer = self._answer(request)
        calls = tuple(ToolCall("", call.tool, json.dumps(call.arguments)) for call in answer.calls)
        extra = {"suggested": [[call.tool, dict(call.arguments)] for call in answer.suggested]}
        message = AssistantMessage(answer.text, calls, extra=extra if answer.suggested else {}, origin=ORIGIN)
        taken = {call.id for call in calls_in(request.messages)}
        return Response(
            with_distinct_ids(message, taken),
            finish_reason="tool_calls" if calls else "stop",
            usage=unreported(1, Tariff(ORIGIN, MODEL)),
            model=MODEL,
            raw=answer.raw,
        )

    async def acomplete(self, request: Request) -> Response:
        """Answer one request, async."""
        # A separate thread: waiting requests must not occupy the default executor of the loop, which has few threads.
        own = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offline-model")
        try:
            return await asyncio.get_running_loop().run_in_executor(own, self.complete, request)
        finally:
            own.shutdown(wait=False)

    def stream(self, request: Request) -> Iterator[Event]:
        """Stream the response, blocking: the text is one delta, and so is each tool call."""
        yield from response_events(self.complete(request))

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        """Stream the response, async: the text is one delta, and so is each tool call."""
        for event in response_events(await self.acomplete(request)):
            yield event

    def _answer(self, request: Request) -> _Answer:
        results = _trailing_results(request.messages)
        text = _report(results, request.messages) if results else _last_user_text(request.messages)
        if results:
            return self._extract(request.output_schema, text) if request.output_schema else _Answer(text)
        accepted = _confirmed_calls(request.messages)
        tools = _permitted(request)
        answer = _Answer(calls=accepted) if accepted else self._route(text, tools)
        return self._extract(request.output_schema, text) if request.output_schema and not answer.calls else answer

    def _route(self, text: str, tools: Sequence[ToolSpec]) -> _Answer:
        """The tool calls for a text, or a text that explains why no tool is called."""
        if len(text) > MAX_REQUEST_CHARS:
            raise Rejected(_TOO_LONG.format(len(text), MAX_REQUEST_CHARS))
        kinds = {kind for spec in tools for kind in kinds_of(spec).values()}
        has_calculator = TextKind.EXPRESSION in kinds
        request = normalised(separate_time_requests(text), has_calculator=has_calculator)
        question = Question(request, has_commands=not kinds.isdisjoint((TextKind.CODE, TextKind.COMMAND)))
        if date_answer(text) and (calls := _current_date_call(text, tools)):
            return _Answer(calls=calls)
        offered = _able_offers(question, text, tools)
        error = conversion_error(text) if has_calculator else ""
        if not offered or error:
            return _Answer(error or _refusal(question, tools))
        calls = _calls_by_rules(question, offered) or _calls_by_clauses(question, tools, has_calculator=has_calculator)
        if calls:
            return _Answer(calls=calls)
        raw = self._ask_engine([offer.engine_schema() for offer in offered], _shortened(question), max_tokens=192)
        validation = validated_calls(question, offered, raw)
        if not validation.doubts:
            return _Answer(calls=validation.calls, raw=raw)
        raw = {**raw, "doubts": list(validation.doubts)}
        if not validation.complete or _loses_information(validation.calls, question):
            return _Answer(_refusal(question, tools, validation), raw=raw)
        return _Answer(_confirmation_question(validation.calls), suggested=validation.calls, raw=raw)

    def _extract(self, wanted: OutputSchema, text: str) -> _Answer:
        """Fill a schema from a text, as JSON. Raises BadResponse unless all of it is in the text."""
        if len(text) > MAX_CHARS:
            raise Rejected(_TOO_LONG.format(len(text), MAX_CHARS))
        form = ExtractionForm(wanted)
        for tool in form.tools:
            raw = self._ask_engine([tool], text, MAX_TOKENS)
            if read := form.read(raw):
                return _Answer(json.dumps(form.validated(read, raw, text), ensure_ascii=False), raw=raw)
        raise BadResponse(f"The offline model cannot find {wanted.name} in the text.")

    def _ask_engine(self, tools: Sequence[Mapping[str, Any]], text: str, max_tokens: int) -> Mapping[str, Any]:
        """The engine's envelope for a text; `network` is none or open, depending on what its process could reach."""
        if self._worker is None or self._owner != os.getpid():
            if not installed():  # pragma: no cover - tested in a process without the package
                raise MissingExtra("offline", "The offline model")
            self._worker, self._owner = _shared_worker(), os.getpid()
        text = text.encode(errors="replace").decode()  # the engine does not accept lone surrogates
        question = {"tools": json.dumps(tools), "text": text, "max_tokens": max_tokens, "dated": '"date' in str(tools)}
        reply = self._worker.ask(question, self._timeout_seconds)
        return {**reply["envelope"], "network": reply["network"]}


# The engine has native, global state of about 100 MB, so that the models of a process share one worker. It exits when
# the last model releases it. A forked process finds no worker under its process id and starts its own.
_WORKERS: weakref.WeakValueDictionary[int, EngineProcess] = weakref.WeakValueDictionary()
_LOCKS: dict[int, threading.Lock] = {}


def _shared_worker() -> EngineProcess:
    process = os.getpid()
    with _LOCKS.setdefault(process, threading.Lock()):
        worker = _WORKERS.get(process)
        if worker is None:
            worker = _WORKERS[process] = EngineProcess()
        return worker


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for a setting with a value that no model takes; valid ones have no effect here."""
    for name, (is_valid, values) in _SETTINGS.items():
        if (value := settings.get(name)) is not None and not is_valid(value):
            suggestion = (
                closest(value, REASONING_EFFORTS, 0.6) if name == "reasoning_effort" and isinstance(value, str) else ""
            )
            hint = f" Did you mean {suggestion!r}?" if suggestion else ""
            raise ConfigError(f"{name}= takes {values}. Got {value!r:.200}.{hint}")


_SETTINGS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (lambda value: is_number(value) and value <= 2, "a number from 0 to 2"),
    "top_p": (lambda value: is_number(value) and value <= 1, "a number from 0 to 1"),
    "max_tokens": (lambda value: is_whole(value, 1), "a whole number, 1 or more"),
    "max_completion_tokens": (lambda value: is_whole(value, 1), "a whole number, 1 or more"),
    "reasoning_effort": (lambda value: value in REASONING_EFFORTS, f"one of {', '.join(REASONING_EFFORTS)}"),
}
"""The settings that are validated, although this model has no use for them: a test and the values, in words."""


def _able_offers(question: Question, text: str, tools: Sequence[ToolSpec]) -> list[Offer]:
    """The tools that could serve a question; none for small talk, a statement, or a personal or negated request."""
    if question.is_small_talk or question.is_negated or question.is_private or is_statement(text):
        return []
    offered = offers(question, tools)
    if question.asks_how_many:  # the current date and time are not the answer, although it can depend on them
        offered = [offer for offer in offered if "current" not in offer.spec.name or offer.required]
    if is_conversion_only(text):  # a web search cannot convert a quantity
        offered = [offer for offer in offered if TextKind.QUERY not in offer.kinds.values()]
    return offered


def _calls_by_rules(question: Question, offered: Sequence[Offer]) -> tuple[ProposedCall, ...]:
    """The calls that follow from the question alone, without the engine."""
    call = operation_call(question, offered)
    return (call,) if call else calls_without_engine(question, offered)


def _current_date_call(text: str, tools: Sequence[ToolSpec]) -> tuple[ProposedCall, ...]:
    """A call of the only tool that returns the current date, from which a question about dates is answered.

    Empty if another tool takes dates, because it can be the one that answers the question.
    """
    able = [spec for spec in tools if "current" in spec.name and "date" in spec.name and not _required(spec)]
    others = [
        spec for spec in tools if spec not in able and "date" in " ".join(spec.parameters.get("properties") or ())
    ]
    if len(able) != 1 or others:
        return ()
    zone_parameter = next((name for name, kind in kinds_of(able[0]).items() if kind is TextKind.ZONE), "")
    zones = list(zones_in(text)) if zone_parameter else []
    return (ProposedCall(able[0].name, {zone_parameter: zones[0]} if zones else {}),) if len(zones) <= 1 else ()


def _required(spec: ToolSpec) -> Sequence[str]:
    required: Sequence[str] = spec.parameters.get("required") or ()
    return required


def _calls_by_clauses(
    question: Question, tools: Sequence[ToolSpec], *, has_calculator: bool
) -> tuple[ProposedCall, ...]:
    """The calls that follow from the clauses of a question, each on its own: `what time is it and what is 3 * 4`.

    Empty if a clause is a search, because it could refer to another one.
    """
    clauses = question.clauses()
    calls: list[ProposedCall] = []
    for text in clauses:
        clause = Question(normalised(text, has_calculator=has_calculator), has_commands=question.has_commands)
        offered = [] if clause.is_small_talk or clause.is_negated else offers(clause, tools)
        found = _calls_by_rules(clause, offered) if offered else ()
        if not found or any(TextKind.QUERY in kinds_of(offer.spec).values() for offer in offered):
            return ()
        calls += [call for call in found if call not in calls]
    return tuple(calls)


def _trailing_results(messages: Sequence[Message]) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.insert(0, message)
    return results


def _last_user_text(messages: Sequence[Message]) -> str:
    """The last user message. Raises Rejected for an image."""
    content = next((message.content for message in reversed(messages) if isinstance(message, UserMessage)), "")
    parts = parts_of(content)
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        raise Rejected(
            "The offline model reads text only, no images or files. Use a model with image input, such as one of "
            "OpenAI's."
        )
    return "\n".join(texts).strip()


def _confirmed_calls(messages: Sequence[Message]) -> tuple[ProposedCall, ...]:
    """The calls that the model suggested last, if the user's entire reply is a yes."""
    if len(messages) < 2 or not isinstance(messages[-1], UserMessage):
        return ()
    before = messages[-2]
    if (
        not isinstance(before, AssistantMessage)
        or before.origin != ORIGIN
        or not _YES.fullmatch(_last_user_text(messages))
    ):
        return ()
    return tuple(ProposedCall(tool, arguments) for tool, arguments in before.extra.get("suggested", ()))


def _permitted(request: Request) -> tuple[ToolSpec, ...]:
    """The tools that `tool_choice` permits: none, all, or the named one. Raises ConfigError for a hosted tool."""
    if hosted := next((spec.name for spec in request.tools if spec.hosted is not None), ""):
        raise ConfigError(f"The offline model has no hosted tools such as {hosted!r}. Give the agent a local tool.")
    choice = request.settings.get("tool_choice")
    if isinstance(choice, Mapping):
        choice = choice.get("name") or (choice.get("function") or {}).get("name")
    if choice == "none":
        return ()
    named = tuple(spec for spec in request.tools if spec.name == choice)
    return named or request.tools


def _shortened(question: Question) -> str:
    """The question for the engine: known Vietnamese words in English, and long spans shortened.

    Arguments are later taken from the original question.
    """
    pieces: list[str] = []
    place = 0
    for span in question.spans:
        original_text = question.text[span.start : span.end]
        short = original_text if len(original_text) <= 80 else f"{original_text[:60]} {original_text[-10:]}"
        pieces += [in_english(question.text[place : span.start]), short]
        place = span.end
    text = "".join([*pieces, in_english(question.text[place:])])
    if len(text) > MAX_CHARS:
        raise Rejected(_TOO_LONG.format(len(text), MAX_CHARS))
    return text


def _refusal(question: Question, tools: Sequence[ToolSpec], validation: CallValidation | None = None) -> str:
    """Explain why no tool was called, and which requests this model can serve."""
    if not tools:
        return f"The offline model only calls tools, and this request offers none. Offer it a tool. {_OTHER_MODEL}"
    reason = _small_talk(question, tools) if question.is_small_talk else ""
    if reason:
        return reason
    if question.is_small_talk:
        reason = ""
    elif question.is_negated:
        reason = "Nothing was done, because the request says what not to do. "
    elif validation and validation.unclear:
        parameters = " and ".join(name for _, name in validation.unclear)
        reason = f"{validation.unclear[0][0]} fits, but its {parameters} is not clear: put it in quotes. "
    elif not question.is_personal and (offer := offer_lacking_arguments(question, tools)):
        reason = f"{offer.spec.name} fits, but the request does not state its {' and '.join(offer.missing)}: add it. "
    else:
        reason = "No tool fits this request. "
    return f"{reason}{_abilities(question, tools)} {_OTHER_MODEL}"


def _abilities(question: Question, tools: Sequence[ToolSpec]) -> str:
    """The tools that this model can call, with requests for those that match the question best."""
    ordered = sorted(tools, key=lambda spec: -len(Offer(question, spec).matches))
    names = [spec.name for spec in (ordered if len(tools) > _MAX_NAMES else tools)]
    others = f" and {len(names) - _MAX_NAMES} others" if len(names) > _MAX_NAMES else ""
    listed = f"{', '.join(names[:_MAX_NAMES])}{others}"
    return f"The offline model cannot chat; it calls tools: {listed}.{_example_text(ordered)}"


def _example_text(tools: Sequence[ToolSpec]) -> str:
    examples = [f"`{_EXAMPLES[spec.name]}`" for spec in tools if spec.name in _EXAMPLES][:2]
    return f" Ask, for example: {' or '.join(examples)}." if examples else ""


def _small_talk(question: Question, tools: Sequence[ToolSpec]) -> str:
    """One line for a greeting, thanks or a farewell; empty for other small talk."""
    question_words = set(question.outer_words)
    if not _THANKS.isdisjoint(question_words) or "cảm ơn" in question.text.lower():
        return "You are welcome."
    if not _FAREWELLS.isdisjoint(question_words) or _SEE_YOU.search(question.text):
        return "Goodbye."
    if question_words and question_words <= _ASSENTS:
        return "All right."
    if _GREETING_WORDS.isdisjoint(question_words) and not _GREETING_PHRASE.search(question.text):
        return ""
    return f"Hello. The offline model calls tools for you.{_example_text(tools)}"


def _loses_information(calls: Sequence[ProposedCall], question: Question) -> bool:
    """Whether proposed calls lack all numbers of the question, or a place whose time it asks for."""
    given = " ".join(str(value) for call in calls for value in call.arguments.values()).lower()
    zones = zones_in(question.text) if "time" in question.concepts else ()
    missing = [zone for zone in zones if not any(place in given for place in (zone.lower(), *places_in(zone)))]
    return bool(missing) or bool(question.numbers and not any(letter.isdigit() for letter in given))


def _confirmation_question(calls: Sequence[ProposedCall]) -> str:
    described = " and ".join(_call_text(call) for call in calls)
    return f"I am not sure I understood. Did you mean {described}? Answer yes, or put the exact text in quotes."


def _call_text(call: ProposedCall) -> str:
    arguments = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.tool} with {arguments}" if arguments else call.tool


def _report(results: Sequence[ToolMessage], messages: Sequence[Message]) -> str:
    """Report the results of calls as text, one paragraph each."""
    calls = {call.id: call for call in calls_in(messages)}
    question_words = words(_last_user_text(messages))
    if (answer := date_answer(_last_user_text(messages))) and len(results) == 1:
        return _dated_answer(results[0], answer)
    paragraphs = [_result_text(result, calls.get(result.call_id), question_words) for result in results]
    return ("\n\n" if any("\n" in each for each in paragraphs) else "\n").join(paragraphs)


def _dated_answer(result: ToolMessage, answer: Callable[[date], str]) -> str:
    """The answer to a question about dates, from the date in a result: `Sunday, 2026-11-29`."""
    value = json_or_text(result.content)
    try:
        today = date.fromisoformat(str(value.get("date") if isinstance(value, dict) else None))
    except ValueError:
        return f"{result.name} gave no date to count from.\n{_lines(value)}"
    try:
        return answer(today)
    except (ValueError, OverflowError):
        return "There is no such day in the calendar. Check the day, the month and the year."


def _result_text(result: ToolMessage, call: ToolCall | None, question_words: Sequence[str]) -> str:
    value = json_or_text(result.content)
    if value in (None, "", [], {}):
        return f"{result.name} came back empty."
    if not isinstance(value, dict):
        return _lines(value)
    if (
        isinstance(value.get("success"), bool)
        and result.name == "parse_json"
        and _VALIDITY.intersection(question_words)
    ):
        return "It is valid JSON." if value["success"] else f"It is not valid JSON: {value.get('error')}"
    entries = {key: each for key, each in value.items() if each not in (None, "", [], {})}
    if error := entries.get("error"):
        rest = _lines({key: entries[key] for key in _MAIN_KEYS if key in entries})
        return "\n".join(filter(None, (f"{result.name} failed: {error}", rest)))
    if value.get("output") == "" and value.get("return_code", 0) == 0:
        return f"{result.name} printed nothing."
    sent = json_or_text(call.arguments) if call else {}
    argument_values = list(sent.values()) if isinstance(sent, dict) else []
    remaining = {key: each for key, each in entries.items() if each not in argument_values}
    if remaining.keys().isdisjoint(_MAIN_KEYS):
        remaining = {key: each for key, each in entries.items() if key in remaining or key not in _MAIN_KEYS}
    lines = (
        _equation(entries)
        or _lines(_requested_entries(remaining, question_words) or _main_entries(remaining))
        or f"{result.name} came back empty."
    )
    zone = sent.get("timezone") if isinstance(sent, dict) else None
    return f"{lines} in {_place_name(zone, question_words)}" if zone and "\n" not in lines else lines


def _place_name(zone: str, question_words: Sequence[str]) -> str:
    """The place of the question that a time zone stands for, else the city in the zone's name."""
    text = f" {' '.join(question_words).lower()} "
    named = next((place for place in places_in(zone) if f" {place} " in text and place != zone.lower()), "")
    return named.title() or zone.rpartition("/")[2].replace("_", " ")


def _equation(entries: Mapping[str, Any]) -> str:
    """`1 + 1 = 2` for a result with one other entry, its expression; otherwise empty."""
    others = [each for key, each in entries.items() if key != "result"]
    plain = (
        "result" in entries and len(others) == 1 and not any(isinstance(each, list | dict) for each in entries.values())
    )
    return f"{others[0]} = {entries['result']}" if plain else ""


def _requested_entries(entries: Mapping[str, Any], question_words: Sequence[str]) -> dict[str, Any]:
    """The figures that the question names: `words` for how many words, `characters` for letters or a length."""
    if not entries.keys().isdisjoint(_MAIN_KEYS):
        return {}
    wanted = {"characters", *question_words} if _LENGTH.intersection(question_words) else question_words
    named = {key: each for key, each in entries.items() if key in wanted}
    figures = {key: each for key, each in entries.items() if not isinstance(each, bool)}
    return named or {
        key: each for key, each in figures.items() if any(len(word) > 2 and word in key for word in question_words)
    }


def _main_entries(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The result without success flags, and without texts contained in another text."""
    relevant = {
        key: each for key, each in entries.items() if (key, each) not in _SUCCESS_ENTRIES and key not in _METADATA_KEYS
    }
    texts = [each for each in relevant.values() if isinstance(each, str)]
    contained = {each for each in texts if any(each in longer and each != longer for longer in texts)}
    first = {each: key for key, each in reversed(relevant.items()) if isinstance(each, str)}
    return {
        key: each
        for key, each in relevant.items()
        if not isinstance(each, str) or (each not in contained and first[each] == key)
    }


def _lines(value: Any) -> str:
    """Render a value as text: strings unchanged, a line per entry, a dash per nested item."""
    if isinstance(value, dict):
        return "\n".join(_entry(key, each) for key, each in value.items())
    if isinstance(value, list):
        parts = [_lines(each) for each in value]
        plain = not any(isinstance(each, list | dict) for each in value)
        return ", ".join(parts) if plain else "\n".join("- " + part.replace("\n", "\n  ") for part in parts)
    return value.strip("\n") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _entry(key: str, value: Any) -> str:
    if key in _MAIN_KEYS:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else _lines(value)
    text = _lines(value)
    return f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


_THANKS = word_set("thanks")
_GREETING_WORDS = word_set("hello")
_SEE_YOU = re.compile(r"\bsee (?:you|ya)\b", re.IGNORECASE)
_GREETING_PHRASE = re.compile(r"chào|\bhow(?: are you|'s it going| is it going| do you do)\b|what's up", re.IGNORECASE)
_FAREWELLS = word_set("farewells")
_ASSENTS = word_set("assents")
_VALIDITY = word_set("validity")
_MAIN_KEYS = ("result", "results", "answer", "output", "content", "summary", "text", "data", "value")
_SUCCESS_ENTRIES = (
    ("success", True),
    ("ok", True),
    ("status", "ok"),
    ("status", 200),
    ("return_code", 0),
    ("truncated", False),
)
_MAX_NAMES = 5
_LENGTH = {"letter", "letters", "chars", "long", "length"}
_METADATA_KEYS = ("decision", "boundary")
_YES = re.compile(
    r"(?:yes|yeah|yep|sure|ok|okay|right|correct|exactly|do it|go ahead)(?:,? (?:please|do))?[.!]*", re.IGNORECASE
)
_OTHER_MODEL = "For a model that can chat, set the key of a provider, such as OPENAI_API_KEY."
_EXAMPLES: Mapping[str, str] = table("lexicon.toml")["examples"]

_TOO_LONG = "The offline model reads short requests only: this one has {0:,} characters, and the limit is {1:,}."


MAX_TOKENS = 384
"""Token limit of a typed answer: a longer one would take the engine half a minute."""


class ExtractionForm:
    """A schema as a form for the engine. A schema that is not an object is wrapped in one."""

    def __init__(self, wanted: OutputSchema) -> None:
        self.name = wanted.name
        self._is_wrapped = wanted.schema.get("type") != "object"
        self._schema = _wrapped(wanted.schema) if self._is_wrapped else wanted.schema

    @cached_property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """The tools to offer to the engine: the form, then the form without required fields.

        If a required field is missing, the engine returns nothing, so that it is asked again for optional fields.
        """
        parameters = relaxed(self._schema)
        weaker = [{**parameters, "required": []}] if parameters.get("required") else []
        about = {"name": self.name, "description": self._schema.get("description", "")}
        return tuple({**about, "parameters": each} for each in (parameters, *weaker))

    def read(self, envelope: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The fields that the engine read, or None."""
        calls = envelope.get("function_calls") or envelope.get("suppressed_calls") or [{}]
        arguments: Mapping[str, Any] | None = calls[0].get("arguments")
        return arguments

    def validated(self, read: Mapping[str, Any], envelope: Mapping[str, Any], text: str) -> Any:
        """The value, if all of it follows from the text. Raises BadResponse with the fields that do not."""
        fields = with_complete_lists(completed(read, self._schema, self._schema), self._schema, self._schema, text)
        if absent := absent_fields(fields, self._schema):
            raise BadResponse(f"The offline model does not find all of {self.name} in the text: {', '.join(absent)}.")
        if missing := omitted_entries(fields, self._schema, text):
            raise BadResponse(
                f"The offline model found only a part of {self.name} in the text; missing: {', '.join(missing)}."
            )
        confidence = envelope.get("confidence") or 0
        doubtful = doubtful_fields(fields, self._schema, text) + repeated_numbers(fields, self._schema, text)
        if confidence < _MIN_CHOOSING:
            doubtful += chosen_fields(fields, self._schema, text)
        if doubtful or confidence < _MIN_CONFIDENCE:
            named = f": {', '.join(dict.fromkeys(doubtful))}" if doubtful else ""
            raise BadResponse(f"The offline model could not read {self.name} reliably from the text{named}.")
        return fields["value"] if self._is_wrapped else fields


def completed(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Set required nullable fields that were not found to None.

    The engine writes an empty text, an empty list or null for values that it does not find; these are removed.
    """
    schema = plain_schema(schema, root)
    if isinstance(value, list):
        return [completed(each, schema.get("items") or {}, root) for each in value]
    if not isinstance(value, Mapping):
        return value
    properties = schema.get("properties") or {}
    found = {
        name: completed(each, properties.get(name, {}), root)
        for name, each in value.items()
        if each not in ("", [], None)
    }
    absent = [name for name in schema.get("required") or () if name not in found and _nullable(properties.get(name))]
    return {**found, **dict.fromkeys(absent)}


def relaxed(schema: Any) -> Any:
    """The schema in the form that works best with the engine.

    Nullable fields are not required, because the engine omits values that it does not find; keywords are in the order
    that it expects.
    """
    if isinstance(schema, list):
        return [relaxed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    is_schema = isinstance(schema.get("type"), str | list)
    keys = sorted(schema, key=lambda key: _KEYWORDS.get(key, len(_KEYWORDS))) if is_schema else schema
    parts = {key: relaxed(schema[key]) for key in keys if (key, schema[key]) != ("additionalProperties", False)}
    if isinstance(needed := schema.get("required"), list):
        properties = schema.get("properties") or {}
        parts["required"] = [name for name in needed if not _nullable(properties.get(name))]
    return parts


def _nullable(schema: Any) -> bool:
    variants = schema.get("anyOf", [schema]) if isinstance(schema, Mapping) else []
    types = [each.get("type") for each in variants]
    return any("null" in (kind if isinstance(kind, list) else [kind]) for kind in types)


def absent_fields(fields: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """The required fields that were not found in a text."""
    return [name for name in schema.get("required") or () if name not in fields]


def doubtful_fields(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """The fields whose value does not occur in the text, including dates."""
    question = Question(text)
    return [
        name
        for name, value, inner in _found(fields, schema)
        if not grounded(value, question, inner, schema)
        or not all(
            states_date(leaf, text) for leaf, kind in leaves(value, inner, schema) if kind.get("format") in DATES
        )
    ]


def chosen_fields(fields: Mapping[str, Any], schema: Mapping[str, Any], text: str) -> list[str]:
    """The fields with an enum or boolean value for which the text contains no word."""
    text_words = set(words(text))
    return [
        name
        for name, value, inner in _found(fields, schema)
        for leaf, kind in leaves(value, inner, schema)
        if isinstance(leaf, bool) or ("enum" in kind and not set(words(str(leaf).replace("_", " "))) <= text_words)
    ]


def _found(fields: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    properties = schema.get("properties") or {}
    return ((name, value, properties.get(name, {})) for name, value in fields.items() if value is not None)


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap a schema that is not an object in an object: the engine fills objects only."""
    return {"type": "object", "properties": {"value": schema}, "required": ["value"], **definitions_of(schema)}


# A value read with low confidence is correct if all of it is in the text; a choice can rely on confidence only.
_MIN_CONFIDENCE, _MIN_CHOOSING = 0.05, 0.5
_KEYWORDS = {key: place for place, key in enumerate(("type", "description", "enum", "properties", "items", "required"))}
