"""`Toolset`: an ordered, immutable collection of tools."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, overload

from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError, UnknownTool
from agentkit.suggestions import check_unknown_arguments
from agentkit.tooling.run_context import ConditionFunction, ToolCondition
from agentkit.tooling.tool import Tool

if TYPE_CHECKING:
    import functools
    from typing import Protocol

    from agentkit.tooling.run_context import ContextType

AnyTool = Tool[..., Any]

if TYPE_CHECKING:

    class ToolFunction(Protocol):
        """A function or method. Tools are callable too, but have no code, so that their context is checked."""

        __code__: types.CodeType

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Call it."""

    class GivesTool(Protocol):
        """An object that provides a tool, such as an agent."""

        @property
        def as_tool(self) -> Callable[..., AnyTool]:
            """Provide it."""

    class GivesTools(Protocol):
        """An object that provides tools, such as a memory."""

        @property
        def as_tools(self) -> Callable[..., Iterable[AnyTool]]:
            """Provide them."""

    ToolItem = (
        Tool[..., Any, ContextType] | ToolFunction | functools.partial[Any] | GivesTool | GivesTools | Iterable[Any]
    )
    """An item of a toolset."""

_WANTED = "tools= takes tools, e.g. tools=core_tools or tools=[my_function]"
_NO_TOOLS: tuple[tuple[Any, str], ...] = (
    (str | bytes, "got the string {0!r}; pass the tool itself, not its name"),
    (Mapping, "got a dictionary; to create a tool from a JSON schema, use Tool.from_schema"),
    (type, "got the class {0.__name__}; pass a function, or a method of an instance"),
    (types.ModuleType, "got the module {0.__name__}; pass the functions in it"),
)

_GIVING = ("as_tool", "as_tools")
"""The methods by which an agent, knowledge base or memory provides its tools."""

_SEVERAL = (list, tuple)
"""Collections that are checked before anything else."""


class Toolset(Sequence[AnyTool]):
    """An ordered collection of tools with unique names: `tools[0]`, `tools["calculator"]`, `"calculator" in tools`.

    `items` are tools, functions, toolsets, or iterables of these.

    Raises ConfigError for duplicate names and for items that cannot be tools.
    """

    __slots__ = ("_by_name", "_tools", "searchable_names")

    searchable_names: frozenset[str]
    """The names of the tools that are offered to a model only after it has searched for them."""

    def __init__(self, items: Iterable[Any] | Callable[..., Any] = ()) -> None:
        searchable: set[str] = set()
        self._tools: tuple[AnyTool, ...] = tuple(_flatten(items, searchable))
        self._by_name = {each.name: each for each in self._tools}
        self.searchable_names = frozenset(searchable)
        if len(self._by_name) < len(self._tools):
            raise ConfigError(_duplicates_message(self._tools, self.searchable_names))

    @property
    def names(self) -> tuple[str, ...]:
        """The tool names, in order."""
        return tuple(each.name for each in self._tools)

    def find(self, name: str) -> AnyTool:
        """Return the tool with that name. Raises UnknownTool with a suggestion and the available names."""
        found = self._by_name.get(name) or self._by_name.get(self._local_name(name))
        if found is None:
            raise UnknownTool(self._unknown_tool_message(name))
        return found

    def only(self, *names: str) -> Toolset:
        """Return the named tools, in this order. Raises ConfigError for an unknown name."""
        return self._with(self._by_name[name] for name in self._check_names(names))

    def without(self, *names: str) -> Toolset:
        """Return all but the named tools. Raises ConfigError for an unknown name."""
        left_out = self._check_names(names)
        return self._with(each for each in self._tools if each.name not in left_out)

    def up_to(self, level: SafetyLevel | str) -> Toolset:
        """Return the tools whose safety level is at most `level`. Raises ValueError for an invalid level."""
        highest = SafetyLevel.of(level)
        return self._with(each for each in self._tools if each.level <= highest)

    def searchable(self, **unknown: Never) -> Toolset:
        """Return the same tools, offered only after a search: for hundreds of them, such as those of MCP servers.

        An agent with searchable tools gets the tool `find_tools`. Tools found are offered from the next request on.
        Finding a tool grants no permission: every call is judged, also a call of a tool that was not found before.
        """
        check_unknown_arguments(Toolset.searchable, unknown)
        other = Toolset(self._tools)
        other.searchable_names = frozenset(self._by_name)
        return other

    def when(self, condition: ConditionFunction) -> Toolset:
        """Return the same tools, offered in a run only if the condition holds; evaluated once per request for all.

        The condition is a function of nothing or of the RunContext, sync or async, that returns True or False. A call
        of a tool that was not offered is denied. Raises ConfigError for an invalid condition.
        """
        shared = ToolCondition(condition)
        return self._with(each.when(shared) for each in self._tools)

    def within(self, workspace: Any) -> Toolset:
        """Return the same tools for `workspace`."""
        if any(each.is_in_workspace for each in self._tools):
            return self._with(each.within(workspace) for each in self._tools)
        return self

    def _with(self, tools: Iterable[AnyTool]) -> Toolset:
        """Return a toolset of some of these tools, keeping which are searchable."""
        other = Toolset(tuple(tools))
        if self.searchable_names:
            other.searchable_names = self.searchable_names.intersection(other.names)
        return other

    def _check_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        known = tuple(map(self._local_name, names))
        for name, local_name in zip(names, known, strict=True):
            if local_name not in self._by_name:
                raise ConfigError(self._unknown_tool_message(name))
        return known

    def _local_name(self, name: str) -> str:
        """The name of the one tool that an MCP server calls `name`; the name itself without such a tool."""
        if name in self._by_name:
            return name
        local_names = [each.name for each in self._tools if getattr(each, "remote_name", None) == name]
        return local_names[0] if len(local_names) == 1 else name

    def _unknown_tool_message(self, name: str) -> str:
        from agentkit.event_rendering import suggestion

        shown = repr(name) if len(name) <= 100 else f"{name[:100]!r}…"
        if not self._tools:
            return f"No tool is named {shown}: the collection is empty."
        listed = ", ".join(each for each in self.names if each not in self.searchable_names)
        return f"No tool is named {shown}.{suggestion(name, self.names)} The tools are: {listed}."

    @overload
    def __getitem__(self, index: int | str) -> AnyTool: ...
    @overload
    def __getitem__(self, index: slice) -> Toolset: ...
    def __getitem__(self, index: int | str | slice) -> AnyTool | Toolset:
        if isinstance(index, str):
            return self.find(index)
        return self._with(self._tools[index]) if isinstance(index, slice) else self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, value: object) -> bool:
        return value in (self._by_name if isinstance(value, str) else self._tools)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools)

    def __add__(self, other: Iterable[Any] | Callable[..., Any]) -> Toolset:
        return Toolset((self, other))

    def __radd__(self, other: Iterable[Any] | Callable[..., Any]) -> Toolset:
        return Toolset((other, self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Toolset):
            return NotImplemented
        return self._tools == other._tools and self.searchable_names == other.searchable_names

    def __hash__(self) -> int:
        return hash(self._tools)

    def __repr__(self) -> str:
        shown = (f"{name} (searchable)" if name in self.searchable_names else name for name in self.names)
        return f"Toolset({', '.join(shown)})"


def _duplicates_message(tools: Sequence[AnyTool], searchable: frozenset[str]) -> str:
    """Return the error message for duplicate names."""
    first = next(tool for index, tool in enumerate(tools) if any(tool.name == each.name for each in tools[index + 1 :]))
    name, same = first.name, [each for each in tools if each.name == first.name]
    if any(each.function != first.function for each in same):
        return (
            f"Two tools are named {name!r}; remove one with .without({name!r}), or rename one of yours: "
            f"Tool(function, name=...)."
        )
    if name not in searchable:
        return f"The tool {name!r} is given twice. Remove it from one of the collections: .without({name!r})."
    return (
        f"The tool {name!r} is given twice, once as a searchable tool: a tool is either searchable or always listed. "
        f"Remove it from one of the collections: tools.only({name!r}) + tools.without({name!r}).searchable()."
    )


def _flatten(items: Any, searchable: set[str]) -> list[AnyTool]:
    """Flatten `items` at any depth and wrap functions. Raises ConfigError for items that cannot be tools.

    The names of searchable tools are added to `searchable`.
    """
    if isinstance(items, Toolset):
        searchable |= items.searchable_names
        return list(items)
    if not isinstance(items, _SEVERAL):
        return _tools_of_item(items, searchable)
    found: list[AnyTool] = []
    for item in items:
        if isinstance(item, Tool) and not item.lacks_instance:
            found.append(item)
        else:
            found += _flatten(item, searchable)
    return found


def _tools_of_item(item: Any, searchable: set[str]) -> list[AnyTool]:
    """Return the tools of an item that is not a list or tuple."""
    if isinstance(item, Tool):
        if item.lacks_instance:
            raise ConfigError(f"The tool {item.name!r} is a method; take it from an instance, not from its class.")
        return [item]
    for kind, complaint in _NO_TOOLS:
        if isinstance(item, kind):
            raise ConfigError(f"{_WANTED}; {complaint.format(item)}.")
    given = next((getattr(item, name) for name in _GIVING if hasattr(item, name)), None)
    if given is not None:
        return _flatten(given(), searchable)
    if callable(item):  # also if it is iterable, as the fields of a pydantic model can be
        return [_wrap(item)]
    if isinstance(item, Iterable):
        return _flatten(tuple(item), searchable)
    raise ConfigError(f"{_WANTED}; got {item!r}.")


def _wrap(function: Callable[..., Any]) -> AnyTool:
    """Wrap a function as a tool. From Python 3.13, a classmethod tool arrives as a bound method of that tool."""
    if isinstance(function, types.MethodType) and function.__name__ in _GIVING:
        raise ConfigError(f"{function.__qualname__} returns tools when it is called. Write: {function.__name__}()")
    if isinstance(function, types.MethodType) and isinstance(function.__func__, Tool):
        return function.__func__.__get__(function.__self__)
    if isinstance(getattr(function, "__self__", None), Toolset):
        raise ConfigError(f"{_WANTED}; got a method of a toolset. Call it: toolset.{function.__name__}(...).")
    return Tool(function)
