"""The configuration of one run: agent, parent run, handoffs and subagents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, ParamSpec, Self, TypeVar

from agentkit._dataclass import dataclass
from agentkit.agents.budget import Budget
from agentkit.agents.context_window import ContextBudget
from agentkit.agents.guardrails import AnswerValidator
from agentkit.agents.tool_policy import CallProgress, ToolPolicyContext
from agentkit.decisions import Decision, Label
from agentkit.llm.client import LLM
from agentkit.llm.pricing import prices_under
from agentkit.messages import ToolCall, ToolResult, ToolSpec
from agentkit.safety.approval import Approver
from agentkit.safety.policy import Policy
from agentkit.tooling.run_context import NO_RUN, RunContext, ToolCondition
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Price

P = ParamSpec("P")
R = TypeVar("R")

Instruction = (
    str
    | Callable[[], str]
    | Callable[[], Awaitable[str]]
    | Callable[[RunContext[Any]], str]
    | Callable[[RunContext[Any]], Awaitable[str]]
)
"""A standing order: a text, or the function that writes it anew for each run, which may want to know of the run."""


class HandoffTarget(ABC):
    """Whoever can lead a conversation: an agent."""

    name: str
    instruction: Instruction
    tools: Toolset
    policy: Policy
    leads: Mapping[str, HandoffTarget]
    """Whom it may hand the conversation to, by name."""

    @abstractmethod
    def plan_beside(self, other: RunConfig) -> RunConfig:
        """This agent's plan for a run that `other` began."""


def _nothing_said(_call: ToolCall) -> Approver | None:
    return None


@dataclass(frozen=True)
class HandoffCall:
    """What a tool calls that does nothing but pass the conversation to an agent known beforehand."""

    lead: HandoffTarget

    def __call__(self) -> HandoffTarget:
        """The agent."""
        return self.lead


@dataclass(frozen=True, slots=True)
class RunConfig:
    """An agent as its run knows it; `lead` is the agent itself.

    `said` gives what was said of a call that waited when the run went on, once; no other run inherits it. `known` are
    agents that the program has named, beside those that may be handed to. `written` is the instruction as a text, once
    a function has written it. `conditions` are those of the tools, each with the name of one that has it; the bench
    knows which of them hold.
    """

    lead: HandoffTarget
    context: RunContext[Any]
    instruction: Instruction
    specs: tuple[ToolSpec, ...]
    bench: ToolPolicyContext
    llm: Callable[[], LLM]
    answers: AnswerValidator
    room: ContextBudget
    approve: Approver | None = None
    said: Callable[[ToolCall], Approver | None] = _nothing_said
    known: tuple[HandoffTarget, ...] = ()
    written: str = ""
    conditions: Mapping[ToolCondition, str] = field(default_factory=dict)

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.context.agent

    @property
    def order(self) -> str:
        """The instruction as a text."""
        return self.instruction if isinstance(self.instruction, str) else self.written

    def price(self) -> tuple[Price | None, ...]:
        """What each model costs that may answer; None when nobody knows."""
        return prices_under(self.llm().tariffs)

    def max_tokens(self) -> int | None:
        """How long an answer may be as far as the user has said so."""
        return self.llm().max_tokens


@dataclass(frozen=True, slots=True)
class ParentRun:
    """The budget, policies and approver of the run above, and whether it only shows what it would change.

    `depth` is 0 where there is none. `read` is what the runs above may have read; `found` takes what is read here.
    `context` is that of the run above, `plan` its plan where it is at work in this process; `attached` puts around the
    calls of a program what the run's listeners put around its own. `sitting` is that of the call that is at work here,
    where it sets off others and may wait.
    """

    budget: Budget | None = None
    policies: tuple[Policy, ...] = ()
    approve: Approver | None = None
    depth: int = 0
    dry_run: bool = False
    read: frozenset[Label] = frozenset()
    found: set[Label] | None = None
    context: RunContext[Any] = NO_RUN
    plan: RunConfig | None = None
    attached: Callable[[Any], Any] | None = None
    sitting: CallProgress | None = None

    def note(self, labels: frozenset[Label]) -> None:
        """Let the run above know what was read here."""
        if self.found is not None:
            self.found.update(labels)


NONE = ParentRun()
LINEAGE: ContextVar[ParentRun] = ContextVar("agentkit_lineage", default=NONE)
"""The lineage of what runs here: set in the context of each tool call, each prompt of many, and a run elsewhere."""


@contextmanager
def hearing(**changed: Any) -> Iterator[set[Label]]:
    """What is read in the block, also by agents at work in it; whoever the block works for is let known.

    `changed` is how the lineage of what runs in the block differs from that of the block.
    """
    above, found = LINEAGE.get(), set[Label]()
    token = LINEAGE.set(replace(above, found=found, **changed))
    try:
        yield found
    finally:
        with suppress(
            ValueError
        ):  # a coroutine that nobody awaits any more is closed in a context that knows of nothing
            LINEAGE.reset(token)
        above.note(frozenset(found))


class PausingTool(Tool[P, R]):
    """A tool whose call stands still while a person is asked about a call that it has set off: that of an agent, say.

    `sitting` is that of the one call of a run that it is for; without one nothing that it sets off may wait.
    """

    sitting: CallProgress | None = None

    def for_sitting(self, sitting: CallProgress) -> Self:
        """The tool for one call of a run."""
        return self._with(sitting=sitting)

    def run(self, arguments: Mapping[str, Any], decision: Decision, timeout_seconds: float | None = None) -> ToolResult:
        """Like that of any tool; the result bears the labels of what was read meanwhile, and says where it waits."""
        with hearing(sitting=self.sitting) as found:
            result = super().run(arguments, decision, timeout_seconds)
        return self._told(result, found)

    async def arun(
        self, arguments: Mapping[str, Any], decision: Decision, timeout_seconds: float | None = None
    ) -> ToolResult:
        """Like `run`, without blocking the event loop."""
        with hearing(sitting=self.sitting) as found:
            result = await super().arun(arguments, decision, timeout_seconds)
        return self._told(result, found)

    def _told(self, result: ToolResult, found: Set[Label]) -> ToolResult:
        pause = None if self.sitting is None else self.sitting.pause
        return replace(result, labels=result.labels | found, pause=pause)


class CallingTool(PausingTool[P, R]):
    """A tool that makes calls of tools itself, such as one that runs programs; `tools` are those that it may call."""

    tools: Toolset


MOST_DEPTH = 8
"""How deep agents may set agents to work."""
