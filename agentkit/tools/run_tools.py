"""Tools that a run adds: `find_tools` searches for searchable tools, `read_more` reads truncated outputs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from agentkit.decisions import SafetyLevel
from agentkit.documents.search_terms import index_terms, search_terms
from agentkit.errors import ToolError
from agentkit.messages import READ_MORE, AssistantMessage, Message, ToolMessage, ToolSpec
from agentkit.tooling.run_context import ToolCondition
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import AnyTool, Toolset

FIND_TOOLS = "find_tools"
"""Name of the tool that searches for other tools."""

MAX_FOUND = 8
"""Maximum number of tools returned by one search."""

_MAX_LISTED_CHARS = 2_000
_DESCRIPTION = (
    "Search for tools that are not listed yet. There are {count} more, and the tools found can be called from then "
    "on. Search before you say that something cannot be done. {listed}"
)
_QUERY = "A few words that describe the action and its object, in the language of the tools, such as: close issue."
_FOUND = "These tools are available now and can be called."
_NOTHING = "No tool matches these words. Search with other words, or continue without a tool."


Met = frozenset[ToolCondition]
"""The conditions of tools that are currently met."""

_NONE = Met()


def initial_specs(tools: Toolset, met: Met = _NONE) -> tuple[Toolset, tuple[ToolSpec, ...]]:
    """All tools of a run, and the specs initially sent to the model under the conditions that are met."""
    available = [tool for tool in tools if met.issuperset(tool.conditions)]
    hidden = tools.searchable_names
    specs = tuple(tool.spec for tool in available if tool.name not in hidden)
    if not hidden:
        return tools, specs
    found = [tool.name for tool in available if tool.name in hidden]
    search = _find_tools(tools.only(*found))
    return tools + search, (*specs, search.spec) if found else specs


def found_specs(messages: Iterable[Message], tools: Toolset, met: Met = _NONE) -> tuple[ToolSpec, ...]:
    """The searchable tools that a conversation has found or called, in order of appearance.

    A tool that was called without a search counts as found. Tools whose conditions are not met are left out.
    """
    names = dict.fromkeys(name for message in messages for name in _mentioned_tools(message))
    found = [tools[name] for name in names if name in tools.searchable_names]
    return tuple(tool.spec for tool in found if met.issuperset(tool.conditions))


def _mentioned_tools(message: Message) -> Iterator[str]:
    """The tools that a message calls or lists as found."""
    if isinstance(message, AssistantMessage):
        yield from (call.name for call in message.tool_calls)
    elif isinstance(message, ToolMessage) and message.name == FIND_TOOLS:
        yield from _tool_names(message.content)


def _tool_names(content: str) -> list[str]:
    """The tool names in a `find_tools` result, which can be followed by a note."""
    try:
        data, _ = json.JSONDecoder().raw_decode(content)
    except (ValueError, RecursionError):
        return []
    names = data.get("tools") if isinstance(data, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _find_tools(tools: Toolset) -> AnyTool:
    """The search tool. Its descriptions of other tools are those the model would have received anyway."""

    def find_tools(query: str) -> dict[str, Any]:
        found = [tool.name for tool in search_tools(query, tools)[:MAX_FOUND]]
        if not found:
            return {"status": "empty", "tools": [], "note": _NOTHING}
        return {"tools": found, "note": _FOUND}

    schema = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": _QUERY}},
        "required": ["query"],
        "additionalProperties": False,
    }
    text = _DESCRIPTION.format(count=len(tools), listed=_describe_names(tools.names))
    return Tool.from_schema(FIND_TOOLS, text, schema, find_tools, level=SafetyLevel.SAFE, labels=())


def _describe_names(names: Sequence[str]) -> str:
    """Describe what can be found: all names, or their most frequent words if the names are too long."""
    if len(", ".join(names)) <= _MAX_LISTED_CHARS:
        return f"They are: {', '.join(names)}."
    counts = Counter(word for name in names for word in dict.fromkeys(name.lower().replace("-", "_").split("_")))
    words = [word for word, _ in counts.most_common() if word]
    return f"Words in their names: {_join_within(words, _MAX_LISTED_CHARS)}."


def _join_within(words: Collection[str], max_chars: int) -> str:
    """Join as many words as fit."""
    text = ", ".join(words)
    return text if len(text) <= max_chars else text[:max_chars].rpartition(",")[0]


_TABLE = (
    "CREATE VIRTUAL TABLE tools USING fts5 (name, description, parameters, variants,"
    " tokenize = 'porter unicode61 remove_diacritics 0')"
)
_PUT = "INSERT INTO tools (rowid, name, description, parameters, variants) VALUES (?, ?, ?, ?, ?)"
_FIND = "SELECT rowid, -bm25(tools, ?, ?, ?, ?) AS score FROM tools WHERE tools MATCH ? ORDER BY score DESC, rowid"
_WEIGHTS = (4.0, 2.0, 1.0, 2.0)
"""Weights of a match in a tool's name, description, parameters and spelling variants."""

_MAX_INDEXED_CHARS = 4_000
"""Only this much of a long text is indexed."""

_MAX_LEAVES = 500
_TEXT_KEYWORDS = ("description", "title")


def search_tools(query: str, tools: Sequence[AnyTool]) -> list[AnyTool]:
    """All tools that share a word with the query, in any English inflection, best match first."""
    import sqlite3

    terms = search_terms(query)
    if not terms:
        return []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(_TABLE)
        connection.execute("BEGIN")
        connection.executemany(_PUT, ((number, *_words_of(tool)) for number, tool in enumerate(tools)))
        rows = connection.execute(
            _FIND, (*_WEIGHTS, terms.fts_query("name description parameters variants"))
        ).fetchall()
    return [tools[number] for number, _ in rows]


def _words_of(tool: AnyTool) -> tuple[str, str, str, str]:
    spec = tool.spec
    texts = (
        spec.name.replace("_", " "),
        spec.description[:_MAX_INDEXED_CHARS],
        " ".join(_texts(spec.parameters))[:_MAX_INDEXED_CHARS],
    )
    name, description, parameters = map(index_terms, texts)
    return name.words, description.words, parameters.words, f"{name.variants} {description.variants}"


def _texts(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names and descriptions of parameters and fields, outermost first."""
    pending: list[Any] = [schema]
    for place, part in enumerate(pending):
        if place >= _MAX_LEAVES:
            return
        if isinstance(part, list):
            pending += part
        elif isinstance(part, Mapping):
            yield from (part[word] for word in _TEXT_KEYWORDS if isinstance(part.get(word), str))
            properties = part.get("properties")
            if isinstance(properties, Mapping):
                yield from (str(name).replace("_", " ") for name in properties)
                pending += properties.values()
            pending += [value for name, value in part.items() if name != "properties"]


_MAX_READ_CHARS = 40_000
_BEFORE_CHARS = 200
_QUOTED_CHARS = 80


def read_more_tool(whole: Callable[[str], str | None]) -> Tool[..., Any]:
    """Create the tool that reads outputs that were truncated. `whole` returns the text for a handle.

    The text was an output of this conversation, so the caller has to label the results with everything that the
    conversation has read.
    """

    def read_more(handle: str, start: int = 0, max_chars: int = 10_000, find: str | None = None) -> str:
        """Read more of a tool output that was shown only in part.

        Use it when a note says that characters were left out and you need them. To look for something, give find
        instead of reading everything.

        Args:
            handle: The handle in the note.
            start: Which character to begin at; 0 is the beginning, -2000 the last 2,000 characters.
            max_chars: How many characters to read, at most 40,000.
            find: A text to jump to: reading begins shortly before its first occurrence at or after start. Upper and
                lower case count alike.

        Returns:
            A line that says which characters follow, of how many, and where to read on; then the characters.
        """
        text = whole(handle)
        if text is None:
            shown = json.dumps(handle[:_QUOTED_CHARS], ensure_ascii=False)
            raise ToolError(
                f"No output is stored under the handle {shown}. The notes of truncated outputs name handles; old ones "
                "expire. Call the tool that returned the output again."
            )
        begin = max(len(text) + start, 0) if start < 0 else min(start, len(text))
        found = ""
        if find:
            begin, found = _find_from(text, find, begin)
        end = min(begin + min(max(max_chars, 1), _MAX_READ_CHARS), len(text))
        continuation = f"read on with start={end}" if end < len(text) else "this is the end"
        return f"[characters {begin:,} to {end:,} of {len(text):,}; {found}{continuation}]\n{text[begin:end]}"

    return Tool(read_more, READ_MORE, level=SafetyLevel.SAFE, timeout_seconds=None, labels=())


def _find_from(text: str, find: str, begin: int) -> tuple[int, str]:
    """Return the index to begin at, with context before the match, and a description of the match. Raises ToolError."""
    positions = [match.start() for match in re.finditer(re.escape(find), text, re.IGNORECASE)]
    following = [match for match in positions if match >= begin]
    if not following:
        shown = json.dumps(find[:_QUOTED_CHARS], ensure_ascii=False)
        if positions:
            text = f"does not occur from character {begin:,} on; it occurs earlier, first at {positions[0]:,}"
        else:
            text = "does not occur in this output. Try a shorter text, or read it piece by piece with start"
        raise ToolError(f"{shown} {text}.")
    line = text.rfind("\n", max(following[0] - _BEFORE_CHARS, begin), following[0])
    first = line + 1 if line >= 0 else max(following[0] - _BEFORE_CHARS, begin)
    more = f" and {len(following) - 1:,} times more, next at {following[1]:,}" if len(following) > 1 else ""
    return first, f"found at {following[0]:,}{more}; "
