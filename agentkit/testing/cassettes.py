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
"""Always replay; record if the cassette does not exist; always record."""


def record(path: str | PathLike[str]) -> AbstractContextManager[Recorder]:
    """Record the answers of models, tools and people in the block in the cassette `path`, in async code too.

    At the end of the block the cassette replaces an older one; if the block raises, the older one stays, and the
    recording is next to it as `PATH.part`. Secrets are redacted. Raises SessionError if it cannot be written.
    """
    return running(Recorder(path))


def replay(path: str | PathLike[str], *, partial: bool = False) -> AbstractContextManager[Player]:
    """Answer the requests of the block from the cassette `path`, in async code too: without model, network or key.

    Raises ReplayError if a request differs from the recording, and at the end of the block if recorded answers are
    unused, unless `partial`; SessionError if the cassette cannot be read.
    """
    return running(Player(path, partial=partial))


def record_or_replay(path: str | PathLike[str], mode: Mode = "once") -> AbstractContextManager[Recorder | Player]:
    """`record` or `replay`, depending on the mode."""
    return running(opened(path, mode))


def opened(path: str | PathLike[str], mode: Mode) -> Recorder | Player:
    """Create the recorder or player for the mode."""
    is_recorded = mode == "all" or (mode == "once" and not lexists(path))
    return Recorder(path) if is_recorded else Player(path)


@contextmanager
def running(tape: _Tape) -> Iterator[_Tape]:
    """Activate a recorder or player for the block, and finish it at the end."""
    try:
        with active(tape):
            yield tape
    except BaseException as error:
        tape.finish(keep=False)
        if tape.divergence is not None and tape.divergence is not error:
            error.add_note(str(tape.divergence))
        raise
    tape.finish()
