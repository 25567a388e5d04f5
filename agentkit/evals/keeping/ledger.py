"""Which trials are finished already? A file that has a line more as soon as one is."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentkit.errors import ConfigError, SessionError
from agentkit.evals.case import Case
from agentkit.evals.keeping.encoding import Spent, read_spent, read_trial, trial_data
from agentkit.evals.keeping.growing import GrowingFile
from agentkit.evals.trial import Trial
from agentkit.memory.cassettes.hiding import Hiding
from agentkit.memory.codec import Data, from_line

VERSION = 1
_KEY = "agentkit_trials"
_BEGINS = b'{"agentkit_trials"'
_TOLD = {"suite": "another suite, or its cases or scorers have changed", "agents": "agents that have changed"}

Key = tuple[str, str, int]


class Ledger:
    """The trials of one suite with the same agents, line by line; only the file's owner can read it.

    A line that was cut off, as a crash leaves it, is taken away. `trials` are what was kept last of each, `spent` is
    what every line has cost. Raises ConfigError for a file of another suite, of other agents or of anything
    else, which stays as it is, and SessionError when it cannot be read or written, or somebody else writes to it.
    """

    def __init__(self, path: Path, header: Data, cases: Mapping[str, Case]) -> None:
        self.path = path
        self._hiding, self._lock = Hiding(), threading.Lock()
        _make_folder(path)
        self.trials: dict[Key, Trial] = {}
        self.spent: list[Spent] = []
        self._runs: set[str] = set()
        self._file = GrowingFile(path, _BEGINS, "trials")
        try:
            self._read(header, cases)
        except BaseException:
            self.close()
            raise

    def write(self, trial: Trial) -> None:
        """Append a trial, redacted; when this returns it is on the disk.

        Of a trial that must run again only the cost is kept. An answer without scores is kept, to be scored later.
        """
        is_answered = trial.result is not None and trial.result.status == "done"
        is_kept = trial.is_finished or is_answered
        if is_kept or Spent.by(trial).usage.requests:
            with self._lock:
                self._hiding.refresh()
                self._put(trial_data(trial) if is_kept else Spent.by(trial).to_data())

    def close(self) -> None:
        """Let others write to the file."""
        self._file.close()

    def _read(self, header: Data, cases: Mapping[str, Case]) -> None:
        lines = self._file.lines
        if lines:
            self._check(self._data(lines[0], 1), header)
        elif self._file.is_foreign:
            raise ConfigError(f"{self.path} holds something else than trials; name another file.")
        self._file.mend()
        if not lines:
            self._put({_KEY: VERSION, **header})
        for number, line in enumerate(lines[1:], 2):
            self._take(line, number, cases)

    def _check(self, known: Data, header: Data) -> None:
        if known.get(_KEY) != VERSION:
            raise ConfigError(f"{self.path} holds no trials of this version ({VERSION}); name another file.")
        changed = [name for name in _TOLD if known.get(name) != header[name]]
        if changed:
            raise ConfigError(
                f"{self.path} holds trials of {_TOLD[changed[0]]}. Name another file, or delete this one."
            )

    def _take(self, line: bytes, number: int, cases: Mapping[str, Case]) -> None:
        try:
            data = from_line(line)
            if "spent" in data:
                self.spent.append(read_spent(data))
            else:
                self._take_trial(read_trial(data, cases))
        except SessionError as error:
            raise SessionError(f"{self.path}, line {number}: {error}") from None

    def _take_trial(self, trial: Trial) -> None:
        """Take in a trial. A run whose scoring failed has a line for each time that it was scored."""
        run = "" if trial.result is None else trial.result.run_id
        self.spent.append(Spent.by(trial, is_scored_again=run in self._runs))
        self.trials[trial.key] = trial
        self._runs.add(run)

    def _data(self, line: bytes, number: int) -> Data:
        try:
            return from_line(line)
        except SessionError as error:
            raise SessionError(f"{self.path}, line {number}: {error}") from None

    def _put(self, data: Mapping[str, Any]) -> None:
        self._file.add(self._hiding.line(dict(data)))


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SessionError(f"{path} cannot be kept: {error.strerror}. Is its folder writable?") from error
