"""`agentkit undo`: take back what a run changed."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from agentkit.cli.exit_codes import ANSWERED, FAILED

if TYPE_CHECKING:
    from agentkit.workspace.journal import Journal, Record

_SEE_LIST = "To see which runs changed something, and where: agentkit undo --list"


@click.command(short_help="Take back what the last run here changed.")
@click.argument("run", required=False)
@click.option("--list", "as_list", is_flag=True, help="List the runs that changed something, the latest first.")
@click.option("--diff", "as_diff", is_flag=True, help="Show what the run changed, and undo nothing.")
def undo(*, run: str | None, as_list: bool, as_diff: bool) -> int:
    """Undo what the last run changed in the current folder, or the run with the id RUN wherever it was.

    Nothing is touched when a file was changed since.
    """
    from agentkit.cli.display import clean
    from agentkit.redaction import redact
    from agentkit.workspace.journal import Journal

    journal = Journal.of_this_machine()
    records = [record for record in reversed(journal.runs()) if record.changes]
    for problem in journal.damaged:
        click.echo(clean(f"Passed over: {problem}"), err=True)
    if as_list:
        click.echo(clean(redact("\n".join(map(_line, records)) or "No run has changed anything.")))
        return ANSWERED
    found = _named(journal, run) if run else _last_here(records)
    if found is None:
        return FAILED
    click.echo(clean(redact(found.diff) if as_diff else f"{found.undo()} In {_folder(found)}."))
    return ANSWERED


def _named(journal: Journal, run: str) -> Record:
    """The run with that id. Raises ToolError, which says where the ids stand."""
    from agentkit.errors import ToolError

    try:
        return journal.find(run)
    except ToolError as error:
        raise ToolError(f"{error} {_SEE_LIST}") from None


def _last_here(records: list[Record]) -> Record | None:
    """The latest run in the current folder that can be undone; says why there is none."""
    here = os.path.realpath(os.curdir)
    open_records = [record for record in records if not record.is_undone]
    found = next((record for record in open_records if _folder(record) == here), None)
    if found is None:
        told = f"There is nothing to undo in {here}.\n{_SEE_LIST}"
        if open_records:
            told += f"\nThe latest run elsewhere: agentkit undo {open_records[0].id} (in {_folder(open_records[0])})."
        click.echo(told, err=True)
    return found


def _folder(record: Record) -> str:
    return next(change.root for change in record.changes)


def _line(record: Record) -> str:
    state = "undone" if record.is_undone else f"{len(record.changes)} changed"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.started))
    return f"{record.id}  {when}  {state}  {_folder(record)}  {record.label}"
