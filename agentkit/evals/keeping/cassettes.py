"""Are the trials recorded, or answered from a recording? A folder with one cassette for each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from agentkit.errors import ConfigError, SessionError
from agentkit.memory.cassettes.player import Player
from agentkit.memory.cassettes.recorder import Recorder
from agentkit.tape import Tape, active

_MOST_NAME_CHARS = 80


class Cassettes:
    """The cassettes of a suite's trials: written when it is recorded, read when it is replayed, else none.

    Raises ConfigError when there is no such folder to replay, or a file where one is to be recorded.
    """

    def __init__(self, record: str | None, replay: str | None) -> None:
        self._record = None if record is None else Path(record)
        self._replay = None if replay is None else Path(replay)
        if self._replay is not None and not self._replay.is_dir():
            raise ConfigError(f"There is no folder {str(self._replay)!r} of cassettes to replay. Record it first.")
        if self._record is not None and self._record.exists() and not self._record.is_dir():
            raise ConfigError(f"{str(self._record)!r} is a file. Name a folder to record the cassettes in.")

    def tape(self, key: tuple[str, str, int]) -> Recorder | Player | None:
        """What hears or answers one trial. Raises SessionError when it was not recorded."""
        if self._record is not None:
            return Recorder(self._record / file_name(key))
        if self._replay is None:
            return None
        path = self._replay / file_name(key)
        if not path.exists():
            raise SessionError(f"This trial is on no cassette in {self._replay}. Record it first.")
        # Answers that nobody asks for are those of other scorers, so that a recording can be scored anew.
        return Player(path, partial=True)

    @contextmanager
    def without_world(self) -> Iterator[None]:
        """In a replay, no provider is needed in the block."""
        with nullcontext() if self._replay is None else active(_Replaying()):
            yield


class _Replaying(Tape):
    """Says that answers come from recordings."""

    is_replaying = True


def file_name(key: tuple[str, str, int]) -> str:
    """The name of a trial's cassette: readable, and its own whatever case and agent are called."""
    case, agent, repeat = key
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{case}.{agent}")[:_MOST_NAME_CHARS].strip("-")
    own = hashlib.sha256(repr(key).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{readable}-{repeat}-{own}.cassette"
