"""Approvals that are stored between runs, the approver of the command line, and `agentkit approvals`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
import time
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import click

from agentkit._dataclass import dataclass
from agentkit.atomic_write import store
from agentkit.cli.options import JSON, DefaultGroup
from agentkit.cli.terminal import ANSWERED, StatusLine, clean, document_text, line_text, print_note
from agentkit.decisions import Verdict
from agentkit.errors import AgentKitError, ConfigError
from agentkit.safety.approval import NOBODY, WORDS, Approval, ApprovalRequest, Approver, ApproverReply, Grant, Grants
from agentkit.safety.rules import Rule
from agentkit.settings import state_folder

STORED_NOTE = "stored; to revoke it: agentkit approvals"
"""How long an approval applies that is stored in the state folder."""


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """A stored approval: its id, the time in seconds since 1970, and the calls that it covers."""

    id: str
    created: float
    tool: str
    where: Mapping[str, Any]
    rule: str
    folder: str
    bound: Mapping[str, str]
    free: tuple[str, ...] = ()

    @property
    def grant(self) -> Grant:
        """The approval as a grant."""
        rule = Rule(Verdict.ALLOW, self.tool, dict(self.where))
        return Grant(rule, self.rule, self.folder, dict(self.bound), frozenset(self.free))

    @property
    def calls(self) -> str:
        """The calls that it covers, on one line."""
        tests = [f"{name}={_format_test(test)}" for name, test in self.where.items()]
        return line_text(f"{self.tool}({', '.join([*tests, *(f'{name}=…' for name in self.free)])})", 200)


def _format_test(test: Any) -> str:
    if isinstance(test, Mapping) and list(test) == ["words"]:
        return json.dumps(" ".join([*test["words"], "*"]), ensure_ascii=False)
    values = list(test.values()) if isinstance(test, Mapping) else [test]
    return json.dumps(values[0] if len(values) == 1 else test, ensure_ascii=False)


class StoredApprovals:
    """The approvals in a file of the state folder that only its owner can read."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or state_folder() / "approvals.json"

    def load(self) -> list[StoredApproval]:
        """The stored approvals, oldest first; none if the file is missing. Raises ConfigError if it is damaged."""
        try:
            stored = json.loads(self.path.read_bytes())
            return [StoredApproval(**each) for each in stored]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise ConfigError(
                f"The stored approvals in {self.path} cannot be read: {error}. Delete the file to revoke them."
            ) from None

    def covers(self, request: ApprovalRequest) -> bool:
        """Whether a stored approval covers the call; a damaged file covers nothing."""
        try:
            return any(each.grant.covers(request) for each in self.load())
        except AgentKitError:
            return False

    def add(self, request: ApprovalRequest, answer: Approval = Approval.ALWAYS) -> None:
        """Store an approval of the calls that are like this one. Raises ConfigError if it cannot be written."""
        grant, number = Grant.of(request, answer), os.urandom(3).hex()
        where = {} if grant.pattern is None else dict(grant.pattern.where)
        free = tuple(sorted(grant.free))
        approval = StoredApproval(number, time.time(), request.tool, where, grant.rule, grant.folder, grant.bound, free)
        self._store([*self.load(), approval])

    def revoke(self, names: tuple[str, ...]) -> int:
        """Delete the approvals with these ids, or all without ids, and return their number. Raises ConfigError."""
        known = self.load()
        unknown = set(names) - {each.id for each in known}
        if unknown:
            raise ConfigError(f"No approval has the id {min(unknown)!r}. To list them: agentkit approvals")
        remaining = [each for each in known if names and each.id not in names]
        self._store(remaining)
        return len(known) - len(remaining)

    def _store(self, approvals: list[StoredApproval]) -> None:
        try:
            store(self.path, json.dumps([asdict(each) for each in approvals], ensure_ascii=False, indent=1))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.path} cannot be written: {error}.") from None


_STORED_ANSWERS = (Approval.ALWAYS, Approval.PATTERN)


class CommandApprover:
    """Answers with approvals given earlier, else asks; without `ask`, calls that were not approved are denied.

    `stored` stores the answer "always"; without it, that answer applies until the program ends.
    """

    def __init__(self, ask: Approver | None, stored: StoredApprovals | None) -> None:
        self._ask, self._stored = ask, stored
        self._grants = Grants()
        self._lock, self._interrupts = threading.Lock(), 0

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders in which all changes of files are approved."""
        return tuple(dict.fromkeys(grant.folder for grant in self._grants.lasting if grant.pattern is None))

    def revoke(self) -> None:
        """Revoke the approvals that apply until the program ends."""
        self._grants.lasting.clear()

    def __call__(self, request: ApprovalRequest) -> Any:
        """Return the answer to a request. Calls in several threads are asked about one after another.

        After KeyboardInterrupt, those that wait for their turn raise it too: the person has stopped the run.
        """
        interrupts = self._interrupts
        with self._lock:
            if interrupts != self._interrupts:
                raise KeyboardInterrupt
            if self._grants.applied(request).allowed or (self._stored is not None and self._stored.covers(request)):
                return Approval.ONCE
            if self._ask is None:
                return Approval.LATER if request.decision.rule == WORDS else NOBODY
            try:
                answer = self._ask(request)
            except KeyboardInterrupt:
                self._interrupts += 1
                raise
            if isinstance(answer, Approval) and answer in (*_STORED_ANSWERS, Approval.WORKSPACE):
                self._store(request, answer)
            return answer

    def _store(self, request: ApprovalRequest, answer: Approval) -> None:
        self._grants.enter(request, answer)
        if answer in _STORED_ANSWERS and self._stored is not None:
            try:
                self._stored.add(request, answer)
            except AgentKitError as error:
                print_note(f"The approval applies until the program ends, but could not be stored: {error}", "yellow")


class TerminalApproval:
    """Asks at the terminal, after clearing the status line; Ctrl-C postpones the answer if the run can wait."""

    def __init__(self, ask: Approver, status: StatusLine, *, can_wait: bool) -> None:
        self._approver, self._status, self._can_wait = ask, status, can_wait

    def __call__(self, request: ApprovalRequest) -> ApproverReply | Awaitable[ApproverReply]:
        """Return the person's answer. Raises KeyboardInterrupt if the question cannot be postponed."""
        with self._status.turn:
            self._status.clear()
            try:
                return self._approver(request)
            except KeyboardInterrupt:
                click.echo(err=True)
                if self._can_wait:
                    return Approval.LATER
                raise


class InterruptibleInput:
    """Lines of a terminal, read in any thread; Ctrl-C ends the read.

    Python raises KeyboardInterrupt in the main thread only, but the calls of a run can be approved in other threads.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._reader, self._writer = os.pipe()
        self._waiting = 0

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The file descriptor of the stream."""
        return self._stream.fileno()

    def readline(self) -> str:
        """Read a line. Raises KeyboardInterrupt for Ctrl-C."""
        if threading.current_thread() is threading.main_thread():
            return self._stream.readline()
        self._waiting += 1
        try:
            ready, _, _ = select.select([self._stream.fileno(), self._reader], [], [])
        finally:
            self._waiting -= 1
        if self._reader in ready:
            os.read(self._reader, 1)
            raise KeyboardInterrupt
        return self._stream.readline()

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """During the block, Ctrl-C ends a read in another thread; if no thread is reading, it is raised as usual."""
        import signal

        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self._waiting:
                os.write(self._writer, b"\0")
            else:
                before(number, frame)

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def edit_text(text: str) -> str | None:
    """Let the person edit a text in their editor; None if it fails or is left unchanged."""
    try:
        return click.edit(text, extension=".json")
    except (click.ClickException, ValueError) as error:
        print_note(f"The editor failed: {error}. Set VISUAL or EDITOR to another one.", "yellow")
        return None


_EXAMPLES = """\b
Examples:
  agentkit approvals
  agentkit approvals revoke 3f9a1c
  agentkit approvals revoke --all
"""


@click.group(cls=DefaultGroup, epilog=_EXAMPLES, short_help="List and revoke the stored approvals.")
def approvals() -> None:
    """List and revoke the approvals that you gave with "always" at a terminal."""


@approvals.command("list", short_help="List the stored approvals, oldest first.")
@JSON
def list_approvals(*, as_json: bool) -> None:
    """List the stored approvals, oldest first, with id, time and folder."""
    stored = StoredApprovals().load()
    if as_json:
        click.echo(document_text(approvals=[asdict(each) for each in stored]))
        return
    for each in stored:
        created_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.created))
        click.echo(clean(f"{each.id}  {created_text}  {each.calls}\n        in {each.folder}"))
    if not stored:
        click.echo("No approval is stored. To store one, answer a question with: a", err=True)


@approvals.command("revoke")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="Revoke all of them.")
def revoke_approvals(*, ids: tuple[str, ...], is_all: bool) -> int:
    """Revoke stored approvals by id, or all with --all."""
    if bool(ids) is is_all:
        raise click.UsageError("Name ids, or use --all. To list the approvals: agentkit approvals")
    from agentkit.event_rendering import count_text

    print_note(f"Revoked: {count_text(StoredApprovals().revoke(ids), 'approval')}.")
    return ANSWERED


def approve_all(_: ApprovalRequest) -> bool:
    """The approver of `-y`."""
    return True


def command_approver(
    status: StatusLine, source: TextIO | None, *, can_wait: bool, stored: StoredApprovals | None, in_workspace: str
) -> CommandApprover:
    """An approver that asks at the terminal `source`; without one, only stored approvals count."""
    if source is None or not source.isatty():
        return CommandApprover(None, stored)
    from agentkit.safety.terminal_approver import TerminalApprover

    duration_note = STORED_NOTE if stored is not None else ""
    ask = TerminalApprover(source, can_wait=can_wait, lasting=duration_note, in_workspace=in_workspace, edit=edit_text)
    return CommandApprover(TerminalApproval(ask, status, can_wait=can_wait), stored)


@contextlib.contextmanager
def one_shot_approver(
    status: StatusLine, *, yes: bool, can_wait: bool, stored: StoredApprovals | None
) -> Iterator[Approver]:
    """The approver of a one-shot command during the block; Ctrl-C at a question works in each thread."""
    if yes:
        yield approve_all
        return
    with contextlib.ExitStack() as stack:
        source: Any = sys.stdin
        if source is not None and source.isatty():
            source = InterruptibleInput(source)
            stack.enter_context(source.interrupts())
        yield command_approver(status, source, can_wait=can_wait, stored=stored, in_workspace="until the run ends")
