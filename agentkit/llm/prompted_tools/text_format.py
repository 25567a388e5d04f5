"""Tool calls as text: tags and their misspellings, arguments, and requests with tools as text (pure)."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal

from agentkit._dataclass import dataclass
from agentkit.llm.request_settings import OF_TOOLS
from agentkit.messages import AssistantMessage, Message, Request, ToolMessage, UserMessage, parts_of, well_formed
from agentkit.text_encoding import split_lines

if TYPE_CHECKING:
    from agentkit.messages import Content, OutputSchema, ToolSpec


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

_MAX_CHARS = 240
_ESCAPED_BRACKET = "\u2039"
_TAG_NAMES = f"(?a:{'|'.join(sorted(_KINDS, key=len, reverse=True))})"
"""Case-insensitive for ASCII letters only: the long s does not match s."""

_TAG = re.compile(
    rf"(?P<start><|&lt;)[ \t]{{0,3}}(?P<slash>/?)[ \t]{{0,3}}(?P<word>{_TAG_NAMES})(?![\w-])"
    r"(?P<rest>[^<>\n]{0,200}?)(?P<empty>/?)[ \t]{0,3}(?:>|&gt;)",
    re.IGNORECASE,
)
_TAG_START = re.compile(r"(?:<|&lt;)[ \t]{0,3}/?[ \t]{0,3}(?P<word>\w*)(?P<rest>[^<>\n]*)", re.IGNORECASE)
_CUT_OPENING_TAG = re.compile(r"(?:<|&lt;)[ \t]{0,3}TOOL[ \t]{0,3}:[^<>\n]*", re.IGNORECASE)
_CUT_CLOSING_TAG = re.compile(r"(?:<|&lt;)[ \t]{0,3}/[ \t]{0,3}(?:t|to|too|tool[^<>\n]{0,99})?\Z", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w-]+)[ \t]*=[ \t]*(?:\"([^\"]*)\"|'([^']*)')")
_TAG_BRACKET = re.compile(rf"(?:<|&lt;)(?=[ \t]{{0,3}}/?[ \t]{{0,3}}(?:{_TAG_NAMES})(?![\w-]))", re.IGNORECASE)


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
    name, attributes = _name_and_attributes(rest)
    has_colon = rest.lstrip().startswith(":")
    is_empty = bool(match["empty"])
    return Tag(
        text=match[0],
        kind=kind,
        name=name,
        attributes=attributes,
        is_end=bool(match["slash"]) or (is_empty and kind == "tool" and not rest.strip()),
        is_empty=is_empty,
        is_strict=has_colon or match["word"] == "RESULT",
        is_escaped=match["start"] != "<",
    )


def _name_and_attributes(rest: str) -> tuple[str, dict[str, str]]:
    """The name in a tag, and its attributes."""
    attributes = {name: double or single for name, double, single in _ATTRIBUTE.findall(rest)}
    name = _ATTRIBUTE.sub("", rest).strip(" \t:=\"'`/")
    return (name or attributes.pop("name", "")), attributes


def may_become_tag(text: str) -> bool:
    """Whether `text`, which starts with `<` or `&`, could become a tag with the next delta."""
    if "&lt;".startswith(text.lower()):
        return True
    match = _TAG_START.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        return False
    word = match["word"].lower()
    return word in _KINDS or (not match["rest"] and any(spelling.startswith(word) for spelling in _KINDS))


def is_cut_call(text: str) -> bool:
    """Whether a response that ends with `text` was cut inside the opening tag of a call."""
    return bool(_CUT_OPENING_TAG.fullmatch(text))


def strip_cut_end(text: str) -> str:
    """An input without an incomplete closing tag at its end."""
    return _CUT_CLOSING_TAG.sub("", text)


def known_name(name: str, names: Iterable[str]) -> str | None:
    """Match a name as written by a model to one of `names`, ignoring case and punctuation."""
    return next((each for each in names if each == name or _normalise_name(each) == _normalise_name(name)), None)


def _normalise_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def has_markup(text: str) -> bool:
    """Whether `text` contains something that looks like markup."""
    return bool(_TAG_BRACKET.search(text))


def escape_markup(text: str) -> str:
    """Escape `text` so that it contains no markup, not even when a model repeats it."""
    return _TAG_BRACKET.sub(_ESCAPED_BRACKET, text)


def escape_markup_in_json(text: str) -> str:
    """The same JSON value without markup: the bracket is written as a Unicode escape."""
    return _TAG_BRACKET.sub(lambda match: f"\\u{ord(match[0][0]):04x}{match[0][1:]}", text)


STOP = "<RESULT"
"""Stop sequence: anything after it would be an invented result."""

_MAX_STOPS = 4

_PROTOCOL = """\
# Tools

You can use the tools below. To use one, write this, exactly so and not in a code block:

<TOOL: NAME>input</TOOL>

Then stop writing. The next message contains the result, as <RESULT: NAME>…</RESULT>. Never write a RESULT \
yourself. {several} When you need no tool, just answer, without any TOOL.

The tools:

{tools}"""

_PARALLEL_RULE = "You may use several tools at once, one after the other."
_SINGLE_RULE = "Use one tool at a time."

_NO_TOOLS = "Tools cannot be used now: answer from what you know and from the results so far, without any TOOL."

_SCHEMA = """\
# Answer

Your {answer} must be one JSON value that fits this JSON schema, with no code block and no words before or after it:

{schema}"""


def has_tools(request: Request) -> bool:
    """Whether a request has tools, or tool calls and results in its history."""
    return bool(request.tools) or any(
        isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls)
        for message in request.messages
    )


def is_single(request: Request) -> bool:
    """Whether the request allows at most one call per response."""
    return request.settings.get("parallel_tool_calls") is False


def tools_as_text(request: Request) -> Request:
    """The request without tools: described in the instruction, with calls and results in the history as text.

    Hosted tools remain.
    """
    hosted = tuple(spec for spec in request.tools if spec.hosted is not None)
    request = replace(request, tools=tuple(spec for spec in request.tools if spec.hosted is None))
    specs = {spec.name: spec for spec in request.tools}
    parts = [request.instruction, _tools_part(request)]
    return replace(
        request,
        messages=_join_user_messages(
            [_message_as_text(message, specs) for message in _with_tool_names(request.messages)]
        ),
        instruction="\n\n".join(filter(None, parts)),
        tools=hosted,
        settings=_settings(request.settings),
    )


def schema_as_text(request: Request, output: OutputSchema) -> Request:
    """The request without its output schema, which is described in the instruction instead."""
    part = _schema_part(output, has_tools=bool(request.tools))
    instruction = "\n\n".join(filter(None, [request.instruction, part]))
    return replace(request, instruction=instruction, output_schema=None)


def _schema_part(output: OutputSchema, *, has_tools: bool) -> str:
    answer = "final answer, the one without a TOOL," if has_tools else "answer"
    return _SCHEMA.format(answer=answer, schema=json.dumps(output.schema, ensure_ascii=False))


def _tools_part(request: Request) -> str:
    choice = request.settings.get("tool_choice", "auto")
    if not request.tools or choice == "none":
        return _NO_TOOLS
    parallel_rule = _SINGLE_RULE if is_single(request) else _PARALLEL_RULE
    text = _PROTOCOL.format(several=parallel_rule, tools="\n".join(map(_describe_tool, request.tools)))
    if choice == "auto":
        return text
    name = choice if isinstance(choice, str) and choice != "required" else ""
    return f"{text}\n\nYou must use {f'the tool {name}' if name else 'a tool'} now."


def _describe_tool(spec: ToolSpec) -> str:
    """Describe a tool and its input for the instruction."""
    description = "\n  ".join(line for line in split_lines(spec.description) if line.strip())
    return f"- {spec.name}: {description}\n  {_describe_input(spec)}"


def _describe_input(spec: ToolSpec) -> str:
    properties: Mapping[str, Any] = spec.parameters.get("properties") or {}
    if not properties:
        return f"Input: none. <TOOL: {spec.name}></TOOL>"
    schema = json.dumps(spec.parameters, ensure_ascii=False)
    name = text_parameter(spec)
    if name is None:
        return f"Input: a JSON object that fits {schema}"
    description = properties[name].get("description") if isinstance(properties[name], Mapping) else None
    text = f"Input: {description or name}, as it is. <TOOL: {spec.name}>{name}</TOOL>"
    return text if len(properties) == 1 else f"{text} Or a JSON object that fits {schema}"


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those for tools, and with a stop sequence before the first invented result."""
    remaining = {name: value for name, value in settings.items() if name not in OF_TOOLS}
    stop = remaining.get("stop") or []
    stop = [stop] if isinstance(stop, str) else list(stop)
    return {**remaining, "stop": [*stop, STOP]} if len(stop) < _MAX_STOPS else remaining


def _with_tool_names(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, with the name of the tool added to every result."""
    names: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            names.update((call.id, call.name) for call in message.tool_calls)
        if isinstance(message, ToolMessage) and not message.name:
            yield replace(message, name=names.get(message.call_id, "tool"))
        else:
            yield message


def _message_as_text(message: Message, specs: Mapping[str, ToolSpec]) -> Message:
    """Convert a message to text. Markup in results and user content is escaped, so that only real results have it."""
    match message:
        case ToolMessage(_, name, content):
            result = f"<RESULT: {escape_markup(name)}>\n{escape_markup(content)}\n</RESULT>"
            return UserMessage((result, *message.attachments) if message.attachments else result)
        case UserMessage(content):
            return UserMessage(_escape_content(content))
        case AssistantMessage(text, (_, *_) as calls):
            calls_as_text = [
                f"<TOOL: {call.name}>{input_of(call.arguments, specs.get(call.name))}</TOOL>" for call in calls
            ]
            return AssistantMessage("\n".join(filter(None, [text, *calls_as_text])))
    return message


def _escape_content(content: Content) -> Content:
    if isinstance(content, str):
        return escape_markup(content)
    return tuple(escape_markup(part) if isinstance(part, str) else part for part in content)


def _join_user_messages(messages: Sequence[Message]) -> list[Message]:
    """Join consecutive user messages, because some models require alternating roles."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            joined[-1] = UserMessage(_join_contents(last.content, message.content))
        else:
            joined.append(message)
    return joined


def _join_contents(first: Content, second: Content) -> Content:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return (*parts_of(first), *parts_of(second))


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
        return _parse_json(text)
    except ValueError:
        repaired = _TOKEN.sub(_repair_token, text)
    for end in _MISSING_ENDS:
        try:
            return _parse_json(repaired + end)
        except ValueError:
            continue
    raise ValueError("This is not JSON")


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
        value = _parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("This is nested too deeply") from None


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _repair_token(token: re.Match[str]) -> str:
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
    """Normalise an escape: valid JSON escapes stay unchanged, other backslashes are escaped."""
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


def arguments_of(source: str, spec: ToolSpec | None, *, is_escaped: bool = False) -> str:
    """Parse an input as arguments, returned as JSON text; an unreadable input is returned unchanged.

    `spec` is None for an unknown tool; `is_escaped` means that the surrounding markup was written with entities.
    """
    text = _without_fence(_dedent(source))
    found = None if is_escaped else read_object(text)
    if found is None:
        text = html.unescape(text) if is_escaped or _is_escaped(text) else text
        found = read_object(text)
    arguments = _read_arguments(text, found, spec)
    return well_formed(text if arguments is None else json.dumps(arguments, ensure_ascii=False))


def input_of(arguments: str, spec: ToolSpec | None) -> str:
    """Render arguments as input: plain text if `arguments_of` parses it back, otherwise JSON."""
    found = read_exact_object(arguments or "{}")
    if found is None:
        return escape_markup(arguments)
    text = "".join(found.values()) if all(isinstance(value, str) for value in found.values()) else ""
    if len(found) <= 1 and not has_markup(text) and read_exact_object(arguments_of(text, spec)) == found:
        return text
    return escape_markup_in_json(json.dumps(found, ensure_ascii=False))


def text_parameter(spec: ToolSpec) -> str | None:
    """The parameter for an input without names: the only one, or the only required one."""
    names, required = list(_properties(spec)), spec.parameters.get("required") or ()
    candidates = names if len(names) == 1 else [name for name in names if name in required]
    return candidates[0] if len(candidates) == 1 else None


def _read_arguments(text: str, found: dict[str, Any] | None, spec: ToolSpec | None) -> dict[str, Any] | None:
    """The arguments in a text; `found` is the object that the text was parsed as, if any."""
    if spec is None:
        return found if found is not None else {"input": text} if text else {}
    properties, name = _properties(spec), text_parameter(spec)
    if found is not None:
        found = _unwrap_call(found, properties)
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


def _unwrap_call(found: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
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
        found[match["name"]] = _value(_strip_quotes(match["value"]), properties[match["name"]])
        position = match.end()
    is_clear = len(properties) > 1 or text.rstrip().endswith(('"', "'"))
    return found if is_clear else None


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
    return {name: _value(_join_lines(parts), properties[name]) for name, parts in found.items()}


def _join_lines(parts: Sequence[str]) -> str:
    """A single-line value without quotes, or a multi-line value, optionally after a bar as in YAML."""
    first, *others = parts
    if not others:
        return _strip_quotes(first.rstrip(","))
    return _dedent("\n".join(others if first in {"", "|"} else parts))


def _strip_quotes(text: str) -> str:
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
    if _accepts_text(schema):
        return text
    try:
        return read_json(text)
    except ValueError:
        return text


def _accepts_text(schema: object) -> bool:
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return False
    kinds = schema.get("type")
    if kinds is not None:
        return "string" in ([kinds] if isinstance(kinds, str) else kinds)
    choices = [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]
    return any(map(_accepts_text, choices)) if choices else True


def _dedent(text: str) -> str:
    """Strip surrounding whitespace; common indentation of several lines is removed."""
    if "\n" not in text.strip():
        return text.strip()
    return dedent(re.sub(r"\A(?:[ \t]*\r?\n)+", "", text)).strip()


def _without_fence(text: str) -> str:
    """The content of a code block, if the whole text is one."""
    match = _FENCE.match(text)
    if match is None or not text.endswith(match[1]):
        return text
    return _dedent(text[match.end() :].removesuffix(match[1]).rstrip(" \t").removesuffix("\n"))


def _is_escaped(text: str) -> bool:
    """Whether a text was escaped as a whole: it has entities, and no characters that would have been escaped."""
    bare = _ENTITY.sub("", text)
    return bare != text and not any(char in bare for char in "<>&")
