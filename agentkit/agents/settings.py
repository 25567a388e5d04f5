"""What may an agent be made with? Its arguments, checked, and what they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from agentkit.agents.answers import AnswerRules
from agentkit.agents.running.plan import Lead
from agentkit.errors import ConfigError
from agentkit.levels import SafetyLevel
from agentkit.llm.client import LLM
from agentkit.memory.session import Session
from agentkit.memory.window import Window
from agentkit.messages import Content, Image
from agentkit.safety.policy import Policy
from agentkit.usage import Limits
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

Prompt = str | Image | Sequence[str | Image]
_Value = TypeVar("_Value")

_SEVERAL = (tuple, list, Iterable)
"""What can be gone through; the usual kinds are known at a glance, which an abstract class is not."""

_TAKES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and bool(value.strip()), "a text that is not empty"),
    "instruction": (lambda value: isinstance(value, str), "a text"),
    "max_iterations": (lambda value: type(value) is int and value > 0, "a whole number of at least 1"),
    "listeners": (lambda value: isinstance(value, _SEVERAL), "a list of functions of an event"),
    "dry_run": (lambda value: isinstance(value, bool), "True or False"),
    "llm": (lambda value: isinstance(value, LLM), "an LLM; a model's name goes into model="),
    "model": (lambda value: isinstance(value, str), "a model's name; an LLM goes into llm="),
    "policy": (lambda value: isinstance(value, Policy), "a Policy; a level goes into safety="),
    "approve": (callable, "a function from an ApprovalRequest to True or False"),
    "limits": (lambda value: isinstance(value, Limits), "Limits(...)"),
    "session": (lambda value: isinstance(value, str | Session), "a session's name, or a Session"),
    "workspace": (lambda value: isinstance(value, str | Path | Workspace), "the path of a folder, or a Workspace"),
}
"""What each argument of Agent must be, as a test and in words."""

_UNSAID = {
    **dict.fromkeys(("llm", "model", "policy", "approve", "limits", "session", "workspace")),
    "listeners": (),
    "dry_run": False,
}
"""What stands for nothing said, which is always right."""


_LIMITS, _WINDOW, _RULES = Limits(), Window(), AnswerRules()
"""What holds where nothing is said: one for all agents, as they never change."""


_MEANT = {
    **dict.fromkeys(("instructions", "system", "system_prompt", "prompt"), "instruction="),
    **dict.fromkeys(("max_turns", "max_steps", "max_iter"), "max_iterations="),
    **dict.fromkeys(("api_key", "base_url", "provider", "temperature", "max_tokens"), "llm=LLM({0}=...)"),
    **dict.fromkeys(("output_schema", "result_type", "response_format", "response_model"), "output_type="),
    **dict.fromkeys(("timeout", "timeout_seconds", "max_seconds"), "limits=Limits(seconds=...)"),
    **dict.fromkeys(("max_cost", "budget", "cost_limit"), "limits=Limits(cost=...)"),
    **dict.fromkeys(("guardrails", "input_guardrails", "output_guardrails", "validators"), "checks="),
    **dict.fromkeys(("callbacks", "callback_handler", "hooks", "tracer", "verbose"), "listeners="),
    **dict.fromkeys(("memory", "history", "db", "session_id"), "session="),
}
"""What other toolkits call an argument, and what it is here."""


def refuse_unknown(given: Iterable[str], takes: Iterable[str]) -> None:
    """Raise TypeError for an argument that Agent does not take, with the one that was probably meant."""
    for name in given:
        import difflib

        close = difflib.get_close_matches(name, takes, n=1)
        meant = _MEANT.get(name, f"{close[0]}=" if close else "").format(name)
        hint = f"Did you mean {meant}?" if meant else f"It takes: {', '.join(takes)}."
        raise TypeError(f"Agent() takes no argument {name}=. {hint}")


def check(**arguments: object) -> None:
    """Raise ConfigError when an argument is not what it should be."""
    for name, value in arguments.items():
        if value is _UNSAID.get(name, _SEVERAL):
            continue
        fits, wanted = _TAKES[name]
        if not fits(value):
            raise ConfigError(f"{name}= takes {wanted}. Got {value!r:.200}.")


def workspace_from(given: str | Path | Workspace | None) -> Workspace:
    """The workspace that is meant, with this machine's journal."""
    return given if isinstance(given, Workspace) else Workspace(given, journal=Journal.of_this_machine())


def llm_from(llm: LLM | None, model: str | None) -> LLM | None:
    """The client that was given, if any. Raises ConfigError when a model was given beside it."""
    if llm is not None and model is not None:
        raise ConfigError("Give llm= or model=, not both: an LLM already has its model.")
    return llm


def window_from(given: Window | int | None) -> Window:
    """The window that is meant. Raises ConfigError."""
    if given is None:
        return _WINDOW
    return given if isinstance(given, Window) else Window(tokens=given)


def limits_from(given: Limits | None) -> Limits:
    """The limits that are meant."""
    return _LIMITS if given is None else given


def rules_from(output_type: Any, checks: Iterable[Callable[[Any], Any]]) -> AnswerRules:
    """What an answer must be. Raises ConfigError for what is no type, or no check."""
    return _RULES if output_type is None and checks == () else AnswerRules.of_agent(output_type, checks)


def policy_from(level: SafetyLevel, policy: Policy | None) -> Policy:
    """The agent's judge. Raises ConfigError when the two arguments say different things."""
    if policy is None:
        return _policy_of(level)
    if level not in (SafetyLevel.NETWORK, policy.level):
        raise ConfigError(f"Give the level once: policy=Policy(level=SafetyLevel.{level.name}, ...), without safety=.")
    return policy


@cache
def _policy_of(level: SafetyLevel) -> Policy:
    return Policy(level)


def checked_listener(listener: _Value) -> _Value:
    """The listener itself. Raises ConfigError for one that cannot be called, or that nobody would await."""
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise ConfigError(f"A listener is a plain function of an event, not async. Got {listener!r:.200}.")
    return listener


def leads_from(agents: Iterable[Lead]) -> dict[str, Lead]:
    """Agents by name. Raises ConfigError for what is no agent, and for two of one name."""
    leads: dict[str, Lead] = {}
    for agent in checked_leads("handoffs", agents):
        if agent.name in leads:
            raise ConfigError(f"Two agents to hand off to are called {agent.name!r}; give each its own name.")
        leads[agent.name] = agent
    return leads


def checked_leads(argument: str, agents: Iterable[Lead]) -> list[Lead]:
    """The agents that an argument takes. Raises ConfigError for what is no list of agents."""
    if agents == ():
        return []
    leads = list(agents) if isinstance(agents, _SEVERAL) else None
    if leads is None or not all(isinstance(agent, Lead) for agent in leads):
        raise ConfigError(f"{argument}= takes a list of agents. Got {agents!r:.200}.")
    return leads


def content_from(prompt: Prompt) -> Content:
    """A prompt as a message's content. Raises ConfigError for anything that is neither text nor image."""
    if isinstance(prompt, str):
        return prompt
    parts = (prompt,) if isinstance(prompt, Image) else prompt
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str | Image) for part in parts):
        raise ConfigError(f"A prompt is a text, an Image, or a list of these. Got {prompt!r:.200}.")
    return tuple(parts)
