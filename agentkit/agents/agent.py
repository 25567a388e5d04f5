"""Agent: a name, an instruction, an LLM, tools and a policy."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from agentkit.agents.drivers import World, adrive, drive
from agentkit.agents.loop import Plan, Progress, Steps, run_loop
from agentkit.agents.result import RunFinished, RunResult
from agentkit.errors import ConfigError
from agentkit.events import Event
from agentkit.levels import SafetyLevel
from agentkit.llm.client import LLM
from agentkit.llm.wire.chat import encode_message
from agentkit.messages import Content, Image, Message, without_extra
from agentkit.safety.approval import Approver
from agentkit.safety.policy import Policy
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Usage

Prompt = str | Image | Sequence[str | Image]
Listener = Callable[[Event], object]
E_ = TypeVar("E_", bound=Event)


class Agent:
    """Answers prompts with a model and tools, and remembers the conversation.

    Args:
        name: What the agent is called in events and approvals.
        tools: Tools, toolsets or plain functions.
        instruction: The standing order the model is given.
        max_iterations: How many requests to the model one run may take.
        llm: The model's client; by default the one the environment names, made when first needed.
        model: The model's name, instead of `llm`.
        safety: The highest level of tools that run unasked.
        approve: Who is asked about the rest: a function from an ApprovalRequest to True or False, sync or async.
        listeners: Functions called with every event of every run.

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
        approve: Approver | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        if llm is not None and not isinstance(llm, LLM):
            raise ConfigError(f"llm= takes an LLM, not {llm!r}; a model's name goes into model=.")
        if llm is not None and model is not None:
            raise ConfigError("Give llm= or model=, not both: an LLM already has its model.")
        if not isinstance(max_iterations, int) or max_iterations < 1:
            raise ConfigError(f"max_iterations is a whole number of at least 1, not {max_iterations!r}.")
        self.name = name
        self.tools = tools if isinstance(tools, Toolset) else Toolset(tools)
        self.instruction = instruction
        self.max_iterations = max_iterations
        self.policy = Policy(SafetyLevel.of(safety))
        self.approve = approve
        self.listeners = list(listeners)
        self._llm, self._model = llm, model
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._usage = Usage()

    @property
    def llm(self) -> LLM:
        """The model's client. Raises NoProvider when it must be made and nothing names a provider."""
        if self._llm is None:
            self._llm = LLM(model=self._model)
        return self._llm

    @llm.setter
    def llm(self, llm: LLM) -> None:
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

    def stream(self, prompt: Prompt) -> Iterator[Event]:
        """Run and yield what happens, with the text as it is written; the last event is RunFinished."""
        return self._events(prompt, streaming=True)

    def astream(self, prompt: Prompt) -> AsyncIterator[Event]:
        """Like `stream`, awaiting."""
        return self._aevents(prompt, streaming=True)

    def on(self, kind: type[E_], listener: Callable[[E_], object]) -> Callable[[E_], object]:
        """Call `listener` with every event of that kind, in every run from now on."""

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
        with self._lock:
            return tuple(self._messages)

    @property
    def usage(self) -> Usage:
        """What all runs have spent; `reset` does not undo spending."""
        return self._usage

    def reset(self) -> None:
        """Forget the conversation."""
        with self._lock:
            self._messages.clear()

    def _events(self, prompt: Prompt, *, streaming: bool) -> Iterator[Event]:
        world, progress = World(self.llm, self.approve, streaming), Progress()
        try:
            for event in drive(self._steps(prompt, progress), world):
                self._tell(event)
                yield event
        finally:
            self._remember(progress)

    async def _aevents(self, prompt: Prompt, *, streaming: bool) -> AsyncGenerator[Event, None]:
        world, progress = World(self.llm, self.approve, streaming), Progress()
        try:
            async with aclosing(adrive(self._steps(prompt, progress), world)) as events:
                async for event in events:
                    self._tell(event)
                    yield event
        finally:
            self._remember(progress)

    def _steps(self, prompt: Prompt, progress: Progress) -> Steps:
        specs = tuple(tool.spec for tool in self.tools)
        plan = Plan(self.name, self.instruction, self.tools, specs, self.policy, self.max_iterations)
        return run_loop(plan, self.messages, _content(prompt), progress)

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def _remember(self, progress: Progress) -> None:
        """Enter a run in the history, in one piece, so that runs at the same time do not mix."""
        with self._lock:
            self._messages += progress.messages
            self._usage += progress.usage

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, tools={self.tools!r})"


def _content(prompt: Prompt) -> Content:
    """A prompt as a message's content. Raises ConfigError for anything that is neither text nor image."""
    if isinstance(prompt, str):
        return prompt
    parts = (prompt,) if isinstance(prompt, Image) else tuple(prompt)
    if not all(isinstance(part, str | Image) for part in parts):
        raise ConfigError(f"A prompt is a text, an Image, or a list of these, not {prompt!r}.")
    return parts


def _last(events: Sequence[Event]) -> RunResult:
    """The result that the last event carries."""
    finished = events[-1]
    assert isinstance(finished, RunFinished)  # noqa: S101 - the loop ends with nothing else
    return finished.result
