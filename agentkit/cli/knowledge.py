"""`agentkit knowledge`: add, search, list and remove documents without a model."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit.cli.options import JSON, DefaultGroup, WholeNumber
from agentkit.cli.terminal import ANSWERED, FAILED, clean, json_text, print_note

if TYPE_CHECKING:
    from agentkit.knowledge import AddResult, Chunk, Knowledge

_EXAMPLES = """\b
Examples:
  agentkit knowledge add docs/ https://example.org/handbook
  agentkit knowledge search "how many days of leave?"
  agentkit knowledge search "holidays" --embed ollama:nomic-embed-text
  agentkit knowledge refresh
  agentkit knowledge list
  agentkit knowledge remove docs/
"""
_STORE = click.option(
    "--store",
    metavar="FILE|URL",
    default="knowledge.db",
    show_default=True,
    help="The store of the knowledge: a file, or the URL of a PostgreSQL database.",
)
_EMBED = click.option(
    "--embed",
    metavar="MODEL",
    help="An embedding model, to also find passages by meaning, such as openai:text-embedding-3-small.",
)


@click.group(cls=DefaultGroup, epilog=_EXAMPLES, short_help="Add documents, and search them for passages.")
def knowledge() -> None:
    """Add documents, and search them for passages with source and position."""


@knowledge.command("add")
@click.argument("sources", nargs=-1, required=True, metavar="FILE|FOLDER|URL...")
@_EMBED
@_STORE
@JSON
def add_documents(*, sources: tuple[str, ...], embed: str | None, store: str, as_json: bool) -> int:
    """Add files, folders and web pages, or bring them up to date."""
    is_new = "://" not in store and not Path(store).exists()
    try:
        with _open(store, embed) as knowledge_base:
            report = knowledge_base.add(*sources)
    finally:
        if is_new and Path(store).exists():
            print_note(f"Created: {store}, for the text of the added documents; --store selects another file.")
    if as_json:
        click.echo(json_text(asdict(report)))
    else:
        _print_result(report)
    return FAILED if _is_failure(report) else ANSWERED


@knowledge.command("refresh")
@click.option("--outside", is_flag=True, help="Also read places outside the current folder and the one of the file.")
@_EMBED
@_STORE
@JSON
def refresh_documents(*, outside: bool, embed: str | None, store: str, as_json: bool) -> int:
    """Update all added documents.

    Their sources are listed in the file. Sources outside the current folder and the folder of the file are shown, and
    read only when you agree.
    """
    with _open_existing(store, embed) as knowledge_base:
        refused = () if outside else knowledge_base.outside
        report = knowledge_base.refresh(outside=outside or (refused if _confirm_reading(refused) else ()))
    if as_json:
        click.echo(json_text(asdict(report)))
    else:
        _print_result(report)
    return FAILED if _is_failure(report) or report.outside else ANSWERED


@knowledge.command("search")
@click.argument("question")
@click.option(
    "-n", "--limit", default=5, show_default=True, type=WholeNumber(1, 100), help="The maximum number of passages."
)
@click.option("--source", help="Only in this source; * matches anything.")
@_EMBED
@_STORE
@JSON
def search_documents(
    *, question: str, limit: int, source: str | None, embed: str | None, store: str, as_json: bool
) -> int:
    """Show the passages that answer QUESTION best."""
    with _open_existing(store, embed) as knowledge_base:
        found = knowledge_base.search(question, limit, source=source)
    if as_json:
        documents = [{"citation": each.citation, "position": each.position, **asdict(each)} for each in found]
        click.echo(json_text(documents))
    else:
        click.echo(clean("\n\n".join(map(_format_passage, found))) if found else "No passage was found.", err=not found)
    return ANSWERED if found else FAILED


@knowledge.command("list")
@_STORE
@JSON
def list_documents(*, store: str, as_json: bool) -> None:
    """List the documents, by their sources."""
    with _open_existing(store) as knowledge_base:
        documents = knowledge_base.documents
    if as_json:
        click.echo(json_text([asdict(each) for each in documents]))
    for each in documents if not as_json else ():
        click.echo(clean(f"{each.passages:>6}  {each.kind:<8}  {each.source}"))


@knowledge.command("remove")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE|FOLDER...")
@_STORE
def remove_documents(*, sources: tuple[str, ...], store: str) -> int:
    """Remove documents from the store; their files are not deleted."""
    with _open_existing(store) as knowledge_base:
        removed = knowledge_base.remove(*sources)
    click.echo(f"{len(removed)} removed")
    return ANSWERED if removed else FAILED


@knowledge.command("embed", short_help="Recompute all vectors with MODEL.")
@click.argument("model")
@_STORE
def embed_documents(*, model: str, store: str) -> None:
    """Embed all passages again with another MODEL.

    MODEL is the name of an embedding model, such as ollama:nomic-embed-text.
    """
    from agentkit.errors import KnowledgeError
    from agentkit.event_rendering import count_text

    with _open_existing(store, model) as knowledge_base:
        if not knowledge_base.documents:
            raise KnowledgeError(f"{store!r} contains no documents. To add some: agentkit knowledge add FILE")
        count = knowledge_base.embed_again()
    click.echo(f"{count_text(count, 'passage')} embedded")


def _confirm_reading(sources: tuple[str, ...]) -> bool:
    """Whether the person at the terminal agrees to read these places; False without a terminal."""
    from agentkit.event_rendering import escape_invisible

    if not sources or sys.stdin is None or not sys.stdin.isatty():
        return False
    for each in sources:
        click.echo(escape_invisible(f"outside {each}"), err=True)
    return click.confirm("The file refers to these places outside its folder. Read them?", err=True)


def _print_result(report: AddResult) -> None:
    from agentkit.event_rendering import escape_invisible

    click.echo(report.counts)
    for source, reason in report.skipped.items():
        click.echo(clean(f"skipped {source}: {reason}"), err=True)
    for source, note in report.notes.items():
        click.echo(clean(f"note on {source}: {note}"), err=True)
    for each in report.outside:
        click.echo(escape_invisible(f"outside {each}: not read; to read it, add --outside"), err=True)


def _open(store: str, embed: str | None = None) -> Knowledge:
    from agentkit.knowledge import Knowledge

    return Knowledge(store, embed=embed)


def _open_existing(store: str, embed: str | None = None) -> Knowledge:
    """Open existing knowledge; a missing file is not created. Raises KnowledgeError if it does not exist."""
    from agentkit.errors import KnowledgeError

    if "://" not in store and store != ":memory:" and not Path(store).exists():
        raise KnowledgeError(f"{store!r} contains no knowledge. To add some: agentkit knowledge add FILE")
    return _open(store, embed)


def _is_failure(report: AddResult) -> bool:
    return bool(report.skipped) and not (report.added or report.updated or report.unchanged)


def _format_passage(passage: Chunk) -> str:
    """A chunk, below its citation."""
    section = f"  ({passage.section})" if passage.section else ""
    return f"{passage.citation}{section}\n{passage.text}"
