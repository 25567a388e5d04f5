"""Which agent does a program make, and what does it say that is a setting?"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from agentkit.agents.agent import Agent
from agentkit.cli.loading.programs import SUFFIX, one_in, parted, run_file
from agentkit.usage import Limits


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


def settings_of(made: Agent[Any]) -> dict[str, Any]:
    """What an agent says that is a setting, too: flags come before it, files and variables after it."""
    limits = {each.name: getattr(made.limits, each.name) for each in fields(Limits)}
    said: dict[str, Any] = {"safety": made.policy.level, "tools": made.tools.names}
    said["limits"] = {each.name: limits[each.name] for each in fields(Limits) if limits[each.name] != each.default}
    if isinstance(made.known_session, str):
        said["session"] = made.known_session
    return said
