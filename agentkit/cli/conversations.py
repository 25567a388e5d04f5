"""The session in which a command runs, and the latest conversation of each folder.

A question that names no session is stored only until the next such question in the same folder, so that `-c` can
continue it; `-c`, `--session` and a pending approval make it a session.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from agentkit.atomic_write import write_whole
from agentkit.cli.terminal import line_text, print_note, quote_word
from agentkit.errors import SessionError
from agentkit.event_rendering import suggestion
from agentkit.sessions.session import Session
from agentkit.sessions.transfer import new_name
from agentkit.settings import state_folder

if TYPE_CHECKING:
    from agentkit.cli.ask_options import AskOptions
    from agentkit.cli.settings import Settings

_START_HINT = 'Start one: agentkit "How much is 17% of 2400?"'
_MAX_FOLDERS, _MAX_NAMES = 1_000, 5_000


def select_session(options: AskOptions, settings: Settings) -> Session | None:
    """The selected session, without a store if nothing is stored; None for a new one.

    Raises UsageError if this folder has no conversation to continue.
    """
    if options.continue_last:
        return latest_session(options.store)
    name = settings.of("session")
    if name is None:
        return None
    if not name:
        return Session()
    session = Session.open(options.store, name)
    record_latest(options.store, name)
    return session


def latest_session(store: str | None) -> Session:
    """The latest conversation of this folder, or of `store`. Raises UsageError without one."""
    index = _load()
    latest = index["folders"].get(_current_folder_key(), {})
    if latest.get("store", "") == (store or ""):
        temporary = _temporary_sessions()
        if not latest.get("name") and temporary:
            return make_permanent(Session.open(_temporary_place(), temporary[0]), store)
        names = [summary.name for summary in Session.summaries(store)]
        if latest.get("name") in names:
            return Session.open(store, latest["name"])
    summaries = Session.summaries(store)
    unassigned = [each.name for each in summaries if store is not None or each.name not in index["names"]]
    if unassigned:  # of a program, in whichever folder
        return Session.open(store, unassigned[0])
    if summaries:
        name = summaries[0].name
        raise click.UsageError(
            f"This folder has no conversation to continue. {_START_HINT}\n"
            f'The latest one elsewhere: agentkit --session {quote_word(name)} "..."'
        )
    raise click.UsageError(f"No conversation can be continued. {_START_HINT}")


def continuation_text(session: Session) -> str:
    """The name of a continued session and its latest prompt, on one line."""
    from agentkit.event_rendering import content_text
    from agentkit.messages import UserMessage

    prompts = [content_text(each.content) for each in session.messages if isinstance(each, UserMessage)]
    return f"Continues {session.name!r}" + (f": {line_text(prompts[-1])}" if prompts else ".")


def temporary_session(question: str) -> Session:
    """The session of a question, stored until the next one in this folder; not stored if that is not possible."""
    store = _temporary_place()
    try:
        Path(store).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in _temporary_sessions():
            with contextlib.suppress(SessionError):  # the question of another process is still running
                Session.open(store, name).delete()
        session = Session.open(store, new_name(question))
        record_latest(None, "")
    except (SessionError, OSError) as error:
        print_note(f"This conversation is not stored: {error}", "yellow")
        return Session()
    return session


def make_permanent(session: Session, store: str | None) -> Session:
    """Make a temporary session permanent and return it. Raises SessionError."""
    if session.store is None:
        return session
    permanent = Session.open(store, session.name)
    if permanent.store is not None:
        permanent.store.create(permanent.name, session.entries)
    session.delete()
    record_latest(store, permanent.name)
    return Session.open(store, permanent.name)


def is_temporary(session: Session) -> bool:
    """Whether a session is stored only until the next question."""
    return session.store is not None and str(getattr(session.store, "path", "")) == _temporary_place()


def new_session(store: str | None, question: str) -> Session:
    """Open a new session for a chat; if the default place is not writable, warn and return one without a store."""
    try:
        session = Session.open(store, new_name(question))
    except SessionError as error:
        if store is not None:
            raise
        print_note(f"This conversation is not stored: {error}", "yellow")
        return Session()
    record_latest(store, session.name)
    return session


def configured_session(store: str | None, name: str, otherwise: str = "") -> Session:
    """Open an existing session. Raises SessionError with the closest name and the hint `otherwise`."""
    names = [summary.name for summary in Session.summaries(store)]
    if name not in names:
        raise SessionError(f"No session is named {name!r}.{suggestion(name, names)}{otherwise}")
    return Session.open(store, name)


def record_latest(store: str | None, name: str) -> None:
    """Store that this session is the latest of this folder; an empty name means the temporary session."""
    latest, index = {"store": store or "", "name": name}, _load()
    folders, names = index["folders"], index["names"]
    if folders.pop(_current_folder_key(), None) == latest:
        return
    folders[_current_folder_key()] = latest
    names = [*names, *([name] if name and name not in names else [])][-_MAX_NAMES:]
    updated = {"folders": dict(list(folders.items())[-_MAX_FOLDERS:]), "names": names}
    try:
        _index().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(_index(), json.dumps(updated))
    except OSError as error:
        print_note(f"-c will not find this conversation: {error}", "yellow")


class _Index(TypedDict):
    """The latest session of each folder, and the names of the sessions that commands have used."""

    folders: dict[str, Mapping[str, str]]
    names: list[str]


def _load() -> _Index:
    try:
        known = json.loads(_index().read_bytes())
        return {"folders": dict(known["folders"]), "names": list(known["names"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {"folders": {}, "names": []}


def _index() -> Path:
    return state_folder() / "latest.json"


def _current_folder_key() -> str:
    return os.path.realpath(os.curdir)


def _temporary_place() -> str:
    folder = hashlib.sha256(_current_folder_key().encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return str(state_folder() / "latest" / f"{folder}.db")


def _temporary_sessions() -> list[str]:
    return [each.name for each in Session.summaries(_temporary_place())] if Path(_temporary_place()).exists() else []
