"""The markup of tool calls in text, and its common misspellings (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal

from agentkit._dataclass import dataclass

Kind = Literal["tool", "result", "thinking"]

_KINDS: Mapping[str, Kind] = {
    "tool": "tool",
    "tool_call": "tool",
    "result": "result",
    "tool_result": "result",
    "tool_response": "result",
    "think": "thinking",
    "thinking": "thinking",
}
"""Tag names: agentkit's own, those that models were trained on, and those around reasoning."""

_MOST_CHARS = 240
_QUOTED_BRACKET = "\u2039"
_SPELLINGS = f"(?a:{'|'.join(sorted(_KINDS, key=len, reverse=True))})"
"""Case-insensitive for ASCII letters only: the long s does not match s."""

_TAG = re.compile(
    rf"(?P<start><|&lt;)[ \t]{{0,3}}(?P<slash>/?)[ \t]{{0,3}}(?P<word>{_SPELLINGS})(?![\w-])"
    r"(?P<rest>[^<>\n]{0,200}?)(?P<empty>/?)[ \t]{0,3}(?:>|&gt;)",
    re.IGNORECASE,
)
_BEGUN = re.compile(r"(?:<|&lt;)[ \t]{0,3}/?[ \t]{0,3}(?P<word>\w*)(?P<rest>[^<>\n]*)", re.IGNORECASE)
_CUT_CALL = re.compile(r"(?:<|&lt;)[ \t]{0,3}TOOL[ \t]{0,3}:[^<>\n]*", re.IGNORECASE)
_CUT_END = re.compile(r"(?:<|&lt;)[ \t]{0,3}/[ \t]{0,3}(?:t|to|too|tool[^<>\n]{0,99})?\Z", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w-]+)[ \t]*=[ \t]*(?:\"([^\"]*)\"|'([^']*)')")
_OCCURRENCE = re.compile(rf"(?:<|&lt;)(?=[ \t]{{0,3}}/?[ \t]{{0,3}}(?:{_SPELLINGS})(?![\w-]))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag in the text; `text` is its original spelling.

    `is_strict` means that the spelling is unambiguous; `is_escaped` means that its brackets are HTML entities.
    """

    text: str
    kind: Kind
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    is_end: bool = False
    is_empty: bool = False
    is_strict: bool = False
    is_escaped: bool = False

    @property
    def ends_input(self) -> bool:
        """Whether the tag ends the input that contains it; some models omit the slash."""
        is_bare = not self.name and not self.is_strict and "call" not in self.text.lower()
        return self.kind == "tool" and (self.is_end or is_bare)


def tag_at_start(text: str) -> Tag | None:
    """The tag at the start of `text`, if any."""
    match = _TAG.match(text)
    if match is None:
        return None
    kind, rest = _KINDS[match["word"].lower()], match["rest"]
    name, attributes = _read(rest)
    is_named = rest.lstrip().startswith(":")
    is_empty = bool(match["empty"])
    return Tag(
        text=match[0],
        kind=kind,
        name=name,
        attributes=attributes,
        is_end=bool(match["slash"]) or (is_empty and kind == "tool" and not rest.strip()),
        is_empty=is_empty,
        is_strict=is_named or match["word"] == "RESULT",
        is_escaped=match["start"] != "<",
    )


def _read(rest: str) -> tuple[str, dict[str, str]]:
    """The name in a tag, and its attributes."""
    attributes = {name: double or single for name, double, single in _ATTRIBUTE.findall(rest)}
    name = _ATTRIBUTE.sub("", rest).strip(" \t:=\"'`/")
    return (name or attributes.pop("name", "")), attributes


def may_become_tag(text: str) -> bool:
    """Whether `text`, which starts with `<` or `&`, could become a tag with the next delta."""
    if "&lt;".startswith(text.lower()):
        return True
    match = _BEGUN.fullmatch(text) if len(text) <= _MOST_CHARS else None
    if match is None:
        return False
    word = match["word"].lower()
    return word in _KINDS or (not match["rest"] and any(spelling.startswith(word) for spelling in _KINDS))


def is_cut_call(text: str) -> bool:
    """Whether a response that ends with `text` was cut inside the opening tag of a call."""
    return bool(_CUT_CALL.fullmatch(text))


def without_cut_end(text: str) -> str:
    """An input without an incomplete closing tag at its end."""
    return _CUT_END.sub("", text)


def known_name(name: str, names: Iterable[str]) -> str | None:
    """Match a name as written by a model to one of `names`, ignoring case and punctuation."""
    return next((each for each in names if each == name or _folded(each) == _folded(name)), None)


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def has_markup(text: str) -> bool:
    """Whether `text` contains something that looks like markup."""
    return bool(_OCCURRENCE.search(text))


def quoted(text: str) -> str:
    """Escape `text` so that it contains no markup, not even when a model repeats it."""
    return _OCCURRENCE.sub(_QUOTED_BRACKET, text)


def quoted_json(text: str) -> str:
    """The same JSON value without markup: the bracket is written as a Unicode escape."""
    return _OCCURRENCE.sub(lambda match: f"\\u{ord(match[0][0]):04x}{match[0][1:]}", text)
