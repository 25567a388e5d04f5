"""Which suite, and which agents, does the command line name?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentkit.agents.agent import Agent
from agentkit.cli.loading.programs import SUFFIX, one_in, parted, run_file
from agentkit.cli.terminal import remedied
from agentkit.errors import ConfigError
from agentkit.evals.variants import Tried, is_tried, name_of
from agentkit.wording import suggestion

if TYPE_CHECKING:
    from agentkit.cli.settings.layers import Settings
    from agentkit.evals.suite import Suite
    from agentkit.llm.client import LLM


def suite_in(place: str, scorers: Sequence[str] = ()) -> tuple[Suite, Mapping[str, Any]]:
    """The suite in `FILE.py`, `FILE.py:NAME`, or a file of cases; and what else stands in a Python file, by name.

    Raises UsageError when it is not there, ConfigError when the file is none.
    """
    from agentkit import evals

    path, name = parted(place)
    if path.suffix != SUFFIX:
        chosen = [getattr(evals, each)() for each in scorers or ("contains", "tool_calls")]
        return _cases_in(path, chosen), {}
    if scorers:
        raise click.UsageError("--scorer is for files of cases; a Python file names its scorers itself.")
    found = run_file(path)
    return one_in(found, name, evals.Suite, path), found


def _cases_in(path: Path, scorers: Sequence[Any]) -> Suite:
    """The suite in a file of cases. Raises ConfigError, with what to do."""
    from agentkit.evals.keeping.reading import FIELDS
    from agentkit.evals.suite import Suite

    try:
        return Suite.read(path, scorers)
    except ConfigError as error:
        if isinstance(error.__cause__, OSError):
            raise
        remedy = f"Mend the file; the fields of a case are {', '.join(FIELDS)}."
        raise ConfigError(remedied(error, remedy)) from error


def agents_in(places: Sequence[str], beside: Mapping[str, Any], settings: Settings) -> dict[str, Tried]:
    """The agents that are named, by their names: text files, `FILE.py`, `FILE.py:NAME`, or names in the suite's file.

    A function is named as `FILE.py:NAME` or by its name in the suite's file. Without any, the agents in that file, or
    else the one that the settings describe. Raises UsageError, ConfigError.
    """
    if not places:
        found = [each for each in beside.values() if isinstance(each, Agent)] or [settings.agent()]
        return {agent.name: agent for agent in found}
    agents = [agent_in(place, beside, settings) for place in places]
    named = {name_of(agent): agent for agent in agents}
    if len(named) == len(agents):
        return named
    return dict(zip(places, agents, strict=True))


def _near(name: str, found: Mapping[str, Any]) -> str:
    """Which agent or function of a file was probably meant, in a sentence; nothing where none is like it."""
    return suggestion(
        name, [each for each, value in found.items() if is_tried(value) and not each.startswith("_")], 0.7
    )


def agent_in(place: str, beside: Mapping[str, Any], settings: Settings) -> Tried:
    """One agent or function that is named. A text file that says no model is given the one of the settings."""
    from agentkit.agents.manifesto import read_manifesto

    if is_tried(beside.get(place)):
        agent: Tried = beside[place]
        return agent
    path, name = parted(place)
    if path.suffix == SUFFIX:
        found = run_file(path)
        if name and not is_tried(found.get(name)) and (near := _near(name, found)):
            raise click.UsageError(f"There is no agent or function {name!r} in {path}.{near}")
        return found[name] if is_tried(found.get(name)) else one_in(found, name, Agent, path)
    known = [each for each, value in beside.items() if isinstance(value, Agent)]
    if known and not path.exists():
        told = f"There is no file {place!r}, nor an agent of that name.{_near(place, beside)}"
        raise click.UsageError(f"{told} Known: {', '.join(known)}.")
    return Agent.from_file(path, llm=settings.llm()) if read_manifesto(path).model is None else Agent.from_file(path)


def models_in(names: Sequence[str], settings: Settings, *, offline: bool) -> list[LLM]:
    """The models that the agents are run on; none when each is to keep its own."""
    return [settings.llm()] if offline else [settings.llm(name) for name in names]
