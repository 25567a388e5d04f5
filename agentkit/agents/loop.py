"""The run loop: a generator without I/O that yields events and effects.

The state of a run is a `RunState`, which only stored events change. A run can therefore be resumed from any recorded
event: after a pause, a limit, a failure or a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import product
from typing import Any

from agentkit.agents.budget import RESUME_HINT, Budget
from agentkit.agents.effects import Effect, Steps, emit
from agentkit.agents.guardrails import REFUSALS, AnswerValidator, CallFunction, Guardrail
from agentkit.agents.model_requests import HostedToolUse, ModelRequester
from agentkit.agents.result import Inbox, RunFinished, RunResult, to_agentkit_error
from agentkit.agents.run_config import HandoffTarget, RunConfig
from agentkit.agents.tool_calls import Repeats, ToolCallBatch
from agentkit.errors import AgentKitError, ConfigError, GuardrailRefused, LimitExceeded, RunError
from agentkit.events import (
    AnswerAmended,
    AnswerRefused,
    Event,
    HandedOff,
    InputReceived,
    LimitReached,
    RequestStarted,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStatus,
)
from agentkit.llm.client import ANSWER_CUT
from agentkit.messages import Content, Response
from agentkit.safety.approval import Grants
from agentkit.sessions.session import SessionRun
from agentkit.text_encoding import as_sentence


def run_guardrail(guardrail: Guardrail, value: Any, budget: Budget) -> Generator[CallFunction, None, Any]:
    """Call a guardrail on a value; returns and raises what `Guardrail.outcome` does."""
    effect = CallFunction(guardrail.function, (value,), budget.seconds_left)
    yield effect
    return guardrail.outcome(value, effect.answer, budget.out_of_time())


_MIN_LAST_TOKENS = 200
"""With fewer tokens left, a last answer is not requested."""

_LAST_ANSWER = (
    "You have reached the limit of this run ({limit}) and can no longer use tools. Answer now with what you have "
    "found so far, and say what is still open."
)


class RunLoop:
    """One run of one conversation.

    `iteration` is the number of the newest request, to which its tool calls belong; 0 before the first. `owner` is the
    agent that owns the run; a handoff changes the configuration, not `owner`.

    `was_done` is True while the answer is that of a run that had ended as done and was resumed: its guardrails do not
    check it again. `has_passed` is True if the newest answer passed the output type and the guardrails, `withheld` if
    it was refused for good and is not part of the result.
    """

    def __init__(
        self,
        config: RunConfig,
        run: SessionRun,
        budget: Budget,
        owner: HandoffTarget | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        self.run, self.budget = run, budget
        config.context_budget.recall(run.summary, run.history)
        self.requester = ModelRequester(config, run, budget, HostedToolUse(run, budget))
        self.owner = config.active_agent if owner is None else owner
        self.progress = run.progress
        self.iteration = self.progress.iterations
        self.repeats = Repeats(self.progress.tool_calls)
        self.max_iterations = budget.max_iterations
        self.iterations = 0
        self.was_done = False
        self.grants: dict[int, Grants] = {}
        self.error: AgentKitError | None = None
        self.value: Any = None
        self.withheld = self.has_passed = False
        self.inbox = Inbox() if inbox is None else inbox
        self.refused_by = ""

    @property
    def config(self) -> RunConfig:
        """The configuration of the active agent, with the tools currently offered."""
        return self.requester.config

    def begin(self, prompt: Content) -> Steps:
        """Start a new run, from RunStarted to RunFinished."""
        refusal: AgentKitError | None = None
        try:
            yield from self.requester.instruct()
            if self.config.answers.guardrails:
                prompt, refusal = yield from self._check_prompt(prompt, is_first=True)
        except Exception as error:
            refusal = to_agentkit_error(error)
        yield from emit(
            self.run, RunStarted(self.config.context.agent, prompt, len(self.run.history), self.config.record)
        )
        if refusal is not None:
            yield from self._fail(refusal)
        yield from self._run_steps()

    def resume(self) -> Steps:
        """Resume a run where it stopped."""
        refusal: AgentKitError | None = None
        try:
            yield from self.requester.instruct()
        except Exception as error:
            refusal = to_agentkit_error(error)
        is_at_limit = self.progress.is_answered and self.progress.status == "limit"
        self.was_done = self.progress.is_answered and self.progress.status == "done"
        yield from emit(
            self.run, RunResumed("Continue where you stopped: the limit was raised." if is_at_limit else "")
        )
        if refusal is None and self.progress.prompt is not None:  # not sent to a model yet
            _, refusal = yield from self._check_prompt(self.progress.prompt, is_first=True)
        if refusal is not None:
            yield from self._fail(refusal)
        yield from self._run_steps(self._process_results)

    def _process_results(self) -> Steps:
        """Process the results that the run had when it stopped."""
        if self.progress.steps or self.progress.results:
            yield from self._update_offered_tools()
        if self.progress.results and self.progress.ended is None:
            yield from self._use_tools()

    def _run_steps(self, first: Callable[[], Steps] | None = None) -> Steps:
        """Execute steps until the run ends; `first` is the step to begin with. An exception ends the run as failed."""
        step = first or self._step
        while self.progress.ended is None:
            try:
                yield from step()
            except Exception as error:
                if step is first and isinstance(error, ConfigError):  # the program lacks what the run had
                    raise
                for interrupted in tuple(self.progress.interruptions()):
                    yield from emit(self.run, interrupted)
                yield from self._fail(to_agentkit_error(error))
            step = self._step
        yield RunFinished(self._result())

    def _step(self) -> Steps:
        """Execute tool calls, read what was sent into the run, take the answer or query the model."""
        if self.progress.steps:
            yield from self._use_tools()
        elif (message := self.inbox.take()) is not None:
            yield from self._read(message)
        elif self.progress.is_answered:
            yield from self._conclude()
        else:
            yield from self._query_model()

    def _read(self, content: Content) -> Steps:
        """Read a message that was sent into the run, after its guardrails."""
        content, refusal = yield from self._check_prompt(content)
        if refusal is not None:
            yield from self._fail(refusal)
            return
        self.was_done = False
        yield from emit(self.run, InputReceived(content))

    def _query_model(self) -> Steps:
        """Query the model unless a limit would be exceeded."""
        limit = self._limit()
        if limit is not None:
            yield from self._end_at_limit(limit)
            return
        if self.config.conditions:
            yield from self._update_offered_tools()
            if self.progress.ended is not None:
                return
        request = yield from self.requester.request()
        reservation = self.requester.reserve(request)
        if isinstance(reservation, LimitReached):
            yield from self._end_at_limit(reservation)
            return
        self.iterations += 1
        self.iteration = self.progress.iterations + 1
        yield RequestStarted(self.iteration)
        answer = yield from self.requester.send(request, reservation)
        if isinstance(answer, Response):
            if answer.hosted:
                yield from self.requester.hosting.uses(answer)
            yield from emit(self.run, ResponseReceived(answer))
        elif self.budget.seconds_left <= 0:
            yield from self._end_at_limit(LimitReached("seconds", str(answer)))
        else:
            yield from self._fail(answer)

    def _update_offered_tools(self) -> Steps:
        """Determine the available tools; the run ends if a condition fails."""
        try:
            yield from self.requester.update_offered_tools()
        except RunError as error:
            late = self.budget.out_of_time()
            yield from self._fail(error if late is None else LimitExceeded(late.reason))

    def _use_tools(self) -> Steps:
        """Execute the requested tool calls, and act on their results."""
        batch = ToolCallBatch(self.config, self.requester.policy_context(), self.run, self.budget, self.repeats)
        yield from batch.use()
        if self.progress.steps:
            yield from self._end("paused")
        elif batch.limit is not None:
            yield from self._end_at_limit(batch.limit)
        elif batch.handoff is not None:
            self.requester.config = self._config_for(batch.handoff)
            yield from self.requester.instruct()
            yield from emit(self.run, HandedOff(batch.handoff.name))

    def _config_for(self, target: HandoffTarget) -> RunConfig:
        """The configuration of the agent that takes over; an earlier agent of this run keeps its approvals."""
        self.grants[id(self.config.active_agent)] = self.config.policy_context.grants
        config = target.config_from(self.config)
        config.context_budget.recall(self.run.summary, self.run.history)
        grants = self.grants.get(id(target), config.policy_context.grants)
        return replace(config, policy_context=replace(config.policy_context, grants=grants))

    def _limit(self) -> LimitReached | None:
        """The limit of iterations or of repeated calls if one is reached."""
        if self.iterations >= self.max_iterations:
            return LimitReached(
                "iterations",
                f"Max tool iterations reached ({self.max_iterations}). The result contains what was done so far; "
                "raise max_iterations=, or continue with result.resume().",
            )
        exceeded = self.repeats.exceeded(self.budget.limits.repeated_calls)
        if exceeded is not None:
            count, tool = exceeded
            return LimitReached(
                "repeated_calls", f"{tool} returned the same result to {count} identical calls. {RESUME_HINT}"
            )
        return None

    def _end_at_limit(self, limit: LimitReached) -> Steps:
        """End at a limit, with a last answer without tools if the limit allows one."""
        yield from emit(self.run, limit)
        self.error = LimitExceeded(limit.reason)
        if not self.progress.is_answered and self.budget.seconds_left > 0:
            yield from self._answer_last(limit)
        yield from self._end("limit")

    def _answer_last(self, limit: LimitReached) -> Steps:
        """Request a last answer without tools; an invalid answer is not retried."""
        request = yield from self.requester.request(_LAST_ANSWER.format(limit=limit.limit.replace("_", " ")))
        reservation = self.requester.reserve(request, _MIN_LAST_TOKENS)
        if isinstance(reservation, LimitReached):
            return
        self.iteration = self.progress.iterations + 1
        yield RequestStarted(self.iteration)
        answer = yield from self.requester.send(request, reservation)
        if isinstance(answer, Response):
            message = replace(answer.message, tool_calls=())
            yield from emit(self.run, ResponseReceived(replace(answer, message=message)))
            refusal = yield from self._check_output()
            if refusal is not None:
                self._withhold()
                self.error = LimitExceeded(f"{limit.reason} The last answer was refused: {refusal}")

    def _conclude(self) -> Steps:
        """Accept the answer, or send the model the reason for its refusal."""
        refusal = yield from self._check_output()
        if self.progress.finish_reason == "length":
            self.value = None
            yield from self._end_at_limit(self.requester.narrowed or LimitReached("output_tokens", ANSWER_CUT))
            return
        if refusal is None:
            if self.inbox.close_if_empty():
                yield from self._end("done")
        elif isinstance(refusal, RunError) or self.progress.refusals >= self.config.answers.retries:
            self._withhold()
            yield from self._fail(refusal if isinstance(refusal, RunError) else self._refused_error(refusal))
        else:
            self.was_done = False
            yield from emit(
                self.run,
                AnswerRefused(f"This answer cannot be used. {as_sentence(str(refusal))} Answer again, in full."),
            )

    def _refused_error(self, refusal: Exception) -> RunError:
        """The error of a run whose answers were refused, by a guardrail or as values of the output type."""
        text = f"The answer was refused {self.progress.refusals + 1} times. {refusal}"
        if not self.refused_by:
            return RunError(text)
        return GuardrailRefused(text, guardrail=self.refused_by, stage="output", reason=str(refusal))

    def _check_output(self) -> Generator[Event | Effect, None, Exception | None]:
        """Parse the answer and run the guardrails; returns the error, or None."""
        rules, self.has_passed, self.refused_by = self.config.answers, False, ""
        try:
            self.value = self.progress.text if rules.output is None else rules.parse(self.progress.text)
            for guardrail in rules.of("output") if rules.guardrails and not self.was_done else ():
                self.refused_by = guardrail.name
                amended = yield from run_guardrail(guardrail, self.value, self.budget)
                if amended is not None:
                    text, self.value = _replacement(rules, guardrail, amended)
                    yield from emit(self.run, AnswerAmended(text))
        except (*REFUSALS, RunError) as error:
            self.value = None
            return error
        self.has_passed = True
        return None

    def _check_prompt(
        self, prompt: Content, *, is_first: bool = False
    ) -> Generator[Event | Effect, None, tuple[Content, RunError | None]]:
        """The prompt after the guardrails amended each of its texts, and the error if a guardrail refused it.

        Concurrent guardrails check the first prompt at the same time as the first request.
        """
        parts = [prompt] if isinstance(prompt, str) else list(prompt)
        guardrails = self.config.answers.of("prompt")
        with_request = [each for each in guardrails if each.is_concurrent and is_first and not self.config.has_hosted]
        for place, guardrail in product(range(len(parts)), guardrails):
            part = parts[place]
            if isinstance(part, str) and guardrail not in with_request:
                try:
                    amended = yield from run_guardrail(guardrail, part, self.budget)
                    parts[place] = part if amended is None else str(amended)
                except REFUSALS as error:
                    return prompt, guardrail.refused_prompt_error(error)
                except RunError as error:
                    return prompt, error
        self.requester.guards = [(each, part) for part in parts if isinstance(part, str) for each in with_request]
        return str(parts[0]) if isinstance(prompt, str) else tuple(parts), None

    def _withhold(self) -> None:
        """Withhold a refused answer from the result; it stays in the messages as the model wrote it."""
        self.value, self.withheld = None, True

    def _fail(self, error: AgentKitError) -> Steps:
        if isinstance(error, LimitExceeded):  # the time ran out during a guardrail
            yield from self._end_at_limit(LimitReached("seconds", str(error)))
            return
        self.error = error
        yield from self._end("failed")

    def _end(self, status: RunStatus) -> Steps:
        """End the run. Messages that were sent into it and not read yet stay in the conversation."""
        for message in self.inbox.close():
            yield from emit(self.run, InputReceived(message))
        changes = self.config.policy_context.workspace.changes
        yield from emit(self.run, RunEnded(status, self._text, str(self.error or ""), changes))

    def failed(self, error: AgentKitError) -> RunFinished[Any]:
        """The result so far as that of a failed run, after an exception from outside of the loop."""
        self.inbox.close()
        result = replace(self._result(), status="failed", error=error)
        if isinstance(error, RunError):
            error.result = result
        return RunFinished(result)

    def _result(self) -> RunResult[Any]:
        config, run, is_typed = self.config, self.run, self.config.answers.output is not None
        return RunResult.of(
            run.progress,
            run.id,
            run.history,
            self.error,
            value=self.value if run.progress.status == "done" or is_typed else self._text,
            last_agent=self.owner,
            rules=config.answers,
            record=config.policy_context.workspace.begun_record,
            context=config.context.value,
        )

    @property
    def _text(self) -> str:
        """The text of the result; with output guardrails, only text that passed them."""
        is_held = self.withheld or (not self.has_passed and bool(self.config.answers.of("output")))
        return "" if is_held else self.progress.text


def _replacement(rules: AnswerValidator, guardrail: Guardrail, value: Any) -> tuple[str, Any]:
    """The replacement answer of a guardrail, as text and as value. Raises RunError if it is not a valid answer."""
    try:
        text = rules.encode(value)
        return text, rules.parse(text)
    except REFUSALS as error:
        raise RunError(f"The guardrail {guardrail.name} returned an invalid answer. {error}") from error
