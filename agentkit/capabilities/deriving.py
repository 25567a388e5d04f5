"""What may an agent do? All that is stated of it and of the agents that work with it, without running any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from agentkit.agents.agent import Agent
from agentkit.capabilities import facts, manifest
from agentkit.capabilities.offers import (
    closed_over,
    secrets_of,
    server_facts,
    server_of,
    tool_facts,
    tools_of,
    worker_of,
    workers_of,
)
from agentkit.capabilities.places import model_facts, price_told, session_told, workspace_facts
from agentkit.capabilities.sources import approver_of, code_of, is_ours
from agentkit.messages import digest_of
from agentkit.safety.policy import Policy
from agentkit.safety.rules import Rule
from agentkit.tooling.toolset import AnyTool
from agentkit.usage import Limits, Price

_Facts = Iterator[tuple[facts.Path, Any]]
_Named = Sequence[tuple[str, Any]]


def manifest_of(agent: Agent[Any], folder: str | Path = ".") -> manifest.Manifest:
    """What `agent` may do, with all agents that it may set to work or hand the conversation to.

    `folder` is that of the program: other places are told as they are found from there. No model is asked, and no
    server connected that is not connected already.
    """
    staff = _apart([(each.name, each) for each in _staff(agent)])
    return manifest.Manifest.of(
        {
            ("agent",): agent.name,
            **{
                ("agents", name, *path): value
                for name, each in staff
                for path, value in _agent_facts(each, staff, Path(folder))
            },
        }
    )


def _staff(agent: Agent[Any]) -> list[Agent[Any]]:
    """The agent and all that it can set to work, or hand over to, each once."""
    found = [agent]
    for each in found:
        for other in (*workers_of(each), *_leads(each)):
            if not any(other is one for one in found):
                found.append(other)
    return found


def _apart(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The same with names that none has twice: later ones get a number."""
    taken = dict[str, Any]()
    for name, value in named:
        number, free = 1, name
        while free in taken:
            number += 1
            free = f"{name}#{number}"
        taken[free] = value
    return list(taken.items())


def _name_in(named: _Named, value: Any) -> str:
    return next(name for name, other in named if other is value)


def _agent_facts(agent: Agent[Any], staff: _Named, home: Path) -> _Facts:
    servers = _apart([(each.name, each) for each in _servers(agent)])
    yield from _own_facts(agent)
    yield ("secrets",), sorted({f"{name}: {secret}" for name, each in servers for secret in secrets_of(each)})
    tools = list(tools_of(agent))
    is_used = any(tool.is_in_workspace for _, tool in tools)
    yield from _under(("workspace",), workspace_facts(agent.workspace, home, is_used=is_used))
    yield from _under(("handoffs",), _handoffs(agent, staff))
    yield from _under(("listeners",), _listeners(agent))
    for name, server in servers:
        yield from _under(("servers", name), server_facts(server, home))
    for name, tool in tools:
        yield from _under(("tools", name), tool_facts(tool, agent.policy, _made_by(tool, servers, staff)))


def _own_facts(agent: Agent[Any]) -> _Facts:
    """What the agent was made with, beside its tools and the agents it works with."""
    checks = _apart([(f"{each.stage} {each.name}", code_of(each.function)) for each in agent.answer_rules.checks])
    rules = ((f"{number:03}", _rule(rule)) for number, rule in enumerate(agent.policy.rules, 1))
    output = agent.answer_rules.schema
    yield ("approver",), approver_of(agent.approve)
    yield ("ceiling",), agent.policy.level.name.lower()
    yield ("class",), None if type(agent) is Agent else code_of(type(agent))
    yield ("dry_run",), agent.dry_run or agent.workspace.dry_run
    yield ("flow",), agent.policy.flow
    yield ("output",), None if output is None else f"sha256:{digest_of({'schema': output.schema})}"
    yield ("policy",), None if type(agent.policy) is Policy else code_of(type(agent.policy))
    yield ("session",), session_told(agent.known_session)
    yield from _under(("checks",), checks)
    yield from _under(("limits",), _limits(agent.limits, agent.max_iterations))
    yield from _under(("model",), model_facts(agent.known_llm))
    yield from _under(("rules",), rules)


def _under(path: facts.Path, named: Iterable[tuple[str, Any]]) -> _Facts:
    return (((*path, name), value) for name, value in named)


def _leads(agent: Agent[Any]) -> list[Agent[Any]]:
    return [lead for lead in agent.handoffs if isinstance(lead, Agent)]


def _handoffs(agent: Agent[Any], staff: _Named) -> list[tuple[str, Any]]:
    """Whom the conversation may be handed to; of what is no Agent nothing is known but its code."""
    others = [(lead.name, code_of(type(lead))) for lead in agent.handoffs if not isinstance(lead, Agent)]
    return _apart([*((_name_in(staff, lead), True) for lead in _leads(agent)), *others])


def _listeners(agent: Agent[Any]) -> list[tuple[str, Any]]:
    """The code of what hears all that is said, by its name; of what `Agent.on` was given, that itself."""
    heard = [closed_over(each).get("listener", each) if is_ours(each) else each for each in agent.listeners]
    told = map(code_of, heard)
    return _apart([(code.partition(" sha256:")[0], code) for code in told])


def _servers(agent: Agent[Any]) -> list[Any]:
    """The servers that tools of the agent are from, each once."""
    found: list[Any] = []
    for server in (server_of(tool) for _, tool in tools_of(agent)):
        if server is not None and not any(server is other for other in found):
            found.append(server)
    return found


def _made_by(tool: AnyTool, servers: _Named, staff: _Named) -> str:
    """The server or the agent that a tool is from; empty when it is a function."""
    server, worker = server_of(tool), worker_of(tool)
    if server is not None:
        return f"server {_name_in(servers, server)}"
    return "" if worker is None else f"agent {_name_in(staff, worker)}"


def _limits(limits: Limits, max_iterations: int) -> Iterator[tuple[str, Any]]:
    for each in fields(Limits):
        value = getattr(limits, each.name)
        if each.name == "iterations" and value is None:
            yield each.name, max_iterations
        elif isinstance(value, Price):
            yield each.name, price_told(value)
        else:
            yield each.name, value


def _rule(rule: Any) -> dict[str, Any]:
    """A rule by its meaning: what it says, of which calls, and the code that reads it when that is not ours."""
    where = {
        name: {
            test: _jsonable(operand)
            for test, operand in (wanted if isinstance(wanted, Mapping) else {"equals": wanted}).items()
        }
        for name, wanted in rule.where.items()
    }
    code = {} if type(rule) is Rule else {"code": code_of(type(rule))}
    return {"verdict": str(rule.verdict), "tool": rule.tool, "where": where, **code}


def _jsonable(value: Any) -> Any:
    """A value as JSON has it; of what JSON does not know, its type and, of an enum, its name."""
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _jsonable(each) for key, each in value.items()}
    return f"a {type(value).__qualname__}"
