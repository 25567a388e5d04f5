"""Tests for durable functions as DBOS workflows, with workers that are killed."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentkit import ConfigError
from agentkit.agents.dbos_engine import dbos_workflow
from agentkit.agents.durable import durable

PROGRAM = Path(__file__).with_name("dbos_program.py")
MOMENTS = ["pack Hue", "look Hue", "answered", "look Vinh", "waiting book", "book Hue", "waiting ask_person"]
"""In a step, in a tool, between the end of an agent's run and its step, in a batch, and while a call is pending."""

OUTPUT = [
    "packed for Hue, pack failed: ValueError: no ticket",
    *("seen Hue", "seen Da Lat", "seen Vinh", "packed for Hanoi", "packed for Sa Pa"),
    *("a room in Hue", "a room in Hoi An", "a room in My Son", "yes"),
]
STEPS = ["pack", "guide", "guide.map", "pack", "pack", "wait_until", "pack", "clerk", "clerk", "clerk.map", "clerk.map"]
CUT_OFF = (1, 3, 6)
"""The indexes of outputs of agents whose tool call was cut off and is not repeated."""

UNKNOWN = "whether it took effect is unknown"


@pytest.fixture(params=["sqlite", "postgres_server"])
def database(request, tmp_path):
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/dbos.db"
    import psycopg

    url = request.getfixturevalue("postgres_server")
    with psycopg.connect(url, autocommit=True) as connection:
        for schema in ("agentkit", "dbos"):
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    return url


def work(folder, database, executor, moment=""):
    """Run a worker, and return the finished process."""
    command = [sys.executable, str(PROGRAM), str(folder), database, executor, moment]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_killed_workers_repeat_no_finished_step(database, tmp_path):
    """After workers are killed, others continue the workflow without repeating finished steps."""
    # a worker with the executor id of a dead one recovers its workflows; one with another id resumes them
    for number, moment in enumerate(MOMENTS):
        dead = work(tmp_path, database, f"worker-{number % 2}", moment)
        assert dead.returncode == -signal.SIGKILL, (moment, dead.stderr)
    last = work(tmp_path, database, "worker-2")
    assert last.returncode == 0, last.stderr
    output, steps = json.loads(last.stdout)
    for index, expected in enumerate(OUTPUT):
        assert UNKNOWN in output[index] if index in CUT_OFF else output[index] == expected
    assert steps == STEPS
    effects = Counter((tmp_path / "effects").read_text().splitlines())
    assert effects.pop("pack Hue") == 2
    assert set(effects.values()) == {1}
    assert len(effects) == 9
    again = work(tmp_path, database, "worker-0")
    assert json.loads(again.stdout) == [output, steps]


def test_coroutine_functions_are_rejected():
    """A coroutine function is rejected as a DBOS workflow."""

    async def trip() -> None:
        """Do nothing."""

    with pytest.raises(ConfigError, match="trip is a coroutine function"):
        dbos_workflow(durable(trip))
