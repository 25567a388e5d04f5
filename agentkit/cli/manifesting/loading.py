"""Which agent does a file hold? A program is imported, and nothing else of it is run; a text file describes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from agentkit.agents.agent import Agent
from agentkit.cli.loading.programs import SUFFIX, names_in, one_in, parted
from agentkit.errors import ConfigError, ReplayError
from agentkit.tape import Account, Tape, active


def agent_in(named: str) -> tuple[Agent[Any], Path]:
    """The agent in `bot.py`, `bot.py:name` or `bot.txt`, and its folder. Raises ConfigError and UsageError."""
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
        if file.suffix != SUFFIX:
            return Agent.from_file(file), file.parent
        found = names_in(file)
    leading = [] if name else _leading([each for each in found.values() if isinstance(each, Agent)])
    return leading[0] if len(leading) == 1 else one_in(found, name, Agent, file), file.parent


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


def _leading(agents: list[Agent[Any]]) -> list[Agent[Any]]:
    """The agents that no other one sets to work, each once."""
    below = {id(each) for agent in agents for each in _below(agent)}
    return list({id(each): each for each in agents if id(each) not in below}.values())


def _below(agent: Agent[Any]) -> list[Any]:
    """The agents that an agent may set to work, or hand over to."""
    from agentkit.capabilities.offers import tools_of, worker_of

    return [*agent.handoffs, *(worker_of(tool) for _, tool in tools_of(agent))]
