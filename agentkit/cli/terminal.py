"""Diagnostics on stderr, colours, and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import click

from agentkit.settings import has_colour, is_terminal
from agentkit.text_encoding import split_lines

if TYPE_CHECKING:
    from agentkit.agents.result import RunResult


_FIRST_SENTENCE = re.compile(r"(?<=[.?!])(?<!e\.g\.)(?<!\.\.\.)\s+(?=[\"'(A-Z])")
_CLAUSE = re.compile(r"; (?=[a-z]+ )")
_ADVICE = (
    # error class, or one of its base classes, with advice for errors whose text has no remedy
    ("Unauthorized", "Check the key. To see which one is used: agentkit models"),
    ("RateLimited", "Wait a while, or use another model: -m NAME"),
    ("Unreachable", "Check that the server is running. To see which one is used: agentkit models"),
    ("ModelError", "Try another model with -m NAME. To see which one is used: agentkit models"),
    ("SessionError", "To list the sessions: agentkit sessions list"),
    ("UnknownTool", "To list the tools: agentkit tools list"),
    ("ConfigError", "To see the settings and their sources: agentkit config show"),
    ("ToolError", "To see the tools and their parameters: agentkit tools list"),
    ("OSError", "Check that the file or pipe exists and is accessible, and that the disk is not full."),
)


_CHAT_COMMANDS = (
    # what advice names at a shell, and the command of the chat that does the same
    ("with -m NAME", "with /model NAME"),
    (": -m NAME", ": /model NAME"),
    ("agentkit sessions list", "/session"),
    ("agentkit models", "/model"),
    ("agentkit tools list", "/tools"),
)
_SHELL_WORDING = (
    (r" To add text, use add_text\(\)\.", ""),
    # a pattern in the errors of the library, and its replacement at a shell
    (
        r"Set OPENAI.* without a key: (.*, then )?AGENTKIT_PROVIDER=offline\.",
        r"Store one (agentkit keys set openai) or set OPENAI_API_KEY. Without a key: a local server (-m ollama:MODEL), "
        r"or for simple requests the offline model (\1agentkit --offline). All providers: agentkit models",
    ),
    (r"Set ([A-Z]+)_API_KEY or pass api_key=\.", r"Set \1_API_KEY, or store it: agentkit keys set PROVIDER"),
    (r"AGENTKIT_PROVIDER=offline\.", "agentkit --offline"),
    (
        r"For another server with an OpenAI-compatible API.*'gemini'\.",
        "For another OpenAI-compatible server: AGENTKIT_BASE_URL=URL",
    ),
    (r"Use LLM\('\w+'\) for its default model, or model='([\w:]+)'\.", r"Use -m \1"),
    (r"\bpass model='(\w+:\w+)'", r"use -m \1"),
    (r"\breasoning_effort=(?!\w)", "--reasoning"),
    (r"\bmax_tokens=(?!\w)", "--max-tokens"),
    (r"a file written by Session\.export", "a file of: agentkit sessions export NAME FILE"),
    (r"Approve it, or allow it with safety='(\w+)'\.", r"To allow it: --safety \1; to approve all calls: -y"),
    (
        r"File tools reach only what is in the workspace; give workspace=\.\.\. to work on another folder\.",
        "File tools reach only this folder. To work in another one, change into it: cd FOLDER",
    ),
    ("or let the developer allow it:", "or allow it in a program:"),
    (
        r"Give LLM\(price=Price\(\.\.\.\)\), .*Limits\(unknown_price='free'\)\.",
        "Add --limit unknown_price=free, or limit the tokens instead: --tokens NUMBER",
    ),
)


def print_note(text: str, colour: str | None = None, *, faint: bool = False) -> None:
    """Write a line to stderr, without terminal control sequences."""
    styled = click.style(clean(text), fg=colour, dim=faint or None) if colour or faint else clean(text)
    click.echo(styled, err=True, color=has_colour(sys.stderr))


def print_error(error: BaseException, advice: str = "", *, in_chat: bool = False) -> None:
    """Print an error on one line, and its remedy below, which names the commands of the chat if `in_chat`."""
    text = _os_error_text(error) if isinstance(error, OSError) and error.strerror else str(error)
    problem, remedy = split_remedy(for_shell(text or type(error).__name__))
    hints = "\n".join(filter(None, (remedy, for_shell(advice)))) or _advice(error)
    for command, in_the_chat in _CHAT_COMMANDS if in_chat else ():
        hints = hints.replace(command, in_the_chat)
    print_note(wrap_lines(f"Error: {problem}", sys.stderr), "red")
    if hints:
        print_note(wrap_lines(hints, sys.stderr))


def for_shell(text: str) -> str:
    """Replace what a program would write in an error, such as an argument, by options and commands."""
    for pattern, wording in _SHELL_WORDING:
        text = re.sub(pattern, wording, text)
    return text


def wrap_lines(text: str, stream: TextIO | None, indent: int = 0) -> str:
    """Wrap a text between words if the stream is a terminal; return it unchanged otherwise.

    Continuation lines are indented by `indent` columns if at least half of the width is left.
    """
    if not is_terminal(stream):
        return text
    from functools import partial
    from shutil import get_terminal_size
    from textwrap import fill

    width = get_terminal_size().columns
    wrapped = partial(
        fill,
        width=width,
        subsequent_indent=" " * (indent if indent * 2 <= width else min(indent, 2)),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrapped(line) if len(line) > width else line for line in split_lines(text))


def stdin_mode() -> int:
    """The mode of standard input as in `os.stat_result.st_mode`; 0 if it is missing, closed, or not a system file."""
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return 0


def split_remedy(text: str) -> tuple[str, str]:
    """Split a text into its first sentence and the rest; a multi-line text is split at the first line at the latest.

    A single sentence is split at its semicolon, unless that is quoted.
    """
    line, _, remedy = text.strip().partition("\n")
    first, *rest = _FIRST_SENTENCE.split(line, maxsplit=1)
    if not rest and not remedy:
        first, *rest = _split_clause(first)
    return first, "\n".join(filter(None, (*rest, remedy)))


def with_remedy(error: Exception, remedy: str) -> str:
    """The text of an error, with the remedy if the error has no remedy."""
    problem, existing = split_remedy(str(error))
    return f"{problem}\n{existing or remedy}"


def _split_clause(sentence: str) -> list[str]:
    """Split a sentence at its semicolon into two sentences; return it unchanged if it has none or quotes it."""
    before, *rest = _CLAUSE.split(sentence, maxsplit=1)
    is_quoted = any(before.count(quote) % 2 for quote in "'\"`") or before.count("(") != before.count(")")
    if not rest or is_quoted:
        return [sentence]
    return [f"{before}.", rest[0][0].upper() + rest[0][1:]]


def resume_hint(result: RunResult[str], name: str) -> str:
    """How to resume a paused or interrupted run; empty if it is not stored."""
    if not name:
        return ""
    words = "" if result.status == "paused" else ' "Go on."'
    return f"Continue with: agentkit -c{words}   (later: agentkit --session {quote_word(name)}{words})"


def quote_word(text: str) -> str:
    """Quote a word for a shell."""
    import shlex

    return shlex.quote(text)


def _os_error_text(error: OSError) -> str:
    """The message of the operating system, without the error number."""
    return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."


def _advice(error: BaseException) -> str:
    named = error.__context__ if isinstance(error.__context__, OSError) else error
    kinds = {kind.__name__ for kind in type(named).__mro__}
    return next((advice for name, advice in _ADVICE if name in kinds), "")


SCHEMA_VERSION = 1
_MAX_LINE_CHARS = 100
_INVISIBLE = (
    "\x7f-\x9f"  # DEL and the C1 control characters
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"  # zero-width and direction marks
    "\U000e0000-\U000e007f"  # tag characters: invisible text
    "\ud800-\udfff"  # surrogates, which no output can encode
)
_CONTROL = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b.?"  # escape sequences
    f"|[\x00-\x08\x0b-\x1f{_INVISIBLE}]"  # control characters other than tab and newline
)


def clean(text: str) -> str:
    """Text without terminal control sequences, zero-width and direction marks, tags and surrogates."""
    return _CONTROL.sub("", text)


def json_text(document: object) -> str:
    """Render a document as indented JSON; characters that `clean` would remove are escaped."""
    return escape_invisible(json.dumps(document, ensure_ascii=False, indent=2))


def document_text(**fields: object) -> str:
    """The output of `--json`: an object with the version of its schema."""
    return json_text({"schema_version": SCHEMA_VERSION, **fields})


def escape_invisible(text: str) -> str:
    """Escape the characters in a JSON text that `clean` would remove."""
    return re.sub(f"[{_INVISIBLE}]", lambda found: json.dumps(found[0])[1:-1], text)


def line_text(text: str, max_chars: int = _MAX_LINE_CHARS) -> str:
    """A text on one line, cleaned and truncated."""
    from agentkit.event_rendering import truncate

    return truncate(" ".join(clean(text).split()), max_chars)


ANSWERED = 0
FAILED = 1
USAGE = 2
"""The command line or the configuration is invalid; for example, the key is missing."""
LIMIT = 3
REFUSED = 4
"""A judge denied the call."""
INTERRUPTED = 130


_SPINNER_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ERASE = "\r\x1b[K"
_EVERY_SECONDS = 0.1


class StatusLine:
    """A status line with text and elapsed seconds, shown after `after_seconds`. Without a stream it does nothing.

    `turn` is held while a person is asked a question, so that other threads write nothing into it.
    """

    def __init__(self, stream: TextIO | None, after_seconds: float = 0.3) -> None:
        self.turn = threading.RLock()
        self._stream, self._after_seconds = stream, after_seconds
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def show(self, text: str) -> None:
        """Show this text until it is replaced or cleared."""
        self.clear()
        if self._stream is not None:
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stream, text, self._stop), daemon=True)
            self._thread.start()

    def clear(self) -> None:
        """Remove the line; it is erased when this returns."""
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._stop = self._thread = None

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def _run(self, stream: TextIO, text: str, stop: threading.Event) -> None:
        began, count = time.monotonic(), 0
        pause = self._after_seconds
        while not stop.wait(pause):
            stream.write(
                f"{_ERASE}{_line(_SPINNER_FRAMES[count % len(_SPINNER_FRAMES)], text, time.monotonic() - began)}"
            )
            stream.flush()
            pause, count = _EVERY_SECONDS, count + 1
        if count:
            stream.write(_ERASE)
            stream.flush()


def _line(frame: str, text: str, seconds: float) -> str:
    """Sign, text and seconds, cut to the terminal's width."""
    columns = shutil.get_terminal_size().columns
    tail = f" {seconds:.0f} s"
    available_width = max(1, columns - len(tail) - len(frame) - 2)
    return f"{frame} {line_text(text, available_width)}{tail}"
