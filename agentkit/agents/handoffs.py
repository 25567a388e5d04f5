"""Handoffs between agents, and agents used as tools."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from agentkit.agents.run_config import HandoffCall, HandoffTarget, PausingTool
from agentkit.levels import SafetyLevel
from agentkit.tooling.tool import Tool

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_CHARS = 1_000


def handoff_tools(leads: Iterable[HandoffTarget]) -> list[Tool[..., Any]]:
    """A handoff tool for each agent."""
    return [_handoff_tool(lead) for lead in leads]


def _handoff_tool(lead: HandoffTarget) -> Tool[..., Any]:
    description = f"Pass the conversation to {lead.name}, who answers from then on.{_about(lead)}"
    return Tool(HandoffCall(lead), f"hand_off_to_{name_for_tool(lead.name)}"[:64], description, idempotent=True)


def agent_tool(
    lead: HandoffTarget,
    answer: Callable[[str], Any],
    aanswer: Callable[[str], Awaitable[Any]],
    name: str | None,
    description: str | None,
) -> Tool[[str], Any]:
    """An agent as a tool: it answers one request, without access to the conversation.

    Its level is the highest that a call of its tools can have without approval, including the tools of the agents it
    can hand over to.
    """
    staff = [lead, *reachable(lead.leads)]
    level = max(min(each.policy.level, _level_of(each.tools)) for each in staff)
    return PausingTool(
        answer,
        name or name_for_tool(lead.name),
        description or f"Let {lead.name} work on a request, and get the answer.{_about(lead)}",
        level=level,
        labels=frozenset().union(*(tool.labels for each in staff for tool in each.tools)),
        timeout_seconds=None,
        asynchronous=aanswer,
    )


def find_lead(name: str, leads: Mapping[str, HandoffTarget]) -> HandoffTarget | None:
    """The agent of that name among those reachable by handoffs, nearest first."""
    return next((lead for lead in reachable(leads) if lead.name == name), None)


def reachable(leads: Mapping[str, HandoffTarget]) -> list[HandoffTarget]:
    """All agents reachable by handoffs, each once, nearest first."""
    found = list(leads.values())
    for lead in found:
        found += [each for each in lead.leads.values() if not any(each is known for known in found)]
    return found


def name_for_tool(name: str) -> str:
    """An agent's name in the characters allowed in a tool name."""
    return _NOT_IN_A_NAME.sub("_", name).strip("_").lower()[:50] or "agent"


def _level_of(tools: Iterable[Tool[..., Any]]) -> SafetyLevel:
    return max((tool.level for tool in tools), default=SafetyLevel.SAFE)


def _about(lead: HandoffTarget) -> str:
    """The description of an agent, if it has one. Its instruction is private."""
    about = " ".join((lead.description or "").split())[:_MAX_CHARS]
    return f" {lead.name}: {about}" if about else ""
