"""Which texts of an agent may be improved, by which others, and how is it made with them? Only texts ever change."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from agentkit.agents.agent import Agent
from agentkit.errors import ConfigError
from agentkit.redaction import redact
from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.wording import suggestion

INSTRUCTION = "instruction"
TOOLS = "tools"
MOST_INSTRUCTION_CHARS = 8_000
MOST_DESCRIPTION_CHARS = 1_000
"""Providers refuse a tool whose description has more than 1,024."""

_TOOL = "tool:"
_PLACEHOLDER = re.compile(r"\{\{?\s*[A-Za-z_][\w.]*\s*\}?\}|\$\{\w+\}|%\(\w+\)s")
_SEEN = frozenset("\n\t")
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
_JOINERS = frozenset("\u200c\u200d")
"""Marks that cannot be seen, and that scripts and emoji need."""

T = TypeVar("T")


def texts_of(agent: Agent[Any], improve: str | Iterable[str]) -> dict[str, str]:
    """The texts that are to be improved, by part: `instruction`, and `tool:NAME` for the description of a tool.

    `improve` names parts: `instruction`, `tools` for all of them, or the names of single tools. Raises ConfigError for
    a name that there is not, for a text that holds a secret, and when there is nothing to improve.
    """
    texts: dict[str, str] = {}
    for name in (improve,) if isinstance(improve, str) else improve:
        if name == INSTRUCTION:
            texts[INSTRUCTION] = _written(agent)
        else:
            chosen = agent.tools if name == TOOLS else _named(agent, name.removeprefix(_TOOL))
            texts |= {f"{_TOOL}{tool.name}": tool.description for tool in chosen}
    secret = next((part for part, text in texts.items() if redact(text) != text), None)
    if secret is not None:
        raise ConfigError(f"The {secret} holds what looks like a secret, which a proposer would read. Take it out.")
    if not texts:
        raise ConfigError("There is no text to improve: improve= names `instruction`, `tools`, or tools by name.")
    return texts


def _named(agent: Agent[Any], name: str) -> Toolset:
    if name not in agent.tools.names:
        parts = (INSTRUCTION, TOOLS, *agent.tools.names)
        raise ConfigError(
            f"improve= names no text {name!r:.200}.{suggestion(name, parts)} The texts are: {', '.join(parts)}."
        )
    return agent.tools.only(name)


def _written(agent: Agent[Any]) -> str:
    if not isinstance(agent.instruction, str):
        raise ConfigError(
            f"The instruction of {agent.name} is a function, so that there is no text to improve. "
            "Give the agent a text, or improve its tools: improve='tools'."
        )
    return agent.instruction


def tool_of(part: str) -> str:
    """The name of the tool whose description the part is; empty for the instruction."""
    return part.removeprefix(_TOOL) if part.startswith(_TOOL) else ""


def with_texts(agent: Agent[T], texts: Mapping[str, str]) -> Agent[T]:
    """The same agent with these texts: the same model, tools, schemas, levels, judges, policy and limits."""
    other = copy.copy(agent)
    other.listeners = list(agent.listeners)
    other.instruction = texts.get(INSTRUCTION, agent.instruction)
    other.tools = Toolset(_with_text(tool, texts.get(f"{_TOOL}{tool.name}", tool.description)) for tool in agent.tools)
    return other


def _with_text(tool: AnyTool, description: str) -> AnyTool:
    return tool if description == tool.description else tool.described(description)


def objection_to(part: str, old: str, new: str) -> str:
    """Why `new` may not take the place of `old`, in a sentence; empty when it may.

    A text says something, is not too long, shows all that it holds, keeps the placeholders that the program fills in,
    and holds no secret.
    """
    most = most_chars(part, old)
    if not new.strip():
        return "The text is empty."
    if len(new) > most:
        return f"The text has {len(new):,} characters, and may have {most:,}."
    hidden = next((letter for letter in new if is_hidden(letter)), None)
    if hidden is not None:
        return f"The text holds a character that nobody sees (U+{ord(hidden):04X})."
    if placeholders(new) != placeholders(old):
        changed = ", ".join(sorted(placeholders(new) ^ placeholders(old)))
        return f"The text must keep the placeholders of the old one, and add none: {changed}."
    return "" if redact(new) == new else "The text holds what looks like a secret."


def most_chars(part: str, old: str) -> int:
    """How long a text may be that takes the place of `old`."""
    return max(MOST_DESCRIPTION_CHARS if tool_of(part) else MOST_INSTRUCTION_CHARS, len(old))


def is_hidden(letter: str) -> bool:
    """Whether a character cannot be seen, and could mislead a reader, a terminal or a model."""
    return letter not in _SEEN and letter not in _JOINERS and unicodedata.category(letter) in _UNSEEN


def placeholders(text: str) -> frozenset[str]:
    """What a program fills in: `{name}`, `{{ name }}`, `${name}`, `%(name)s`."""
    return frozenset(re.sub(r"\s", "", found) for found in _PLACEHOLDER.findall(text))
