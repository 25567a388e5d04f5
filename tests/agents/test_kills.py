"""Tests for runs whose process is killed, with real processes killed at many moments.

`KILLS=200 pytest tests/agents/test_kills.py` sets the number of kills.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from agentkit import Agent
from agentkit.events import ToolCallFinished, ToolCallStarted
from agentkit.messages import ToolMessage
from agentkit.sessions.codec import encode, to_line
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "25"))
MODES = ("run", "arun", "stream", "astream")
PROGRAM = Path(__file__).with_name("killed_program.py")
ENTRIES = 22
"""The number of entries that a run of the program stores."""

FORK_IN_THE_ROAD = (1, 2, 5, 8, 11, 21, 22)
"""The last entries of each group: the start, a response, its calls, the results, the end."""


class Program:
    """The running program. `seconds` is the duration of a recent errand that was not killed."""

    def __init__(self, process):
        self._process = process
        self.seconds = 0.1

    def carry_out(self, after_seconds=None, **order):
        """Run an order in a process, kill it after the given seconds, and return its exit code."""
        begin = time.monotonic()
        child = int(self._told(json.dumps(order)))
        if after_seconds is not None:
            time.sleep(after_seconds)
            os.kill(child, signal.SIGKILL)
        code = int(self._told("wait for it"))
        if not code:
            self.seconds = (self.seconds + time.monotonic() - begin) / 2
        return code

    def _told(self, line):
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


class Trip:
    """One conversation with the program: its stored session and the effects of its tools."""

    def __init__(self, program, folder, find_faults):
        self._program, self._folder, self._find_faults = program, folder, find_faults
        folder.mkdir()
        self._location = str(folder.parent / "sessions.db")
        self.counts = Counter()

    def run(self, mode, **order):
        """Run a command in a separate process, inspect the result, and return the exit code."""
        places = {"place": self._location, "session": self._folder.name, "folder": str(self._folder)}
        code = self._program.carry_out(way=mode, **places, **order)
        assert code in (0, -signal.SIGKILL)
        self.counts["killed" if code else "ended"] += 1
        self._check_what_is_left()
        return code

    def go_on(self, mode, *, resuming, **order):
        """Run in a separate process: resume the unfinished run if there is one, or else start another prompt."""
        is_resumed = resuming and bool(self.session.unfinished)
        unfinished = self._unfinished_calls()
        requested_calls = {} if is_resumed else {"prompt": f"errand {sum(self.counts.values())}"}
        code = self.run(mode, **requested_calls, **order)
        if not code:
            self._check_what_was_told(unfinished, is_resumed=is_resumed)
        return code

    def check_end(self):
        """Check that the last run succeeded and left nothing unfinished."""
        session = self.session
        assert (session.unfinished, session.entries[-1].event.status) == ((), "done")

    @property
    def session(self):
        """Return the session, newly opened."""
        return Session.open(self._location, self._folder.name)

    def _lines(self, name):
        """Return the complete lines of a file; the process may have been killed while writing the last one."""
        path = self._folder / name
        return path.read_text("utf-8").split("\n")[:-1] if path.exists() else []

    def _check_what_is_left(self):
        """Check that all reported results are stored, the history is valid, and no call was repeated."""
        session = self.session
        events = [entry.event for entry in session.entries]
        assert Counter(self._lines("told")) - Counter(to_line(encode(each)) for each in events) == Counter()
        assert self._find_faults(Agent("reader", llm=ScriptedLLM(), session=session).history) == []
        effects = Counter(self._lines("effects"))
        finished = [each for each in events if isinstance(each, ToolCallFinished)]
        assert len({used.call.id for used in finished}) == len(finished)
        for used in finished:
            token = json.loads(used.call.arguments)["token"]
            assert effects[token] >= used.result.ok
            assert used.result.status == ("ok" if used.result.ok else "interrupted")
        assert {token for token, count in effects.items() if count > 1} <= self._lookings(events)

    @staticmethod
    def _lookings(events):
        """Return the tokens of the idempotent calls."""
        calls = [each.call for each in events if isinstance(each, ToolCallStarted)]
        return {json.loads(call.arguments)["token"] for call in calls if call.name == "look"}

    def _unfinished_calls(self):
        """Return the ids and tools of the started calls without a result in the unfinished run."""
        entries, unfinished = self.session.entries, self.session.unfinished
        left = [entry.event for entry in entries if entry.run in unfinished]
        finished = {each.call.id for each in left if isinstance(each, ToolCallFinished)}
        started = {each.call.id: each.call.name for each in left if isinstance(each, ToolCallStarted)}
        return {call_id: tool for call_id, tool in started.items() if call_id not in finished}

    def _check_what_was_told(self, unfinished, *, is_resumed):
        """Check that the model was informed of each interrupted or repeated call."""
        fields = {each.call_id: each.content for each in self.session.messages if isinstance(each, ToolMessage)}
        for call_id, tool in unfinished.items():
            is_repeated = is_resumed and tool == "look"
            assert ("was interrupted" in fields[call_id]) is not is_repeated
            self.counts["calls repeated" if is_repeated else "calls told as interrupted"] += 1


@pytest.fixture(scope="module")
def program():
    """The running program."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen([sys.executable, str(PROGRAM)], **pipes) as process:
        yield Program(process)
        process.stdin.close()


@pytest.fixture
def new_trip(program, tmp_path, find_faults):
    """Return a function that starts a new conversation with the program; all share one file."""
    return lambda name: Trip(program, tmp_path / name, find_faults)


def test_kill_at_any_moment(program, new_trip, record_property):
    """A run whose process is killed keeps its reported results and repeats no finished call."""
    dice, counts, number = random.Random(4), Counter(), 0
    while counts["killed"] < KILLS:
        number += 1
        trip = new_trip(f"trip {number}")
        resuming = number % 3 > 0
        code = trip.run(dice.choice(MODES), prompt="errand", after_seconds=dice.uniform(0, program.seconds))
        while code or trip.session.unfinished:
            late = dice.uniform(0, program.seconds) if dice.random() < 0.4 else None
            code = trip.go_on(dice.choice(MODES), resuming=resuming, after_seconds=late)
        trip.check_end()
        counts += trip.counts
    for name, count in counts.items():
        record_property(name, count)


@pytest.mark.parametrize("instant", ["before", "after"])
def test_kill_at_each_entry(instant, new_trip):
    """A process may be killed directly before or after any entry is stored."""
    places = FORK_IN_THE_ROAD if instant == "after" else range(1, ENTRIES + 1)
    for number in places:
        trip = new_trip(f"trip {number} {instant}")
        assert trip.run(MODES[number % 4], prompt="errand", dies=[number, instant]) == -signal.SIGKILL
        assert trip.go_on(MODES[number % 3], resuming=number % 3 > 0) == 0
        trip.check_end()


def test_errand_stores_each_event_separately(new_trip):
    """A run that is not killed stores each stored event as a separate entry."""
    trip = new_trip("trip")
    trip.run("run", prompt="errand")
    assert len(trip.session.entries) == ENTRIES
