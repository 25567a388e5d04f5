"""A provider wrapper that falls back to text when a server refuses tools or schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from agentkit.errors import ModelError
from agentkit.events import Event, TextDelta, ToolCallDelta, response_deltas
from agentkit.llm import pipeline
from agentkit.llm.embeddings import embedder
from agentkit.llm.pipeline import Provider, Stage, StageSteps, map_events, steps_of
from agentkit.messages import AssistantMessage, Request, Response, ToolSpec, with_distinct_ids
from agentkit.text_encoding import lazy_pattern
from agentkit.usage import unreported

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentkit.llm.embeddings import Embeddings
    from agentkit.llm.prompted_tools.native_formats import MarkupHolder
    from agentkit.messages import OutputSchema


UnsupportedFeature = Literal["tools", "schema", "both", "final_answer"]
"""A feature that a server does not support: tools; an output schema; both at once; the tool for the final answer."""

_STATUSES = {400, 404, 405, 422, 500, 501}
_CALLING = r"(?:tools?|functions?)[ _-]?(?:use|usage|calls?|calling)"
_QUOTE = r"[`'\"]?"
_TOOLS = rf"{_QUOTE}(?:{_CALLING}|tools)\b{_QUOTE}(?: (?:param(?:eter)?|field|argument)s?)?"
_SCHEMA = rf"{_QUOTE}(?:(?:response|output)[ _]format|json[ _]?schema|structured[ _]outputs?|text\.format)\b{_QUOTE}"
_IS_REFUSED = (
    r"(?:is|are|was) (?:(?:currently |yet )?(?:not|un)[ -]?(?:yet |currently )?"
    r"(?:supported|enabled|available|allowed|permitted|implemented)|enabled only)"
)
_UNKNOWN = r"(?:unsupported|unknown|unrecognized|unexpected|unavailable) (?:\w+ ){0,2}?[\w ]{0,80}(?:supplied)?:? ?"

_TOOLS_REFUSED = lazy_pattern(
    # Ollama, DeepSeek and Ark; Perplexity, Groq, DeepInfra, Gemini and Mistral; old llama.cpp and OpenAI
    rf"not (?:yet |currently )?support (?:the )?{_TOOLS}"
    rf"|{_TOOLS} {_IS_REFUSED}"
    rf"|{_UNKNOWN}{_QUOTE}tools\b(?![\[.])"
    # OpenRouter; vLLM; llama.cpp
    rf"|no endpoints found that support {_CALLING}"
    r"|tool choice requires --|tools param requires",
    re.IGNORECASE,
)
_SCHEMA_REFUSED = lazy_pattern(
    # Groq; OpenAI and Azure; DeepSeek; old llama.cpp and LM Studio
    rf"not (?:yet |currently )?support (?:the )?{_SCHEMA}"
    rf"|{_SCHEMA}[^:.]{{0,60}} {_IS_REFUSED}"
    rf"|response_format(?:\.type)?{_QUOTE}[^:.]{{0,40}} (?:is|are) unavailable|{_SCHEMA} is unavailable"
    rf"|response_format(?:\.type)?{_QUOTE} (?:type )?(?:must be|should be|value is not)"
    rf"|{_UNKNOWN}{_SCHEMA}(?![\[.])"
    r"|no endpoints found that (?:support|can handle) (?:the requested parameters|structured outputs?|response_format)"
    # Anthropic, including schemas for which it cannot build a grammar
    r"|\boutput_config(?:\.format\b|: extra inputs)|compiled grammar|grammar compilation|schema is too complex",
    re.IGNORECASE,
)
_COMBINATION_REFUSED = lazy_pattern(
    # Groq; Gemini
    r"(?:json mode|response_format|json_schema).{0,80}(?:combined|compatible|used) with.{0,20}(?:tool|function)"
    r"|(?:tool|function)[ \w]{0,20} with a response mime type",
    re.IGNORECASE,
)
_MISSING_CALL = lazy_pattern(r"did not call (?:a|any) (?:tool|function)", re.IGNORECASE)  # Groq
_INVALID_SCHEMA = lazy_pattern(r"invalid[ _](?:json[ _])?schema", re.IGNORECASE)
_REFUSED_FIELD = lazy_pattern(
    r"not permitted|not allowed|unsupported|not supported|extra inputs|unknown", re.IGNORECASE
)


def unsupported_feature(error: ModelError, request: Request) -> UnsupportedFeature | None:
    """The feature that a rejection is about, to be replaced by text; None if it is about something else.

    An invalid schema is not replaced: the developer must correct it.
    """
    if error.status not in _STATUSES:
        return None
    text = f"{error} {error.code or ''}"
    if _INVALID_SCHEMA.search(text):
        return None
    top = re.split(r"[.\[]", error.parameter or "")[0] if _REFUSED_FIELD.search(text) else ""
    is_bare = error.parameter == top
    if request.output_schema is not None:
        is_parameter = is_bare and top in {"response_format", "text"}
        if request.tools and _COMBINATION_REFUSED.search(text):
            return "both"
        if is_parameter or _SCHEMA_REFUSED.search(text):
            return "schema"
    if request.tools and ((is_bare and top == "tools") or _TOOLS_REFUSED.search(text)):
        return "tools"
    return None


def is_missing_call(error: ModelError) -> bool:
    """Whether a server rejected the model's output because a call was required and the output is not a call."""
    return _MISSING_CALL.search(str(error)) is not None


def is_about_last_tool(error: ModelError, request: Request, name: str) -> bool:
    """Whether a rejection is about the tool `name`, the last one of the request: about its schema, or a call of it.

    Servers give its name or its index. If it is the only tool, any rejection about tools is about it.
    """
    if error.status not in {400, 422} or error.is_too_long:
        return False
    last = len(request.tools) - 1
    pattern = rf"\b{re.escape(name)}\b|\b(?:tools|function_declarations)[.\[]{last}\b"
    text = f"{error} {error.code or ''} {error.parameter or ''}"
    return bool(re.search(pattern if last else rf"{pattern}|\b(?:tool|function)s?(?:\b|_)", text, re.IGNORECASE))


_NAME = "final_answer"
_DESCRIPTION = "Give the final answer. Use it once, when you have everything it needs."
_ANSWER_INSTRUCTION = """\
# Answer

Give your {answer} by calling the tool {name}: the arguments of the call are the answer. Call it alone, and write \
nothing beside it."""


def can_answer_by_call(request: Request) -> bool:
    """Whether the answer can be given by a call: its schema must be an object, and a setting can forbid all calls."""
    output = request.output_schema
    is_object = output is not None and output.schema.get("type") == "object"
    return is_object and request.settings.get("tool_choice") != "none"


class FinalAnswer:
    """Requests the final answer as a call of an additional tool, and hides that call from the caller.

    An answer that the model writes as text instead is passed on; it is validated later.
    """

    def __init__(self, request: Request, output: OutputSchema) -> None:
        self.name = _unused_name({spec.name for spec in request.tools})
        self.request = _with_answer_tool(request, output, self.name)
        self._has_others = bool(request.tools)
        self._answers: dict[int, None] = {}
        self._numbers: dict[int, int] = {}

    def finish(self, response: Response) -> tuple[Iterable[Event], Response]:
        """The response with the answer as its text; its events were emitted already.

        Next to calls of other tools the answer is dropped: it was given before their results were known, so that they
        are executed first, and the model is called again. Other calls are dropped if the request has no other tools.
        """
        message = response.message
        answers = [call for call in message.tool_calls if call.name == self.name]
        others = tuple(call for call in message.tool_calls if call.name != self.name)
        if not answers:
            return (), response
        if others and self._has_others:
            return (), replace(response, message=replace(message, tool_calls=others))
        # The message was rewritten, so that its original form must not be sent back.
        message = replace(message, text=answers[0].arguments or message.text, tool_calls=(), extra={})
        is_cut = response.finish_reason == "length"
        return (), replace(response, message=message, finish_reason="length" if is_cut else "stop")

    def events(self, event: Event) -> Iterator[Event]:
        """The events to emit for one of the provider's events. The arguments of the answer are streamed as text."""
        if isinstance(event, ToolCallDelta):
            yield from self._handle_chunk(event)
        else:
            yield event

    def _handle_chunk(self, chunk: ToolCallDelta) -> Iterator[Event]:
        """Handle a chunk of a call. The first of several answers is used; other calls are renumbered."""
        if chunk.name == self.name:
            self._answers.setdefault(chunk.index)
        if chunk.index not in self._answers:
            yield replace(chunk, index=self._numbers.setdefault(chunk.index, len(self._numbers)))
        elif chunk.arguments and chunk.index == next(iter(self._answers)):
            yield TextDelta(chunk.arguments)


def _with_answer_tool(request: Request, output: OutputSchema, name: str) -> Request:
    """The request with an additional tool in place of the output schema."""
    tool = ToolSpec(name, _DESCRIPTION, output.schema, output.schema if output.strict else None)
    answer_instruction = _ANSWER_INSTRUCTION.format(
        name=name, answer="final answer, once you need no other tool," if request.tools else "answer"
    )
    instruction = "\n\n".join(filter(None, [request.instruction, answer_instruction]))
    return replace(request, instruction=instruction, tools=(*request.tools, tool), output_schema=None)


def _unused_name(used: Collection[str]) -> str:
    """A name that is not used by a tool of the user."""
    names = (_NAME if number == 1 else f"{_NAME}_{number}" for number in count(1))
    return next(name for name in names if name not in used)


ToolCalling = Literal["auto", "native", "text"]
"""How tools are called: natively; as text; or as text once the server rejects tools."""

_UNREADABLE_CALL = "tool_use_failed"
"""Groq's code for a call that it cannot parse; the next attempt can succeed."""

_MAYBE_CALL = lazy_pattern(r"[<\[]|\A\s*[{`]")

_ADJUSTMENTS: dict[UnsupportedFeature, str] = {
    "tools": "tools are described in the instruction and called as text",
    "schema": "a typed answer is given by calling a tool",
    "both": "with tools, a typed answer is given by calling an additional tool",
    "final_answer": "the schema of an answer is written into the instruction",
}
_WITHOUT_ANSWER_CALL: frozenset[UnsupportedFeature] = frozenset({"tools", "final_answer"})
"""If these are not supported, an answer cannot be given by calling a tool."""


class PromptedToolsProvider(Stage):
    """Wraps a provider and replaces features that it rejects.

    A typed answer is requested by the provider's structured output, otherwise by a tool, otherwise in the instruction.
    Rejected features are remembered for the lifetime of the object.
    """

    def __init__(self, provider: Provider, tool_calling: ToolCalling = "auto") -> None:
        self.provider = provider
        self._is_native = tool_calling == "native"
        self._unsupported: dict[UnsupportedFeature, None] = {"tools": None} if tool_calling == "text" else {}

    @property
    def adjustments(self) -> tuple[str, ...]:
        """The names of the adjustments for features that the server rejected, and for tools called as text."""
        unsupported = tuple(self._unsupported)
        is_in_instruction = not _WITHOUT_ANSWER_CALL.isdisjoint(unsupported)
        shown: list[UnsupportedFeature] = [
            "final_answer" if is_in_instruction and feature != "tools" else feature for feature in unsupported
        ]
        names = dict.fromkeys(_ADJUSTMENTS[feature] for feature in shown)
        return (*pipeline.adjustments_of(self.provider), *names)

    def prepare(self) -> None:
        """Load the HTTP client of the blocking methods. Nothing is sent."""
        pipeline.prepare(self.provider)

    def close(self) -> None:
        """Close the connections of the blocking methods."""
        pipeline.close(self.provider)

    async def aclose(self) -> None:
        """Close the connections of the async methods on the running event loop."""
        await pipeline.aclose(self.provider)

    def embed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Embed texts with the wrapped provider."""
        return embedder(self.provider).embed(texts, settings)

    async def aembed(self, texts: Sequence[str], settings: Mapping[str, Any]) -> Embeddings:
        """Async version of `embed`."""
        return await embedder(self.provider).aembed(texts, settings)

    def steps(self, request: Request, *, streaming: bool, has_fallback: bool = False) -> StageSteps[Response]:
        """The steps that answer a request: those of the wrapped provider, if nothing has to be translated."""
        if not (request.tools or request.output_schema or self._unsupported):
            return steps_of(self.provider, request, streaming=streaming, has_fallback=has_fallback)
        return self._translated_steps(request, streaming=streaming, has_fallback=has_fallback)

    def _translated_steps(self, request: Request, *, streaming: bool, has_fallback: bool) -> StageSteps[Response]:
        is_retry = False
        while True:
            sent_form = self._sent_form(request, streaming=streaming)
            steps = steps_of(self.provider, sent_form.request, streaming=streaming, has_fallback=has_fallback)
            try:
                response = (
                    yield from map_events(steps, sent_form.events) if streaming and sent_form.translation else steps
                )
            except ModelError as error:
                refusal = error
            else:
                break
            recovered = sent_form.recover(refusal)
            if recovered is not None:
                response = recovered
                yield from sent_form.missing_events(response, refusal.partial) if streaming else ()
                break
            if refusal.code != _UNREADABLE_CALL or is_retry or refusal.partial is not None:
                self._add_unsupported(refusal, sent_form)
            is_retry = True
        if sent_form.translation is None:
            return response
        events, response = sent_form.translation.finish(response)
        yield from events if streaming else ()
        return response

    def _sent_form(self, request: Request, *, streaming: bool) -> _SentForm:
        if "tools" not in self._unsupported and request.tools and request.settings.get("tool_choice") != "none":
            native: _Translation | None = _NativeTranslation(request, streaming=streaming)
        else:
            native = None
        if not self._unsupported:
            return _SentForm(request, native)
        # Copied, because other threads can add features.
        unsupported = frozenset(self._unsupported)
        output, mode = request.output_schema, _answer_mode(request, unsupported)
        if output is not None and mode == "tool":
            answer = FinalAnswer(request, output)
            return _SentForm(answer.request, answer, answer.name)
        if mode != "text" and "tools" not in unsupported:
            return _SentForm(request, native)
        from agentkit.llm.prompted_tools import text_format  # imported on demand: most programs do not need it

        text_request = text_format.schema_as_text(request, output) if output is not None and mode == "text" else request
        if "tools" in unsupported and text_format.has_tools(request):
            return _SentForm(text_format.tools_as_text(text_request), _TextTranslation(request))
        return _SentForm(text_request, native)

    def _add_unsupported(self, refusal: ModelError, sent_form: _SentForm) -> None:
        """Record the feature that a rejection is about. Raises the rejection if it is about none of them."""
        feature = None if refusal.partial is not None else self._unsupported_feature(refusal, sent_form)
        if feature is None:
            raise refusal
        self._unsupported[feature] = None

    def _unsupported_feature(self, refusal: ModelError, sent_form: _SentForm) -> UnsupportedFeature | None:
        """The feature that a rejection is about. With native tools only the tool for the final answer is replaced."""
        request, added_tool = sent_form.request, sent_form.added_tool
        feature = unsupported_feature(refusal, request)
        if feature == "tools" and self._is_native:
            return "final_answer" if added_tool and len(request.tools) == 1 else None
        if feature is None and added_tool and is_about_last_tool(refusal, request, added_tool):
            return "final_answer"
        return feature


def _answer_mode(request: Request, unsupported: frozenset[UnsupportedFeature]) -> Literal["schema", "tool", "text"]:
    """How the output schema is sent. With calls as text it is not enforced natively, since this would prevent calls."""
    is_native = "schema" not in unsupported and not (request.tools and unsupported & {"tools", "both"})
    if request.output_schema is None or is_native:
        return "schema"
    return "tool" if unsupported.isdisjoint(_WITHOUT_ANSWER_CALL) and can_answer_by_call(request) else "text"


class _Translation(Protocol):
    """Translates the response to a request that was sent in another form."""

    def events(self, event: Event) -> Iterable[Event]:
        """The events to emit for one of the provider's deltas."""
        ...

    def finish(self, response: Response) -> tuple[Iterable[Event], Response]:
        """The last events, and the response in the form that the original request asked for."""
        ...


class _SentForm(NamedTuple):
    """A request as sent, the translation of its response, and the name of the tool added to it, if any."""

    request: Request
    translation: _Translation | None = None
    added_tool: str = ""

    def recover(self, refusal: ModelError) -> Response | None:
        """Recover a response from model output that its server rejected as an invalid call.

        The calls are returned, so that the model gets their errors. Output that was rejected because it is not a call
        is returned as text, as by servers that accept it. None for any other error, and for a call of the added tool.
        """
        partial = refusal.partial or AssistantMessage()
        if not (refusal.written and self.request.tools) or partial.tool_calls:
            return None
        from agentkit.llm.prompted_tools.parser import attempted_calls

        calls = attempted_calls(refusal.written, self.request.tools)
        if any(call.name == self.added_tool for call in calls) or not (calls or is_missing_call(refusal)):
            return None
        text = partial.text if calls else partial.text or refusal.written
        message = with_distinct_ids(AssistantMessage(text, calls, partial.reasoning), set())
        return Response(message, "tool_calls" if calls else "stop", unreported(1))

    def missing_events(self, response: Response, partial: AssistantMessage | None) -> Iterator[Event]:
        """The events of a recovered response, of types that were not streamed."""
        kinds = set() if partial is None else set(map(type, response_deltas(Response(partial))))
        for event in response_deltas(response):
            if type(event) not in kinds:
                yield from self.events(event)

    def events(self, event: Event) -> Iterable[Event]:
        """The events to emit for one of the provider's deltas."""
        return (event,) if self.translation is None else self.translation.events(event)


class _NativeTranslation:
    """Reads calls that a model writes as text although its tools are native, as behind servers that do not parse them.

    They are calls if they exactly fit the tools. Text is held back from the beginning of such a call.
    """

    def __init__(self, request: Request, *, streaming: bool) -> None:
        self._request = request
        self._holder: MarkupHolder | None = None
        if streaming:
            from agentkit.llm.prompted_tools.native_formats import MARKERS, MarkupHolder

            self._holder = MarkupHolder(("<tool_call>", *MARKERS), [spec.name for spec in request.tools])

    def events(self, event: Event) -> Iterable[Event]:
        """The events to emit for one of the provider's deltas."""
        if self._holder is None or not isinstance(event, TextDelta):
            return (event,)
        text = self._holder.feed(event.text)
        return (TextDelta(text),) if text else ()

    def finish(self, response: Response) -> tuple[Iterable[Event], Response]:
        """The last events, and the response with the calls parsed from its text."""
        message, buffered = response.message, self._holder.buffered if self._holder else ""
        if not message.tool_calls and response.finish_reason != "length" and _MAYBE_CALL.search(message.text):
            from agentkit.llm.prompted_tools.native_formats import matching_calls

            if found := matching_calls(message.text, self._request):
                message = replace(message, text=found[1], tool_calls=found[0], extra={})
                message = with_distinct_ids(message, set())
                call_response = Response(message)
                events = [event for event in response_deltas(call_response) if isinstance(event, ToolCallDelta)]
                return events, replace(response, message=message, finish_reason="tool_calls")
        return [TextDelta(buffered)] if buffered else [], response


class _TextTranslation:
    """Translates a response that contains its calls as text."""

    def __init__(self, request: Request) -> None:
        from agentkit.llm.prompted_tools import text_format
        from agentkit.llm.prompted_tools.native_formats import MARKERS, MarkupHolder
        from agentkit.llm.prompted_tools.parser import AnswerReader

        self._reader = AnswerReader(request.tools, is_single=text_format.is_single(request))
        self._holder = MarkupHolder(MARKERS, [spec.name for spec in request.tools])
        self._fed_chars = 0
        self._numbers: dict[tuple[str, int], int] = {}

    def events(self, event: Event) -> Iterator[Event]:
        """The events to emit for one of the provider's events."""
        if isinstance(event, TextDelta):
            self._fed_chars += len(event.text)
            yield from self._numbered(self._reader.feed(self._holder.feed(event.text)), "read")
        else:
            yield from self._numbered([event], "native")

    def _numbered(self, events: Iterable[Event], origin: str) -> Iterator[Event]:
        """Number calls in order of appearance: some servers also detect calls themselves."""
        for event in events:
            if isinstance(event, ToolCallDelta):
                number = self._numbers.setdefault((origin, event.index), len(self._numbers))
                yield replace(event, index=number)
            else:
                yield event

    def finish(self, response: Response) -> tuple[Iterable[Event], Response]:
        """The last events, and the response. A changed message loses its original form, so that it is not sent back."""
        reader = self._reader
        is_cut = response.finish_reason == "length"
        events = reader.feed(self._holder.feed(response.text[self._fed_chars :]))
        events += reader.emit_held(self._holder.buffered, is_cut=is_cut)
        events += reader.finish(is_cut=is_cut)
        message = response.message
        if reader.text != message.text:
            message = replace(
                message,
                text=reader.text,
                tool_calls=(*message.tool_calls, *reader.calls),
                reasoning=message.reasoning + reader.reasoning,
                extra={},
            )
        has_calls = bool(message.tool_calls) and not is_cut
        finish_reason = "tool_calls" if has_calls else response.finish_reason
        response = replace(response, message=with_distinct_ids(message, set()), finish_reason=finish_reason)
        return self._numbered(events, "read"), response
