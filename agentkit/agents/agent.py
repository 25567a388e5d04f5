"""The `Agent` class: a name, an instruction, an LLM, tools and a policy."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, closing
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, TypeVar, Unpack, overload

from agentkit._dataclass import dataclass
from agentkit.agents import options as agent_options
from agentkit.agents.budget import ContextBudget
from agentkit.agents.options import AgentOptions, Prompt, check_rules, validate_listener
from agentkit.agents.result import Answers, AsyncRunStream, Resumption, RunFinished, RunResult, RunStream, final_result
from agentkit.agents.run_config import (
    LINEAGE,
    BatchScope,
    HandoffTarget,
    Instruction,
    agent_tool,
    durable_scope,
    reachable,
)
from agentkit.agents.runner import MapOptions, ResumeOptions, Runner, RunOptions, Work
from agentkit.agents.tool_policy import CallProgress
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError, Postponed, ToolError, short_traceback
from agentkit.events import Approved, Event, HistoryGiven, RequestStarted, RunEnded, TextDelta, ToolCallPostponed
from agentkit.llm.pricing import cost_of
from agentkit.llm.protocols.chat_completions import encode_message
from agentkit.messages import Message, Pause, labels_of, without_extra
from agentkit.safety.approval import Approval, ApproverAnswer, Grants
from agentkit.sessions.session import Session
from agentkit.sessions.state import RunState
from agentkit.sessions.transfer import validate_messages
from agentkit.tooling.run_context import CONTEXT, NO_RUN, ContextType
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.usage import NO_USAGE, Cost, Limits, Usage

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from agentkit.agents.batch import BatchRun, OnProgress
    from agentkit.agents.guardrails import GuardrailFunction, MiddlewareFunction
    from agentkit.agents.options import Unlabelled
    from agentkit.agents.result import GivenApprover
    from agentkit.decisions import Level
    from agentkit.llm.client import LLM
    from agentkit.safety.policy import Policy
    from agentkit.safety.rules import Rule
    from agentkit.sessions.context_window import Window
    from agentkit.tooling.toolset import ToolFunction, ToolItem
    from agentkit.tracing.listeners import Listener
    from agentkit.workspace.workspace import Workspace


T = TypeVar("T")


class MapMixin(Runner, Generic[T]):
    """An agent that can run many prompts, each in a separate conversation."""

    def map(
        self,
        prompts: Iterable[Prompt],
        concurrency: int = 8,
        *,
        limits: Limits | None = None,
        progress: OnProgress | None = None,
        executor: Executor | None = None,
        **options: Unpack[MapOptions],
    ) -> list[RunResult[T]]:
        """Run each prompt in a separate session, `concurrency` at a time; returns results in the order of the prompts.

        A failure is a result, and the others continue. `limits` apply to all runs together; once they are exhausted,
        the remaining prompts get results with the status `limit` at no cost. `progress` is called in this thread with
        the number of finished prompts, the total (None if unknown) and the newest result. A lazy iterable is consumed
        as slots become free.

        With a stored session `trip` the runs are the sessions `trip/0000`, `trip/0001`, …: mapped again, a finished
        prompt costs nothing, and an interrupted one is resumed. Ctrl-C starts no more runs and stops the others at
        their next event.

        `executor` runs them instead of internal threads: a ThreadPoolExecutor, a ProcessPoolExecutor, Dask's
        `client.get_executor()`. Other processes get a copy of the agent; listeners get the events of a run, and
        `limits` its usage, when its result arrives. `session`, `context`, `model` and `llm` are those of each run, as
        in `run`; of a stored session `trip` the runs are `trip/0000` and so on. Raises ConfigError and NoProvider
        before anything runs.
        """
        with short_traceback:
            scope = self._batch_scope(options)
            items = prompts if scope is None else list(prompts)
            how: dict[str, Any] = {"limits": limits, "progress": progress, "executor": executor, "scope": scope}

            def start() -> list[RunResult[T]]:
                return self._batch("map", items, concurrency, options, **how).run()

            return start() if scope is None else scope.run(start)

    async def amap(
        self,
        prompts: Iterable[Prompt],
        concurrency: int = 8,
        *,
        limits: Limits | None = None,
        progress: OnProgress | None = None,
        executor: Executor | None = None,
        **options: Unpack[MapOptions],
    ) -> list[RunResult[T]]:
        """Async version of `map`. Without an executor the runs are tasks, which are cancelled with the calling task."""
        with short_traceback:
            scope = self._batch_scope(options)
            how: dict[str, Any] = {"limits": limits, "progress": progress, "executor": executor, "scope": scope}
            results = await self._batch("amap", prompts, concurrency, options, **how).arun()
            return results if scope is None else scope.run(lambda: results)

    def _batch_scope(self, options: Mapping[str, Any]) -> BatchScope | None:
        """The place of the batch in a durable function."""
        scope = durable_scope(options.get("session"))
        return None if scope is None else scope.map_runs(self)

    def _batch(
        self,
        function: str,
        prompts: Iterable[Prompt],
        concurrency: int,
        options: Mapping[str, Any],
        scope: BatchScope | None,
        **how: Any,
    ) -> BatchRun:
        unknown = options.keys() - MapOptions.__annotations__.keys()
        if unknown:
            from agentkit.suggestions import arguments_of, raise_unknown_argument

            accepted = (*arguments_of(MapMixin.map), *MapOptions.__annotations__)
            raise_unknown_argument(f"Agent.{function}", unknown, accepted)
        from agentkit.agents.batch import BatchRun

        answers = None
        if scope is not None:
            options, answers = {**options, "session": scope.session}, scope.answers()
        return BatchRun(self, prompts, concurrency, options=self._map_options(**options), answers=answers, **how)


PARAGRAPH = "\n\n"


@dataclass(slots=True)
class StreamedText:
    """The text streamed so far in a run. With `withholds_text` text is only emitted after it was checked."""

    withholds_text: bool
    texts: list[str] = field(default_factory=list)
    """The text emitted for each response."""

    def piece(self, event: Event) -> str:
        """The text to emit for an event; each response starts a new paragraph."""
        if isinstance(event, RequestStarted):
            self.texts.append("")
        if not isinstance(event, TextDelta) or self.withholds_text:
            return ""
        before = PARAGRAPH if any(self.texts) and not self.texts[-1] else ""
        self.texts[-1] += event.text
        return before + event.text

    def rest(self, answer: str) -> str:
        """The part of the answer that was not emitted yet."""
        emitted = next((text for text in reversed(self.texts) if text and answer.startswith(text)), None)
        if emitted is not None:
            return answer[len(emitted) :]
        return (PARAGRAPH if any(self.texts) and answer else "") + answer


_Kind = TypeVar("_Kind", bound=Event)


_SETTABLE = (*agent_options.SETTABLE, "llm", "session", "handoffs", "history")


class ConversationMixin(Runner):
    """The conversation, usage and listeners of an agent. Attributes are validated like arguments when they are set."""

    if TYPE_CHECKING:

        @property
        def tools(self) -> Toolset:
            """The tools of the agent. Set it to a list or a toolset."""

        @tools.setter
        def tools(self, tools: Iterable[Any] | Callable[..., Any] | None) -> None: ...

    @property
    def history(self) -> list[dict[str, Any]]:
        """The conversation so far as plain dictionaries in the chat format, without the instruction. A copy.

        Set it to continue a conversation stored elsewhere: a list of such dictionaries, or typed messages. The previous
        conversation is forgotten as by `reset`. A tool result without labels gets those of its tool; a result of an
        unknown tool counts as private and untrusted. Raises ConfigError for an invalid message, and SessionError if a
        tool call does not have exactly one result.
        """
        return [encode_message(without_extra(message)) for message in self.messages]

    @history.setter
    def history(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        conversation = validate_messages(agent_options.conversation_from(messages, self.tools))
        self.reset()  # only a valid conversation replaces the current one
        self.session.append(conversation, are_valid=True)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far as typed messages. A tool that reads them gets the labels of their contents."""
        messages = self.session.messages
        LINEAGE.get().add_labels(labels_of(messages))
        return messages

    @property
    def usage(self) -> Usage:
        """The usage of all runs of this object; `reset` does not clear it."""
        return self._usage

    @property
    def cost(self) -> Cost | None:
        """The cost of all runs of this object, as far as prices are known; None if no price is known."""
        return cost_of(self._usage)

    @property
    def withholds_text(self) -> bool:
        """Whether text is held back because this agent or a reachable handoff target has a typed or checked output."""
        staff = [self, *reachable(self.handoff_targets)]
        rules = [each.answer_validator for each in staff if isinstance(each, ConversationMixin)]
        return any(each.output is not None or each.of("output") for each in rules)

    def stream_text(self, prompt: Prompt | Resumption, **options: Unpack[RunOptions]) -> Generator[str, None, None]:
        """The text of a run as it is written; text around tool calls is in separate paragraphs.

        A typed or checked answer is emitted in one piece after validation. Raises at its end what a call of the agent
        raises.
        """
        with short_traceback:
            agent_options.refuse_unknown("Agent.stream_text", options, ("prompt", *RunOptions.__annotations__))
            text_stream = self._text_stream(prompt)
            with closing(self.events(prompt, streaming=True, **options)) as events:
                for event in events:
                    if piece := self._text_of(event, text_stream):
                        yield piece

    async def astream_text(
        self, prompt: Prompt | Resumption, **options: Unpack[RunOptions]
    ) -> AsyncGenerator[str, None]:
        """Async version of `stream_text`."""
        with short_traceback:
            agent_options.refuse_unknown("Agent.astream_text", options, ("prompt", *RunOptions.__annotations__))
            text_stream = self._text_stream(prompt)
            async with aclosing(self.aevents(prompt, streaming=True, **options)) as events:
                async for event in events:
                    if piece := self._text_of(event, text_stream):
                        yield piece

    def _text_stream(self, prompt: Prompt | Resumption) -> StreamedText:
        """The state of a text stream; a resumed run can have requested an output type."""
        return StreamedText(self.withholds_text or (isinstance(prompt, Resumption) and prompt.rules is not None))

    def _text_of(self, event: Event, text_stream: StreamedText) -> str:
        """The text to emit for an event. Raises the error of a run without an answer."""
        if isinstance(event, RunFinished):
            return text_stream.rest(event.result.raise_for_status().text)
        return text_stream.piece(event)

    def stop(self) -> None:
        """Stop all active runs of this object, from any thread; their results are `failed` with the error Cancelled.

        A run stops at its next event: a delta, an answer, the result of a tool call; so do the runs of agents that its
        tools started. A long-running tool can check `RunContext.is_stopped`. Finished work is stored, and `resume`
        continues the run.
        """
        vars(self)["_stops"] = self._stops + 1

    def reset(self) -> None:
        """Forget the conversation and start a new one; a stored conversation is not deleted."""
        self.session = self.session.start_over()
        self._context_of = None
        self._context_budget.estimates.forget()

    def on(self, kind: type[_Kind], listener: Callable[[_Kind], object]) -> Callable[[_Kind], object]:
        """Call `listener` with every event of this type in all future runs. Raises ConfigError."""
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigError(f"on() takes a kind of event, e.g. agent.on(TextDelta, print). Got {kind!r:.200}.")
        if issubclass(kind, HistoryGiven | RunEnded):
            raise ConfigError(
                f"{kind.__name__} is only stored with the session, and not emitted. The last event is RunFinished."
            )
        validate_listener(listener)

        def call_listener(event: Event) -> None:
            if isinstance(event, kind):
                listener(event)

        self.listeners.append(call_listener)
        return listener

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute. Raises ConfigError for an invalid value, AttributeError for an unknown attribute."""
        if name in agent_options.SETTABLE:
            value = agent_options.SETTABLE[name](value)
            if name in ("policy", "tools"):
                given: dict[str, Any] = {"policy": self.policy, "tools": self.tools, name: value}
                check_rules(**given)
        elif not (name.startswith("_") or hasattr(type(self), name) or self._has_own_attributes):
            text = f"'Agent' object has no attribute {name!r}; these can be set: {', '.join(_SETTABLE)}"
            raise AttributeError(text, name=name, obj=self)
        object.__setattr__(self, name, value)

    @property
    def _has_own_attributes(self) -> bool:
        """Whether this is an instance of a user's subclass, which can have further attributes."""
        return not type(self).__module__.startswith("agentkit.")


@dataclass(frozen=True, slots=True)
class AgentTool:
    """The function of an agent's tool: the agent answers each request in a separate conversation.

    If a call of the agent waits for a person, the tool call waits too, and resumes the same run later.
    """

    agent: Runner

    @property
    def agents(self) -> tuple[Runner, ...]:
        """The agent that the tool can run."""
        return (self.agent,)

    def __call__(self, request: str) -> Any:
        """Let the agent answer. Raises ToolError when there is no answer.

        Args:
            request: The task of the agent, with all the information it needs: it does not see this conversation.
        """
        return self._return_value(final_result(list(self.agent.events(_new_or_resumed(request), session=Session()))))

    async def acall(self, request: str) -> Any:
        """Async version of a call."""
        return self._return_value(
            final_result([event async for event in self.agent.aevents(_new_or_resumed(request), session=Session())])
        )

    def _return_value(self, result: RunResult[Any]) -> Any:
        if result.status == "done":
            return result.value
        call_progress = LINEAGE.get().call_progress
        if result.status == "paused" and call_progress is not None:
            call_progress.pause = _pause(result)
            raise Postponed(call_progress.pause.question)
        so_far = f" Its text so far: {result.text}" if result.value else ""
        reason = result.error or " ".join(f"It waits for approval: {pending.question}" for pending in result.pending)
        raise ToolError(f"{self.agent.name} has no answer (status: {result.status}). {reason}{so_far}")


def _new_or_resumed(request: str) -> str | Resumption:
    """The request, or the waiting run that it started, with the person's answer."""
    call_progress = LINEAGE.get().call_progress
    return request if call_progress is None or not call_progress.waiting else _resumption(call_progress)


def _resumption(call_progress: CallProgress) -> Resumption:
    """Resume the waiting run. Raises ToolError if the person was asked about a different call."""
    (postponed,) = (each for each in call_progress.waiting if isinstance(each, ToolCallPostponed))
    (approved,) = (each for each in call_progress.waiting if isinstance(each, Approved))
    saved = RunResult.from_json(json.dumps(postponed.inner_run))
    pending, call = next(iter(saved.pending), None), postponed.call
    question = call.name, call.arguments, postponed.question
    if pending is None or (pending.tool, pending.arguments, pending.question) != question:
        raise ToolError("The saved run was changed: the person was asked about another call than the one that waits.")
    answer = _text_answer(approved) if pending.needs_answer else _approval_answer(approved)
    return Resumption(saved, {pending.id: answer})


def _text_answer(approved: Approved) -> str | Approval:
    return approved.text if approved.answer != Approval.NO else Approval.NO


def _approval_answer(approved: Approved) -> Any:
    arguments = None if approved.arguments is None else json.loads(approved.arguments)
    return ApproverAnswer(Approval(approved.answer), approved.text, arguments)


def _pause(result: RunResult[Any]) -> Pause:
    """The pause of the agent's run, at its first waiting call, with an id that is unique in the parent run."""
    step = RunState.of(result.events).waiting[0]
    call = replace(step.pending_call, id=f"{(CONTEXT.get() or NO_RUN).call}.{step.pending_call.id}")
    decision, folder = (None, "") if step.postponed is None else (step.postponed.decision, step.postponed.folder)
    return Pause(call, step.question, decision, folder, inner_run=json.loads(result.to_json()))


S = TypeVar("S")
_Output = TypeVar("_Output")
if TYPE_CHECKING:
    import typing_extensions

    _Context = typing_extensions.TypeVar("_Context", default=Any)
Saved = RunResult[Any] | str | None
"""A run to resume: its result, the text of it, or its id in the session; None for the newest in the session."""


_RUN_ARGUMENTS = ("prompt", "output_type", *RunOptions.__annotations__)
_RESUME_ARGUMENTS = ("saved", "answers", "limits", "agents", *ResumeOptions.__annotations__)
_ARGUMENTS = ("name", "tools", "instruction", "max_iterations", *AgentOptions.__annotations__, "output_type")


class Agent(ConversationMixin, MapMixin[T], Generic[T, ContextType]):
    """Answers prompts with a model and tools, and remembers the conversation.

    Any number of runs can be active at the same time, in threads or on event loops. Each starts with the history at
    that time, and appends its own messages as a block when it ends.

    Args:
        name: Name of the agent in events and approvals.
        tools: Tools, toolsets or plain functions.
        instruction: The system instruction: a text, or a function called for each run, with no parameters or the
            RunContext.
        max_iterations: Maximum number of model requests in one run.
        llm: The model's client; by default created from the environment on first use.
        model: The model's name, instead of `llm`.
        safety: The highest level of calls that run without approval.
        rules: Rules that allow, deny or ask about calls: `rules=[Rule("deny", "run_shell")]`.
        policy: The policy for all calls, instead of `safety` and `rules`; several agents can share it.
        unlabelled: What happens to calls of functions without a safety level: "allow" runs them, as SAFE ones are;
            "ask" requires approval.
        approve: The approver for the other calls: a function, sync or async, of an ApprovalRequest, and optionally the
            RunContext, that returns True, False, an Approval, a reason for a refusal, or other arguments as a dict;
            "later" pauses the run until `resume` answers.
        output_type: Type of `RunResult.output`: a dataclass, pydantic model, TypedDict, Literal, list, union, ….
        description: The purpose of the agent, shown to the models of other agents that can hand over to it or use it as
            a
            tool. The instruction is never shown to them.
        remember: Whether runs continue the conversation of the agent; otherwise each run without `session=` is new.
        session: Name of a stored conversation on this machine to continue, or a Session.
        limits: Limits of one run.
        window: How much of a long conversation the model reads: a Window, or a number of tokens; by default as much as
            it can.
        handoffs: Agents that the conversation can be handed to.
        workspace: The folder of the file tools, shell and journal; the current folder by default.
        guardrails: Functions with one parameter named `prompt`, `output` or `result` (of a tool) after what they check,
            and optionally a RunContext. They return None to pass, another value to amend, and raise ValueError to
            refuse with a reason.
        middleware: Functions `(request, proceed)` around each model request, and `(call, proceed)` around each tool
            call, sync or async, that can change what goes in and comes out. The first is the outermost.
        tool_calling: "text" describes the tools in the instruction, and reads one call in each response,
            `<TOOL: NAME>input</TOOL>`; by default tools are offered as the LLM does.
        dry_run: Report changes in `RunResult.changes` without making them.
        context: Data for tools that the model does not provide; passed to them in a RunContext.
        listeners: Functions called with every event of every run. An exception in one fails its run.

    Raises:
        ConfigError: An argument is invalid.
    """

    @overload
    def __init__(
        self: Agent[str, _Context],
        name: str = ...,
        tools: Iterable[ToolItem[_Context]] | ToolFunction | Tool[..., Any, _Context] | None = (),
        instruction: Instruction[_Context] | None = ...,
        max_iterations: int = ...,
        *,
        output_type: None = None,
        **options: Unpack[AgentOptions[_Context]],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[_Output, _Context],
        name: str = ...,
        tools: Iterable[ToolItem[_Context]] | ToolFunction | Tool[..., Any, _Context] | None = (),
        instruction: Instruction[_Context] | None = ...,
        max_iterations: int = ...,
        *,
        output_type: TypeForm[_Output],
        **options: Unpack[AgentOptions[_Context]],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any, _Context],
        name: str = ...,
        tools: Iterable[ToolItem[_Context]] | ToolFunction | Tool[..., Any, _Context] | None = (),
        instruction: Instruction[_Context] | None = ...,
        max_iterations: int = ...,
        *,
        output_type: Any,
        **options: Unpack[AgentOptions[_Context]],
    ) -> None: ...
    def __init__(
        self,
        name: str = "agent",
        tools: Iterable[Any] | Callable[..., Any] | None = (),
        instruction: Instruction | None = agent_options.DEFAULT_INSTRUCTION,
        max_iterations: int = 10,
        *,
        llm: LLM | None = None,
        model: str | None = None,
        safety: Level = SafetyLevel.NETWORK,
        policy: Policy | None = None,
        rules: Iterable[Rule | Mapping[str, Any]] = (),
        unlabelled: Unlabelled = "allow",
        approve: GivenApprover | Literal["later"] | None = None,
        output_type: Any = None,
        description: str | None = None,
        remember: bool = True,
        session: str | Session | None = None,
        limits: Limits | None = None,
        window: Window | int | None = None,
        handoffs: Iterable[HandoffTarget] = (),
        workspace: str | Path | Workspace | None = None,
        guardrails: Iterable[GuardrailFunction] = (),
        middleware: Iterable[MiddlewareFunction] = (),
        tool_calling: Literal["text"] | None = None,
        dry_run: bool = False,
        context: Any = None,
        listeners: Iterable[Listener] = (),
        **unknown: object,
    ) -> None:
        given = locals()  # each argument by its name
        with short_traceback:
            agent_options.refuse_unknown("Agent", unknown, _ARGUMENTS)
            own = vars(self)  # bypass __setattr__, as each value is validated already
            own.update(agent_options.attributes_from(given))
            own["_context_budget"] = ContextBudget(own.pop("_window"))
            own.update(_own_llm=None, _context_of=None, _grants=Grants(), _usage=NO_USAGE, _lock=threading.Lock())

    @classmethod
    def from_file(cls, path: str | Path, tools: Iterable[Any] = (), **options: Unpack[AgentOptions]) -> Agent[str]:
        """Load an agent from a plain text file: one setting per line, an empty line, the instruction.

        A text that lists tools as `<TOOL: NAME>input</TOOL>` needs no settings: it is offered these tools, under these
        names, and a file `memory` in its folder follows the instruction. `tools` are custom tools that the file can
        name; `options` override its settings. Its runs are saved in a session of this very file, wherever a program
        finds it. Raises ConfigError with the line.
        """
        from agentkit.agents.agent_file import read_manifesto  # loads all shipped tools

        return Agent(**read_manifesto(path, tools).arguments(options))

    def __call__(self, prompt: Prompt, **options: Unpack[RunOptions[ContextType]]) -> str:
        """The answer as text. Raises ModelError, or RunError with the result so far, if the run does not finish."""
        with short_traceback:
            agent_options.refuse_unknown("Agent.__call__", options, ("prompt", *RunOptions.__annotations__))
            return self.run(prompt, **options).raise_for_status().text

    @overload
    def run(
        self, prompt: Work = None, *, output_type: None = None, **given: Unpack[RunOptions[ContextType]]
    ) -> RunResult[T]: ...
    @overload
    def run(
        self, prompt: Work = None, *, output_type: TypeForm[S], **given: Unpack[RunOptions[ContextType]]
    ) -> RunResult[S]: ...
    @overload
    def run(
        self, prompt: Work = None, *, output_type: Any, **given: Unpack[RunOptions[ContextType]]
    ) -> RunResult[Any]: ...
    def run(
        self,
        prompt: Work = None,
        *,
        output_type: Any = None,
        **options: Unpack[RunOptions[ContextType]],
    ) -> RunResult[Any]:
        """Run to the end, blocking; a model failure or a limit is reported in the result, not raised.

        `output_type`, `limits`, `max_iterations`, `context`, `session`, and `model` or `llm`, override those of the
        agent for this run.
        `output_type` also applies to the agents it hands off to, and `output_type=str` is any text. `session` is the
        conversation to continue: a Session, or the name of a stored one. Pass limits and the model again when the run
        is resumed. Without a prompt the model answers the last message of the conversation, such as a tool result.
        Raises ConfigError and NoProvider for what is known before the run.
        """
        with short_traceback:
            agent_options.refuse_unknown("Agent.run", options, _RUN_ARGUMENTS)
            return final_result(list(self.events(prompt, output_type=output_type, **options)))

    @overload
    async def arun(
        self, prompt: Work = None, *, output_type: None = None, **given: Unpack[RunOptions[ContextType]]
    ) -> RunResult[T]: ...
    @overload
    async def arun(
        self, prompt: Work = None, *, output_type: TypeForm[S], **given: Unpack[RunOptions[ContextType]]
    ) -> RunResult[S]: ...
    @overload
    async def arun(
        self, prompt: Work = None, *, output_type: Any, **given: Unpack[RunOptions[ContextType]]
    ) -> RunResult[Any]: ...
    async def arun(
        self,
        prompt: Work = None,
        *,
        output_type: Any = None,
        **options: Unpack[RunOptions[ContextType]],
    ) -> RunResult[Any]:
        """Async version of `run`."""
        with short_traceback:
            agent_options.refuse_unknown("Agent.arun", options, _RUN_ARGUMENTS)
            events = self.aevents(prompt, output_type=output_type, **options)
            return final_result([event async for event in events])

    @overload
    def stream(
        self, prompt: Work = None, *, output_type: None = None, **given: Unpack[RunOptions[ContextType]]
    ) -> RunStream[T]: ...
    @overload
    def stream(
        self, prompt: Work = None, *, output_type: TypeForm[S], **given: Unpack[RunOptions[ContextType]]
    ) -> RunStream[S]: ...
    @overload
    def stream(
        self, prompt: Work = None, *, output_type: Any, **given: Unpack[RunOptions[ContextType]]
    ) -> RunStream[Any]: ...
    def stream(
        self,
        prompt: Work = None,
        *,
        output_type: Any = None,
        **options: Unpack[RunOptions[ContextType]],
    ) -> RunStream[Any]:
        """Run and yield events, with the text as it is written; the last event is RunFinished.

        `send("…")` of the stream sends a message into the run, from any thread or task, that the next request contains.
        The run starts when the first event is requested. Closing the generator, for example by leaving a `for` loop,
        interrupts the run: finished work stays in the history, and `resume` continues it.
        """
        with short_traceback:
            agent_options.refuse_unknown("Agent.stream", options, _RUN_ARGUMENTS)
            return self._stream_events(prompt, output_type=output_type, **options)

    @overload
    def astream(
        self, prompt: Work = None, *, output_type: None = None, **given: Unpack[RunOptions[ContextType]]
    ) -> AsyncRunStream[T]: ...
    @overload
    def astream(
        self, prompt: Work = None, *, output_type: TypeForm[S], **given: Unpack[RunOptions[ContextType]]
    ) -> AsyncRunStream[S]: ...
    @overload
    def astream(
        self, prompt: Work = None, *, output_type: Any, **given: Unpack[RunOptions[ContextType]]
    ) -> AsyncRunStream[Any]: ...
    def astream(
        self,
        prompt: Work = None,
        *,
        output_type: Any = None,
        **options: Unpack[RunOptions[ContextType]],
    ) -> AsyncRunStream[Any]:
        """Async version of `stream`. To leave it early, use it as `async with`."""
        with short_traceback:
            agent_options.refuse_unknown("Agent.astream", options, _RUN_ARGUMENTS)
            return self._astream_events(prompt, output_type=output_type, **options)

    def resume(
        self,
        saved: Saved = None,
        answers: Answers | None = None,
        *,
        limits: Limits | None = None,
        agents: Sequence[HandoffTarget] = (),
        **options: Unpack[ResumeOptions[ContextType]],
    ) -> RunResult[T]:
        """Resume a run, blocking: a result, the text of `RunResult.to_json`, an id, or by default the session's newest.

        Ids are those in `session.unfinished`, the interrupted or paused runs; the newest is the last. `answers` are
        those of `RunResult.resume`; without answers and without an approver nobody is asked, and the result lists the
        waiting calls. `agents` are agents that a tool returned and that are not in the handoffs. `options` are those of
        `run`; a result of this process has its session, context and requested output type. Elsewhere,
        `run(Resumption(text, answers), output_type=...)` requests it again. Raises SessionError if there is nothing to
        resume, and ConfigError, before anything is answered, if the active agent of the run is unknown, a call
        that waits for approval was requested in another folder, or its tool is missing.
        """
        agent_options.refuse_unknown("Agent.resume", options, _RESUME_ARGUMENTS)
        return self.run(Resumption(saved, answers, limits, agents), **options)

    async def aresume(
        self,
        saved: Saved = None,
        answers: Answers | None = None,
        *,
        limits: Limits | None = None,
        agents: Sequence[HandoffTarget] = (),
        **options: Unpack[ResumeOptions[ContextType]],
    ) -> RunResult[T]:
        """Async version of `resume`."""
        agent_options.refuse_unknown("Agent.aresume", options, _RESUME_ARGUMENTS)
        return await self.arun(Resumption(saved, answers, limits, agents), **options)

    def as_tool(self, name: str | None = None, description: str | None = None, **unknown: Never) -> Tool[[str], T]:
        """This agent as a tool of another. Each call is a separate conversation, within the caller's limits."""
        agent_options.refuse_unknown("Agent.as_tool", unknown, ("name", "description"))
        worker = AgentTool(self)
        return agent_tool(self, worker, worker.acall, name, description)

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types: Any) -> Any:
            """The second type, that of the context, is optional."""
            given = types if isinstance(types, tuple) else (types,)
            return super().__class_getitem__((*given, Any)[:2])

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, tools={self.tools!r})"
