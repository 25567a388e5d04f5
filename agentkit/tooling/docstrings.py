"""Descriptions and types of parameters in docstrings."""

from __future__ import annotations

import functools
import operator
import re
import textwrap
import types
from collections.abc import Collection
from typing import Any

from agentkit.text_encoding import lazy_pattern

_PARAMETERS = r"Args|Arguments|Parameters|Params|Keyword [Aa]rg(?:ument)?s|Other [Pp]arameters|Attributes"
_OTHER_SECTIONS = r"Returns?|Yields?|Raises|Examples?|Notes?|Usage|See Also|References|Warnings?|Todo|Side Effects"
_HEADING = r"^(?P<indent>[ \t]*)(?:#+[ ]*(?:{0}):?|\*\*(?:{0}):?\*\*:?|(?:{0}):)[ \t]*$"
_FIRST_HEADING = lazy_pattern(_HEADING.format(rf"{_PARAMETERS}|Returns?|Yields?|Raises|Examples?"), re.MULTILINE)
_RETURNS_HEADING = lazy_pattern(_HEADING.format(r"Returns?|Yields?"), re.MULTILINE)
_PARAMETER_HEADING = lazy_pattern(_HEADING.format(_PARAMETERS), re.MULTILINE)
_ANY_HEADING = lazy_pattern(_HEADING.format(f"{_PARAMETERS}|{_OTHER_SECTIONS}"), re.MULTILINE)
_UNKNOWN_HEADING = lazy_pattern(
    r"^(?P<indent>[ \t]*)(?:#+[ ]*|\*\*)?[^\n:\uff1a]{1,40}(?:\*\*)?[:\uff1a](?:\*\*)?[ \t]*$", re.MULTILINE
)
_UNDERLINED = lazy_pattern(
    r"^(?P<indent>[ \t]*)(?P<name>(?:Other )?Parameters|Attributes|Returns|Raises|Examples|Notes):?[ \t]*\n"
    r"[ \t]*[-=~]{3,}[ \t]*$",
    re.MULTILINE,
)
_UNDERLINED_ARGS = lazy_pattern(r"^(?P<indent>[ \t]*)Arg(?:ument)?s:?[ \t]*\n[ \t]*[-=~]{3,}[ \t]*$", re.MULTILINE)
_INLINE_ENTRY = lazy_pattern(rf"^(?P<indent>[ \t]*)(?P<heading>(?:{_PARAMETERS}):)[ \t]+(?P<entry>\S.*)$", re.MULTILINE)
_WRAPPED_ENTRY = lazy_pattern(
    r"^[ \t]*+(?:[-*+][ ]++)?[`*]*+\w[\w`*]*+[ ]*+(?:\n[ \t]++)?"
    r"\((?:[^()]++|\([^()]*+\))*+\)[`*]*+[ ]*+(?:\n[ \t]++)?:",
    re.MULTILINE,
)
_NAMED = lazy_pattern(r"^:(\w+):(?=\s)", re.MULTILINE)
_ROLE = lazy_pattern(r"^(?=:[\w.+:-]+:`)", re.MULTILINE)
_FIELD = lazy_pattern(r"^[:@][a-z]+\b[^:\n]*:", re.MULTILINE)
_TRAILING_TEXT = lazy_pattern(r"\n[ \t]*\n(?=\S)")
_PARAM_WITHOUT_COLON = lazy_pattern(r"^[ \t]*@param[ \t]+\w+(?=[ \t]+[^:\s])", re.MULTILINE)
_ENTRY = lazy_pattern(
    r"""(?P<indent>[ \t]*+)(?:[-*+][ ]++)?
    (?P<names>[`*]*+\w[\w`*]*+(?:[ ]*+,[ ]*+[`*]*+\w[\w`*]*+)*+)[ ]*+
    (?:\((?:[^()]++|\([^()]*+\))*+\)|\{[^}]*+\}|<[^>]*+>|\[[^\]]*+\])?[`*]*+[ ]*+
    (?::|\uff1a|--|(?<=[ ])[-\u2013\u2014][ ])(?P<text>.*)""",
    re.VERBOSE,
)
_NEXT_TEXT = lazy_pattern(r"\n*+(?P<line>[^\n]*+)")
_LINE = lazy_pattern(r"\n(?P<line>[^\n]*+)")


def normalise(docstring: str, names: Collection[str] = ()) -> str:
    """Normalise the headings and fields of a docstring.

    Underlines below a heading become `---`, and `:name:` becomes `:param name:` for these names.
    """
    if any(rule in docstring for rule in ("---", "===", "~~~")):
        docstring = _UNDERLINED.sub(_underline, docstring)
        docstring = _UNDERLINED_ARGS.sub(r"\g<indent>Args:", docstring) if "Arg" in docstring else docstring
    if "\n:" in docstring and ":param" not in docstring:
        docstring = _NAMED.sub(lambda found: f":param {found[1]}:" if found[1] in names else found[0], docstring)
    return _PARAM_WITHOUT_COLON.sub(r"\g<0>:", docstring) if "@param" in docstring else docstring


def with_fields_last(docstring: str) -> str:
    """Move text that follows the last field, such as `:param x:`, in front of the fields.

    It would otherwise be read as part of the parameter. Roles such as `:func:` at the start of a line are not fields.
    Directives after the fields, such as version notes, are dropped.
    """
    docstring = _ROLE.sub(" ", docstring) if ":`" in docstring else docstring
    if not _TRAILING_TEXT.search(docstring, max(docstring.rfind("\n:"), docstring.rfind("\n@")) + 1):
        return docstring
    fields = list(_FIELD.finditer(docstring))
    is_about = bool(fields) and not fields[-1][0][1:].startswith(("return", "rtype", "raise"))
    trailing = _TRAILING_TEXT.search(docstring, fields[-1].start()) if is_about else None
    if trailing is None:
        return docstring
    start, end = fields[0].start(), trailing.start()
    text = "" if docstring[trailing.end() :].startswith("..") else docstring[trailing.start() :].strip()
    return f"{docstring[:start].rstrip()}\n\n{text}\n\n{docstring[start:end]}"


def _underline(heading: re.Match[str]) -> str:
    return f"{heading['indent']}{heading['name']}\n{heading['indent']}{'-' * len(heading['name'])}"


def _entry_below_heading(found: re.Match[str], names: Collection[str]) -> str:
    """Move an entry on the line of its heading, if it names a parameter, to an indented line below."""
    entry = _ENTRY.fullmatch(found["entry"])
    if entry is None or not {*names} & {*re.findall(r"\w+", entry["names"])}:
        return found[0]
    next_line = _NEXT_TEXT.match(found.string, found.end())
    line = next_line["line"] if next_line else ""
    indent = line[: len(line) - len(line.lstrip())]
    deeper = indent if len(indent) > len(found["indent"]) else f"{found['indent']}    "
    return f"{found['indent']}{found['heading']}\n{deeper}{found['entry']}"


def split_docstring(docstring: str, names: Collection[str] = ()) -> tuple[str, dict[str, str]]:
    """Split a docstring into the text before the first heading and the descriptions of parameters.

    Entries are written `name: text`, `name (type): text`, `name {type} -- text` or `- name: text`, with several names
    separated by commas. A line in any wording or language counts as a heading if the first entry below has one of the
    names that is not described elsewhere. The first entry can be on the line of the heading, and a type can be broken
    over lines. A docstring without headings is all text.
    """
    if "\n" not in docstring:
        return docstring, {}
    found = _split(docstring, names)
    if all(name in found[1] for name in names):
        return found
    rewritten = _INLINE_ENTRY.sub(lambda heading: _entry_below_heading(heading, names), docstring)
    rewritten = _WRAPPED_ENTRY.sub(lambda entry: re.sub(r"\s*\n\s*", " ", entry[0]), rewritten)
    return found if rewritten == docstring else _split(rewritten, names)


def returns_section(docstring: str) -> str:
    """Return the `Returns:` section of a docstring in one line, or an empty string."""
    docstring = normalise(docstring)
    heading = _RETURNS_HEADING.search(docstring)
    if heading is None:
        return ""
    following = _ANY_HEADING.search(docstring, heading.end())
    return " ".join(docstring[heading.end() : None if following is None else following.start()].strip("- \n").split())


def _split(docstring: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    first = _FIRST_HEADING.search(docstring)
    headings = [*_PARAMETER_HEADING.finditer(docstring, first.start())] if first else []
    headings = [heading for heading in headings if len(heading["indent"]) <= len(headings[0]["indent"])]
    entries = {name: text for heading in headings for name, text in _entries(docstring, heading).items()}
    undescribed = {*names} - entries.keys()
    first_unknown = _find_heading(docstring, undescribed) if undescribed else None
    if first_unknown is not None and not (headings and first_unknown.start() > headings[0].start()):
        entries = {**_entries(docstring, first_unknown), **entries}
        first = first_unknown if first is None or first_unknown.start() < first.start() else first
    return (docstring, {}) if first is None else (docstring[: first.start()].strip(), entries)


def _find_heading(docstring: str, names: set[str]) -> re.Match[str] | None:
    """Return the first line that looks like a heading and is followed by an entry for one of the names."""
    for heading in _UNKNOWN_HEADING.finditer(docstring):
        next_line = _NEXT_TEXT.match(docstring, heading.end())
        entry = _ENTRY.fullmatch(next_line["line"]) if next_line else None
        if entry and names & {*re.findall(r"\w+", entry["names"])}:
            return heading
    return None


def _entries(docstring: str, heading: re.Match[str]) -> dict[str, str]:
    """The descriptions of the parameters below a heading, by name."""
    lines: list[str] = []
    entries: list[tuple[list[str], list[str]]] = []
    outermost = -1
    for line in (each["line"] for each in _LINE.finditer(docstring, heading.end())):
        if not line.strip():
            lines.append("")
            continue
        indent = len(line) - len(line.lstrip())
        outermost = indent if outermost < 0 else outermost
        entry = _ENTRY.fullmatch(line) if indent == outermost else None
        is_other = indent <= outermost and _ANY_HEADING.fullmatch(line)
        if indent < outermost or (entry is None and indent <= len(heading["indent"])) or is_other:
            break
        if entry is None and not (indent == outermost and lines[-1:] == [""] and line.rstrip().endswith(":")):
            lines.append(line)
            continue
        # a line that groups the entries below it, like a heading, describes none of them
        names, lines = (re.findall(r"\w+", entry["names"]), [entry["text"].strip()]) if entry else ([], [])
        entries.append((names, lines))
    texts = (
        (names, [lines[0], textwrap.dedent("\n".join(lines[1:])).lstrip(" ")]) for names, lines in entries if names
    )
    return {name: "\n".join(text).strip() for names, text in texts for name in names}


_MAX_CHARS = 80
_DOCUMENTED_TYPE = lazy_pattern(
    rf"""^[ \t]*+(?:
    (?:[-*+][ ]++)?[`*]*+(?P<entry>\w++)[`*]*+[ ]*+
        [(<{{](?P<bracketed>[^()<>\n]{{1,{_MAX_CHARS}}})[)>}}][`*]*+[ ]*+(?::|--)
    | (?P<spaced>\w++)[ ]*+:[ ](?P<after>[^\n:.]{{1,{_MAX_CHARS}}})$
    | [:@]type[ ]++(?P<field>\w++):[ ]*+(?P<type>[^\n]{{1,{_MAX_CHARS}}})$
    | :param[ ]++(?P<before>[^\n:]{{1,{_MAX_CHARS}}}?)[ ]++(?P<named>\w++):
    )""",
    re.MULTILINE | re.VERBOSE,
)
_TYPE_GROUPS = (("entry", "bracketed"), ("spaced", "after"), ("field", "type"), ("named", "before"))
_TYPE_NOTE = lazy_pattern(r"[,;]?\s*\b(?:optional\b(?!\[)|required\b|default).*$", re.IGNORECASE)
_CHOICES = lazy_pattern(r"\s*\|\s*|\s+or\s+|,\s*(?:or\s+)?(?![^\[]*\])")
_LIST = lazy_pattern(r"(?:list|array|sequence)(?: of |\[)(?P<inner>[\w| ]+)\]?", re.IGNORECASE)
_OPTIONAL = lazy_pattern(r"(?:typing\.)?(?P<kind>Optional|Union)\[(?P<inner>.+)\]")
_DICT = lazy_pattern(r"(?:dict|mapping)\[.+\]", re.IGNORECASE)
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("str", "string", "strings", "text"), str),
    **dict.fromkeys(("int", "ints", "integer", "integers"), int),
    **dict.fromkeys(("float", "floats"), float),
    **dict.fromkeys(("number", "numbers"), int | float),
    **dict.fromkeys(("bool", "bools", "boolean", "booleans"), bool),
    **dict.fromkeys(("list", "array"), list),
    **dict.fromkeys(("dict", "dicts", "dictionary", "dictionaries"), dict),
    **dict.fromkeys(("none", "null"), types.NoneType),
}


def documented_types(docstring: str) -> dict[str, Any]:
    """Return the JSON types that a docstring states for parameters, by name.

    Understands `limit (int, optional): ...`, `limit : int`, `:type limit: int`, `:param int limit:` and `@type limit:
    int`; a parameter with two different types is left out.
    """
    found: dict[str, set[Any]] = {}
    for match in _DOCUMENTED_TYPE.finditer(docstring):
        name, kind_text = next((match[name], match[kind_text]) for name, kind_text in _TYPE_GROUPS if match[name])
        found.setdefault(name, set()).add(parse_type(kind_text))
    return {name: kind for name, (kind, *others) in found.items() if kind not in (None, types.NoneType) and not others}


def parse_type(text: str) -> Any:
    """Parse a type such as `str, optional`, `list of int` or `int or None`; None for any other text."""
    text = _TYPE_NOTE.sub("", text.strip().strip("`*")).strip()
    optional = _OPTIONAL.fullmatch(text)
    if optional is not None:
        kinds = [parse_type(part) for part in _CHOICES.split(optional["inner"])]
        return _union([*kinds, *([types.NoneType] if optional["kind"] == "Optional" else [])])
    parts = _CHOICES.split(text)
    if len(parts) > 1:
        return _union([parse_type(part) for part in parts])
    entries = _LIST.fullmatch(text)
    if entries is not None:
        inner = parse_type(entries["inner"])
        return None if inner is None else types.GenericAlias(list, (inner,))
    return dict if _DICT.fullmatch(text) else _TYPES.get(text.lower())


def _union(kinds: list[Any]) -> Any:
    return None if None in kinds else functools.reduce(operator.or_, kinds)
