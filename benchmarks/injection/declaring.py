"""What has the developer said of the tools and of the calls? The ways of saying it that are compared."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentkit import Policy, Tool

DECLARED: Mapping[str, Any] = tomllib.loads((Path(__file__).parent / "declared.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Offer:
    """A tool of a suite: what a model is told of it, and what it does with its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[..., str]


@dataclass(frozen=True)
class Setting:
    """One way of declaring the same tools. Without `declares` they are plain functions."""

    name: str
    declares: bool
    level: str = "network"
    is_about_words: bool = False

    def tools(self, suite: str, offers: Sequence[Offer]) -> list[Tool[..., Any]]:
        """The suite's tools as the developer gives them to an agent."""
        return [
            Tool.from_schema(
                offer.name, offer.description, offer.parameters, offer.function, **self._said_of(suite, offer)
            )
            for offer in offers
        ]

    def policy(self, suite: str) -> Policy:
        """What judges the calls of the suite's tools."""
        rules = DECLARED["said"][suite] if self.is_about_words else {}
        return Policy(self.level, [{"verdict": "allow", "tool": tool, "where": where} for tool, where in rules.items()])

    def _said_of(self, suite: str, offer: Offer) -> Mapping[str, Any]:
        kinds: Mapping[str, Mapping[str, Any]] = DECLARED["kinds"]
        return kinds[DECLARED["suites"][suite][offer.name]] if self.declares else {}


UNDECLARED = Setting("plain functions", declares=False)

SETTINGS = (
    UNDECLARED,
    Setting("labels alone, changes unasked", declares=True, level="system"),
    Setting("levels and labels, default policy", declares=True),
    Setting("the same, with rules on what was said", declares=True, is_about_words=True),
)
