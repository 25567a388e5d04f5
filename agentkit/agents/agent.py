"""Agent: a name, an instruction, an LLM, tools and a policy."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, TypeVar

from agentkit.agents.conversation import Conversation
from agentkit.agents.drivers import World, adrive, drive
from agentkit.agents.loop import Plan, Steps, run_loop
from agentkit.agents.result import RunFinished, RunResult
from agentkit.agents.tool_call import Bench
from agentkit.errors import ConfigError
from agentkit.events import Event, ResponseReceived
from agentkit.levels import SafetyLevel
from agentkit.llm.client import LLM
from agentkit.llm.wire.chat import encode_message
from agentkit.messages import Content, Image, Message, without_extra
from agentkit.safety.approval import Approver, Grants
from agentkit.safety.policy import Policy
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Usage
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

Prompt = str | Image | Sequence[str | Image]
Listener = Callable[[Event], object]
_Kind = TypeVar("_Kind", bound=Event)
_Value = TypeVar("_Value")


class Agent:
    """Answers prompts with a model and tools, and remembers the conversation.

    Any number of runs may go on at the same time, in threads or on event loops. Each begins with the history as it is
    then, and enters its own messages in one piece when it ends.

    Args:
        name: What the agent is called in events and approvals.
        tools: Tools, toolsets or plain functions.
        instruction: The standing order the model is given.
        max_iterations: How many requests to the model one run may take.
        llm: The model's client; by default the one the environment names, made when first needed.
        model: The model's name, instead of `llm`.
        safety: The highest level of calls that run unasked.
        policy: The judge of all calls, with rules of your own; its level takes the place of `safety`.
        approve: Who is asked about the rest: a function from an ApprovalRequest to True, False or an Approval, sync or
            async.
        workspace: The folder that file tools, shell and journal work in; the current folder by default.
        dry_run: Show in `RunResult.changes` what would be changed, and change nothing.
        listeners: Functions called with every event of every run. One that raises ends its run.

    Raises:
        ConfigError: An argument is not what it should be.
    """

    def __init__(
        self,
        name: str,
        tools: Iterable[Any] | Callable[..., Any] = (),
        instruction: str = "You are a helpful assistant.",
        max_iterations: int = 10,
        *,
        llm: LLM | None = None,
        model: str | None = None,
        safety: SafetyLevel | str = SafetyLevel.NETWORK,
        policy: Policy | None = None,
        approve: Approver | None = None,
        workspace: str | Path | Workspace | None = None,
        dry_run: bool = False,
        listeners: Iterable[Listener] = (),
    ) -> None:
        _check(name=name, instruction=instruction, max_iterations=max_iterations)
        _check(llm=llm, model=model, policy=policy, approve=approve, listeners=listeners)
        if llm is not None and model is not None:
            raise ConfigError("Give llm= or model=, not both: an LLM already has its model.")
        self.name = name
        self.tools = tools if isinstance(tools, Toolset) else Toolset(tools)
        self.instruction = instruction
        self.max_iterations = max_iterations
        self.policy = _policy(SafetyLevel.of(safety), policy)
        self.approve = approve
        self.workspace = (
            workspace if isinstance(workspace, Workspace) else Workspace(workspace, journal=Journal.of_this_machine())
        )
        self.dry_run = dry_run
        self.listeners = [_checked_listener(listener) for listener in listeners]
        self._llm, self._model = llm, model
        self._conversation = Conversation()
        self._grants = Grants()
        self._usage = Usage()
        self._usage_lock = threading.Lock()

    @property
    def llm(self) -> LLM:
        """The model's client. Raises NoProvider when it must be made and nothing names a provider."""
        if self._llm is None:
            self._llm = LLM(model=self._model)
        return self._llm

    @llm.setter
    def llm(self, llm: LLM) -> None:
        _check(llm=llm)
        self._llm = llm

    def __call__(self, prompt: Prompt) -> str:
        """The answer. Raises ModelError, or LimitExceeded with the result so far, when there is none."""
        return self.run(prompt).raise_for_status().output

    def run(self, prompt: Prompt) -> RunResult:
        """Run to the end, blocking; a failure of the model or a limit is told in the result, not raised."""
        return _last(list(self._events(prompt, streaming=False)))

    async def arun(self, prompt: Prompt) -> RunResult:
        """Like `run`, awaiting."""
        return _last([event async for event in self._aevents(prompt, streaming=False)])

    def stream(self, prompt: Prompt) -> Generator[Event, None, None]:
        """Run and yield what happens, with the text as it is written; the last event is RunFinished.

        Nothing happens before the first event is asked for. Closing the generator, as leaving a `for` loop does, ends
        the run; what was done is kept in the history.
        """
        return self._events(prompt, streaming=True)

    def astream(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Like `stream`, awaiting. To leave it early, use it as `async with contextlib.aclosing(...)`."""
        return self._aevents(prompt, streaming=True)

    def on(self, kind: type[_Kind], listener: Callable[[_Kind], object]) -> Callable[[_Kind], object]:
        """Call `listener` with every event of that kind, in every run from now on. Raises ConfigError."""
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigError(f"on() takes a kind of event, e.g. agent.on(TextDelta, print). Got {kind!r:.200}.")
        _checked_listener(listener)

        def heard(event: Event) -> None:
            if isinstance(event, kind):
                listener(event)

        self.listeners.append(heard)
        return listener

    @property
    def history(self) -> list[dict[str, Any]]:
        """The conversation so far as plain dictionaries in the chat format, without the instruction. A copy."""
        return [encode_message(without_extra(message)) for message in self.messages]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far as typed messages."""
        return self._conversation.messages

    @property
    def usage(self) -> Usage:
        """What all runs have spent so far; `reset` does not undo spending."""
        return self._usage

    def reset(self) -> None:
        """Forget the conversation. A run that is going on ends as it would, and is forgotten with it."""
        self._conversation = Conversation()

    def _events(self, prompt: Prompt, *, streaming: bool) -> Generator[Event, None, None]:
        return self._heard(drive(self._steps(prompt), World(self.llm, self.approve, streaming)))

    def _aevents(self, prompt: Prompt, *, streaming: bool) -> AsyncGenerator[Event, None]:
        return self._aheard(adrive(self._steps(prompt), World(self.llm, self.approve, streaming)))

    def _steps(self, prompt: Prompt) -> Steps:
        content = _content(prompt)
        workspace = self.workspace.for_run(label=self.name, dry_run=self.dry_run or self.workspace.dry_run)
        bench = Bench(self.tools.within(workspace), self.policy, self._grants.for_run(), workspace)
        specs = tuple(tool.spec for tool in bench.tools)
        plan = Plan(self.name, self.instruction, specs, self.max_iterations, bench)
        return run_loop(plan, self._conversation, content)

    def _heard(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """The same events, once the listeners have heard them."""
        with closing(events):
            for event in events:
                self._tell(event)
                yield event

    async def _aheard(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        async with aclosing(events):
            async for event in events:
                self._tell(event)
                yield event

    def _tell(self, event: Event) -> None:
        if isinstance(event, ResponseReceived):
            with self._usage_lock:
                self._usage += event.response.usage
        for listener in tuple(self.listeners):
            listener(event)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, tools={self.tools!r})"


_TAKES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str), "a text"),
    "instruction": (lambda value: isinstance(value, str), "a text"),
    "max_iterations": (lambda value: type(value) is int and value > 0, "a whole number of at least 1"),
    "llm": (lambda value: isinstance(value, LLM | None), "an LLM; a model's name goes into model="),
    "model": (lambda value: isinstance(value, str | None), "a model's name; an LLM goes into llm="),
    "policy": (lambda value: isinstance(value, Policy | None), "a Policy; a level goes into safety="),
    "approve": (lambda value: value is None or callable(value), "a function from an ApprovalRequest to True or False"),
    "listeners": (lambda value: isinstance(value, Iterable), "a list of functions of an event"),
}
"""What each argument of Agent must be, as a test and in words."""


def _check(**arguments: object) -> None:
    """Raise ConfigError when an argument is not what it should be."""
    for name, value in arguments.items():
        fits, wanted = _TAKES[name]
        if not fits(value):
            raise ConfigError(f"{name}= takes {wanted}. Got {value!r:.200}.")


def _workspace(given: str | Path | Workspace | None) -> Workspace:
    return given if isinstance(given, Workspace) else Workspace(given, journal=Journal.of_this_machine())


def _policy(level: SafetyLevel, policy: Policy | None) -> Policy:
    """The agent's judge. Raises ConfigError when the two arguments say different things."""
    if policy is None:
        return Policy(level)
    if level not in (SafetyLevel.NETWORK, policy.level):
        raise ConfigError(f"Give the level once: policy=Policy(level=SafetyLevel.{level.name}, ...), without safety=.")
    return policy


def _checked_listener(listener: _Value) -> _Value:
    """The listener itself. Raises ConfigError for one that cannot be called, or that nobody would await."""
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise ConfigError(f"A listener is a plain function of an event, not async. Got {listener!r:.200}.")
    return listener


def _content(prompt: Prompt) -> Content:
    """A prompt as a message's content. Raises ConfigError for anything that is neither text nor image."""
    if isinstance(prompt, str):
        return prompt
    parts = (prompt,) if isinstance(prompt, Image) else prompt
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str | Image) for part in parts):
        raise ConfigError(f"A prompt is a text, an Image, or a list of these. Got {prompt!r:.200}.")
    return tuple(parts)


def _last(events: Sequence[Event]) -> RunResult:
    """The result that the last event carries."""
    return next(event.result for event in reversed(events) if isinstance(event, RunFinished))
