"""Which agent does a program make?"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from agentkit.agents.agent import Agent
from agentkit.cli.loading.programs import SUFFIX, one_in, parted, run_file


def is_program(place: Path) -> bool:
    """Whether an agent is named by its program, as `FILE.py` or `FILE.py:NAME`."""
    return parted(str(place))[0].suffix == SUFFIX


@cache
def made_by(place: str) -> Agent[Any]:
    """The agent in `FILE.py`, or the one of that name in `FILE.py:NAME`; the program is run once.

    Raises UsageError when it is not there, ConfigError, with the line, when the program fails.
    """
    path, name = parted(place)
    return one_in(run_file(path), name, Agent, path)
