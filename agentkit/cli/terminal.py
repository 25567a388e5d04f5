"""What is told beside the answer, on stderr, and in which colour?"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, TextIO

import click

from agentkit.config import environment

if TYPE_CHECKING:
    from agentkit.agents.result import RunResult

_FIRST_SENTENCE = re.compile(r"(?<=[.?!])(?<!e\.g\.)(?<!\.\.\.)\s+(?=[\"'(A-Z])")
_ADVICE = (
    # the name of an error's class or of one it is made of, and what to do when its text does not say
    ("Unauthorized", "Check the key; which one is used says: agentkit models"),
    ("RateLimited", "Wait a while, or ask another model: -m NAME"),
    ("Unreachable", "Check that the server is there; which one is asked says: agentkit models"),
    ("ModelError", "Try another model with -m NAME; which one is asked says: agentkit models"),
    ("SessionError", "Which sessions there are says: agentkit sessions list"),
    ("UnknownTool", "Which tools there are says: agentkit tools list"),
    ("OSError", "Check that the file, the disk or the pipe is still there and has room."),
)


def has_colour(stream: TextIO) -> bool:
    """Whether colours may be written: to a terminal, unless `NO_COLOR` is set; anywhere when `FORCE_COLOR` is."""
    variables = environment()
    if "NO_COLOR" in variables:
        return False
    return "FORCE_COLOR" in variables or is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads it, at a terminal that can do more than print."""
    return stream is not None and stream.isatty() and environment().get("TERM") != "dumb"


def tell(text: str, colour: str | None = None, *, faint: bool = False) -> None:
    """Write a line to stderr, cleaned of what could trick a terminal."""
    from agentkit.cli.display import clean

    styled = click.style(clean(text), fg=colour, dim=faint or None) if colour or faint else clean(text)
    click.echo(styled, err=True, color=has_colour(sys.stderr))


def tell_error(error: BaseException, advice: str = "") -> None:
    """Tell what went wrong on one line, and below it what to do."""
    text = _os_text(error) if isinstance(error, OSError) and error.strerror else str(error)
    what, remedy = halves(text or type(error).__name__)
    told = "\n".join(filter(None, (remedy, advice))) or _advice(error)
    tell(f"Error: {what}", "red")
    if told:
        tell(told)


def halves(text: str) -> tuple[str, str]:
    """The first sentence, and the rest; a text in several lines is parted behind the first."""
    what, _, more = text.strip().partition("\n")
    first, *rest = _FIRST_SENTENCE.split(what, maxsplit=1)
    return first, "\n".join(filter(None, (*rest, more)))


def go_on(result: RunResult[str], name: str) -> str:
    """How a run that waits or was cut off goes on; empty when it was not kept."""
    if not name:
        return ""
    words = "" if result.status == "paused" else ' "Go on."'
    return f"Go on with: agentkit -c{words}   (later: agentkit --session {shown_word(name)}{words})"


def shown_word(text: str) -> str:
    """A word as a shell reads it."""
    import shlex

    return shlex.quote(text)


def _os_text(error: OSError) -> str:
    """What the operating system says, without its number."""
    return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."


def _advice(error: BaseException) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return next((advice for name, advice in _ADVICE if name in kinds), "")
