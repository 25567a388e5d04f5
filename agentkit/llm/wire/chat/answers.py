"""How are the answers of Chat Completions read, whole and streamed? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agentkit.errors import BadResponse
from agentkit.events import ReasoningDelta, TextDelta
from agentkit.llm.wire import reading
from agentkit.llm.wire.chat import thinking
from agentkit.llm.wire.chat.calls import CallsInPieces, calls_in, read_call
from agentkit.llm.wire.failures import FILTERED, cut_short, declined, failure, filtered, no_answer, raise_error_inside
from agentkit.llm.wire.hosted import uses_in_message
from agentkit.llm.wire.reading import REASONING_FIELDS, says
from agentkit.llm.wire.thoughts import Thoughts, without_thoughts
from agentkit.messages import AssistantMessage, FinishReason, Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentkit.events import Event
    from agentkit.usage import Usage

_MESSAGE_FIELDS = {"role", "content", "tool_calls", "refusal", "function_call", "name"}
_THOUGHT_FIELDS = {*REASONING_FIELDS, "reasoning_details", "thinking_blocks"}

_FILTERED = {
    FILTERED,
    "content_filtered",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "image_safety",
    "sensitive",
    "guardrail_intervened",
    "refusal",
}
_FAILED = {
    "error",
    "abort",
    "aborted",
    "cancelled",
    "canceled",
    "network_error",
    "insufficient_system_resource",
    "function_call_filter",
    "malformed_function_call",
    "unexpected_tool_call",
    "load",
    "unload",
}
"""What servers say of an answer that they could not finish, or whose tool call they could not read."""


def decode_answer(data: Mapping[str, Any]) -> Response:
    """The response in a whole body. Raises ModelError when there is none."""
    raise_error_inside(data)
    choice = _first_choice(data)
    said = None if choice is None else _said_in(choice, "message", "delta")
    if choice and said is None and choice.get("finish_reason"):
        said = {}  # what was filtered, or cut before it began, some servers leave out
    if choice is None or said is None:
        raise no_answer("choices", data)
    if said.get("refusal"):
        raise declined(reading.word(said["refusal"]))
    message = read_message(said)
    return _response(without_thoughts(message), _ending(choice), _figures(data, choice), data)


def read_message(message: Mapping[str, Any]) -> AssistantMessage:
    """A model's message, in whatever shape; fields that are not ours are kept so that they can be sent back."""
    calls = [read_call(call) for call in calls_in(message)]
    extra = {name: value for name, value in message.items() if name not in _MESSAGE_FIELDS and says(value)}
    if thoughts := thinking.thoughts_in(message.get("content")):
        extra[thinking.FIELD] = thoughts
    text = reading.said_in(message.get("content")) or _spoken(message)
    return reading.assistant_message(text, calls, _reasoning(message), extra)


def _spoken(fields: Mapping[str, Any]) -> str:
    """What an answer says that is sound."""
    return reading.text_of(reading.dictionary(fields.get("audio")).get("transcript"))


def _reasoning(message: Mapping[str, Any]) -> str:
    if _THOUGHT_FIELDS.isdisjoint(message) and isinstance(message.get("content"), str):
        return ""
    said = next(filter(None, (reading.thought_in(message.get(name)) for name in REASONING_FIELDS)), "")
    said = said or reading.details_of(message.get("reasoning_details"))
    return said or reading.thinking_of(message.get("thinking_blocks")) or reading.thinking_of(message.get("content"))


def _first_choice(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The choice of the least index, if there is one. Raises the error that it may carry instead of an answer."""
    choices = data.get("choices")
    only = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    choice = only if isinstance(only, dict) else _joined(reading.dictionaries(choices))
    if choice and choice.get("error"):
        raise failure(choice)
    return choice


def _joined(choices: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The choice of the least index. Some servers make the tool calls of an answer, or each of them, one more of it."""
    first = min(choices, key=_index, default=None)
    if first is None or first.get("finish_reason") != "tool_calls":
        return first
    said = [_said_in(choice, "message", "delta") or {} for choice in choices if _index(choice) == _index(first)]
    calls = [call for message in said for call in calls_in(message)]
    return {**first, "delta" if "delta" in first else "message": {**said[0], "tool_calls": calls}}


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _said_in(choice: Mapping[str, Any], *names: str) -> dict[str, Any] | None:
    """The message or delta of a choice, under the first of `names` that has one; some servers send only a text."""
    for name in names:
        if isinstance(choice.get(name), dict):
            found: dict[str, Any] = choice[name]
            return found
    text = next((choice[name] for name in ("message", "text") if isinstance(choice.get(name), str)), None)
    return None if text is None else {"content": text}


def _figures(data: Mapping[str, Any], choice: Mapping[str, Any] | None) -> dict[str, Any]:
    """The token counts, wherever a server puts them; empty when it does not."""
    if not (data.get("usage") or data.get("x_groq") or (choice and choice.get("usage"))):
        return {}
    for home in (data, choice, data.get("x_groq")):
        figures = home.get("usage") if isinstance(home, dict) else None
        if figures and isinstance(figures, dict):
            return figures
    return {}


def _usage(figures: Mapping[str, Any]) -> Usage:
    names, details = ("prompt_tokens", "completion_tokens"), ("prompt_tokens_details", "completion_tokens_details")
    return reading.usage_of(figures, names, details)


class _Ending(NamedTuple):
    """Why an answer ended, in the words that count: as a server says it, and as the one behind a router did."""

    said: str
    behind: str


def _ending(choice: Mapping[str, Any]) -> _Ending:
    reasons = (reading.word(choice.get(name)) for name in ("finish_reason", "native_finish_reason"))
    return _Ending(*(reason.lower().partition(":")[0] for reason in reasons))


def _check(ending: _Ending, *, is_empty: bool) -> None:
    """Raises ModelError for an answer that was filtered or given up. Routers call both an error, or an empty answer."""
    said, behind = ending
    is_failed = said in _FAILED or (is_empty and behind in _FAILED | _FILTERED)
    if said in _FILTERED or (is_failed and behind in _FILTERED):
        raise filtered()
    if is_failed:
        told = behind or said
        raise BadResponse(f"The provider failed while it wrote the answer, and says only {told!r} of it. Try again.")


def _response(
    message: AssistantMessage, ending: _Ending, figures: Mapping[str, Any], raw: Mapping[str, Any]
) -> Response:
    said = ending.said
    _check(ending, is_empty=not (message.text or message.tool_calls))
    finish: FinishReason = "length" if said in reading.CUT_SHORT else "tool_calls" if message.tool_calls else "stop"
    model, hosted = reading.word(raw.get("model")), uses_in_message(message.extra)
    return Response(message, finish, _usage(figures), model, reading.well_formed_json(raw), hosted=hosted)


class ChatReader:
    """Collects the chunks of one streamed response."""

    def __init__(self) -> None:
        self._text, self._reasoning, self._refusal = reading.Pieces(), reading.Pieces(), reading.Pieces()
        self._thoughts = Thoughts()
        self._calls = CallsInPieces()
        self._extra: dict[str, Any] = {}
        self._ending = _Ending("", "")
        self._has_choice = self._has_ended = False
        self._index = 0
        self._figures: Mapping[str, Any] = {}
        self._raw: dict[str, Any] = {}

    @property
    def is_whole(self) -> bool:
        """Whether nothing can follow; in this protocol only the stream itself can say so."""
        return False

    @property
    def is_answered(self) -> bool:
        """Whether the answer is complete; only token counts may follow."""
        return bool(self._ending.said)

    def feed(self, chunk: Mapping[str, Any]) -> Iterable[Event]:
        """The events in the next chunk. Raises ModelError when it is an error, and the answer has not ended yet."""
        if not self._is_complete():  # what is complete, no error behind it takes away
            raise_error_inside(chunk)
        if chunk.get("model"):
            self._raw.update(chunk)
        else:  # those of Azure's filter leave all blank but their verdict: what was said before stays
            self._raw.update((name, value) for name, value in chunk.items() if value or name not in self._raw)
        choice = _first_choice(chunk)
        figures = _figures(chunk, choice)
        self._figures = figures if says(figures) else self._figures or figures
        if choice is None:
            self._has_ended = self._has_ended or bool(figures)
            return ()
        if not self._has_choice:
            self._has_choice, self._index = True, _index(choice)
        return self._feed_choice(choice) if _index(choice) == self._index else ()

    def _feed_choice(self, choice: Mapping[str, Any]) -> list[Event]:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = self._undelivered(choice)
        calls, reason = calls_in(delta), choice.get("finish_reason")
        if reason:
            self._ending = _ending(choice)
        # An empty reason ends the answer where nothing follows; some servers send it with every chunk.
        is_blank_end = reason == "" and not delta.get("content") and not calls
        self._has_ended = bool(self._ending.said) or (is_blank_end and self._has_said_something())
        events = self._feed_text(delta)
        if calls:
            events += self._calls.feed(calls)
        if not _MESSAGE_FIELDS.issuperset(delta):
            self._feed_extra(delta)
        if thoughts := thinking.thoughts_in(delta.get("content")):
            self._extra[thinking.FIELD] = thinking.joined(self._extra.get(thinking.FIELD, ()), thoughts)
        return events

    def _undelivered(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """What a choice without a delta says; nothing when it ends the answer with all of it once more."""
        said = _said_in(choice, "message") or {}
        return {} if choice.get("finish_reason") and self._is_said(said) else said

    def _is_said(self, message: Mapping[str, Any]) -> bool:
        """Whether a message says just what was said already."""
        whole, told = (
            [(call.name, call.arguments) for call in calls]
            for calls in (map(read_call, calls_in(message)), self._calls.whole())
        )
        _, text = Thoughts().part(reading.said_in(message.get("content")), is_last=True)
        is_same = text == str(self._text) and (whole == told or not whole)
        return is_same and self._has_said_something()

    def _feed_extra(self, delta: Mapping[str, Any]) -> None:
        """Keep the fields that are not ours."""
        for name in delta.keys() - _MESSAGE_FIELDS:
            if says(delta[name]):
                self._extra[name] = reading.merged(name, self._extra.get(name), delta[name])

    def _is_complete(self) -> bool:
        """Whether the answer has come to its end or its limit, and was neither filtered nor given up."""
        return bool(self._ending.said) and self._ending.said not in _FILTERED | _FAILED

    def _has_said_something(self) -> bool:
        return bool(self._calls or self._text)

    def _feed_text(self, delta: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        thought, said = self._thoughts.part(reading.said_in(delta.get("content")))
        thought = _reasoning(delta) + thought
        if thought and (reasoning := self._reasoning.add(thought)):
            events.append(ReasoningDelta(reasoning))
        if said and (text := self._text.add(said)):
            events.append(TextDelta(text))
        if refusal := delta.get("refusal"):
            self._refusal.add(reading.text_of(refusal))
        return events

    def finish(self, *, closed: bool) -> Response:
        """The whole response. `closed` says that the server marked the end of its stream.

        Raises BadResponse when the stream was cut short, Rejected on a refusal.
        """
        if refusal := str(self._refusal):
            raise declined(refusal)
        thought, said = self._thoughts.part("", is_last=True)
        self._reasoning.add(thought)
        self._text.add(said)
        text = str(self._text) or _spoken(self._extra)
        if not (self._has_ended or closed):
            raise cut_short(len(text))
        if not (self._has_choice and (self._has_ended or text or self._reasoning or self._calls)):
            raise BadResponse("The stream ended without an answer. Try again.")
        message = reading.assistant_message(text, self._calls.whole(), str(self._reasoning), self._extra)
        raw = {name: value for name, value in self._raw.items() if name != "choices"}
        return _response(message, self._ending, self._figures, raw)
