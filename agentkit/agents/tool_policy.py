"""Policy decisions about tool calls, what approvals are bound to, and the locations of paths in arguments."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.agents.guardrails import Middleware, awrap, wrap
from agentkit.decisions import MAX_EVIDENCE_CHARS, Decision, Label, SafetyLevel, Verdict, strictest
from agentkit.errors import AgentKitError, ToolError, UnknownTool
from agentkit.event_rendering import escape_invisible
from agentkit.events import StoredEvent
from agentkit.messages import MadeCall, Message, Pause, ToolCall, ToolResult
from agentkit.safety.approval import Grants
from agentkit.safety.data_flow import judge_flow, labels_of, user_written_arguments
from agentkit.safety.paths import HOME, NO_FACTS, CallFacts, Located, Place
from agentkit.safety.policy import BY_LEVEL, NEEDS_APPROVAL, Policy
from agentkit.tooling.results import BAD_ARGUMENTS, UNKNOWN_TOOL, denial, failure
from agentkit.tooling.run_context import RunContext, ToolCondition
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.workspace.workspace import Workspace

_MAX_BOUND_PATHS = 200
_MAX_CHARS = 1_000
_MAX_HASHED_BYTES = 10_000_000
_MAX_FOLDER_ENTRIES = 1_000
_MAX_NAMED = 3
_CONTENT = " sha256:"
"""What separates the real location of a script from the digest of its content."""
_DIFF = " diff:"
"""What separates the real location of a file from the digest of the diff that was shown."""
_PATTERN = re.compile(r"[*?\[]")
_REMEDY = "Read it again, and repeat the call if it is still needed: the person will be asked again."


def approval_binding(tool: Tool[..., Any] | None, arguments: Mapping[str, Any], folder: str) -> dict[str, str]:
    """What an approval of this call in `folder` is bound to: by path, its real location, and the content of a script.

    The tool's judge names the paths if it can. Otherwise each short text among the arguments counts as a path.
    """
    if tool is None:
        return {}
    touched = tool.touched(arguments)
    named, scripts = touched if touched is not None else (_texts(arguments), ())
    bound = {path: _location(path) for path in islice(_absolute(sorted(named), folder), _MAX_BOUND_PATHS)}
    return bound | {path: _state(path) for path in islice(_absolute(sorted(scripts), folder), _MAX_BOUND_PATHS)}


def with_diff(bound: Mapping[str, str], diff: str) -> dict[str, str]:
    """The same, bound also to the lines that the shown diff adds and removes; unchanged without a diff."""
    return {path: f"{state}{_DIFF}{_lines_digest(diff)}" if diff else state for path, state in bound.items()}


def without_diff(bound: Mapping[str, str]) -> dict[str, str]:
    """The binding of a later call like this one, which has another diff."""
    return {path: state.partition(_DIFF)[0] for path, state in bound.items()}


def changed_files_denial(decision: Decision, bound: Mapping[str, str], diff: Callable[[], str]) -> Decision | None:
    """The denial of a call whose approval was bound to something else than what is there now; None when it holds.

    `diff` returns the diff of the call as it is now.
    """
    changed = [path for path, old in bound.items() if _current_binding(path, old, diff) != old]
    if not changed:
        return None
    names = ", ".join(repr(escape_invisible(path)) for path in changed[:_MAX_NAMED])
    more = f" and {len(changed) - _MAX_NAMED:,} more" if len(changed) > _MAX_NAMED else ""
    reason = f"The call was not run: {names}{more} changed after the approval was requested."
    return Decision(Verdict.DENY, "approval-lapsed", reason, decision.evidence, _REMEDY, decision.level)


def _current_binding(path: str, state: str, diff: Callable[[], str]) -> str:
    """The binding of a path to what is there now, in the form of an earlier one."""
    if _DIFF in state:
        return f"{_location(path)}{_DIFF}{_lines_digest(diff())}"
    return _state(path) if _CONTENT in state else _location(path)


def _lines_digest(diff: str) -> str:
    """A digest of the added and removed lines, which stay the same if the file changes elsewhere."""
    lines = [line for line in diff.split("\n") if line.startswith(("+", "-"))]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _texts(value: Any, levels: int = 4) -> Iterator[str]:
    """The texts in arguments that can be paths."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str) and 0 < len(text) <= _MAX_CHARS and not set("\n\0") & set(text):
            yield text
    elif isinstance(value, Mapping | list | tuple) and levels:
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each, levels - 1)


def _absolute(paths: list[str], folder: str) -> Iterator[str]:
    home = settings.environment().get("HOME", HOME)
    for path in paths:
        expanded = f"{home}{path.removeprefix(HOME)}" if path.startswith(HOME) else path
        yield expanded if expanded.startswith("/") else f"{folder}/{expanded}"


def _location(path: str) -> str:
    """Where a path really leads; of a pattern, where each match leads."""
    return ":".join(_real(each) for each in _matches(path))


def _state(path: str) -> str:
    """The real location with a digest of what is there; of a pattern, of all matches."""
    digest = hashlib.sha256()
    for each in _matches(path):
        digest.update(_content(_real(each)))
    return f"{_location(path)}{_CONTENT}{digest.hexdigest()}"


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _matches(path: str) -> list[str]:
    if not _PATTERN.search(path) or os.path.lexists(path):
        return [path]
    parts = (part if part == "**" else re.sub(r"\*+", "*", part) for part in path.strip("/").split("/"))
    try:
        found = Path("/").glob("/".join(parts))
        return sorted(map(str, islice(found, _MAX_BOUND_PATHS))) or [path]
    except (OSError, ValueError, NotImplementedError):
        return [path]


def _content(path: str) -> bytes:
    """Bytes that change with the content of a file, or with that of the files directly in a folder.

    Nothing but regular files is opened. What cannot be read counts as absent.
    """
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            return _folder_state(path)
        return _file_content(path) if stat.S_ISREG(status.st_mode) else b"no file"
    except (OSError, ValueError):
        return b"absent"


def _file_content(path: str) -> bytes:
    """The digest of a file; for a very large one, its status."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):  # replaced since it was looked at
            return b"no file"
        if status.st_size > _MAX_HASHED_BYTES:
            return _status_bytes(status)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return hashlib.sha256(file.read(_MAX_HASHED_BYTES + 1)).digest()
    finally:
        os.close(descriptor)


def _folder_state(path: str) -> bytes:
    """Names and statuses of the files in a folder, which `make -C`, `python3` and `find -exec` run unnamed."""
    digest = hashlib.sha256()
    for each in sorted(Path(path).iterdir())[:_MAX_FOLDER_ENTRIES]:
        with contextlib.suppress(FileNotFoundError):
            status = each.stat()
            if stat.S_ISREG(status.st_mode):
                digest.update(os.fsencode(each.name) + b"\0" + _status_bytes(status))
    return b"folder" + digest.digest()


def _status_bytes(status: os.stat_result) -> bytes:
    return repr((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode()


NOT_OFFERED = "not-offered"
"""Rule name of the decision on a tool whose condition is not met."""

_NO_LEVEL = "{} has no safety level, so it " + NEEDS_APPROVAL
_SET_LEVEL = "Approve it, or give the tool a level, such as @tool(level='safe')."


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as stored in a recording, independent of their order."""
    return json.dumps(dict(arguments), ensure_ascii=False, default=str, sort_keys=True)


def _unchanged(result: ToolResult) -> ToolResult:
    return result


class Checking(Protocol):
    """Checks of a call's result, which can replace it before the deadline."""

    def run(self, result: ToolResult, ends: float) -> ToolResult:
        """The result after the guardrails, blocking."""
        ...

    async def arun(self, result: ToolResult, ends: float) -> ToolResult:
        """Async version of `run`."""
        ...


@dataclass(slots=True)
class CallProgress:
    """The progress of a call that makes other calls, across pauses.

    `tool` is the name of the called tool, `made` the calls it made before the pause, and `waiting` the stored events
    of the call that waited: its postponement and the person's answer. `pause` is set if it pauses again.
    """

    tool: str
    made: tuple[MadeCall, ...] = ()
    waiting: tuple[StoredEvent, ...] = ()
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A tool call with its decision. `tool` is None for an unknown tool.

    `amend` converts the tool's result to the one sent to the model. `by_person` is True if a person approved the call.
    `checks` run on the result before it is emitted. `has_started` marks a resumed call, which was counted before.
    `expected` holds the real paths that rules were matched against: the call is refused if they changed. `bound` holds
    what the approval is bound to: the call is refused if that changed since. `layers` are the middleware around the
    call; `judge_again` judges a call that they changed.
    """

    call: ToolCall
    decision: Decision
    tool: Tool[..., Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    amend: Callable[[ToolResult], ToolResult] = _unchanged
    by_person: bool = False
    guardrails: Checking | None = None
    has_started: bool = False
    expected: Mapping[str, str] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[Middleware, ...] = ()
    judge_again: Callable[[ToolCall], JudgedCall] | None = None

    def run(self, timeout_seconds: float | None = None) -> ToolResult:
        """Run the call within its middleware, blocking, within the timeout."""
        if not self.layers:
            return self.run_alone(timeout_seconds)
        try:
            called = wrap(self.layers, lambda call: self._after_middleware(call).run_alone(timeout_seconds))
            result: ToolResult = called(self.call)
        except AgentKitError as error:
            return self.amend(failure(self.call.name, str(error), "failed", self.decision))
        return result

    async def arun(self, timeout_seconds: float | None = None) -> ToolResult:
        """Async version of `run`."""
        if not self.layers:
            return await self.arun_alone(timeout_seconds)
        try:
            called = awrap(self.layers, lambda call: self._after_middleware(call).arun_alone(timeout_seconds))
            result: ToolResult = await called(self.call)
        except AgentKitError as error:
            return self.amend(failure(self.call.name, str(error), "failed", self.decision))
        return result

    def _after_middleware(self, call: ToolCall) -> JudgedCall:
        """The call as a middleware passed it on; a changed one is judged again."""
        if call == self.call or self.judge_again is None:
            return self
        return replace(self.judge_again(replace(call, id=self.call.id)), amend=self.amend, guardrails=self.guardrails)

    def run_alone(self, timeout_seconds: float | None) -> ToolResult:
        """Run the call without its middleware if the decision allows it, blocking."""
        refused = self._current_refusal()
        if self.tool is None or refused is not None:
            return refused or self.refusal()
        ends = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        result = self.tool.run(self.arguments, self.decision, timeout_seconds)
        return self.amend(result if self.guardrails is None else self.guardrails.run(result, ends))

    async def arun_alone(self, timeout_seconds: float | None) -> ToolResult:
        """Async version of `run_alone`."""
        refused = self._current_refusal()
        if self.tool is None or refused is not None:
            return refused or self.refusal()
        ends = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        result = await self.tool.arun(self.arguments, self.decision, timeout_seconds)
        return self.amend(result if self.guardrails is None else await self.guardrails.arun(result, ends))

    def _current_refusal(self) -> ToolResult | None:
        """The result of a call that is denied, or whose approval was bound to what has changed since."""
        if not self.decision.allowed:
            return self.refusal()
        if not self.bound:
            return None
        tool = self.tool
        lapsed = changed_files_denial(
            self.decision, self.bound, lambda: "" if tool is None else tool.preview(self.arguments).diff
        )
        return None if lapsed is None else self.amend(denial(self.call.name, lapsed))

    @property
    def recorded(self) -> ToolCall:
        """The call as stored in a recording, with the arguments that were judged."""
        return ToolCall(self.call.id, self.call.name, encode_arguments(self.arguments), self.call.extra)

    def refusal(self) -> ToolResult:
        """The result of a denied call, as sent to the model."""
        return denial(self.call.name, self.decision)


@dataclass(frozen=True, slots=True)
class ToolPolicyContext:
    """The context in which calls are judged: tools, policies, standing approvals and workspace.

    The first policy is the agent's own; the others are those of the parent agents, and `parent_labels` holds the labels
    of what these have read. `met_conditions` holds the tool conditions that are met, `context` the RunContext passed
    to judges; outside of a run no condition is met and judges get no context. `asks_about_unlabelled` requires
    approval for tools without a safety level.
    """

    tools: Toolset
    policies: tuple[Policy, ...]
    grants: Grants
    workspace: Workspace
    parent_labels: frozenset[Label] = frozenset()
    met_conditions: frozenset[ToolCondition] = frozenset()
    context: RunContext[Any] | None = None
    asks_about_unlabelled: bool = False

    def within(self, tools: Toolset, messages: Sequence[Message], read: frozenset[Label]) -> ToolPolicyContext:
        """The context for nested calls: with these tools, after these messages; `read` holds the labels read so far."""
        # Labels missing in the messages come from calls made just before. Once all labels are present, arguments of
        # programs are not a person's own words: the data-flow rule would let a few of those through per program.
        known = labels_of(messages)
        parent = self.parent_labels | (read if known.issuperset(Label) else read - known)
        return replace(self, tools=tools, parent_labels=parent)


def judge_call(call: ToolCall, policy_context: ToolPolicyContext, read: Sequence[Message]) -> JudgedCall:
    """Look up the tool, validate the arguments, and decide on the call, given what the model has read."""
    try:
        tool = policy_context.tools.find(call.name)
    except UnknownTool as error:
        return JudgedCall(call, Decision(Verdict.DENY, UNKNOWN_TOOL, str(error), call.name[:MAX_EVIDENCE_CHARS]))
    if not policy_context.met_conditions.issuperset(tool.conditions):
        reason = f"The tool {tool.name} is not available now."
        return JudgedCall(call, Decision(Verdict.DENY, NOT_OFFERED, reason, remedy="Continue without it."))
    context = None if policy_context.context is None else policy_context.context.called(call.id, read)
    arguments, own = tool.decide(call.arguments, context)
    if policy_context.workspace.dry_run:
        level = own.level or tool.level
        if level is SafetyLevel.SYSTEM and not tool.is_in_workspace:
            reason = f"This is a dry run, and nobody can tell what {tool.name} would change."
            remedy = "Describe what you would have done with it."
            return JudgedCall(call, Decision(Verdict.DENY, "dry-run", reason, remedy=remedy))
        if tool.is_in_workspace:  # nothing changes, so no approval is needed; other tools still send data
            own = replace(own, level=min(level, *(policy.level for policy in policy_context.policies)))
    try:
        canonical = tool.canonical(arguments) if arguments else arguments  # invalid arguments are empty
        path_facts = resolve_paths(tool, arguments, policy_context.policies, policy_context.workspace)
        decision = _judge_by_all(policy_context, tool, own, (arguments, canonical, path_facts), read)
        if any(policy.checks_data_flow for policy in policy_context.policies):
            hosted_labels = frozenset[Label]() if tool.spec.hosted is None else tool.labels
            decision = judge_flow(
                read,
                tool.name,
                _model_arguments(tool, arguments),
                decision,
                policy_context.parent_labels,
                hosted_labels,
            )
    except RecursionError:
        return JudgedCall(call, Decision(Verdict.DENY, BAD_ARGUMENTS, "The arguments nest too deeply to be judged."))
    expected = expected_folders(arguments, path_facts) if path_facts.arguments else {}
    return JudgedCall(call, decision, tool, arguments, expected=expected)


def _judge_by_all(
    policy_context: ToolPolicyContext,
    tool: Tool[..., Any],
    own: Decision,
    known: tuple[Mapping[str, Any], Mapping[str, Any], CallFacts],
    read: Sequence[Message],
) -> Decision:
    """The strictest decision of all policies.

    With labels from parent agents, the prompt does not count as a person's own words.
    """
    is_about_words = not policy_context.parent_labels and any(
        policy.is_about_words for policy in policy_context.policies
    )
    arguments, canonical, path_facts = known
    personal = _personal_arguments(tool, arguments, read) if is_about_words else frozenset[str]()
    is_unlabelled = policy_context.asks_about_unlabelled and not tool.is_labelled
    facts = replace(path_facts, user_written=personal)
    level = SafetyLevel.SYSTEM if is_unlabelled else tool.level
    judged = [policy.judge(tool.name, level, own, arguments, canonical, facts) for policy in policy_context.policies]
    decision, egress = strictest(judged), any(each.egress for each in judged)
    if is_unlabelled and decision.rule == BY_LEVEL and decision.verdict is Verdict.ASK:
        decision = replace(decision, reason=_NO_LEVEL.format(tool.name), remedy=_SET_LEVEL)
    return decision if decision.egress is egress else replace(decision, egress=egress)


def _personal_arguments(tool: Tool[..., Any], arguments: Mapping[str, Any], read: Sequence[Message]) -> frozenset[str]:
    """The names of the arguments that the person wrote, and of those with default values, which add no content."""
    model_arguments = _model_arguments(tool, arguments)
    return user_written_arguments(read, model_arguments) | (arguments.keys() - model_arguments.keys())


def _model_arguments(tool: Tool[..., Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments written by the model: without defaults; the name of an unknown argument counts as text as well."""
    known = tool.spec.parameters.get("properties", {})
    written = tool.without_defaults(arguments)
    return {name: value if name in known else {name: value} for name, value in written.items()}


_MAX_PATHS = 1_000


def resolve_paths(
    tool: Tool[..., Any], arguments: Mapping[str, Any], policies: Sequence[Policy], workspace: Workspace
) -> CallFacts:
    """Resolve the path arguments that a rule about this tool tests."""
    rules = [rule for policy in policies for rule in policy.rules if rule.is_about(tool.name)]
    tested = {name for rule in rules for name in (*rule.folders, *(rule.where.keys() & set(tool.paths)))}
    if tested.isdisjoint(arguments):
        return NO_FACTS
    home = workspace if tool.is_in_workspace else None
    named = {folder for rule in rules for each in rule.folders.values() for folder in each}
    named |= {path for rule in rules for name in tested for path in rule.named_paths(name)}
    found = {name: locate(home, arguments[name]) for name in tested & arguments.keys()}
    return CallFacts(found, real_folders(workspace, named) if home is not None else {})


def locate(workspace: Workspace | None, value: Any) -> Located:
    """Resolve a path or a list of paths in a workspace; with None, relative to the current folder."""
    is_list = isinstance(value, list | tuple | set | frozenset)
    values = list(value) if is_list else [value]
    found = [_resolved_paths(workspace, each) for each in values[:_MAX_PATHS]]
    paths = tuple(each for each in found if each is not None)
    return Located(paths, is_list, len(paths) == len(values))


def real_folders(workspace: Workspace, folders: Iterable[str]) -> dict[str, str]:
    """The real paths of paths that lead through a link: relative to the workspace, or absolute if outside."""
    found = {}
    for folder in folders:
        resolved = _in_workspace(workspace, folder)
        if resolved is not None and resolved[0] != resolved[1]:
            found[folder] = str(resolved[1].relative)
        elif resolved is None and os.path.isabs(folder) and os.path.realpath(folder) != os.path.normpath(folder):
            found[folder] = os.path.realpath(folder)
    return found


def expected_folders(arguments: Mapping[str, Any], path_facts: CallFacts) -> dict[str, str]:
    """The real location of each path argument, keyed by the path as written."""
    found = {}
    for name, located in path_facts.arguments.items():
        paths = arguments[name] if located.is_list else [arguments[name]]
        if located.is_complete:
            for path, (*_, real) in zip(paths, located.paths, strict=True):
                found[str(path)] = "" if real.relative in (None, ".") else str(real.relative)
    return found


def _resolved_paths(workspace: Workspace | None, path: Any) -> tuple[Place, ...] | None:
    if not isinstance(path, str | os.PathLike):
        return None
    text = str(os.fspath(path))
    return _in_current_folder(text) if workspace is None else _in_workspace(workspace, text)


def _in_workspace(workspace: Workspace, path: str) -> tuple[Place, Place] | None:
    """The named and the real location; None for a value outside the workspace or not a path."""
    try:
        name, real_path = workspace.locate(path)
    except (ToolError, ValueError):
        return None
    roots = workspace.spellings
    named, real = (Place(each or ".", tuple(os.path.join(root, each) for root in roots)) for each in (name, real_path))
    return named, real


def _in_current_folder(path: str) -> tuple[Place, ...] | None:
    """The locations for a function that opens paths itself and can expand `~` to the home folder."""
    try:
        current_folder, home = Path.cwd(), os.path.expanduser(path)
        spelled = {os.path.abspath(each) for each in (path, home)}
        return tuple(
            _path_from(current_folder, each)
            for path_text in sorted(spelled)
            for each in (path_text, os.path.realpath(path_text))
        )
    except (OSError, ValueError):
        return None


def _path_from(current_folder: Path, path: str) -> Place:
    inner = os.path.relpath(path, current_folder)
    return Place(None if inner.split("/")[0] == ".." else inner, (path,))
