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
"""Characters without a shape that have the category of a letter or mark."""


def visible(text: str) -> str:
    """The text with characters that have no shape, or change that of others, as escapes: it reads as what it is."""
    return "".join(f"\\u{{{ord(letter):x}}}" if _is_unseen(letter) else letter for letter in text)


def _is_unseen(letter: str) -> bool:
    if " " <= letter <= "~" or letter in "\n\t":
        return False
    import unicodedata

    return unicodedata.category(letter) in _UNSEEN_CATEGORIES or re.match(_UNSEEN, letter) is not None


def hidden(text: str) -> str:
    """A text without what is or looks like a secret; this comes before it is cut, which would leave half of one."""
    return written_redactor()(text)


def cut(text: str, most_chars: int) -> str:
    """The beginning of a text, with an ellipsis where more followed; no longer than that."""
    return text if len(text) <= most_chars else f"{text[: most_chars - 1]}…"


def one_line(text: str, most_chars: int = MOST_LINE_CHARS) -> str:
    """A text without secrets on one line, cut, with what has no shape made visible."""
    return cut(visible(" ".join(hidden(text).split())[: most_chars + 1]), most_chars)


def call_text(call: ToolCall) -> str:
    """A tool call with its arguments, however these spell what is secret in them."""
    said = redact_data({"name": call.name, "arguments": call.arguments}, written_redactor())
    return f"{said['name']}({said['arguments']})"


def arguments_in(written: str) -> dict[str, Any] | str:
    """The arguments of a call by name, or the text that the model wrote when it is no JSON object."""
    loaded = json_value(written or "{}")
    return loaded if isinstance(loaded, dict) else written


def arguments_text(written: str) -> str:
    """The arguments of a call as a person writes them, or as the model did when they are no JSON object."""
    named = arguments_in(written)
    if isinstance(named, str):
        return named
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items())


def json_value(text: str) -> Any:
    """The value that the JSON text says, or the text itself when it is none that can be written again."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value if is_shallow(value) else text


def is_shallow(value: object, levels: int = _MOST_LEVELS) -> bool:
    """Whether a value nests few enough levels to be written without exhausting the stack."""
    if not isinstance(value, dict | list):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(is_shallow(part, levels - 1) for part in parts)


def answer_in(result: ToolResult) -> str:
    """The part of a result's value that answers, when the value is one of ours: `result`, `output` or the like.

    Of another value that has parts, it is what the model was told: JSON, not Python's spelling of it.
    """
    value = result.value
    if isinstance(value, Mapping):
        value = next((value[key] for key in _ANSWER_KEYS if key in value), value)
    return str(value) if isinstance(value, str | int | float) else result.content


def content_text(content: Content, between: str = " ") -> str:
    """What a person has said, in words: `[image]` stands for each picture, `[file report.pdf]` for a file."""
    return between.join(map(word_of, parts_of(content)))


def value_text(value: object) -> str:
    """A text itself, anything else as JSON, or as Python tells it where JSON has no word for it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def error_text(error: BaseException) -> str:
    """What an exception says, behind the name of its class: `ValueError: no such city`."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def count_text(count: int, noun: str) -> str:
    """`1 request`, `1,234 requests`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def seconds_text(seconds: float) -> str:
    """A duration: `12 ms`, `3.4 s`, `2 min 05 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


def tokens_text(usage: Usage) -> str:
    """`1,200 tokens in (800 cached), 34 out`, or why that is not known."""
    if usage.requests and usage.unreported == usage.requests:
        return "tokens unknown"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    missing = f", {count_text(usage.unreported, 'request')} unreported" if usage.unreported else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{missing}"


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """` Did you mean 'calculator'?` where one of the known names is like this one; nothing where none is.

    `cutoff` is how alike they must be, from 0 to 1.
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
    """What happened on the course of a run, and the words that belong to it; the kind's name when it has none."""
    tell = _WORDS.get(type(milestone))
    return tell(milestone) if tell else (type(milestone).__name__, "")
