"""How does an agent work for another one? As a tool, which answers a request, and waits where a person must decide."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agentkit.agents.result import Resumption, RunResult, result_in
from agentkit.agents.runner import Runner
from agentkit.agents.running.plan import LINEAGE
from agentkit.agents.running.tool_call import Sitting
from agentkit.errors import Postponed, ToolError
from agentkit.events import Approved, ToolCallPostponed
from agentkit.memory.progress import Progress
from agentkit.memory.session import Session
from agentkit.messages import Pause
from agentkit.safety.approval import Answer, Approval
from agentkit.slotted import dataclass
from agentkit.tooling.functions.context import CONTEXT, NO_RUN


@dataclass(frozen=True, slots=True)
class Worker:
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


def _resumption(sitting: Sitting) -> Resumption:
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
    return Answer(Approval(said.answer), said.text, arguments)


def _pause(result: RunResult[Any]) -> Pause:
    """Where the agent's run stands still: at the first of its calls that wait, under an id of its own in ours."""
    waits = Progress.of(result.milestones).waiting[0]
    asked = replace(waits.asked, id=f"{(CONTEXT.get() or NO_RUN).call}.{waits.asked.id}")
    decision, folder = (None, "") if waits.postponed is None else (waits.postponed.decision, waits.postponed.folder)
    return Pause(asked, waits.question, decision, folder, inner_run=json.loads(result.to_json()))
