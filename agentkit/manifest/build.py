"""Construction of a manifest from an agent, without running it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentkit.agents.agent import Agent, AgentTool
from agentkit.agents.coding import TaskTool
from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.manifest import file, schema
from agentkit.manifest.identity import (
    OURS,
    approver_of,
    code_of,
    command_told,
    folder_told,
    is_ours,
    model_facts,
    module_of,
    price_told,
    session_told,
    url_told,
    workspace_facts,
)
from agentkit.manifest.schema import ANYTHING, IN_MEMORY, KEPT, WEAKENED
from agentkit.messages import digest_of
from agentkit.safety.policy import NO_RULE, Policy
from agentkit.safety.rules import Rule
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.watchdog import ProcessLimits
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool
from agentkit.usage import Limits, Price

HARMLESS = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER"})
"""Environment variables that every tool server can see; none of them holds a secret."""

_MAX_LOOKED_AT = 10_000
_HOLD_NOTHING = (str, bytes, int, float, type(None), types.ModuleType, types.BuiltinFunctionType)
_LOGIN = "login"
_SEARCH = ("AGENTKIT_SEARXNG_URL", "duckduckgo.com")
"""Targets of a search without a configured server: the one named by the variable, if set, else DuckDuckGo."""


def server_of(tool: AnyTool) -> Any:
    """The server of a remote tool; None for a local one."""
    return getattr(tool, "server", None) if hasattr(tool, "remote_name") else None


def worker_of(tool: AnyTool) -> Agent[Any] | None:
    """The agent behind a tool; None if the tool does not run an agent."""
    worker = tool.function.agent if isinstance(tool.function, AgentTool) else None
    return worker if isinstance(worker, Agent) else None


def workers_of(agent: Agent[Any]) -> list[Agent[Any]]:
    """The agents that an agent can run: those behind its tools, or held by its own functions."""
    own = [agent.approve, agent.instruction, agent.context, *agent.listeners]
    tools = [tool for _, tool in tools_of(agent)]
    conditions = [condition.function for tool in tools for condition in tool.conditions]
    functions = [*own, *(guardrail.function for guardrail in agent.answer_validator.guardrails), *conditions]
    return [each for held in (*tools, *functions) for each in agents_in(held)]


def agents_in(held: Any) -> list[Agent[Any]]:
    """The agents held by a tool, a function or an object: in its closure, by global names, or in what it calls."""
    found: list[Agent[Any]] = []
    waiting, seen = [held], set[int]()
    while waiting and len(seen) < _MAX_LOOKED_AT:
        value = waiting.pop(0)
        if id(value) in seen or isinstance(value, _HOLD_NOTHING):
            continue
        seen.add(id(value))
        if isinstance(value, Agent):
            found.append(value)
        else:
            waiting += _held_by(value)
    return found


def _held_by(value: Any) -> Iterator[Any]:
    """The objects that a value refers to, found without running code."""
    match value:
        case Tool() | AgentTool() | TaskTool():
            yield from (getattr(value, name, None) for name in ("function", "_asynchronous", "agents"))
        case functools.partial():
            yield from (value.func, value.args, value.keywords)
        case types.MethodType():
            yield from (value.__func__, value.__self__)
        case types.FunctionType() if not is_ours(value):
            yield from _named_in(value)
        case dict():
            yield from value.values()
        case list() | tuple():
            yield from value
        case _ if not isinstance(value, type | types.FunctionType) and not is_ours(value):
            yield from getattr(value, "__dict__", {}).values()


def _named_in(function: types.FunctionType) -> Iterator[Any]:
    """The closure, defaults and attributes of a function, and the globals that its code names."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents
    yield from (function.__defaults__, function.__kwdefaults__, vars(function))
    names, codes = dict[str, None](), [function.__code__]
    for code in codes:
        names.update(dict.fromkeys(code.co_names))
        codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    for each in (function.__globals__[name] for name in names if name in function.__globals__):
        yield from (vars(each).get(name) for name in names) if isinstance(each, types.ModuleType) else (each,)


def tools_of(agent: Agent[Any]) -> Iterator[tuple[str, AnyTool]]:
    """The tools of an agent by name, and those that programs of a tool can call, as `run_program.fetch_url`."""
    for tool in agent.tools:
        yield tool.name, tool
        yield from ((f"{tool.name}.{inner.name}", inner) for inner in getattr(tool, "tools", ()))


def tool_facts(tool: AnyTool, policy: Policy, made_by: str) -> Iterator[tuple[str, Any]]:
    """The facts of a tool; `made_by` names its server or agent, and is empty for a function."""
    owner = getattr(tool.function, "__self__", None)
    confinement = getattr(owner, "confinement", owner)
    own_limits = getattr(confinement, "limits", None) if is_ours(tool.function) else None
    yield "definition", f"sha256:{_digest(tool)}"
    yield "hosts", sorted(_hosts(tool))
    yield "isolation", _isolation(confinement) if isinstance(own_limits, ProcessLimits) else None
    yield "judge", _judge(tool)
    yield "labels", sorted(map(str, tool.labels))
    yield "level", tool.level.name.lower()
    yield "made_by", made_by or _maker(tool)
    yield "max_chars", tool.max_chars
    yield (
        "timeout_seconds",
        own_limits.timeout_seconds if isinstance(own_limits, ProcessLimits) else tool.timeout_seconds,
    )
    yield "verdict", verdict(tool, policy)
    yield "writes", getattr(confinement, "writable", None) if isinstance(own_limits, ProcessLimits) else None


def server_facts(server: Any, home: Path) -> Iterator[tuple[str, Any]]:
    """The facts of a tool server."""
    target = server.target
    yield "folder", None if target.folder is None else folder_told(target.folder, home)
    yield "pins", KEPT if server.is_pinned else IN_MEMORY
    if target.url:
        yield "reached", url_told(target.url)
    else:
        yield "reached", command_told(target.words, home) if target.words else target.identity


def secrets_of(server: Any) -> list[str]:
    """The names of the variables and headers passed to a server, without harmless ones.

    `login` is listed if the server supports a login; whether one is stored differs between machines.
    """
    names = [name for name in server.target.environment if name not in HARMLESS and not name.startswith("LC_")]
    login = [] if server.target.login is None else [_LOGIN]
    return sorted([*names, *server.target.headers, *login])


def verdict(tool: AnyTool, policy: Policy) -> str:
    """The default verdict for calls of the tool, from its level and the rules without conditions on arguments."""
    of_all_calls = (rule for rule in policy.rules if type(rule) is Rule and rule.is_about(tool.name) and not rule.where)
    plain = Policy(policy.level, [Rule(rule.verdict, rule.tool) for rule in of_all_calls])

    def judged(own: Decision) -> Decision:
        return plain.judge(tool.name, tool.level, own)

    # The judge of a server's tool only asks if the tool has changed; it never lowers the level of a call.
    if tool.judged_by is None or server_of(tool) is not None:
        return str(judged(Decision(Verdict.ALLOW, NO_RULE, "")).verdict)
    if judged(Decision(Verdict.ASK, "judge", "")).allowed:
        return str(Verdict.ALLOW)
    levels = [level for level in SafetyLevel if level <= tool.level]
    data = {level: judged(Decision(Verdict.ALLOW, "judge", "", level=level)) for level in levels}
    reached = [level.name.lower() for level in levels if data[level].allowed]
    return f"by call, up to {reached[-1]}" if reached else str(data[SafetyLevel.SAFE].verdict)


def _digest(tool: AnyTool) -> str:
    """The hash of the definition sent to the model: the server's current one, or that in MCP's form.

    The description of an agent's tool is left out: it derives from the instruction, which can change.
    """
    server = server_of(tool)
    offered = () if server is None else server.definitions
    remote = next((each for each in offered if each.name == getattr(tool, "remote_name", "")), None)
    if remote is not None:
        return str(remote.digest)
    text = "" if worker_of(tool) else tool.description
    schema = tool.spec.parameters if tool.spec.hosted is None else tool.spec.hosted
    return digest_of({"name": tool.name, "description": text, "schema": schema, "hints": {}})


def _judge(tool: AnyTool) -> str | None:
    if tool.judged_by is None:
        return None
    code = code_of(tool.judged_by)
    return OURS.strip(".") if code.startswith(OURS) else code


def _maker(tool: AnyTool) -> str:
    """The module of the tool's function, or the class of a custom tool, which can judge differently."""
    if tool.spec.hosted is not None:
        return "provider"
    if tool.plugin:
        return f"plugin {tool.plugin}"
    kind, module = code_of(type(tool)), module_of(tool.function)
    if not kind.startswith(OURS):
        return kind
    return OURS.strip(".") if is_ours(tool.function) else module


def _isolation(confinement: Any) -> str:
    """The isolation of a command or code; "weakened" if some mechanisms are not used."""
    wanted = str(getattr(confinement, "isolation", None) or confinement.sandbox)
    is_whole = getattr(confinement, "available", MECHANISMS) >= MECHANISMS
    return wanted if is_whole or wanted == "off" else WEAKENED


def _hosts(tool: AnyTool) -> list[str]:
    """The hosts that calls of the tool can reach, as far as known; else `any`."""
    server = server_of(tool)
    if server is not None:
        return [urlsplit(server.target.url).netloc.rpartition("@")[2] or ANYTHING]
    reads = _HOSTS.get(module_of(tool.function))
    if reads is not None:
        return reads(tool)
    return [] if tool.level is SafetyLevel.SAFE else [ANYTHING]


def _of_fetching(tool: AnyTool) -> list[str]:
    connection = closed_over(tool.function)["connection"]
    if not connection.is_direct:
        return [ANYTHING]
    return [*(f"public:{port}" for port in connection.rules.ports), *connection.rules.allowed_hosts]


def _of_wikipedia(tool: AnyTool) -> list[str]:
    connection = closed_over(tool.function)["encyclopedia"].connection
    return ["*.wikipedia.org"] if connection.is_direct else [ANYTHING]


def _of_searching(tool: AnyTool) -> list[str]:
    chosen = closed_over(closed_over(tool.function)["search"])
    if chosen["server"] is not None:
        return [urlsplit(chosen["server"].search_url).netloc]
    return list(_SEARCH) if chosen["proxy"] is None else [ANYTHING]


def _of_shell(tool: AnyTool) -> list[str]:
    confinement = getattr(getattr(tool.function, "__self__", None), "confinement", None)
    return [ANYTHING] if confinement is not None and confinement.network else []


def _of_hosted(tool: AnyTool) -> list[str]:
    """The hosts that the provider can reach: none, its tool server, the named domains, or any."""
    hosted = tool.spec.hosted or {}
    if tool.level is SafetyLevel.SAFE:
        return []
    if hosted.get("server_url"):
        return [urlsplit(str(hosted["server_url"])).netloc.rpartition("@")[2]]
    return sorted(map(str, hosted.get("allowed_domains") or [ANYTHING]))


def _nothing(_: AnyTool) -> list[str]:
    return []


_HOSTS: Mapping[str, Callable[[AnyTool], list[str]]] = {
    "agentkit.agents.runner": _nothing,
    "agentkit.tools.hosted": _of_hosted,
    "agentkit.code_mode.tool": _nothing,
    "agentkit.tools.files": _nothing,
    "agentkit.tools.system": _of_shell,
    "agentkit.tools.web.fetch": _of_fetching,
    "agentkit.tools.web.search": _of_searching,
    "agentkit.tools.web.wikipedia": _of_wikipedia,
}
"""The hosts of the shipped tools, by module.

Tools of agents reach what the agent's own tools reach, and programs what the tools they call reach.
"""


def closed_over(function: Any) -> Mapping[str, Any]:
    """The closure variables of a function by name; empty for other objects."""
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}


_Facts = Iterator[tuple[schema.Path, Any]]
_Named = Sequence[tuple[str, Any]]


def manifest_of(agent: Agent[Any], folder: str | Path = ".") -> file.Manifest:
    """The manifest of `agent`, with all agents that it can run or hand the conversation to.

    `folder` is the program's folder; other paths are given relative to it. The model is not queried, and no server is
    connected for it.
    """
    staff = _apart([(each.name, each) for each in _staff(agent)])
    return file.Manifest.of(
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
    """The agent and all agents that it can run or hand over to, each once."""
    found = [agent]
    for each in found:
        for other in (*workers_of(each), *_leads(each)):
            if not any(other is one for one in found):
                found.append(other)
    return found


def _apart(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Make the names unique: repeated ones get a number."""
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
    """The facts of the agent itself, without its tools and other agents."""
    guardrails = _apart(
        [(f"{each.stage} {each.name}", code_of(each.function)) for each in agent.answer_validator.guardrails]
    )
    rules = ((f"{number:03}", _rule(rule)) for number, rule in enumerate(agent.policy.rules, 1))
    output = agent.answer_validator.schema
    yield ("approver",), approver_of(agent.approve)
    yield ("ceiling",), agent.policy.level.name.lower()
    yield ("class",), None if type(agent) is Agent else code_of(type(agent))
    yield ("dry_run",), agent.dry_run or agent.workspace.dry_run
    yield ("flow",), agent.policy.flow
    yield ("output",), None if output is None else f"sha256:{digest_of({'schema': output.schema})}"
    yield ("policy",), None if type(agent.policy) is Policy else code_of(type(agent.policy))
    yield ("session",), session_told(agent.configured_session)
    yield from _under(("guardrails",), guardrails)
    yield from _under(("limits",), _limits(agent.limits, agent.max_iterations))
    yield from _under(("model",), model_facts(agent.configured_llm))
    yield from _under(("rules",), rules)
    yield from _under(("unlabelled",), _unlabelled(agent))


def _unlabelled(agent: Agent[Any]) -> Iterable[tuple[str, Any]]:
    """The tools without a safety level, whose calls run without approval."""
    return ((tool.name, True) for tool in agent.tools if agent.unlabelled == "allow" and not tool.is_labelled)


def _under(path: schema.Path, named: Iterable[tuple[str, Any]]) -> _Facts:
    return (((*path, name), value) for name, value in named)


def _leads(agent: Agent[Any]) -> list[Agent[Any]]:
    return [lead for lead in agent.handoffs if isinstance(lead, Agent)]


def _handoffs(agent: Agent[Any], staff: _Named) -> list[tuple[str, Any]]:
    """The handoff targets; a target that is not an Agent is given by its code."""
    others = [(lead.name, code_of(type(lead))) for lead in agent.handoffs if not isinstance(lead, Agent)]
    return _apart([*((_name_in(staff, lead), True) for lead in _leads(agent)), *others])


def _listeners(agent: Agent[Any]) -> list[tuple[str, Any]]:
    """The code of the listeners by name; for `Agent.on`, that of the given function."""
    functions = [closed_over(each).get("listener", each) if is_ours(each) else each for each in agent.listeners]
    codes = map(code_of, functions)
    return _apart([(code.partition(" sha256:")[0], code) for code in codes])


def _servers(agent: Agent[Any]) -> list[Any]:
    """The servers of the agent's tools, each once."""
    found: list[Any] = []
    for server in (server_of(tool) for _, tool in tools_of(agent)):
        if server is not None and not any(server is other for other in found):
            found.append(server)
    return found


def _made_by(tool: AnyTool, servers: _Named, staff: _Named) -> str:
    """The server or agent behind a tool; empty for a function."""
    server, worker = server_of(tool), worker_of(tool)
    if server is not None:
        return f"server {_name_in(servers, server)}"
    return "" if worker is None else f"agent {_name_in(staff, worker)}"


def _limits(limits: Limits, max_iterations: int) -> Iterator[tuple[str, Any]]:
    yield "iterations", max_iterations
    for each in fields(Limits):
        value = getattr(limits, each.name)
        if isinstance(value, Price):
            yield each.name, price_told(value)
        else:
            yield each.name, value


def _rule(rule: Any) -> dict[str, Any]:
    """A rule as JSON: verdict, tool, conditions, and the identity of a custom rule class."""
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
    """A value as JSON; for other types, the type's name, with the member's name for an enum."""
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _jsonable(each) for key, each in value.items()}
    return f"a {type(value).__qualname__}"
