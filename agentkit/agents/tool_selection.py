"""Selection of the tools offered to a model: conditions, tool search and tools found earlier (pure)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from agentkit.agents.effects import CallFunction
from agentkit.agents.run_config import CallingTool, RunConfig
from agentkit.documents.search_terms import indexed, terms_of
from agentkit.errors import RunError
from agentkit.levels import SafetyLevel
from agentkit.messages import AssistantMessage, Message, ToolMessage, ToolSpec
from agentkit.tooling.run_context import ToolCondition, taken_of
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool, Toolset

FIND_TOOLS = "find_tools"
"""Name of the tool that searches for other tools."""

MOST_FOUND = 8
"""Maximum number of tools returned by one search."""

_MOST_LISTED_CHARS = 2_000
_DESCRIPTION = (
    "Search for a tool that is not among those you see. There are {count} more, and what you find can be called from"
    " then on. Do so before you say that something cannot be done. {listed}"
)
_QUERY = "A few words for what is to be done and to what, in the language of the tools, such as: close issue."
_FOUND = "You see these tools now, and can call them."
_NOTHING = "No tool has any of these words. Search with others, or do without."


Met = frozenset[ToolCondition]
"""The conditions of tools that are currently met."""

_NONE = Met()


def offered(tools: Toolset, met: Met = _NONE) -> tuple[Toolset, tuple[ToolSpec, ...]]:
    """All tools of a run, and the specs initially sent to the model under the conditions that are met."""
    there = [tool for tool in tools if met.issuperset(tool.conditions)]
    hidden = tools.searchable_names
    specs = tuple(tool.spec for tool in there if tool.name not in hidden)
    if not hidden:
        return tools, specs
    found = [tool.name for tool in there if tool.name in hidden]
    search = _find_tools(tools.only(*found))
    return tools + search, (*specs, search.spec) if found else specs


def found_in(messages: Iterable[Message], tools: Toolset, met: Met = _NONE) -> tuple[ToolSpec, ...]:
    """The searchable tools that a conversation has found or called, in order of appearance.

    A tool that was called without a search counts as found. Tools whose conditions are not met are left out.
    """
    names = dict.fromkeys(name for message in messages for name in _named(message))
    found = [tools[name] for name in names if name in tools.searchable_names]
    return tuple(tool.spec for tool in found if met.issuperset(tool.conditions))


def _named(message: Message) -> Iterator[str]:
    """The tools that a message calls or lists as found."""
    if isinstance(message, AssistantMessage):
        yield from (call.name for call in message.tool_calls)
    elif isinstance(message, ToolMessage) and message.name == FIND_TOOLS:
        yield from _told(message.content)


def _told(content: str) -> list[str]:
    """The tool names in a `find_tools` result, which can be followed by a note."""
    try:
        said, _ = json.JSONDecoder().raw_decode(content)
    except (ValueError, RecursionError):
        return []
    names = said.get("tools") if isinstance(said, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _find_tools(tools: Toolset) -> AnyTool:
    """The search tool. Its descriptions of other tools are those the model would have received anyway."""

    def find_tools(query: str) -> dict[str, Any]:
        found = [tool.name for tool in tools_that_fit(query, tools)[:MOST_FOUND]]
        if not found:
            return {"status": "empty", "tools": [], "note": _NOTHING}
        return {"tools": found, "note": _FOUND}

    schema = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": _QUERY}},
        "required": ["query"],
        "additionalProperties": False,
    }
    text = _DESCRIPTION.format(count=len(tools), listed=_listed(tools.names))
    return Tool.from_schema(FIND_TOOLS, text, schema, find_tools, level=SafetyLevel.SAFE, labels=())


def _listed(names: Sequence[str]) -> str:
    """Describe what can be found: all names, or their most frequent words if the names are too long."""
    if len(", ".join(names)) <= _MOST_LISTED_CHARS:
        return f"They are: {', '.join(names)}."
    counted = Counter(word for name in names for word in dict.fromkeys(name.lower().replace("-", "_").split("_")))
    words = [word for word, _ in counted.most_common() if word]
    return f"Words in their names: {_within(words, _MOST_LISTED_CHARS)}."


def _within(words: Collection[str], most_chars: int) -> str:
    """Join as many words as fit."""
    text = ", ".join(words)
    return text if len(text) <= most_chars else text[:most_chars].rpartition(",")[0]


_TABLE = (
    "CREATE VIRTUAL TABLE tools USING fts5 (name, description, parameters, variants,"
    " tokenize = 'porter unicode61 remove_diacritics 0')"
)
_PUT = "INSERT INTO tools (rowid, name, description, parameters, variants) VALUES (?, ?, ?, ?, ?)"
_FIND = "SELECT rowid, -bm25(tools, ?, ?, ?, ?) AS score FROM tools WHERE tools MATCH ? ORDER BY score DESC, rowid"
_WEIGHTS = (4.0, 2.0, 1.0, 2.0)
"""Weights of a match in a tool's name, description, parameters and spelling variants."""

_MOST_CHARS = 4_000
"""Only this much of a long text is indexed."""

_MOST_LEAVES = 500
_SAID = ("description", "title")


def tools_that_fit(query: str, tools: Sequence[AnyTool]) -> list[AnyTool]:
    """All tools that share a word with the query, in any English inflection, best match first."""
    import sqlite3

    terms = terms_of(query)
    if not terms:
        return []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(_TABLE)
        connection.execute("BEGIN")
        connection.executemany(_PUT, ((number, *_words_of(tool)) for number, tool in enumerate(tools)))
        rows = connection.execute(_FIND, (*_WEIGHTS, terms.matching("name description parameters variants"))).fetchall()
    return [tools[number] for number, _ in rows]


def _words_of(tool: AnyTool) -> tuple[str, str, str, str]:
    spec = tool.spec
    texts = (
        spec.name.replace("_", " "),
        spec.description[:_MOST_CHARS],
        " ".join(_texts(spec.parameters))[:_MOST_CHARS],
    )
    name, description, parameters = map(indexed, texts)
    return name.words, description.words, parameters.words, f"{name.variants} {description.variants}"


def _texts(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names and descriptions of parameters and fields, outermost first."""
    waiting: list[Any] = [schema]
    for place, part in enumerate(waiting):
        if place >= _MOST_LEAVES:
            return
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            yield from (part[word] for word in _SAID if isinstance(part.get(word), str))
            properties = part.get("properties")
            if isinstance(properties, Mapping):
                yield from (str(name).replace("_", " ") for name in properties)
                waiting += properties.values()
            waiting += [value for name, value in part.items() if name != "properties"]


def conditions_of(tools: Iterable[AnyTool]) -> dict[ToolCondition, str]:
    """Map the conditions of the tools, and of those that programs can call, to the name of a tool that has them."""
    found: dict[ToolCondition, str] = {}
    for tool in tools:
        if tool.conditions:
            found |= dict.fromkeys(tool.conditions, tool.name)
        if isinstance(tool, CallingTool):
            found |= conditions_of(tool.tools)
    return found


def met_conditions(
    plan: RunConfig, read: Sequence[Message], seconds_left: float
) -> Generator[CallFunction, None, frozenset[ToolCondition]]:
    """The conditions that are met after these messages.

    Raises RunError if a condition fails, times out or does not return a bool.
    """
    met: set[ToolCondition] = set()
    context = plan.context.called("", read)
    for condition, tool in plan.conditions.items():
        question = CallFunction(condition.function, taken_of(condition.function, context), seconds_left)
        yield question
        answer = question.answer
        if isinstance(answer, Exception):
            raise RunError(f"The condition of {tool} failed ({type(answer).__name__}: {answer}).") from answer
        if not isinstance(answer, bool):
            raise RunError(f"The condition of {tool} gave {type(answer).__name__}; it returns True or False.")
        if answer:
            met.add(condition)
    return frozenset(met)
