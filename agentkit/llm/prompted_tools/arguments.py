"""Parsing of arguments written as text, including malformed JSON (pure)."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from agentkit.llm.prompted_tools.markup import has_markup, quoted, quoted_json
from agentkit.messages import well_formed

if TYPE_CHECKING:
    from agentkit.messages import ToolSpec


_TOKEN = re.compile(
    r"\"(?P<double>[^\"\\]*+(?:\\.[^\"\\]*+)*+)(?:\"|\\?\Z)"
    r"|'(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)(?:'|\\?\Z)"
    r"|(?P<number>[-+]?\d[\w.+-]*)"
    r"|(?P<word>[^\W\d][\w-]*)(?P<colon>\s*:)?"
    r"|(?P<comma>,)(?=\s*(?:[}\]]|\Z))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_MISSING_ENDS = ("", "}", "]}", "}}", "]}}")


def read_json(text: str) -> Any:
    """Parse JSON leniently. Raises ValueError.

    Accepts single quotes, trailing commas, bare keys, Python's True, False and None, line breaks and unknown escapes in
    strings, and missing brackets at the end.
    """
    try:
        return _loaded(text)
    except ValueError:
        repaired = _TOKEN.sub(_repaired, text)
    for end in _MISSING_ENDS:
        try:
            return _loaded(repaired + end)
        except ValueError:
            continue
    raise ValueError("This is no JSON")


def read_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object leniently; None if the text is not an object."""
    if not text.startswith("{"):
        return None
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_exact_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object without repairs; None if the text is not an object."""
    try:
        value = _loaded(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("This nests too deep") from None


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _repaired(token: re.Match[str]) -> str:
    if token["double"] is not None:
        return f'"{_ESCAPE.sub(_escape, token["double"])}"'
    if token["single"] is not None:
        inner = _ESCAPE.sub(_escape, token["single"])
        return '"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', inner) + '"'
    if token["word"] is not None:
        word = token["word"]
        return f'"{word}"{token["colon"]}' if token["colon"] else _WORDS.get(word, word)
    return "" if token["comma"] else token[0]


def _escape(escape: re.Match[str]) -> str:
    """Normalise an escape: valid JSON escapes are kept, other backslashes are escaped."""
    char = escape[1]
    if len(char) > 1 or char in '"\\/bfnrt':
        return escape[0]
    return char if char == "'" else f"\\\\{char}"


INNER_KEYS = ("arguments", "parameters", "args", "input")
"""Keys of the input in a complete call that a model has written into an input."""

_FENCE = re.compile(r"(`{3,}+|~{3,}+)[^\n`]*+\n")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#39|#34);")
_ELEMENT = re.compile(r"\s*<(?P<name>[\w-]+)>(?P<value>.*?)</(?P=name)>\s*", re.DOTALL)
_ASSIGNMENT = re.compile(
    r"\s*(?P<name>\w+)\s*="
    r"\s*(?P<value>\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|[\w.+-]+)\s*(?:,|\Z)",
    re.DOTALL,
)


def arguments_of(written: str, spec: ToolSpec | None, *, is_escaped: bool = False) -> str:
    """Parse an input as arguments, returned as JSON text; an unreadable input is returned unchanged.

    `spec` is None for an unknown tool; `is_escaped` means that the surrounding markup was written with entities.
    """
    text = _without_fence(_trimmed(written))
    found = None if is_escaped else read_object(text)
    if found is None:
        text = html.unescape(text) if is_escaped or _is_escaped(text) else text
        found = read_object(text)
    arguments = _read(text, found, spec)
    return well_formed(text if arguments is None else json.dumps(arguments, ensure_ascii=False))


def input_of(arguments: str, spec: ToolSpec | None) -> str:
    """Render arguments as input: plain text if `arguments_of` parses it back, otherwise JSON."""
    found = read_exact_object(arguments or "{}")
    if found is None:
        return quoted(arguments)
    text = "".join(found.values()) if all(isinstance(value, str) for value in found.values()) else ""
    if len(found) <= 1 and not has_markup(text) and read_exact_object(arguments_of(text, spec)) == found:
        return text
    return quoted_json(json.dumps(found, ensure_ascii=False))


def text_parameter(spec: ToolSpec) -> str | None:
    """The parameter for an input without names: the only one, or the only required one."""
    names, required = list(_properties(spec)), spec.parameters.get("required") or ()
    candidates = names if len(names) == 1 else [name for name in names if name in required]
    return candidates[0] if len(candidates) == 1 else None


def _read(text: str, found: dict[str, Any] | None, spec: ToolSpec | None) -> dict[str, Any] | None:
    """The arguments in a text; `found` is the object that the text was parsed as, if any."""
    if spec is None:
        return found if found is not None else {"input": text} if text else {}
    properties, name = _properties(spec), text_parameter(spec)
    if found is not None:
        found = _unwrapped(found, properties)
        if name is None or (found and found.keys() <= properties.keys()):
            return found
    if not text or not properties:
        return {}
    named = _elements(text, properties) or _assignments(text, properties) or _lines(text, properties)
    if named is not None or name is None:
        return named
    return {name: _value(text, properties[name])}


def _properties(spec: ToolSpec) -> Mapping[str, Any]:
    properties = spec.parameters.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _unwrapped(found: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments themselves, if the model wrote a complete call into its input."""
    for key in INNER_KEYS:
        inner = found.get(key)
        if key not in properties and isinstance(inner, dict) and found.keys() <= {key, "name", "tool"}:
            return inner
    return found


def _elements(text: str, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments written as elements, `<city>Paris</city>`."""
    found: dict[str, Any] = {}
    position = 0
    while position < len(text):
        match = _ELEMENT.match(text, position)
        if match is None or match["name"] not in properties:
            return None
        found[match["name"]] = _value(match["value"].strip(), properties[match["name"]])
        position = match.end()
    return found


def _assignments(text: str, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments written as assignments, `city="Paris", days=3`; a single parameter must be quoted."""
    found: dict[str, Any] = {}
    position = 0
    while position < len(text):
        match = _ASSIGNMENT.match(text, position)
        if match is None or match["name"] not in properties:
            return None
        found[match["name"]] = _value(_unquoted(match["value"]), properties[match["name"]])
        position = match.end()
    is_sure = len(properties) > 1 or text.rstrip().endswith(('"', "'"))
    return found if is_sure else None


def _lines(text: str, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments written one per line, `city: Paris`; a line without a name continues the previous value.

    With a single parameter, its name is recognised only if the text is one line.
    """
    lines = text.split("\n")
    if len(properties) == 1 and len(lines) > 1:
        return None
    names = {name.lower(): name for name in properties}
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        word, colon, rest = line.partition(":")
        name = names.get(word.strip(" \t-*\"'`").lower())
        if colon and name and name not in found:
            current = found[name] = [rest.strip()]
        elif current is None:
            return None
        else:
            current.append(line)
    return {name: _value(_joined(parts), properties[name]) for name, parts in found.items()}


def _joined(parts: Sequence[str]) -> str:
    """A single-line value without quotes, or a multi-line value, optionally after a bar as in YAML."""
    first, *others = parts
    if not others:
        return _unquoted(first.rstrip(","))
    return _trimmed("\n".join(others if first in {"", "|"} else parts))


def _unquoted(text: str) -> str:
    """A text without surrounding quotes."""
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        return text
    try:
        value = read_json(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def _value(text: str, schema: object) -> Any:
    """Convert a text according to its schema: unchanged for strings, otherwise parsed as JSON."""
    if _takes_text(schema):
        return text
    try:
        return read_json(text)
    except ValueError:
        return text


def _takes_text(schema: object) -> bool:
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return False
    kinds = schema.get("type")
    if kinds is not None:
        return "string" in ([kinds] if isinstance(kinds, str) else kinds)
    choices = [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]
    return any(map(_takes_text, choices)) if choices else True


def _trimmed(text: str) -> str:
    """Strip surrounding whitespace; common indentation of several lines is removed."""
    if "\n" not in text.strip():
        return text.strip()
    return dedent(re.sub(r"\A(?:[ \t]*\r?\n)+", "", text)).strip()


def _without_fence(text: str) -> str:
    """The content of a code block, if the whole text is one."""
    match = _FENCE.match(text)
    if match is None or not text.endswith(match[1]):
        return text
    return _trimmed(text[match.end() :].removesuffix(match[1]).rstrip(" \t").removesuffix("\n"))


def _is_escaped(text: str) -> bool:
    """Whether a text was escaped as a whole: it has entities, and no characters that would have been escaped."""
    bare = _ENTITY.sub("", text)
    return bare != text and not any(char in bare for char in "<>&")
