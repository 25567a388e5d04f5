"""How are the calls of a program judged? As the model's own: by the run that the program is part of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from concurrent.futures import wait
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from agentkit.agents.running.batch import Batch
from agentkit.agents.running.budget import GO_ON, UNLIMITED, Budget
from agentkit.agents.running.drivers import adrive, drive
from agentkit.agents.running.plan import LINEAGE, Plan, hearing
from agentkit.agents.running.questions import Steps
from agentkit.agents.running.telling import Repeats
from agentkit.agents.running.tool_call import Bench, JudgedCall, judge_call
from agentkit.agents.waiting import without_waiting
from agentkit.decisions import Decision, Label, Verdict
from agentkit.errors import SandboxError, ToolError
from agentkit.events import ResponseReceived
from agentkit.memory.progress import Progress
from agentkit.memory.run import SessionRun
from agentkit.memory.session import Session
from agentkit.messages import AssistantMessage, Message, Response, ToolCall, ToolMessage, ToolResult, well_formed
from agentkit.safety.approval import NOBODY, Grants, answered
from agentkit.safety.flow import labels_of
from agentkit.safety.policy import Policy
from agentkit.sandbox.calling.guest import MOST_BYTES
from agentkit.sandbox.supervision import Cancellation
from agentkit.tooling.functions.context import CONTEXT, NO_RUN
from agentkit.tooling.rendering import rendered
from agentkit.tooling.result import failure
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.workspace.workspace import Workspace

_MOST_TOLD, _MOST_CHARS, _MOST_NAME_CHARS = 20, 100, 64
_MOST_ALONE = 100  # as many as a run may make that was given no limits
_TICK_SECONDS = 0.05
_MOST_VALUE_CHARS = MOST_BYTES // 4  # of which each is at most four bytes
_NO_WAITING = "A call of a program cannot wait for a person: make it by itself."
_TOO_MANY = f"A program that is part of no run may make no more than {_MOST_ALONE} calls."
_TOO_LONG = "What {} gave is longer, or nests deeper, than a program can take."
_NO_HANDOFF = "A program cannot pass the conversation to another agent."
_STOPPED = "The run was stopped."


class Calls:
    """The calls of one program. Within a run they are judged and counted as its own, and their changes are its.

    Outside of one they are judged as those of an agent that has nobody to ask, and there may be 100.
    """

    def __init__(self, functions: Mapping[str, Tool[..., Any]]) -> None:
        self._functions, self._tools = functions, Toolset(functions.values())
        self._above, self._context = LINEAGE.get(), CONTEXT.get() or NO_RUN
        self._told: list[str] = []
        self._number = 0
        self._read: list[Message] = []
        self._within = None if self._above.plan is None else self._batch(self._above.plan)

    @property
    def told(self) -> list[str]:
        """What came of each call, a line each; of many the first."""
        more = self._number - len(self._told)
        return self._told + ([f"and {more} more"] if more > 0 else [])

    def answer(self, function: str, arguments: str) -> Mapping[str, str]:
        """Make a call, blocking: its value as JSON, or why there is none."""
        call = self._asked(function, arguments)
        if self._within is None:
            with hearing() as found:
                result = self._judged(call).run()
            return self._reply(call, result, found)
        for _ in drive(self._used(self._within, call), streaming=False):
            """Nobody but the program waits for it."""
        return self._reply(call, _result_in(self._within.run.progress))

    def awaited(self) -> Callable[[Cancellation, str, str], Mapping[str, str]]:
        """`answer` for another thread: the calls are made on the event loop that awaits the program."""
        loop, context = asyncio.get_running_loop(), copy_context()

        def answer(cancellation: Cancellation, function: str, arguments: str) -> Mapping[str, str]:
            call = self._asked(function, arguments)
            used = context.run(asyncio.run_coroutine_threadsafe, self._aused(call), loop)
            while not wait([used], _TICK_SECONDS).done:  # also when cancelled, not before the call has ended
                if loop.is_closed():
                    raise SandboxError(_STOPPED)
                if cancellation.is_wished:
                    used.cancel()
            return context.run(self._reply, call, *used.result())

        return answer

    async def _aused(self, call: ToolCall) -> tuple[ToolResult, Set[Label]]:
        """What comes of a call, and what was read on the way that the result does not say."""
        if self._within is None:
            with hearing() as found:
                return await self._judged(call).arun(), found
        async with aclosing(adrive(self._used(self._within, call), streaming=False)) as events:
            async for _ in events:
                """Nobody but the program waits for it."""
        return _result_in(self._within.run.progress), frozenset()

    def _asked(self, function: str, arguments: str) -> ToolCall:
        """A call as a model would have written it. Raises ToolError when nobody waits for the program any more."""
        is_late = self._within is not None and self._within.budget.seconds_left <= 0
        if is_late or self._context.is_stopped:
            raise ToolError(_STOPPED)
        self._number += 1
        tool = self._functions.get(function)
        name = function if tool is None else tool.name
        return ToolCall(f"{self._context.call or 'program'}.{self._number}", name, arguments)

    def _batch(self, plan: Plan) -> Batch:
        """What the run uses its own calls with, for these tools and with nobody who may answer later."""
        messages, budget = tuple(self._context.messages), self._above.budget or Budget(UNLIMITED)
        run = SessionRun(Session(), self._context.run, Progress(), messages, lambda: None)
        plan = replace(plan, approve=without_waiting(plan.approve))
        read, known = self._above.read, labels_of(messages)
        # Of what the messages do not tell calls made just before have read. Once all is read, what programs send is no
        # person's own words: of such the flow lets a few through, and would let a few through for each program.
        above = plan.bench.above | (read if known.issuperset(Label) else read - known)
        return Batch(plan, replace(plan.bench, tools=self._tools, above=above), run, budget, Repeats([]))

    def _used(self, batch: Batch, call: ToolCall) -> Steps:
        batch.run.progress.apply(ResponseReceived(Response(AssistantMessage("", (call,)))))
        attached = self._above.attached
        yield from batch.use() if attached is None else attached(batch.use())

    def _judged(self, call: ToolCall) -> JudgedCall:
        """The call of a program that no run has, with the decision on it: nobody is there to be asked."""
        if self._number > _MOST_ALONE:
            return JudgedCall(call, Decision(Verdict.DENY, "limit", _TOO_MANY))
        workspace, policies = Workspace(dry_run=self._above.dry_run), self._above.policies or (Policy(),)
        judged = judge_call(call, Bench(self._tools, policies, Grants(), workspace, self._above.read), self._read)
        is_asked = judged.decision.verdict is Verdict.ASK
        return replace(judged, decision=answered(judged.decision, NOBODY)) if is_asked else judged

    def _reply(self, call: ToolCall, result: ToolResult, found: Set[Label] = frozenset()) -> Mapping[str, str]:
        """What the program is told; whoever it works for knows from then on what was read."""
        labels = result.labels | found
        if not labels <= labels_of(self._read):
            self._read += [AssistantMessage("", (call,)), ToolMessage(call.id, call.name, "", labels)]
        self._above.note(labels)
        if result.lead:
            result = failure(call.name, _NO_HANDOFF, "denied")
        if len(self._told) < _MOST_TOLD:
            self._told.append(_line(call, result))
        if not result.ok:
            return {"error": (result.error or result.content).replace(f" {GO_ON}", "")}
        text, was_cut, _ = rendered([result.value], _MOST_VALUE_CHARS)
        return {"error": _TOO_LONG.format(call.name)} if was_cut else {"value": text}


def _line(call: ToolCall, result: ToolResult) -> str:
    """What came of a call, in a line: of what code has written, which may be anything, so much as a person reads."""
    more = "…" if len(call.arguments) > _MOST_CHARS else ""
    rule = f" ({result.decision.rule})" if result.decision is not None and result.decision.denied else ""
    return well_formed(f"{call.name[:_MOST_NAME_CHARS]} {call.arguments[:_MOST_CHARS]}{more}: {result.status}{rule}")


def _result_in(progress: Progress) -> ToolResult:
    """The result of the call that was just used; one that would wait for a person has none."""
    waiting = next(iter(progress.steps.values()), None)
    return progress.tool_calls[-1].result if waiting is None else failure(waiting.call.name, _NO_WAITING, "denied")
