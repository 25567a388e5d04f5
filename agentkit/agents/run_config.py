"""The configuration of one run: agent, parent run, handoffs and subagents."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, ParamSpec, Self, TypeVar

from agentkit import recording
from agentkit._dataclass import dataclass
from agentkit.agents.budget import Budget, ContextBudget, Spending
from agentkit.agents.guardrails import AnswerValidator, Middleware
from agentkit.agents.tool_policy import CallProgress, ToolPolicyContext
from agentkit.decisions import Decision, Label, SafetyLevel
from agentkit.errors import ConfigError
from agentkit.events import Event
from agentkit.llm.client import LLM
from agentkit.llm.pricing import prices_under
from agentkit.messages import ToolCall, ToolResult, ToolSpec
from agentkit.safety.approval import Approver
from agentkit.safety.policy import Policy
from agentkit.sessions.session import Session
from agentkit.tooling.run_context import NO_RUN, ContextType, RunContext, ToolCondition
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.usage import NO_USAGE, Limits, Price, Usage
from agentkit.workspace.workspace import Workspace

P = ParamSpec("P")
R = TypeVar("R")

Instruction = (
    str
    | Callable[[], str]
    | Callable[[], Awaitable[str]]
    | Callable[[RunContext[ContextType]], str]
    | Callable[[RunContext[ContextType]], Awaitable[str]]
)
"""A system instruction: a text, or a function called once per run that returns it, optionally from the RunContext."""


class HandoffTarget(ABC):
    """An agent that can own a conversation (handoff target)."""

    name: str
    description: str | None = None
    instruction: Instruction
    tools: Toolset
    policy: Policy
    handoff_targets: Mapping[str, HandoffTarget]
    """The agents it can hand the conversation to, by name."""

    @abstractmethod
    def config_from(self, other: RunConfig) -> RunConfig:
        """The configuration of this agent for a run that `other` started."""


def _no_prepared_answer(_call: ToolCall) -> Approver | None:
    return None


@dataclass(frozen=True)
class HandoffCall:
    """The function of a handoff tool: returns a fixed agent."""

    agent: HandoffTarget

    def __call__(self) -> HandoffTarget:
        """Return the agent."""
        return self.agent


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The configuration of an agent for one run; `active_agent` is the agent itself.

    `prepared_answer` returns the answer given on resume for a waiting call, once; other runs do not inherit it. `known`
    holds agents that the program named in addition to the handoffs. `record` is the id of the record of the run's
    changes; empty if they are in the record of its caller. `written` is the instruction returned by an instruction
    function. `conditions` maps the conditions of the tools to the name of a tool that has them;
    `policy_context.met` holds those that are met.
    """

    active_agent: HandoffTarget
    context: RunContext[Any]
    instruction: Instruction
    specs: tuple[ToolSpec, ...]
    policy_context: ToolPolicyContext
    llm: Callable[[], LLM]
    answers: AnswerValidator
    context_budget: ContextBudget
    approve: Approver | None = None
    prepared_answer: Callable[[ToolCall], Approver | None] = _no_prepared_answer
    known: tuple[HandoffTarget, ...] = ()
    record: str = ""
    written: str = ""
    conditions: Mapping[ToolCondition, str] = field(default_factory=dict)
    middleware: tuple[Middleware, ...] = ()

    @property
    def has_hosted(self) -> bool:
        """Whether a tool is run by the provider, which a request can start before its prompt was checked."""
        return any(spec.hosted is not None for spec in self.specs)

    def price(self) -> tuple[Price | None, ...]:
        """The price of each model that can answer; None for an unknown price."""
        return prices_under(self.llm().tariffs)

    def max_tokens(self) -> int | None:
        """The maximum length of an answer if the user set one."""
        return self.llm().max_tokens


@dataclass(frozen=True, slots=True)
class ParentRun:
    """The budget, policies, approver and dry-run flag inherited from the parent run.

    `depth` is 0 without a parent run. `read` holds the labels of what the parent runs have read; `collected_labels`
    collects those of what is read here. `context` is the RunContext of the parent run, `config` its configuration if it
    runs in this process. `workspace` is that of the caller of an agent that runs as a tool. `attached` wraps the calls
    of a program in the context managers of the run's listeners. `call_progress` is the progress of the current tool
    call if the calls it makes can wait for a person.
    """

    budget: Budget | None = None
    policies: tuple[Policy, ...] = ()
    approve: Approver | None = None
    depth: int = 0
    dry_run: bool = False
    read: frozenset[Label] = frozenset()
    collected_labels: set[Label] | None = None
    context: RunContext[Any] = NO_RUN
    config: RunConfig | None = None
    workspace: Workspace | None = None
    attached: Callable[[Any], Any] | None = None
    call_progress: CallProgress | None = None

    def add_labels(self, labels: frozenset[Label]) -> None:
        """Report the labels of what was read here to the parent run."""
        if self.collected_labels is not None:
            self.collected_labels.update(labels)


NONE = ParentRun()
LINEAGE: ContextVar[ParentRun] = ContextVar("agentkit_lineage", default=NONE)
"""The lineage of the current context: set for each tool call, prompt of a batch, and run in another process."""


@contextmanager
def collect_labels(**changed: Any) -> Iterator[set[Label]]:
    """Collect the labels of what is read in the block, also by agents run in it, and report them to the parent run.

    `changed` are the fields of the lineage that differ inside the block.
    """
    parent, labels = LINEAGE.get(), set[Label]()
    token = LINEAGE.set(replace(parent, collected_labels=labels, **changed))
    try:
        yield labels
    finally:
        with suppress(ValueError):  # a coroutine that is no longer awaited is closed in a different context
            LINEAGE.reset(token)
        parent.add_labels(frozenset(labels))


def _workspace_of(config: RunConfig | None) -> Workspace | None:
    return None if config is None else config.policy_context.workspace


class PausingTool(Tool[P, R]):
    """A tool whose call pauses while a call that it made waits for a person, for example the tool of an agent.

    `call_progress` is the progress of one call of a run; without it no nested call can wait.
    """

    call_progress: CallProgress | None = None

    def with_progress(self, call_progress: CallProgress) -> Self:
        """The tool bound to one call of a run."""
        return self._with(call_progress=call_progress)

    def run(self, arguments: Mapping[str, Any], decision: Decision, timeout_seconds: float | None = None) -> ToolResult:
        """Run the tool; the result carries the labels of what was read meanwhile, and the pause if a call waits."""
        with collect_labels(call_progress=self.call_progress, workspace=_workspace_of(LINEAGE.get().config)) as labels:
            result = super().run(arguments, decision, timeout_seconds)
        return self._with_labels(result, labels)

    async def arun(
        self, arguments: Mapping[str, Any], decision: Decision, timeout_seconds: float | None = None
    ) -> ToolResult:
        """Async version of `run`."""
        with collect_labels(call_progress=self.call_progress, workspace=_workspace_of(LINEAGE.get().config)) as labels:
            result = await super().arun(arguments, decision, timeout_seconds)
        return self._with_labels(result, labels)

    def _with_labels(self, result: ToolResult, labels: Set[Label]) -> ToolResult:
        pause = None if self.call_progress is None else self.call_progress.pause
        return replace(result, labels=result.labels | labels, pause=pause)


class CallingTool(PausingTool[P, R]):
    """A tool that makes tool calls itself, such as `run_program`; `tools` are those it can call."""

    tools: Toolset


MAX_DEPTH = 8
"""Maximum nesting depth of agents that run as tools."""


class BudgetScope:
    """Limits for everything that agents do within a `with` block, in tasks, and in threads that copy the context.

    `spent` is what earlier blocks have spent of them.

    Another thread shares them by entering the same object. The time counts from the first entry.
    """

    def __init__(self, limits: Limits, spent: Spending | None = None) -> None:
        if not isinstance(limits, Limits):
            raise ConfigError(f"budget() takes Limits(...). Got {limits!r:.200}.")
        self._limits, self._spent = limits, spent or Spending()
        self._budget: Budget | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        parent = LINEAGE.get()
        with self._lock:
            if self._budget is None:
                self._budget = Budget(self._limits, parent.budget, recording.clock(), self._spent)
        _OUTSIDE.set((*_OUTSIDE.get(), parent))
        LINEAGE.set(replace(parent, budget=self._budget))
        return self

    def __exit__(self, *_: object) -> None:
        *rest, parent = _OUTSIDE.get()
        _OUTSIDE.set(tuple(rest))
        LINEAGE.set(parent)

    @property
    def usage(self) -> Usage:
        """The usage of all runs so far."""
        return NO_USAGE if self._budget is None else self._budget.usage

    def __repr__(self) -> str:
        return f"budget({self._limits!r})"


_OUTSIDE: ContextVar[tuple[ParentRun, ...]] = ContextVar("agentkit_outside", default=())
"""The lineages outside of the budget blocks that the current context has entered."""


def budget(limits: Limits) -> BudgetScope:
    """A context manager that limits all runs in its block together.

    A run that would exceed them ends with the status `limit`. Raises ConfigError.
    """
    return BudgetScope(limits)


_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_CHARS = 1_000


def handoff_tools(targets: Iterable[HandoffTarget]) -> list[Tool[..., Any]]:
    """A handoff tool for each agent."""
    return [_handoff_tool(target) for target in targets]


def _handoff_tool(target: HandoffTarget) -> Tool[..., Any]:
    description = f"Hand the conversation off to {target.name}, which answers from then on.{_about(target)}"
    return Tool(HandoffCall(target), f"hand_off_to_{name_for_tool(target.name)}"[:64], description, idempotent=True)


def agent_tool(
    target: HandoffTarget,
    answer: Callable[[str], Any],
    aanswer: Callable[[str], Awaitable[Any]],
    name: str | None,
    description: str | None,
) -> Tool[[str], Any]:
    """An agent as a tool: it answers one request, without access to the conversation.

    Its level is the highest that a call of its tools can have without approval, including the tools of the agents it
    can hand over to.
    """
    staff = [target, *reachable(target.handoff_targets)]
    level = max(min(each.policy.level, _level_of(each.tools)) for each in staff)
    return PausingTool(
        answer,
        name or name_for_tool(target.name),
        description or f"Let {target.name} work on a request, and get the answer.{_about(target)}",
        level=level,
        labels=frozenset().union(*(tool.labels for each in staff for tool in each.tools)),
        timeout_seconds=None,
        asynchronous=aanswer,
    )


def find_agent(name: str, handoff_targets: Mapping[str, HandoffTarget]) -> HandoffTarget | None:
    """The agent of that name among those reachable by handoffs, nearest first."""
    return next((target for target in reachable(handoff_targets) if target.name == name), None)


def reachable(handoff_targets: Mapping[str, HandoffTarget]) -> list[HandoffTarget]:
    """All agents reachable by handoffs, each once, nearest first."""
    found = list(handoff_targets.values())
    for target in found:
        found += [each for each in target.handoff_targets.values() if not any(each is known for known in found)]
    return found


def name_for_tool(name: str) -> str:
    """An agent's name in the characters allowed in a tool name."""
    return _NOT_IN_A_NAME.sub("_", name).strip("_").lower()[:50] or "agent"


def _level_of(tools: Iterable[Tool[..., Any]]) -> SafetyLevel:
    return max((tool.level for tool in tools), default=SafetyLevel.SAFE)


def _about(target: HandoffTarget) -> str:
    """The description of an agent, if it has one. Its instruction is private."""
    about = " ".join((target.description or "").split())[:_MAX_CHARS]
    return f" {target.name}: {about}" if about else ""


@dataclass(frozen=True, slots=True)
class BatchScope:
    """A batch of a durable function: the session above those of its runs, and the answers to their waiting calls.

    `run` returns the results of `start`, or leaves the function if a run waits for a person.
    """

    session: Session
    answers: Callable[[], Any]
    run: Callable[[Callable[[], list[Any]]], list[Any]]


class DurableScope(ABC):
    """A durable function that runs: the runs of agents in its code are stored in its session."""

    @property
    @abstractmethod
    def is_here(self) -> bool:
        """Whether the current code is that of the function."""

    @abstractmethod
    def events(self, agent: Any, prompt: Any, **arguments: Any) -> Generator[Event, None, None]:
        """The events of a run of an agent, which is continued or not repeated if it is stored."""

    @abstractmethod
    def aevents(self, agent: Any, prompt: Any, **arguments: Any) -> AsyncGenerator[Event, None]:
        """Async version of `events`."""

    @abstractmethod
    def map_runs(self, agent: Any) -> BatchScope:
        """The place of a batch."""


DURABLE: ContextVar[DurableScope | None] = ContextVar("agentkit_durable", default=None)
"""The durable function that runs in the current context."""


def durable_scope(session: object = None) -> DurableScope | None:
    """The durable function of the current code, for a run without a session that the program has named."""
    scope = DURABLE.get()
    return scope if scope is not None and session is None and scope.is_here else None
