"""What does a docstring with headings say of the function, and of each of its parameters?"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

_PARAMETERS = r"Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters"
_OTHERS = r"Returns?|Yields?|Raises|Examples?|Notes?|Usage|See Also|References|Warnings?|Todo|Attributes|Side Effects"
_HEADING = r"^(?P<indent>[ \t]*)(?:#+[ ]*(?:{0}):?|\*\*(?:{0}):?\*\*:?|(?:{0}):)[ \t]*$"
_START = re.compile(_HEADING.format(rf"{_PARAMETERS}|Returns?|Yields?|Raises|Examples?"), re.MULTILINE)
_ABOUT = re.compile(_HEADING.format(_PARAMETERS), re.MULTILINE)
_ANY = re.compile(_HEADING.format(f"{_PARAMETERS}|{_OTHERS}"), re.MULTILINE)
_ENTRY = re.compile(
    r"""(?P<indent>[ \t]*)(?:[-*+][ ]+)?
    (?P<names>[`*]*\w[\w`*]*(?:[ ]*,[ ]*[`*]*\w[\w`*]*)*)[ ]*
    (?:\((?:[^()]|\([^()]*\))*\)|\{[^}]*\})?[`*]*[ ]*
    (?::|--|[ ][-\u2013\u2014][ ])(?P<text>.*)""",
    re.VERBOSE,
)


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """What stands before the first heading, and the text of each parameter named below such as `Args:`.

    Entries are written `name: text`, `name (type): text`, `name {type} -- text` or `- name: text`, several names
    parted by commas. A docstring without headings is all text.
    """
    first = _START.search(docstring)
    if first is None:
        return docstring, {}
    entries = {name: text for heading in _ABOUT.finditer(docstring) for name, text in _entries(docstring, heading)}
    return docstring[: first.start()].strip(), entries


def _entries(docstring: str, heading: re.Match[str]) -> Iterator[tuple[str, str]]:
    names: list[str] = []
    lines: list[str] = []
    outermost = -1
    for line in docstring[heading.end() + 1 :].splitlines():
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
