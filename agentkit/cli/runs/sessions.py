"""`agentkit sessions`: the conversations that are kept: list, show, rename, fork, export, import, delete."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit.cli.arguments import WholeNumber
from agentkit.cli.completing import PLACE, session_names
from agentkit.cli.exit_codes import ANSWERED, INTERRUPTED
from agentkit.cli.terminal import shown_word, tell

if TYPE_CHECKING:
    from agentkit.memory.session import Session

_EXAMPLES = """\b
Examples:
  agentkit sessions list
  agentkit sessions rename who-won-the-cup-7f3a cup
  agentkit sessions fork cup cup-2 --at 4
  agentkit --session cup-2 "And who lost?"
"""
_NAME = click.argument("name", shell_complete=session_names)


@click.group(epilog=_EXAMPLES, short_help="List, show, fork and delete the conversations that are kept.")
def sessions() -> None:
    """List, show and change the conversations that are kept."""


@sessions.command("list")
@PLACE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_sessions(*, place: str | None, as_json: bool) -> None:
    """List the sessions, the newest change first."""
    from agentkit.cli.display import clean, document_text
    from agentkit.cli.runs.words import summary_line
    from agentkit.memory.session import Session

    summaries = Session.summaries(place)
    if as_json:
        click.echo(document_text(sessions=[asdict(each) for each in summaries]))
        return
    width = max((len(each.name) for each in summaries), default=0)
    for each in summaries:
        click.echo(clean(summary_line(each, width)))
    if not summaries:
        where = "yet" if place is None else f"in {place}"
        click.echo(f'No session is kept {where}. Begin one: agentkit "How much is 17% of 2400?"', err=True)


@sessions.command("show")
@_NAME
@PLACE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with every entry.")
def show_session(*, name: str, place: str | None, as_json: bool) -> None:
    """Show what was said and done in the session NAME."""
    from agentkit.cli.display import clean, document_text
    from agentkit.memory.codec import encode_entry

    session = _session(name, place)
    if as_json:
        click.echo(document_text(name=name, entries=list(map(encode_entry, session.entries))))
    else:
        click.echo(clean(session.show()))


@sessions.command("rename")
@click.argument("old", shell_complete=session_names)
@click.argument("new")
@PLACE
def rename_session(*, old: str, new: str, place: str | None) -> None:
    """Call the session OLD NEW."""
    _session(old, place).rename(new)
    tell(f"The session {old!r} is now {new!r}.")


@sessions.command("fork")
@_NAME
@click.argument("new")
@PLACE
@click.option("--at", type=WholeNumber(min=0), metavar="N", help="Begin with the first N messages; all by default.")
def fork_session(*, name: str, new: str, place: str | None, at: int | None) -> None:
    """Make the session NEW, which begins like the session NAME."""
    from agentkit.wording import count_text

    fork = _session(name, place).fork(new, at)
    tell(f"The session {new!r} begins with {count_text(len(fork.messages), 'message')} of {name!r}.")


@sessions.command("export", short_help="Write the session NAME to the new FILE.")
@_NAME
@click.argument("file", type=click.Path(path_type=Path))
@PLACE
def export_session(*, name: str, file: Path, place: str | None) -> None:
    """Write the session NAME to the new FILE, a JSON object a line; `agentkit show FILE` reads it."""
    _session(name, place).export(file)
    tell(f"Written: {file}")


@sessions.command("import", short_help="Keep what was exported to FILE as a session.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("name", required=False)
@PLACE
def import_session(*, file: Path, name: str | None, place: str | None) -> None:
    """Keep what was exported to FILE as a session, under its old name or NAME."""
    from agentkit.memory.session import Session

    session = Session.restore(file, place, name or "")
    tell(f'Imported. Go on with: agentkit --session {shown_word(session.name)} "..."')


@sessions.command("delete")
@_NAME
@PLACE
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete_session(*, name: str, place: str | None, yes: bool) -> int:
    """Delete the session NAME, for good. At a terminal you are asked first."""
    session = _session(name, place)
    if not yes and not _confirmed(session):
        tell("Nothing was deleted.")
        return INTERRUPTED
    session.delete()
    tell(f"The session {name!r} is deleted.")
    return ANSWERED


def _session(name: str, place: str | None) -> Session:
    """The session of that name. Raises SessionError when there is none."""
    from agentkit.cli.asking.keeping import known_session

    return known_session(place, name)


def _confirmed(session: Session) -> bool:
    """Whether the person at the terminal agrees. Raises UsageError without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("There is nobody to ask whether to delete it. To delete it unasked, add -y.")
    return click.confirm(f"Delete {session.name!r} with its {len(session.messages)} messages?", err=True)
