"""Incremental parsing of text answers into text and tool calls (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentkit.events import Event, ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.prompted_tools import text_format as markup
from agentkit.llm.prompted_tools.native_formats import calls_in_native_formats, name_before_markup
from agentkit.llm.prompted_tools.text_format import INNER_KEYS, arguments_of, read_exact_object, read_json, read_object
from agentkit.messages import ToolCall

if TYPE_CHECKING:
    from agentkit.llm.prompted_tools.text_format import Tag
    from agentkit.messages import ToolSpec


class AnswerText:
    """Collects text, reasoning and calls of a response, and the events to emit.

    Whitespace is buffered until text follows, so that it is not emitted before a call. Calls, with their original
    spelling, can be held until it is clear whether they are real. With `is_single` only the first call is used.
    """

    def __init__(self, *, is_single: bool) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ToolCall] = []
        self._is_single = is_single
        self._events: list[Event] = []
        self._whitespace: list[str] = []
        self._buffered_text: list[str] | None = None
        self._buffered: list[ToolCall] = []

    @property
    def is_holding(self) -> bool:
        """Whether calls are being held."""
        return self._buffered_text is not None

    @property
    def has_called(self) -> bool:
        """Whether a call was found, held or not."""
        return bool(self.calls or self._buffered)

    def add_text(self, text: str) -> None:
        """Emit the next piece of text."""
        if not self.texts and (self.calls or self.reasoning):
            text, self._whitespace = text.lstrip(), []
        visible = text.rstrip()
        if visible:
            visible = "".join([*self._whitespace, visible])
            self.texts.append(visible)
            self._events.append(TextDelta(visible))
            self._whitespace = []
        self._whitespace.append(text[len(text.rstrip()) :])

    def drop_blanks(self) -> None:
        """Discard the buffered whitespace."""
        self._whitespace = []

    def add_reasoning(self, text: str) -> None:
        """Emit the next piece of reasoning."""
        self.reasoning.append(text)
        self._events.append(ReasoningDelta(text))

    def call(self, call: ToolCall) -> None:
        """Emit a complete call, or add it to the held calls."""
        self._buffered.append(call)
        if not self.is_holding:
            self.commit()

    def start_holding(self) -> None:
        """Start to hold calls."""
        self._buffered_text = []

    def record_held(self, source: str) -> None:
        """Record the original spelling of held content."""
        if self._buffered_text is not None:
            self._buffered_text.append(source)

    def release(self) -> str:
        """Emit held content as text, because it was not a call, and return it."""
        text = "".join(self._buffered_text or ())
        self._buffered_text, self._buffered = None, []
        self.add_text(text)
        return text

    def commit(self) -> None:
        """Emit the held calls."""
        calls, self._buffered, self._buffered_text = self._buffered, [], None
        for call in calls[: 1 - len(self.calls)] if self._is_single else calls:
            self._events.append(ToolCallDelta(len(self.calls), call.name, call.arguments))
            self.calls.append(call)

    def end(self) -> None:
        """Emit the rest: held calls, or trailing whitespace of a text without calls."""
        self.commit()
        whitespace = "".join(self._whitespace)
        if whitespace and not self.calls:
            self.texts.append(whitespace)
            self._events.append(TextDelta(whitespace))

    def take_events(self) -> list[Event]:
        """The events since the previous call; adjacent pieces of text are joined."""
        events: list[Event] = []
        for kind, group in groupby(self._events, type):
            if kind is TextDelta or kind is ReasoningDelta:
                events.append(kind("".join(event.text for event in group if isinstance(event, kind))))
            else:
                events += group
        self._events = []
        return events


Specs = Mapping[str, "ToolSpec"]
"""The available tools, by name."""

_LAST_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*$\s*(?P<after>.*)", re.MULTILINE | re.DOTALL)
_NAMED_INPUT = re.compile(r"\s*(?P<name>[\w-]+)\s*(?::|\n)(?P<input>.*)", re.DOTALL)
_FUNCTION = re.compile(r"<function[=(](?P<name>[\w.-]+)\)?>?\s*(?=\{)")
_FUNCTION_END = re.compile(r"\}\s*+>?(?:</function>|\Z)")
_TAGS = re.compile(r"</?[\w|-]+>")


def begins_call(tag: Tag | None, specs: Specs) -> bool:
    """Whether a tag starts a call: it is spelled with a colon, names a tool, or has a name in its input."""
    if tag is None or tag.kind != "tool" or tag.is_end:
        return False
    return tag.is_strict or not tag.name or markup.known_name(tag.name, specs) is not None


class OpenCall:
    """A call whose input is being streamed."""

    def __init__(self, tag: Tag, specs: Specs) -> None:
        self._is_line_start = True
        self._tag, self._specs = tag, specs
        self._chunks: list[str] = []

    def add(self, chunk: str) -> None:
        """Add a piece of the input."""
        self._chunks.append(chunk)
        _, end, line = chunk.rpartition("\n")
        self._is_line_start = not line.strip() and (bool(end) or self._is_line_start)

    @property
    def can_end_here(self) -> bool:
        """Whether the next tag can end a call without end tag: on a new line, or if the call's tag has no name."""
        return self._is_line_start or not self._tag.name

    @property
    def source(self) -> str:
        """The original text of the call, without its end tag."""
        return self._tag.text + "".join(self._chunks)

    def complete(self) -> ToolCall | None:
        """The call, without id; None if neither tag nor input name a tool."""
        return self._call("".join(self._chunks))

    def incomplete(self, *, in_fence: bool, is_cut: bool) -> ToolCall | None:
        """The unfinished call at the end of the response; None if it is not a call, or was only quoted.

        In a response cut by the token limit, arguments are valid only as a complete object. Anything else is marked as
        cut off, which makes it invalid JSON, so that the model gets an error: half a shell command must not run.
        """
        text = markup.strip_cut_end("".join(self._chunks))
        fence = _LAST_FENCE.search(text) if in_fence else None
        if fence and fence["after"]:
            return None
        call = self._call(text[: fence.start()] if fence else text)
        if call is None or not is_cut or read_exact_object(text.strip()) is not None:
            return call
        return ToolCall("", call.name, f"{text.strip()} (cut off)")

    def _call(self, text: str) -> ToolCall | None:
        name, attributes = self._tag.name, self._tag.attributes
        inner = name_before_markup(text)
        if inner is not None:
            calls = calls_in_native_formats(f"<tool_call>{name}{text}</tool_call>", self._specs)
            return (
                calls[0]
                if calls
                else ToolCall("", name or inner or _DEFAULT_NAME, f"{text.strip()} (unreadable markup)")
            )
        if not name:
            named = _name_and_input(text, self._specs)
            if named is None:
                return None
            name, text = named
        if attributes and not text.strip():
            text = json.dumps(attributes, ensure_ascii=False)
        name = markup.known_name(name, self._specs) or name
        return ToolCall("", name, arguments_of(text, self._specs.get(name), is_escaped=self._tag.is_escaped))


_DEFAULT_NAME = "unnamed"


def attempted_calls(text: str, tools: Iterable[ToolSpec] = ()) -> tuple[ToolCall, ...]:
    """Parse calls, without ids, from a model's text that its server rejected as a call; empty if it contains none.

    Accepts JSON of one call or of a list, optionally between tags, and `<function=NAME>{…}</function>`.
    """
    if found := tuple(_function_calls(text)) or calls_in_native_formats(text, {tool.name: tool for tool in tools}):
        return found
    try:
        value = read_json(_TAGS.sub("", text).strip())
    except ValueError:
        return ()
    entries = value.get("tool_calls", value) if isinstance(value, dict) else value
    calls = [_call_from_entry(entry) for entry in (entries if isinstance(entries, list) else [entries])]
    return tuple(call for call in calls if call is not None) if all(calls) else ()


def _function_calls(text: str) -> Iterator[ToolCall]:
    """Calls from `<function=NAME>` to the next end. Each end is searched once, as there can be thousands of starts."""
    ends = _FUNCTION_END.finditer(text)
    end = next(ends, None)
    end_of_last = 0
    for start in _FUNCTION.finditer(text):
        while end is not None and end.start() < start.end():
            end = next(ends, None)
        if end is not None and start.start() >= end_of_last:
            end_of_last = end.end()
            yield ToolCall("", start["name"], text[start.end() : end.start() + 1])


def _call_from_entry(entry: object) -> ToolCall | None:
    fields = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        return None
    return ToolCall("", fields["name"], _input_of(fields))


def _input_of(fields: Mapping[str, Any]) -> str:
    """The input in an object that names a tool."""
    arguments: Any = next((fields[key] for key in INNER_KEYS if key in fields), {})
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _name_and_input(text: str, specs: Specs) -> tuple[str, str] | None:
    """Name and input of a call whose tag has no name: from an object, or from a name before the input."""
    fields = read_object(text.strip())
    if fields is not None and isinstance(fields.get("name"), str):
        return fields["name"], _input_of(fields)
    match = _NAMED_INPUT.fullmatch(text)
    name = markup.known_name(match["name"], specs) if match else None
    return (name, match["input"]) if match and name else None


_PLAIN = re.compile(r"[^<&`~\n]+")
_MAX_CHARS_AT_ONCE = 2_000
_MAX_LOOKAHEAD_CHARS = 1_000
"""Maximum lookahead for the end of a line, or for the start of a code block's content."""

_MAX_MARKS = 100
"""Maximum number of backticks in one mark; further ones start the next mark."""
_NO_BRACKETS = re.compile(r"[^<&]+")


class _StepParser:
    """Parses text in steps. Each step inspects the start of the buffer and consumes part of it.

    A step that returns False waits for more text.
    """

    def __init__(self, answer: AnswerText) -> None:
        self._answer = answer
        self._buffer = ""
        self._is_last = False
        self._step: Callable[[], bool] = self._discard

    @property
    def text(self) -> str:
        """The text so far, without markup."""
        return "".join(self._answer.texts)

    @property
    def reasoning(self) -> str:
        """The reasoning in the text so far."""
        return "".join(self._answer.reasoning)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far, without ids."""
        return tuple(self._answer.calls)

    def _feed_buffer(self, chunk: str) -> None:
        for start in range(0, len(chunk) or 1, _MAX_CHARS_AT_ONCE):
            self._buffer += chunk[start : start + _MAX_CHARS_AT_ONCE]
            while self._buffer and self._step():
                pass

    def _discard(self) -> bool:
        """Discard the buffer."""
        self._take(len(self._buffer))
        return True

    def _must_wait(self) -> bool:
        """Whether the buffer could still become a tag."""
        return not self._is_last and _may_become_tag(self._buffer)

    def _emit_text(self, length: int) -> bool:
        """Emit the start of the buffer as text."""
        self._answer.add_text(self._take(length))
        return True

    def _take(self, length: int) -> str:
        start, self._buffer = self._buffer[:length], self._buffer[length:]
        self._answer.record_held(start)
        return start


class AnswerReader(_StepParser):
    """Splits a streamed response into text and tool calls, wherever the deltas are cut.

    Text is held back only while it could become a tag. The rules:

    - Calls in code are quotations and are not executed. But some models write calls as a code block that contains
      nothing else: they are executed if only such blocks follow.
    - Everything from the first result on is discarded: the model invented it, because real results come from agentkit.
    - `<think>…</think>` at the start is reasoning; calls in it are not executed.
    - Spelled with a colon, `<TOOL: name>`, a call counts even for an unknown tool, so that the model gets an error.
      Other spellings are calls only with the name of a tool.
    """

    def __init__(self, specs: Sequence[ToolSpec], *, is_single: bool = False) -> None:
        self._specs = {spec.name: spec for spec in specs}
        super().__init__(AnswerText(is_single=is_single))
        self._step = self._read_start
        self._is_line_start = True
        self._is_in_code = False
        self._fence = ""
        self._open_call: OpenCall | None = None

    def feed(self, chunk: str) -> list[Event]:
        """The events in the next delta."""
        self._feed_buffer(chunk)
        return self._answer.take_events()

    def emit_held(self, buffered: str, *, is_cut: bool) -> list[Event]:
        """The events for the rest of the response, if it begins with a call in the markup of another toolkit."""
        calls = (
            ()
            if is_cut or self._step not in (self._read_start, self._read)
            else calls_in_native_formats(buffered, self._specs)
        )
        if not buffered or not calls:
            return self.feed(buffered) if buffered else []
        for call in calls:
            self._answer.call(call)
        return self._answer.take_events()

    def finish(self, *, is_cut: bool = False) -> list[Event]:
        """The last events. `is_cut` means that the response ended at its token limit."""
        self._is_last = True
        self._feed_buffer("")
        if self._open_call is not None:
            call = self._open_call.incomplete(in_fence=self._answer.is_holding, is_cut=is_cut)
            self._emit_call(call, self._open_call.source)
        self._answer.end()
        return self._answer.take_events()

    def _read_start(self) -> bool:
        """Parse the start of the response: whitespace, and optionally reasoning."""
        if whitespace := len(self._buffer) - len(self._buffer.lstrip()):
            return self._emit_text(whitespace)
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag and tag.kind == "thinking" and not tag.is_end:
            self._take(len(tag.text))
            self._answer.drop_blanks()
            self._step = self._read_reasoning
        else:
            self._step = self._read
        return True

    def _read_reasoning(self) -> bool:
        if plain := _NO_BRACKETS.match(self._buffer):
            self._answer.add_reasoning(self._take(plain.end()))
            return True
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag and tag.kind == "thinking" and tag.is_end:
            self._take(len(tag.text))
            self._step = self._read
        else:
            self._answer.add_reasoning(self._take(1))
        return True

    def _read(self) -> bool:
        """Parse text in which a call can start."""
        if plain := _PLAIN.match(self._buffer):
            self._is_line_start = self._is_line_start and not plain[0].strip()
            return self._emit_text(plain.end())
        if self._buffer[0] == "\n":
            self._is_line_start, self._is_in_code = True, False
            return self._emit_text(1)
        return self._read_marks() if self._buffer[0] in "`~" else self._read_tag()

    def _read_marks(self) -> bool:
        """Parse backticks or tildes, which start or end inline code or a code block."""
        marks = _marks(self._buffer)
        if marks == self._buffer and len(marks) < _MAX_MARKS and not self._is_last:
            return False
        if self._is_line_start and len(marks) >= 3:
            return self._read_fence(marks)
        return self._pass_marks(marks)

    def _pass_marks(self, marks: str) -> bool:
        self._is_line_start = False
        self._is_in_code ^= marks[0] == "`"
        return self._emit_text(len(marks))

    def _read_fence(self, marks: str) -> bool:
        """Parse the first line of a code block, and look ahead at its content."""
        line, end, after = self._buffer.partition("\n")
        content = after.lstrip()
        content_start = len(self._buffer) - len(content)
        if "`" in line[len(marks) : _MAX_LOOKAHEAD_CHARS] or len(line) > _MAX_LOOKAHEAD_CHARS:
            return self._pass_marks(marks)
        if not self._is_last and content_start <= _MAX_LOOKAHEAD_CHARS and (not content or _may_become_tag(content)):
            return False
        self._fence = marks
        if content_start <= _MAX_LOOKAHEAD_CHARS and begins_call(markup.tag_at_start(content), self._specs):
            self._answer.start_holding()
            self._take(content_start)
            self._step = self._read_held
            return True
        self._step, self._is_line_start = self._read_code, True
        return self._emit_text(len(line) + len(end))

    def _read_code(self) -> bool:
        """Parse a code block, in which calls are not executed."""
        line, end, _ = self._buffer.partition("\n")
        if self._is_line_start:
            if not end and not self._is_last and len(line) <= _MAX_LOOKAHEAD_CHARS and not line.strip(" \t`~"):
                return False
            if self._ends_block(line):
                self._step = self._read
        self._is_line_start = bool(end)
        return self._emit_text(len(line) + len(end))

    def _read_tag(self) -> bool:
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag is None and self._is_last and markup.is_cut_call(self._buffer):
            self._take(len(self._buffer))
            return True
        if tag is None:
            self._is_line_start = False
            return self._emit_text(1)
        lookahead = self._buffer[len(tag.text) : len(tag.text) + _MAX_LOOKAHEAD_CHARS]
        line, end, _ = lookahead.partition("\n")
        if self._is_in_code and "`" in line:
            return self._emit_text(1)
        if self._is_in_code and not end and len(lookahead) < _MAX_LOOKAHEAD_CHARS and not self._is_last:
            return False
        self._is_in_code = self._is_line_start = False
        return self._handle_tag(tag)

    def _handle_tag(self, tag: Tag) -> bool:
        """Handle a tag that is not quoted; a tag without effect here is text."""
        if begins_call(tag, self._specs):
            self._open(tag)
        elif tag.kind == "result" and (tag.is_strict or self._answer.has_called):
            self._take(len(tag.text))
            self._step = self._discard
        elif tag.is_end and tag.kind == "tool" and self._answer.has_called:
            self._take(len(tag.text))
        else:
            return self._emit_text(1)
        return True

    def _read_held(self) -> bool:
        """Parse content after a call in a code block: more calls, or text, in which case the calls were quotations."""
        if whitespace := len(self._buffer) - len(self._buffer.lstrip()):
            self._take(whitespace)
            return True
        if self._buffer[0] in "`~":
            return self._read_held_fence()
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if begins_call(tag, self._specs) and not self._fence:
            self._answer.commit()
            self._step = self._read
        elif tag and tag.kind != "thinking" and (tag.kind == "result" or tag.is_end or begins_call(tag, self._specs)):
            self._handle_tag(tag)
        else:
            self._release()
        return True

    def _read_held_fence(self) -> bool:
        """Parse a line of backticks after a call in a code block: it ends the block or starts the next one."""
        line, end, _ = self._buffer.partition("\n")
        if not end and not self._is_last and len(line) <= _MAX_LOOKAHEAD_CHARS:
            return False
        marks = _marks(line)
        if self._fence and self._ends_block(line):
            self._fence = ""
        elif (
            not self._fence and len(marks) >= 3 and "`" not in line[len(marks) :] and len(line) <= _MAX_LOOKAHEAD_CHARS
        ):
            self._fence = marks
        else:
            self._release()
            return True
        self._take(len(line) + len(end))
        return True

    def _ends_block(self, line: str) -> bool:
        """Whether a line ends the code block that `_fence` started."""
        marks = line.strip(" \t") if len(line) <= _MAX_LOOKAHEAD_CHARS else ""
        return marks.startswith(self._fence) and not marks.strip(self._fence[0])

    def _release(self) -> None:
        """Treat the held content as text."""
        text = self._answer.release()
        self._step = self._read_code if self._fence else self._read
        self._is_line_start = not text.rpartition("\n")[2].strip()

    def _open(self, tag: Tag) -> None:
        """Start a call."""
        self._take(len(tag.text))
        self._open_call = call = OpenCall(tag, self._specs)
        self._step = partial(self._read_input, call)
        if tag.is_empty:
            self._close(call)

    def _read_input(self, call: OpenCall) -> bool:
        """Parse the input of a call, up to its end tag or to a tag that can only follow it."""
        plain = _NO_BRACKETS.match(self._buffer)
        if plain is None and self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag is None:
            call.add(self._take(plain.end() if plain else 1))
        elif tag.ends_input:
            self._close(call, self._take(len(tag.text)))
        elif call.can_end_here and (tag.kind == "result" or begins_call(tag, self._specs)):
            self._close(call)
        else:
            call.add(self._take(1))
        return True

    def _close(self, call: OpenCall, end: str = "") -> None:
        """Finish a call."""
        self._step = self._read_held if self._answer.is_holding else self._read
        self._is_line_start = False
        self._emit_call(call.complete(), call.source + end)

    def _emit_call(self, call: ToolCall | None, source: str) -> None:
        """Emit a call, or its original text if it is not a call."""
        self._open_call = None
        if call is not None:
            self._answer.call(call)
        elif self._answer.is_holding:
            self._release()
        else:
            self._answer.add_text(source)


def _may_become_tag(text: str) -> bool:
    return text[0] in "<&" and markup.tag_at_start(text) is None and markup.may_become_tag(text)


def _marks(text: str) -> str:
    """The backticks or tildes at the start of `text`, up to the length of one mark."""
    start = text[:_MAX_MARKS]
    return start[: len(start) - len(start.lstrip(text[0]))]
