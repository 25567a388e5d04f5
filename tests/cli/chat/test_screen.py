"""Tests for the screen of a chat: streamed answers, tool calls, notes and diffs."""

import io
import re
import shutil

import pytest

from agentkit.agents.result import RunFinished
from agentkit.cli.chat.screen import ChatScreen
from agentkit.decisions import Decision
from agentkit.events import (
    ReasoningDelta,
    RequestStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from agentkit.messages import ToolCall, ToolResult

ALLOW = Decision("allow", "safety-level", "It is SAFE.")
DENY = Decision("deny", "shell.destructive", "It deletes.")
MARKDOWN = """\
# Title

A paragraph with **bold** text
of two lines.

- one
- two

  with more
- three

1. first
1. second
1. third
- a

```python
print("hello")

print("there")
```

| a | b |
|---|---|
| 1 | 2 |

The end."""
LINES = """\

Title

A paragraph with bold text
of two lines.

 • one
 • two
   with more
 • three

 1. first
 2. second
 3. third

 • a

  print("hello")

  print("there")

 a  b
 ────
 1  2

The end.
"""
UP = re.compile(r"\x1b\[(\d+)A\r")


def screen_with(colour=False):
    """Return a screen with a readable stream."""
    stream = io.StringIO()
    return ChatScreen(stream, has_colour=colour), stream


def replayed(text):
    """Return what a terminal displays after receiving this text."""
    lines = [""]
    for part in re.split(r"(\x1b\[\d+A\r|\n)", re.sub(r"\x1b\[(?:\?2026[hl]|K|J)", "", text)):
        if up := UP.fullmatch(part):
            del lines[len(lines) - 1 - int(up[1]) :]
            lines.append("")
        elif part == "\n":
            lines.append("")
        else:
            lines[-1] += part
    return "\n".join(lines)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_chunk_size_does_not_change_the_display(size, monkeypatch):
    """A streamed answer is displayed identically for all chunk sizes."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "60")
    screen, stream = screen_with()
    screen.begin()
    for at in range(0, len(MARKDOWN), size):
        screen.render(TextDelta(MARKDOWN[at : at + size]))
    screen.end_output()
    assert replayed(stream.getvalue()) == LINES
    assert screen.text == MARKDOWN


def finished(result_error=None, arguments='{"text": "x"}', decision=ALLOW, **result):
    """Return a tool call with its result."""
    status = "denied" if decision is DENY else "ok"
    value = ToolResult("string_length", status, "{}", error=result_error, decision=decision, **result)
    return ToolCallFinished(ToolCall("c1", "string_length", arguments), value)


def test_call_is_shown_with_its_decision_and_time(monkeypatch):
    """A call takes one, two or three lines, depending on its length; denied calls are red, and their errors whole."""
    monkeypatch.setenv("COLUMNS", "80")
    screen, stream = screen_with(colour=True)
    screen.render(finished(value={"result": 1}, seconds=1.25))
    screen.render(finished(value={"result": "y" * 90}, decision=None))
    screen.render(finished("Command blocked.", decision=DENY))
    monkeypatch.setenv("COLUMNS", "38")
    screen.render(finished("Command blocked, because it deletes files.", decision=DENY))
    lines = re.sub(r"\x1b\[2m|\x1b\[0m", "", stream.getvalue()).split("\n")
    assert lines[:2] == ["", '  string_length(text="x") → 1  [allow: safety-level · 1.2 s]']
    assert lines[2] == '  string_length(text="x")'
    assert re.fullmatch(r"    → y+…  \[0 ms\]", lines[3])
    assert len(lines[3]) <= 80
    assert (
        lines[4]
        == '\x1b[31m  string_length(text="x") → Command blocked.  [deny: shell.destructive · 0 ms]'[: len(lines[4])]
    )
    assert max(len(line.replace("\x1b[31m", "")) for line in lines[-4:]) <= 38
    shown = [line.removeprefix("\x1b[31m    ") for line in lines[-4:-1]]
    assert shown == ["→ Command blocked, because it", "deletes files.", "[deny: shell.destructive · 0 ms]"]


def test_text_and_calls_are_separated(monkeypatch):
    """Text and calls are separated by a blank line; invisible characters do not start a text."""
    monkeypatch.setenv("COLUMNS", "80")
    screen, stream = screen_with()
    screen.begin()
    for event in (
        RequestStarted(1),
        ReasoningDelta("hm"),
        ReasoningDelta("hm"),
        TextDelta("\u200b \n"),
        TextDelta("Let me see."),
        ToolCallDelta(0, "string_length", ""),
        ToolCallDelta(0, "", "{"),
        ToolCallStarted(ToolCall("c1", "string_length", "{}"), ALLOW),
        ToolCallStarted(ToolCall("c2", "string_length", "{}"), DENY),
        finished(value={"result": 1}),
        finished(value={"result": 2}),
        RequestStarted(2),
        TextDelta("It is 1."),
        RunFinished(None),
    ):
        screen.render(event)
    call = '  string_length(text="x") → {}  [allow: safety-level · 0 ms]'
    assert replayed(stream.getvalue()).split("\n") == [
        *("", "Let me see.", "", call.format(1), call.format(2), "", "It is 1.", ""),
    ]


def test_notes_and_diffs(monkeypatch):
    """Notes are wrapped and cleaned, a long diff is truncated, and a Markdown text is shown as a whole."""
    monkeypatch.setenv("COLUMNS", str(shutil.get_terminal_size((80, 24)).columns))
    screen, stream = screen_with()
    screen.print("one\x1b[2J\ntwo")
    screen.diff("+a\n-b\n")
    screen.diff("\n".join(f"+{number}" for number in range(200)))
    screen.markdown("**bold**")
    text = replayed(stream.getvalue())
    assert text.startswith("one\ntwo\n\n  +a\n  -b\n  +0\n")
    assert "  … 80 more lines. All of them: agentkit undo --diff\n\nbold\n" in text


def test_empty_heading_is_not_shown(monkeypatch):
    """A heading without text is not shown."""
    monkeypatch.setenv("COLUMNS", "80")
    screen, stream = screen_with()
    screen.markdown("#\n\none\n\n#\n\ntwo")
    assert replayed(stream.getvalue()) == "\none\n\ntwo\n"
