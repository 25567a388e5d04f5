"""What is a tool of a server to us? A tool like any other, whose every call is judged by what was accepted of it."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from agentkit.decisions import Decision, Label, Verdict
from agentkit.errors import BadArguments, Blocked, ConfigError
from agentkit.levels import SafetyLevel
from agentkit.mcp.definitions import Change, Definition
from agentkit.mcp.library import Library
from agentkit.mcp.sdk.contents import Answer, listing
from agentkit.slotted import dataclass
from agentkit.tooling.result import BAD_ARGUMENTS, objection
from agentkit.tooling.schema import GivenParameters
from agentkit.tooling.tool import Tool
from agentkit.wording import visible

CHANGED, GONE = "mcp-changed", "mcp-gone"
"""The rules of decisions on tools that are not what was accepted."""

Levels = Mapping[str, SafetyLevel] | SafetyLevel
"""The level of each tool by its server's name for it, or that of all."""

_MOST_DESCRIPTION_CHARS = 8_000
_MOST_SCHEMA_CHARS = 100_000
_READ = frozenset(("description", "title", "$comment"))
_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}}
_UNREAD = "New at the MCP server {server!r} since it was accepted; a person must first read what it says of itself."


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds for a tool of a server: its level, limits, and what its results may hold."""

    level: SafetyLevel
    timeout_seconds: float | None
    max_chars: int
    labels: frozenset[Label]


def labels_of(level: SafetyLevel, labels: Iterable[Label | str] | None) -> frozenset[Label]:
    """What results may hold: always text of strangers, and of a tool that touches this machine also what is private."""
    if labels is not None:
        return frozenset(map(Label, labels)) | {Label.UNTRUSTED}
    private = {Label.PRIVATE} if level is SafetyLevel.SYSTEM else set[Label]()
    return frozenset({Label.UNTRUSTED, *private})


class Source(Library):
    """Where a tool comes from: a server that runs it, by its own name for it, and says how it has changed."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The word that the server goes by."""

    @abstractmethod
    def call(self, tool: str, /, **arguments: Any) -> Answer:
        """What it answers, waited for."""

    @abstractmethod
    async def acall(self, tool: str, /, **arguments: Any) -> Answer:
        """What it answers, awaited."""

    @abstractmethod
    def change_of(self, name: str) -> Change | None:
        """How the tool differs from what was accepted."""

    @abstractmethod
    def again(self, name: str) -> RemoteTool:
        """The same tool, of this copy of the server."""


class RemoteTool(Tool[..., Any]):
    """A tool of an MCP server, called `name` here. `shown` is its definition as it was accepted, None when it was not.

    A call waits for the server where Python waits and awaits where it awaits; in code that awaits use `ainvoke`. Raises
    ConfigError when the definition is none of a tool.
    """

    def __init__(self, server: Source, remote_name: str, name: str, shown: Definition | None, bounds: Bounds) -> None:
        schema = _ANYTHING if shown is None else _told(shown.schema, name)
        described = _UNREAD.format(server=server.name) if shown is None else shown.description
        self.__dict__.update(server=server, remote_name=remote_name, _parameters=GivenParameters(schema, name))
        super().__init__(
            self._acall,
            name,
            visible(described[:_MOST_DESCRIPTION_CHARS]),
            level=bounds.level,
            timeout_seconds=bounds.timeout_seconds,
            max_chars=bounds.max_chars,
            labels=bounds.labels,
            judge=self._judge_call,
        )

    server: Source
    remote_name: str
    """What the server calls the tool."""

    def __call__(self, /, *args: Any, **arguments: Any) -> Answer:
        """What the server answers, waited for. Raises BadArguments, Blocked, ToolTimeout and ToolError."""
        checked, decision = self.decide(self._parameters.bind(args, arguments))
        if decision.denied:
            raise (BadArguments if decision.rule == BAD_ARGUMENTS else Blocked)(objection(decision))
        return self._call(**checked)

    def _call(self, **arguments: Any) -> Answer:
        return self.server.call(self.remote_name, **arguments)

    async def _acall(self, **arguments: Any) -> Answer:
        return await self.server.acall(self.remote_name, **arguments)

    def _judge_call(self, _arguments: Mapping[str, Any]) -> Decision:
        """Allowed as far as the tool is what was accepted; what has changed is asked about."""
        return judged(self.server.name, self.name, self.server.change_of(self.remote_name), self.level)

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return _found_again, (self.server, self.remote_name)


class ResourceTool(RemoteTool):
    """A tool of ours that reads what a server offers to read. What it does cannot change, so it is judged by level."""

    def _call(self, **arguments: Any) -> Answer:
        return self.server.read(**arguments) if arguments else listing(self.server.resources())

    async def _acall(self, **arguments: Any) -> Answer:
        return await self.server.aread(**arguments) if arguments else listing(await self.server.aresources())

    def _judge_call(self, _arguments: Mapping[str, Any]) -> Decision:
        return judged(self.server.name, self.name, None, self.level)


def resource_tools(server: str) -> dict[str, Definition]:
    """The tools of ours by which a model reads what a server offers, by their plain names."""
    uri = {"type": "string", "description": "The URI of a resource, or a template with its places filled in."}
    return {
        "list_resources": Definition("resources/list", f"List what the server {server} offers to read.", _ANYTHING),
        "read_resource": Definition(
            "resources/read",
            f"Read a resource of the server {server}.",
            {"type": "object", "properties": {"uri": uri}, "required": ["uri"]},
        ),
    }


def judged(server: str, name: str, change: Change | None, level: SafetyLevel) -> Decision:
    """What a judge says of a tool that has changed so since it was accepted."""
    leaves = level >= SafetyLevel.NETWORK
    if change is None:
        return Decision(Verdict.ALLOW, "no-rule", f"{name} is as it was accepted of {server!r}.", egress=leaves)
    if change.after is None:
        return Decision(Verdict.DENY, GONE, f"The MCP server {server!r} does not offer {name} any more.")
    return Decision(
        Verdict.ASK,
        CHANGED,
        f"The MCP server {server!r} has been changed since it was accepted: {change}",
        evidence=str(change),
        remedy="When it is as it should be, accept it: `agentkit mcp tools SERVER --accept`, or accept() in Python.",
        egress=leaves,
    )


def checked_levels(levels: Mapping[str, SafetyLevel | str] | SafetyLevel | str) -> Levels:
    """The level of all tools, or that of each named one. Raises ConfigError."""
    if isinstance(levels, Mapping):
        return {name: SafetyLevel.of(level) for name, level in levels.items()}
    return SafetyLevel.of(levels)


def level_of(name: str, levels: Levels) -> SafetyLevel:
    """The level that was told for a tool; SYSTEM when none was."""
    return levels if isinstance(levels, SafetyLevel) else levels.get(name, SafetyLevel.SYSTEM)


def refuse_unknown(levels: Levels, names: Iterable[str], server: str) -> None:
    """Raise ConfigError for a level that is told for a tool which the server does not have."""
    names = list(names)
    for name in () if isinstance(levels, SafetyLevel) else levels:
        if name not in names:
            offers = ", ".join(names) or "none"
            raise ConfigError(f"level= names {name!r}, but the tools of the MCP server {server!r} are: {offers}.")


def _told(schema: Mapping[str, Any], name: str) -> Any:
    """A schema whose texts hide nothing. Raises ConfigError for one that no model could be told."""
    try:
        length = len(json.dumps(schema))
        if length > _MOST_SCHEMA_CHARS:
            raise ConfigError(
                f"Tool {name!r}: its schema has {length:,} characters, of at most {_MOST_SCHEMA_CHARS:,}."
            )
        return _plain(schema)
    except (RecursionError, TypeError, ValueError) as error:
        raise ConfigError(f"Tool {name!r}: its schema is no JSON schema ({type(error).__name__}).") from None


def _plain(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {
            name: visible(each) if name in _READ and isinstance(each, str) else _plain(each)
            for name, each in part.items()
        }
    return [_plain(each) for each in part] if isinstance(part, list) else part


def _found_again(server: Source, remote_name: str) -> RemoteTool:
    """The tool in another process, which has a connection of its own."""
    return server.again(remote_name)
