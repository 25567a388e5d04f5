"""How are the tool calls of one response used? Judged, asked about, run together or in turn; each gets one result."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from agentkit.agents.running.budget import Budget
from agentkit.agents.running.checking.persons import Persons
from agentkit.agents.running.checking.results import ResultChecks
from agentkit.agents.running.plan import LINEAGE, CallingTool, Lead, Lineage, PausingTool, Plan
from agentkit.agents.running.questions import Question, Steps, UseTools, tell
from agentkit.agents.running.telling import Repeats, Telling
from agentkit.agents.running.tool_call import Bench, JudgedCall, Sitting
from agentkit.decisions import Label
from agentkit.errors import ConfigError, UnknownTool
from agentkit.events import (
    AnswerGiven,
    Event,
    LimitReached,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.memory.progress import INTERRUPTED, Step
from agentkit.memory.run import SessionRun
from agentkit.messages import (
    READ_MORE,
    AssistantMessage,
    MadeCall,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    calls_in,
    failure_content,
    with_distinct_ids,
)
from agentkit.safety.approval import Approval
from agentkit.safety.flow import labels_of
from agentkit.slotted import dataclass
from agentkit.tooling.functions.sharing import shared_by
from agentkit.tooling.result import failure
from agentkit.tooling.tool import Tool

_MOST_WORDS_CHARS = 50_000
"""How much a check may put in the place of a person's words."""

_UNANSWERED = "The person gives no answer. Do without it, or say what you cannot do."


@dataclass(slots=True)
class Batch:
    """The calls of the newest response. After `use`, `limit` and `lead` say what follows from them."""

    plan: Plan
    bench: Bench
    run: SessionRun
    budget: Budget
    repeats: Repeats
    limit: LimitReached | None = None
    lead: Lead | None = None
    within: str = ""
    """The tool whose call makes these calls; empty where the model makes them."""

    def use(self) -> Steps:
        """Give each call its result, or find out that it must wait."""
        read = [*self.run.history, *self.run.progress.messages]
        calls = yield from self._judged(read)
        new = [judged.call.id for judged in calls if not judged.has_begun]
        granted = self.budget.take_tool_calls(len(new)) if self.budget.seconds_left > 0 else 0
        refused = set(new[granted:])
        for judged in calls:
            if judged.call.id in refused:
                yield from self._refused_by_limit(judged)
        for together in rounds([judged for judged in calls if judged.call.id not in refused]):
            if self.budget.seconds_left > 0:
                yield from self._run(together, read)
            else:
                for judged in together:
                    yield from self._refused_by_limit(judged)
        yield from self._followed()

    def _judged(self, read: Sequence[Message]) -> Generator[Event | Question, None, list[JudgedCall]]:
        """The calls without a result that may run now. Those beyond a limit get their result without being judged."""
        calls = []
        for place, step in enumerate(tuple(self.run.progress.steps.values())):
            limit = None if step.result is not None else self._limit_at(place, step)
            if limit is not None:
                yield from tell(self.run, ToolCallFinished(step.call, failure(step.call.name, limit, "denied")))
            elif step.result is None:
                judged = yield from self._prepared(step, read)
                calls += [] if judged is None else [judged]
        return calls

    def _limit_at(self, place: int, step: Step) -> str | None:
        """Why the call at this place of the response is not even judged; None where it is.

        To judge a call takes time as well, and a response can hold tens of thousands.
        """
        if step.decision is not None or step.postponed is not None:
            return None
        most, late = self.budget.limits.calls_per_response, self.budget.out_of_time()
        if late is not None:
            self.limit = late
            return late.reason
        if most is not None and place >= most:
            return f"Only the first {most:,} tool calls of a response are run; make this one in another response."
        return None

    @property
    def _persons(self) -> Persons:
        return Persons(self.plan, self.bench, self.run, self.budget, self.within)

    def _prepared(self, step: Step, read: Sequence[Message]) -> Generator[Event | Question, None, JudgedCall | None]:
        """The call as it may run now; None when it has got its result without running, or must wait."""
        if step.needs_words and step.inner is None:
            yield from self._answered_by_person(step)
            return None
        if step.decision is not None and step.decision.allowed and not self._may_be_repeated(step):
            error = failure(step.call.name, INTERRUPTED, "interrupted", step.decision)
            yield from tell(self.run, ToolCallFinished(step.call, error))
            return None
        judged = yield from self._persons.decided(step, read)
        if judged is None or not (yield from self._may_go_on(judged, step, read)):
            return None
        judged = judged if self.within else _seated(judged, step)
        yield from tell(self.run, ToolCallStarted(judged.call, judged.decision))
        telling = self._telling(judged, step, read)
        if not judged.decision.allowed:
            yield from tell(self.run, ToolCallFinished(judged.call, telling.amend(judged.refusal())))
            return None
        return replace(judged, amend=telling.amend, checks=self._checks(telling, judged.tool))

    def _checks(self, telling: Telling, tool: Tool[..., Any] | None = None) -> ResultChecks | None:
        """What looks at the result of a call before anybody is told of it; None where nothing does."""
        rules = self.plan.answers
        checks = rules.of("result") if rules.checks else ()
        most_chars = _MOST_WORDS_CHARS if tool is None else tool.max_chars
        return ResultChecks(checks, most_chars, telling.labelled) if checks else None

    def _telling(self, judged: JudgedCall, step: Step, read: Sequence[Message]) -> Telling:
        """What the model is told of the call's result beside it."""
        is_edited = step.consent is not None and step.consent.arguments is not None
        labels = labels_of(read) if judged.call.name == READ_MORE else frozenset()
        earlier = self.repeats.of(judged.call)
        return Telling(judged.call, earlier, self.budget.limits.repeated_calls, is_edited, labels)

    def _may_be_repeated(self, step: Step) -> bool:
        """Whether a call that was at work when its run was killed may be made again."""
        try:
            return self.bench.tools.find(step.call.name).idempotent
        except UnknownTool:
            return False

    def _may_go_on(
        self, judged: JudgedCall, step: Step, read: Sequence[Message]
    ) -> Generator[Event | Question, None, bool]:
        """Whether nothing stands in the way of a call that was left while one that it set off waited for a person.

        The person is asked about that one, unless an answer is there: what a program calls as it would be made now,
        what an agent calls as that has asked; it judges it anew when it goes on.
        """
        inner = step.within
        if inner is step or inner.answer is not None or not judged.decision.allowed:
            return True
        if not isinstance(judged.tool, CallingTool):
            return (yield from replace(self._persons, within=step.call.name).relayed(inner))
        bench = self.bench.within(judged.tool.tools, read, self._known(read))
        among = replace(self._persons, bench=bench, within=step.call.name)
        return (yield from among.settled(inner, [*read, *told_of(step.made)]))

    def _answered_by_person(self, step: Step) -> Steps:
        """The answer that a call waits for, now or given already, as its result."""
        answer = yield from self._persons.words(step)
        if answer is None:
            return
        result = failure(step.call.name, answer.text or _UNANSWERED, "denied")
        if answer.answer != Approval.NO:
            result = ToolResult(step.call.name, "ok", answer.text, value=answer.text)
            checks = self._checks(Telling(step.call))
            if checks is not None:
                result = yield from checks.questions(result, time.monotonic() + self.budget.seconds_left)
        yield from tell(self.run, ToolCallFinished(step.call, result))

    def _refused_by_limit(self, judged: JudgedCall) -> Steps:
        self.limit = self.budget.out_of_time() or self.budget.no_tool_calls()
        error = failure(judged.call.name, self.limit.reason, "denied", judged.decision)
        yield from tell(self.run, ToolCallFinished(judged.call, error))

    def _run(self, calls: tuple[JudgedCall, ...], read: Sequence[Message]) -> Steps:
        """Run the calls; what was finished is entered also when the rest is cut off."""
        is_dry = self.bench.workspace.dry_run
        plan, context, known = self.plan, self.plan.context.called("", read), self._known(read)
        lineage = Lineage(self.budget, self.bench.policies, plan.approve, 0, is_dry, known, None, context, plan)
        question = UseTools(calls, {}, self.budget.seconds_left, lineage)
        postponed: list[ToolCallPostponed] = []
        try:
            yield question
        finally:
            for judged in calls:
                result = question.results.get(judged.call.id)
                if result is not None and result.status == "waiting":
                    postponed.append(_postponed(judged.call, result))
                elif result is not None:
                    self.run.progress.apply(ToolCallFinished(judged.call, result))
            for place, milestone in enumerate(postponed):
                postponed[place] = self._told_apart(milestone, read)
                self.run.progress.apply(postponed[place])
        yield from postponed

    def _told_apart(self, milestone: ToolCallPostponed, read: Sequence[Message]) -> ToolCallPostponed:
        """The milestone, with an id on a nested call that no other call has: by its id a person answers it.

        Ids are the models' own words, so that one could have another call named like the one that a person is shown.
        """
        if milestone.inner is None:
            return milestone
        steps = [step for step in self.run.progress.steps.values() if step.call.id != milestone.call.id]
        taken = {call.id for call in calls_in(read)} | {step.asked.id for step in steps}
        distinct = with_distinct_ids(AssistantMessage("", (milestone.inner,)), taken)
        return replace(milestone, inner=distinct.tool_calls[0])

    def _known(self, read: Sequence[Message]) -> frozenset[Label]:
        """All that was read so far, also by calls of this response that have ended."""
        earlier = (step.result.labels for step in self.run.progress.steps.values() if step.result is not None)
        return self.bench.above.union(labels_of(read), *earlier)

    def _followed(self) -> Steps:
        """What follows from the results, once all are there: another agent leads, or the answer is given."""
        for used in self.run.progress.results:
            if used.result.ok and used.result.lead:
                self.lead = self._lead_of(used.result)
            elif used.result.ok and self._ends_run(used.call.name):
                whole = used.result.value  # the content is bounded, and may bear a note for the model
                answer = whole if isinstance(whole, str) else used.result.whole or used.result.content
                yield from tell(self.run, AnswerGiven(answer))
                return

    def _ends_run(self, tool: str) -> bool:
        try:
            return self.bench.tools.find(tool).ends_run
        except UnknownTool:
            return False

    def _lead_of(self, result: ToolResult) -> Lead:
        """The agent that the conversation is passed to. Raises ConfigError when only another process has known it."""
        if isinstance(result.value, Lead):
            return result.value
        known = [*self.plan.lead.leads.values(), *self.plan.known]
        lead = next((each for each in known if each.name == result.lead), None)
        if lead is None:
            raise unknown_lead(result.lead, self.plan.agent)
        return lead


def told_of(made: Sequence[MadeCall]) -> list[Message]:
    """Calls that a program has made as the messages of a conversation, with what came of each."""
    told: list[Message] = []
    for each in made:
        content = json.dumps(each.value) if each.error is None else failure_content(each.call.name, each.error)
        told += [AssistantMessage("", (each.call,)), ToolMessage(each.call.id, each.call.name, content, each.labels)]
    return told


def _seated(judged: JudgedCall, step: Step) -> JudgedCall:
    """The call, with what it has come to where it sets off others that may wait.

    They may where its run is within no other, or is that of an agent at work for a call which may wait itself.
    """
    tool, waits, above = judged.tool, step.within, LINEAGE.get()
    if not isinstance(tool, PausingTool) or (above.depth and above.sitting is None):
        return judged
    known = () if waits is step else (waits.postponed, waits.answer)
    sitting = Sitting(judged.call.name, step.made, tuple(each for each in known if each is not None))
    return replace(judged, tool=tool.for_sitting(sitting), has_begun=waits is not step or bool(step.made))


def _postponed(call: ToolCall, result: ToolResult) -> ToolCallPostponed:
    """What a call waits for, or one that it makes itself."""
    pause, usage = result.pause, result.usage
    if pause is None:
        return ToolCallPostponed(call, result.error or "", usage=usage)
    return ToolCallPostponed(
        call, pause.question, pause.decision, pause.folder, pause.call, pause.made, usage, pause.inner_run, pause.bound
    )


def rounds(calls: Sequence[JudgedCall]) -> list[tuple[JudgedCall, ...]]:
    """Which calls run at the same time, round after round: of those that share an object only one a round, as asked.

    A model that asks for `cd` and `ls` in one response means them so, and two threads would change one object at once.
    """
    if len(calls) == 1:
        return [tuple(calls)]
    found: list[list[JudgedCall]] = []
    places: dict[int, int] = {}
    for judged in calls:
        shared = list(map(id, _shared(judged.tool)))
        place = max((places.get(each, 0) for each in shared), default=0)
        places.update(dict.fromkeys(shared, place + 1))
        found += [[]] if place == len(found) else []
        found[place].append(judged)
    return list(map(tuple, found))


def _shared(tool: Tool[..., Any] | None) -> list[object]:
    """What calls of a tool may find changed by others; nothing where they are awaited, and look after themselves."""
    return [] if tool is None or tool.is_async else shared_by(tool.function)


def unknown_lead(name: str, agent: str) -> ConfigError:
    """What is raised when a run that goes on is led by an agent that this program has not named."""
    return ConfigError(
        f"The run is led by {name!r}, which is none of the handoffs of {agent!r}; a tool that returned it is not used "
        "again. Name that agent with resume(..., agents=[...]), or give handoffs= with it."
    )
