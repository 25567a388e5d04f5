"""What does a chat completions request wish for, and what of it is refused? (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentkit.decisions import Label
from agentkit.llm.wire.dictionaries import typed_messages
from agentkit.messages import AssistantMessage, Content, Message, ToolMessage, UserMessage, without_extra
from agentkit.serve.exchange import Refusal
from agentkit.slotted import dataclass
from agentkit.usage import is_whole

_MOST_MESSAGES = 10_000
_PICTURES, _FILES = ("data:image/", "https://", "http://"), ("data:", "https://", "http://")
_READ = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens"}
_IGNORED = {
    *("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "reasoning_effort"),
    *("verbosity", "user", "metadata", "store", "service_tier", "parallel_tool_calls", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
}
"""What tunes a model that the agent has tuned already: no answer is wrong without it. The reply says what it was."""

_MEANINGLESS: Mapping[str, tuple[Any, ...]] = {
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
"""What would change what an answer is, with the values that leave it as it is; null always does."""

_REASONS = {
    "n": "there is one answer",
    "tools": "the agent has tools of its own, which run on the server and are judged there",
    "functions": "the agent has tools of its own, which run on the server and are judged there",
    "tool_choice": "the agent chooses among its own tools",
    "function_call": "the agent chooses among its own tools",
    "response_format": "what the agent answers was decided where it was made (output_type=)",
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """A prompt, the conversation before it, and how the answer is to be given.

    `max_tokens` is what the run may write at most; `ignored` are the parameters that change nothing here.
    """

    prompt: Content
    history: tuple[Message, ...]
    stream: bool = False
    include_usage: bool = False
    max_tokens: int | None = None
    ignored: tuple[str, ...] = ()


def wishes_of(document: Mapping[str, Any], model: str) -> Wishes:
    """The wishes of a request to the agent called `model`. Raises Refusal."""
    asked = document.get("model")
    if asked != model:
        text = f"The model {str(asked)[:100]!r} does not exist here; the agent is called {model!r}."
        raise Refusal(404, text, code="model_not_found", parameter="model")
    ignored = _ignored(document)
    stream, options = document.get("stream") or False, document.get("stream_options") or {}
    if not isinstance(stream, bool) or not isinstance(options, dict):
        raise _invalid("stream", "stream is true or false, and stream_options an object.")
    messages = _messages(document.get("messages"))
    prompt = messages[-1]
    if not isinstance(prompt, UserMessage):
        raise _invalid("messages", "The last message must be the user's: it is what the agent is asked.")
    return Wishes(prompt.content, messages[:-1], stream, options.get("include_usage") is True, _most(document), ignored)


def _ignored(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters that are passed over. Raises Refusal for one that would change the answer, or is unknown."""
    for name, value in document.items():
        if value is None or name in _READ | _IGNORED or value in _MEANINGLESS.get(name, ()):
            continue
        why = _REASONS.get(name, "this endpoint does not know it")
        text = f"The parameter {name[:100]!r} is not supported here: {why}."
        raise Refusal(400, text, code="unsupported_parameter", parameter=name[:100])
    return tuple(sorted(name for name in document if name in _IGNORED and document[name] is not None))


def _most(document: Mapping[str, Any]) -> int | None:
    given = [document[name] for name in ("max_completion_tokens", "max_tokens") if document.get(name) is not None]
    if not all(is_whole(most, 1) for most in given):
        raise _invalid("max_completion_tokens", "max_completion_tokens is a whole number of at least 1.")
    return min(given, default=None)


def _messages(given: object) -> tuple[Message, ...]:
    """The conversation. Raises Refusal when it is none, or when a tool call has not exactly one result."""
    if not isinstance(given, list) or not given or len(given) > _MOST_MESSAGES:
        raise _invalid("messages", f"messages is a list of 1 to {_MOST_MESSAGES:,} messages.")
    for entry in given:
        _check_entry(entry)
    try:
        messages = tuple(map(without_extra, typed_messages(given)))
    except (ValueError, TypeError) as error:
        raise _invalid("messages", f"{error}.") from None
    _check_calls(messages)
    return tuple(map(_strange, messages))


def _check_entry(entry: object) -> None:
    """Raise Refusal for what would otherwise be read as if nothing stood there, or fetched from a disk."""
    if not isinstance(entry, dict):
        raise _invalid("messages", "Each message is an object with a role and a content.")
    content, is_assistant = entry.get("content"), entry.get("role") == "assistant"
    if not (isinstance(content, str | list) or (is_assistant and content is None)):
        raise _invalid("messages", "The content of a message is a text, or a list of parts.")
    if not isinstance(entry.get("tool_calls"), list | None):
        raise _invalid("messages", "tool_calls is a list.")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            _check_addresses(part)


def _check_addresses(part: Mapping[str, Any]) -> None:
    """Raise Refusal for a picture or file that would have to be fetched from a disk."""
    image, file = part.get("image_url"), part.get("file")
    address = image.get("url") if isinstance(image, dict) else image
    if address is not None and not (isinstance(address, str) and address.lower().startswith(_PICTURES)):
        raise _invalid("messages", "The address of a picture begins with data:image/, https:// or http://.")
    told = file if isinstance(file, dict) else part
    for name in ("file_data", "file_url"):
        address = str(told.get(name) or "")
        if ":" in address and not address.lower().startswith(_FILES):
            raise _invalid("messages", "A file is base64, or an address that begins with data:, https:// or http://.")


def _strange(message: Message) -> Message:
    """The message; what a tool of somebody else's said is text of strangers here, whatever the client says of it."""
    return replace(message, labels=frozenset({Label.UNTRUSTED})) if isinstance(message, ToolMessage) else message


def _check_calls(messages: Sequence[Message]) -> None:
    """Raise Refusal unless each tool call has an id of its own, and its one result right behind."""
    known: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in waiting:
                raise _invalid("messages", f"No tool call before it waits for the result of {message.call_id!r:.100}.")
            waiting.remove(message.call_id)
            continue
        if waiting:
            raise _invalid("messages", f"The tool call {min(waiting)!r:.100} has no result right behind it.")
        if isinstance(message, AssistantMessage):
            waiting = {call.id for call in message.tool_calls}
            if len(waiting) < len(message.tool_calls) or waiting & known or "" in waiting:
                raise _invalid("messages", "Each tool call must have an id of its own.")
            known |= waiting
    # A call without a result at the end is refused, too: the last message must be the user's.


def _invalid(parameter: str, text: str) -> Refusal:
    return Refusal(400, text, code="invalid_value", parameter=parameter)
