"""Which agent does a file hold? A program is imported, and nothing else of it is run; a text file describes one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from agentkit.agents.agent import Agent
from agentkit.cli.loading.programs import names_in, parted
from agentkit.errors import ConfigError, ReplayError
from agentkit.tape import Account, Tape, active


def agent_in(named: str) -> tuple[Agent[Any], Path]:
    """The agent in `bot.py`, `bot.py:name` or `bot.txt`, and the folder of the file. Raises ConfigError."""
    file, name = parted(named)
    if not file.is_file():
        raise ConfigError(
            f"There is no file {str(file)!r}. Name a Python program, as in bot.py, or an agent's text file."
        )
    if file.suffix == ".json":
        raise ConfigError(
            f"{file} is neither a program nor an agent's text file. "
            f"Was this meant? agentkit manifest bot.py --check {file}"
        )
    with active(_Silence(file)):
        if file.suffix != ".py":
            return Agent.from_file(file), file.parent
        found = names_in(file)
    return _named(found, name, file) if name else _only(found, file), file.parent


class _Silence(Tape):
    """Answers nothing, so that no model is asked and no tool run while a program is imported; and no key is needed."""

    is_replaying = True

    def __init__(self, file: Path) -> None:
        self.file = file

    def replayed(self, _question: object, _account: Account | None = None, /) -> NoReturn:
        raise ReplayError(
            f"{self.file} runs an agent while it is imported. "
            'Put what is to be run below the line: if __name__ == "__main__":'
        )


def _named(found: Mapping[str, Any], name: str, file: Path) -> Agent[Any]:
    agent = found.get(name)
    if isinstance(agent, Agent):
        return agent
    what = "is no agent" if name in found else "is not there"
    raise ConfigError(f"{file}: {name} {what}. {_choice(_agents(found), file)}")


def _only(found: Mapping[str, Any], file: Path) -> Agent[Any]:
    """The agent of a program that has one; of several, the one that sets the others to work."""
    agents = _agents(found)
    below = [each for agent in agents.values() for each in _below(agent)]
    leading = {id(each): each for each in agents.values() if not any(each is other for other in below)}
    if len(leading) == 1:
        return next(iter(leading.values()))
    what = "more than one agent" if agents else "no agent at the top of the program"
    raise ConfigError(f"{file}: there is {what}. {_choice(agents, file)}")


def _agents(found: Mapping[str, Any]) -> dict[str, Agent[Any]]:
    return {name: value for name, value in found.items() if isinstance(value, Agent)}


def _below(agent: Agent[Any]) -> list[Any]:
    """The agents that an agent may set to work, or hand over to."""
    from agentkit.capabilities.offers import tools_of, worker_of

    return [*agent.handoffs, *(worker_of(tool) for _, tool in tools_of(agent))]


def _choice(agents: Mapping[str, Any], file: Path) -> str:
    if not agents:
        return "Make it one, as in: bot = Agent(...)"
    return f"Say which one is meant: {', '.join(f'{file}:{name}' for name in agents)}"
