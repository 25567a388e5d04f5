"""Setup, event dispatch and persistence of runs, shared by `run`, `arun`, `stream` and `astream`."""

from __future__ import annotations

import copy
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from typing import Any, Generic, Literal, Self, TypedDict, Unpack

from agentkit import recording
from agentkit._dataclass import dataclass
from agentkit.agents import options
from agentkit.agents.budget import Budget, ContextBudget
from agentkit.agents.effects import AskModel, Steps, UseTools, adrive, drive
from agentkit.agents.guardrails import AnswerValidator, Middleware, PartialAnswer
from agentkit.agents.human_approval import approver_in, check_approver, check_waiting, with_answers
from agentkit.agents.loop import RunLoop
from agentkit.agents.model_requests import conditions_of
from agentkit.agents.options import Prompt
from agentkit.agents.result import (
    AsyncRunStream,
    GivenApprover,
    Inbox,
    Resumption,
    RunFinished,
    RunResult,
    RunStream,
    final_result,
    pending_calls,
    to_agentkit_error,
)
from agentkit.agents.run_config import (
    DURABLE,
    LINEAGE,
    MAX_DEPTH,
    HandoffTarget,
    ParentRun,
    PausingTool,
    RunConfig,
    durable_scope,
    find_agent,
    handoff_tools,
)
from agentkit.agents.tool_calls import unknown_agent
from agentkit.agents.tool_policy import JudgedCall, ToolPolicyContext
from agentkit.errors import Cancelled, ConfigError, ReplayError, RunError, SessionError
from agentkit.event_rendering import content_text, error_text
from agentkit.events import (
    Event,
    HandedOff,
    RequestFailed,
    ResponseReceived,
    RunEnded,
    RunLeft,
    StoredEvent,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
)
from agentkit.llm.client import LLM
from agentkit.messages import Content, Response, ToolResult, labels_of
from agentkit.recording import TAPE
from agentkit.safety.approval import Grants
from agentkit.sessions.session import Session, SessionRun
from agentkit.sessions.state import RunState
from agentkit.tooling.run_context import ContextType, RunContext, RunResources
from agentkit.tools.run_tools import initial_specs
from agentkit.tracing.listeners import (
    OUTSIDE_RUNS,
    ContextListener,
    Listener,
    ModelRequest,
    Origin,
    ToolUse,
    contexts_around,
    dispatch,
    is_context_listener,
)
from agentkit.usage import NO_USAGE, Limits, Usage
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace


class ActiveRun:
    """A run that has been set up: stores its events, counts them, and emits them to the agent's listeners.

    As a context manager it closes the run, and emits RunLeft if the block is left before the run has ended. `failure`
    is the exception of a listener or of the session's store, or that the run was stopped.
    """

    def __init__(self, agent: Runner, task: _Task, run: SessionRun, loop: RunLoop, steps: Steps) -> None:
        self.failure: Exception | None = None
        self._agent, self._session, self._run, self._loop = agent, task.session, run, loop
        self._parent = LINEAGE.get().context.run
        self._has_ended = False
        self._origin: tuple[tuple[object, ...], Origin] = ((), OUTSIDE_RUNS)
        self._request_seconds: float | None = None
        self._resources = loop.config.context.resources or RunResources()
        self._partial_answer: PartialAnswer | None = None
        contexts = [listener for listener in agent.listeners if is_context_listener(listener)]
        self.steps = self._attach(steps, contexts) if agent.listeners else steps

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            if error is not None and not self._has_ended:
                self._emit(RunLeft("" if isinstance(error, GeneratorExit) else error_text(error)), is_last=True)
        finally:
            self._agent.count_usage(self._loop.requester.abandoned_usage)
            self._resources.close()
            self._run.close()

    def origin(self) -> Origin:
        """The origin of the current events of the run."""
        loop = self._loop
        agent, name = loop.config.context.agent, stored_name(self._session)
        key = (loop.config.active_agent, agent, name, loop.iteration, self._request_seconds)
        if self._origin[0] != key:  # built once for all events of an iteration
            described = getattr(loop.config.active_agent, "description", None) or ""
            seconds = self._request_seconds
            origin = Origin(
                loop.run.id, agent, self._parent, name, loop.iteration, description=described, request_seconds=seconds
            )
            self._origin = key, origin
        return self._origin[1]

    def events(self, event: Event, *, streaming: bool) -> list[Event]:
        """Store and emit an event of the loop; returns the events for the caller. A failure is noted in `failure`."""
        caught: list[Event] = []
        events: tuple[Event, ...] = (event,)
        try:
            if streaming:
                self._partial_answer = self._partial_answer or PartialAnswer(lambda: self._loop.config.answers)
                events = self._partial_answer.with_partial_output(event)
            for each in events:
                is_last = isinstance(each, RunFinished)
                if isinstance(each, StoredEvent):
                    self._run.keep(each)
                    if TAPE.get() is not None:
                        recording.record_event(self._run.id, each)
                    if isinstance(each, RunEnded):  # stored, but not for the caller
                        continue
                    self._agent.count(each)
                elif is_last:
                    self._run.close()
                self._emit(each, is_last=is_last)
                caught.append(each)
        except Exception as error:
            self.failure = error
        return caught

    @property
    def has_failed(self) -> bool:
        """Whether the run must end now, because of a failure or because it was stopped."""
        if not self._has_ended and self.failure is None and self._loop.config.context.stopping():
            self.failure = Cancelled(_STOPPED)
        return self.failure is not None

    def failed(self, error: Exception) -> RunFinished[Any]:
        """End the run after an exception from outside of the loop; its finished work stays stored and resumable.

        Raises errors of the program and of a replay: ConfigError and ReplayError.
        """
        if isinstance(error, ConfigError | ReplayError):
            raise error
        with suppress(Exception):  # a broken store, whose error can be this one
            self._run.close()
        finished = self._loop.failed(to_agentkit_error(error))
        if not self._has_ended:
            self._has_ended = True
            for listener in tuple(self._agent.listeners):
                with suppress(Exception):  # one listener has failed, and the others learn that the run is over
                    dispatch((listener,), finished, self.origin())
        return finished

    def _emit(self, event: Event, *, is_last: bool = False) -> None:
        """Emit an event to the listeners, whose list can grow during the run."""
        self._has_ended = is_last
        if self._agent.listeners:
            dispatch(tuple(self._agent.listeners), event, self.origin())

    def _attach(self, steps: Steps, listeners: Sequence[ContextListener]) -> Steps:
        """The steps of the run: measures requests, and wraps requests and tool calls in the listeners' contexts."""
        for step in steps:
            if isinstance(step, AskModel):
                step.around = partial(self._around_request, listeners, step) if listeners else step.around
                began = time.perf_counter()
                yield step
                self._request_seconds = time.perf_counter() - began
                continue
            if listeners and isinstance(step, UseTools):
                step.around = partial(self._around_call, listeners, step.results)
                step.lineage = replace(step.lineage, attached=partial(self._attach, listeners=listeners))
            yield step

    @contextmanager
    def _around_request(self, listeners: Sequence[ContextListener], effect: AskModel) -> Iterator[None]:
        llm = effect.llm()
        description, request = llm.describe(), llm.request_of(effect.request)
        work = ModelRequest(
            self.origin(), request, description.provider, description.model, description.endpoint, effect.is_streamed
        )
        with contexts_around(listeners, work):
            yield
            work.response = effect.answer if isinstance(effect.answer, Response) else None

    @contextmanager
    def _around_call(
        self, listeners: Sequence[ContextListener], results: Mapping[str, ToolResult], judged: JudgedCall
    ) -> Iterator[None]:
        description = "" if judged.tool is None else judged.tool.description
        work = ToolUse(self.origin(), judged.call, judged.decision, description)
        with contexts_around(listeners, work):
            yield
            work.result = results.get(judged.call.id)


def emit_afterwards(
    listeners: Sequence[Listener], known: Iterable[Event], new: Iterable[Event], source: Origin
) -> None:
    """Emit the new events of a run in another process to the listeners, after those they know."""
    source = replace(source, is_elsewhere=True)
    for event in known:
        source = _after(event, source)
    for event in new:
        source = _after(event, source)
        dispatch(tuple(listeners), event, source)


def _after(event: Event, source: Origin) -> Origin:
    """The origin of the events that follow this one."""
    if isinstance(event, ResponseReceived):
        return replace(source, iteration=source.iteration + 1)
    return replace(source, agent=event.agent) if isinstance(event, HandedOff) else source


def stored_name(session: Session) -> str:
    """The name of a stored session; empty for a session in memory."""
    return "" if session.store is None else session.name


def spent_in(event: Event) -> Usage | None:
    """The usage that an event reports."""
    match event:
        case ResponseReceived(response):
            return response.usage
        case ToolCallFinished(_, result):
            return result.usage
        case ToolCallPostponed(usage=usage):
            return usage
        case Summarised(_, _, usage) | RequestFailed(_, _, usage):
            return usage
    return None


Work = Prompt | Resumption | None
"""The input of a run: a prompt, a run to resume, or None to answer the last message of the conversation."""

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_MAX_LABEL_CHARS = 2_000
_STOPPED = "The run was stopped. Its work is stored, and agent.resume() continues it."


class RunOptions(TypedDict, Generic[ContextType], total=False):
    """Options of a run that override those of the agent, except the output type."""

    limits: Limits | None
    max_iterations: int | None
    context: ContextType | None
    session: Session | str | None
    model: str | None
    llm: LLM | None


class MapOptions(TypedDict, Generic[ContextType], total=False):
    """Options of each run of a batch."""

    max_iterations: int | None
    context: ContextType | None
    session: Session | str | None
    model: str | None
    llm: LLM | None


class ResumeOptions(MapOptions[ContextType], total=False):
    """Options of a resumed run."""


class RunArguments(RunOptions, total=False):
    """Run options including the output type."""

    output_type: Any


class Runner(HandoffTarget):
    """The parts of an agent, and the execution of its runs."""

    max_iterations: int
    approve: GivenApprover | None
    limits: Limits
    dry_run: bool
    context: Any
    listeners: list[Listener]
    _answers: AnswerValidator
    _middleware: tuple[Middleware, ...]
    _context_budget: ContextBudget
    _grants: Grants
    _usage: Usage
    _lock: threading.Lock
    remember: bool
    unlabelled: str
    _stops: int = 0
    _llm: LLM | None
    _own_llm: LLM | None
    """The client created for the agent's model, or for the environment's."""
    _model: str | None
    _tool_calling: Literal["text"] | None
    _text_llm: tuple[LLM, LLM] | None = None
    """The client of the newest run, and the same client with tool calls as text."""
    _context_of: tuple[Session, Any] | None
    """The conversation with the context of its runs, if it has no name."""
    _session: Session | str | None
    _workspace: Workspace | None

    @property
    def llm(self) -> LLM:
        """The model's client, created on first use. Raises NoProvider if no provider is configured."""
        if self._llm is not None:
            return self._llm
        if self._own_llm is None:
            self._own_llm = LLM(model=self._model)
        return self._own_llm

    @llm.setter
    def llm(self, llm: LLM) -> None:
        self._llm, self._own_llm = options.validate_optional("llm", llm), None

    @property
    def configured_llm(self) -> LLM | str | None:
        """The client if it exists, else the model's name, or None if the environment decides."""
        return self._llm or self._own_llm or self._model

    def _client(self, arguments: LLM | None, inherited: Callable[[], LLM] | None) -> Callable[[], LLM]:
        """The client of a run: the given one, the agent's own, that of the parent run, or the environment's."""
        is_own = self._llm is not None or self._model is not None
        if arguments is None:
            chosen = inherited if inherited is not None and not is_own else lambda: self.llm
        else:
            chosen = partial(_return_llm, arguments)
        return chosen if self._tool_calling is None else lambda: self._as_text(chosen())

    def _as_text(self, llm: LLM) -> LLM:
        """The same client with tool calls as text, one in each response."""
        if self._text_llm is None or self._text_llm[0] is not llm:
            self._text_llm = llm, llm.with_text_tools()
        return self._text_llm[1]

    @property
    def session(self) -> Session:
        """The conversation; set it to continue another. Raises SessionError if a stored one cannot be opened."""
        with self._lock:
            if not isinstance(self._session, Session):
                self._session = Session() if self._session is None else Session.open(name=self._session)
            return self._session

    @session.setter
    def session(self, session: Session) -> None:
        with self._lock:
            self._session = options.validate_optional("session", session)

    @property
    def configured_session(self) -> Session | str | None:
        """The session if it was opened; else the name of the one to open, or None for a new one."""
        return self._session

    @property
    def workspace(self) -> Workspace:
        """The folder of the file tools, shell and journal; created on first use if none was given."""
        with self._lock:
            if self._workspace is None:
                self._workspace = Workspace(journal=Journal.of_this_machine())
            return self._workspace

    @workspace.setter
    def workspace(self, workspace: Workspace | None) -> None:
        with self._lock:
            self._workspace = workspace

    @property
    def answer_validator(self) -> AnswerValidator:
        """The output type and the checks of answers."""
        return self._answers

    def within(self, session: Session) -> Self:
        """A copy of the agent in another session, with its listeners; approvals and usage are separate."""
        other = copy.copy(self)
        other.listeners, other.session = list(self.listeners), session
        return other

    def __getstate__(self) -> dict[str, Any]:
        """The arguments it was created with, and the session.

        Listeners and standing approvals stay with this object, and the usage of a copy starts at zero.
        """
        own = {"listeners", "_grants", "_usage", "_lock", "_context_of", "_text_llm"}
        state = self.__dict__ | {"_workspace": self.workspace}  # a copy shares the workspace and its write lock
        return {name: value for name, value in state.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {"listeners": [], "_grants": Grants(), "_usage": NO_USAGE, "_lock": threading.Lock()}
        self.__dict__.update(state, **own, _context_of=None)

    @property
    def handoffs(self) -> tuple[HandoffTarget, ...]:
        """The agents that the conversation can be handed to; set it for agents that hand off to each other."""
        return tuple(self.handoff_targets.values())

    @handoffs.setter
    def handoffs(self, agents: Iterable[HandoffTarget]) -> None:
        self.handoff_targets = options.handoffs_from(agents)

    def config_from(self, other: RunConfig) -> RunConfig:
        """The configuration for a run that `other` started, with the same change record and parent policies."""
        policy_context = other.policy_context
        depth, is_dry = LINEAGE.get().depth, policy_context.workspace.dry_run
        parent = ParentRun(
            None, policy_context.policies[1:], other.approve, depth, is_dry, policy_context.parent_labels
        )
        context = replace(other.context, agent=self.name)
        config = self._run_config(context, policy_context.workspace.record_id, parent, self._client(None, other.llm))
        return replace(config, answers=config.answers.or_type_of(other.answers), known=other.known)

    def _run_config(
        self,
        context: RunContext[Any],
        record: str,
        parent: ParentRun,
        llm: Callable[[], LLM],
        *,
        is_new: bool = False,
        prompt: str = "",
    ) -> RunConfig:
        own, workspace, answers = self.workspace, parent.workspace, self._answers
        is_dry = self.dry_run or own.dry_run or parent.dry_run
        if workspace is None or workspace.dry_run != is_dry or (own.is_fixed and own.folder != workspace.folder):
            workspace = own.for_run(record, f"{self.name}: {prompt}".removesuffix(": "), dry_run=is_dry, is_new=is_new)
        else:  # the run of an agent as a tool records its changes with those of its caller
            record = ""
        tools = self.tools.within(workspace)
        tools = tools + handoff_tools(self.handoff_targets.values()) if self.handoff_targets else tools
        conditions, specs = conditions_of(tools), tuple(tool.spec for tool in tools)
        if conditions or tools.searchable_names:
            tools, specs = initial_specs(tools)
        policies, grants, asks = (self.policy, *parent.policies), Grants(self._grants.lasting), self.unlabelled == "ask"
        read = parent.read | getattr(self.instruction, "labels", frozenset())
        policy_context = ToolPolicyContext(
            tools, policies, grants, workspace, read, context=context, asks_about_unlabelled=asks
        )
        return RunConfig(
            self,
            context,
            self.instruction,
            specs,
            policy_context,
            llm,
            answers.within(context) if answers.guardrails else answers,
            self._context_budget,
            None if self.approve is None and parent.approve is None else approver_in(context, self.approve, parent),
            record=record,
            conditions=conditions,
            middleware=tuple(each.within(context) for each in self._middleware),
        )

    def events(
        self, prompt: Work, *, streaming: bool = False, **arguments: Unpack[RunArguments]
    ) -> Generator[Event, None, None]:
        """Yield the events of a run in the agent's own session or another, each stored and sent to listeners first.

        `streaming` adds an event for each chunk of text. `limits`, `context` and `output_type` override those of the
        agent. Arguments are validated before the first event: raises ConfigError for an invalid prompt, limits, type or
        context, and NoProvider if no provider is configured.
        """
        is_new = prompt is not None and not isinstance(prompt, Resumption)
        if DURABLE.get() is not None and is_new and (scope := durable_scope(arguments.get("session"))) is not None:
            return scope.events(self, prompt, streaming=streaming, **arguments)
        return self._run_events(self._task(prompt, **arguments), streaming=streaming)

    def aevents(
        self, prompt: Work, *, streaming: bool = False, **arguments: Unpack[RunArguments]
    ) -> AsyncGenerator[Event, None]:
        """Async version of `events`."""
        is_new = prompt is not None and not isinstance(prompt, Resumption)
        if DURABLE.get() is not None and is_new and (scope := durable_scope(arguments.get("session"))) is not None:
            return scope.aevents(self, prompt, streaming=streaming, **arguments)
        return self._arun_events(self._task(prompt, **arguments), streaming=streaming)

    def _stream_events(self, prompt: Work, **arguments: Unpack[RunArguments]) -> RunStream[Any]:
        """The events of a run with the text as it is written. Raises ConfigError in a durable function."""
        self._refuse_durable(arguments)
        task = self._task(prompt, **arguments)
        return RunStream(self._run_events(task, streaming=True), task.inbox, options.content_from)

    def _astream_events(self, prompt: Work, **arguments: Unpack[RunArguments]) -> AsyncRunStream[Any]:
        """Async version of `_stream_events`."""
        self._refuse_durable(arguments)
        task = self._task(prompt, **arguments)
        return AsyncRunStream(self._arun_events(task, streaming=True), task.inbox, options.content_from)

    def _refuse_durable(self, arguments: Mapping[str, Any]) -> None:
        if durable_scope(arguments.get("session")) is not None:
            raise ConfigError(
                f"stream() of {self.name} cannot be stored in a durable function. Call run(), and receive its events "
                f"with on(...)."
            )

    def _task(
        self,
        prompt: Work,
        *,
        session: Session | str | None = None,
        limits: Limits | None = None,
        max_iterations: int | None = None,
        context: Any = None,
        output_type: Any = None,
        **client: Any,
    ) -> _Task:
        """Validate the arguments of a run. Raises ConfigError for an invalid one, NoProvider without a provider."""
        earlier = prompt if isinstance(prompt, Resumption) else None
        rules, stored_iterations = (earlier.rules, earlier.max_iterations) if earlier else (None, None)
        known = (context, earlier and earlier.context, self.context, LINEAGE.get().context.value)
        context = next((each for each in known if each is not None), None)
        model = options.validate_optional("model", client.get("model"))
        arguments = options.llm_from(client.get("llm"), model)
        config = LINEAGE.get().config
        chat_session = (
            _open_session(session)
            or (earlier and earlier.session)
            or self._conversation(context, is_new=earlier is None)
        )
        if prompt is None:
            work: Content | Resumption = options.empty_prompt(chat_session)
        else:
            work = prompt if isinstance(prompt, Resumption) else options.content_from(prompt)
        task = _Task(
            work,
            chat_session,
            options.validate_optional("limits", limits),
            context,
            self._client(arguments if model is None else LLM(model=model), None if config is None else config.llm),
            rules if output_type is None else AnswerValidator.of_run(output_type),
            options.validate_optional("max_iterations", max_iterations) or stored_iterations,
        )
        _ = task.llm()
        for each in reachable_agents(self):
            each.check_before_run(task.context if each is self or each.context is None else each.context)
        return task

    def _map_options(
        self,
        max_iterations: int | None = None,
        context: Any = None,
        session: Session | str | None = None,
        model: str | None = None,
        llm: LLM | None = None,
    ) -> dict[str, Any]:
        """The validated options of the runs of a batch."""
        arguments = options.llm_from(llm, options.validate_optional("model", model))
        chosen = {
            "context": context,
            "session": _open_session(session),
            "llm": arguments if model is None else LLM(model=model),
        }
        chosen["max_iterations"] = options.validate_optional("max_iterations", max_iterations)
        return {name: value for name, value in chosen.items() if value is not None}

    def check_before_run(self, context: Any) -> None:
        """Raise ConfigError if the agent cannot be used with this context, NoProvider if its own model has no key."""
        for each in (*self.tools, *self._answers.guardrails, *self._middleware):
            each.check_context(context)
        if self.approve is not None:
            check_approver(self.approve, context)
        if self._model is not None or self._llm is not None:
            _ = self.llm

    def _conversation(self, context: Any, *, is_new: bool) -> Session:
        """The agent's own conversation, or a new one if it does not remember.

        Raises ConfigError if a conversation without a name would continue with another context: it can belong to
        another user.
        """
        if not self.remember and is_new:
            return Session()
        session = self.session
        if session.store is None and context is not None and is_new and LINEAGE.get().depth == 0:
            with self._lock:
                known = self._context_of
                if known is not None and known[0] is session and not _are_equal(known[1], context):
                    raise ConfigError(_OTHER_CONTEXT.format(name=self.name))
                self._context_of = (session, context)
        return session

    def _run_events(self, task: _Task, *, streaming: bool) -> Generator[Event, None, None]:
        with self._set_up(task) as active:
            try:
                with closing(drive(active.steps, streaming=streaming)) as steps:
                    for event in steps:
                        yield from active.events(event, streaming=streaming)
                        if active.has_failed:
                            break
            except Exception as error:
                active.failure = error
            if active.failure is not None:
                yield active.failed(active.failure)

    async def _arun_events(self, task: _Task, *, streaming: bool) -> AsyncGenerator[Event, None]:
        with self._set_up(task) as active:
            try:
                async with aclosing(adrive(active.steps, streaming=streaming)) as steps:
                    async for event in steps:
                        for each in active.events(event, streaming=streaming):
                            yield each
                        if active.has_failed:
                            break
            except Exception as error:
                active.failure = error
            if active.failure is not None:
                yield active.failed(active.failure)

    def _set_up(self, task: _Task) -> ActiveRun:
        """Set up a new or resumed run: its log, its configuration and its loop."""
        lineage, resumption = LINEAGE.get(), task.prompt if isinstance(task.prompt, Resumption) else None
        if lineage.depth > MAX_DEPTH:
            raise RunError(
                f"Agents can be nested at most {MAX_DEPTH} levels deep, and this run would exceed that. Let an outer "
                f"agent do the work."
            )
        run = task.session.begin() if resumption is None else _reopen_run(task.session, resumption)
        try:
            config = self._config_for_task(task, run, lineage)
            if resumption is not None:
                known = [*options.validate_agents("agents", resumption.agents), *resumption.returned_agents]
                config = _active_config(self, run.progress, replace(config, known=tuple(known)), known)
                config = with_answers(config, resumption.answers, run.progress.waiting)
            limits = task.limits or (resumption and resumption.limits) or self.limits
            clock = time.monotonic if TAPE.get() is None else recording.clock()
            max_iterations = task.max_iterations or self.max_iterations
            budget = Budget(limits, lineage.budget, clock, max_iterations=max_iterations)
            target = self if task.session is self._session else ResumingAgent(self, task.session)
            loop = RunLoop(config, run, budget, target, task.inbox)
            if resumption is not None:
                check_waiting(run.progress.steps.values(), loop.requester.policy_context())
            if lineage.collected_labels is not None:
                lineage.add_labels(labels_of([*run.history, *run.progress.messages]))
            steps = loop.resume() if isinstance(task.prompt, Resumption) else loop.begin(task.prompt)
            return ActiveRun(self, task, run, loop, steps)
        except BaseException:
            run.leave()  # another process can resume it
            raise

    def _config_for_task(self, task: _Task, run: SessionRun, lineage: ParentRun) -> RunConfig:
        """The configuration of a run, with the output type that was requested for it."""
        stops, stopped_above = self._stops, lineage.context.stopping
        session = stored_name(task.session)
        context = RunContext(
            task.context,
            self.name,
            run.id,
            session,
            stopping=lambda: self._stops != stops or stopped_above(),
            resources=RunResources(),
        )
        record = run.progress.record
        prompt = task.prompt
        if not isinstance(prompt, str):
            prompt = "" if isinstance(prompt, Resumption) else content_text(prompt)
        label = prompt[:_MAX_LABEL_CHARS]
        config = self._run_config(
            context, record or run.new_record_id(), lineage, task.llm, is_new=not record, prompt=label
        )
        return config if task.rules is None else replace(config, answers=config.answers.or_type_of(task.rules))

    def count(self, event: Event) -> None:
        """Add the usage an event reports, and note the labels of what was read."""
        if isinstance(event, ToolCallFinished) and event.result.labels:
            LINEAGE.get().add_labels(event.result.labels)
        self.count_usage(spent_in(event))

    def count_usage(self, spent: Usage | None) -> None:
        """Add to the usage of all runs of this agent."""
        if spent is not None and spent is not NO_USAGE:
            with self._lock:
                self._usage += spent


@dataclass(frozen=True, slots=True)
class _Task:
    """A validated run: its prompt or the run to resume, its session, and its options."""

    prompt: Content | Resumption
    session: Session
    limits: Limits | None
    context: Any
    llm: Callable[[], LLM]
    rules: AnswerValidator | None = None
    max_iterations: int | None = None
    inbox: Inbox = field(default_factory=Inbox)
    """The messages sent into the run by a program that streams it."""


class ResumingAgent(HandoffTarget):
    """An agent that resumes a run in the run's session instead of its own."""

    def __init__(self, agent: Runner, session: Session) -> None:
        self.name, self.instruction, self.handoff_targets = agent.name, agent.instruction, agent.handoff_targets
        self.tools, self.policy, self.description = agent.tools, agent.policy, agent.description
        self.agent, self.session = agent, session

    def config_from(self, other: RunConfig) -> RunConfig:
        """The agent's configuration for a run that `other` started."""
        return self.agent.config_from(other)

    def run(self, resumption: Resumption) -> RunResult[Any]:
        """Resume a run, blocking."""
        return final_result(list(self.agent.events(resumption, session=self.session)))

    async def arun(self, resumption: Resumption) -> RunResult[Any]:
        """Resume a run, async."""
        return final_result([event async for event in self.agent.aevents(resumption, session=self.session)])


_OTHER_CONTEXT = (
    "The conversation of the agent {name!r} was started with another context=, so it may belong to another user. Pass "
    "session=Session() or a session of the user to each run, create the agent with remember=False, or call "
    "reset() first. To continue this conversation with the new context, pass session=agent.session."
)


def _are_equal(one: object, two: object) -> bool:
    """Whether two contexts are the same object, or equal."""
    with suppress(Exception):  # comparison methods can raise
        return one is two or bool(one == two)
    return False


def _return_llm(llm: LLM) -> LLM:
    return llm


def _open_session(session: Session | str | None) -> Session | None:
    """The session of a run, given as such or by the name of a stored one. Raises ConfigError, SessionError."""
    session = options.validate_optional("session", session)
    return Session.open(name=session) if isinstance(session, str) else session


def reachable_agents(agent: Runner) -> list[Runner]:
    """The agent, and all agents that it can hand over to or use as a tool, each once."""
    found = [agent]
    for each in found:
        functions = [tool.function for tool in each.tools if isinstance(tool, PausingTool)]
        workers = [worker for function in functions for worker in getattr(function, "agents", ())]
        others = [other for other in (*each.handoff_targets.values(), *workers) if isinstance(other, Runner)]
        found += [
            other
            for index, other in enumerate(others)
            if not any(other is known for known in (*found, *others[:index]))
        ]
    return found


def _active_config(agent: Runner, progress: RunState, config: RunConfig, known: Sequence[HandoffTarget]) -> RunConfig:
    """The configuration of the agent that was active when the run stopped. Raises ConfigError if it is unknown."""
    name = progress.agent
    if name in ("", agent.name):
        return config
    named = {each.name: each for each in known}
    target = find_agent(name, agent.handoff_targets) or find_agent(name, named)
    if target is None:
        raise unknown_agent(name, agent.name)
    return target.config_from(config)


def _reopen_run(session: Session, resumption: Resumption) -> SessionRun:
    """Open the run to resume. Raises SessionError if it does not exist."""
    saved = resumption.saved
    if isinstance(saved, str) and saved in session.unfinished:
        return session.reopen(saved)
    if isinstance(saved, str) and _RUN_ID.fullmatch(saved):
        run_names = ", ".join(session.unfinished) or "none"
        raise SessionError(
            f"The session {session.name!r} has no unfinished run {saved!r}. Its unfinished runs: {run_names}."
        )
    state = resumption.state
    if state is None:
        return session.reopen()
    run = session.reopen(*state)
    if pending_calls(run.progress) != pending_calls(state[1]):
        run.leave()
        raise SessionError(
            "The waiting calls of this run are not those of the saved run. Nothing was answered. "
            "Save the run again with result.to_json()."
        )
    return run
