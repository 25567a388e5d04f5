"""Native formats of tool calls, as models write them in text (pure).

Servers without a parser for the markup of a model pass it on as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentkit.llm.prompted_tools.text_format import INNER_KEYS, read_json
from agentkit.messages import ToolCall, ToolMessage

if TYPE_CHECKING:
    from agentkit.messages import Request, ToolSpec

NameAndArguments = tuple[str, Any]
"""The name of a tool and its arguments: an object, or texts by parameter in `TextArguments`."""

MARKERS = (
    "[TOOL_CALLS]",
    "<function=",
    "<function_calls>",
    "<invoke ",
    "<|tool_call",
    "<|python_tag|>",
    "<|channel|>commentary to=",
    "<\uff5ctool\u2581call",
)
"""Beginnings of calls, apart from `<tool_call>`, which is markup of prompted tools, too."""

_MARKER = re.compile("|".join(map(re.escape, ("<tool_call>", *MARKERS))))
_MARKUP = re.compile(
    rf"{_MARKER.pattern}|</?(?:tool_call|function|parameter|arg_key|arg_value|invoke)\b[^<>\n]*>|\[ARGS\]|<\|\w+\|>"
)
_NAME = r"(?:functions\.)?(?P<name>[\w.-]+?)"
_BAR = "\uff5c"
_FORMATS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        # GLM; Qwen3-Coder and Llama; Anthropic and MiniMax
        rf"(?:<tool_call>)?\s*{_NAME}\s*(?P<pairs>(?:<arg_key>.*?</arg_value>\s*)+)(?:</tool_call>|\Z)",
        rf"<function=[\"']?{_NAME}[\"']?>\s*(?P<xml>(?:<parameter=.*?</parameter>\s*)*)(?:</function>|(?=</tool_call>)|\Z)",
        rf"<invoke name=\"{_NAME}\">\s*(?P<invoked>(?:<parameter name=.*?</parameter>\s*)*)</invoke>",
        rf"<function=[\"']?{_NAME}[\"']?>\s*(?P<json>\{{.*?\}})\s*</function>",
        # Kimi; DeepSeek, before and since V3.1
        rf"<\|tool_call_begin\|>\s*{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>(?P<argued>.*?)<\|tool_call_end\|>",
        rf"<{_BAR}tool\u2581call\u2581begin{_BAR}>function<{_BAR}tool\u2581sep{_BAR}>{_NAME}\s*```(?:json)?\s*"
        rf"(?P<fenced>.*?)\s*```\s*<{_BAR}tool\u2581call\u2581end{_BAR}>",
        rf"<{_BAR}tool\u2581call\u2581begin{_BAR}>{_NAME}<{_BAR}tool\u2581sep{_BAR}>(?P<separated>.*?)"
        rf"<{_BAR}tool\u2581call\u2581end{_BAR}>",
        # gpt-oss; Mistral, new form
        rf"<\|channel\|>commentary to={_NAME}\s*(?:<\|constrain\|>\w+)?<\|message\|>(?P<said>.*?)(?:<\|call\|>|\Z)",
        rf"\[TOOL_CALLS\]\s*{_NAME}(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?P<args>\{{.*?\}})\s*(?=\[TOOL_CALLS\]|\Z)",
    )
)
_PAIR = re.compile(r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter(?:=|\s+name=)[\"']?([^\s\"'>]+)[\"']?>\n?(.*?)\n?</parameter>", re.DOTALL)
_JSON_FORMATS = (
    re.compile(r"<tool_call>\s*(?P<json>[\[{].*?)\s*(?:</tool_call>|\Z)", re.DOTALL),
    re.compile(r"\[TOOL_CALLS\]\s*(?P<json>\[.*)", re.DOTALL),
    re.compile(
        r"<\|(?:tool_call|python_tag)\|>\s*(?P<json>[\[{].*?)\s*(?:<\|/?tool_call\|>|<\|eom_id\|>|\Z)", re.DOTALL
    ),
)
_BARE_JSON = re.compile(r"\s*(?:```(?:json|tool_call)?\s*\n)?\s*(?P<json>[\[{].*[\]}])\s*(?:\n```)?\s*", re.DOTALL)
_REMAINS = re.compile(
    r"</?tool_call>|</?function_calls>|</?tool_calls?_section_\w+>|<\|tool_calls_section_\w+\|>"
    rf"|<{_BAR}tool\u2581calls\u2581(?:begin|end){_BAR}>|<\|(?:start|end|call|eom_id|eot_id)\|>(?:assistant)?"
)
_OPENING = re.compile(
    r"\A(?:<function_calls>|<tool_call>\s*(?=<function=)|<\|tool_calls_section_begin\|>"
    rf"|<{_BAR}tool\u2581calls\u2581begin{_BAR}>)\s*"
)
_NAME_BEFORE_MARKUP = re.compile(r"\s*(?:(?P<name>[\w.-]+)\s*)?<(?:arg_key>|function=|parameter[= ])")
_CODE = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)|`[^`\n]*`", re.DOTALL)
_WRAPPERS = ("tool_calls", "calls")
_MAX_CHARS = 200_000

NOTICE = (
    "The model wrote a tool call as text. It was not run, because it does not exactly match one of the given tools. If "
    "the server does not support tool calling with this model, pass tool_calling='text' to LLM()."
)


class TextArguments(dict[str, str]):
    """Arguments whose values are texts, to be read by the types of the parameters."""


def has_call(text: str) -> bool:
    """Whether a text looks like a tool call, outside of code."""
    if _MARKER.search(_CODE.sub("", text)) is not None:
        return True
    bare = _BARE_JSON.fullmatch(text)
    return bare is not None and any(_calls_in_json(bare["json"], is_bare=True))


def matching_calls(text: str, request: Request) -> tuple[tuple[ToolCall, ...], str] | None:
    """The calls at the end of an answer, without ids, and the text before them.

    None unless all of them exactly fit the tools of the request, and none is a quotation of the result of a tool.
    """
    found = _calls(text)
    if found is None or found.rest or any(source in result for source in found.sources for result in _results(request)):
        return None
    specs = {tool.name: tool for tool in request.tools if tool.hosted is None}
    calls = [_matching_call(name, arguments, specs) for name, arguments in found.fields]
    return (tuple(filter(None, calls)), found.before) if all(calls) else None


def calls_in_native_formats(text: str, tools: Mapping[str, ToolSpec]) -> tuple[ToolCall, ...]:
    """The calls in a text, without ids, whether they fit or not; empty if it contains none."""
    found = _calls(text)
    return tuple(
        ToolCall("", name, json.dumps(_typed_arguments(arguments, tools.get(name)), ensure_ascii=False))
        for name, arguments in (found.fields if found else ())
    )


def name_before_markup(text: str) -> str | None:
    """The name, or an empty text, before markup of another form at the start of a call's input; None without markup.

    Such an input is not the intended argument.
    """
    match = _NAME_BEFORE_MARKUP.match(text)
    return None if match is None else match["name"] or ""


class _FoundCalls(NamedTuple):
    """The calls in a text: names and arguments, their spelling, and the text before and after them."""

    fields: list[NameAndArguments]
    sources: list[str]
    before: str
    rest: str


def _results(request: Request) -> list[str]:
    return [message.content for message in request.messages if isinstance(message, ToolMessage)]


def _calls(text: str) -> _FoundCalls | None:
    """All calls in a text; None if it contains none, or if one of them cannot be read."""
    if len(text) > _MAX_CHARS:
        return None
    bare = _BARE_JSON.fullmatch(text)
    if bare is not None and (calls := list(_calls_in_json(bare["json"], is_bare=True))):
        return _FoundCalls(calls, [bare["json"]], "", "")
    masked = text if "tool\u2581" in text else _CODE.sub(lambda match: " " * len(match[0]), text)
    start = _MARKER.search(masked)
    if start is None:
        return None
    before, remainder = text[: start.start()].rstrip(), text[start.start() :]
    fields: list[NameAndArguments] = []
    sources: list[str] = []
    while (next_call := _next_call(remainder)) is not None:
        sources.append(remainder[: len(remainder) - len(next_call[1])].strip())
        fields += next_call[0]
        remainder = _without_remains(next_call[1])
    return None if not fields or _MARKUP.search(remainder) else _FoundCalls(fields, sources, before, remainder)


def _without_remains(text: str) -> str:
    """The text without the markup around calls at its start."""
    text = text.lstrip()
    while _next_call(text) is None and (match := _REMAINS.match(text)):
        text = text[match.end() :].lstrip()
    return text


def _next_call(text: str) -> tuple[list[NameAndArguments], str] | None:
    """The call, or list of calls, at the start of a text, and the text after it."""
    text = _OPENING.sub("", text)
    for pattern in _FORMATS:
        if match := pattern.match(text):
            arguments = _arguments(match)
            return None if arguments is None else ([(match["name"], arguments)], text[match.end() :])
    for pattern in _JSON_FORMATS:
        if match := pattern.match(text):
            calls = list(_calls_in_json(match["json"]))
            return (calls, text[match.end() :]) if calls else None
    return None


def _arguments(match: re.Match[str]) -> dict[str, Any] | None:
    """The arguments in a match of one of the forms; None if they are not an object."""
    kind = match.lastgroup or ""
    body = match[kind]
    if kind == "pairs":
        return TextArguments(_PAIR.findall(body))
    if kind in ("xml", "invoked"):
        return TextArguments(_PARAMETER.findall(body))
    try:
        value = read_json(body.strip() or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _calls_in_json(text: str, *, is_bare: bool = False) -> Iterator[NameAndArguments]:
    """Names and arguments in JSON of one call, of a list, or of an object with a list; nothing if it is another JSON.

    Bare JSON must contain nothing but a call, because it could be an answer.
    """
    try:
        value = json.loads(text) if is_bare else read_json(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        value = next((value[name] for name in _WRAPPERS if isinstance(value.get(name), list)), [value])
    entries = [_entry(entry, is_bare=is_bare) for entry in value] if isinstance(value, list) else []
    if entries and all(entries):
        yield from (entry for entry in entries if entry is not None)


def _entry(entry: object, *, is_bare: bool) -> NameAndArguments | None:
    fields = entry.get("function", entry) if isinstance(entry, dict) else None
    if isinstance(fields, str) and isinstance(entry, dict):
        fields = {**entry, "name": fields}
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        return None
    arguments = next((fields[key] for key in INNER_KEYS if key in fields), None)
    if arguments is None and is_bare:
        return None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    arguments = {} if arguments is None else arguments
    return (fields["name"].removeprefix("functions."), arguments) if isinstance(arguments, dict) else None


def _typed_arguments(arguments: Any, spec: ToolSpec | None) -> Any:
    """The arguments; texts of parameters that are not texts are read as JSON."""
    if not isinstance(arguments, TextArguments) or spec is None:
        return arguments
    properties = spec.parameters.get("properties") or {}
    return {name: _value(text, properties.get(name)) for name, text in arguments.items()}


def _value(text: str, schema: object) -> Any:
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    try:
        return read_json(text.strip())
    except ValueError:
        return text


def _matching_call(name: str, arguments: Any, specs: Mapping[str, ToolSpec]) -> ToolCall | None:
    """The call, if name and arguments exactly fit an offered tool and no argument contains markup of calls."""
    spec = specs.get(name)
    if spec is None or not isinstance(arguments, dict):
        return None
    arguments = _typed_arguments(arguments, spec)
    text = json.dumps(arguments, ensure_ascii=False)
    is_match = not _MARKUP.search(text) and _matches_schema(arguments, spec.parameters)
    return ToolCall("", name, text) if is_match else None


def _matches_schema(value: Any, schema: Any) -> bool:
    """Whether a value fits a schema, as far as types, names, required fields and choices are concerned."""
    if not isinstance(schema, Mapping):
        return True
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds if kind in _TYPES):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        is_open = "properties" not in schema or bool(schema.get("additionalProperties"))
        return (
            value.keys() >= set(schema.get("required") or ())
            and (is_open or value.keys() <= properties.keys())
            and all(_matches_schema(each, properties.get(name)) for name, each in value.items())
        )
    return not isinstance(value, list) or all(_matches_schema(each, schema.get("items")) for each in value)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


class MarkupHolder:
    """Holds back the text of a stream from the first marker of a call on; text before it passes.

    JSON at the start of an answer is held back as soon as it names a tool.
    """

    def __init__(self, markers: Sequence[str], names: Sequence[str]) -> None:
        self._markers = tuple(markers)
        self._longest = max(map(len, self._markers))
        self._calls_in_json = re.compile(rf'{_BEFORE_NAME}(?:{"|".join(map(re.escape, names))})"')
        self.buffered = ""
        self._is_holding, self._is_start = False, bool(names)

    def feed(self, chunk: str) -> str:
        """The text that can be shown."""
        self.buffered += chunk
        if self._is_holding:
            return ""
        if self._is_start:
            is_call = self._starts_with_call()
            if is_call is None:
                return ""
            self._is_start, self._is_holding = False, is_call
        positions = [position for marker in self._markers if (position := self.buffered.find(marker)) >= 0]
        self._is_holding = self._is_holding or bool(positions)
        end = 0 if self._is_holding and not positions else min(positions, default=self._safe_length())
        visible, self.buffered = self.buffered[:end], self.buffered[end:]
        return visible

    def _starts_with_call(self) -> bool | None:
        """Whether the text begins with JSON that names a tool; None while this is open."""
        start = re.sub(r"\A\s*(?:`{1,3}\w*\s*)?", "", self.buffered)
        if not start:
            return None if len(self.buffered) < _MAX_START_CHARS else False
        if start[0] not in "[{":
            return False
        if self._calls_in_json.match(start):
            return True
        is_undecided = _OPEN_JSON.fullmatch(start)
        return None if is_undecided and len(start) < _MAX_START_CHARS else False

    def _safe_length(self) -> int:
        """The number of characters that cannot become a marker."""
        for start in range(max(len(self.buffered) - self._longest + 1, 0), len(self.buffered)):
            if any(marker.startswith(self.buffered[start:]) for marker in self._markers):
                return start
        return len(self.buffered)


_MAX_START_CHARS = 200
_BEFORE_NAME = r'(?:[\[{\s,]|"(?:name|function|tool_calls|type)"\s*:|"function"(?=\s*[,}]))*"(?:functions\.)?'
_OPEN_JSON = re.compile(
    r'(?:[\[{\s,]|"(?:name|function|tool_calls|type)"\s*:|"function"(?=\s*[,}]))*(?:"[\w.-]*"?\s*)?'
)
