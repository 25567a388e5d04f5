"""The `run_program` tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Never

from agentkit._dataclass import dataclass
from agentkit.agents.run_config import CallingTool
from agentkit.code_mode.calls import ProgramCalls
from agentkit.code_mode.signatures import described, functions_of, parameters_of
from agentkit.decisions import Decision
from agentkit.errors import ConfigError, SandboxError
from agentkit.levels import SafetyLevel
from agentkit.sandbox.isolation import check_isolation
from agentkit.sandbox.python import PYTHON_LIMITS, run_program
from agentkit.sandbox.rpc_host import Answer
from agentkit.sandbox.watchdog import Cancellation, ProcessLimits, run_cancellable
from agentkit.suggestions import refuse_made
from agentkit.tooling.results import denied_with
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.tools.system import NOT_RUN, code_result, python_tool_with
from agentkit.workspace.workspace import Workspace

_ABOUT = """Run a Python program that calls tools as functions, and return what it prints.

Use it where several calls belong together: to loop over many things, to use one result in the next call, or to pick a
few facts from long results. Print what you want to see; the value of a last line that is an expression is shown as
well, and nothing else is told to you. The functions are there without import, and are called in turn, without await.
What one returns is what its tool returns: a text, a number, a list or a dictionary, which is read by its keys. Each
call is judged as usual; one that is denied or fails, also where the tool tells of an `error`, raises ToolError, which
says why. Where a person must decide first, the program is run again later, with the same results up to there: let no
call depend on the clock or on chance. The program knows nothing of earlier ones. Beside the functions it has Python's
computing modules (math, re, json, datetime, collections, …), and no files, network or input(). It may compute for
{seconds:g} seconds; the time that the functions take does not count.

The functions:

{functions}"""

_SILENT = "The program printed nothing, so that nothing is known of what it found: print what you want to see."
_NESTED = "A program cannot run programs; give program_tool() the tools of the other one: program_tool(other.tools)."


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
    refuse_made(program_tool, unknown)
    check_isolation(sandbox)
    given: object = limits
    if not isinstance(given, ProcessLimits):
        raise ConfigError(
            f"limits= takes agentkit.sandbox.watchdog.ProcessLimits, what a process may take; not {given!r:.200}. "
            "What a run may take is the agent's limits=."
        )
    toolset = Toolset(tools)
    functions = functions_of(toolset)
    if any(isinstance(tool, ProgramTool) for tool in toolset):
        raise ConfigError(_NESTED)
    if hosted := next((tool.name for tool in toolset if tool.spec.hosted is not None), ""):
        raise ConfigError(
            f"The tool {hosted!r} is run by the model's provider, so a program cannot call it. Give it to the agent, "
            "in addition to the tool that runs programs."
        )
    if not functions:
        raise ConfigError("program_tool() takes the tools that a program may call, such as program_tool(web_tools).")
    told = "\n\n".join(described(name, tool) for name, tool in functions.items())
    description = _ABOUT.format(seconds=limits.timeout_seconds, functions=told)
    return ProgramTool(toolset, _Confinement(sandbox, limits), description)


@dataclass(frozen=True, slots=True)
class _Confinement:
    """Sandbox mode and process limits of programs."""

    sandbox: str
    limits: ProcessLimits


class ProgramTool(CallingTool[..., dict[str, Any]]):
    """The tool `run_program`. `tools` are those that its programs can call."""

    def __init__(self, tools: Toolset, confinement: _Confinement, description: str) -> None:
        program = _ProgramRunner(functions_of(tools), confinement)
        super().__init__(
            program.run_program,
            description=description,
            asynchronous=program.arun_program,
            level=SafetyLevel.SYSTEM,
            timeout_seconds=None,
            judge=program.judge,
            labels=(),
            within=partial(_within, tools, confinement, description),
            when_denied=denied_with("code"),
        )
        self.__dict__.update(tools=tools)

    def check_context(self, value: Any) -> None:
        """Raise ConfigError if one of the tools cannot use this `context=` of a run."""
        for tool in self.tools:
            tool.check_context(value)


def _within(tools: Toolset, confinement: _Confinement, description: str, workspace: Workspace) -> ProgramTool:
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
            code, output, calls (what came of each), status, truncated, seconds, and boundary; or code, error (with its
            line, and a hint what to write instead), the calls and the output so far.
        """
        calls = ProgramCalls(self.functions)
        return self._run(code, calls, calls.answer)

    async def arun_program(self, code: str) -> dict[str, Any]:
        """Async version of `run_program`; cancelling it ends the program and the call it waits for."""
        calls = ProgramCalls(self.functions)
        answering = calls.awaited()
        return await run_cancellable(lambda wish: self._run(code, calls, partial(answering, wish), wish))

    def judge(self, arguments: Mapping[str, Any]) -> Decision:
        """Judge a program like code of `run_python`; the calls it makes are judged when they are made."""
        decision = python_tool_with(self.confinement.sandbox, self.confinement.limits).judge(arguments)
        reason = f"{decision.reason} Each call that it makes of a tool is judged by itself."
        return replace(decision, reason=reason) if decision.allowed else decision

    def _run(
        self, code: str, calls: ProgramCalls, answer: Answer, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        offered = {name: parameters_of(tool) for name, tool in self.functions.items()}
        sandbox, limits = self.confinement.sandbox, self.confinement.limits
        try:
            outcome = run_program(code, offered, answer, sandbox=sandbox, limits=limits, cancellation=cancellation)
        except SandboxError as error:
            return {"code": code, "error": str(error), "calls": calls.told, "status": "failed", "boundary": NOT_RUN}
        if calls.missing and outcome.kind != "limit":
            outcome = replace(outcome, status="failed", error=f"{calls.missing} {outcome.error}".strip())
        told = code_result(code, outcome)
        silence = {} if told["output"] or outcome.error else {"note": _SILENT}
        return {**told, **silence, "calls": calls.told}
