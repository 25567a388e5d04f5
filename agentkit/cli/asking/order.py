"""What was ordered, by the flags of `ask`?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentkit.cli.settings.keys import limit_of, split_names
from agentkit.cli.settings.layers import Settings, settings_here
from agentkit.levels import SafetyLevel
from agentkit.slotted import dataclass

_NOT_BOTH = (
    ("offline", "model", "the offline model is a model of its own"),
    ("tools", "no_tools", "the second gives the model none"),
    ("go_on", "session", "the first is the last session, the second the one of that name"),
    ("no_session", "session", "the first keeps nothing"),
    ("no_session", "go_on", "the first keeps nothing"),
    ("as_json", "as_jsonl", "the first is one document, the second a line an event"),
    ("quiet", "verbose", "they are opposites"),
)
_FLAGS = {"go_on": "--continue", "as_json": "--json", "as_jsonl": "--jsonl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The options of `ask`, each as the command line gave it. Raises UsageError when two of them contradict."""

    question: tuple[str, ...] = ()
    offline: bool = False
    model: str | None = None
    system: str | None = None
    schema: str | None = None
    agent: Path | None = None
    tools: tuple[str, ...] = ()
    no_tools: bool = False
    safety: str | None = None
    yes: bool = False
    limits: tuple[str, ...] = ()
    go_on: bool = False
    session: str | None = None
    no_session: bool = False
    place: str | None = None
    dry_run: bool = False
    output: Path | None = None
    record: Path | None = None
    trace: str | None = None
    no_stream: bool = False
    as_json: bool = False
    as_jsonl: bool = False
    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        for one, other, why in _NOT_BOTH:
            if getattr(self, one) and getattr(self, other):
                raise click.UsageError(f"Use {_flag(one)} or {_flag(other)}, not both: {why}.")

        if self.tools and not split_names(self.tools):
            raise click.UsageError("--tools names no tool. For none, say --no-tools.")
        if self.session is not None and not self.session.strip():
            raise click.UsageError("--session takes a name. To keep nothing, use --no-session.")

    @property
    def settings(self) -> Settings:
        """The settings that hold with these flags, and with the file of the agent. Raises ConfigError."""
        return settings_here(self.flags, self.agent)

    @property
    def flags(self) -> dict[str, Any]:
        """The settings that the flags make; None where they say nothing. Raises ConfigError."""
        return {
            "provider": "offline" if self.offline else None,
            "model": self.model,
            "instruction": self.system,
            "tools": () if self.no_tools else split_names(self.tools) or None,
            "safety": None if self.safety is None else SafetyLevel.of(self.safety),
            "session": "" if self.no_session else self.session,
            "limits": dict(map(limit_of, self.limits)) or None,
            "trace": self.trace,
        }


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")
