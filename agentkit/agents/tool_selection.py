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
"""The tool with which a model searches for others."""

MOST_FOUND = 8
"""How many tools one search finds."""

_MOST_LISTED_CHARS = 2_000
_DESCRIPTION = (
    "Search for a tool that is not among those you see. There are {count} more, and what you find can be called from"
    " then on. Do so before you say that something cannot be done. {listed}"
)
_QUERY = "A few words for what is to be done and to what, in the language of the tools, such as: close issue."
_FOUND = "You see these tools now, and can call them."
_NOTHING = "No tool has any of these words. Search with others, or do without."


Met = frozenset[ToolCondition]
"""The conditions of tools that hold now."""

_NONE = Met()


def offered(tools: Toolset, met: Met = _NONE) -> tuple[Toolset, tuple[ToolSpec, ...]]:
    """All tools of a run, and those that its model is told of before it has searched, given what holds now."""
    there = [tool for tool in tools if met.issuperset(tool.conditions)]
    hidden = tools.searchable_names
    specs = tuple(tool.spec for tool in there if tool.name not in hidden)
    if not hidden:
        return tools, specs
    found = [tool.name for tool in there if tool.name in hidden]
    search = _find_tools(tools.only(*found))
    return tools + search, (*specs, search.spec) if found else specs


def found_in(messages: Iterable[Message], tools: Toolset, met: Met = _NONE) -> tuple[ToolSpec, ...]:
    """Of the tools that must be searched for those that a conversation has come to, in the order of its doing so.

    One that was called without having been found has been come to as well. Those that are not there now are left out.
    """
    names = dict.fromkeys(name for message in messages for name in _named(message))
    found = [tools[name] for name in names if name in tools.searchable_names]
    return tuple(tool.spec for tool in found if met.issuperset(tool.conditions))


def _named(message: Message) -> Iterator[str]:
    """The tools that a message calls, or says were found."""
    if isinstance(message, AssistantMessage):
        yield from (call.name for call in message.tool_calls)
    elif isinstance(message, ToolMessage) and message.name == FIND_TOOLS:
        yield from _told(message.content)


def _told(content: str) -> list[str]:
    """The names in what `find_tools` has said, which a note may follow."""
    try:
        said, _ = json.JSONDecoder().raw_decode(content)
    except (ValueError, RecursionError):
        return []
    names = said.get("tools") if isinstance(said, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _find_tools(tools: Toolset) -> AnyTool:
    """The tool that searches. What it says of others is what the model would have been told anyway."""

    def find_tools(query: str) -> dict[str, Any]:
        # which takes long to load, and few need

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
    """What there is to find: all names, or the words in them, the most frequent first, as far as there is room."""
    if len(", ".join(names)) <= _MOST_LISTED_CHARS:
        return f"They are: {', '.join(names)}."
    counted = Counter(word for name in names for word in dict.fromkeys(name.lower().replace("-", "_").split("_")))
    words = [word for word, _ in counted.most_common() if word]
    return f"Words in their names: {_within(words, _MOST_LISTED_CHARS)}."


def _within(words: Collection[str], most_chars: int) -> str:
    """As many words as there is room for."""
    text = ", ".join(words)
    return text if len(text) <= most_chars else text[:most_chars].rpartition(",")[0]


_TABLE = (
    "CREATE VIRTUAL TABLE tools USING fts5 (name, description, parameters, variants,"
    " tokenize = 'porter unicode61 remove_diacritics 0')"
)
_PUT = "INSERT INTO tools (rowid, name, description, parameters, variants) VALUES (?, ?, ?, ?, ?)"
_FIND = "SELECT rowid, -bm25(tools, ?, ?, ?, ?) AS score FROM tools WHERE tools MATCH ? ORDER BY score DESC, rowid"
_WEIGHTS = (4.0, 2.0, 1.0, 2.0)
"""How much a word counts in a tool's name, description and parameters, and in another spelling."""

_MOST_CHARS = 4_000
"""Of a longer description the beginning says what the tool is for."""

_MOST_LEAVES = 500
_SAID = ("description", "title")


def tools_that_fit(query: str, tools: Sequence[AnyTool]) -> list[AnyTool]:
    """All tools that share a word with the query, in any of its English forms, the best first."""
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
    """The names of parameters and fields, and what is said of them, the outermost first."""
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
    """The conditions of tools, and of those that programs may call; each with the name of a tool that has it."""
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
    """The conditions that hold now, after these messages. Raises RunError when one fails, is late, or says neither."""
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
