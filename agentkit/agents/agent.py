"""The `Agent` class: a name, an instruction, an LLM, tools and a policy."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, closing
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Never, TypedDict, TypeVar, Unpack, overload

from agentkit._dataclass import dataclass
from agentkit.agents import handoffs, options
from agentkit.agents import handoffs as team
from agentkit.agents import options as settings
from agentkit.agents.context_window import ContextBudget
from agentkit.agents.guardrails import CheckFunction
from agentkit.agents.options import Prompt, checked_listener
from agentkit.agents.result import Answers, GivenApprover, Resumption, RunFinished, RunResult, result_in
from agentkit.agents.rule_checks import check_rules
from agentkit.agents.run_config import LINEAGE, HandoffTarget, Instruction
from agentkit.agents.runner import Runner, RunOptions, Work
from agentkit.agents.tool_policy import CallProgress
from agentkit.errors import ConfigError, Postponed, ToolError
from agentkit.events import Approved, Event, HistoryGiven, RequestStarted, RunEnded, TextDelta, ToolCallPostponed
from agentkit.levels import SafetyLevel
from agentkit.llm.client import LLM
from agentkit.llm.pricing import cost_of
from agentkit.llm.protocols.chat_completions import encode_message
from agentkit.messages import Message, Pause, without_extra
from agentkit.safety.approval import Approval, ApproverAnswer, Grants
from agentkit.safety.data_flow import labels_of
from agentkit.safety.policy import Policy
from agentkit.sessions.context_window import Window
from agentkit.sessions.run_state import RunState
from agentkit.sessions.session import Session
from agentkit.suggestions.attribute_errors import explained, no_such
from agentkit.tooling.run_context import CONTEXT, NO_RUN
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.tracing.listeners import Listener
from agentkit.usage import NO_USAGE, Cost, Limits, Usage
from agentkit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from agentkit.agents.batch import OnProgress


T = TypeVar("T")


class MapMixin(Runner, Generic[T]):
    """An agent that answers each of many prompts in a conversation of its own."""

    def map(
        self,
        prompts: Iterable[Prompt],
        concurrency: int = 8,
        *,
        limits: Limits | None = None,
        progress: OnProgress | None = None,
        executor: Executor | None = None,
        **unknown: Never,
    ) -> list[RunResult[T]]:
        """Run each prompt in a session of its own, so many at the same time; the results in the order of the prompts.

        A failure is a result, and the others go on. `limits` are for all runs together; once they are used up, the
        rest are results with the status `limit` that cost nothing. `progress` is called in this thread with how many
        prompts are done, how many there are (None when nobody knows) and the newest result. A lazy iterable is asked
        for a prompt when there is room for it.

        With a stored session `trip` the runs are the sessions `trip/0000`, `trip/0001`, …: mapped again, a prompt that
        has its answer costs nothing, and one that was cut off goes on. Ctrl-C begins no more runs and ends the others
        at their next event.

        `executor` runs them instead of own threads: a ThreadPoolExecutor, a ProcessPoolExecutor, Dask's
        `client.get_executor()`. Other processes get a copy of the agent; its listeners hear of a run, and `limits`
        count it, when its result comes back. Raises ConfigError and NoProvider before anything runs.
        """
        _refuse("map", unknown)
        from agentkit.agents.batch import BatchRun

        return BatchRun(self, prompts, concurrency, limits=limits, progress=progress, executor=executor).run()

    async def amap(
        self,
        prompts: Iterable[Prompt],
        concurrency: int = 8,
        *,
        limits: Limits | None = None,
        progress: OnProgress | None = None,
        executor: Executor | None = None,
        **unknown: Never,
    ) -> list[RunResult[T]]:
        """Like `map`, awaiting: without an executor the runs are tasks of this event loop, cancelled with this one."""
        _refuse("amap", unknown)
        from agentkit.agents.batch import BatchRun

        return await BatchRun(self, prompts, concurrency, limits=limits, progress=progress, executor=executor).arun()


def _refuse(function: str, given: Iterable[str]) -> None:
    """Raise TypeError for an argument that is not taken, with what was probably meant."""
    if given:
        from agentkit.suggestions import arguments_of, refuse
        from agentkit.suggestions.other_toolkits import MAPPING

        refuse(f"Agent.{function}", given, arguments_of(MapMixin.map), MAPPING)


PARAGRAPH = "\n\n"


@dataclass(slots=True)
class StreamedText:
    """What somebody was told of a run that is streamed. With `holds_back` nothing is told before it was checked."""

    holds_back: bool
    said: list[str] = field(default_factory=list)
    """What was told of each response."""

    def piece(self, event: Event) -> str:
        """What an event adds; what each response has said stands in paragraphs of its own."""
        if isinstance(event, RequestStarted):
            self.said.append("")
        if not isinstance(event, TextDelta) or self.holds_back:
            return ""
        before = PARAGRAPH if any(self.said) and not self.said[-1] else ""
        self.said[-1] += event.text
        return before + event.text

    def rest(self, answer: str) -> str:
        """What of the answer is still to be told."""
        told = next((said for said in reversed(self.said) if said and answer.startswith(said)), None)
        if told is not None:
            return answer[len(told) :]
        return (PARAGRAPH if any(self.said) and answer else "") + answer


_Kind = TypeVar("_Kind", bound=Event)


@explained("AGENT")
class ConversationMixin(Runner):
    """What an agent has said, spent, and tells to whom. What is set is checked as if the agent was made with it."""

    if TYPE_CHECKING:

        @property
        def tools(self) -> Toolset:
            """What a model may use. Set it to a list or a toolset."""

        @tools.setter
        def tools(self, tools: Iterable[Any] | Callable[..., Any] | None) -> None: ...

    @property
    def history(self) -> list[dict[str, Any]]:
        """The conversation so far as plain dictionaries in the chat format, without the instruction. A copy.

        Set it to go on with a conversation that was kept elsewhere: a list of such dictionaries, or typed messages.
        What was said before is forgotten as by `reset`. Of a tool's result that comes without labels, those of the tool
        are held to be true; of an unknown tool's, that it may hold private data and text of strangers. Raises
        ConfigError for what is no message, and SessionError when a tool call has not exactly one result.
        """
        return [encode_message(without_extra(message)) for message in self.messages]

    @history.setter
    def history(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        said = options.conversation_from(messages, self.tools)
        Session().append(said)  # what is no conversation is told before the one that is there is put away
        self.reset()
        self.session.append(said)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far as typed messages. A tool that reads them bears the labels of what they hold."""
        messages = self.session.messages
        LINEAGE.get().note(labels_of(messages))
        return messages

    @property
    def usage(self) -> Usage:
        """What all runs of this object have spent so far; `reset` does not undo spending."""
        return self._usage

    @property
    def cost(self) -> Cost | None:
        """What all runs of this object have cost, as far as anybody knows the prices; None when nobody does."""
        return cost_of(self._usage)

    @property
    def holds_back(self) -> bool:
        """Whether an answer of this agent, or of one that may take over, is typed or checked before it may be seen."""
        staff = [self, *handoffs.reachable(self.leads)]
        rules = [each.answer_rules for each in staff if isinstance(each, ConversationMixin)]
        return any(each.output is not None or each.of("output") for each in rules)

    def stream_text(
        self, prompt: Prompt | Resumption, *, limits: Limits | None = None, context: Any = None
    ) -> Generator[str, None, None]:
        """The text of a run as it is written; what the model says around tool calls stands in paragraphs of its own.

        What is typed or checked comes in one piece, when it may. Raises, at its end, what a call of the agent raises.
        """
        spoken = self._spoken(prompt)
        with closing(self.events(prompt, streaming=True, limits=limits, context=context)) as events:
            for event in events:
                if piece := self._said_by(event, spoken):
                    yield piece

    async def astream_text(
        self, prompt: Prompt | Resumption, *, limits: Limits | None = None, context: Any = None
    ) -> AsyncGenerator[str, None]:
        """Like `stream_text`, awaiting."""
        spoken = self._spoken(prompt)
        async with aclosing(self.aevents(prompt, streaming=True, limits=limits, context=context)) as events:
            async for event in events:
                if piece := self._said_by(event, spoken):
                    yield piece

    def _spoken(self, prompt: Prompt | Resumption) -> StreamedText:
        """What will be told of a run; one that goes on may have asked for a type of its own."""
        return StreamedText(self.holds_back or (isinstance(prompt, Resumption) and prompt.rules is not None))

    def _said_by(self, event: Event, spoken: StreamedText) -> str:
        """What an event adds to the text. Raises the error of a run that got to no answer."""
        if isinstance(event, RunFinished):
            return spoken.rest(event.result.raise_for_status().text)
        return spoken.piece(event)

    def stop(self) -> None:
        """End all runs of this object that are going on, from any thread; each raises Cancelled where it was begun.

        A run ends at its next event: a delta, an answer, the result of a tool call; so do those of agents that its
        tools have set to work. A tool that takes long may look at `RunContext.is_stopped`. What was done is kept, and
        `resume` goes on with it.
        """
        vars(self)["_stops"] = self._stops + 1

    def reset(self) -> None:
        """Forget the conversation; a stored one is kept, and begins anew."""
        self.session = self.session.anew()

    def on(self, kind: type[_Kind], listener: Callable[[_Kind], object]) -> Callable[[_Kind], object]:
        """Call `listener` with every event of that kind, in every run from now on. Raises ConfigError."""
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigError(f"on() takes a kind of event, e.g. agent.on(TextDelta, print). Got {kind!r:.200}.")
        if issubclass(kind, HistoryGiven | RunEnded):
            raise ConfigError(
                f"{kind.__name__} is kept with a session, and told to nobody. A run ends with RunFinished."
            )
        checked_listener(listener)

        def heard(event: Event) -> None:
            if isinstance(event, kind):
                listener(event)

        self.listeners.append(heard)
        return listener

    def __setattr__(self, name: str, value: object) -> None:
        """Set what an agent has. Raises ConfigError for a wrong value, AttributeError for what would change nothing."""
        if name in options.SETTABLE:
            value = options.SETTABLE[name](value)
            if name in ("policy", "tools"):
                given: dict[str, Any] = {"policy": self.policy, "tools": self.tools, name: value}
                check_rules(**given)
        elif not (name.startswith("_") or hasattr(type(self), name) or self._has_own_attributes):
            raise no_such(self, name, "AGENT")
        object.__setattr__(self, name, value)

    @property
    def _has_own_attributes(self) -> bool:
        """Whether this is an agent of a user's own class, which may have more attributes than ours."""
        return not type(self).__module__.startswith("agentkit.")


@dataclass(frozen=True, slots=True)
class AgentTool:
    """What the tool of an agent calls: it has the agent answer a request, each in a conversation of its own.

    Where a call of the agent waits for a person, so does the call of the tool, which then goes on with the same run.
    """

    agent: Runner

    def __call__(self, request: str) -> str:
        """Let the agent answer. Raises ToolError when there is no answer.

        Args:
            request: What the agent is to do, with all that it must know: it does not see this conversation.
        """
        return self._told(result_in(list(self.agent.events(_work(request), session=Session()))))

    async def acall(self, request: str) -> str:
        """Like a call, awaiting."""
        return self._told(result_in([event async for event in self.agent.aevents(_work(request), session=Session())]))

    def _told(self, result: RunResult[Any]) -> str:
        if result.status == "done":
            return result.text
        sitting = LINEAGE.get().sitting
        if result.status == "paused" and sitting is not None:
            sitting.pause = _pause(result)
            raise Postponed(sitting.pause.question)
        so_far = f" It had said: {result.value}" if result.value else ""
        why = result.error or " ".join(f"It waits for a person: {pending.question}" for pending in result.pending)
        raise ToolError(f"{self.agent.name} did not get to an answer ({result.status}). {why}{so_far}")


def _work(request: str) -> str | Resumption:
    """The request, or the run that was begun for it, with what a person has said of its call."""
    sitting = LINEAGE.get().sitting
    return request if sitting is None or not sitting.waiting else _resumption(sitting)


def _resumption(sitting: CallProgress) -> Resumption:
    """Going on with the run that waits. Raises ToolError where a person was asked about another call than waits."""
    (postponed,) = (each for each in sitting.waiting if isinstance(each, ToolCallPostponed))
    (said,) = (each for each in sitting.waiting if isinstance(each, Approved))
    saved = RunResult.from_json(json.dumps(postponed.inner_run))
    waits, asked = next(iter(saved.pending), None), postponed.call
    told = asked.name, asked.arguments, postponed.question
    if waits is None or (waits.tool, waits.arguments, waits.question) != told:
        raise ToolError("The saved run was changed: the person was asked about another call than the one that waits.")
    return Resumption(saved, {waits.id: _words(said) if waits.needs_answer else _answer(said)})


def _words(said: Approved) -> str | Approval:
    return said.text if said.answer != Approval.NO else Approval.NO


def _answer(said: Approved) -> Any:
    arguments = None if said.arguments is None else json.loads(said.arguments)
    return ApproverAnswer(Approval(said.answer), said.text, arguments)


def _pause(result: RunResult[Any]) -> Pause:
    """Where the agent's run stands still: at the first of its calls that wait, under an id of its own in ours."""
    waits = RunState.of(result.milestones).waiting[0]
    asked = replace(waits.asked, id=f"{(CONTEXT.get() or NO_RUN).call}.{waits.asked.id}")
    decision, folder = (None, "") if waits.postponed is None else (waits.postponed.decision, waits.postponed.folder)
    return Pause(asked, waits.question, decision, folder, inner_run=json.loads(result.to_json()))


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
    handoffs: Iterable[HandoffTarget]
    workspace: str | Path | Workspace | None
    checks: Iterable[CheckFunction]
    dry_run: bool
    context: Any
    listeners: Iterable[Listener]


_TAKEN = ("name", "tools", "instruction", "max_iterations", *AgentOptions.__annotations__, "output_type")


class Agent(ConversationMixin, MapMixin[T], Generic[T]):
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
        handoffs: Iterable[HandoffTarget] = (),
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
        own["_answers"], own["_room"] = (
            settings.rules_from(output_type, checks),
            ContextBudget(settings.window_from(window)),
        )
        own["context"], own["_grants"], own["_usage"], own["_lock"] = context, Grants(), NO_USAGE, threading.Lock()
        check_rules(self.policy, self.tools)

    @classmethod
    def from_file(cls, path: str | Path, tools: Iterable[Any] = (), **options: Unpack[AgentOptions]) -> Agent[str]:
        """The agent that a plain text file describes: settings a line each, an empty line, the instruction.

        `tools` are tools of your own that the file may name; `options` come before what it says. Its runs are saved in
        a session of this very file, wherever a program finds it. Raises ConfigError, which tells the line.
        """
        from agentkit.agents.agent_file import read_manifesto  # which knows every shipped tool

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
        agents: Sequence[HandoffTarget] = (),
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
        agents: Sequence[HandoffTarget] = (),
        context: Any = None,
    ) -> RunResult[T]:
        """Like `resume`, awaiting."""
        return await self.arun(Resumption(saved, answers, limits, agents), context=context)

    def as_tool(self, name: str | None = None, description: str | None = None, **unknown: Never) -> Tool[[str], str]:
        """This agent as a tool of another. Each call is a conversation of its own, within the caller's limits."""
        settings.refuse_of_run("as_tool", unknown, ("name", "description"))
        worker = AgentTool(self)
        return team.agent_tool(self, worker, worker.acall, name, description)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, tools={self.tools!r})"
