"""`agentkit show`: what was recorded, for a person."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit.cli.terminal import remedied

if TYPE_CHECKING:
    from agentkit.memory.cassettes.entries import Entry
    from agentkit.memory.codec import Data

_READABLE = "Give a file that --record, --jsonl or agentkit sessions export wrote."


@click.command(short_help="Show a recorded run or an exported session, also as a page.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="OUT", help="Write one HTML page that needs nothing else."
)
def show(*, file: Path, html: Path | None) -> None:
    """Show the runs in FILE, a cassette or an exported session: prompts, calls, decisions, changes, money."""
    from agentkit.cli.display import clean
    from agentkit.memory.narration.story import stories

    header, entries = recorded(file)
    runs = stories(entries)
    if html is None:
        from agentkit.cli.runs.words import heading, money
        from agentkit.memory.narration.text import show_text

        click.echo(clean(show_text(heading(header), runs, money)))
        return
    from agentkit.cli.runs.page import page

    with open(html, "w", encoding="utf-8", opener=_for_the_owner) as stream:
        stream.write(page(file.name, header, runs))
    click.echo(clean(f"Written: {html}"), err=True)


def recorded(file: Path) -> tuple[Data, list[Entry]]:
    """The header and the entries of a file, for people. Raises SessionError, which says which files can be read."""
    from agentkit.errors import SessionError
    from agentkit.memory.cassettes.file import read_cassette

    try:
        return read_cassette(file, hide=True)
    except SessionError as error:
        raise SessionError(remedied(error, _READABLE)) from None


def _for_the_owner(path: str, flags: int) -> int:
    """Make the page readable for its owner only, as the cassette is."""
    return os.open(path, flags, 0o600)
