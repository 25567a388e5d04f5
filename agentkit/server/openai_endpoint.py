"""The chat completions endpoint."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import field, replace
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.agent import PARAGRAPH, Agent
from agentkit.agents.result import RunFinished, RunResult
from agentkit.agents.run_config import LINEAGE
from agentkit.decisions import Label
from agentkit.errors import (
    AgentKitError,
    ConfigError,
    ModelError,
    RateLimited,
    Rejected,
    RunError,
    SessionError,
    Unreachable,
)
from agentkit.events import Event, ResponseReceived, TextDelta
from agentkit.llm.protocols.chat_format import typed_messages
from agentkit.messages import AssistantMessage, Content, Message, ToolMessage, UserMessage, without_extra
from agentkit.server.conversations import front_end_events
from agentkit.server.http_types import (
    SSE_BEAT,
    ConcurrencyLimit,
    HTTPError,
    HTTPRequest,
    HTTPResponse,
    cancel_on_disconnect,
    invalid_value,
    json_bytes,
    json_response,
    server_stopped,
    stream_response,
)
from agentkit.sessions.session import Session
from agentkit.usage import Limits, Usage, format_cost, is_whole

_MAX_BEGINNINGS = 100_000
_MAX_ALIKE_CHARS = 64
"""Texts that share a prefix of at least this length do not do so by chance."""


class AnswerLabels:
    """The labels of answers given here, by digests of their prefixes; the oldest are evicted.

    A run that continues from an answer based on private data must carry its labels, or the data could be exfiltrated in
    the next request. A client can have received a part of an answer, and can send it back with more text appended: a
    text is recognised by its first half. Answers from elsewhere have no labels: they are the client's own words.
    """

    def __init__(self, maximum: int = _MAX_BEGINNINGS) -> None:
        self._maximum = maximum
        self._labels: OrderedDict[bytes, frozenset[Label]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, text: str, labels: Iterable[Label]) -> None:
        """Add labels to this text; labels of texts with the same prefix are merged."""
        read = frozenset(labels)
        if not read:
            return
        with self._lock:
            for _, digest in _prefixes(text.lstrip()):
                self._labels[digest] = self._labels.pop(digest, frozenset[Label]()) | read
            while len(self._labels) > self._maximum:
                self._labels.popitem(last=False)

    def labels(self, messages: Iterable[Message]) -> frozenset[Label]:
        """The labels of all answers in this conversation."""
        texts = [message.text.strip() for message in messages if isinstance(message, AssistantMessage)]
        digests = [
            digest
            for text in texts
            for chars, digest in _prefixes(text)
            if chars >= _MAX_ALIKE_CHARS or 2 * chars > len(text)
        ]
        with self._lock:
            return frozenset[Label]().union(*(self._labels.get(digest, ()) for digest in digests))


class StreamedAnswer:
    """A streamed answer, whose labels are stored as it grows: the client can disconnect after any chunk.

    `labels` are the labels of data read so far.
    """

    def __init__(self, answers: AnswerLabels, labels: Set[Label]) -> None:
        self._answers, self._labels = answers, labels
        self._text_so_far, self._next, self._stored_labels = "", 1, frozenset[Label]()

    def record(self, piece: str) -> None:
        """Record a chunk before it is sent."""
        self._text_so_far = (self._text_so_far + piece).lstrip()
        if len(self._text_so_far) >= self._next or self._stored_labels != self._labels:
            self._stored_labels = frozenset(self._labels)
            self._answers.add(self._text_so_far, self._stored_labels)
            self._next = 1 << len(self._text_so_far).bit_length()


def _prefixes(text: str) -> Iterator[tuple[int, bytes]]:
    """Yield length and digest of the text's prefixes, each twice as long as the one before."""
    chars = 1
    while chars <= len(text):
        yield chars, hashlib.sha256(text[:chars].encode("utf-8", "surrogatepass")).digest()
        chars *= 2


_MAX_MESSAGES = 10_000
_PICTURES, _FILES = ("data:image/", "https://", "http://"), ("data:", "https://", "http://")
_SUPPORTED = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens"}
_IGNORED = {
    *("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "reasoning_effort"),
    *("verbosity", "user", "metadata", "store", "service_tier", "parallel_tool_calls", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
}
"""Sampling and service parameters, which the agent already sets: ignoring them does not make an answer wrong."""

_NO_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("auto", "none"),
    "function_call": ("auto", "none"),
    "modalities": (["text"],),
    "stop": ([],),
    "top_logprobs": (0,),
}
"""Parameters that would change the answer, with the values that have no effect; null never has."""

_REASONS = {
    "n": "the server returns one answer",
    "tools": "the agent's own tools run on the server and are judged there",
    "functions": "the agent's own tools run on the server and are judged there",
    "tool_choice": "the agent chooses among its own tools",
    "function_call": "the agent chooses among its own tools",
    "response_format": "the output type is set by the agent (output_type=)",
}


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A prompt, the conversation before it, and the response options.

    `max_tokens` limits the output of the run; `ignored` are the parameters without effect here.
    """

    prompt: Content
    history: tuple[Message, ...]
    stream: bool = False
    include_usage: bool = False
    max_tokens: int | None = None
    ignored: tuple[str, ...] = ()


def parse_request(document: Mapping[str, Any], model: str) -> CompletionRequest:
    """Parse a request to the agent called `model`. Raises HTTPError."""
    requested = document.get("model")
    if requested != model:
        text = f"The model {str(requested)[:100]!r} does not exist; the agent is named {model!r}."
        raise HTTPError(404, text, code="model_not_found", parameter="model")
    ignored = _ignored(document)
    stream, options = document.get("stream") or False, document.get("stream_options") or {}
    if not isinstance(stream, bool) or not isinstance(options, dict):
        raise invalid_value("stream is true or false, and stream_options an object.", "stream")
    messages = _messages(document.get("messages"))
    prompt = messages[-1]
    if not isinstance(prompt, UserMessage):
        raise invalid_value("The last message must be a user message: it is the agent's prompt.", "messages")
    return CompletionRequest(
        prompt.content, messages[:-1], stream, options.get("include_usage") is True, _max_tokens(document), ignored
    )


def _ignored(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The ignored parameters. Raises HTTPError for one that would change the answer, or is unknown."""
    for name, value in document.items():
        if value is None or name in _SUPPORTED | _IGNORED or value in _NO_EFFECT.get(name, ()):
            continue
        reason = _REASONS.get(name, "it is unknown to this endpoint")
        text = f"The parameter {name[:100]!r} is not supported here: {reason}."
        raise HTTPError(400, text, code="unsupported_parameter", parameter=name[:100])
    return tuple(sorted(name for name in document if name in _IGNORED and document[name] is not None))


def _max_tokens(document: Mapping[str, Any]) -> int | None:
    limits = [document[name] for name in ("max_completion_tokens", "max_tokens") if document.get(name) is not None]
    if not all(is_whole(most, 1) for most in limits):
        raise invalid_value("max_completion_tokens is a whole number of at least 1.", "max_completion_tokens")
    return min(limits, default=None)


def _messages(entries: object) -> tuple[Message, ...]:
    """Parse the conversation. Raises HTTPError if it is invalid, or if a tool call does not have exactly one result."""
    if not isinstance(entries, list) or not entries or len(entries) > _MAX_MESSAGES:
        raise invalid_value(f"messages is a list of 1 to {_MAX_MESSAGES:,} messages.", "messages")
    for entry in entries:
        check_entry(entry)
    try:
        messages = tuple(map(without_extra, typed_messages(entries)))
    except (ValueError, TypeError) as error:
        raise invalid_value(f"{error}.", "messages") from None
    _check_calls(messages)
    return tuple(map(_label_untrusted, messages))


def check_entry(entry: object) -> None:
    """Raise HTTPError for parts that would otherwise be read as empty or loaded from disk."""
    if not isinstance(entry, dict):
        raise invalid_value("Each message is an object with a role and a content.", "messages")
    content, is_assistant = entry.get("content"), entry.get("role") == "assistant"
    if not (isinstance(content, str | list) or (is_assistant and content is None)):
        raise invalid_value("The content of a message is a text, or a list of parts.", "messages")
    if not isinstance(entry.get("tool_calls"), list | None):
        raise invalid_value("tool_calls is a list.", "messages")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            _check_addresses(part)


def _check_addresses(part: Mapping[str, Any]) -> None:
    """Raise HTTPError for an image or file that would be loaded from disk."""
    image, file = part.get("image_url"), part.get("file")
    address = image.get("url") if isinstance(image, dict) else image
    if address is not None and not (isinstance(address, str) and address.lower().startswith(_PICTURES)):
        raise invalid_value("The URL of an image must begin with data:image/, https:// or http://.", "messages")
    holder = file if isinstance(file, dict) else part
    for name in ("file_data", "file_url"):
        address = str(holder.get(name) or "")
        if ":" in address and not address.lower().startswith(_FILES):
            raise invalid_value(
                "A file must be base64, or a URL that begins with data:, https:// or http://.", "messages"
            )


def _label_untrusted(message: Message) -> Message:
    """Label a tool message as untrusted: results of a client's tools are untrusted, whatever the client claims."""
    return replace(message, labels=frozenset({Label.UNTRUSTED})) if isinstance(message, ToolMessage) else message


def _check_calls(messages: Sequence[Message]) -> None:
    """Raise HTTPError unless each tool call has a unique id, directly followed by its one result."""
    known: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in waiting:
                raise invalid_value(
                    f"No tool call before it waits for the result of {message.call_id!r:.100}.", "messages"
                )
            waiting.remove(message.call_id)
            continue
        if waiting:
            raise invalid_value(
                f"The tool call {min(waiting)!r:.100} is not directly followed by its result.", "messages"
            )
        if isinstance(message, AssistantMessage):
            waiting = {call.id for call in message.tool_calls}
            if len(waiting) < len(message.tool_calls) or waiting & known or "" in waiting:
                raise invalid_value("Each tool call must have a distinct id.", "messages")
            known |= waiting
    # A final call without a result is rejected, too: the last message must be the user's.


_STATUSES: tuple[tuple[type[AgentKitError], int, str], ...] = (
    (RateLimited, 429, "rate_limit_exceeded"),
    (Unreachable, 503, "model_unreachable"),
    (Rejected, 400, "model_refused"),
    (ModelError, 502, "model_failed"),
    (ConfigError, 500, "not_set_up"),
    (RunError, 400, "run_failed"),
    (SessionError, 409, "session"),
    (AgentKitError, 500, "server_error"),
)
"""HTTP statuses of failed runs. A wrong key of the model is a server error: it says nothing about the client's key."""


@dataclass(slots=True)
class Completions:
    """The endpoint of one agent for any number of clients; each request is a separate conversation."""

    agent: Agent[Any]
    limit: ConcurrencyLimit
    answers: AnswerLabels = field(default_factory=AnswerLabels)
    created: int = field(default_factory=lambda: int(time.time()))

    async def models(self, _asked: HTTPRequest) -> HTTPResponse:
        """List the only model: the agent."""
        return json_response({"object": "list", "data": [self._model]})

    async def model(self, request: HTTPRequest) -> HTTPResponse:
        """Describe the agent as a model. Raises HTTPError for another name."""
        if request.path.get("model") != self.agent.name:
            text = f"The model does not exist; the agent is named {self.agent.name!r}."
            raise HTTPError(404, text, code="model_not_found", parameter="model")
        return json_response(self._model)

    @property
    def _model(self) -> dict[str, Any]:
        return {"id": self.agent.name, "object": "model", "created": self.created, "owned_by": "agentkit"}

    async def complete(self, request: HTTPRequest) -> HTTPResponse:
        """Answer the last message. A disconnect cancels the run. Raises HTTPError and ClientDisconnected."""
        completion = parse_request(await request.document(), self.agent.name)
        headers = {"x-agentkit-ignored": ", ".join(completion.ignored)} if completion.ignored else {}
        work = _CompletionRun(self, completion)
        if completion.stream:
            response = stream_response(work.chunks(), "text/event-stream", self.limit, beat=SSE_BEAT, headers=headers)
            return replace(response, last=_event(server_stopped().document))
        with self.limit.header():
            return json_response(await cancel_on_disconnect(request.receive, work.whole()), headers=headers)


class _CompletionRun:
    """One run for a client."""

    def __init__(self, endpoint: Completions, completion: CompletionRequest) -> None:
        self._endpoint, self._request = endpoint, completion
        self._id, self._created = f"chatcmpl-{secrets.token_hex(12)}", int(time.time())
        self._session = Session()
        self._agent = endpoint.agent.within(self._session)
        self._agent.limits = limits_with(self._agent.limits, completion.max_tokens)
        self._read: set[Label] = set()
        self._notes_on = StreamedAnswer(endpoint.answers, self._read)

    async def whole(self) -> dict[str, Any]:
        """Run and return the complete response document. Raises HTTPError if the run fails."""
        self._load_history()
        try:
            result = await self._agent.arun(self._request.prompt)
            self._end(result)
        except AgentKitError as error:
            raise http_error(error) from error
        message = {"role": "assistant", "content": self._text(result), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason(result)}
        return {
            **self._shared("chat.completion"),
            "choices": [choice],
            **usage_of(result.usage),
            **_agentkit_fields(result),
        }

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Stream the answer as server-sent events; a failure is sent as an event, without the end mark."""
        yield self._chunk({"role": "assistant", "content": ""})
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        except HTTPError as refusal:
            yield _event(refusal.document)
        else:
            yield b"data: [DONE]\n\n"

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        has_text = False
        async with aclosing(self._events()) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    has_text = True
                    yield self._answer_chunk(event.text)
                if isinstance(event, RunFinished):
                    result = event.result
        for pending in result.pending:
            yield self._answer_chunk(f"{PARAGRAPH if has_text else ''}{pending.question}")
            has_text = True
        yield self._chunk({}, self._reason(result), _agentkit_fields(result))
        if self._request.include_usage:
            yield _event({**self._shared("chat.completion.chunk"), "choices": [], **usage_of(result.usage)})

    def _load_history(self) -> None:
        """Load the conversation before the prompt, with its labels; new labels are collected during the run."""
        before = self._request.history
        if before:
            self._session.append(before)
        self._read |= self._endpoint.answers.labels(before)
        lineage = LINEAGE.get()
        LINEAGE.set(replace(lineage, read=lineage.read | self._read, collected_labels=self._read))

    async def _events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run. Raises HTTPError if it fails."""
        self._load_history()
        try:
            async with aclosing(front_end_events(self._agent, self._request.prompt)) as run:
                async for event in run:
                    if isinstance(event, RunFinished):
                        self._end(event.result)
                    yield event
        except AgentKitError as error:
            raise http_error(error) from error

    def _answer_chunk(self, text: str) -> bytes:
        """Build a chunk of the answer; its labels are stored before the client receives it."""
        self._notes_on.record(text)
        return self._chunk({"content": text})

    def _end(self, result: RunResult[Any]) -> None:
        """Store the labels of the answer. Raises the error of a failed run."""
        if result.status == "failed" and result.error is not None:
            raise result.error
        self._endpoint.answers.add(self._text(result), self._read)

    def _text(self, result: RunResult[Any]) -> str:
        """The text for the client: the answer, and the open questions of a paused run."""
        questions = [pending.question for pending in result.pending]
        return PARAGRAPH.join(filter(None, [result.text, *questions]))

    def _reason(self, result: RunResult[Any]) -> str:
        responses = [each.response for each in result.events if isinstance(each, ResponseReceived)]
        is_cut = bool(responses) and responses[-1].finish_reason == "length"
        return "length" if is_cut or result.status == "limit" else "stop"

    def _shared(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._endpoint.agent.name}

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None, more: Mapping[str, Any] = {}) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self._request.include_usage else {}
        return _event({**self._shared("chat.completion.chunk"), "choices": [choice], **usage, **more})


def limits_with(limits: Limits, max_tokens: int | None) -> Limits:
    """The limits of a run with at most `max_tokens` of output; None leaves them unchanged."""
    known = limits.output_tokens
    return limits if max_tokens is None else replace(limits, output_tokens=min(max_tokens, known or max_tokens))


def usage_of(usage: Usage) -> dict[str, Any]:
    """Usage in OpenAI's format; empty if the provider reports none."""
    if usage.unreported and not usage.total_tokens:
        return {}
    return {
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }
    }


def http_error(error: AgentKitError) -> HTTPError:
    """Convert the error of a run to an OpenAI error. Clients do not see the text of a program's exception."""
    cause = error.__cause__
    if type(error) is RunError and cause is not None and not isinstance(cause, AgentKitError | ValueError):
        return HTTPError(500, "The run was ended by an internal error.", code="server_error")
    status, code = next((status, code) for kind, status, code in _STATUSES if isinstance(error, kind))
    headers = {}
    if isinstance(error, RateLimited) and error.retry_after_seconds is not None:
        headers = {"retry-after": f"{error.retry_after_seconds:.0f}"}
    provider_code = error.code if isinstance(error, Rejected) else None
    return HTTPError(status, str(error), code=provider_code or code, headers={"x-should-retry": "false", **headers})


def _agentkit_fields(result: RunResult[Any]) -> dict[str, Any]:
    """Fields outside OpenAI's format: status of the run, tool calls with their decisions, and cost."""
    calls = [
        {
            "name": used.call.name,
            "arguments": used.call.arguments,
            "status": used.result.status,
            "decision": used.result.decision.to_dict() if used.result.decision is not None else None,
        }
        for used in result.tool_calls
    ]
    cost = format_cost(result.cost)
    return {"agentkit": {"status": result.status, "iterations": result.iterations, "tool_calls": calls, "cost": cost}}


def _event(document: Mapping[str, Any]) -> bytes:
    return b"data: " + json_bytes(document) + b"\n\n"
