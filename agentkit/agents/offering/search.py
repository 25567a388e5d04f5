"""Which tools fit a query? Those with its words in names, descriptions and parameters, the best first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from agentkit.reading.words import indexed, terms_of
from agentkit.tooling.toolset import AnyTool

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
