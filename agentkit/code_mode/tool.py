"""The `run_program` tool, and the tool calls of the programs it runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import wait
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Never

from agentkit._dataclass import dataclass
from agentkit.agents.budget import RESUME_HINT, Budget
from agentkit.agents.effects import Steps, adrive, drive
from agentkit.agents.human_approval import without_waiting
from agentkit.agents.run_config import LINEAGE, CallingTool, RunConfig, collect_labels
from agentkit.agents.tool_calls import Repeats, ToolCallBatch, messages_of
from agentkit.agents.tool_policy import JudgedCall, ToolPolicyContext, judge_call
from agentkit.code_mode.signatures import describe_function, parameter_names, tool_functions
from agentkit.decisions import Decision, Label, SafetyLevel, Verdict
from agentkit.errors import ConfigError, Postponed, SandboxError
from agentkit.events import ResponseReceived, ToolCallPostponed
from agentkit.messages import (
    AssistantMessage,
    MadeCall,
    Message,
    Pause,
    Response,
    ToolCall,
    ToolMessage,
    ToolResult,
    arguments_of,
    calls_in,
    labels_of,
    well_formed,
)
from agentkit.safety.approval import NOBODY, Grants, answered
from agentkit.safety.policy import Policy
from agentkit.sandbox.isolation import check_isolation
from agentkit.sandbox.python import PYTHON_LIMITS, Answer, run_program
from agentkit.sandbox.rpc_guest import MAX_BYTES
from agentkit.sandbox.watchdog import Cancellation, ProcessLimits, run_cancellable
from agentkit.sessions.session import Session, SessionRun
from agentkit.sessions.state import RunState
from agentkit.suggestions import check_unknown_arguments
from agentkit.tooling.results import failure, render
from agentkit.tooling.run_context import CONTEXT, NO_RUN
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.tools.core import denial_handler
from agentkit.tools.system import NOT_RUN, code_result, python_tool_with
from agentkit.usage import UNLIMITED
from agentkit.workspace.workspace import Workspace

_MAX_STORED_CHARS = 1_000_000
"""Maximum size of the recorded call results while a program waits for a person."""

_MAX_SUMMARIES, _MAX_ARGUMENT_CHARS, _MAX_NAME_CHARS = 20, 100, 64
_MAX_REFUSED = 200
_MAX_CALLS = 100  # the default tool call limit of a run
_TICK_SECONDS = 0.05
_MAX_VALUE_CHARS = MAX_BYTES // 4  # a character has at most four bytes
_NO_WAITING = "This call cannot wait for a person inside a program: make it as a separate tool call."
_READ_TOO_MUCH = (
    f"This call cannot wait for a person: the program has read more than the {_MAX_STORED_CHARS:,} characters that are "
    f"stored for the pause. Make it as a separate tool call, or read less before it."
)
_NOT_AGAIN = (
    "After the pause the program did not repeat its earlier calls: {} No call was made twice, and the earlier calls "
    "remain done. Write programs that make the same calls each time, independent of time and randomness."
)
_TOO_MANY = f"A program outside a run can make at most {_MAX_CALLS} calls."
_REFUSED_TOO_OFTEN = f"The program was ended: {_MAX_REFUSED} of its calls were refused."
_RESULT_TOO_LONG = "The result of {} is too long or too deeply nested for a program."
_NO_HANDOFF = "A program cannot hand the conversation off to another agent."
_STOPPED = "The run was stopped."


class ProgramCalls:
    """The calls of one program. Within a run they are judged, counted and recorded like the run's own.

    A call that waits for a person ends the program. After the answer the program is run again: its earlier calls are
    answered from the record instead of repeated. Outside of a run calls are judged like those of an agent without an
    approver, and limited to 100.
    """

    def __init__(self, functions: Mapping[str, Tool[..., Any]]) -> None:
        self._functions, self._tools = functions, Toolset(functions.values())
        self._lineage, self._context = LINEAGE.get(), CONTEXT.get() or NO_RUN
        self._taken_ids = {call.id for call in calls_in(self._context.messages)}
        self._summaries: list[str] = []
        self._number = self._refused = 0
        self._read: list[Message] = []
        self._progress = self._lineage.call_progress
        self._earlier = () if self._progress is None else self._progress.made
        waiting = () if self._progress is None else self._progress.waiting
        self._awaited_call = next((each.call for each in waiting if isinstance(each, ToolCallPostponed)), None)
        self._made: list[tuple[MadeCall, str | None]] = []
        self._stored_chars = sum(len(each.error or json.dumps(each.value)) for each in self._earlier)
        self._batch_of_run = None if self._lineage.config is None else self._batch(self._lineage.config)

    @property
    def summaries(self) -> list[str]:
        """One line for each call, up to a maximum."""
        more = self._number - len(self._summaries)
        return self._summaries + ([f"and {more} more"] if more > 0 else [])

    @property
    def missing(self) -> str:
        """The error for a program that ended before it repeated its earlier calls; else empty."""
        recorded = len(self._earlier) + (self._awaited_call is not None)
        what = f"it ended after {self._number} of {recorded} calls."
        return _NOT_AGAIN.format(what) if self._number < recorded else ""

    def answer(self, function: str, arguments: str) -> Mapping[str, str]:
        """Make a call, blocking: returns its value as JSON, or its error. Raises Postponed if it must wait."""
        call = self._tool_call(function, arguments)
        recorded = self._recorded_reply(call)
        if recorded is not None:
            return recorded
        if self._batch_of_run is None:
            with collect_labels() as found:
                result = self._judge(call).run()
            return self._reply(call, result, found)
        for _ in drive(self._execute(self._batch_of_run, call), streaming=False):
            """Only the result matters to the program."""
        return self._reply(call, self._latest_result(self._batch_of_run.run.progress))

    def answer_on_loop(self) -> Callable[[Cancellation, str, str], Mapping[str, str]]:
        """`answer` for another thread: the calls run on the event loop that awaits the program."""
        loop, context = asyncio.get_running_loop(), copy_context()

        def answer(cancellation: Cancellation, function: str, arguments: str) -> Mapping[str, str]:
            call = self._tool_call(function, arguments)
            recorded = self._recorded_reply(call)
            if recorded is not None:
                return recorded
            future = context.run(asyncio.run_coroutine_threadsafe, self._aexecute(call), loop)
            while not wait([future], _TICK_SECONDS).done:  # when cancelled, wait for the call to end
                if loop.is_closed():
                    raise SandboxError(_STOPPED)
                if cancellation.is_requested:
                    future.cancel()
            return context.run(self._reply, call, *future.result())

        return answer

    async def _aexecute(self, call: ToolCall) -> tuple[ToolResult, Set[Label]]:
        """The result of a call, and the labels of data read that the result does not have."""
        if self._batch_of_run is None:
            with collect_labels() as found:
                return await self._judge(call).arun(), found
        async with aclosing(adrive(self._execute(self._batch_of_run, call), streaming=False)) as events:
            async for _ in events:
                """Only the result matters to the program."""
        return self._latest_result(self._batch_of_run.run.progress), frozenset()

    def _tool_call(self, function: str, arguments: str) -> ToolCall:
        """A tool call as the model would have written it.

        Raises SandboxError, which ends the program, if the run has stopped, or if too many calls were refused: the
        limits of a run do not count refused calls.
        """
        is_late = self._batch_of_run is not None and self._batch_of_run.budget.seconds_left <= 0
        if is_late or self._context.is_stopped:
            raise SandboxError(_STOPPED)
        if self._refused >= _MAX_REFUSED:
            raise SandboxError(_REFUSED_TOO_OFTEN)
        self._number += 1
        tool = self._functions.get(function)
        name = function if tool is None else tool.name
        return ToolCall(self._new_id(), name, arguments)

    def _new_id(self) -> str:
        """An id that no call of the model uses."""
        number = f"{self._context.call or 'program'}.{self._number}"
        return f"{number}.program" if number in self._taken_ids else number

    def _recorded_reply(self, call: ToolCall) -> Mapping[str, str] | None:
        """The recorded outcome of a call made before the pause; None if the call must be made.

        Raises SandboxError, which ends the program, if the call differs from the recorded one.
        """
        index = self._number - 1
        earlier = self._earlier[index] if index < len(self._earlier) else None
        expected = earlier.call if earlier is not None else self._awaited_call if index == len(self._earlier) else None
        if expected is not None and _call_key(expected) != _call_key(call):
            problem = f"call {self._number} was {_format_call(expected)}, and is {_format_call(call)} now."
            self._number -= 1
            raise SandboxError(_NOT_AGAIN.format(problem))
        if earlier is None:
            return None
        self._lineage.add_labels(earlier.labels)
        self._add_summary(earlier)
        return {"value": json.dumps([earlier.value])} if earlier.error is None else {"error": earlier.error}

    def _batch(self, config: RunConfig) -> ToolCallBatch:
        """The batch that runs calls of these tools within the run; without a pausable call nobody can answer later."""
        messages, budget = tuple(self._context.messages), self._lineage.budget or Budget(UNLIMITED)
        history = (*messages, *messages_of(self._earlier))
        run = SessionRun(Session(), self._context.run, RunState(), history, lambda: None)
        if self._progress is None:
            config = replace(config, approve=without_waiting(config.approve))
        within = "" if self._progress is None else self._progress.tool
        policy_context = config.policy_context.within(self._tools, messages, self._lineage.read)
        return ToolCallBatch(config, policy_context, run, budget, Repeats([]), within=within)

    def _execute(self, batch: ToolCallBatch, call: ToolCall) -> Steps:
        """Judge the call and run it, with the person's answer if it is the call that waited."""
        waited = self._awaited_call if self._number == len(self._earlier) + 1 else None
        batch.run.progress.apply(ResponseReceived(Response(AssistantMessage("", (waited or call,)))))
        for event in () if waited is None or self._progress is None else self._progress.waiting:
            batch.run.progress.apply(event)
        attached = self._lineage.attached
        yield from batch.use() if attached is None else attached(batch.use())

    def _judge(self, call: ToolCall) -> JudgedCall:
        """Judge the call of a program outside of a run, without an approver."""
        if self._number > _MAX_CALLS:
            return JudgedCall(call, Decision(Verdict.DENY, "limit", _TOO_MANY))
        workspace, policies = Workspace(dry_run=self._lineage.dry_run), self._lineage.policies or (Policy(),)
        judged = judge_call(
            call, ToolPolicyContext(self._tools, policies, Grants(), workspace, self._lineage.read), self._read
        )
        is_asked = judged.decision.verdict is Verdict.ASK
        return replace(judged, decision=answered(judged.decision, NOBODY)) if is_asked else judged

    def _latest_result(self, progress: RunState) -> ToolResult:
        """The result of the call that was just made. Raises Postponed if it waits for a person."""
        step = next(iter(progress.steps.values()), None)
        if step is None:
            return progress.tool_calls[-1].result
        if self._progress is None or self._stored_chars > _MAX_STORED_CHARS:
            return failure(step.call.name, _NO_WAITING if self._progress is None else _READ_TOO_MUCH, "denied")
        # The pause of the program, with the calls made since the last one
        made = (each if value is None else replace(each, value=json.loads(value)[0]) for each, value in self._made)
        postponed = step.postponed or ToolCallPostponed(step.call, "")
        self._progress.pause = Pause(
            step.call, postponed.question, postponed.decision, postponed.folder, tuple(made), bound=postponed.bound
        )
        raise Postponed(step.question)

    def _reply(self, call: ToolCall, result: ToolResult, found: Set[Label] = frozenset()) -> Mapping[str, str]:
        """The reply to the program; the labels of data read are reported to the run."""
        labels = result.labels | found
        if not labels <= labels_of(self._read):
            self._read += [AssistantMessage("", (call,)), ToolMessage(call.id, call.name, "", labels)]
        self._lineage.add_labels(labels)
        if result.handoff_to or result.status == "waiting":
            result = failure(call.name, _NO_HANDOFF if result.handoff_to else _NO_WAITING, "denied")
        self._refused += result.status == "denied" or (result.decision is not None and result.decision.denied)
        error = None if result.ok else (result.error or result.content).replace(f" {RESUME_HINT}", "")
        made, text = MadeCall(call, self._outcome(call, result), None, error, labels), None
        if error is None:
            text, was_cut, _ = render([result.value], _MAX_VALUE_CHARS)
            made = replace(made, error=_RESULT_TOO_LONG.format(call.name)) if was_cut else made
        self._add_summary(made)
        self._record(made, text if made.error is None else None)
        return {"value": text or ""} if made.error is None else {"error": made.error}

    def _outcome(self, call: ToolCall, result: ToolResult) -> str:
        """The status of a call, and the arguments if a person changed them."""
        rule = f" ({result.decision.rule})" if result.decision is not None and result.decision.denied else ""
        executed = call if self._batch_of_run is None else self._batch_of_run.run.progress.tool_calls[-1].call
        is_edited = _call_key(executed) != _call_key(call)
        return f"{result.status}{rule}{f', as a person changed it: {_format_call(executed)}' if is_edited else ''}"

    def _add_summary(self, made: MadeCall) -> None:
        if len(self._summaries) < _MAX_SUMMARIES:
            self._summaries.append(well_formed(f"{_format_call(made.call)}: {made.outcome}"))

    def _record(self, made: MadeCall, value: str | None) -> None:
        """Record the outcome of a call for a later pause; `value` is JSON. A record above the size limit is dropped."""
        if self._progress is not None:
            self._stored_chars += len(made.call.arguments) + len(made.error or value or "")
            self._made.append((made, value))
            if self._stored_chars > _MAX_STORED_CHARS:
                self._made.clear()


def _call_key(call: ToolCall) -> tuple[str, str]:
    """The parts of a call that must be identical when a program repeats it."""
    return call.name, json.dumps(arguments_of(call), sort_keys=True)


def _format_call(call: ToolCall) -> str:
    """Format a call as one line of limited length, as programs can write arbitrary text."""
    more = "…" if len(call.arguments) > _MAX_ARGUMENT_CHARS else ""
    return f"{call.name[:_MAX_NAME_CHARS]} {call.arguments[:_MAX_ARGUMENT_CHARS]}{more}"


_DESCRIPTION = """Run a Python program that calls tools as functions, and return what it prints.

Use it for several related calls: to loop over many items, to use one result in the next call, or to pick a
few facts from long results. Print what you want to see; the value of a last line that is an expression is shown as
well; you see nothing else. The functions are available without import, and are called one at a time, without await.
A function returns the value of its tool: a string, a number, a list, or a dictionary, read by its keys. Each
call is judged as usual; a denied or failed call, including a result with an `error`, raises ToolError, which
states the reason. If a person must decide first, the program is run again later, with the same results so far: no
call may depend on time or randomness. The program shares no state with earlier ones. It also has Python's
computing modules (math, re, json, datetime, collections, …), but no files, network or input(). It can compute for
{seconds:g} seconds; the time that the functions take does not count.

The functions:

{functions}"""

_SILENT = "The program printed nothing, so its results are unknown: print what you want to see."
_NESTED = "A program cannot run programs. Pass the tools of the other program tool: program_tool(other.tools)."


def program_tool(
    tools: Iterable[Any] | Callable[..., Any],
    *,
    sandbox: str = "auto",
    limits: ProcessLimits = PYTHON_LIMITS,
    **unknown: Never,
) -> ProgramTool:
    """The tool `run_program(code)`: the model writes Python that calls these tools, and reads what it prints.

    The code runs in the sandbox of `run_python`, and can only reach the functions. Each call is judged by the agent's
    own policy, approved, counted, labelled and undoable like a call of the model itself; outside of a run it is judged
    like that of an agent without an approver. `sandbox` is auto, required or off; `limits` are those of the process.
    Raises ConfigError for an invalid tool, an empty list, another tool that runs programs, and two tools with the same
    name in Python.
    """
    check_unknown_arguments(program_tool, unknown)
    check_isolation(sandbox)
    checked: object = limits
    if not isinstance(checked, ProcessLimits):
        raise ConfigError(
            f"limits= takes agentkit.sandbox.watchdog.ProcessLimits, the limits of the process. Got {checked!r:.200}. "
            "The limits of a run are the agent's limits=."
        )
    toolset = Toolset(tools)
    functions = tool_functions(toolset)
    if any(isinstance(tool, ProgramTool) for tool in toolset):
        raise ConfigError(_NESTED)
    if hosted := next((tool.name for tool in toolset if tool.spec.hosted is not None), ""):
        raise ConfigError(
            f"The tool {hosted!r} is run by the model's provider, so a program cannot call it. Give it to the agent, "
            "in addition to the tool that runs programs."
        )
    if not functions:
        raise ConfigError("program_tool() takes the tools that a program can call, such as program_tool(web_tools).")
    descriptions = "\n\n".join(describe_function(name, tool) for name, tool in functions.items())
    description = _DESCRIPTION.format(seconds=limits.timeout_seconds, functions=descriptions)
    return ProgramTool(toolset, _Confinement(sandbox, limits), description)


@dataclass(frozen=True, slots=True)
class _Confinement:
    """Sandbox mode and process limits of programs."""

    sandbox: str
    limits: ProcessLimits


class ProgramTool(CallingTool[..., dict[str, Any]]):
    """The tool `run_program`. `tools` are those that its programs can call."""

    def __init__(self, tools: Toolset, confinement: _Confinement, description: str) -> None:
        program = _ProgramRunner(tool_functions(tools), confinement)
        super().__init__(
            program.run_program,
            description=description,
            asynchronous=program.arun_program,
            level=SafetyLevel.SYSTEM,
            timeout_seconds=None,
            judge=program.judge,
            labels=(),
            within=partial(_bind_to_workspace, tools, confinement, description),
            when_denied=denial_handler("code"),
        )
        self.__dict__.update(tools=tools)

    def check_context(self, value: Any) -> None:
        """Raise ConfigError if one of the tools cannot use this `context=` of a run."""
        for tool in self.tools:
            tool.check_context(value)


def _bind_to_workspace(
    tools: Toolset, confinement: _Confinement, description: str, workspace: Workspace
) -> ProgramTool:
    return ProgramTool(tools.within(workspace), confinement, description)


@dataclass(frozen=True, slots=True)
class _ProgramRunner:
    """Runs programs that can call these functions."""

    functions: Mapping[str, Tool[..., Any]]
    confinement: _Confinement

    def run_program(self, code: str) -> dict[str, Any]:
        """Run a program, and return what it printed.

        Args:
            code: The Python code, of at most 100,000 bytes.

        Returns:
            code, output, calls (with their results), status, truncated, seconds, and boundary; or code, error (with its
            line, and a hint what to write instead), the calls and the output so far.
        """
        calls = ProgramCalls(self.functions)
        return self._run(code, calls, calls.answer)

    async def arun_program(self, code: str) -> dict[str, Any]:
        """Async version of `run_program`; cancelling it ends the program and the call it waits for."""
        calls = ProgramCalls(self.functions)
        answering = calls.answer_on_loop()
        return await run_cancellable(lambda wish: self._run(code, calls, partial(answering, wish), wish))

    def judge(self, arguments: Mapping[str, Any]) -> Decision:
        """Judge a program like code of `run_python`; the calls it makes are judged when they are made."""
        decision = python_tool_with(self.confinement.sandbox, self.confinement.limits).judge(arguments)
        reason = f"{decision.reason} Each tool call that it makes is judged separately."
        return replace(decision, reason=reason) if decision.allowed else decision

    def _run(
        self, code: str, calls: ProgramCalls, answer: Answer, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        signatures = {name: parameter_names(tool) for name, tool in self.functions.items()}
        sandbox, limits = self.confinement.sandbox, self.confinement.limits
        try:
            outcome = run_program(code, signatures, answer, sandbox=sandbox, limits=limits, cancellation=cancellation)
        except SandboxError as error:
            return {
                "code": code,
                "error": str(error),
                "calls": calls.summaries,
                "status": "failed",
                "boundary": NOT_RUN,
            }
        if calls.missing and outcome.kind != "limit":
            outcome = replace(outcome, status="failed", error=f"{calls.missing} {outcome.error}".strip())
        fields = code_result(code, outcome)
        note = {} if fields["output"] or outcome.error else {"note": _SILENT}
        return {**fields, **note, "calls": calls.summaries}
