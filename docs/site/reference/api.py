"""Reference page of the Python API: signatures and docstrings of the public names."""

import enum
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Any

from markdown import block, described, joined

import agentkit
import agentkit.testing
from agentkit import Tool, Toolset
from agentkit.events import Event


def _is_described(name: str) -> bool:
    """Whether a name of agentkit.testing is a class or a function; other names are types in signatures."""
    return isinstance(getattr(agentkit.testing, name), type | FunctionType)


GROUPS: Mapping[str, tuple[str, ...]] = {
    "Agents": (
        *("agentkit.agent", "agentkit.Agent", "agentkit.RunResult", "agentkit.RunFinished", "agentkit.Limits"),
        *("agentkit.agents.coding.coding_agent", "agentkit.agents.durable.durable", "agentkit.agents.durable.step"),
        *("agentkit.agents.durable.ask_person", "agentkit.agents.durable.wait_until"),
        *("agentkit.agents.durable.DurableFunction", "agentkit.agents.durable.DurableResult"),
        "agentkit.agents.dbos_engine.dbos_workflow",
        "agentkit.budget",
        *(
            "agentkit.agents.result.Pending",
            "agentkit.agents.result.Resumption",
            "agentkit.Window",
        ),
    ),
    "Models": (
        *("agentkit.LLM", "agentkit.Response", "agentkit.Image", "agentkit.File"),
        *("agentkit.Usage", "agentkit.usage.Price"),
        *("agentkit.llm.embeddings.Embeddings", "agentkit.usage.Cost", "agentkit.usage.Tariff"),
        *("agentkit.llm.pricing.price_of", "agentkit.llm.pricing.cost_of"),
    ),
    "Tools": (
        *("agentkit.Tool", "agentkit.tool", "agentkit.Toolset", "agentkit.ToolResult", "agentkit.RunContext"),
        *("agentkit.tools.web.search_tool", "agentkit.tools.web.fetch_tool"),
        *("agentkit.tools.system.shell_tool_in", "agentkit.tools.system.python_tool_with"),
        *("agentkit.tools.human.ask_user_tool", "agentkit.tools.skills.skill_tools"),
        *("agentkit.tools.planning.note_tools", "agentkit.agents.coding.task_tool"),
        *("agentkit.code_mode.program_tool", "agentkit.code_mode.ProgramTool"),
        "agentkit.HostedTool",
    ),
    "Safety": (
        *("agentkit.SafetyLevel", "agentkit.Policy", "agentkit.Rule", "agentkit.Decision", "agentkit.Verdict"),
        *("agentkit.Approval", "agentkit.ApprovalRequest", "agentkit.safety.terminal_approver.TerminalApprover"),
    ),
    "Sessions": ("agentkit.Session",),
    "Events": ("agentkit.TextDelta",),
    "Knowledge": (
        *("agentkit.Knowledge", "agentkit.knowledge.Memory", "agentkit.knowledge.Chunk"),
        *("agentkit.knowledge.Document", "agentkit.knowledge.AddResult", "agentkit.knowledge.Between"),
        *("agentkit.knowledge.Note", "agentkit.knowledge.rerank_with", "agentkit.knowledge.rewrite_with"),
    ),
    "MCP": (
        *("agentkit.MCPServer", "agentkit.mcp.connect"),
        *("agentkit.mcp.Login", "agentkit.mcp.ClientCredentials"),
        *("agentkit.mcp.connect_file", "agentkit.mcp.read_servers", "agentkit.mcp.ListedServers"),
        *("agentkit.mcp.Resource", "agentkit.mcp.Prompt", "agentkit.mcp.PromptArgument"),
        *("agentkit.mcp.serve", "agentkit.mcp.ToolServer", "agentkit.mcp.Address"),
        *("agentkit.mcp.calling_client", "agentkit.mcp.CallingClient"),
    ),
    "Server": ("agentkit.server.app", "agentkit.server.a2a.A2AAgent", "agentkit.server.ag_ui.SharedState"),
    "Tracing": (
        *("agentkit.tracing.Console", "agentkit.tracing.JSONLines", "agentkit.tracing.OpenTelemetry"),
        *("agentkit.tracing.origin", "agentkit.tracing.Origin", "agentkit.tracing.ContextListener"),
        *("agentkit.tracing.ModelRequest", "agentkit.tracing.ToolUse", "agentkit.tracing.EmbeddingRequest"),
    ),
    "Evals": (
        *("agentkit.Suite", "agentkit.evals.Case", "agentkit.evals.ExpectedCall", "agentkit.evals.Report"),
        *("agentkit.evals.Trial", "agentkit.evals.Metrics", "agentkit.evals.Comparison", "agentkit.evals.Score"),
        *("agentkit.evals.Scorer", "agentkit.evals.exact", "agentkit.evals.contains", "agentkit.evals.matches"),
        *("agentkit.evals.numeric", "agentkit.evals.json_equal", "agentkit.evals.tool_calls"),
        *("agentkit.evals.semantic", "agentkit.evals.optimize", "agentkit.evals.Improvement"),
        *("agentkit.evals.Candidate", "agentkit.evals.FailedCase"),
    ),
    "Testing": tuple(f"agentkit.testing.{name}" for name in agentkit.testing.__all__ if _is_described(name)),
}
"""The described names, in the order of the page. All other public names are tools, toolsets, errors and events."""

_LINE = 100
_SHOWN = property | cached_property | classmethod | staticmethod | FunctionType
_WHY_NOT_HERE = "see [tools](tools.md)", "see [errors](errors.md)", "see [events](events.md)"


def page() -> str:
    """Render the page."""
    sections = [joined([f"## {title}", *map(_entry, names)]) for title, names in GROUPS.items()]
    return joined(["# Reference: Python API", _opening(), *sections])


def _opening() -> str:
    described_here = {name.rpartition(".")[2] for names in GROUPS.values() for name in names}
    others: dict[str, list[str]] = {}
    for name in agentkit.__all__:
        if name not in described_here:
            others.setdefault(_kind(name), []).append(f"`{name}`")
    lines = [f"- {', '.join(names)}: {kind}." for kind, names in others.items()]
    return joined(["Not described on this page:", "\n".join(lines)])


def _kind(name: str) -> str:
    """The page that describes a public name. Raises KeyError if no page does."""
    value = getattr(agentkit, name)
    if isinstance(value, Tool | Toolset):
        return _WHY_NOT_HERE[0]
    if isinstance(value, type) and issubclass(value, agentkit.AgentKitError):
        return _WHY_NOT_HERE[1]
    if isinstance(value, type) and issubclass(value, Event):
        return _WHY_NOT_HERE[2]
    raise KeyError(f"agentkit.{name} is public but in no group of docs/site/reference/api.py; add it to one.")


def _entry(path: str) -> str:
    home, _, name = path.rpartition(".")
    value: Any = getattr(import_module(home), name)
    heading = f"### {path}"
    if isinstance(value, type):
        return joined([heading, _signed(name, _constructor(value)), described(value), *_members(value)])
    if not inspect.isroutine(value):
        kind = type(value)
        called = _signed(name, kind.__call__, skipped=1)
        return joined([heading, called, described(kind), described(kind.__call__), *_members(kind)])
    return joined([heading, _signed(name, value), described(value)])


def _constructor(kind: type) -> Callable[..., Any] | None:
    """The callable with a class's constructor signature; None for enumerations and exceptions."""
    return None if issubclass(kind, enum.Enum | Exception) else kind


def _signed(name: str, function: Callable[..., Any] | None, skipped: int = 0) -> str:
    """Render a signature, on several lines if it is long; empty without a function."""
    if function is None:
        return ""
    signature = inspect.signature(function)
    parts = list(_parts(list(signature.parameters.values())[skipped:]))
    given = "" if isinstance(function, type) else _annotated(" -> ", signature.return_annotation)
    start = f"{'async ' if inspect.iscoroutinefunction(function) else ''}{name}("
    text = f"{start}{', '.join(parts)}){given}"
    if len(text) > _LINE:
        text = "\n".join([start, *(f"    {part}," for part in parts), f"){given}"])
    return block("pyi", text)


def _parts(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Render the parameters, with a star before keyword-only ones."""
    kinds = inspect.Parameter
    starred = False
    for parameter in parameters:
        if parameter.name == "unknown":  # catches unknown arguments to raise an error with a suggestion
            continue
        if parameter.kind is kinds.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or parameter.kind in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL)
        stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is kinds.empty else f" = {_default(parameter.default)}"
        yield f"{stars}{parameter.name}{_annotated(': ', parameter.annotation)}{default}"


def _annotated(before: str, annotation: Any) -> str:
    """An annotation as in the source."""
    if annotation is inspect.Parameter.empty:
        return ""
    return before + (annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _default(value: object) -> str:
    """Render a default value: dataclasses by their name, values without a literal form as an ellipsis."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, frozenset) and value:  # sorted, because the order of a frozenset is not deterministic
        return f"frozenset({{{', '.join(map(repr, sorted(value)))}}})"
    if is_dataclass(value):
        return f"{type(value).__name__}(...)"
    return "..." if "<" in repr(value) else repr(value)


def _members(kind: type) -> Iterator[str]:
    """Render the public methods and properties of a class, and the members of an enumeration."""
    if issubclass(kind, enum.Enum):
        yield "\n".join(f"- `{kind.__name__}.{member.name}`" for member in kind)
        return
    for name, member in _public(kind):
        if isinstance(member, property | cached_property):
            function = member.fget if isinstance(member, property) else member.func
            kind_of = _annotated(": ", inspect.signature(function).return_annotation)
            yield joined([f"#### .{name}", block("pyi", name + kind_of), described(function)])
        else:
            bound = getattr(member, "__func__", member)
            skipped = 0 if isinstance(member, staticmethod) else 1
            yield joined([f"#### .{name}()", _signed(name, bound, skipped), described(bound)])


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class and its bases in agentkit, in source order, without duplicates."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        offered = vars(owner) if owner.__module__.startswith("agentkit") else {}
        for name, member in offered.items():
            shown = isinstance(member, _SHOWN) and not name.startswith("_") and name not in seen
            seen.add(name)
            if shown:
                yield name, member
