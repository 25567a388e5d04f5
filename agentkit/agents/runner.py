"""How is a run of an agent set up, heard and kept? What stands behind the four ways to run one."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypedDict, Unpack

from agentkit import tape
from agentkit.agents import settings, team
from agentkit.agents.answers import AnswerRules, Growing
from agentkit.agents.hearing import Hearing, kept_name, spent_in
from agentkit.agents.offering.offer import offered
from agentkit.agents.result import GivenApprover, Resumption, RunFinished, pending_of
from agentkit.agents.running.batch import unknown_lead
from agentkit.agents.running.budget import Budget
from agentkit.agents.running.checking.approvers import approver_in, check_approver
from agentkit.agents.running.checking.conditions import conditions_of
from agentkit.agents.running.drivers import adrive, drive
from agentkit.agents.running.loop import Loop
from agentkit.agents.running.plan import LINEAGE, MOST_DEPTH, Lead, Lineage, Plan
from agentkit.agents.running.questions import Steps
from agentkit.agents.running.room import Room
from agentkit.agents.running.tool_call import Bench
from agentkit.agents.settings import Prompt
from agentkit.agents.waiting import check_waiting, with_answers
from agentkit.errors import Cancelled, RunError, SessionError
from agentkit.events import Event, Milestone, RunEnded, ToolCallFinished
from agentkit.llm.client import LLM
from agentkit.memory.progress import Progress
from agentkit.memory.run import SessionRun
from agentkit.memory.session import Session
from agentkit.messages import Content
from agentkit.safety.approval import Grants
from agentkit.safety.flow import labels_of
from agentkit.slotted import dataclass
from agentkit.tooling.functions.context import RunContext
from agentkit.tracing.listening import Listener
from agentkit.usage import NO_USAGE, Limits, Usage
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

Work = Prompt | Resumption
"""What a run begins with: a prompt, or the run to go on with."""

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_STOPPED = "The run was stopped. What was done is kept, and agent.resume() goes on with it."


class RunOptions(TypedDict, total=False):
    """What a run is given in the place of the agent's own, beside the type of its answer."""

    limits: Limits | None
    context: Any


class Given(RunOptions, total=False):
    """The same with that type, and with the conversation of the run."""

    session: Session | None
    output_type: Any


class Runner(Lead):
    """What an agent is made of, and how its runs begin and are heard."""

    max_iterations: int
    approve: GivenApprover | None
    limits: Limits
    dry_run: bool
    context: Any
    listeners: list[Listener]
    _answers: AnswerRules
    _room: Room
    _grants: Grants
    _usage: Usage
    _lock: threading.Lock
    _stops: int = 0
    _llm: LLM | None
    _model: str | None
    _session: Session | str | None
    _workspace: Workspace | None

    @property
    def llm(self) -> LLM:
        """The model's client. Raises NoProvider when it must be made and nothing names a provider."""
        if self._llm is None:
            self._llm = LLM(model=self._model)
        return self._llm

    @llm.setter
    def llm(self, llm: LLM) -> None:
        self._llm = settings.if_said("llm", llm)

    @property
    def known_llm(self) -> LLM | str | None:
        """The client as far as there is one: else its model's name, or None where the environment names that, too."""
        return self._model if self._llm is None else self._llm

    @property
    def session(self) -> Session:
        """The conversation; set it to go on with another. Raises SessionError when a stored one cannot be opened."""
        with self._lock:
            if not isinstance(self._session, Session):
                self._session = Session() if self._session is None else Session.open(name=self._session)
            return self._session

    @session.setter
    def session(self, session: Session) -> None:
        with self._lock:
            self._session = settings.if_said("session", session)

    @property
    def known_session(self) -> Session | str | None:
        """The conversation as far as it was needed: else the name of one to be opened, or None for a new one."""
        return self._session

    @property
    def workspace(self) -> Workspace:
        """The folder that file tools, shell and journal work in; made when first needed where none was given."""
        with self._lock:
            if self._workspace is None:
                self._workspace = Workspace(journal=Journal.of_this_machine())
            return self._workspace

    @workspace.setter
    def workspace(self, workspace: Workspace | None) -> None:
        with self._lock:
            self._workspace = workspace

    @property
    def answer_rules(self) -> AnswerRules:
        """What an answer must be: its type, and the checks that it passes."""
        return self._answers

    def within(self, session: Session) -> Self:
        """The same agent in another conversation, with its listeners; what it is granted and spends is its own."""
        other = copy.copy(self)
        other.listeners, other.session = list(self.listeners), session
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What it was made with, and the conversation.

        Listeners and approvals for later calls stay with this object, and a copy has spent nothing yet.
        """
        own = {"listeners", "_grants", "_usage", "_lock"}
        state = self.__dict__ | {"_workspace": self.workspace}  # a copy writes under the same lock
        return {name: value for name, value in state.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {"listeners": [], "_grants": Grants(), "_usage": NO_USAGE, "_lock": threading.Lock()}
        self.__dict__.update(state, **own)

    @property
    def handoffs(self) -> tuple[Lead, ...]:
        """The agents that the conversation may be handed to; set it when they are to hand it back."""
        return tuple(self.leads.values())

    @handoffs.setter
    def handoffs(self, agents: Iterable[Lead]) -> None:
        self.leads = settings.leads_from(agents)

    def plan_beside(self, other: Plan) -> Plan:
        """This agent's plan for a run that `other` began: the same record of changes, and the same policies above."""
        bench = other.bench
        depth, is_dry = LINEAGE.get().depth, bench.workspace.dry_run
        above = Lineage(None, bench.policies[1:], other.approve, depth, is_dry, bench.above)
        plan = self._plan(replace(other.context, agent=self.name), bench.workspace.record.id, above)
        return replace(plan, answers=plan.answers.or_type_of(other.answers), known=other.known)

    def _plan(self, context: RunContext[Any], record: str, above: Lineage, *, is_new: bool = False) -> Plan:
        is_dry = self.dry_run or self.workspace.dry_run or above.dry_run
        workspace = self.workspace.for_run(record, self.name, dry_run=is_dry, is_new=is_new)
        tools = self.tools.within(workspace)
        if self.leads:
            tools = tools + team.handoff_tools(self.leads.values())
        tools, specs = offered(tools)
        policies, grants = (self.policy, *above.policies), self._grants.for_run()
        bench = Bench(tools, policies, grants, workspace, above.read, context=context)
        approve, found = approver_in(context, self.approve, above), conditions_of(tools)
        order, rules, room = self.instruction, self._answers.within(context), self._room
        return Plan(self, context, order, specs, bench, lambda: self.llm, rules, room, approve, conditions=found)

    def events(self, prompt: Work, *, streaming: bool = False, **given: Unpack[Given]) -> Generator[Event, None, None]:
        """The events of a run in the agent's own conversation or another, each kept and heard before it is told.

        With `streaming` there are those of each piece of text, too. `limits`, `context` and `output_type` take the
        place of the agent's. What cannot be run is said at once: raises ConfigError for what is no prompt, no limits,
        no type, or not what tools need to know, and NoProvider when there is nobody to ask.
        """
        return self._told(self._task(prompt, **given), streaming=streaming)

    def aevents(self, prompt: Work, *, streaming: bool = False, **given: Unpack[Given]) -> AsyncGenerator[Event, None]:
        """Like `events`, awaiting."""
        return self._atold(self._task(prompt, **given), streaming=streaming)

    def _task(
        self,
        prompt: Work,
        session: Session | None = None,
        limits: Limits | None = None,
        context: Any = None,
        output_type: Any = None,
    ) -> _Task:
        """A run that may begin. Raises ConfigError for what cannot be right, NoProvider when there is nobody to ask."""
        earlier, rules = (prompt.context, prompt.rules) if isinstance(prompt, Resumption) else (None, None)
        known = (context, earlier, self.context, LINEAGE.get().context.value)
        task = _Task(
            prompt if isinstance(prompt, Resumption) else settings.content_from(prompt),
            session or self.session,
            settings.if_said("limits", limits),
            next((each for each in known if each is not None), None),
            rules if output_type is None else AnswerRules.of_run(output_type),
        )
        team.check_context(task.context, self)
        for each in (self, *team.reachable(self.leads)):
            if isinstance(each, Runner):
                each.answer_rules.check_context(task.context)
                check_approver(each.approve, task.context)
        _ = self.llm
        return task

    def _told(self, task: _Task, *, streaming: bool) -> Generator[Event, None, None]:
        run, loop, steps = self._begun(task)
        growing, hearing = Growing(lambda: loop.plan.answers.output), Hearing(self.listeners, loop, task.session)
        stopping = loop.plan.context.stopping
        try:
            with hearing.to_the_end(), closing(drive(hearing.attached(steps), streaming=streaming)) as events:
                for event in events:
                    for each in growing.with_partial_output(event) if streaming else (event,):
                        if self._hear(each, run, hearing):
                            yield each
                    if stopping() and not hearing.is_over:
                        raise Cancelled(_STOPPED)
        finally:
            run.close()

    async def _atold(self, task: _Task, *, streaming: bool) -> AsyncGenerator[Event, None]:
        run, loop, steps = self._begun(task)
        growing, hearing = Growing(lambda: loop.plan.answers.output), Hearing(self.listeners, loop, task.session)
        stopping = loop.plan.context.stopping
        try:
            with hearing.to_the_end():
                async with aclosing(adrive(hearing.attached(steps), streaming=streaming)) as events:
                    async for event in events:
                        for each in growing.with_partial_output(event) if streaming else (event,):
                            if self._hear(each, run, hearing):
                                yield each
                        if stopping() and not hearing.is_over:
                            raise Cancelled(_STOPPED)
        finally:
            run.close()

    def _begun(self, task: _Task) -> tuple[SessionRun, Loop, Steps]:
        """A run that is about to begin or to go on: where it is kept, its loop, and the loop's steps."""
        lineage = LINEAGE.get()
        if lineage.depth > MOST_DEPTH:
            raise RunError(
                f"Agents may set agents to work {MOST_DEPTH} deep, and this would be one deeper. "
                "Let an agent higher up do the work."
            )
        prompt, run = task.prompt, task.opened()
        stopping = partial(self._is_stopping, self._stops, lineage.context.stopping)
        context = RunContext(task.context, self.name, run.id, kept_name(task.session), stopping=stopping)
        if isinstance(prompt, Resumption):
            with _left_on_error(run):
                record = run.progress.record
                plan = self._plan(context, record or run.new_record_id(), lineage, is_new=not record)
                known = [*settings.checked_leads("agents", prompt.agents), *prompt.returned]
                plan = _led_by(self, run.progress, replace(task.asked_for(plan), known=tuple(known)), known)
                plan = with_answers(plan, prompt.answers, run.progress.waiting)
                loop = Loop(plan, run, self._budget(task.limits or prompt.limits, lineage), self)
                check_waiting(run.progress.steps.values(), loop.asking.bench())
                lineage.note(labels_of([*run.history, *run.progress.messages]))
                return run, loop, loop.resume()
        with _left_on_error(run):
            plan = self._plan(context, run.new_record_id(), lineage, is_new=True)
            lineage.note(labels_of(run.history))
            loop = Loop(task.asked_for(plan), run, self._budget(task.limits, lineage), self)
            return run, loop, loop.begin(prompt)

    def _is_stopping(self, stops: int, above: Callable[[], bool]) -> bool:
        return self._stops != stops or above()

    def _budget(self, limits: Limits | None, lineage: Lineage) -> Budget:
        chosen = limits or self.limits
        return Budget(chosen, lineage.budget, tape.clock(), max_iterations=self.max_iterations)

    def _hear(self, event: Event, run: SessionRun, hearing: Hearing) -> bool:
        """Keep what has happened, and tell the listeners; whether it is for the caller, too."""
        if isinstance(event, Milestone):
            run.keep(event)
            tape.told(run.id, event)
            if isinstance(event, RunEnded):
                return False
            self.count(event)
        is_last = isinstance(event, RunFinished)
        if is_last:
            run.close()
        hearing.tell(event, is_last=is_last)
        return True

    def count(self, event: Event) -> None:
        """Count what an event tells of tokens spent, and note what was read."""
        if isinstance(event, ToolCallFinished):
            LINEAGE.get().note(event.result.labels)
        spent = spent_in(event)
        if spent is not None and spent is not NO_USAGE:
            with self._lock:
                self._usage += spent


@dataclass(frozen=True, slots=True)
class _Task:
    """A run that may begin: its prompt or the run to go on with, its conversation, and what it is given."""

    prompt: Content | Resumption
    session: Session
    limits: Limits | None
    context: Any
    rules: AnswerRules | None = None

    def asked_for(self, plan: Plan) -> Plan:
        """The plan with the type of answer that this run asks for, if it does."""
        return plan if self.rules is None else replace(plan, answers=plan.answers.or_type_of(self.rules))

    def opened(self) -> SessionRun:
        """The run as its conversation keeps it. Raises SessionError when there is none to go on with."""
        return _reopened(self.session, self.prompt) if isinstance(self.prompt, Resumption) else self.session.begin()


def _led_by(agent: Runner, progress: Progress, plan: Plan, known: Sequence[Lead]) -> Plan:
    """The plan of the agent that led the run when it was left. Raises ConfigError when it cannot be found."""
    name = progress.agent
    if name in ("", agent.name):
        return plan
    named = {each.name: each for each in known}
    lead = team.find_lead(name, agent.leads) or team.find_lead(name, named)
    if lead is None:
        raise unknown_lead(name, agent.name)
    return lead.plan_beside(plan)


def _reopened(session: Session, resumption: Resumption) -> SessionRun:
    """The run to go on with. Raises SessionError when there is none."""
    saved = resumption.saved
    if isinstance(saved, str) and saved in session.unfinished:
        return session.reopen(saved)
    if isinstance(saved, str) and _RUN_ID.fullmatch(saved):
        which = ", ".join(session.unfinished) or "none"
        raise SessionError(f"No run {saved!r} waits to go on in the session {session.name!r}. These do: {which}.")
    state = resumption.state
    if state is None:
        return session.reopen()
    run = session.reopen(*state)
    if pending_of(run.progress) != pending_of(state[1]):
        run.leave()
        raise SessionError(
            "Other calls wait in this run than the saved one says; nothing was answered. "
            "Read the saved run anew with result.to_json()."
        )
    return run


@contextmanager
def _left_on_error(run: SessionRun) -> Iterator[None]:
    """Do not keep others from a run that could not begin here."""
    try:
        yield
    except BaseException:
        run.leave()
        raise
