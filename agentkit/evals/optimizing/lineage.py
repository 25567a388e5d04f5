"""What was asked, answered and paid for so far? Lines of JSON, so that a search that was killed can go on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from agentkit.errors import SessionError
from agentkit.evals.keeping.growing import GrowingFile
from agentkit.evals.optimizing.candidates import Candidate
from agentkit.evals.optimizing.failures import Failure
from agentkit.evals.optimizing.search import Measured, Proposal, Propose, Tried
from agentkit.memory.codec import Data, decode_part, encode_part, from_line, to_line
from agentkit.slotted import dataclass
from agentkit.usage import Charge, Usage

FORMAT = 1
_BEGINS = b'{"agentkit_search"'

Key = tuple[str, str, str]
"""What tells a trial from all others: its half, the candidate's id, the case's."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What the answer to a question took; `usage` includes what its scoring has spent."""

    usage: Usage
    tool_calls: int = 0
    seconds: float = 0.0


class Lineage:
    """The answers that a search was given, and each candidate that came of them, in a file of its owner's alone.

    `key` tells one search from another. Each answer is on the disk before it is used. A last line that a crash has cut
    off is taken away. Without a path all is kept in memory. `usage` and `charged` are what all has cost so far; what
    was under way counts in `charged` at its worst. Raises SessionError when the file cannot be used, is another
    search's, or is in use.
    """

    def __init__(self, path: str | PathLike[str] | None, key: str, about: Mapping[str, str]) -> None:
        self.path = None if path is None else Path(path)
        self.measured: dict[Key, Measured] = {}
        self.tried: dict[int, Tried] = {}
        self.taken: dict[Key | int, Taken] = {}
        self.charged = Charge()
        self._proposals: dict[int, tuple[str, str, Proposal]] = {}
        self._lock = Lock()
        self._file: GrowingFile | None = None
        if self.path is not None:
            self._open(self.path, {"agentkit_search": FORMAT, "key": key, **about})

    @property
    def usage(self) -> Usage:
        """What all questions have spent, those of earlier lives of the search among them."""
        return sum((taken.usage for taken in self.taken.values()), Usage())

    def proposal(self, question: Propose) -> Proposal | None:
        """What was proposed in an earlier life of the search; None when nothing was."""
        parent, part, proposal = self._proposals.get(question.round, ("", "", None))
        return proposal if (parent, part) == (question.parent.id, question.part) else None

    def add_measured(self, key: Key, measured: Measured, taken: Taken, charged: Charge) -> None:
        """Keep what came of a case, what it took, and what all has cost until then."""
        failure = None if measured.failure is None else asdict(measured.failure)
        half, candidate, case = key
        told = {"half": half, "candidate": candidate, "case": case, "score": measured.score, "failure": failure}
        self._add({"measured": told, **_spent(taken, charged)})

    def add_proposal(self, question: Propose, proposal: Proposal, taken: Taken, charged: Charge) -> None:
        """Keep a proposal, what it took, and what all has cost until then."""
        asked = {"round": question.round, "parent": question.parent.id, "part": question.part}
        self._add({"proposal": asked | asdict(proposal), **_spent(taken, charged)})

    def add_charge(self, charged: Charge) -> None:
        """Keep what all has cost with what is about to be sent, so that a search that is killed there has paid it."""
        self._add({"charged": asdict(charged)})

    def add_tried(self, tried: Tried) -> None:
        """Keep what became of the candidate of a round, with all its texts, unless that is known."""
        if tried.candidate.round not in self.tried:
            told = {"id": tried.candidate.id, "verdict": tried.verdict, "score": tried.score}
            self._add({"tried": told | asdict(tried.candidate)})

    def close(self) -> None:
        """Let others go on with the search."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path, header: Data) -> None:
        self._file = file = GrowingFile(path, _BEGINS, "a search")
        try:
            if file.lines or file.is_foreign:
                _check_header(path, file.lines[0] if file.lines else b"", header)
            file.mend()
            if not file.lines:
                self._write(header)
            for number, line in enumerate(file.lines[1:], 2):
                self._take(path, number, line)
        except SessionError:
            self.close()
            raise

    def _take(self, path: Path, number: int, line: bytes) -> None:
        try:
            self._apply(from_line(line))
        except (KeyError, TypeError, ValueError, AttributeError, SessionError) as error:
            raise SessionError(f"{path}, line {number} is no part of a search ({error}).") from error

    def _add(self, data: Data) -> None:
        with self._lock:
            self._write(data)
            self._apply(data)

    def _write(self, data: Data) -> None:
        if self._file is not None:
            self._file.add(to_line(data))

    def _apply(self, data: Data) -> None:
        """Take in what a line says; what a later version has added is passed over."""
        key: Key | int | None = None
        if (told := data.get("measured")) is not None:
            key = (told["half"], told["candidate"], told["case"])
            failure = None if told["failure"] is None else Failure(**_tuples(told["failure"]))
            self.measured[key] = Measured(float(told["score"]), failure)
        if (told := data.get("proposal")) is not None:
            key = int(told["round"])
            self._proposals[key] = (told["parent"], told["part"], Proposal(told["text"], told["reason"]))
        if (told := data.get("tried")) is not None:
            candidate = Candidate(**_tuples({name: told[name] for name in _CANDIDATE}))
            self.tried[candidate.round] = Tried(candidate, told["verdict"], told["score"])
        if key is not None:
            told = data["taken"]
            usage = decode_part(Usage, told["usage"])
            self.taken[key] = Taken(usage, int(told["tool_calls"]), float(told["seconds"]))
        if (told := data.get("charged")) is not None:
            self.charged = _charge_in(told)


_CANDIDATE = ("texts", "parents", "round", "reason")


def _spent(taken: Taken, charged: Charge) -> Data:
    told = {"usage": encode_part(taken.usage), "tool_calls": taken.tool_calls, "seconds": taken.seconds}
    return {"taken": told, "charged": asdict(charged)}


def _charge_in(told: Mapping[str, Any]) -> Charge:
    """What all has cost. Raises ValueError for less than nothing, which would give limits more room than they have."""
    charge = Charge(**_tuples(told))
    counts = (charge.input_tokens, charge.output_tokens, charge.tool_calls, *charge.dollars)
    if not all(0 <= count < math.inf for count in counts):
        raise ValueError("less than nothing was charged, or more than anything")
    return charge


def _check_header(path: Path, line: bytes, wanted: Data) -> None:
    """Raise SessionError unless the file is this very search's."""
    try:
        header = from_line(line)
    except SessionError:
        header = {}
    if header.get("agentkit_search") != FORMAT:
        raise SessionError(f"{path} is no search that this version of agentkit can go on with. Give another file.")
    if header.get("key") != wanted["key"]:
        raise SessionError(
            f"{path} belongs to another search: agent, texts, model, cases or settings are not the same. "
            "Give another file, or optimise as it was begun."
        )


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists where we have tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
