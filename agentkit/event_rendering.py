"""One-line descriptions of run events, without secrets or control characters (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentkit.content import word_of
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    AnswerRefused,
    HandedOff,
    HistoryGiven,
    LimitReached,
    Milestone,
    RequestFailed,
    RunResumed,
    Summarised,
)
from agentkit.messages import Content, ToolCall, ToolResult, parts_of
from agentkit.redaction import redact_data, written_redactor
from agentkit.usage import Usage

MOST_LINE_CHARS = 110
_MOST_LEVELS = 50
_ANSWER_KEYS = ("result", "output", "content", "summary", "datetime")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_UNSEEN = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
"""Invisible characters whose category is that of a letter or mark."""


def visible(text: str) -> str:
    """Escape characters that are invisible or change how others are displayed, so that the text cannot mislead."""
    return "".join(f"\\u{{{ord(letter):x}}}" if _is_unseen(letter) else letter for letter in text)


def _is_unseen(letter: str) -> bool:
    if " " <= letter <= "~" or letter in "\n\t":
        return False
    import unicodedata

    return unicodedata.category(letter) in _UNSEEN_CATEGORIES or re.match(_UNSEEN, letter) is not None


def hidden(text: str) -> str:
    """Redact everything that is or resembles a secret. Redact before cutting: a cut could leave half of a secret."""
    return written_redactor()(text)


def cut(text: str, most_chars: int) -> str:
    """Truncate the text to `most_chars`, with an ellipsis if something was removed."""
    return text if len(text) <= most_chars else f"{text[: most_chars - 1]}…"


def one_line(text: str, most_chars: int = MOST_LINE_CHARS) -> str:
    """Redact secrets, collapse the text to one line, escape invisible characters and truncate it."""
    return cut(visible(" ".join(hidden(text).split())[: most_chars + 1]), most_chars)


def call_text(call: ToolCall) -> str:
    """Render a tool call with its arguments; secrets are redacted however the arguments spell them."""
    said = redact_data({"name": call.name, "arguments": call.arguments}, written_redactor())
    return f"{said['name']}({said['arguments']})"


def arguments_in(written: str) -> dict[str, Any] | str:
    """Parse the arguments of a call; returns the text unchanged if it is not a JSON object."""
    loaded = json_value(written or "{}")
    return loaded if isinstance(loaded, dict) else written


def arguments_text(written: str) -> str:
    """Render the arguments of a call as `name=value` pairs, or unchanged if they are not a JSON object."""
    named = arguments_in(written)
    if isinstance(named, str):
        return named
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items())


def json_value(text: str) -> Any:
    """Parse JSON text; returns the text unchanged if it is invalid, too deep or cannot be serialised again."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value if is_shallow(value) else text


def is_shallow(value: object, levels: int = _MOST_LEVELS) -> bool:
    """Whether a value is nested shallowly enough to be serialised without exhausting the stack."""
    if not isinstance(value, dict | list):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(is_shallow(part, levels - 1) for part in parts)


def answer_in(result: ToolResult) -> str:
    """Render the main part of a result: the value under `result`, `output` or a similar key of agentkit's own tools.

    Any other structured value is rendered as the model receives it: as JSON, not as Python's repr.
    """
    value = result.value
    if isinstance(value, Mapping):
        value = next((value[key] for key in _ANSWER_KEYS if key in value), value)
    return str(value) if isinstance(value, str | int | float) else result.content


def content_text(content: Content, between: str = " ") -> str:
    """Render message content as text: `[image]` replaces each image, `[file report.pdf]` a file."""
    return between.join(map(word_of, parts_of(content)))


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


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return ` Did you mean 'calculator'?` if one of the known names is similar, otherwise an empty string.

    `cutoff` is the required similarity, from 0 to 1.
    """
    from agentkit.suggestions import closest

    close = closest(name, known, cutoff)
    return f" Did you mean {close!r}?" if close else ""


_WORDS: Mapping[type[Milestone], Callable[[Any], tuple[str, str]]] = {
    RequestFailed: lambda failed: (f"The model gave no answer ({failed.kind})", failed.error),
    AnswerRefused: lambda refused: ("The answer was not taken", refused.reason),
    AnswerGiven: lambda given: ("A tool has given the answer", given.text),
    AnswerAmended: lambda amended: ("The answer was amended", amended.text),
    HandedOff: lambda handed: (f"Handed off to {handed.agent}", ""),
    LimitReached: lambda reached: (f"Limit reached: {reached.limit}", reached.reason),
    Summarised: lambda told: (f"{count_text(told.messages, 'message')} were summarised", told.text),
    RunResumed: lambda resumed: ("The run goes on", resumed.prompt),
    HistoryGiven: lambda given: (f"Begins with {count_text(len(given.messages), 'message')} said before", ""),
}


def milestone_words(milestone: Milestone) -> tuple[str, str]:
    """Title and text of a milestone; the class name if the type has no entry."""
    tell = _WORDS.get(type(milestone))
    return tell(milestone) if tell else (type(milestone).__name__, "")
