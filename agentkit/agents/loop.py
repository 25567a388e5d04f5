"""How does a run go? The loop, written once, without I/O: it yields events and questions, a driver answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from agentkit.agents.conversation import Conversation
from agentkit.agents.questions import AskModel, AskPerson, Question, UseTools
from agentkit.agents.result import RunFinished, RunResult, RunStatus
from agentkit.agents.tool_call import Bench, JudgedCall, judge_call
from agentkit.decisions import Verdict
from agentkit.errors import AgentKitError, BadResponse, LimitExceeded, ModelError
from agentkit.events import Event, RequestStarted, ResponseReceived, RunStarted, ToolCallFinished, ToolCallStarted
from agentkit.messages import Content, Message, Request, Response, ToolMessage, ToolResult, ToolSpec, UserMessage
from agentkit.safety.approval import ApprovalRequest, answered
from agentkit.tooling.arguments import copied
from agentkit.usage import Usage
from agentkit.workspace.journal import Record

Steps = Generator[Event | Question, None, None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run needs to know about its agent."""

    agent: str
    instruction: str
    specs: tuple[ToolSpec, ...]
    max_iterations: int
    bench: Bench


@dataclass(slots=True)
class Progress:
    """What a run has done so far."""

    record: Record
    messages: list[Message] = field(default_factory=list)
    tool_calls: list[ToolCallFinished] = field(default_factory=list)
    iterations: int = 0
    usage: Usage = field(default_factory=Usage)
    text: str = ""

    def result(self, status: RunStatus, error: AgentKitError | None = None) -> RunResult:
        """The result as it would be if the run ended now."""
        used = tuple(self.tool_calls)
        return RunResult(self.text, status, tuple(self.messages), used, self.iterations, self.usage, error, self.record)


def run_loop(plan: Plan, conversation: Conversation, prompt: Content) -> Steps:
    """One run, from RunStarted to RunFinished. What it did is entered in the conversation, also when it is cut off."""
    progress = Progress(plan.bench.workspace.record)
    try:
        result = yield from _iterate(plan, conversation, prompt, progress)
    finally:
        conversation.append(progress.messages)
    yield RunFinished(result)


def _iterate(
    plan: Plan, conversation: Conversation, prompt: Content, progress: Progress
) -> Generator[Event | Question, None, RunResult]:
    """Ask the model, use the tools it wishes for, until it answers or a limit is hit.

    The prompt is entered only with its first answer, so that a failed request leaves nothing behind.
    """
    yield RunStarted(plan.agent, prompt)
    history = conversation.messages
    pending: list[Message] = [UserMessage(prompt)]
    while progress.iterations < plan.max_iterations:
        progress.iterations += 1
        yield RequestStarted(progress.iterations)
        question = AskModel(Request([*history, *progress.messages, *pending], plan.instruction, plan.specs))
        yield question
        response = _response(question, conversation)
        if isinstance(response, ModelError):
            return progress.result("failed", response)
        progress.messages += pending
        pending.clear()
        yield from _take(plan, response, progress, history)
        if not response.tool_calls:
            return _ended(response, progress)
    return _at_cap(plan, progress)


def _response(question: AskModel, conversation: Conversation) -> Response | ModelError:
    """The answer; the tool calls of a response are told apart from all others of the conversation."""
    answer = question.answer
    if answer is None:
        return BadResponse("The provider's stream ended without an answer.")
    if isinstance(answer, ModelError):
        return answer
    message = conversation.tell_apart(answer.message)
    return answer if message is answer.message else replace(answer, message=message)


def _take(plan: Plan, response: Response, progress: Progress, history: Sequence[Message]) -> Steps:
    """Enter an answer, and one result for each of its tool calls, in the order asked, whatever happens meanwhile."""
    read = [*history, *progress.messages] if response.tool_calls else ()
    calls = [judge_call(call, plan.bench, read) for call in response.tool_calls]
    results: dict[str, ToolResult] = {}
    progress.usage += response.usage
    progress.text = response.text or progress.text
    progress.messages.append(response.message)
    try:
        yield ResponseReceived(response)
        yield from _use_tools(plan, calls, results)
    finally:
        for judged in calls:
            result = results.get(judged.call.id) or judged.interruption()
            progress.tool_calls.append(ToolCallFinished(judged.call, result))
            progress.messages.append(ToolMessage(judged.call.id, judged.call.name, result.content, judged.labels))


def _use_tools(plan: Plan, calls: list[JudgedCall], results: dict[str, ToolResult]) -> Steps:
    """Ask about the calls that must be asked for, refuse those that may not happen, run the others."""
    for index, call in enumerate(calls):
        judged = calls[index] = yield from _approved(plan, call)
        yield ToolCallStarted(judged.call, judged.decision)
        if not judged.decision.allowed:
            results[judged.call.id] = judged.refusal()
            yield ToolCallFinished(judged.call, results[judged.call.id])
    allowed = tuple(judged for judged in calls if judged.decision.allowed)
    if allowed:
        yield UseTools(allowed, results)


def _approved(plan: Plan, judged: JudgedCall) -> Generator[Event | Question, None, JudgedCall]:
    """The call with the decision that a person's answer, now or earlier in the run, makes of `ask`.

    The person sees a copy of the arguments: what runs is what was judged.
    """
    if judged.decision.verdict is not Verdict.ASK:
        return judged
    kept, shown = copied(judged.arguments), copied(judged.arguments)
    request = ApprovalRequest(plan.agent, judged.call.name, kept, judged.decision, plan.bench.workspace.folder)
    decision = plan.bench.grants.applied(request)
    if decision.allowed:
        return replace(judged, decision=decision)
    question = AskPerson(replace(request, arguments=shown))
    yield question
    plan.bench.grants.enter(request, question.answer)
    return replace(judged, decision=answered(decision, question.answer))


def _ended(response: Response, progress: Progress) -> RunResult:
    """The result after an answer; one that was cut off at its token limit does not pass for a whole one."""
    if response.finish_reason != "length":
        return progress.result("done")
    return _limited(progress, "The answer was cut at its token limit; allow more max_tokens.")


def _at_cap(plan: Plan, progress: Progress) -> RunResult:
    return _limited(
        progress,
        f"Max tool iterations reached ({plan.max_iterations}). What was done so far is in the result; "
        "allow more with max_iterations=, or ask again to go on.",
    )


def _limited(progress: Progress, why: str) -> RunResult:
    error = LimitExceeded(why)
    result = error.result = progress.result("limit", error)
    return result
