"""The compared settings: which levels, labels and rules the tools of a suite are declared with."""

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
    """A tool of a suite: its description and schema, and its function."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[..., str]


@dataclass(frozen=True)
class Setting:
    """A set of declarations for the same tools. If `declares` is False, they are plain functions."""

    name: str
    declares: bool
    level: str = "network"
    is_about_words: bool = False

    def tools(self, suite: str, offers: Sequence[Offer]) -> list[Tool[..., Any]]:
        """Create the tools of a suite with the declarations of this setting."""
        return [
            Tool.from_schema(
                offer.name, offer.description, offer.parameters, offer.function, **self._declaration_of(suite, offer)
            )
            for offer in offers
        ]

    def policy(self, suite: str) -> Policy:
        """Create the policy for a suite."""
        rules = DECLARED["from_user"][suite] if self.is_about_words else {}
        return Policy(self.level, [{"verdict": "allow", "tool": tool, "where": where} for tool, where in rules.items()])

    def _declaration_of(self, suite: str, offer: Offer) -> Mapping[str, Any]:
        kinds: Mapping[str, Mapping[str, Any]] = DECLARED["kinds"]
        return kinds[DECLARED["suites"][suite][offer.name]] if self.declares else {}


UNDECLARED = Setting("plain functions", declares=False)

SETTINGS = (
    UNDECLARED,
    Setting("labels only, no approvals for changes", declares=True, level="system"),
    Setting("levels and labels, default policy", declares=True),
    Setting("the same, with `from_user` rules", declares=True, is_about_words=True),
)
