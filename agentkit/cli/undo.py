"""`agentkit undo`: take back what a run changed."""

from __future__ import annotations

import click

from agentkit.cli.exit_codes import ANSWERED, FAILED


@click.command()
@click.argument("run", required=False)
@click.option("--list", "as_list", is_flag=True, help="List the runs that changed something, the latest first.")
@click.option("--diff", "as_diff", is_flag=True, help="Show what the run changed, and undo nothing.")
def undo(*, run: str | None, as_list: bool, as_diff: bool) -> int:
    """Undo what the last run changed in its workspace, or the run with the id RUN.

    Nothing is touched when a file was changed since.
    """
    from agentkit.cli.display import clean
    from agentkit.workspace.journal import Journal

    journal = Journal.of_this_machine()
    if as_list:
        for record in reversed(journal.runs()):
            state = "undone" if record.is_undone else f"{len(record.changes)} changed"
            click.echo(clean(f"{record.id}  {record.label}  {state}"))
        return ANSWERED
    found = journal.find(run) if run else journal.last()
    if found is None:
        click.echo("There is nothing to undo: no run has changed anything.", err=True)
        return FAILED
    click.echo(clean(found.diff if as_diff else str(found.undo())))
    return ANSWERED
