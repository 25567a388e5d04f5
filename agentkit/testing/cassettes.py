"""Recording and replay of runs in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from os.path import lexists
from typing import Literal, TypeVar

from agentkit.recording import active
from agentkit.sessions.cassettes.playback import Player
from agentkit.sessions.cassettes.recorder import Recorder

_Tape = TypeVar("_Tape", Recorder, Player, Recorder | Player)

Mode = Literal["none", "once", "all"]
"""Replay always; record what there is no cassette of; record always."""


def record(path: str | PathLike[str]) -> AbstractContextManager[Recorder]:
    """Record in the cassette `path` what models, tools and people answer in the block, in async code too.

    When the block ends, the cassette takes the place of an older one; when it raises, the older one stays, and what was
    recorded is beside it as `PATH.part`. Secrets are redacted. Raises SessionError when it cannot be written.
    """
    return running(Recorder(path))


def replay(path: str | PathLike[str], *, partial: bool = False) -> AbstractContextManager[Player]:
    """Answer from the cassette `path` what is asked in the block, in async code too: no model, no network, no key.

    Raises ReplayError when something else is asked than was recorded, and at the end of the block when recorded answers
    are left, unless `partial`; SessionError when the cassette cannot be read.
    """
    return running(Player(path, partial=partial))


def record_or_replay(path: str | PathLike[str], mode: Mode = "once") -> AbstractContextManager[Recorder | Player]:
    """`record` or `replay`, as the mode says."""
    return running(opened(path, mode))


def opened(path: str | PathLike[str], mode: Mode) -> Recorder | Player:
    """The tape that the mode asks for."""
    is_recorded = mode == "all" or (mode == "once" and not lexists(path))
    return Recorder(path) if is_recorded else Player(path)


@contextmanager
def running(tape: _Tape) -> Iterator[_Tape]:
    """The tape is active in the block, and finished at its end."""
    try:
        with active(tape):
            yield tape
    except BaseException as error:
        tape.finish(keep=False)
        if tape.divergence is not None and tape.divergence is not error:
            error.add_note(str(tape.divergence))
        raise
    tape.finish()
