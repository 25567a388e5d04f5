"""Attribute names and message formats of the OpenTelemetry conventions for generative AI (pure).

The conventions are still in development; their changes affect only this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agentkit.content import File, Image
from agentkit.errors import LimitExceeded, ModelError
from agentkit.messages import (
    AssistantMessage,
    Content,
    EmbeddingAnswer,
    Message,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    arguments_of,
    parts_of,
)
from agentkit.redaction import redact_data
from agentkit.tracing.listeners import ModelRequest, Origin, ToolUse
from agentkit.usage import Usage

SCOPE: Final = "agentkit"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"
"""The last release of the core conventions that defines these names; their own repository has no schema URL yet."""

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITTEN_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
EMBEDDING_DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"
COUNTED_KIND: Final = "gen_ai.token.type"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EMBEDDINGS: Final = "embeddings"
EXECUTE_TOOL: Final = "execute_tool"

USAGE_METRIC: Final = "gen_ai.client.token.usage"
DURATION_METRIC: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK_METRIC: Final = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_BUCKETS: Final = tuple(float(4**power) for power in range(14))
SECOND_BUCKETS: Final = tuple(round(0.01 * 2**power, 2) for power in range(14))
"""The bucket boundaries that the conventions recommend."""

RUN_ID: Final = "agentkit.run.id"
RUN_PARENT: Final = "agentkit.run.parent"
RUN_STATUS: Final = "agentkit.run.status"
RUN_ELSEWHERE: Final = "agentkit.run.is_elsewhere"
ITERATION: Final = "agentkit.iteration"
DECISION_VERDICT: Final = "agentkit.decision.verdict"
DECISION_RULE: Final = "agentkit.decision.rule"
DECISION_REASON: Final = "agentkit.decision.reason"
DECISION_EVIDENCE: Final = "agentkit.decision.evidence"
TOOL_STATUS: Final = "agentkit.tool.status"
TOOL_DURATION: Final = "agentkit.tool.duration"
"""Names missing from the conventions. Run totals have their own names, because viewers sum up those of requests."""

Attributes = dict[str, Any]

_PROVIDERS: Mapping[str, str] = {"azure": "azure.ai.openai", "gemini": "gcp.gemini", "mistral": "mistral_ai"}
"""Provider names of the conventions, where they differ from agentkit's."""

_SETTINGS: Mapping[str, str] = {
    "max_tokens": REQUEST_MAX_TOKENS,
    "max_completion_tokens": REQUEST_MAX_TOKENS,
    "max_output_tokens": REQUEST_MAX_TOKENS,
    "temperature": REQUEST_TEMPERATURE,
    "top_p": REQUEST_TOP_P,
    "frequency_penalty": REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": REQUEST_PRESENCE_PENALTY,
    "seed": REQUEST_SEED,
    "stop": REQUEST_STOP_SEQUENCES,
    "stop_sequences": REQUEST_STOP_SEQUENCES,
    "top_k": REQUEST_TOP_K,
}


_FIELDS: Mapping[str, str] = {
    "call": TOOL_CALL_ID,
    "tool": TOOL_NAME,
    "kind": ERROR_TYPE,
    "answer": "agentkit.approval",
}
"""Attribute names of event fields, where they differ from `agentkit.` and the name of the field."""

OUTCOME = ("status", "iterations", "tool_calls", "input_tokens", "output_tokens", "dollars")
"""The fields of the last event that the span of a run has as attributes."""


_EXCEPTION = re.compile(r"([A-Z]\w*)(?::|$)")
"""The class of an exception at the start of an error, as `error_text` renders it."""


def of_field(name: str) -> str:
    """Return the attribute name of a field of an event."""
    return _FIELDS.get(name, f"agentkit.{name}")


def of_run(source: Origin) -> Attributes:
    """Return the initial attributes for the span of a run, or of an agent's part in it."""
    attributes = {OPERATION_NAME: INVOKE_AGENT, AGENT_NAME: source.agent, RUN_ID: source.run}
    attributes[AGENT_ID] = source.agent  # an agent's name identifies it within a program
    if source.description:
        attributes[AGENT_DESCRIPTION] = source.description
    if source.parent:
        attributes[RUN_PARENT] = source.parent
    if source.session:
        attributes[CONVERSATION_ID] = source.session
    return {**attributes, RUN_ELSEWHERE: True} if source.is_elsewhere else attributes


def of_model(provider: str, model: str, url: str = "", operation: str = CHAT) -> Attributes:
    """Return the attributes of model and server, common to spans and metrics."""
    attributes = {OPERATION_NAME: operation, PROVIDER_NAME: _PROVIDERS.get(provider, provider), REQUEST_MODEL: model}
    return {**attributes, **dict(_server(url))}


def of_request(work: ModelRequest) -> Attributes:
    """Return the attributes of a request that are known before the response."""
    attributes = {AGENT_NAME: work.origin.agent, ITERATION: work.origin.iteration}
    settings = work.request.settings.items()
    attributes |= {_SETTINGS[name]: value for name, value in settings if name in _SETTINGS and value is not None}
    stop: Any = attributes.get(REQUEST_STOP_SEQUENCES)
    if stop is not None:
        attributes[REQUEST_STOP_SEQUENCES] = (stop,) if isinstance(stop, str) else tuple(str(each) for each in stop)
    attributes[OUTPUT_TYPE] = "text" if work.request.output_schema is None else "json"
    if work.is_streamed:
        attributes[REQUEST_STREAM] = True
    if work.origin.session:
        attributes[CONVERSATION_ID] = work.origin.session
    return attributes


def of_response(response: Response) -> Attributes:
    """Return the attributes of a response; tokens only if counted by the server."""
    attributes: Attributes = {RESPONSE_FINISH_REASONS: (response.finish_reason,)}
    if response.model:
        attributes[RESPONSE_MODEL] = response.model
    if response.missed and (tariff := response.tariff):  # a fallback model answered, perhaps of another provider
        attributes[PROVIDER_NAME] = _PROVIDERS.get(tariff.provider, tariff.provider)
    if isinstance(response.raw.get("id"), str):
        attributes[RESPONSE_ID] = response.raw["id"]
    return attributes if response.usage.unreported else {**attributes, **of_usage(response.usage)}


def of_vectors(made: EmbeddingAnswer | None) -> Attributes:
    """Return the attributes of embeddings; tokens only if counted by the server."""
    known = made is not None and {RESPONSE_MODEL: made.model, INPUT_TOKENS: made.usage.input_tokens}
    unknown = {INPUT_TOKENS} if made is not None and made.usage.unreported else set()
    return {name: value for name, value in (known or {}).items() if value and name not in unknown}


def of_usage(usage: Usage) -> Attributes:
    """Return token counts; special kinds only if nonzero."""
    special = {
        CACHE_READ_TOKENS: usage.cached_tokens,
        CACHE_WRITTEN_TOKENS: usage.written_tokens,
        REASONING_TOKENS: usage.reasoning_tokens,
    }
    attributes = {INPUT_TOKENS: usage.input_tokens, OUTPUT_TOKENS: usage.output_tokens}
    return attributes | {name: count for name, count in special.items() if count}


def of_call(work: ToolUse) -> Attributes:
    """Return the attributes of a tool call that are known before its result."""
    attributes = {
        OPERATION_NAME: EXECUTE_TOOL,
        TOOL_NAME: work.call.name,
        TOOL_TYPE: "function",
        TOOL_CALL_ID: work.call.id,
        AGENT_NAME: work.origin.agent,
        ITERATION: work.origin.iteration,
    }
    return {**attributes, TOOL_DESCRIPTION: work.description} if work.description else attributes


def of_failure(result: ToolResult) -> Attributes:
    """Return the error type of a failed tool call: the exception's class, or the status of the result.

    Empty if the call succeeded or waits for approval.
    """
    if result.ok or result.status == "waiting":
        return {}
    exception = _EXCEPTION.match(result.error or "") if result.status == "failed" else None
    return {ERROR_TYPE: result.status if exception is None else exception[1]}


def of_error(error: BaseException) -> Attributes:
    """Return the type of an error; GeneratorExit, raised when the consumer stops, is not one."""
    return {} if isinstance(error, GeneratorExit) else {ERROR_TYPE: type(error).__name__}


def is_without_content(error: BaseException) -> bool:
    """Whether an error message is about the provider or a limit, without quoting content."""
    return isinstance(error, ModelError | LimitExceeded)


def _server(url: str) -> Iterator[tuple[str, Any]]:
    parts = urlsplit(url) if "://" in url else None
    if parts is not None and parts.hostname:
        yield SERVER_ADDRESS, parts.hostname
        yield SERVER_PORT, parts.port or (80 if parts.scheme == "http" else 443)


Part = dict[str, Any]

_FINISH_REASONS = {"tool_calls": "tool_call"}
_END_REASONS = {"done": "stop", "limit": "length", "paused": "tool_call"}
"""The finish reason of a run's last message, by the status of the run."""


def written(value: Any, clean: Callable[[str], str]) -> str:
    """Serialise to JSON without secrets; `clean` redacts a text."""
    return json.dumps(redact_data(value, clean), ensure_ascii=False, default=str)


def of_messages(messages: Iterable[Message]) -> list[Part]:
    """Convert a conversation."""
    return [_message(message) for message in messages]


def of_answer(text: str, status: str) -> list[Part]:
    """Convert the answer of a run to a conversation of one message; empty for an unfinished run without a text."""
    if not text and status != "done":
        return []
    return [{"role": "assistant", "parts": of_text(text), "finish_reason": _END_REASONS.get(status, "error")}]


def message_of_response(response: Response) -> list[Part]:
    """Convert a response, including its finish reason."""
    finish_reason = _FINISH_REASONS.get(response.finish_reason, response.finish_reason)
    return [{**_message(response.message), "finish_reason": finish_reason}]


def of_tools(tools: Iterable[ToolSpec]) -> list[Part]:
    """Convert the tool definitions offered to a model."""
    return [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools
    ]


def _message(message: Message) -> Part:
    match message:
        case AssistantMessage(text, tool_calls):
            return {"role": "assistant", "parts": [*of_text(text), *map(_call, tool_calls)]}
        case ToolMessage(call_id, _, content):
            return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": content}]}
        case SystemMessage(text):
            return {"role": "system", "parts": of_text(text)}
        case _:
            return {"role": "user", "parts": _content(message.content)}


def _content(content: Content) -> list[Part]:
    kinds = (of_text(piece) if isinstance(piece, str) else [_shown(piece)] for piece in parts_of(content))
    return [part for parts in kinds for part in parts]


def _shown(part: Image | File) -> Part:
    """Convert an image or file to its URL; one given as bytes is described by type and size."""
    if part.url.startswith("data:"):
        return {"type": "text", "content": str(part)}
    return {"type": "uri", "modality": "image" if isinstance(part, Image) else "document", "uri": part.url}


def of_text(text: str) -> list[Part]:
    """Convert a text, such as the system instruction, to a list of one part, or of none."""
    return [{"type": "text", "content": text}] if text else []


def _call(call: ToolCall) -> Part:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments_of(call)}
