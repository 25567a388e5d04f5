"""How does a run go? The loop, written once, without I/O: it yields events and questions, a driver answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from agentkit.agents.questions import AskModel, AskPerson, Question, UseTools
from agentkit.agents.result import RunFinished, RunResult, RunStatus
from agentkit.agents.tool_call import JudgedCall, interrupted, judge_call
from agentkit.decisions import Verdict
from agentkit.errors import AgentKitError, BadResponse, LimitExceeded, ModelError
from agentkit.events import Event, RequestStarted, ResponseReceived, RunStarted, ToolCallFinished, ToolCallStarted
from agentkit.messages import (
    AssistantMessage,
    Content,
    Message,
    Request,
    Response,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    with_distinct_ids,
)
from agentkit.safety.approval import ApprovalRequest, answered
from agentkit.safety.policy import Policy
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Usage

Steps = Generator[Event | Question, None, None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run needs to know about its agent."""

    agent: str
    instruction: str
    tools: Toolset
    specs: tuple[ToolSpec, ...]
    policy: Policy
    max_iterations: int


@dataclass(slots=True)
class Progress:
    """What a run has done so far. `messages` is a valid piece of history at every instant."""

    messages: list[Message] = field(default_factory=list)
    tool_calls: list[ToolCallFinished] = field(default_factory=list)
    iterations: int = 0
    usage: Usage = field(default_factory=Usage)
    text: str = ""

    def result(self, status: RunStatus, error: AgentKitError | None = None) -> RunResult:
        """The result as it would be if the run ended now."""
        return RunResult(
            self.text, status, tuple(self.messages), tuple(self.tool_calls), self.iterations, self.usage, error
        )


def run_loop(plan: Plan, history: Sequence[Message], prompt: Content, progress: Progress) -> Steps:
    """One run: ask the model, use the tools it wishes for, until it answers or a limit is hit."""
    yield RunStarted(plan.agent, prompt)
    pending: list[Message] = [UserMessage(prompt)]
    ids = {call.id for message in history if isinstance(message, AssistantMessage) for call in message.tool_calls}
    while progress.iterations < plan.max_iterations:
        progress.iterations += 1
        yield RequestStarted(progress.iterations)
        request = Request([*history, *progress.messages, *pending], plan.instruction, plan.specs)
        question = AskModel(request)
        try:
            yield question
            response = _answer(question, ids)
        except ModelError as error:
            yield RunFinished(progress.result("failed", error))
            return
        yield from _take(response, pending, progress)
        if not response.tool_calls:
            yield RunFinished(_ended(response, progress))
            return
        yield from _use_tools(plan, response.tool_calls, progress)
    yield RunFinished(_at_cap(plan, progress))


def _answer(question: AskModel, ids: set[str]) -> Response:
    """The response, its tool calls told apart from all earlier ones."""
    if question.response is None:
        raise BadResponse("The provider's stream ended without an answer.")
    return replace(question.response, message=with_distinct_ids(question.response.message, ids))


def _take(response: Response, pending: list[Message], progress: Progress) -> Steps:
    """Enter an answer. The prompt is entered only with it, so that a failed request leaves nothing behind.

    Its tool calls count as interrupted until their results are in, so that history is valid at every instant.
    """
    progress.usage += response.usage
    progress.text = response.text or progress.text
    progress.messages += [*pending, response.message, *(_told(call, interrupted(call)) for call in response.tool_calls)]
    pending.clear()
    yield ResponseReceived(response)


def _use_tools(plan: Plan, calls: Sequence[ToolCall], progress: Progress) -> Steps:
    """Judge every call, run those that may happen, and enter the results in the order asked."""
    results: dict[str, ToolResult] = {}
    allowed: list[JudgedCall] = []
    try:
        for call in calls:
            judged = judge_call(call, plan.tools, plan.policy)
            if judged.decision.verdict is Verdict.ASK:
                judged = yield from _approved(plan, judged)
            yield ToolCallStarted(call, judged.decision)
            if judged.decision.allowed:
                allowed.append(judged)
            else:
                results[call.id] = judged.refusal()
                yield ToolCallFinished(call, results[call.id])
        if allowed:
            yield UseTools(tuple(allowed), results)
    finally:
        ended = [ToolCallFinished(call, results.get(call.id) or interrupted(call)) for call in calls]
        progress.tool_calls += ended
        progress.messages[-len(calls) :] = [_told(each.call, each.result) for each in ended]


def _approved(plan: Plan, judged: JudgedCall) -> Generator[Event | Question, None, JudgedCall]:
    """The call with the decision that a person's answer makes of `ask`."""
    question = AskPerson(ApprovalRequest(plan.agent, judged.call.name, judged.arguments, judged.decision))
    yield question
    return replace(judged, decision=answered(judged.decision, question.answer))


def _told(call: ToolCall, result: ToolResult) -> ToolMessage:
    return ToolMessage(call.id, call.name, result.content)


def _ended(response: Response, progress: Progress) -> RunResult:
    """The result after an answer; one that was cut off at its token limit does not pass for a whole one."""
    if response.finish_reason != "length":
        return progress.result("done")
    error = LimitExceeded("The answer was cut at its token limit; allow more max_tokens.")
    return _limited(progress, error)


def _at_cap(plan: Plan, progress: Progress) -> RunResult:
    error = LimitExceeded(
        f"Max tool iterations reached ({plan.max_iterations}). What was done so far is in the result; "
        "allow more with max_iterations=, or ask again to go on."
    )
    return _limited(progress, error)


def _limited(progress: Progress, error: LimitExceeded) -> RunResult:
    result = progress.result("limit", error)
    error.result = result
    return result
