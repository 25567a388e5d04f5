"""`agentkit manifest`: write and compare permission manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agentkit.agents.agent import Agent
from agentkit.atomic_write import write_whole
from agentkit.cli.loaders import SUFFIX, run_program, select_object, split_target
from agentkit.cli.options import FILE
from agentkit.cli.terminal import ANSWERED, REFUSED, clean, print_error, print_note
from agentkit.errors import ConfigError, ReplayError
from agentkit.recording import Account, Recording, active

if TYPE_CHECKING:
    from agentkit.manifest import Difference, Manifest


_EXAMPLES = """\b
Examples:
  agentkit manifest bot.py        show it
  agentkit manifest bot.py --write agentkit.manifest.json
      write it, to review and commit
  agentkit manifest bot.py --check agentkit.manifest.json
      in CI: fail when the agent may do more
  agentkit manifest bot.py:clerk  one of several agents
"""


@click.command(short_help="Show the permissions of an agent, and fail if there are more.", epilog=_EXAMPLES)
@click.argument("program", metavar="PROGRAM[:NAME]")
@click.option("--write", "output", type=FILE, metavar="FILE", help="Write the manifest to a file.")
@click.option("--check", "baseline", type=FILE, metavar="FILE", help="Compare it with the stored manifest.")
@click.option("--strict", is_flag=True, help="With --check: fail on any difference.")
def manifest(*, program: str, output: Path | None, baseline: Path | None, strict: bool) -> int:
    """Show the permissions of the agent in PROGRAM and of all agents that work with it.

    PROGRAM is a Python file, which is imported and not run, or an agent's text file. No model is asked. With --check
    the exit code is 4 when the agent may do more than FILE says; removed permissions are reported, and pass.
    """
    from agentkit.manifest import differences, manifest_of

    if baseline is not None and output is not None:
        raise click.UsageError("--check and --write cannot be combined. Check first, then write.")
    if strict and baseline is None:
        raise click.UsageError("--strict requires --check FILE.")
    before = None if baseline is None else _read(baseline, program)
    current = manifest_of(*load_agent(program))
    for text in current.idle_rules():  # a rule that denies a misspelt tool name denies nothing
        print_note(f"Warning: {text}", "yellow")
    if baseline is not None and before is not None:
        return _print_differences(differences(before, current), program, baseline, strict=strict)
    if output is None:
        click.echo(f"{current}", nl=False)
    else:
        try:
            write_whole(output, f"{current}", 0o666)
        except OSError as error:
            problem = f"{output} cannot be written: {error.strerror}. "
            raise ConfigError(f"{problem}Does its folder exist, and is it writable?") from None
        print_note(f"Written: {output}. Review it, and commit it.")
    return ANSWERED


def _read(file: Path, program: str) -> Manifest:
    """Load the manifest in a file. Raises ConfigError."""
    from agentkit.manifest import Manifest

    try:
        with file.open("rb") as stream:
            content = stream.read(Manifest.MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}. To begin with: agentkit manifest {program} --write {file}"
        ) from None
    return Manifest.parse(content.decode("utf-8", "replace"), str(file))


def _print_differences(found: tuple[Difference, ...], program: str, file: Path, *, strict: bool) -> int:
    """Print the differences, one per line, and the verdict; return the exit code."""
    from agentkit.manifest import ChangeDirection

    for each in found:
        click.echo(clean(f"{each.way:<8}  {each}"))
    wider = sum(each.way is ChangeDirection.WIDER for each in found)
    if not wider and not (strict and found):
        print_note(f"{program} has no permissions beyond those in {file}.")
        return ANSWERED
    count, problem = (wider, f"has more permissions than {file}") if wider else (len(found), f"differs from {file}")
    places = "one place" if count == 1 else f"{count} places"
    remedy = f"Review the differences above. To accept them: agentkit manifest {program} --write {file}"
    print_error(ConfigError(f"{program} {problem}, in {places}. {remedy}"))
    return REFUSED


def load_agent(target: str) -> tuple[Agent[Any], Path]:
    """Load the agent in `bot.py`, `bot.py:name` or `bot.txt`, and its folder. Raises ConfigError and UsageError."""
    file, name = split_target(target)
    if not file.is_file():
        raise ConfigError(
            f"The file {str(file)!r} does not exist. Name a Python program, as in bot.py, or an agent's text file."
        )
    if file.suffix == ".json":
        raise ConfigError(
            f"{file} is neither a program nor an agent's text file. "
            f"Did you mean: agentkit manifest bot.py --check {file}"
        )
    with active(_ImportRecording(file)):
        if file.suffix != SUFFIX:
            return Agent.from_file(file), file.parent
        found = run_program(file)
    agents = [] if name else [each for each in found.values() if isinstance(each, Agent)]
    delegates = {id(each) for agent in agents for each in _delegates(agent)}
    roots = list({id(each): each for each in agents if id(each) not in delegates}.values())
    return roots[0] if len(roots) == 1 else select_object(found, name, Agent, file), file.parent


class _ImportRecording(Recording):
    """A recording that refuses every question, so that importing a program uses no model, no tool and no key."""

    is_replaying = True

    def __init__(self, file: Path) -> None:
        self.file = file

    def replay(self, _question: object, _account: Account | None = None, /) -> NoReturn:
        raise ReplayError(
            f"{self.file} runs an agent while it is imported. "
            'Put code that runs an agent below the line: if __name__ == "__main__":'
        )


def _delegates(agent: Agent[Any]) -> list[Any]:
    """The agents that an agent can delegate to or hand off to."""
    from agentkit.manifest.build import all_tools_of, tool_agent

    return [*agent.handoffs, *(tool_agent(tool) for _, tool in all_tools_of(agent))]
