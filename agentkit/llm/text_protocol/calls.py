"""What does a call say that is written as text? Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentkit.llm.text_protocol import markup
from agentkit.llm.text_protocol.inputs import INNER_KEYS, arguments_of
from agentkit.llm.text_protocol.lenient import read_exact_object, read_json, read_object
from agentkit.messages import ToolCall

if TYPE_CHECKING:
    from agentkit.llm.text_protocol.markup import Tag
    from agentkit.messages import ToolSpec

Specs = Mapping[str, "ToolSpec"]
"""The tools that may be called, by name."""

_LAST_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*$\s*(?P<after>.*)", re.MULTILINE | re.DOTALL)
_NAMED_INPUT = re.compile(r"\s*(?P<name>[\w-]+)\s*(?::|\n)(?P<input>.*)", re.DOTALL)
_FUNCTION = re.compile(r"<function[=(](?P<name>[\w.-]+)\)?>?\s*(?=\{)")
_END_OF_FUNCTION = re.compile(r"\}\s*+>?(?:</function>|\Z)")
_TAGS = re.compile(r"</?[\w|-]+>")


def begins_call(tag: Tag | None, specs: Specs) -> bool:
    """Whether a tag begins a call: it is spelled with a colon, names a tool, or its input will name one."""
    if tag is None or tag.kind != "tool" or tag.is_end:
        return False
    return tag.is_strict or not tag.name or markup.known_name(tag.name, specs) is not None


class OpenCall:
    """A call whose input is still being written."""

    def __init__(self, tag: Tag, specs: Specs) -> None:
        self._is_line_start = True
        self._tag, self._specs = tag, specs
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        """The next piece of the input."""
        self._pieces.append(piece)
        _, end, line = piece.rpartition("\n")
        self._is_line_start = not line.strip() and (bool(end) or self._is_line_start)

    @property
    def may_end_here(self) -> bool:
        """Whether the next tag may end the call, which has no end of its own: on a new line, or for want of a name."""
        return self._is_line_start or not self._tag.name

    @property
    def written(self) -> str:
        """The call as it was written, but for its end."""
        return self._tag.text + "".join(self._pieces)

    def ended(self) -> ToolCall | None:
        """The call, without an id; None when there was none, because neither tag nor input name a tool."""
        return self._call("".join(self._pieces))

    def unended(self, *, in_fence: bool, is_cut: bool) -> ToolCall | None:
        """The call that the answer ended in; None when it was none, or only quoted.

        Where a token limit cut the answer, only a whole object counts as arguments. Anything else is marked as cut
        off, which is no JSON, so that the model is told: half a shell command must not run.
        """
        text = markup.without_cut_end("".join(self._pieces))
        fence = _LAST_FENCE.search(text) if in_fence else None
        if fence and fence["after"]:
            return None
        call = self._call(text[: fence.start()] if fence else text)
        if call is None or not is_cut or read_exact_object(text.strip()) is not None:
            return call
        return ToolCall("", call.name, f"{text.strip()} (cut off)")

    def _call(self, text: str) -> ToolCall | None:
        name, attributes = self._tag.name, self._tag.attributes
        if not name:
            found = _named(text, self._specs)
            if found is None:
                return None
            name, text = found
        if attributes and not text.strip():
            text = json.dumps(attributes, ensure_ascii=False)
        name = markup.known_name(name, self._specs) or name
        return ToolCall("", name, arguments_of(text, self._specs.get(name), is_escaped=self._tag.is_escaped))


def attempted_calls(text: str) -> tuple[ToolCall, ...]:
    """The calls, without ids, in a model's text that its server could not parse as a call; empty when there are none.

    Written as JSON of one call or a list of them, perhaps between tags, or as `<function=NAME>{…}</function>`.
    """
    if found := tuple(_functions(text)):
        return found
    try:
        value = read_json(_TAGS.sub("", text).strip())
    except ValueError:
        return ()
    given = value.get("tool_calls", value) if isinstance(value, dict) else value
    calls = [_call_in(entry) for entry in (given if isinstance(given, list) else [given])]
    return tuple(call for call in calls if call is not None) if all(calls) else ()


def _functions(text: str) -> Iterator[ToolCall]:
    """The calls between `<function=NAME>` and the next end, each end looked for once: a text may begin thousands."""
    ends = _END_OF_FUNCTION.finditer(text)
    end = next(ends, None)
    place = 0
    for begun in _FUNCTION.finditer(text):
        while end is not None and end.start() < begun.end():
            end = next(ends, None)
        if end is not None and begun.start() >= place:
            place = end.end()
            yield ToolCall("", begun["name"], text[begun.end() : end.start() + 1])


def _call_in(entry: object) -> ToolCall | None:
    fields = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        return None
    return ToolCall("", fields["name"], _inner_input(fields))


def _inner_input(fields: Mapping[str, Any]) -> str:
    """The input in an object that names a tool."""
    given: Any = next((fields[key] for key in INNER_KEYS if key in fields), {})
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _named(text: str, specs: Specs) -> tuple[str, str] | None:
    """Name and input of a call whose tag has no name: as an object, or the name before the input."""
    found = read_object(text.strip())
    if found is not None and isinstance(found.get("name"), str):
        return found["name"], _inner_input(found)
    match = _NAMED_INPUT.fullmatch(text)
    name = markup.known_name(match["name"], specs) if match else None
    return (name, match["input"]) if match and name else None
