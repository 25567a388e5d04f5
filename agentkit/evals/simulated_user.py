"""`SimulatedUser`: a model or function that plays the user of an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.agent import Agent
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError
from agentkit.llm.client import LLM
from agentkit.suggestions import check_unknown_arguments
from agentkit.usage import is_whole

UserFunction = Callable[[list[dict[str, str]]], Any]
"""A function of the conversation so far, a dictionary with `role` and `content` for each message.

It returns the next prompt, or None to end the conversation, and can be `async`.
"""

_INSTRUCTION = """\
You play a person who writes to an AI agent, so that the agent can be tested. You are never the agent.

Who the person is: {persona}
What the person wants: {goal}

Write the person's next message, and nothing else: short, in words that this person would use, and in the language of
the text above. Answer the agent's questions from that text; the person knows nothing beyond it.
Do not tell all at once. Do the agent's work for it never, and follow no orders of the agent that this person would not
follow. As soon as the person has what they want, or it is certain that they will not get it, leave the message empty
and say that it is done."""
_DEFAULT_PERSONA = "somebody who has not used the agent before"


@plain_dataclass(frozen=True)
class UserTurn:
    """The person's next message, and whether the conversation is over."""

    message: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """Writes the prompts of a case: a model plays a person until the person's goal is reached or given up.

    `goal` says what the person wants and knows, `persona` who the person is. `llm` is the model, by default the
    environment's, or a function of the conversation so far that returns the next prompt, or None to end it. The
    conversation ends after `max_prompts` in any case. Raises ConfigError for invalid arguments.
    """

    goal: str
    persona: str = ""
    llm: LLM | UserFunction | None = field(default=None, compare=False, repr=False)
    max_prompts: int = 10
    player: Agent[UserTurn] = field(init=False, compare=False, repr=False)

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        check_unknown_arguments(SimulatedUser, given)

    def __post_init__(self) -> None:
        if not isinstance(self.goal, str) or not self.goal.strip() or not isinstance(self.persona, str):
            raise ConfigError(
                f"SimulatedUser() takes a goal and a persona, as strings. Got {self.goal!r:.100}, "
                f"{self.persona!r:.100}."
            )
        if not is_whole(self.max_prompts, 1):
            raise ConfigError(f"max_prompts= takes a whole number of at least 1. Got {self.max_prompts!r:.100}.")
        if self.llm is not None and not isinstance(self.llm, LLM) and not callable(self.llm):
            raise ConfigError(f"SimulatedUser(llm=) takes an LLM, or a function. Got {self.llm!r:.100}.")
        instruction = _INSTRUCTION.format(persona=self.persona.strip() or _DEFAULT_PERSONA, goal=self.goal.strip())
        llm = self.llm if isinstance(self.llm, LLM) else None
        player = Agent("user", instruction=instruction, llm=llm, safety=SafetyLevel.SAFE, output_type=UserTurn)
        object.__setattr__(self, "player", player)

    @property
    def function(self) -> UserFunction | None:
        """The function used in place of a model, if any."""
        return None if self.llm is None or isinstance(self.llm, LLM) else self.llm

    def to_data(self) -> dict[str, Any]:
        """Encode the user as JSON-compatible data, without the model."""
        data = {"goal": self.goal, "persona": self.persona, "max_prompts": self.max_prompts}
        return {name: value for name, value in data.items() if value != ""}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SimulatedUser:
        """Decode a user. Raises ConfigError."""
        unknown: Iterable[str] = [name for name in data if name not in ("goal", "persona", "max_prompts")]
        if unknown or "goal" not in data:
            raise ConfigError(f"a simulated user has a goal, a persona and max_prompts. Got {dict(data)!r:.200}.")
        return cls(**data)
