"""In which session is a question asked? A new one, a named one, the last one, or none that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentkit.cli.terminal import tell
from agentkit.errors import SessionError
from agentkit.memory.archive import new_name
from agentkit.memory.session import Session
from agentkit.wording import suggestion

if TYPE_CHECKING:
    from agentkit.cli.asking.order import Order
    from agentkit.cli.settings.layers import Settings


def chosen_session(order: Order, settings: Settings) -> Session | None:
    """The session that is meant, one without a store when nothing is to be kept; None for a new one.

    Raises UsageError when there is no last one.
    """
    if order.go_on:
        return last_session(order.place)
    name = settings.of("session")
    if name is None:
        return None
    return Session.open(order.place, name) if name else Session()


def last_session(place: str | None) -> Session:
    """The session that was changed last. Raises UsageError when there is none."""
    summaries = Session.summaries(place)
    if not summaries:
        raise click.UsageError('There is no session to continue. Begin one: agentkit "How much is 17% of 2400?"')
    return Session.open(place, summaries[0].name)


def known_session(place: str | None, name: str, otherwise: str = "") -> Session:
    """The session of that name. Raises SessionError that names the closest, and says what to do `otherwise`."""
    names = [summary.name for summary in Session.summaries(place)]
    if name not in names:
        raise SessionError(f"There is no session {name!r}.{suggestion(name, names)}{otherwise}")
    return Session.open(place, name)


def new_session(place: str | None, question: str) -> Session:
    """A session of its own for a question; where none can be kept, one that is not, which is told."""
    try:
        return Session.open(place, new_name(question))
    except SessionError as error:
        if place is not None:
            raise
        tell(f"This conversation is not kept: {error}", "yellow")
        return Session()
