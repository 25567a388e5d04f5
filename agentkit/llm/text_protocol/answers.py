"""Where in an answer are the tool calls, while it is still being written? Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from agentkit.llm.text_protocol import markup
from agentkit.llm.text_protocol.calls import OpenCall, begins_call
from agentkit.llm.text_protocol.sayings import Sayings

if TYPE_CHECKING:
    from agentkit.events import Event
    from agentkit.llm.text_protocol.markup import Tag
    from agentkit.messages import ToolCall, ToolSpec

_PLAIN = re.compile(r"[^<&`~\n]+")
_MOST_CHARS_AT_ONCE = 2_000
_MOST_AHEAD = 1_000
"""So far is looked ahead for the end of a line, or for what a code block begins with."""

_MOST_MARKS = 100
"""So many backticks are one mark; of more, the next begins."""
_WITHOUT_BRACKETS = re.compile(r"[^<&]+")


class _Steps:
    """Text that is read in steps. Each step looks at the beginning of the buffer and takes something from it.

    A step that gives False must wait for more text.
    """

    def __init__(self, sayings: Sayings) -> None:
        self._sayings = sayings
        self._buffer = ""
        self._is_last = False
        self._step: Callable[[], bool] = self._ignore

    @property
    def text(self) -> str:
        """The text so far, without markup."""
        return "".join(self._sayings.texts)

    @property
    def reasoning(self) -> str:
        """The reasoning so far that stood in the text."""
        return "".join(self._sayings.reasoning)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far, without ids."""
        return tuple(self._sayings.calls)

    def _go_on(self, piece: str) -> None:
        for start in range(0, len(piece) or 1, _MOST_CHARS_AT_ONCE):
            self._buffer += piece[start : start + _MOST_CHARS_AT_ONCE]
            while self._buffer and self._step():
                pass

    def _ignore(self) -> bool:
        """Leave out what comes now."""
        self._take(len(self._buffer))
        return True

    def _must_wait(self) -> bool:
        """Whether the buffer may still become markup."""
        return not self._is_last and _may_become_tag(self._buffer)

    def _pass(self, length: int) -> bool:
        """Tell the beginning of the buffer as text."""
        self._sayings.say(self._take(length))
        return True

    def _take(self, length: int) -> str:
        taken, self._buffer = self._buffer[:length], self._buffer[length:]
        self._sayings.keep(taken)
        return taken


class AnswerReader(_Steps):
    """Parts an answer into text and tool calls, however it is cut into deltas.

    Only where a piece of text may still become markup does it wait for the next delta. The rules:

    - What stands in code is quoted and does not run. But a code block that holds nothing but calls is how some models
      write them: it runs when nothing but such blocks follows.
    - From the first result on everything is invented, because results come from elsewhere; it is left out.
    - `<think>…</think>` at the beginning is reasoning; nothing in it runs.
    - Spelled with a colon, `<TOOL: name>`, a call runs whatever its name, so that the model can be told that there is
      no such tool. Other spellings are calls only if a tool bears the name.
    """

    def __init__(self, specs: Sequence[ToolSpec], *, is_single: bool = False) -> None:
        self._specs = {spec.name: spec for spec in specs}
        super().__init__(Sayings(is_single=is_single))
        self._step = self._begin
        self._is_line_start = True
        self._is_in_code = False
        self._mark = ""
        self._open_call: OpenCall | None = None

    def feed(self, piece: str) -> list[Event]:
        """The events in the next piece."""
        self._go_on(piece)
        return self._sayings.take_events()

    def finish(self, *, is_cut: bool = False) -> list[Event]:
        """The last events. `is_cut` says that the answer ended at its token limit, not where the model ended it."""
        self._is_last = True
        self._go_on("")
        if self._open_call is not None:
            call = self._open_call.unended(in_fence=self._sayings.is_holding, is_cut=is_cut)
            self._enter(call, self._open_call.written)
        self._sayings.end()
        return self._sayings.take_events()

    def _begin(self) -> bool:
        """Before anything is said: blanks, and perhaps thoughts."""
        if blanks := len(self._buffer) - len(self._buffer.lstrip()):
            return self._pass(blanks)
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag and tag.kind == "thinking" and not tag.is_end:
            self._take(len(tag.text))
            self._sayings.forget_blanks()
            self._step = self._think
        else:
            self._step = self._read
        return True

    def _think(self) -> bool:
        if plain := _WITHOUT_BRACKETS.match(self._buffer):
            self._sayings.think(self._take(plain.end()))
            return True
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag and tag.kind == "thinking" and tag.is_end:
            self._take(len(tag.text))
            self._step = self._read
        else:
            self._sayings.think(self._take(1))
        return True

    def _read(self) -> bool:
        """Text in which a call may begin."""
        if plain := _PLAIN.match(self._buffer):
            self._is_line_start = self._is_line_start and not plain[0].strip()
            return self._pass(plain.end())
        if self._buffer[0] == "\n":
            self._is_line_start, self._is_in_code = True, False
            return self._pass(1)
        return self._read_marks() if self._buffer[0] in "`~" else self._read_tag()

    def _read_marks(self) -> bool:
        """Backticks, which begin or end code in a line, or a block of it."""
        marks = _marks(self._buffer)
        if marks == self._buffer and len(marks) < _MOST_MARKS and not self._is_last:
            return False
        if self._is_line_start and len(marks) >= 3:
            return self._read_fence(marks)
        return self._pass_marks(marks)

    def _pass_marks(self, marks: str) -> bool:
        self._is_line_start = False
        self._is_in_code ^= marks[0] == "`"
        return self._pass(len(marks))

    def _read_fence(self, marks: str) -> bool:
        """The first line of a code block, and what it begins with."""
        line, end, after = self._buffer.partition("\n")
        inside = after.lstrip()
        before = len(self._buffer) - len(inside)
        if "`" in line[len(marks) : _MOST_AHEAD] or len(line) > _MOST_AHEAD:
            return self._pass_marks(marks)
        if not self._is_last and before <= _MOST_AHEAD and (not inside or _may_become_tag(inside)):
            return False
        self._mark = marks
        if before <= _MOST_AHEAD and begins_call(markup.tag_at_start(inside), self._specs):
            self._sayings.hold()
            self._take(before)
            self._step = self._read_held
            return True
        self._step, self._is_line_start = self._read_code, True
        return self._pass(len(line) + len(end))

    def _read_code(self) -> bool:
        """A code block, in which nothing runs."""
        line, end, _ = self._buffer.partition("\n")
        if self._is_line_start:
            if not end and not self._is_last and len(line) <= _MOST_AHEAD and not line.strip(" \t`~"):
                return False
            if self._ends_block(line):
                self._step = self._read
        self._is_line_start = bool(end)
        return self._pass(len(line) + len(end))

    def _read_tag(self) -> bool:
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag is None and self._is_last and markup.is_cut_call(self._buffer):
            self._take(len(self._buffer))
            return True
        if tag is None:
            self._is_line_start = False
            return self._pass(1)
        ahead = self._buffer[len(tag.text) : len(tag.text) + _MOST_AHEAD]
        line, end, _ = ahead.partition("\n")
        if self._is_in_code and "`" in line:
            return self._pass(1)
        if self._is_in_code and not end and len(ahead) < _MOST_AHEAD and not self._is_last:
            return False
        self._is_in_code = self._is_line_start = False
        return self._follow(tag)

    def _follow(self, tag: Tag) -> bool:
        """Do what a tag says that is not quoted; one that says nothing here is text."""
        if begins_call(tag, self._specs):
            self._open(tag)
        elif tag.kind == "result" and (tag.is_strict or self._sayings.has_called):
            self._take(len(tag.text))
            self._step = self._ignore
        elif tag.is_end and tag.kind == "tool" and self._sayings.has_called:
            self._take(len(tag.text))
        else:
            return self._pass(1)
        return True

    def _read_held(self) -> bool:
        """What follows a call in a code block, up to the end of the answer: more calls, or it was only quoted."""
        if blanks := len(self._buffer) - len(self._buffer.lstrip()):
            self._take(blanks)
            return True
        if self._buffer[0] in "`~":
            return self._read_held_fence()
        if self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if begins_call(tag, self._specs) and not self._mark:
            self._sayings.commit()
            self._step = self._read
        elif tag and tag.kind != "thinking" and (tag.kind == "result" or tag.is_end or begins_call(tag, self._specs)):
            self._follow(tag)
        else:
            self._release()
        return True

    def _read_held_fence(self) -> bool:
        """A line of backticks after a call in a code block: it ends the block, or begins the next one."""
        line, end, _ = self._buffer.partition("\n")
        if not end and not self._is_last and len(line) <= _MOST_AHEAD:
            return False
        marks = _marks(line)
        if self._mark and self._ends_block(line):
            self._mark = ""
        elif not self._mark and len(marks) >= 3 and "`" not in line[len(marks) :] and len(line) <= _MOST_AHEAD:
            self._mark = marks
        else:
            self._release()
            return True
        self._take(len(line) + len(end))
        return True

    def _ends_block(self, line: str) -> bool:
        """Whether a line ends the code block that `_mark` began."""
        marks = line.strip(" \t") if len(line) <= _MOST_AHEAD else ""
        return marks.startswith(self._mark) and not marks.strip(self._mark[0])

    def _release(self) -> None:
        """What was held back is text after all."""
        text = self._sayings.release()
        self._step = self._read_code if self._mark else self._read
        self._is_line_start = not text.rpartition("\n")[2].strip()

    def _open(self, tag: Tag) -> None:
        """A call begins."""
        self._take(len(tag.text))
        self._open_call = call = OpenCall(tag, self._specs)
        self._step = partial(self._read_input, call)
        if tag.is_empty:
            self._close(call)

    def _read_input(self, call: OpenCall) -> bool:
        """The input of a call, to its end or to what can only come after it."""
        plain = _WITHOUT_BRACKETS.match(self._buffer)
        if plain is None and self._must_wait():
            return False
        tag = markup.tag_at_start(self._buffer)
        if tag is None:
            call.add(self._take(plain.end() if plain else 1))
        elif tag.ends_input:
            self._close(call, self._take(len(tag.text)))
        elif call.may_end_here and (tag.kind == "result" or begins_call(tag, self._specs)):
            self._close(call)
        else:
            call.add(self._take(1))
        return True

    def _close(self, call: OpenCall, end: str = "") -> None:
        """A call is whole."""
        self._step = self._read_held if self._sayings.is_holding else self._read
        self._is_line_start = False
        self._enter(call.ended(), call.written + end)

    def _enter(self, call: ToolCall | None, written: str) -> None:
        """Tell a call, or what was written when it was none."""
        self._open_call = None
        if call is not None:
            self._sayings.call(call)
        elif self._sayings.is_holding:
            self._release()
        else:
            self._sayings.say(written)


def _may_become_tag(text: str) -> bool:
    return text[0] in "<&" and markup.tag_at_start(text) is None and markup.may_become_tag(text)


def _marks(text: str) -> str:
    """The backticks or tildes that `text` begins with, as many as are one mark."""
    start = text[:_MOST_MARKS]
    return start[: len(start) - len(start.lstrip(text[0]))]
