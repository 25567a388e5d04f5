"""What is an agent asked next in a trial, and what do its prompts come to as one?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agentkit.agents.agent import Agent
from agentkit.agents.result import RunResult
from agentkit.errors import AgentKitError, ConfigError, RunError
from agentkit.evals.case import Case
from agentkit.evals.trial import answer_of, prompt_of, told_by
from agentkit.evals.user import Said, SimulatedUser
from agentkit.evals.variants import seeded
from agentkit.memory.progress import Progress
from agentkit.memory.session import Session
from agentkit.messages import Content
from agentkit.tape import is_replaying
from agentkit.tooling.rendering import text_of
from agentkit.tooling.running import call
from agentkit.usage import NO_USAGE, Usage
from agentkit.wording import content_text

_FIRST = "The conversation begins. Write the first message."


class Talk:
    """The prompts of one trial, one after the other, and the results of those that were answered.

    `prompt` is the newest, None before the first; `usage` is what a simulated user has spent on models.
    """

    def __init__(self, case: Case, seed: int | None) -> None:
        self.runs: list[RunResult[Any]] = []
        self.prompt: Content | None = None
        self.usage: Usage = NO_USAGE
        self._case, self._seed, self._asked = case, seed, 0
        self._player: Agent[Said] | None = None

    def go_on(self) -> bool:
        """Have the next prompt, unless the newest waits for its answer; whether there is one. Raises AgentKitError."""
        if self._asked == len(self.runs):
            self.prompt = self._next()
            self._asked += 1
        return self.prompt is not None

    @property
    def history(self) -> list[dict[str, str]]:
        """What was said so far: prompts and answers, as plain dictionaries."""
        said: list[dict[str, str]] = []
        for run in self.runs:
            said.append({"role": "user", "content": content_text(prompt_of(run))})
            said.append({"role": "assistant", "content": answer_of(run)})
        return said

    def _next(self) -> Content | None:
        user, place = self._case.user, len(self.runs)
        if user is None:
            return self._case.said[place].content if place < len(self._case.said) else None
        found = self._from(user) if place < user.max_prompts else None
        if found is None and not place:
            raise RunError("The simulated user has said nothing.")
        return found

    def _from(self, user: SimulatedUser) -> Content | None:
        """What the simulated user says next; None when there is nothing more to say."""
        if user.function is None:
            return self._played(user)
        said = given_by(user.function, self.history, "The simulated user")
        if not isinstance(said, str | None):
            raise ConfigError(f"The function of a simulated user gives a text, or None. Got {said!r:.200}.")
        return said

    def _played(self, user: SimulatedUser) -> str | None:
        if self._player is None:
            # A client that was made for a replay asks nobody, so that it is not kept for later.
            llm = Agent("user").llm if is_replaying() and user.player.known_llm is None else user.player.llm
            self._player = user.player.within(Session())
            self._player.llm = seeded(llm, self._seed)
        told = f"The agent says:\n{answer_of(self.runs[-1])}" if self.runs else _FIRST
        result = self._player.run(told)
        self.usage += result.usage
        said = result.raise_for_status().output
        return None if said.is_done or not said.message.strip() else said.message


def given_by(function: Callable[[Any], Any], argument: Any, what: str) -> Any:
    """What a function of the suite's author gives, awaited if need be. Raises RunError for what it raises."""
    try:
        return call(partial(function, argument), None)
    except AgentKitError:
        raise
    except Exception as error:
        raise RunError(f"{what} failed ({type(error).__name__}): {text_of(error)}") from error


def joined(runs: Sequence[RunResult[Any]]) -> RunResult[Any]:
    """The runs of one conversation as one result: all messages, tool calls and spending, and the end of the last."""
    last = runs[-1]
    if len(runs) == 1:
        return last
    whole = told_by(Progress.of(milestone for run in runs for milestone in run.milestones), last.run_id)
    kept = ("value", "error", "record", "pending", "lead", "context")
    return replace(whole, **{name: getattr(last, name) for name in kept})
