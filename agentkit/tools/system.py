"""System tools: shell commands and Python code, in the sandbox."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Label, SafetyLevel, Verdict
from agentkit.errors import SandboxError, ToolError
from agentkit.git import repository as git_repository
from agentkit.git.repository import Repository
from agentkit.git.settings import programs_in
from agentkit.messages import ToolMessage, calls_in
from agentkit.safety.approval import CallPreview
from agentkit.safety.paths import HOME
from agentkit.sandbox.git_access import create_missing_settings, repository_of, search
from agentkit.sandbox.isolation import check_isolation, uses_docker
from agentkit.sandbox.process import DEFAULT, Confinement, ProcessOutcome, bash_can_parse, command_boundary, run_command
from agentkit.sandbox.python import PYTHON_LIMITS, PythonOutcome, PythonSession, python_boundary, run_python
from agentkit.sandbox.secret_search import survey
from agentkit.sandbox.watchdog import MEGABYTE, Cancellation, ProcessLimits, run_cancellable
from agentkit.settings import state_folder
from agentkit.tooling.run_context import CONTEXT, RunContext
from agentkit.tooling.tool import Tool
from agentkit.tools.core import denial_handler
from agentkit.workspace.root import Root
from agentkit.workspace.snapshots import State
from agentkit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from agentkit.safety.shell import Judgment

NOT_RUN = "none: it was not run"
"""The boundary reported for a command that was not run."""
_EVIDENCE_CHARS = 200
_MAX_LISTED = 10
_FILE_CHANGES = ("shell.writes", "shell.undoable")
"""The rules of commands that change nothing but files of the workspace."""
_MOVED_REFS = (
    "It moved or deleted {}, which was restored: other branches and tags can be changed only by a command that a "
    "person has approved."
)
_LOST_OBJECTS = (
    "It deleted objects of the git repository {0} ({1:,} files of {0}/objects): commits and files stored in git are "
    "gone, and undo cannot restore them."
)
_GIT = re.compile(r"\bgit\b")
_MAX_RESTORABLE = 1_000
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w.+-]*)[^`\n]*")
_PYTHON = frozenset({"", "python", "python3", "py", "ipython"})
_LONG_STRINGS = ('"""', "'''")
_STATEFUL = "Variables, functions\nand imports of earlier calls are there, unless a result says that they are lost."
_VARIABLES_KEPT = "All variables remain, including those assigned before the error."
_VARIABLES_LOST = (
    "All variables, functions and imports of this and of earlier calls are lost: define again what you need."
)
_VARIABLES_LOST_BEFORE = "This call began without the variables, functions and imports of earlier calls: they are lost."
_NOT_IN_DOCKER = (
    "run_python cannot keep variables between calls in a Docker container, which runs one call and is removed."
)
_REMEDY = "Run it on Linux with user namespaces, Landlock and seccomp, or approve it."


def shell_tool_in(workspace: Workspace | str | Path, confinement: Confinement = DEFAULT) -> Tool[..., dict[str, Any]]:
    """Create the tool `run_shell` for a workspace, or for a folder. Raises ConfigError if the folder does not exist.

    With network access, its results are labelled as untrusted.
    """
    space = workspace if isinstance(workspace, Workspace) else Workspace.for_direct_calls(workspace)
    shell = _Shell(space, confinement)
    tool = Tool(
        shell.run_shell,
        asynchronous=shell.arun_shell,
        level=SafetyLevel.SYSTEM,
        timeout_seconds=None,
        judge=_ShellJudge(shell),
        labels={Label.PRIVATE, Label.UNTRUSTED} if confinement.network else {Label.PRIVATE},
        within=lambda other: shell_tool_in(other, confinement),
        when_denied=denial_handler("command"),
    )
    if confinement == DEFAULT:
        return tool
    seconds = f"after {confinement.limits.timeout_seconds:g} seconds"
    network = {"and has no network": "and may use the network"} if confinement.network else {}
    return _with_description_changes(tool, {"after 30 seconds": seconds, **network})


@dataclass(frozen=True, slots=True)
class _Shell:
    """Judges and runs commands in a workspace, recording their changes.

    `restorable` are the commands that were last allowed because their deletions can be undone.
    """

    workspace: Workspace
    confinement: Confinement
    searches: dict[str, str] = field(default_factory=dict)
    """The reason why the last search of a folder for secrets was incomplete, or ""; absent for other folders."""
    restorable: set[str] = field(default_factory=set)
    """Commands that were allowed because the journal can restore what they delete."""

    def run_shell(self, command: str) -> dict[str, Any]:
        """Run a command line with bash in the workspace folder, and return what it printed.

        The command gets no input and has no network. It may read the system's programs and write in the workspace
        and in /tmp, which is empty at each call; homes, keys and .env files are hidden. It is ended, with everything
        it started, after 30 seconds. Each call starts in the workspace folder: join steps with &&. Prefer the tools
        that read, write and list files for doing just that.

        Args:
            command: The command line, for example "grep -rn import src | head -20".

        Returns:
            command, output (stdout and stderr as they came), stdout, stderr, return_code (0 means success), status,
            truncated (whether the middle of a long output was left out), seconds, and boundary (what kept the
            command from the rest of the machine); or command, error and the output so far when it was ended.
        """
        return self._run(command) if command.strip() else _NO_COMMAND | {"command": command}

    async def arun_shell(self, command: str) -> dict[str, Any]:
        """Like `run_shell`, asynchronously; cancelling it kills the command."""
        if not command.strip():
            return _NO_COMMAND | {"command": command}
        return await run_cancellable(lambda cancellation: self._run(command, cancellation))

    def judge(self, arguments: Mapping[str, Any]) -> Decision:
        """Judge the parsed command: commands that are not understood need approval, destruction is denied."""
        command = arguments["command"]
        try:
            boundary = command_boundary(self.confinement)
            boundary.require(self.confinement.isolation)
        except SandboxError as error:
            return _isolation_denial("shell", error)
        decision = self._decide(command, contained=boundary.is_strong)
        if decision.allowed and not boundary.is_strong and _GIT.search(command):
            decision = _ask_about_programs(decision, programs_in(self.workspace.folder))
        if self.workspace.dry_run and not boundary.is_strong and not _only_reads(decision):
            reason = "A dry run must not change anything, and no sandbox confines the command on this machine."
            return Decision(Verdict.DENY, "shell.dry-run", reason, command[:_EVIDENCE_CHARS], _REMEDY)
        folder = self.workspace.folder
        if folder not in self.searches:
            hidden = (*self.confinement.hidden, str(state_folder()))
            self.searches[folder] = search(folder, repository_of(folder, hidden)).incomplete_because
        unsearched = self.searches[folder]
        if unsearched and decision.allowed:
            reason = f"Secrets in the workspace may stay readable, because {unsearched}."
            evidence = command[:_EVIDENCE_CHARS]
            return Decision(Verdict.ASK, "shell.unsearched", reason, evidence, "Choose a smaller folder as workspace.")
        return decision

    def _run(self, command: str, cancellation: Cancellation | None = None) -> dict[str, Any]:
        """Run a command; without write access if it only reads, or in a dry run."""
        folder, is_dry = self.workspace.folder, self.workspace.dry_run
        judgment = self.judgment(command, contained=True)
        decision = judgment.decision
        reads = _only_reads(decision)
        hidden = (*self.confinement.hidden, str(state_folder()))
        repository = repository_of(folder, hidden)
        writable = self.confinement.writable and not (reads or is_dry)
        confinement = replace(self.confinement, writable=writable, hidden=hidden)
        notes = ["This was a dry run: no file could be written."] if is_dry and not reads else []
        permitted = _permit_named(command) if not decision.allowed else _permit_nothing
        outcome = None
        try:
            with self._record_changes(command, judgment, repository if writable else None, records=writable) as remarks:
                before = git_repository.read_refs(repository) if repository and writable and decision.allowed else None
                outcome = run_command(
                    command,
                    folder,
                    confinement,
                    cancellation,
                    permitted=permitted,
                    searched=self.searches.get(folder) == "",
                )
                if repository and before:
                    notes += _restore_refs(repository, before, confinement)
            self._record_removed(outcome)
            notes += remarks
        except SandboxError as error:
            self.searches.pop(folder, None)  # the next judgment searches it again
            return {"command": command, "error": str(error), "status": "failed", "boundary": NOT_RUN}
        except ToolError as error:
            if outcome is None:
                raise
            notes.append(f"Its changes could not be recorded, so they cannot be undone: {error}")
        if folder in self.searches:
            self.searches[folder] = outcome.incomplete_because
        result = _command_result(command, outcome)
        notes += [*_created_notes(outcome), *_git_hints(outcome, repository, folder)]
        return result | {"note": " ".join(notes)} if notes else result

    def _decide(self, command: str, *, contained: bool) -> Decision:
        from agentkit.safety.shell import confirm_judgment

        judgment = self.judgment(command, contained=contained)
        decision = confirm_judgment(
            judgment,
            command,
            agrees=bash_can_parse,
            unrestorable=self.workspace.unrestorable,
            ambiguous_name=self.workspace.ambiguous_name,
        )
        if judgment.destroyed and decision.allowed:
            if len(self.restorable) >= _MAX_RESTORABLE:
                self.restorable.pop()
            self.restorable.add(command)
        else:
            self.restorable.discard(command)
        return decision

    @contextmanager
    def _record_changes(
        self, command: str, judgment: Judgment, repository: Repository | None, *, records: bool
    ) -> Iterator[list[str]]:
        """Record the changes of the command, unless it cannot write.

        A command that was allowed because its deletions can be undone is not run if they no longer can. Yields a list
        of the changes that cannot be undone, which is complete at the end.
        """
        if not records:
            yield []
            return
        undoable = judgment.destroyed if command in self.restorable else ()
        folder = repository.common_dir if repository else None
        if repository:  # before the first look, so that these files do not count as the command's
            create_missing_settings(repository)
        before = git_repository.read_objects(repository) if repository else None
        with self.workspace.observing(
            "run_shell", undoable, judgment.destroyed | judgment.touched, repository=folder
        ) as remarks:
            yield remarks
        if repository and before:
            lost = git_repository.count_lost(before, git_repository.read_objects(repository))
            remarks += [_LOST_OBJECTS.format(repository.common_dir, lost)] if lost else []

    def _record_removed(self, outcome: ProcessOutcome) -> None:
        """Record the contents of configuration files that were removed after the command."""
        removed = [
            (each.path, State.of("link" if each.is_link else "file", each.content, each.mode))
            for each in outcome.created.contents
            if each.content is not None
        ]
        if removed:
            self.workspace.record_removed(removed, "run_shell")

    def judgment(self, command: str, *, contained: bool) -> Judgment:
        """Return the judgment of a command, cached between the decision on a call and its execution."""
        folder = self.workspace.folder
        undoable = contained and self.confinement.writable and not self.workspace.dry_run
        exposed = () if contained else tuple(survey(folder).hidden)
        return _cached_judgment(
            command, folder, exposed, contained=contained, network=self.confinement.network, undoable=undoable
        )


@lru_cache(maxsize=128)
def _cached_judgment(
    command: str, folder: str, exposed: tuple[str, ...], *, contained: bool, network: bool, undoable: bool
) -> Judgment:
    """Return the judgment of a command, cached by the facts it depends on."""
    from agentkit.safety.shell import examine_command

    return examine_command(
        command, workspace=folder, contained=contained, network=network, exposed=exposed, undoable=undoable
    )


_NO_COMMAND = {
    "error": "The command is empty. Pass a command.",
    "status": "failed",
    "boundary": NOT_RUN,
}


@dataclass(frozen=True, slots=True)
class _ShellJudge:
    """The judge of `run_shell`, which also provides the paths that an approval is bound to."""

    shell: _Shell

    def __call__(self, arguments: Mapping[str, Any]) -> Decision:
        """Return the decision on a call."""
        return self.shell.judge(arguments)

    def touched(self, arguments: Mapping[str, Any]) -> tuple[Iterable[str], Iterable[str]]:
        """Return the paths that the command names, and the scripts among them."""
        judgment = self.shell.judgment(arguments["command"], contained=True)
        return judgment.places, judgment.scripts

    def preview(self, arguments: Mapping[str, Any]) -> CallPreview:
        """Predict the files that the command reads, changes and runs, as far as its text names them."""
        judgment = self.shell.judgment(arguments["command"], contained=True)
        decision, folder = judgment.decision, self.shell.workspace.folder
        changed = {_relative(each, folder) for each in judgment.touched | judgment.destroyed}
        run = {_relative(each, folder) for each in judgment.scripts}
        read = {_relative(each, folder) for each in judgment.places} - changed - run
        effects = (("runs", run), ("reads", read), ("changes", changed))
        summary = [f"{verb}: {_join_names(names)}" for verb, names in effects if names]
        is_confined = decision.allowed and decision.rule in _FILE_CHANGES and not decision.egress
        effect = [decision.reason] if decision.allowed else []
        return CallPreview((*effect, *summary), is_confined=is_confined)


def _relative(path: str, folder: str) -> str:
    path = path.removeprefix(f"{folder}/").removesuffix("/")
    return "files that it does not name" if path == "**/*" else path.replace(HOME, "~", 1)


def _join_names(names: Collection[str]) -> str:
    """The first names in alphabetical order, and the number of the others."""
    first = ", ".join(sorted(names)[:_MAX_LISTED])
    return f"{first} and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else first


def _permit_nothing(_: str) -> bool:
    return False


def _permit_named(command: str) -> Callable[[str], bool]:
    """Return a function that checks whether an approved command names a configuration file that it creates."""

    def is_named(path: str) -> bool:
        name = path.rpartition("/")[2]
        return path in command or re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", command) is not None

    return is_named


def _created_notes(outcome: ProcessOutcome) -> list[str]:
    created = outcome.created
    notes = []
    if created.removed:
        notes.append(
            f"It created {_join_names(created.removed)}, which other programs run or obey later. "
            "These files were removed. Use write_file, which asks the user, if they are wanted."
        )
    if created.left:
        notes.append(f"It created {_join_names(created.left)}, which other programs run or obey later.")
    if outcome.appeared:
        names = _join_names(outcome.appeared)
        notes.append(f"Files with secrets appeared while it ran: {names}. The output is without the values in them.")
    if outcome.incomplete_because:
        notes.append(f"Not all of the workspace was searched for secrets and settings: {outcome.incomplete_because}.")
    return notes


def _ask_about_programs(decision: Decision, programs: list[str]) -> Decision:
    """Require approval for a git command outside a sandbox, if git would run other programs."""
    if not programs:
        return decision
    reason = f"Git would run programs here, and no sandbox confines them here: {', '.join(programs[:5])}."
    return Decision(
        Verdict.ASK, "shell.git-programs", reason, decision.evidence, _REMEDY, SafetyLevel.SYSTEM, egress=True
    )


def _restore_refs(repository: Repository, before: git_repository.Refs, confinement: Confinement) -> list[str]:
    """Restore other branches and tags that an unapproved command has moved or deleted.

    A fast-forward loses nothing and is left in place. Returns notes for the model.
    """
    lost = {}
    for name, (old, new) in git_repository.moved_refs(before, git_repository.read_refs(repository)).items():
        if not (
            git_repository.is_object(old)
            and git_repository.is_object(new)
            and _is_ancestor(old, new, repository, confinement)
        ):
            lost[name] = old
    root, restored = Root(repository.common_dir), []
    for name, old in lost.items():
        try:
            for folder in root.missing_folders(name)[1]:
                root.make_folder(folder)
            root.write(name, f"{old}\n".encode())
            restored.append(name)
        except ToolError as error:
            restored.append(f"{name} (not put back: {error})")
    return [_MOVED_REFS.format(", ".join(restored))] if restored else []


def _is_ancestor(old: str, new: str | None, repository: Repository, confinement: Confinement) -> bool:
    """Whether one commit is an ancestor of another, as reported by git in the sandbox; False if git fails."""
    command = f"GIT_NO_REPLACE_OBJECTS=1 git -c core.commitGraph=false merge-base --is-ancestor {old} {new}"
    read_only = replace(confinement, writable=False, network=False)
    with suppress(SandboxError):
        return run_command(command, repository.top, read_only).return_code == 0
    return False


def _git_hints(outcome: ProcessOutcome, repository: Repository | None, folder: str) -> list[str]:
    """Return hints for git failures caused by the sandbox."""
    hints = []
    if "Please tell me who you are" in outcome.stderr:
        hints.append("The user's git configuration has no name and e-mail address; ask the user to set them.")
    if outcome.return_code and "config file" in outcome.stderr and repository:
        hints.append("Commands cannot change the settings of a repository; ask the user to run this one.")
    elif outcome.return_code and "Device or resource busy" in outcome.stderr and repository:
        hints.append("A hidden file differs between the two versions, and no command can replace it.")
    if outcome.return_code and "Read-only file system" in outcome.stderr and repository and repository.top != folder:
        hints.append(f"The repository extends beyond the workspace, up to {repository.top}, which is read-only.")
    return hints


def _only_reads(decision: Decision) -> bool:
    return decision.allowed and decision.level is SafetyLevel.NETWORK


def python_tool_with(
    sandbox: str = "auto", limits: ProcessLimits = PYTHON_LIMITS, *, stateful: bool = False
) -> Tool[..., dict[str, Any]]:
    """Create the tool `run_python` with an isolation mode (auto, required, off) and limits. Raises ConfigError.

    With `stateful`, code sees the variables of earlier calls of the same run. They are in one worker process, which
    is ended with the run. Direct calls, which belong to no run, start without variables. It needs the kernel sandbox:
    a Docker container runs one call.
    """
    check_isolation(sandbox)
    python = _Python(sandbox, limits, stateful)
    tool = Tool(
        python.run_python,
        asynchronous=python.arun_python,
        level=SafetyLevel.SYSTEM,
        timeout_seconds=None,
        judge=python.judge,
        labels=(),
        when_denied=denial_handler("code"),
    )
    if limits == PYTHON_LIMITS and not stateful:
        return tool
    memory = f"{limits.memory_bytes // MEGABYTE:,} MB"
    texts = {"after 10 seconds": f"after {limits.timeout_seconds:g} seconds", "512 MB": memory}
    if stateful:
        texts |= {"The code knows\nnothing of earlier calls.": _STATEFUL}
    return _with_description_changes(tool, texts)


def _with_description_changes(tool: Tool[..., dict[str, Any]], texts: Mapping[str, str]) -> Tool[..., dict[str, Any]]:
    """Adapt the limits in the description of a tool to its own."""
    description = tool.description
    for usual, own in texts.items():
        description = description.replace(usual, own)
    return tool.described(description)


@dataclass(frozen=True, slots=True)
class _Python:
    """Judges and runs code in isolation."""

    sandbox: str
    limits: ProcessLimits
    stateful: bool

    def run_python(self, code: str) -> dict[str, Any]:
        """Run Python code to compute something, and return what it printed.

        Print what you want to see; the value of a last line that is an expression is shown as well. The code knows
        nothing of earlier calls. Available are the language itself, including classes, dataclasses and generators,
        and modules that compute, such as math, statistics, decimal, fractions, random, datetime, calendar, re, json,
        csv, string, textwrap, collections, itertools, functools, heapq, bisect, dataclasses, enum, typing, hashlib
        and base64. Files, network, other processes, input() and other packages are not available. It is
        ended after 10 seconds, or when it wants more than 512 MB.

        Args:
            code: The Python code, of at most 100,000 bytes.

        Returns:
            code, output, status, truncated, seconds, and boundary (what kept the code from the rest of the machine);
            or code, error (with its line, and a hint what to write instead) and the output so far.
        """
        return self._run(code, CONTEXT.get())

    async def arun_python(self, code: str) -> dict[str, Any]:
        """Like `run_python`, asynchronously; cancelling it kills the process."""
        context = CONTEXT.get()
        return await run_cancellable(lambda cancellation: self._run(code, context, cancellation))

    def judge(self, _: Mapping[str, Any]) -> Decision:
        """Allow any code within a strong boundary, where it can do no harm; ask within a weaker one."""
        try:
            if self.stateful and self.sandbox != "off" and uses_docker():
                return Decision(Verdict.DENY, "python.stateful", _NOT_IN_DOCKER, remedy="Use the kernel sandbox.")
            boundary = python_boundary() if self.sandbox != "off" else python_boundary(frozenset())
            boundary.require(self.sandbox)
        except SandboxError as error:
            return _isolation_denial("python", error)
        if boundary.is_strong:
            reason = f"The code runs isolated: {boundary.describe()}."
            return Decision(Verdict.ALLOW, "python.sandboxed", reason, level=SafetyLevel.NETWORK)
        missing = ", ".join(boundary.missing)
        reason = f"The code would be confined only by the language guard and {boundary.describe()}; missing: {missing}."
        return Decision(Verdict.ASK, "python.uncontained", reason, remedy=_REMEDY)

    def _run(
        self, code: str, context: RunContext[Any] | None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        plain, resources = _strip_fences(code), None if context is None else context.resources
        try:
            if self.stateful and context is not None and resources is not None:
                session = resources.opened(self, lambda: PythonSession(self.sandbox, self.limits))
                return self._run_in(session, code, context, cancellation)
            outcome = run_python(plain, sandbox=self.sandbox, limits=self.limits, cancellation=cancellation)
        except SandboxError as error:
            lost = {"variables": "lost"} if self.stateful else {}
            return {"code": code, "error": str(error), "status": "failed", "boundary": NOT_RUN} | lost
        return code_result(code, outcome)

    def _run_in(
        self, session: PythonSession, code: str, context: RunContext[Any], cancellation: Cancellation | None
    ) -> dict[str, Any]:
        """Run code with the variables of earlier calls; the result states whether they are lost."""
        lost_before = not session.has_variables and _is_later_call(context)
        outcome = session.run(_strip_fences(code), cancellation)
        result = code_result(code, outcome)
        if "error" in result:
            note = _VARIABLES_KEPT if outcome.variables == "kept" else _VARIABLES_LOST
            result["error"] = f"{result['error']}\n{note}"
        if lost_before:
            result["note"] = _VARIABLES_LOST_BEFORE
        return result | {"variables": outcome.variables}


def _is_later_call(context: RunContext[Any]) -> bool:
    """Whether the conversation has the result of an earlier call of the same tool."""
    name = next((call.name for call in calls_in(reversed(context.messages)) if call.id == context.call), None)
    return any(isinstance(message, ToolMessage) and message.name == name for message in context.messages)


def _strip_fences(code: str) -> str:
    """The code of fenced Markdown blocks, also in prose, with the same line numbers; other code unchanged.

    Outside of a long string, a fence is never valid Python.
    """
    blocks: list[str] = []
    outside: list[str] = []
    fence, is_python = "", False
    for line in code.split("\n"):
        found = _FENCE.fullmatch(line.rstrip())
        was_inside = fence != ""
        if not was_inside and found:
            fence, is_python = found[1], found[2].lower() in _PYTHON
        elif found and not found[2] and found[1].startswith(fence):
            fence = ""
        elif not was_inside:
            outside.append(line)
        blocks.append(line if was_inside and fence and is_python else "")
    is_quoted = any(mark in line for line in outside for mark in _LONG_STRINGS)
    return code if is_quoted or not any(map(str.strip, blocks)) else textwrap.dedent("\n".join(blocks))


def _isolation_denial(tool: str, error: SandboxError) -> Decision:
    return Decision(Verdict.DENY, f"{tool}.isolation-required", str(error), remedy='Use isolation="auto".')


def _command_result(command: str, outcome: ProcessOutcome) -> dict[str, Any]:
    ending = {"error": outcome.error} if outcome.error else {"return_code": outcome.return_code}
    return {
        "command": command,
        **ending,
        "output": outcome.output,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        **_common_fields(outcome),
    }


def code_result(code: str, outcome: PythonOutcome) -> dict[str, Any]:
    """Build the tool result for code that was run."""
    shown = f"{outcome.value}\n" if outcome.value else ""
    gap = "\n" if shown and outcome.output and not outcome.output.endswith("\n") else ""
    ending = {"error": outcome.error} if outcome.error else {}
    return {"code": code, **ending, "output": outcome.output + gap + shown, **_common_fields(outcome)}


def _common_fields(outcome: ProcessOutcome | PythonOutcome) -> dict[str, Any]:
    """Return status, duration and boundary, common to both tools."""
    return {
        "status": "truncated" if outcome.truncated and outcome.status == "ok" else outcome.status,
        "truncated": outcome.truncated,
        "seconds": round(outcome.seconds, 3),
        "boundary": outcome.boundary.describe(),
    }


shell_tool = shell_tool_in(Workspace.for_direct_calls())
python_tool = python_tool_with()
