"""Rendering of messages, tool calls, results and figures as text, without secrets or control characters (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentkit.content import part_text
from agentkit.messages import (
    UPDATE_PLAN,
    AssistantMessage,
    Content,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
    parts_of,
)
from agentkit.redaction import redact_data, stored_text_redactor
from agentkit.text_encoding import split_lines
from agentkit.usage import Usage

MAX_LINE_CHARS = 110
_MAX_LEVELS = 50
_MAX_RESULT_CHARS = 1_000
_ANSWER_KEYS = ("result", "output", "content", "summary", "datetime")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
"""Invisible characters whose category is that of a letter or mark."""


def escape_invisible(text: str) -> str:
    """Escape characters that are invisible or change how others are displayed, so that the text cannot mislead."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"\\u{{{ord(letter):x}}}" if _is_invisible(letter) else letter for letter in text)


def _is_invisible(letter: str) -> bool:
    if " " <= letter <= "~" or letter in "\n\t":
        return False
    import unicodedata

    return unicodedata.category(letter) in _INVISIBLE_CATEGORIES or re.match(_INVISIBLE, letter) is not None


def redact_stored(text: str) -> str:
    """Redact everything that is or resembles a secret. Redact before cutting: a cut could leave half of a secret."""
    return stored_text_redactor()(text)


def truncate(text: str, max_chars: int) -> str:
    """Truncate the text to `max_chars`, with an ellipsis if something was removed."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def one_line(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    """Redact secrets, collapse the text to one line, escape invisible characters and truncate it."""
    return collapse(redact_stored(text), max_chars)


def collapse(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    """Collapse a redacted text to one line, escape invisible characters and truncate it."""
    return truncate(escape_invisible(" ".join(text.split())[: max_chars + 1]), max_chars)


def call_text(call: ToolCall) -> str:
    """Render a tool call with its arguments; secrets are redacted however the arguments spell them."""
    redacted = redact_data({"name": call.name, "arguments": call.arguments}, stored_text_redactor())
    return f"{redacted['name']}({redacted['arguments']})"


def parse_arguments(written: str) -> dict[str, Any] | str:
    """Parse the arguments of a call; returns the text unchanged if it is not a JSON object."""
    value = parse_json(written or "{}")
    return value if isinstance(value, dict) else written


def arguments_text(written: str) -> str:
    """Render the arguments of a call as `name=value` pairs, or unchanged if they are not a JSON object."""
    named = parse_arguments(written)
    if isinstance(named, str):
        return named
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items())


def parse_json(text: str) -> Any:
    """Parse JSON text; returns the text unchanged if it is invalid, too deep or cannot be serialised again."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value if is_shallow(value) else text


def is_shallow(value: object, levels: int = _MAX_LEVELS) -> bool:
    """Whether a value is nested shallowly enough to be serialised without exhausting the stack."""
    if not isinstance(value, dict | list):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(is_shallow(part, levels - 1) for part in parts)


def main_text(result: ToolResult) -> str:
    """Render the main part of a result: the value under `result`, `output` or a similar key of agentkit's own tools.

    Any other structured value is rendered as the model receives it: as JSON, not as Python's repr.
    """
    value = result.value
    if isinstance(value, Mapping):
        value = next((value[key] for key in _ANSWER_KEYS if key in value), value)
    return str(value) if isinstance(value, str | int | float) else result.content


def content_text(content: Content, between: str = " ") -> str:
    """Render message content as text: `[image]` replaces each image, `[file report.pdf]` a file."""
    return between.join(map(part_text, parts_of(content)))


def conversation_text(messages: Iterable[Message]) -> str:
    """Render messages as text, each after its author; results are truncated."""
    return "\n".join(line for message in messages for line in _message_lines(message))


def _message_lines(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(content):
            yield _turn_text("user", content_text(content, "\n"))
        case SystemMessage(text):
            yield _turn_text("system", text)
        case AssistantMessage(text, calls):
            if text:
                yield _turn_text("assistant", text)
            yield from (_turn_text("  calls", f"{call.name}({call.arguments})") for call in calls)
        case _:
            yield _turn_text(f"  {message.name}", _truncate_result(message.content))


def _turn_text(author: str, text: str) -> str:
    """Render a text after its author, with further lines indented."""
    lines = enumerate(split_lines(f"{author}: {text}"))
    return "\n".join(f"    {line}".rstrip() if number else line for number, line in lines)


def _truncate_result(text: str) -> str:
    start = text[:_MAX_RESULT_CHARS]
    return start if start == text else f"{start} … ({len(text)} characters)"


def answer_text(value: object) -> str:
    """Convert the answer of a run to text; the empty text for None."""
    return value if isinstance(value, str) else "" if value is None else str(value)


_MARKS = {"pending": " ", "active": ">", "done": "x"}


def plan_text(call: ToolCall) -> str:
    """Render the plan in a call of `update_plan` as a checklist; empty for any other call."""
    steps = parse_json(call.arguments) if call.name == UPDATE_PLAN else None
    steps = steps.get("steps") if isinstance(steps, dict) else None
    if not isinstance(steps, list) or not all(
        isinstance(each, dict) and each.get("status") in _MARKS for each in steps
    ):
        return ""
    return "\n".join(f"[{_MARKS[each['status']]}] {' '.join(str(each.get('step', '')).split())}" for each in steps)


def value_text(value: object) -> str:
    """Return text unchanged and anything else as JSON, with `str` for values JSON cannot represent."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def error_text(error: BaseException) -> str:
    """Render an exception with its class name: `ValueError: no such city`."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def count_text(count: int, noun: str) -> str:
    """Render a count with its noun: `1 request`, `1,234 requests`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def seconds_text(seconds: float) -> str:
    """Render a duration: `12 ms`, `3.4 s`, `2 min 05 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


def tokens_text(usage: Usage) -> str:
    """Render token counts: `1,200 tokens in (800 cached), 34 out`; mentions requests whose usage was not reported."""
    if usage.requests and usage.unreported == usage.requests:
        return "tokens unknown"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    missing = f", {count_text(usage.unreported, 'request')} unreported" if usage.unreported else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{missing}"


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` Did you mean 'calculator'?` if a known name is similar or begins with this one, else an empty string.

    `cutoff` is the required similarity, from 0 to 1.
    """
    from agentkit.suggestions import closest, completion

    names = [*known]
    close = closest(name, names, cutoff) or completion(name, names)
    return f" Did you mean {close!r}?" if close else ""
