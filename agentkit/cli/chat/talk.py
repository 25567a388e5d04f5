"""How does a conversation go? Prompt, answer, prompt, until the person leaves.

It imports little, so that the first prompt is there soon; the rest is imported while the person types.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

import click

from agentkit.cli.exit_codes import ANSWERED
from agentkit.cli.settings.layers import Settings
from agentkit.cli.terminal import tell, tell_error
from agentkit.config import has_colour, is_terminal, state_folder
from agentkit.errors import AgentKitError

if TYPE_CHECKING:
    from agentkit.cli.asking.order import Order
    from agentkit.cli.chat.room import Room
    from agentkit.llm.client import LLM

HISTORY = "chat-history"
"""The file in the state folder that holds what was typed."""

_LEAVE = "To leave, press Ctrl-C once more, or Ctrl-D."


def talk(order: Order) -> int:
    """Talk until the person leaves or the input ends; the exit code. Raises AgentKitError before the first prompt."""
    settings = order.settings
    for note in settings.notes:
        tell(note, "yellow")
    if order.tools or order.agent:
        _ = settings.tools
    llm = settings.llm()
    can_draw = is_terminal(sys.stdin) and is_terminal(sys.stdout) and not order.as_json
    with _recording(order):
        return (_at_terminal if can_draw else _through_lines)(order, settings, llm)


def _at_terminal(order: Order, settings: Settings, llm: LLM) -> int:
    """Talk with a person at a terminal that can draw anew what it has drawn."""
    from agentkit.cli.chat.keyboard import Keyboard, typing

    @cache
    def room() -> Room:
        from agentkit.cli.chat.front import Terminal
        from agentkit.cli.chat.room import Room

        return Room(order, settings, llm, Terminal(keyboard, yes=order.yes), is_person=True)

    start = f"{llm.model} · {settings.of('safety').name.lower()} · /help"
    with typing(is_seen=False):
        keyboard = Keyboard(
            None if settings.of("session") == "" else state_folder() / HISTORY,
            partial(_completions, order.place),
            lambda: room().bar if room.cache_info().currsize else start,
            has_colour=has_colour(sys.stdout),
        )
        if order.go_on or settings.of("session") or order.yes or llm.provider == "offline":
            room()  # it has something to say first
        loading = threading.Thread(target=_load, args=(llm,), daemon=True)
        return _loop(partial(keyboard.prompt, cache(loading.start)), room)


def _through_lines(order: Order, settings: Settings, llm: LLM) -> int:
    """Answer what is piped in, a prompt a line; or talk with a person whose terminal can only print."""
    from agentkit.cli.chat.front import Plain
    from agentkit.cli.chat.room import Room

    is_person = sys.stdin is not None and sys.stdin.isatty()
    room = Room(order, settings, llm, Plain(as_json=order.as_json, yes=order.yes), is_person=is_person)
    if is_person:
        return _loop(_typed, lambda: room)
    code = ANSWERED
    for line in _piped():
        code = room.take(line) or code
    return code


def _loop(read: Callable[[], str], room: Callable[[], Room]) -> int:
    """Take line by line what a person says, until they leave."""
    presses = 0
    while presses < 2:
        try:
            line = read()
            presses = 0
            if line.strip():
                room().take(line)
        except EOFError:
            break
        except KeyboardInterrupt:
            presses += 1
            if presses < 2:
                tell(_LEAVE, faint=True)
        except (AgentKitError, OSError, click.ClickException) as error:
            tell_error(error)
    room().leave()
    return ANSWERED


def _typed() -> str:
    """A line that a person types where nothing can be drawn anew. Raises EOFError at the end of the input."""
    click.echo("> ", nl=False, err=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _piped() -> Iterator[str]:
    """The lines that say something. Raises UsageError for what is no text."""
    from agentkit.cli.asking.question import NO_TEXT, decoded

    for line in sys.stdin.buffer if sys.stdin is not None else ():
        text = decoded(line, NO_TEXT)
        if text:
            yield text


def _completions(place: str | None, begun: str) -> Iterable[tuple[str, str]]:
    """What may stand where a command is typed."""
    if not begun.startswith("/"):
        return ()
    from agentkit.cli.chat.commands import completions

    return completions(begun, place)


def _load(llm: LLM) -> None:
    """Load what the first answer needs, while the person types."""
    from agentkit.cli.chat import front, room
    from agentkit.cli.chat.showing.rendering import load

    _ = front, room
    load()
    llm.prepare()


@contextmanager
def _recording(order: Order) -> Iterator[None]:
    """What happens in the block is recorded, if that was ordered."""
    if order.record is None:
        yield
        return
    from agentkit.testing.cassettes import record

    with record(order.record):
        yield
