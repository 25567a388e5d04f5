"""`agentkit show`: what was recorded, for a person."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command(short_help="Show a recorded run or an exported session, also as a page.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="OUT", help="Write one HTML page that needs nothing else."
)
def show(*, file: Path, html: Path | None) -> None:
    """Show the runs in FILE, a cassette or an exported session: prompts, calls, decisions, changes, money."""
    from agentkit.cli.display import clean
    from agentkit.cli.runs.story import stories
    from agentkit.memory.cassettes.file import read_cassette

    header, entries = read_cassette(file, hide=True)
    runs = stories(entries)
    if html is None:
        from agentkit.cli.runs.text import show_text

        click.echo(show_text(header, runs))
        return
    from agentkit.cli.runs.page import page

    with open(html, "w", encoding="utf-8", opener=_for_the_owner) as stream:
        stream.write(page(file.name, header, runs))
    click.echo(clean(f"Written: {html}"), err=True)


def _for_the_owner(path: str, flags: int) -> int:
    """Make the page readable for its owner only, as the cassette is."""
    return os.open(path, flags, 0o600)
