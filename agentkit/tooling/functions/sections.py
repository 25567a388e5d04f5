"""What does a docstring with headings say of the function, and of each of its parameters?"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator

_PARAMETERS = r"Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Attributes"
_OTHERS = r"Returns?|Yields?|Raises|Examples?|Notes?|Usage|See Also|References|Warnings?|Todo|Side Effects"
_HEADING = r"^(?P<indent>[ \t]*)(?:#+[ ]*(?:{0}):?|\*\*(?:{0}):?\*\*:?|(?:{0}):)[ \t]*$"
_START = re.compile(_HEADING.format(rf"{_PARAMETERS}|Returns?|Yields?|Raises|Examples?"), re.MULTILINE)
_ABOUT = re.compile(_HEADING.format(_PARAMETERS), re.MULTILINE)
_ANY = re.compile(_HEADING.format(f"{_PARAMETERS}|{_OTHERS}"), re.MULTILINE)
_WORDS = re.compile(
    r"^(?P<indent>[ \t]*)(?:#+[ ]*|\*\*)?[^\n:\uff1a]{1,40}(?:\*\*)?[:\uff1a](?:\*\*)?[ \t]*$", re.MULTILINE
)
_RULED = re.compile(
    r"^(?P<indent>[ \t]*)(?P<name>(?:Other )?Parameters|Attributes|Returns|Raises|Examples|Notes):?[ \t]*\n"
    r"[ \t]*[-=~]{3,}[ \t]*$",
    re.MULTILINE,
)
_RULED_ARGS = re.compile(r"^(?P<indent>[ \t]*)Arg(?:ument)?s:?[ \t]*\n[ \t]*[-=~]{3,}[ \t]*$", re.MULTILINE)
_UNPARTED = re.compile(r"^[ \t]*@param[ \t]+\w+(?=[ \t]+[^:\s])", re.MULTILINE)
_ENTRY = re.compile(
    r"""(?P<indent>[ \t]*+)(?:[-*+][ ]++)?
    (?P<names>[`*]*+\w[\w`*]*+(?:[ ]*+,[ ]*+[`*]*+\w[\w`*]*+)*+)[ ]*+
    (?:\((?:[^()]++|\([^()]*+\))*+\)|\{[^}]*+\}|<[^>]*+>|\[[^\]]*+\])?[`*]*+[ ]*+
    (?::|\uff1a|--|(?<=[ ])[-\u2013\u2014][ ])(?P<text>.*)""",
    re.VERBOSE,
)
_NEXT_TEXT = re.compile(r"\n*+(?P<line>[^\n]*+)")
_LINE = re.compile(r"\n(?P<line>[^\n]*+)")


def usual(docstring: str) -> str:
    """The docstring with headings and entries as they are usually written: nothing but `---` below a heading."""
    if any(rule in docstring for rule in ("---", "===", "~~~")):
        docstring = _RULED.sub(_ruled, docstring)
        docstring = _RULED_ARGS.sub(r"\g<indent>Args:", docstring) if "Arg" in docstring else docstring
    return _UNPARTED.sub(r"\g<0>:", docstring) if "@param" in docstring else docstring


def _ruled(heading: re.Match[str]) -> str:
    return f"{heading['indent']}{heading['name']}\n{heading['indent']}{'-' * len(heading['name'])}"


def described(docstring: str, names: Collection[str] = ()) -> tuple[str, dict[str, str]]:
    """What stands before the first heading, and the text of each parameter named below such as `Args:`.

    Entries are written `name: text`, `name (type): text`, `name {type} -- text` or `- name: text`, several names
    parted by commas. Whatever its word or language, a heading is one when the first entry below has one of the names.
    A docstring without headings is all text.
    """
    first = _START.search(docstring)
    if first is None or not _ABOUT.search(docstring):
        own = _own_heading(docstring, names)
        if own is not None:
            before = min(own.start(), first.start() if first else own.start())
            return docstring[:before].strip(), dict(_entries(docstring, own))
    if first is None:
        return docstring, {}
    entries = {name: text for heading in _ABOUT.finditer(docstring) for name, text in _entries(docstring, heading)}
    return docstring[: first.start()].strip(), entries


def _own_heading(docstring: str, names: Collection[str]) -> re.Match[str] | None:
    """The first line that ends like a heading and is followed by what is said of one of the names."""
    wanted = {*names}
    for heading in _WORDS.finditer(docstring):
        below = _NEXT_TEXT.match(docstring, heading.end())
        entry = _ENTRY.fullmatch(below["line"]) if below else None
        if entry and wanted & {*re.findall(r"\w+", entry["names"])}:
            return heading
    return None


def _entries(docstring: str, heading: re.Match[str]) -> Iterator[tuple[str, str]]:
    names: list[str] = []
    lines: list[str] = []
    outermost = -1
    for line in (each["line"] for each in _LINE.finditer(docstring, heading.end())):
        if not line.strip():
            lines.append("")
            continue
        indent = len(line) - len(line.lstrip())
        outermost = indent if outermost < 0 else outermost
        entry = _ENTRY.fullmatch(line) if indent == outermost else None
        is_over = indent < outermost or (entry is None and indent <= len(heading["indent"])) or _ANY.fullmatch(line)
        if is_over:
            break
        if entry is None:
            lines.append(line)
            continue
        yield from _told(names, lines)
        names, lines = re.findall(r"\w+", entry["names"]), [entry["text"].strip()]
    yield from _told(names, lines)


def _told(names: list[str], lines: list[str]) -> Iterator[tuple[str, str]]:
    if names:
        more = textwrap.dedent("\n".join(lines[1:]))
        text = f"{lines[0]}\n{more.lstrip(' ')}".strip()
        yield from ((name, text) for name in names)
