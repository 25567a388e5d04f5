"""`agentkit manifest`: what an agent may do, as a file to review and keep; and what it may do beyond that file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit.cli.exit_codes import ANSWERED, REFUSED
from agentkit.cli.terminal import tell, tell_error
from agentkit.errors import ConfigError

if TYPE_CHECKING:
    from agentkit.capabilities import Difference, Manifest

_EXAMPLES = """\b
Examples:
  agentkit manifest bot.py                                     show it
  agentkit manifest bot.py --write agentkit.manifest.json      keep it, to review and commit
  agentkit manifest bot.py --check agentkit.manifest.json      in CI: fail when the agent may do more
  agentkit manifest bot.py:clerk                               one of several agents
"""


@click.command(short_help="Tell what an agent may do, and fail when it may do more.", epilog=_EXAMPLES)
@click.argument("program", metavar="PROGRAM[:NAME]")
@click.option("--write", "written", type=click.Path(path_type=Path), metavar="FILE", help="Write it into a file.")
@click.option("--check", "kept", type=click.Path(path_type=Path), metavar="FILE", help="Compare it with what was kept.")
@click.option("--strict", is_flag=True, help="With --check: fail on any difference.")
def manifest(*, program: str, written: Path | None, kept: Path | None, strict: bool) -> int:
    """Tell what the agent in PROGRAM may do, with all agents that work with it.

    PROGRAM is a Python file, which is imported and not run, or an agent's text file. No model is asked. With --check
    the exit code is 4 when the agent may do more than FILE says; what it may do less is told, and does not count.
    """
    from agentkit.capabilities import differences, manifest_of
    from agentkit.cli.manifesting.loading import agent_in

    if kept is not None and written is not None:
        raise click.UsageError(
            "Check first, and write when it is as it should be; --check and --write do not go together."
        )
    if strict and kept is None:
        raise click.UsageError("--strict is how --check compares; name the file with --check FILE.")
    before = None if kept is None else _read(kept, program)
    derived = manifest_of(*agent_in(program))
    _warn(derived)
    if kept is not None and before is not None:
        return _tell(differences(before, derived), program, kept, strict=strict)
    if written is None:
        click.echo(f"{derived}", nl=False)
    else:
        _write(f"{derived}", written)
    return ANSWERED


def _warn(derived: Manifest) -> None:
    """Tell of rules that say nothing: one that denies a tool by a misspelt name denies none."""
    for text in derived.idle_rules():
        tell(f"Warning: {text}", "yellow")


def _read(file: Path, program: str) -> Manifest:
    """The manifest in a file. Raises ConfigError."""
    from agentkit.capabilities import Manifest

    try:
        with file.open("rb") as stream:
            content = stream.read(Manifest.MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}. To begin with: agentkit manifest {program} --write {file}"
        ) from None
    return Manifest.parse(content.decode("utf-8", "replace"), str(file))


def _write(text: str, file: Path) -> None:
    """Write a file as a whole or not at all. Raises ConfigError."""
    from agentkit.keeping import write_whole

    try:
        write_whole(file, text, 0o666)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}. Is its folder there and writable?") from None
    tell(f"Written: {file}. Review it, and commit it.")


def _tell(found: tuple[Difference, ...], program: str, file: Path, *, strict: bool) -> int:
    """Tell what is different, a line each, and whether that counts; the exit code."""
    from agentkit.capabilities import Way
    from agentkit.cli.display import clean

    for each in found:
        click.echo(clean(f"{each.way:<8}  {each}"))
    wider = sum(each.way is Way.WIDER for each in found)
    if not wider and not (strict and found):
        tell(f"{program} may do nothing that {file} does not say.")
        return ANSWERED
    counted, what = (wider, f"may do more than {file} says") if wider else (len(found), f"is not what {file} says")
    places = "one place" if counted == 1 else f"{counted} places"
    remedy = f"Review what is told above. When it is meant so, keep it: agentkit manifest {program} --write {file}"
    tell_error(ConfigError(f"{program} {what}, in {places}. {remedy}"))
    return REFUSED
