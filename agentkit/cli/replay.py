"""`agentkit replay`: play a recording, or run a program against it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit.cli.terminal import FAILED
from agentkit.errors import AgentKitError

if TYPE_CHECKING:
    from agentkit.sessions.transcript import RunStory

_EXAMPLES = """\b
Examples:
  agentkit replay trip.cassette              play the recorded runs
  agentkit replay trip.cassette program.py   run a program on the recorded answers
"""


@click.command(
    short_help="Replay a recorded run, or run a program on it.",
    epilog=_EXAMPLES,
    context_settings={"allow_interspersed_args": False},
)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM ARGUMENT...]")
@click.option("--partial", is_flag=True, help="The program need not use everything that was recorded.")
def replay(*, file: Path, program: tuple[str, ...], partial: bool) -> None:
    """Play the runs in FILE; or run the Python file PROGRAM, and answer from FILE what it asks models, tools, people.

    The program sees no network through agentkit and needs no key. What it asks otherwise than recorded is an error.
    """
    if not program:
        _play(file)
        return
    from agentkit.testing.scripted_llm import replay as replayed

    if not Path(program[0]).is_file():
        raise click.UsageError(f"There is no program {program[0]!r}; name a Python file.")
    try:
        with replayed(file, partial=partial):
            _run(program)
    except (AgentKitError, click.exceptions.Exit):
        raise
    except Exception as error:
        _tell_as_python(error, program[0])
        raise click.exceptions.Exit(FAILED) from error


def _tell_as_python(error: Exception, program: str) -> None:
    """Print the program's exception as Python does, starting at the program's first frame."""
    import traceback

    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != program:
        frames = frames.tb_next
    click.echo("".join(traceback.format_exception(error.with_traceback(frames))).rstrip(), err=True)


def _run(program: tuple[str, ...]) -> None:
    """Run a Python file as Python would. Raises Exit if it exits with a non-zero code."""
    import runpy

    try:
        with _own_arguments(program):
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            click.echo(ended.code, err=True)
        if ended.code:
            raise click.exceptions.Exit(ended.code if isinstance(ended.code, int) else FAILED) from None


@contextmanager
def _own_arguments(program: tuple[str, ...]) -> Iterator[None]:
    """Set the program's arguments and folder for the block, as if Python had started it."""
    arguments, folder = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = list(program), str(Path(program[0]).resolve().parent)
    try:
        yield
    finally:
        sys.argv, sys.path[0] = arguments, folder


def _play(file: Path) -> None:
    from agentkit.cli.sessions import recorded
    from agentkit.sessions.transcript import stories

    _, entries = recorded(file)
    for run in stories(entries):
        _play_run(run)


def _play_run(run: RunStory) -> None:
    """Print the answer on stdout and everything before it on stderr, as `ask` does."""
    from agentkit.cli.display import call_line, clean
    from agentkit.event_rendering import content_text
    from agentkit.events import ResponseReceived, ToolCallFinished
    from agentkit.sessions.transcript import CallStory, content_of

    prompt = "…" if run.prompt is None else content_text(run.prompt, "\n")
    click.echo(clean(f"> {prompt}"), err=True)
    for step in run.steps:
        if isinstance(step, CallStory):
            if step.result is not None:
                result = replace(step.result, value=content_of(step.result.content))
                click.echo(f"  {call_line(ToolCallFinished(step.call, result))}", err=True)
        elif isinstance(step.milestone, ResponseReceived):
            if step.milestone.response.text:
                click.echo(clean(step.milestone.response.text))
        else:
            description = step.milestone.describe()
            click.echo(clean("  " + ": ".join(filter(None, (description.title, description.text)))), err=True)
    if run.end is not None and run.end.changes:
        click.echo(clean(run.end.changes), err=True)
