"""Checkpoints of a suite: one appended line for each finished trial."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentkit.atomic_write import validate_path
from agentkit.errors import ConfigError, SessionError
from agentkit.evals.case import Case
from agentkit.evals.trial import Trial, TrialCost, read_cost, read_trial, trial_data
from agentkit.portable_files import CLOEXEC, NOCTTY, NONBLOCK, lock, set_mode
from agentkit.sessions.cassettes.entries import EntryRedactor
from agentkit.sessions.codec import Data, from_line


class AppendOnlyFile:
    """A file for appending lines, with one writer at a time. `lines` are the complete lines it had when opened.

    `begins` is the prefix of the first line of such a file, `what` names its content in errors. Raises SessionError if
    the path is not a regular file, cannot be read or written, or is locked by another run.
    """

    def __init__(self, path: Path, prefix: bytes, content_name: str) -> None:
        self.path = path
        self._prefix = prefix
        self._file = self._open(content_name)
        whole, _, self._incomplete = self._content().rpartition(b"\n")
        self.lines = whole.split(b"\n") if whole else []
        self._length = len(whole) + 1 if whole else 0

    @property
    def is_foreign(self) -> bool:
        """Whether the file has other content: it is not empty, and does not start with the prefix."""
        head = b"".join(self.lines[:1]) or self._incomplete
        return not self._prefix.startswith(head[: len(self._prefix)])

    def repair(self) -> None:
        """Remove an incomplete last line, and restrict the file to its owner. Raises SessionError.

        Both change the file, so check `is_foreign` first.
        """
        try:
            if self._incomplete:
                os.ftruncate(self._file, self._length)
            mode = stat.S_IMODE(os.fstat(self._file).st_mode)
            if mode & 0o077:
                set_mode(self._file, mode & 0o700)
        except OSError as error:
            raise self._error(error) from error

    def add(self, line: str) -> None:
        """Append a line; when this returns, it is on disk. Raises SessionError."""
        rest = memoryview(f"{line}\n".encode())
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Close the file, which releases its lock."""
        os.close(self._file)

    def _open(self, content_name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | CLOEXEC | NONBLOCK | NOCTTY
        try:
            file = os.open(validate_path(self.path), flags, 0o600)
        except OSError as error:
            raise self._error(error) from error
        try:
            self._claim(file, content_name)
        except BaseException:
            os.close(file)
            raise
        return file

    def _claim(self, file: int, content_name: str) -> None:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise SessionError(f"{self.path} is not a file in which {content_name} can be stored. Choose another one.")
        try:
            lock(file)
        except OSError:
            raise SessionError(f"Another run writes to {self.path}. Wait for it to end.") from None

    def _content(self) -> bytes:
        with open(self._file, "rb", closefd=False) as file:
            return file.read()

    def _error(self, error: OSError) -> SessionError:
        return SessionError(f"{self.path} cannot be written: {error.strerror}. Is its folder writable?")


VERSION = 1
_KEY = "agentkit_trials"
_PREFIX = b'{"agentkit_trials"'
_MISMATCHES = {"suite": "another suite, or its cases or scorers have changed", "agents": "agents that have changed"}

Key = tuple[str, str, int]


class Checkpoint:
    """The trials of one suite with the same agents, one per line; only the file's owner can read it.

    An incomplete last line, left by a crash, is removed. `trials` contains the newest version of each trial, `spent`
    the cost of each line. Raises ConfigError if the file belongs to another suite, other agents or another program, and
    then leaves it unchanged; raises SessionError if it cannot be read or written, or is in use.
    """

    def __init__(self, path: Path, header: Data, cases: Mapping[str, Case]) -> None:
        self.path = path
        self._redactor, self._lock = EntryRedactor(), threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(f"{path} cannot be written: {error.strerror}. Is its folder writable?") from error
        self.trials: dict[Key, Trial] = {}
        self.spent: list[TrialCost] = []
        self._runs: set[str] = set()
        self._file = AppendOnlyFile(path, _PREFIX, "trials")
        try:
            self._read(header, cases)
        except BaseException:
            self.close()
            raise

    def write(self, trial: Trial) -> None:
        """Append a trial, redacted; when this returns, it is on disk.

        For a trial that must be repeated, only the cost is stored. An answer without scores is stored, to be scored
        later.
        """
        is_answered = trial.result is not None and trial.result.status == "done"
        is_stored = trial.is_finished or is_answered
        if is_stored or TrialCost.of(trial).usage.requests:
            with self._lock:
                self._redactor.refresh()
                self._append(trial_data(trial) if is_stored else TrialCost.of(trial).to_data())

    def close(self) -> None:
        """Close the file, which releases its lock."""
        self._file.close()

    def _read(self, header: Data, cases: Mapping[str, Case]) -> None:
        lines = self._file.lines
        if lines:
            self._check(self._data(lines[0], 1), header)
        elif self._file.is_foreign:
            raise ConfigError(f"{self.path} does not contain trials; name another file.")
        self._file.repair()
        if not lines:
            self._append({_KEY: VERSION, **header})
        for number, line in enumerate(lines[1:], 2):
            self._load_line(line, number, cases)

    def _check(self, stored: Data, header: Data) -> None:
        if stored.get(_KEY) != VERSION:
            raise ConfigError(f"{self.path} contains no trials of this version ({VERSION}); name another file.")
        changed = [name for name in _MISMATCHES if stored.get(name) != header[name]]
        if changed:
            raise ConfigError(
                f"{self.path} contains trials of {_MISMATCHES[changed[0]]}. Name another file, or delete this one."
            )

    def _load_line(self, line: bytes, number: int, cases: Mapping[str, Case]) -> None:
        try:
            data = from_line(line)
            if "spent" in data:
                self.spent.append(read_cost(data))
            else:
                # Add a stored trial. A run whose scoring failed has one line for each scoring.
                trial = read_trial(data, cases)
                run = "" if trial.result is None else trial.result.run_id
                self.spent.append(TrialCost.of(trial, is_scored_again=run in self._runs))
                self.trials[trial.key] = trial
                self._runs.add(run)
        except SessionError as error:
            raise SessionError(f"{self.path}, line {number}: {error}") from None

    def _data(self, line: bytes, number: int) -> Data:
        try:
            return from_line(line)
        except SessionError as error:
            raise SessionError(f"{self.path}, line {number}: {error}") from None

    def _append(self, data: Mapping[str, Any]) -> None:
        self._file.add(self._redactor.line(dict(data)))
