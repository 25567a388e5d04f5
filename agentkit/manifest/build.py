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
from agentkit.decisions import NO_RULE, Decision, SafetyLevel, Verdict
from agentkit.manifest import file, schema
from agentkit.manifest.identity import (
    OURS,
    approver_of,
    code_of,
    format_command,
    format_folder,
    format_price,
    format_url,
    is_ours,
    model_facts,
    module_of,
    session_kind,
    workspace_facts,
)
from agentkit.manifest.schema import ANYTHING, IN_MEMORY, ON_THIS_MACHINE, WEAKENED
from agentkit.messages import digest_of
from agentkit.safety.policy import Policy
from agentkit.safety.rules import Rule
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.watchdog import ProcessLimits
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool
from agentkit.usage import Limits, Price

HARMLESS_VARIABLES = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER"})
"""Environment variables that every tool server can see; none of them holds a secret."""

_MAX_VISITED = 10_000
_LEAF_TYPES = (str, bytes, int, float, type(None), types.ModuleType, types.BuiltinFunctionType)
_LOGIN = "login"
_SEARCH = ("AGENTKIT_SEARXNG_URL", "duckduckgo.com")
"""Targets of a search without a configured server: the one named by the variable, if set, else DuckDuckGo."""


def tool_server(tool: AnyTool) -> Any:
    """The server of a remote tool; None for a local one."""
    return getattr(tool, "server", None) if hasattr(tool, "remote_name") else None


def tool_agent(tool: AnyTool) -> Agent[Any] | None:
    """The agent behind a tool; None if the tool does not run an agent."""
    worker = tool.function.agent if isinstance(tool.function, AgentTool) else None
    return worker if isinstance(worker, Agent) else None


def sub_agents(agent: Agent[Any]) -> list[Agent[Any]]:
    """The agents that an agent can run: those behind its tools, or held by its own functions."""
    own = [agent.approve, agent.instruction, agent.context, *agent.listeners]
    tools = [tool for _, tool in all_tools_of(agent)]
    conditions = [condition.function for tool in tools for condition in tool.conditions]
    functions = [*own, *(guardrail.function for guardrail in agent.answer_validator.guardrails), *conditions]
    return [each for held in (*tools, *functions) for each in find_agents(held)]


def find_agents(held: Any) -> list[Agent[Any]]:
    """The agents held by a tool, a function or an object: in its closure, by global names, or in what it calls."""
    found: list[Agent[Any]] = []
    waiting, seen = [held], set[int]()
    while waiting and len(seen) < _MAX_VISITED:
        each = waiting.pop(0)
        if id(each) in seen or isinstance(each, _LEAF_TYPES):
            continue
        seen.add(id(each))
        if isinstance(each, Agent):
            found.append(each)
        else:
            waiting += _references(each)
    return found


def _references(value: Any) -> Iterator[Any]:
    """The objects that a value refers to, found without running code."""
    match value:
        case Tool() | AgentTool() | TaskTool():
            yield from (getattr(value, name, None) for name in ("function", "_asynchronous", "agents"))
        case functools.partial():
            yield from (value.func, value.args, value.keywords)
        case types.MethodType():
            yield from (value.__func__, value.__self__)
        case types.FunctionType() if not is_ours(value):
            yield from _function_references(value)
        case dict():
            yield from value.values()
        case list() | tuple():
            yield from value
        case _ if not isinstance(value, type | types.FunctionType) and not is_ours(value):
            yield from getattr(value, "__dict__", {}).values()


def _function_references(function: types.FunctionType) -> Iterator[Any]:
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


def all_tools_of(agent: Agent[Any]) -> Iterator[tuple[str, AnyTool]]:
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
    yield "folder", None if target.folder is None else format_folder(target.folder, home)
    yield "pins", ON_THIS_MACHINE if server.is_pinned else IN_MEMORY
    if target.url:
        yield "reached", format_url(target.url)
    else:
        yield "reached", format_command(target.words, home) if target.words else target.identity


def secret_names(server: Any) -> list[str]:
    """The names of the variables and headers passed to a server, without harmless ones.

    `login` is listed if the server supports a login; whether one is stored differs between machines.
    """
    names = [
        name for name in server.target.environment if name not in HARMLESS_VARIABLES and not name.startswith("LC_")
    ]
    login = [] if server.target.login is None else [_LOGIN]
    return sorted([*names, *server.target.headers, *login])


def verdict(tool: AnyTool, policy: Policy) -> str:
    """The default verdict for calls of the tool, from its level and the rules without conditions on arguments."""
    of_all_calls = (rule for rule in policy.rules if type(rule) is Rule and rule.is_about(tool.name) and not rule.where)
    plain = Policy(policy.level, [Rule(rule.verdict, rule.tool) for rule in of_all_calls])

    def judged(own: Decision) -> Decision:
        return plain.judge(tool.name, tool.level, own)

    # The judge of a server's tool only asks if the tool has changed; it never lowers the level of a call.
    if tool.judged_by is None or tool_server(tool) is not None:
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
    server = tool_server(tool)
    offered = () if server is None else server.definitions
    remote = next((each for each in offered if each.name == getattr(tool, "remote_name", "")), None)
    if remote is not None:
        return str(remote.digest)
    text = "" if tool_agent(tool) else tool.description
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
    server = tool_server(tool)
    if server is not None:
        return [urlsplit(server.target.url).netloc.rpartition("@")[2] or ANYTHING]
    reads = _HOSTS.get(module_of(tool.function))
    if reads is not None:
        return reads(tool)
    return [] if tool.level is SafetyLevel.SAFE else [ANYTHING]


def _fetch_hosts(tool: AnyTool) -> list[str]:
    connection = closure_variables(tool.function)["connection"]
    if not connection.is_direct:
        return [ANYTHING]
    return [*(f"public:{port}" for port in connection.rules.ports), *connection.rules.allowed_hosts]


def _wikipedia_hosts(tool: AnyTool) -> list[str]:
    connection = closure_variables(tool.function)["encyclopedia"].connection
    return ["*.wikipedia.org"] if connection.is_direct else [ANYTHING]


def _search_hosts(tool: AnyTool) -> list[str]:
    chosen = closure_variables(closure_variables(tool.function)["search"])
    if chosen["server"] is not None:
        return [urlsplit(chosen["server"].search_url).netloc]
    return list(_SEARCH) if chosen["proxy"] is None else [ANYTHING]


def _shell_hosts(tool: AnyTool) -> list[str]:
    confinement = getattr(getattr(tool.function, "__self__", None), "confinement", None)
    return [ANYTHING] if confinement is not None and confinement.network else []


def _hosted_hosts(tool: AnyTool) -> list[str]:
    """The hosts that the provider can reach: none, its tool server, the named domains, or any."""
    hosted = tool.spec.hosted or {}
    if tool.level is SafetyLevel.SAFE:
        return []
    if hosted.get("server_url"):
        return [urlsplit(str(hosted["server_url"])).netloc.rpartition("@")[2]]
    return sorted(map(str, hosted.get("allowed_domains") or [ANYTHING]))


def _no_hosts(_: AnyTool) -> list[str]:
    return []


_HOSTS: Mapping[str, Callable[[AnyTool], list[str]]] = {
    "agentkit.agents.runner": _no_hosts,
    "agentkit.tools.hosted": _hosted_hosts,
    "agentkit.code_mode.tool": _no_hosts,
    "agentkit.tools.files": _no_hosts,
    "agentkit.tools.system": _shell_hosts,
    "agentkit.tools.web.fetch": _fetch_hosts,
    "agentkit.tools.web.search": _search_hosts,
    "agentkit.tools.web.wikipedia": _wikipedia_hosts,
}
"""The hosts of the shipped tools, by module.

Tools of agents reach what the agent's own tools reach, and programs what the tools they call reach.
"""


def closure_variables(function: Any) -> Mapping[str, Any]:
    """The closure variables of a function by name; empty for other objects."""
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}


_Facts = Iterator[tuple[schema.Path, Any]]
_Named = Sequence[tuple[str, Any]]


def manifest_of(agent: Agent[Any], folder: str | Path = ".") -> file.Manifest:
    """The manifest of `agent`, with all agents that it can run or hand the conversation to.

    `folder` is the program's folder; other paths are given relative to it. The model is not queried, and no server is
    connected for it.
    """
    agents = _with_unique_names([(each.name, each) for each in _all_agents(agent)])
    return file.Manifest.of(
        {
            ("agent",): agent.name,
            **{
                ("agents", name, *path): value
                for name, each in agents
                for path, value in _agent_facts(each, agents, Path(folder))
            },
        }
    )


def _all_agents(agent: Agent[Any]) -> list[Agent[Any]]:
    """The agent and all agents that it can run or hand over to, each once."""
    found = [agent]
    for each in found:
        for other in (*sub_agents(each), *_handoff_agents(each)):
            if not any(other is one for one in found):
                found.append(other)
    return found


def _with_unique_names(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
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


def _agent_facts(agent: Agent[Any], agents: _Named, home: Path) -> _Facts:
    servers = _with_unique_names([(each.name, each) for each in _servers(agent)])
    yield from _base_facts(agent)
    yield ("secrets",), sorted({f"{name}: {secret}" for name, each in servers for secret in secret_names(each)})
    tools = list(all_tools_of(agent))
    is_used = any(tool.is_in_workspace for _, tool in tools)
    yield from _with_prefix(("workspace",), workspace_facts(agent.workspace, home, is_used=is_used))
    yield from _with_prefix(("handoffs",), _handoffs(agent, agents))
    yield from _with_prefix(("listeners",), _listeners(agent))
    for name, server in servers:
        yield from _with_prefix(("servers", name), server_facts(server, home))
    for name, tool in tools:
        yield from _with_prefix(("tools", name), tool_facts(tool, agent.policy, _made_by(tool, servers, agents)))


def _base_facts(agent: Agent[Any]) -> _Facts:
    """The facts of the agent itself, without its tools and other agents."""
    guardrails = _with_unique_names(
        [(f"{each.stage} {each.name}", code_of(each.function)) for each in agent.answer_validator.guardrails]
    )
    rules = ((f"{number:03}", _rule(rule)) for number, rule in enumerate(agent.policy.rules, 1))
    output = agent.answer_validator.schema
    yield ("approver",), approver_of(agent.approve)
    yield ("ceiling",), agent.policy.level.name.lower()
    yield ("class",), None if type(agent) is Agent else code_of(type(agent))
    yield ("dry_run",), agent.dry_run or agent.workspace.dry_run
    yield ("flow",), agent.policy.checks_data_flow
    yield ("output",), None if output is None else f"sha256:{digest_of({'schema': output.schema})}"
    yield ("policy",), None if type(agent.policy) is Policy else code_of(type(agent.policy))
    yield ("session",), session_kind(agent.configured_session)
    yield from _with_prefix(("guardrails",), guardrails)
    yield from _with_prefix(("limits",), _limits(agent.limits, agent.max_iterations))
    yield from _with_prefix(("model",), model_facts(agent.configured_llm))
    yield from _with_prefix(("rules",), rules)
    yield from _with_prefix(("unlabelled",), _unlabelled(agent))


def _unlabelled(agent: Agent[Any]) -> Iterable[tuple[str, Any]]:
    """The tools without a safety level, whose calls run without approval."""
    return ((tool.name, True) for tool in agent.tools if agent.unlabelled == "allow" and not tool.is_labelled)


def _with_prefix(path: schema.Path, named: Iterable[tuple[str, Any]]) -> _Facts:
    return (((*path, name), value) for name, value in named)


def _handoff_agents(agent: Agent[Any]) -> list[Agent[Any]]:
    return [lead for lead in agent.handoffs if isinstance(lead, Agent)]


def _handoffs(agent: Agent[Any], agents: _Named) -> list[tuple[str, Any]]:
    """The handoff targets; a target that is not an Agent is given by its code."""
    others = [(lead.name, code_of(type(lead))) for lead in agent.handoffs if not isinstance(lead, Agent)]
    return _with_unique_names([*((_name_in(agents, lead), True) for lead in _handoff_agents(agent)), *others])


def _listeners(agent: Agent[Any]) -> list[tuple[str, Any]]:
    """The code of the listeners by name; for `Agent.on`, that of the given function."""
    functions = [closure_variables(each).get("listener", each) if is_ours(each) else each for each in agent.listeners]
    codes = map(code_of, functions)
    return _with_unique_names([(code.partition(" sha256:")[0], code) for code in codes])


def _servers(agent: Agent[Any]) -> list[Any]:
    """The servers of the agent's tools, each once."""
    found: list[Any] = []
    for server in (tool_server(tool) for _, tool in all_tools_of(agent)):
        if server is not None and not any(server is other for other in found):
            found.append(server)
    return found


def _made_by(tool: AnyTool, servers: _Named, agents: _Named) -> str:
    """The server or agent behind a tool; empty for a function."""
    server, worker = tool_server(tool), tool_agent(tool)
    if server is not None:
        return f"server {_name_in(servers, server)}"
    return "" if worker is None else f"agent {_name_in(agents, worker)}"


def _limits(limits: Limits, max_iterations: int) -> Iterator[tuple[str, Any]]:
    yield "iterations", max_iterations
    for each in fields(Limits):
        value = getattr(limits, each.name)
        if isinstance(value, Price):
            yield each.name, format_price(value)
        else:
            yield each.name, value


def _rule(rule: Any) -> dict[str, Any]:
    """A rule as JSON: verdict, tool, conditions, and the identity of a custom rule class."""
    where = {
        name: {
            test: _to_json(operand)
            for test, operand in (wanted if isinstance(wanted, Mapping) else {"equals": wanted}).items()
        }
        for name, wanted in rule.where.items()
    }
    code = {} if type(rule) is Rule else {"code": code_of(type(rule))}
    return {"verdict": str(rule.verdict), "tool": rule.tool, "where": where, **code}


def _to_json(value: Any) -> Any:
    """A value as JSON; for other types, the type's name, with the member's name for an enum."""
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _to_json(each) for key, each in value.items()}
    return f"a {type(value).__qualname__}"
