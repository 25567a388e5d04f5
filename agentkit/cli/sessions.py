"""`agentkit sessions`, `show`, `replay` and `undo`: list, display, export, replay and revert stored runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit.cli.options import FILE, JSON, STORE, DefaultGroup, WholeNumber, session_names
from agentkit.cli.terminal import (
    ANSWERED,
    FAILED,
    INTERRUPTED,
    clean,
    document_text,
    print_note,
    quote_word,
    with_remedy,
)
from agentkit.errors import AgentKitError

if TYPE_CHECKING:
    from agentkit.sessions.cassettes.entries import Entry
    from agentkit.sessions.codec import Data
    from agentkit.sessions.session import Session
    from agentkit.sessions.transcript import RunTranscript
    from agentkit.workspace.journal import Journal, Record
    from agentkit.workspace.snapshots import FileChange

_EXAMPLES = """\b
Examples:
  agentkit sessions list
  agentkit sessions rename who-won-the-cup-7f3a cup
  agentkit sessions fork cup cup-2 --at 4
  agentkit --session cup-2 "And who lost?"
"""
_NAME = click.argument("name", shell_complete=session_names)


@click.group(cls=DefaultGroup, epilog=_EXAMPLES, short_help="List, search, show, fork and delete the stored sessions.")
def sessions() -> None:
    """List, show and change the stored sessions."""


@sessions.command("list")
@STORE
@JSON
def list_sessions(*, store: str | None, as_json: bool) -> None:
    """List the sessions, the newest change first."""
    from agentkit.cli.export import summary_line
    from agentkit.sessions.session import Session

    summaries = Session.summaries(store)
    if as_json:
        click.echo(document_text(sessions=[asdict(each) for each in summaries]))
        return
    width = max((len(each.name) for each in summaries), default=0)
    for each in summaries:
        click.echo(clean(summary_line(each, width)))
    if not summaries:
        store_text = "yet" if store is None else f"in {store}"
        click.echo(f'No session is stored {store_text}. Begin one: agentkit "How much is 17% of 2400?"', err=True)


@sessions.command("search", short_help="Find sessions that contain all words of QUERY.")
@click.argument("query", nargs=-1, required=True)
@click.option(
    "-n", "--limit", default=20, show_default=True, type=WholeNumber(1, 1_000), help="The maximum number of sessions."
)
@STORE
@JSON
def search(*, query: tuple[str, ...], limit: int, store: str | None, as_json: bool) -> int:
    """Find the sessions whose prompts, answers and tool calls contain all words of QUERY."""
    from agentkit.cli.terminal import clean, document_text
    from agentkit.sessions.stores import store_at
    from agentkit.sessions.transcript import search_sessions

    found = list(search_sessions(store_at(store), " ".join(query), limit))
    if as_json:
        click.echo(document_text(sessions=[asdict(each) for each in found]))
        return ANSWERED if found else FAILED
    for each in found:
        time_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.changed))
        click.echo(clean(f"{each.name}  {time_text}\n    {each.snippet}"))
    if not found:
        print_note("No session contains these words. To list all: agentkit sessions list")
    return ANSWERED if found else FAILED


@sessions.command("prune", short_help="Delete sessions that have not changed for some time.")
@click.option("--older-than", "age", required=True, metavar="AGE", help="The age of the last change: 12h, 30d, 8w.")
@STORE
@click.option("-y", "--yes", is_flag=True, help="Delete without confirmation.")
@click.option("--dry-run", is_flag=True, help="List the sessions, and delete none.")
def prune(*, age: str, store: str | None, yes: bool, dry_run: bool) -> int:
    """Delete the sessions that did not change for AGE. At a terminal you are asked first."""
    from agentkit.event_rendering import count_text
    from agentkit.sessions.session import Session

    before = time.time() - _parse_age(age)
    old = [each for each in Session.summaries(store) if each.changed < before]
    for each in old:
        click.echo(clean(f"{time.strftime('%Y-%m-%d', time.localtime(each.changed))}  {each.name}"), err=True)
    if not old or dry_run:
        print_note(
            f"{count_text(len(old), 'session')} have not changed for {age}{'; none was deleted' if old else ''}."
        )
        return ANSWERED
    if not yes and not _is_confirmed(f"Delete {count_text(len(old), 'session')}?"):
        print_note("Nothing was deleted.")
        return INTERRUPTED
    for each in old:
        Session.open(store, each.name).delete()
    print_note(f"Deleted: {count_text(len(old), 'session')}.")
    return ANSWERED


_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}


def _parse_age(age: str) -> float:
    """Parse an age such as 30d. Raises UsageError."""
    number, unit = age[:-1], age[-1:].lower()
    if unit not in _UNITS or not number.isascii() or not number.isdigit() or not int(number):
        raise click.UsageError(f"--older-than takes a number of hours, days or weeks: 12h, 30d, 8w. Got {age!r:.40}.")
    return int(number) * _UNITS[unit]


@sessions.command("show")
@_NAME
@STORE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with every entry.")
def show_session(*, name: str, store: str | None, as_json: bool) -> None:
    """Show the messages and calls of the session NAME."""
    from agentkit.sessions.codec import encode_entry

    session = _session(name, store)
    if as_json:
        click.echo(document_text(name=name, entries=list(map(encode_entry, session.entries))))
    else:
        click.echo(clean(session.show()))


@sessions.command("rename")
@click.argument("old", shell_complete=session_names)
@click.argument("new")
@STORE
def rename_session(*, old: str, new: str, store: str | None) -> None:
    """Rename the session OLD to NEW."""
    _session(old, store).rename(new)
    print_note(f"The session {old!r} is now {new!r}.")


@sessions.command("fork")
@_NAME
@click.argument("new")
@STORE
@click.option("--at", type=WholeNumber(min=0), metavar="N", help="Begin with the first N messages; all by default.")
def fork_session(*, name: str, new: str, store: str | None, at: int | None) -> None:
    """Create the session NEW with the messages of the session NAME."""
    from agentkit.event_rendering import count_text

    fork = _session(name, store).fork(new, at)
    print_note(f"The session {new!r} begins with {count_text(len(fork.messages), 'message')} of {name!r}.")


@sessions.command("export", short_help="Write the session NAME to the new FILE.")
@_NAME
@click.argument("file", type=FILE)
@STORE
def export_session(*, name: str, file: Path, store: str | None) -> None:
    """Write the session NAME to the new FILE, one JSON object per line; `agentkit show FILE` reads it."""
    _session(name, store).export(file)
    print_note(f"Written: {file}")


@sessions.command("import", short_help="Import the session that was exported to FILE.")
@click.argument("file", type=FILE)
@click.argument("name", required=False)
@STORE
def import_session(*, file: Path, name: str | None, store: str | None) -> None:
    """Import the session in FILE under its old name, or as NAME."""
    from agentkit.sessions.session import Session

    session = Session.restore(file, store, name or "")
    print_note(f'Imported. Continue with: agentkit --session {quote_word(session.name)} "..."')


@sessions.command("delete")
@_NAME
@STORE
@click.option("-y", "--yes", is_flag=True, help="Delete without confirmation.")
def delete_session(*, name: str, store: str | None, yes: bool) -> int:
    """Delete the session NAME, for good. At a terminal you are asked first."""
    session = _session(name, store)
    if not yes and not _is_confirmed(f"Delete {session.name!r} with its {len(session.messages)} messages?"):
        print_note("Nothing was deleted.")
        return INTERRUPTED
    session.delete()
    print_note(f"The session {name!r} is deleted.")
    return ANSWERED


def _session(name: str, store: str | None) -> Session:
    """Open an existing session. Raises SessionError if it does not exist."""
    from agentkit.cli.conversations import configured_session

    return configured_session(store, name)


def _is_confirmed(question: str) -> bool:
    """Whether the person at the terminal confirms the deletion. Raises UsageError without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to confirm the deletion. To delete without confirmation, add -y.")
    return click.confirm(question, err=True)


_READABLE = "Pass a file written by --record, --jsonl or agentkit sessions export."


@click.command(short_help="Show a recorded run or an exported session, or write a page.")
@click.argument("file", type=FILE)
@click.option("--html", type=FILE, metavar="OUT", help="Write a self-contained HTML page.")
def show(*, file: Path, html: Path | None) -> None:
    """Show the runs in FILE, a cassette or an exported session: prompts, calls, decisions, changes, money."""
    from agentkit.sessions.transcript import build_transcripts

    header, entries = load_recording(file)
    runs = build_transcripts(entries)
    if html is None:
        from agentkit.cli.export import cost_text, heading
        from agentkit.sessions.transcript import show_text

        click.echo(clean(show_text(heading(header), runs, cost_text)))
        return
    from agentkit.cli.export import page

    with open(html, "w", encoding="utf-8", opener=_open_private) as stream:
        stream.write(page(file.name, header, runs))
    click.echo(clean(f"Written: {html}"), err=True)


def load_recording(file: Path) -> tuple[Data, list[Entry]]:
    """Load the header and entries of a file, without secrets. Raises SessionError that names the readable kinds."""
    from agentkit.errors import SessionError
    from agentkit.sessions.cassettes.file import read_cassette

    try:
        return read_cassette(file, hide=True)
    except SessionError as error:
        raise SessionError(with_remedy(error, _READABLE)) from None


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read, as the cassette is."""
    return os.open(path, flags, 0o600)


_SEE_LIST = "To list the runs that made changes: agentkit undo --list"


@click.command(short_help="Undo the changes of the last run in this folder.")
@click.argument("run", required=False)
@click.option("--list", "as_list", is_flag=True, help="List the runs that made changes, the latest first.")
@click.option("--diff", "as_diff", is_flag=True, help="Show the changes of the run, and undo nothing.")
@click.option("-y", "--yes", is_flag=True, help="Delete without confirmation.")
def undo(*, run: str | None, as_list: bool, as_diff: bool, yes: bool) -> int:
    """Undo the changes of the last run in the current folder, or those of the run with the id RUN in any folder.

    At a terminal you are asked first. Nothing is undone if a file was changed since.
    """
    from agentkit.redaction import redact
    from agentkit.workspace.journal import Journal

    journal = Journal.of_this_machine()
    records = [record for record in reversed(journal.runs()) if record.changes]
    for problem in journal.damaged:
        click.echo(clean(f"Skipped: {problem}"), err=True)
    if as_list:
        click.echo(clean(redact("\n".join(map(_line, records)) or "No run has made changes.")))
        return ANSWERED
    found = _find_record(journal, run) if run else _latest_record(records)
    if found is None:
        return FAILED
    if as_diff:
        click.echo(clean(redact(found.diff)))
        return ANSWERED
    print_note(redact(undo_text(found)))
    if not yes and sys.stdin is not None and sys.stdin.isatty() and not click.confirm("Undo this?", err=True):
        print_note("Nothing was undone.")
        return INTERRUPTED
    click.echo(clean(redact(f"{found.undo()} In {_folder(found)}.")))
    return ANSWERED


_MAX_FILES = 20


def undo_text(record: Record) -> str:
    """The prompt, the time and the files of a record that is about to be undone."""
    from agentkit.event_rendering import count_text, one_line
    from agentkit.workspace.snapshots import merge_changes

    effects = {change.path: _effect(change) for change in merge_changes(record.changes)}
    time_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.started))
    lines = [f"{time_text}  {one_line(record.label)}"]
    lines += [f"  {effect:<8} {path}" for path, effect in list(effects.items())[:_MAX_FILES]]
    omitted = len(effects) - _MAX_FILES
    return "\n".join([*lines, *([f"  and {count_text(omitted, 'more file')}"] if omitted > 0 else [])])


def _effect(change: FileChange) -> str:
    if change.before.kind == "absent":
        return "created"
    return "deleted" if change.after.kind == "absent" else "changed"


def _find_record(journal: Journal, run: str) -> Record:
    """The record of the run with that id. Raises ToolError that says where to find the ids."""
    from agentkit.errors import ToolError

    try:
        return journal.find(run)
    except ToolError as error:
        raise ToolError(f"{error} {_SEE_LIST}") from None


def _latest_record(records: list[Record]) -> Record | None:
    """The last run in the current folder that can be undone; prints an explanation if it returns None."""
    current_folder = os.path.realpath(os.curdir)
    open_records = [record for record in records if not record.is_undone]
    found = next((record for record in open_records if _folder(record) == current_folder), None)
    if found is None:
        text = f"There is nothing to undo in {current_folder}.\n{_SEE_LIST}"
        if open_records:
            text += f"\nThe latest run elsewhere: agentkit undo {open_records[0].id} (in {_folder(open_records[0])})."
        click.echo(text, err=True)
    return found


def _folder(record: Record) -> str:
    return next(change.root for change in record.changes)


def _line(record: Record) -> str:
    state = "undone" if record.is_undone else f"{len(record.changes)} changed"
    time_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.started))
    return f"{record.id}  {time_text}  {state}  {_folder(record)}  {record.label}"


_REPLAY_EXAMPLES = """\b
Examples:
  agentkit replay trip.cassette  play the recorded runs
  agentkit replay trip.cassette program.py
      run a program on the recorded answers
"""


@click.command(
    short_help="Replay a recorded run, or run a program on it.",
    epilog=_REPLAY_EXAMPLES,
    context_settings={"allow_interspersed_args": False},
)
@click.argument("file", type=FILE)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM ARGUMENT...]")
@click.option("--partial", is_flag=True, help="Allow unused recorded answers.")
def replay(*, file: Path, program: tuple[str, ...], partial: bool) -> None:
    """Play the runs in FILE; or run the Python file PROGRAM, with the answers of models, tools and people in FILE.

    The program uses no network through agentkit and needs no key. A request that was not recorded is an error.
    """
    if not program:
        _play(file)
        return
    from agentkit.testing.scripted_llm import replay as replayed

    if not Path(program[0]).is_file():
        raise click.UsageError(f"The program {program[0]!r} does not exist. Name a Python file.")
    try:
        with replayed(file, partial=partial):
            _run_program(program)
    except (AgentKitError, click.exceptions.Exit):
        raise
    except Exception as error:
        _print_traceback(error, program[0])
        raise click.exceptions.Exit(FAILED) from error


def _print_traceback(error: Exception, program: str) -> None:
    """Print the program's exception as Python does, starting at the program's first frame."""
    import traceback

    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != program:
        frames = frames.tb_next
    click.echo("".join(traceback.format_exception(error.with_traceback(frames))).rstrip(), err=True)


def _run_program(program: tuple[str, ...]) -> None:
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
    from agentkit.sessions.transcript import build_transcripts

    _, entries = load_recording(file)
    for run in build_transcripts(entries):
        _play_run(run)


def _play_run(run: RunTranscript) -> None:
    """Print the answer on stdout and everything before it on stderr, as `ask` does."""
    from agentkit.cli.display import call_line
    from agentkit.event_rendering import content_text
    from agentkit.events import ResponseReceived, ToolCallFinished
    from agentkit.sessions.transcript import CallTranscript, content_of

    prompt = "…" if run.prompt is None else content_text(run.prompt, "\n")
    click.echo(clean(f"> {prompt}"), err=True)
    for step in run.steps:
        if isinstance(step, CallTranscript):
            if step.result is not None:
                result = replace(step.result, value=content_of(step.result.content))
                click.echo(f"  {call_line(ToolCallFinished(step.call, result))}", err=True)
        elif isinstance(step.event, ResponseReceived):
            if step.event.response.text:
                click.echo(clean(step.event.response.text))
        else:
            description = step.event.describe()
            click.echo(clean("  " + ": ".join(filter(None, (description.title, description.text)))), err=True)
    if run.end is not None and run.end.changes:
        click.echo(clean(run.end.changes), err=True)
