"""Model requests of a run: context window, limits, and hosted tools.

A provider runs hosted tools while it answers, where no call can be judged. Each hosted tool is therefore judged before
every request that would offer it, based on what has been read so far; a denied tool is left out of the request.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.budget import MIN_TOKENS, Budget, Reservation
from agentkit.agents.effects import AskModel, AskPerson, Effect, Steps, emit
from agentkit.agents.guardrails import CallFunction, Guardrail
from agentkit.agents.run_config import CallingTool, RunConfig
from agentkit.agents.tool_policy import ToolPolicyContext, judge_call
from agentkit.decisions import Decision, Label, Verdict, strictest
from agentkit.errors import BadResponse, ConfigError, ModelError, RunError, Unreachable
from agentkit.events import Event, HostedCallFinished, LimitReached, RequestFailed, Summarised
from agentkit.llm.fallback import count_lost_requests, format_failed_model
from agentkit.llm.pipeline import ABANDONED
from agentkit.llm.pricing import price_under
from agentkit.messages import (
    READ_MORE,
    HostedUse,
    Message,
    Request,
    Response,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
    usage_of,
)
from agentkit.safety.approval import Approval, ApprovalRequest, ApproverAnswer, answered
from agentkit.safety.data_flow import FLOW
from agentkit.sessions.session import SessionRun
from agentkit.sessions.state import Summary
from agentkit.tooling.results import denial, failure
from agentkit.tooling.run_context import ToolCondition, context_arguments
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool
from agentkit.tools.run_tools import FIND_TOOLS, found_specs, initial_specs, read_more_tool
from agentkit.usage import NO_USAGE, Usage, unreported


def conditions_of(tools: Iterable[AnyTool]) -> dict[ToolCondition, str]:
    """Map the conditions of the tools, and of those that programs can call, to the name of a tool that has them."""
    found: dict[ToolCondition, str] = {}
    for tool in tools:
        if tool.conditions:
            found |= dict.fromkeys(tool.conditions, tool.name)
        if isinstance(tool, CallingTool):
            found |= conditions_of(tool.tools)
    return found


def met_conditions(
    config: RunConfig, read: Sequence[Message], seconds_left: float
) -> Generator[CallFunction, None, frozenset[ToolCondition]]:
    """The conditions that are met after these messages.

    Raises RunError if a condition fails, times out or does not return a bool.
    """
    fulfilled: set[ToolCondition] = set()
    context = config.context.called("", read)
    for condition, tool in config.conditions.items():
        effect = CallFunction(condition.function, context_arguments(condition.function, context), seconds_left)
        yield effect
        answer = effect.answer
        if isinstance(answer, Exception):
            raise RunError(f"The condition of {tool} failed ({type(answer).__name__}: {answer}).") from answer
        if not isinstance(answer, bool):
            raise RunError(f"The condition of {tool} returned {type(answer).__name__}; it must return True or False.")
        if answer:
            fulfilled.add(condition)
    return frozenset(fulfilled)


_DEFAULT_LABELS = frozenset({Label.UNTRUSTED})
"""Labels of the results of a hosted tool that is configured only in the LLM's settings."""

_FOR_RUN = "The provider runs it while it answers; an approval applies to this run."
_FOR_ONE = "The provider runs it while it answers; an approval applies to one request."
"""Added to the reason in the approval request."""

_LATER = "The approval of a provider's tool cannot be postponed."
_OTHER_ARGUMENTS = "The arguments of a tool that the provider runs cannot be changed; answer True or False."
"""Why such an answer counts as a refusal here: a request cannot be postponed, and has no arguments yet."""


@dataclass(slots=True, eq=False, repr=False)
class HostedToolUse:
    """The hosted tools of one run. `offered` are those of the newest request, with their decisions."""

    _run: SessionRun
    _budget: Budget
    offered: dict[str, Decision] = field(default_factory=dict)
    _labels: frozenset[Label] = frozenset()
    _answers: dict[tuple[str, str, str], Decision] = field(default_factory=dict)
    _reported: set[tuple[str, str, str]] = field(default_factory=set)

    def judge(
        self, names: Sequence[str], config: RunConfig, policy_context: ToolPolicyContext, read: Sequence[Message]
    ) -> Steps:
        """Decide which of these tools the provider can use for the next answer, given what was read."""
        self.offered = {}
        for name in names:
            call = ToolCall(f"hosted_{name}", name, "{}")
            judged = strictest((judge_call(call, policy_context, read).decision, *_conditions(name, policy_context)))
            decision = yield from self._decide(call, judged, config, policy_context)
            if decision.allowed:
                self.offered[name] = decision
        self._labels = frozenset[Label]().union(*(policy_context.tools.find(name).labels for name in self.offered))

    def without_denied(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tool specs without the hosted tools that are not permitted."""
        return tuple(spec for spec in specs if spec.hosted is None or spec.name in self.offered)

    def with_labels(self, response: Response) -> Response:
        """The response, with the labels of the hosted tools it used on its message."""
        is_known = all(use.call.name in self.offered for use in response.hosted)
        labels = self._labels if is_known else self._labels | _DEFAULT_LABELS
        return replace(response, message=replace(response.message, labels=labels))

    def uses(self, response: Response) -> Steps:
        """Emit the hosted tool uses of a response as tool calls, which count against the tool call limit."""
        self._budget.take("tool_calls", len(response.hosted))
        iteration = self._run.progress.iterations + 1
        for number, use in enumerate(response.hosted, 1):
            call = use.call if use.call.id else replace(use.call, id=f"hosted_{iteration}_{number}")
            yield from emit(self._run, HostedCallFinished(call, self._result(use, response.message.labels)))

    def _result(self, use: HostedUse, labels: frozenset[Label]) -> ToolResult:
        decision = self.offered.get(use.call.name)
        if use.error:
            return replace(failure(use.call.name, use.error, "failed", decision), labels=labels)
        content = json.dumps(use.sources, ensure_ascii=False) if use.sources else ""
        return ToolResult(use.call.name, "ok", content, list(use.sources), decision=decision, labels=labels)

    def _decide(
        self, call: ToolCall, decision: Decision, config: RunConfig, policy_context: ToolPolicyContext
    ) -> Generator[Event | Effect, None, Decision]:
        """The decision on a tool, after asking a person if required; a refusal is emitted once."""
        key = config.context.agent, call.name, decision.rule
        if decision.verdict is Verdict.ASK:
            reason = f"{decision.reason} {_FOR_ONE if decision.rule == FLOW else _FOR_RUN}"
            request = ApprovalRequest(
                config.context.agent, call.name, {}, replace(decision, reason=reason), "", call.id
            )
            decision = policy_context.grants.applied(request)
            if not decision.allowed:
                decision = self._answers.get(key) or (yield from self._ask_person(request, config, policy_context))
        if not decision.allowed and key not in self._reported:
            self._reported.add(key)
            withheld = replace(call, id=f"withheld_{len(self._reported)}")
            yield from emit(self._run, HostedCallFinished(withheld, denial(call.name, decision)))
        return decision

    def _ask_person(
        self, request: ApprovalRequest, config: RunConfig, policy_context: ToolPolicyContext
    ) -> Generator[Event | Effect, None, Decision]:
        """Ask a person.

        The answer holds for the run, except that an approval of the data-flow rule holds for one request only.
        """
        effect = AskPerson(request, config.approve, seconds_left=self._budget.seconds_left)
        yield effect
        answer = effect.answer or effect.unanswered
        refusal = (
            _OTHER_ARGUMENTS if answer.arguments is not None else _LATER if answer.answer == Approval.LATER else ""
        )
        approval = Approval.NO if refusal else Approval(answer.answer)
        decision = answered(request.decision, ApproverAnswer(approval, answer.text or refusal))
        policy_context.grants.enter(request, approval)
        if approval is Approval.NO or request.decision.rule != FLOW:
            self._answers[request.agent, request.tool, request.decision.rule] = decision
        return decision


def _conditions(name: str, policy_context: ToolPolicyContext) -> Iterator[Decision]:
    """Decisions of rules that ask about or deny some arguments, as the arguments are not known in advance."""
    rules = (rule for policy in policy_context.policies for rule in policy.rules if rule.is_about(name) and rule.where)
    yield from (rule.decision({}) for rule in rules if rule.verdict is not Verdict.ALLOW)


_MAX_SHORTER_REQUESTS = 3
"""Without a limit named by the server each retry is a quarter shorter: the last has 42 % of the original length."""

_AUTO_CHOICE = {"tool_choice": "auto"}
_UNFORCED_CHOICES = (None, "auto", "none")
"""Values of `tool_choice` that do not force a tool call."""


@dataclass(slots=True, eq=False, repr=False)
class ModelRequester:
    """The model requests of one run. `config` is the configuration of the active agent.

    `narrowed` is the limit that shortened the newest answer, `abandoned_usage` the usage of a request that was
    abandoned before its end, `guards` the guardrails that check the prompt at the same time as the next request, each
    with a text of the prompt.
    """

    config: RunConfig
    run: SessionRun
    budget: Budget
    hosting: HostedToolUse
    guards: list[tuple[Guardrail, str]] = field(default_factory=list)
    narrowed: LimitReached | None = None
    abandoned_usage: Usage = NO_USAGE
    _reader: Tool[..., Any] | None = None
    _order: str = ""
    _is_shortened: bool = False

    def policy_context(self) -> ToolPolicyContext:
        """The context in which calls are judged, with the `read_more` tool once an output was shortened."""
        policy_context = self.config.policy_context
        if not (self._is_shortened or self.run.has_truncated) or READ_MORE in policy_context.tools.names:
            return policy_context
        if self._reader is None:
            self._reader = read_more_tool(self.run.full_text)
        return replace(policy_context, tools=policy_context.tools + self._reader)

    def instruct(self) -> Steps:
        """Call the instruction function, if any. Raises its exception, or ConfigError if it does not return a text."""
        config = self.config
        if isinstance(config.instruction, str):
            return
        effect = CallFunction(
            config.instruction, context_arguments(config.instruction, config.context), self.budget.seconds_left
        )
        yield effect
        if self.budget.out_of_time() is None:  # after that no request is sent
            self.config = replace(config, written=_text_in(effect.answer))

    def update_offered_tools(self) -> Steps:
        """Determine which tools are offered from now on. Raises RunError if a condition fails."""
        config = self.config
        if not config.conditions:
            return
        fulfilled = yield from met_conditions(config, self._read(), self.budget.seconds_left)
        if fulfilled != config.policy_context.met_conditions:
            tools = config.policy_context.tools
            tools, specs = initial_specs(tools.without(FIND_TOOLS) if tools.searchable_names else tools, fulfilled)
            self.config = replace(
                config,
                specs=specs,
                policy_context=replace(config.policy_context, tools=tools, met_conditions=fulfilled),
            )

    def _read(self) -> Sequence[Message]:
        """The whole conversation, including a prompt that is not sent yet."""
        progress = self.run.progress
        pending = [] if progress.prompt in (None, ()) else [UserMessage(progress.prompt)]
        return [*self.run.history, *progress.messages, *pending]

    def request(self, order: str = "") -> Generator[Event | Effect, None, Request]:
        """Build the next request; with `order`, an additional instruction for this request only, it offers no tools."""
        config, self._order = self.config, order
        messages = self._read()
        instruction = config.instruction if isinstance(config.instruction, str) else config.written
        instruction = f"{instruction}\n\n{order}".strip() if order else instruction
        specs = () if order else self._specs(messages)
        hosted = [spec.name for spec in specs if spec.hosted is not None]
        if hosted or self.hosting.offered:
            yield from self.hosting.judge(hosted, config, self.policy_context(), messages)
            specs = self.hosting.without_denied(specs)
        output = config.answers.output
        # `tool_choice` returns to "auto" after the first tool call
        forced = self.run.progress.tool_calls and config.llm().settings.get("tool_choice") not in _UNFORCED_CHOICES
        schema, settings = None if output is None else output.schema, _AUTO_CHOICE if forced else {}
        request = Request(messages, instruction, specs, schema, settings)
        tokens_left = config.context_budget.available_tokens(request, config.llm)
        if tokens_left is not None:
            request = yield from self._fit(request, tokens_left)
        if config.context_budget.window.edit is None:
            return request
        return replace(request, messages=config.context_budget.window.apply_edit(request.messages))

    def _fit(self, request: Request, tokens_left: int) -> Generator[Event | Effect, None, Request]:
        """The request with the part of the conversation that fits into `tokens_left` tokens."""
        messages, context_budget, begin = request.messages, self.config.context_budget, len(self.run.history)
        old = context_budget.to_summarise(messages, tokens_left, begin)
        if old:
            yield from self._summarise(old, tokens_left)
        fitted = context_budget.fit_messages(messages, tokens_left, begin, with_handles=bool(request.tools))
        self._is_shortened = self._is_shortened or bool(request.tools and fitted.shortened)
        specs = self.hosting.without_denied(self._specs(messages)) if request.tools else ()
        return replace(request, messages=fitted.messages, tools=specs)

    def reserve(self, request: Request, min_tokens: int = MIN_TOKENS) -> Reservation | LimitReached:
        """Reserve the worst-case cost of the request; returns the limit that it would exceed.

        An answer of fewer than `min_tokens` tokens is not worth a request.
        """
        return self.budget.reserve(
            self.config.context_budget.tokens(request), self._max_tokens, self.config.price, min_tokens
        )

    def send(
        self, request: Request, reservation: Reservation
    ) -> Generator[Event | Effect, None, Response | ModelError]:
        """Send the request; retry with shorter requests if the model refuses it as too long."""
        answer = yield from self._send_once(request, reservation)
        for _ in range(_MAX_SHORTER_REQUESTS):
            if isinstance(answer, Response) or not answer.is_too_long:
                break
            self.config.context_budget.refused(request, reservation.max_tokens, answer.limit_tokens)
            shorter = yield from self.request(self._order)
            new_reservation = self.reserve(shorter)
            if isinstance(new_reservation, LimitReached):
                break
            if not _is_shorter(shorter, new_reservation, request, reservation):
                self.budget.release(new_reservation)
                break
            request, reservation = shorter, new_reservation
            answer = yield from self._send_once(request, reservation)
        return answer

    def _send_once(
        self, request: Request, reservation: Reservation
    ) -> Generator[Event | Effect, None, Response | ModelError]:
        """Send one request; its tool calls get ids that are unique in the conversation."""
        if reservation.max_tokens is not None:
            request = replace(request, settings={**request.settings, "max_tokens": reservation.max_tokens})
        layers = tuple(each for each in self.config.middleware if each.stage == "request")
        seconds_left = self.budget.seconds_left
        guards = tuple(CallFunction(each.function, (text,), seconds_left) for each, text in self.guards)
        effect = AskModel(request, self.config.llm, seconds_left, layers=layers, guards=guards)
        try:
            yield effect
        except GeneratorExit:  # abandoned before its end
            self.abandoned_usage = (
                effect.abandoned_usage[0] if effect.abandoned_usage else unreported(1, self.config.llm().tariff)
            )
            self.budget.settle(reservation, self.abandoned_usage, self.config.price)
            raise
        if guards:
            yield from self._check_guards(effect, reservation)
        answer = effect.answer or BadResponse("The provider's stream ended without an answer.")
        if isinstance(answer, Exception):
            return (yield from self._record_failure(answer, reservation))
        for missed in answer.missed:
            yield from emit(self.run, RequestFailed(format_failed_model(missed), missed.kind))
        if answer.hosted:  # the count of tokens includes the results of the tools, once per internal request
            answer = self.hosting.with_labels(answer)
        else:
            self.config.context_budget.learn(request, answer.usage.input_tokens)
        self.narrowed = reservation.narrowed
        tariff = answer.tariff
        self.budget.settle(reservation, answer.usage, lambda: price_under(tariff) if tariff else self.config.price())
        message = self.run.session.with_unique_ids(answer.message)
        return answer if message is answer.message else replace(answer, message=message)

    def _record_failure(
        self, error: Exception, reservation: Reservation
    ) -> Generator[Event | Effect, None, ModelError]:
        """Count a failed request with what is known of its usage. Raises an error that is not the model's."""
        if not isinstance(error, ModelError):
            self.budget.release(reservation)
            raise error
        spent = self._lost_usage(error)
        if spent.requests:
            self.budget.settle(reservation, spent, self.config.price)
        elif error.status is not None:  # the server refused it; without a status it can still charge for it
            self.budget.release(reservation)
        yield from emit(self.run, RequestFailed(str(error), type(error).__name__, spent))
        return error

    def _check_guards(self, effect: AskModel, reservation: Reservation) -> Steps:
        """Raise the refusal or failure of a guardrail that checked the prompt meanwhile; the answer is discarded."""
        answer = effect.answer
        try:
            for (guardrail, text), guard in zip(self.guards, effect.guards, strict=True):
                guardrail.outcome(text, guard.answer, self.budget.out_of_time())
        except (ValueError, RunError) as error:
            refusal = error if isinstance(error, RunError) else guardrail.refused_prompt_error(error)
            outcome = Unreachable(str(refusal), code=ABANDONED) if answer is None else answer
            spent = (
                self._lost_usage(outcome) if isinstance(outcome, ModelError) else getattr(outcome, "usage", NO_USAGE)
            )
            self.budget.settle(reservation, spent, self.config.price)
            yield from emit(self.run, RequestFailed(str(refusal), type(refusal).__name__, spent))
            raise refusal from error
        self.guards = []

    def _lost_usage(self, error: ModelError) -> Usage:
        """The usage that servers can charge although no answer arrived."""
        if error.missed:
            return usage_of(error.missed)
        count = max(count_lost_requests(error), int(error.code == ABANDONED))
        return unreported(count, self.config.llm().tariff)

    def _summarise(self, old: Sequence[Message], tokens_left: int) -> Steps:
        """Have the model write a summary that replaces the oldest part of the conversation."""
        request = self.config.context_budget.summary_request(old, tokens_left)
        reservation = self.reserve(request)
        if isinstance(reservation, LimitReached):
            return
        response = yield from self._send_once(request, reservation)
        if isinstance(response, Response):
            covered = len(old) if response.text else 0
            if covered:
                self.config.context_budget.summary = Summary(covered, old[-1], response.text)
            yield from emit(self.run, Summarised(response.text, covered, response.usage))

    def _specs(self, messages: Sequence[Message]) -> tuple[ToolSpec, ...]:
        """The tools offered now; tools found by search come after the initial ones."""
        config, policy_context = self.config, self.policy_context()
        specs = config.specs
        if config.policy_context.tools.searchable_names:
            specs = (*specs, *found_specs(messages, config.policy_context.tools, config.policy_context.met_conditions))
        return specs if policy_context is config.policy_context else (*specs, policy_context.tools[READ_MORE].spec)

    def _max_tokens(self) -> int | None:
        """Maximum answer length: the user's setting, else what the learnt context window leaves for it."""
        return self.config.max_tokens() or self.config.context_budget.answer_tokens


def _text_in(answer: object) -> str:
    """The text returned by an instruction function. Raises its exception, or ConfigError if it is not a text."""
    if isinstance(answer, Exception):
        raise answer
    if not isinstance(answer, str):
        raise ConfigError(f"The function given as instruction= must return a string. Got {answer!r:.200}.")
    return answer


def _is_shorter(new: Request, reserved: Reservation, old: Request, reserved_before: Reservation) -> bool:
    """Whether a request asks less of the server than the previous one."""
    return list(new.messages) != list(old.messages) or (reserved.max_tokens or 0) < (reserved_before.max_tokens or 0)
