"""Agent: a name, an instruction, an LLM, tools and a policy."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, Never, TypedDict, TypeVar, Unpack, overload

from agentkit.agents import settings, team
from agentkit.agents.answers import CheckFunction
from agentkit.agents.facing.conversing import Conversing
from agentkit.agents.facing.mapped import Mapped
from agentkit.agents.facing.working import Worker
from agentkit.agents.result import Answers, GivenApprover, Resumption, RunFinished, RunResult, result_in
from agentkit.agents.ruling import check_rules
from agentkit.agents.runner import RunOptions, Work
from agentkit.agents.running.plan import Instruction, Lead
from agentkit.agents.running.room import Room
from agentkit.agents.settings import Prompt
from agentkit.events import Event
from agentkit.levels import SafetyLevel
from agentkit.llm.client import LLM
from agentkit.memory.session import Session
from agentkit.memory.window import Window
from agentkit.safety.approval import Grants
from agentkit.safety.policy import Policy
from agentkit.tooling.tool import Tool
from agentkit.tracing.listening import Listener
from agentkit.usage import NO_USAGE, Limits
from agentkit.workspace.workspace import Workspace

T = TypeVar("T")
S = TypeVar("S")
Streamed = Generator[Event | RunFinished[S], None, None]
AStreamed = AsyncGenerator[Event | RunFinished[S], None]
Saved = RunResult[Any] | str | None
"""A run to go on with: its result, the text of it, or its id in the session; None for the session's newest."""


class AgentOptions(TypedDict, total=False):
    """The keyword arguments of Agent beside `output_type`, which says what kind of agent it is."""

    llm: LLM | None
    model: str | None
    safety: SafetyLevel | str
    policy: Policy | None
    approve: GivenApprover | None
    session: str | Session | None
    limits: Limits | None
    window: Window | int | None
    handoffs: Iterable[Lead]
    workspace: str | Path | Workspace | None
    checks: Iterable[CheckFunction]
    dry_run: bool
    context: Any
    listeners: Iterable[Listener]


_TAKEN = ("name", "tools", "instruction", "max_iterations", *AgentOptions.__annotations__, "output_type")


class Agent(Conversing, Mapped[T], Generic[T]):
    """Answers prompts with a model and tools, and remembers the conversation.

    Any number of runs may go on at the same time, in threads or on event loops. Each begins with the history as it is
    then, and enters its own messages in one piece when it ends.

    Args:
        name: What the agent is called in events and approvals.
        tools: Tools, toolsets or plain functions.
        instruction: The standing order the model is given: a text, or a function that writes it anew for each run, of
            nothing or of the RunContext.
        max_iterations: How many requests to the model one run may take.
        llm: The model's client; by default the one the environment names, made when first needed.
        model: The model's name, instead of `llm`.
        safety: The highest level of calls that run unasked.
        policy: The judge of all calls, with rules of your own; its level takes the place of `safety`.
        approve: Who is asked about the rest: a function, sync or async, from an ApprovalRequest, and maybe the run's
            RunContext, to True, False or an Approval, words that say why not, or a dictionary of other arguments.
        output_type: What `RunResult.output` must be: a dataclass, pydantic model, TypedDict, Literal, list, union, ….
        session: The name of the conversation on this machine that the agent goes on with, or a Session.
        limits: What one run may take at most.
        window: How much of a long conversation the model reads: a Window, or a number of tokens; by default as much as
            it can.
        handoffs: Agents that the conversation may be handed to.
        workspace: The folder that file tools, shell and journal work in; the current folder by default.
        checks: Functions of one parameter, called `prompt`, `output` or `result` (of a tool) after what they look at,
            and of a RunContext if they want to know of the run. They return None to pass, another value to amend, and
            raise ValueError to refuse with a reason.
        dry_run: Show in `RunResult.changes` what would be changed, and change nothing.
        context: What tools need to know that no model tells them: they get it in a RunContext.
        listeners: Functions called with every event of every run. One that raises ends its run.

    Raises:
        ConfigError: An argument is not what it should be.
    """

    @overload
    def __init__(
        self: Agent[str],
        name: str = ...,
        tools: Iterable[Any] | Callable[..., Any] | None = (),
        instruction: Instruction | None = ...,
        max_iterations: int = ...,
        *,
        output_type: None = None,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str = ...,
        tools: Iterable[Any] | Callable[..., Any] | None = (),
        instruction: Instruction | None = ...,
        max_iterations: int = ...,
        *,
        output_type: type[T],
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any],
        name: str = ...,
        tools: Iterable[Any] | Callable[..., Any] | None = (),
        instruction: Instruction | None = ...,
        max_iterations: int = ...,
        *,
        output_type: Any,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(
        self,
        name: str = "agent",
        tools: Iterable[Any] | Callable[..., Any] | None = (),
        instruction: Instruction | None = settings.DEFAULT_INSTRUCTION,
        max_iterations: int = 10,
        *,
        llm: LLM | None = None,
        model: str | None = None,
        safety: SafetyLevel | str = SafetyLevel.NETWORK,
        policy: Policy | None = None,
        approve: GivenApprover | None = None,
        output_type: Any = None,
        session: str | Session | None = None,
        limits: Limits | None = None,
        window: Window | int | None = None,
        handoffs: Iterable[Lead] = (),
        workspace: str | Path | Workspace | None = None,
        checks: Iterable[CheckFunction] = (),
        dry_run: bool = False,
        context: Any = None,
        listeners: Iterable[Listener] = (),
        **unknown: object,
    ) -> None:
        settings.refuse_unknown(unknown, _TAKEN)
        own = vars(self)  # set at once, as each value is checked here
        own["name"], own["dry_run"] = settings.checked("name", name), settings.checked("dry_run", dry_run)
        own["instruction"], own["tools"] = settings.instruction_from(instruction), settings.tools_from(tools)
        own["max_iterations"] = settings.checked("max_iterations", max_iterations)
        own["_llm"], own["_model"] = settings.llm_from(llm, model, name), settings.if_said("model", model)
        own["policy"] = settings.policy_from(SafetyLevel.of(safety), policy)
        own["approve"], own["_session"] = settings.if_said("approve", approve), settings.if_said("session", session)
        own["limits"], own["_workspace"] = settings.limits_from(limits), settings.workspace_from(workspace)
        own["leads"], own["listeners"] = settings.leads_from(handoffs), settings.listeners_from(listeners)
        own["_answers"], own["_room"] = settings.rules_from(output_type, checks), Room(settings.window_from(window))
        own["context"], own["_grants"], own["_usage"], own["_lock"] = context, Grants(), NO_USAGE, threading.Lock()
        check_rules(self.policy, self.tools)

    @classmethod
    def from_file(cls, path: str | Path, tools: Iterable[Any] = (), **options: Unpack[AgentOptions]) -> Agent[str]:
        """The agent that a plain text file describes: settings a line each, an empty line, the instruction.

        `tools` are tools of your own that the file may name; `options` come before what it says. Its runs are saved in
        a session of this very file, wherever a program finds it. Raises ConfigError, which tells the line.
        """
        from agentkit.agents.manifesto import read_manifesto  # which knows every shipped tool

        return Agent(**read_manifesto(path, tools).arguments(options))

    def __call__(self, prompt: Prompt, *, limits: Limits | None = None, context: Any = None, **unknown: Never) -> str:
        """The answer as text. Raises ModelError, or RunError with the result so far, when there is none."""
        settings.refuse_of_run("__call__", unknown, ("prompt", "limits", "context"))
        return self.run(prompt, limits=limits, context=context).raise_for_status().text

    @overload
    def run(self, prompt: Work, *, output_type: None = None, **given: Unpack[RunOptions]) -> RunResult[T]: ...
    @overload
    def run(self, prompt: Work, *, output_type: type[S], **given: Unpack[RunOptions]) -> RunResult[S]: ...
    @overload
    def run(self, prompt: Work, *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    def run(
        self,
        prompt: Prompt | Resumption,
        *,
        output_type: Any = None,
        limits: Limits | None = None,
        context: Any = None,
        **unknown: object,
    ) -> RunResult[Any]:
        """Run to the end, blocking; a failure of the model or a limit is told in the result, not raised.

        `output_type`, `limits` and `context` are this run's, in the place of the agent's, the first of those it hands
        off to as well; `output_type=str` is any text. What goes on with the run is given limits anew.
        """
        settings.refuse_of_run("run", unknown)
        return result_in(list(self.events(prompt, output_type=output_type, limits=limits, context=context)))

    @overload
    async def arun(self, prompt: Work, *, output_type: None = None, **given: Unpack[RunOptions]) -> RunResult[T]: ...
    @overload
    async def arun(self, prompt: Work, *, output_type: type[S], **given: Unpack[RunOptions]) -> RunResult[S]: ...
    @overload
    async def arun(self, prompt: Work, *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    async def arun(
        self,
        prompt: Prompt | Resumption,
        *,
        output_type: Any = None,
        limits: Limits | None = None,
        context: Any = None,
        **unknown: object,
    ) -> RunResult[Any]:
        """Like `run`, awaiting."""
        settings.refuse_of_run("arun", unknown)
        events = self.aevents(prompt, output_type=output_type, limits=limits, context=context)
        return result_in([event async for event in events])

    @overload
    def stream(self, prompt: Work, *, output_type: None = None, **given: Unpack[RunOptions]) -> Streamed[T]: ...
    @overload
    def stream(self, prompt: Work, *, output_type: type[S], **given: Unpack[RunOptions]) -> Streamed[S]: ...
    @overload
    def stream(self, prompt: Work, *, output_type: Any, **given: Unpack[RunOptions]) -> Streamed[Any]: ...
    def stream(
        self,
        prompt: Prompt | Resumption,
        *,
        output_type: Any = None,
        limits: Limits | None = None,
        context: Any = None,
        **unknown: object,
    ) -> Generator[Event | RunFinished[Any], None, None]:
        """Run and yield what happens, with the text as it is written; the last event is RunFinished.

        Nothing happens before the first event is asked for. Closing the generator, as leaving a `for` loop does, cuts
        the run off: what was done is kept in the history, and `resume` goes on with it.
        """
        settings.refuse_of_run("stream", unknown)
        return self.events(prompt, streaming=True, output_type=output_type, limits=limits, context=context)

    @overload
    def astream(self, prompt: Work, *, output_type: None = None, **given: Unpack[RunOptions]) -> AStreamed[T]: ...
    @overload
    def astream(self, prompt: Work, *, output_type: type[S], **given: Unpack[RunOptions]) -> AStreamed[S]: ...
    @overload
    def astream(self, prompt: Work, *, output_type: Any, **given: Unpack[RunOptions]) -> AStreamed[Any]: ...
    def astream(
        self,
        prompt: Prompt | Resumption,
        *,
        output_type: Any = None,
        limits: Limits | None = None,
        context: Any = None,
        **unknown: object,
    ) -> AsyncGenerator[Event | RunFinished[Any], None]:
        """Like `stream`, awaiting. To leave it early, use it as `async with contextlib.aclosing(...)`."""
        settings.refuse_of_run("astream", unknown)
        return self.aevents(prompt, streaming=True, output_type=output_type, limits=limits, context=context)

    def resume(
        self,
        saved: Saved = None,
        answers: Answers | None = None,
        *,
        limits: Limits | None = None,
        agents: Sequence[Lead] = (),
        context: Any = None,
    ) -> RunResult[T]:
        """Go on with a run, blocking: a result, the text of `RunResult.to_json`, an id, or else the session's newest.

        Ids are those in `session.unfinished`, the runs that were cut off or are paused; its newest is the last.
        `answers` are what `RunResult.resume` takes; without any, and without an approver, nobody is asked, and the
        result has what waits. `agents` are those that a tool returned, and that no handoff names. `context` is what the
        run is given anew; a result of this process knows its own, and the type of answer that its run asked for.
        Elsewhere `run(Resumption(text, answers), output_type=...)` asks for it again. Raises SessionError when there is
        nothing to go on with, and ConfigError, before anything is answered, when the agent that led the run is not
        known, a call that waits for approval was asked for in another folder, or its tool is not there.
        """
        return self.run(Resumption(saved, answers, limits, agents), context=context)

    async def aresume(
        self,
        saved: Saved = None,
        answers: Answers | None = None,
        *,
        limits: Limits | None = None,
        agents: Sequence[Lead] = (),
        context: Any = None,
    ) -> RunResult[T]:
        """Like `resume`, awaiting."""
        return await self.arun(Resumption(saved, answers, limits, agents), context=context)

    def as_tool(self, name: str | None = None, description: str | None = None, **unknown: Never) -> Tool[[str], str]:
        """This agent as a tool of another. Each call is a conversation of its own, within the caller's limits."""
        settings.refuse_of_run("as_tool", unknown, ("name", "description"))
        worker = Worker(self)
        return team.agent_tool(self, worker, worker.acall, name, description)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, tools={self.tools!r})"
