"""Keyboard input of the chat; the only module that imports prompt_toolkit."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.redaction import redact
from agentkit.safety.terminal_approver import discard_typed

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

Completions = Callable[[str], Iterable[tuple[str, str]]]
"""From the typed text to candidates that can replace its last word, each with its meaning."""

_PROMPT, _CONTINUATION_PROMPT = "> ", "· "
_MENU_ROWS = 4
_MAX_LINE_BYTES = 65_536


class Keyboard:
    """Read prompts of one or more lines, with completion and a persistent history.

    `bar` returns the line below the input; `history` is a file for its owner only, None stores no history.
    """

    def __init__(
        self, history: Path | None, completions: Completions, bar: Callable[[], str], *, has_colour: bool
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.output import ColorDepth

        self._colours = None if has_colour else ColorDepth.DEPTH_1_BIT
        self._session: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=_completer(completions),
            complete_while_typing=True,
            reserve_space_for_menu=_MENU_ROWS,
            multiline=True,
            prompt_continuation=lambda *_: _CONTINUATION_PROMPT,
            key_bindings=_keys(),
            enable_open_in_editor=True,
            tempfile_suffix=".md",
            bottom_toolbar=bar,
            style=_style(),
            color_depth=self._colours,
        )

    def prompt(self, when_ready: Callable[[], None] | None = None) -> str:
        """Return the typed prompt; `when_ready` is called once the person can type.

        Raises KeyboardInterrupt for Ctrl-C on empty input, and EOFError for Ctrl-D.
        """
        return self._session.prompt([("", "\n"), ("class:sign", _PROMPT)], pre_run=when_ready)

    @staticmethod
    def show(prompt: str) -> None:
        """Print a prompt as if it had been typed."""
        from prompt_toolkit import print_formatted_text
        from prompt_toolkit.formatted_text import FormattedText

        print_formatted_text(FormattedText([("", "\n"), ("class:sign", _PROMPT), ("", prompt)]), style=_style())

    def answer(self, question: str, default: str = "") -> str:
        """Read an answer that is not stored in the history; multi-line if `default` is.

        Input typed before the question is discarded, including prompt_toolkit's type-ahead buffer. Raises
        KeyboardInterrupt, and EOFError for Ctrl-D even if text is entered.
        """
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input.typeahead import clear_typeahead

        session: PromptSession[str] = PromptSession(
            multiline="\n" in default, key_bindings=_answer_keys(), style=_style(), color_depth=self._colours
        )
        discard_typed(sys.stdin)
        clear_typeahead(session.input)
        return session.prompt([("class:question", question)], default=default)


def typed_lines() -> list[str]:
    """The complete lines that were typed at the terminal before the chat could read keys.

    In canonical mode, the terminal has replaced Enter by a line feed, which would start a new line of the prompt.
    """
    descriptor, lines = sys.stdin.fileno(), []
    while select.select([descriptor], [], [], 0)[0] and (line := os.read(descriptor, _MAX_LINE_BYTES)):
        lines.append(line.decode("utf-8", "replace").strip())
    return lines


@contextmanager
def typing(*, is_seen: bool) -> Iterator[None]:
    """Show typed input during the block, for another program; or hide it while an answer streams.

    Hidden input can be read after the block.
    """
    try:
        import termios
    except ImportError:  # not a POSIX terminal
        yield
        return
    terminal = sys.stdin.fileno()
    before, now = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
    for index, flags in ((0, termios.ICRNL), (3, termios.ECHO | termios.ICANON)):
        now[index] = now[index] | flags if is_seen else now[index] & ~flags
    termios.tcsetattr(terminal, termios.TCSADRAIN, now)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _history(path: Path | None) -> History:
    """Open the history of earlier input; fall back to memory if the file cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Redacted(FileHistory):
        def store_string(self, string: str) -> None:
            super().store_string(redact(string.encode("utf-8", "replace").decode()))

    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        is_ours = _is_own_file(path)
    except OSError:
        is_ours = False
    return Redacted(str(path)) if is_ours else InMemoryHistory()


def _is_own_file(path: Path) -> bool:
    """Whether the path is a regular file with a single link; if so, restrict it to its owner. Raises OSError."""
    no_follow = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | no_follow, 0o600)
    try:
        status = os.fstat(descriptor)
        is_ours = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if is_ours:
            path.chmod(0o600)
        return is_ours
    finally:
        os.close(descriptor)


def _completer(completions: Completions) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        def get_completions(self, document: Any, _event: Any) -> Iterator[Completion]:
            typed = document.text_before_cursor
            last = typed.rpartition(" ")[2]
            for word, description in completions(typed):
                yield Completion(word, -len(last), display_meta=description)

    return Words()


def _keys() -> KeyBindings:
    """Enter sends; Alt-Enter and Ctrl-J insert a new line; Ctrl-C clears the input or, if it is empty, leaves."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    @keys.add("c-c")
    def _clear_or_leave(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return keys


def _answer_keys() -> KeyBindings:
    """The same bindings, but Ctrl-D refuses to answer; by default it deletes a character where text is entered."""
    keys = _keys()

    @keys.add("c-d")
    def _refuse(event: KeyPressEvent) -> None:
        event.app.exit(exception=EOFError, style="class:exiting")

    return keys


def _style() -> Any:
    from prompt_toolkit.styles import Style

    return Style.from_dict({"sign": "bold ansicyan", "question": "bold", "bottom-toolbar": "noreverse ansibrightblack"})
