"""Documented rules of model servers for requests, which a fake server can enforce (pure).

The rules are written from the providers' references and independent of the code that builds requests, so that a test
against them shows whether a real server would accept a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

Receiver = Literal[
    "openai",
    "openai-responses",
    "azure",
    "azure-v1",
    "anthropic",
    "gemini",
    "gemini-openai",
    "mistral",
    "groq",
    "xai",
    "ollama",
    "vllm",
    "llama.cpp",
]
"""The servers whose rules are known."""

Body = Mapping[str, Any]
_Rule = Callable[[Body], Iterator[str]]

_TOOL_NAME = r"[a-zA-Z0-9_-]{1,64}"
_DESCRIPTION_CHARS, _CALL_ID_CHARS, _MAX_DEPTH = 1_024, 64, 10
_MAX_CHOICES, _MANY_CHOICES, _CHOICE_CHARS, _NAME_CHARS = 1_000, 250, 15_000, 120_000
_KEYWORDS_OF_SCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS_OF_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")


def violations(receiver: Receiver, body: Any) -> list[str]:
    """The rules of a receiver that a request body breaks, as its server would state them; empty if it is accepted."""
    return [fault for rule in _RULES[receiver] for fault in rule(body)]


_Checks = list[tuple[object, str]]
"""Conditions that must not hold, with the fault that each means."""


def _broken_rules(checks: _Checks) -> Iterator[str]:
    return (fault for is_broken, fault in checks if is_broken)


def _subschemas(schema: Any, path: str = "") -> Iterator[tuple[str, Body]]:
    """Yield every schema inside a schema with its path."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in _KEYWORDS_OF_SCHEMAS:
        yield from _subschemas(schema.get(key), f"{path}.{key}")
    for key in _LISTS_OF_SCHEMAS:
        for index, inner in enumerate(schema.get(key) or ()):
            yield from _subschemas(inner, f"{path}.{key}[{index}]")
    for key in _MAPS_OF_SCHEMAS:
        for name, inner in (schema.get(key) or {}).items():
            yield from _subschemas(inner, f"{path}.{key}.{name}")


def _has_type(schema: Body, kind: str) -> bool:
    kinds = schema.get("type")
    return kind in (kinds if isinstance(kinds, list) else [kinds])


def _function_tools(body: Body) -> Iterator[tuple[str, Body]]:
    """Yield the function tools in any protocol, with their places."""
    for index, tool in enumerate(body.get("tools", ())):
        for declaration in tool.get("functionDeclarations", ()):
            yield f"tools[{index}]", {**declaration, "parameters": declaration.get("parametersJsonSchema")}
        if "function" in tool or "input_schema" in tool or tool.get("type") == "function":
            function = tool.get("function", tool)
            parameters = function.get("parameters", function.get("input_schema"))
            yield f"tools[{index}]", {"strict": False, **function, "parameters": parameters}


def _answer_schema(body: Body) -> Body:
    """The format of a typed answer: its schema, name and strictness; empty without one."""
    formats = (
        (body.get("response_format") or {}).get("json_schema"),
        (body.get("text") or {}).get("format"),
        (body.get("output_config") or {}).get("format"),
    )
    google = (body.get("generationConfig") or {}).get("responseJsonSchema")
    found = next((each for each in formats if isinstance(each, dict) and "schema" in each), None)
    return found or ({"schema": google} if google else {})


def _schemas(body: Body) -> Iterator[tuple[str, Any]]:
    for where, function in _function_tools(body):
        yield f"{where}.{function.get('name')}", function["parameters"]
    if answer := _answer_schema(body):
        yield "response schema", answer["schema"]


def _lists(body: Body) -> Iterator[str]:
    """Rules of JSON schema for lists, which all servers check."""
    for where, schema in _schemas(body):
        for path, node in _subschemas(schema):
            for name in ("anyOf", "oneOf", "allOf", "enum"):
                if node.get(name) == []:
                    yield f"{where}{path}.{name}: [] should be non-empty"
            for name in ("enum", "required"):
                entries = [json.dumps(each, sort_keys=True) for each in node.get(name) or ()]
                if len({*entries}) < len(entries):
                    yield f"{where}{path}.{name}: {entries} has non-unique elements"


def _tools(body: Body) -> Iterator[str]:
    """Rules for function tools that all servers share."""
    if body.get("tools") == []:
        yield "tools: array too short"
    yield from _lists(body)
    names = [function.get("name") for _, function in _function_tools(body)]
    if len(set(names)) < len(names):
        yield f"tools: names must be unique: {names}"
    for where, function in _function_tools(body):
        if not re.fullmatch(_TOOL_NAME, str(function.get("name"))):
            yield f"{where}: name {function.get('name')!r} does not match '{_TOOL_NAME}'"
        if not isinstance(function["parameters"], dict) and "contents" not in body:
            yield f"{where}: parameters must be an object schema"


def _openai_schemas(body: Body) -> Iterator[str]:
    for where, function in _function_tools(body):
        root = function["parameters"] or {}
        context = f"Invalid schema for function '{function.get('name')}'"
        combined = sorted({"oneOf", "anyOf", "allOf", "enum", "not"} & root.keys())
        yield from _broken_rules(
            [
                (root.get("type") != "object", f"{context}: schema must be of type 'object'"),
                ("properties" not in root, f"{context}: object schema missing properties"),
                (combined, f"{context}: schema must not have {combined} at the top level"),
                (len(function.get("description") or "") > _DESCRIPTION_CHARS, f"{where}.description: string too long"),
            ]
        )
        if function["strict"]:
            yield from _strict_rules(context, root)
    yield from _arrays_with_items(body)
    answer = _answer_schema(body)
    if answer and (answer["schema"].get("type") != "object" or "anyOf" in answer["schema"]):
        yield "Invalid schema for response_format: schema must be of type 'object'"
    if answer.get("strict"):
        yield from _strict_rules("Invalid schema for response_format", answer["schema"])


def _arrays_with_items(body: Body) -> Iterator[str]:
    for where, schema in _schemas(body):
        for path, node in _subschemas(schema):
            if _has_type(node, "array") and not isinstance(node.get("items"), dict):
                yield f"{where}{path}: array schema missing items"
            yield from _dangling_reference(where, path, node, schema)


def _dangling_reference(where: str, path: str, node: Body, root: Any) -> Iterator[str]:
    reference = node.get("$ref")
    if reference is None or reference == "#":
        return
    found = re.fullmatch(r"#/\$defs/([\w.-]+)", str(reference))
    if not found or found[1] not in root.get("$defs", {}):
        yield f"{where}{path}: reference to component {reference!r} not found"


def _strict_rules(context: str, schema: Any) -> Iterator[str]:
    """The rules of strict mode."""
    nodes = list(_subschemas(schema))
    texts = [[each for each in node.get("enum", ()) if isinstance(each, str)] for _, node in nodes]
    choices = sum(len(node.get("enum", ())) for _, node in nodes)
    chars = sum(map(len, (each for node in texts for each in node)))
    chars += sum(len(name) for _, node in nodes for name in node.get("properties", ()))
    for path, node in nodes:
        yield from _broken_rules(_strict_node(f"{context}{path}", path, node))
    long = [each for each in texts if len(each) > _MANY_CHOICES and sum(map(len, each)) > _CHOICE_CHARS]
    yield from _broken_rules(
        [
            (long, f"{context}: an enum has a total string length of more than {_CHOICE_CHARS}"),
            (choices > _MAX_CHOICES, f"{context}: {choices} enum values, the maximum is {_MAX_CHOICES}"),
            (chars > _NAME_CHARS, f"{context}: total string length of {chars}, the maximum is {_NAME_CHARS}"),
        ]
    )


def _strict_node(context: str, path: str, node: Body) -> _Checks:
    is_object, required = _has_type(node, "object"), sorted(node.get("required", []))
    unknown = sorted(node.keys() & {"oneOf", "allOf", "not", "default", "minLength", "maxLength", "patternProperties"})
    return [
        (
            is_object and node.get("additionalProperties") is not False,
            f"{context}: 'additionalProperties' must be false",
        ),
        (is_object and required != sorted(node.get("properties", {})), f"{context}: 'required' must include every key"),
        (not node.keys() & {"type", "anyOf", "enum", "$ref"}, f"{context}: schema must have a 'type' key"),
        (unknown, f"{context}: {unknown} are not permitted"),
        (path.count(".properties.") + path.count(".items") > _MAX_DEPTH + 1, f"{context}: exceeds the nesting depth"),
    ]


def _chat_messages(body: Body) -> Iterator[str]:
    """Rules of conversations in Chat Completions."""
    waiting: list[str] = []
    for index, message in enumerate(body.get("messages", ())):
        where, content = f"messages[{index}]", message.get("content")
        calls = message.get("tool_calls") or []
        is_result = message.get("role") == "tool"
        call_id = message.get("tool_call_id")
        yield from _broken_rules(
            [
                (is_result and call_id not in waiting, f"{where}: tool_call_id {call_id!r} not found in 'tool_calls'"),
                (waiting and not is_result, f"{where}: tool_calls must be followed by tool messages for {waiting}"),
                (content is None and not calls, f"{where}: message must have content or tool_calls"),
                (content is not None and not isinstance(content, str | list), f"{where}.content: invalid type"),
            ]
        )
        yield from _chat_calls(where, calls)
        waiting = [each for each in waiting if each != call_id] if is_result else [call["id"] for call in calls]
    if waiting:
        yield f"messages: tool_calls without results: {waiting}"


def _chat_calls(where: str, calls: list[Any]) -> Iterator[str]:
    for call in calls:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        yield from _broken_rules(
            [
                (not call["id"], f"{where}.tool_calls: id must not be empty"),
                (not re.fullmatch(_TOOL_NAME, name), f"{where}.tool_calls: invalid name {name!r}"),
                (not _is_json_object(arguments), f"{where}.tool_calls: arguments must be a JSON object"),
            ]
        )


def _is_json_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, TypeError):
        return False


def _chat_ids(pattern: str) -> _Rule:
    def rule(body: Body) -> Iterator[str]:
        for index, message in enumerate(body.get("messages", ())):
            ids = [call["id"] for call in message.get("tool_calls") or ()]
            for call_id in [*ids, *([message["tool_call_id"]] if "tool_call_id" in message else [])]:
                if not re.fullmatch(pattern, call_id):
                    yield f"messages[{index}]: tool call id {call_id!r} does not match '{pattern}'"

    return rule


_MISTRAL_ORDER = {
    "": ("system", "user", "assistant"),
    "tool": ("assistant", "tool"),
    "assistant": ("assistant", "user", "tool"),
}


def _mistral_order(body: Body) -> Iterator[str]:
    before = ""
    for message in body.get("messages", ()):
        role = message.get("role")
        if role not in _MISTRAL_ORDER.get(before, ("system", "user", "assistant")):
            yield f"Unexpected role '{role}' after role '{before}'"
        before = role
    if before == "assistant" and not message.get("prefix"):
        yield "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"


def _no_fields(*fields: str) -> _Rule:
    """A rule against fields of messages."""

    def rule(body: Body) -> Iterator[str]:
        for index, message in enumerate(body.get("messages", ())):
            for name in fields:
                if message.get(name):
                    yield f"messages[{index}].{name}: extra inputs are not permitted"

    return rule


def _no_blank_answers(body: Body) -> Iterator[str]:
    for index, message in enumerate(body.get("messages", ())):
        content = message.get("content")
        is_blank = not content or (isinstance(content, str) and not content.strip())
        if message.get("role") == "assistant" and is_blank and not message.get("tool_calls"):
            yield f"messages[{index}]: assistant message must have either content or tool_calls, but not none"


def _responses(body: Body) -> Iterator[str]:
    """Rules of conversations in the Responses protocol, without stored responses."""
    items = body.get("input", ())
    waiting: list[str] = []
    for index, item in enumerate(items):
        where, kind, call_id = f"input[{index}]", item.get("type", "message"), item.get("call_id", "")
        is_call, is_result = kind == "function_call", kind == "function_call_output"
        is_content = isinstance(item.get("content"), str | list)
        yield from _broken_rules(
            [
                ((is_call or is_result) and not 1 <= len(call_id) <= _CALL_ID_CHARS, f"{where}.call_id: {call_id!r}"),
                (is_call and not _is_json_object(item.get("arguments")), f"{where}: invalid arguments"),
                (is_call and not re.fullmatch(_TOOL_NAME, item.get("name", "")), f"{where}: invalid name"),
                (is_result and call_id not in waiting, f"{where}: no tool call found for {call_id!r}"),
                (kind == "message" and waiting, f"{where}: no tool output found for function calls {waiting}"),
                (kind == "message" and not is_content, f"{where}.content: expected a string or an array"),
            ]
        )
        if kind == "reasoning":
            yield from _reasoning_item(index, item, items)
        waiting = [*waiting, call_id] if is_call else [each for each in waiting if not (is_result and each == call_id)]
    if waiting:
        yield f"input: no tool output found for function calls {waiting}"


def _reasoning_item(index: int, item: Body, items: Any) -> Iterator[str]:
    if not item.get("encrypted_content"):
        yield f"input[{index}]: item with id {item.get('id')!r} not found, items are not persisted"
    if index + 1 == len(items) or items[index + 1].get("role") in ("user", "system"):
        yield f"input[{index}]: reasoning was provided without its required following item"


def _anthropic(body: Body) -> Iterator[str]:
    """Rules of the Messages protocol."""
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: field required"
    yield from _anthropic_schemas(body)
    turns = body.get("messages", ())
    if not turns or turns[0]["role"] != "user":
        yield "messages: first message must use the user role"
    for index, turn in enumerate(turns):
        yield from _anthropic_turn(index, turn, turns[index - 1] if index else {})
    last = turns[-1] if turns and turns[-1]["role"] == "assistant" else {"content": ""}
    content = last["content"]
    text = content if isinstance(content, str) else "".join(block.get("text", "") for block in content[-1:])
    if text != text.rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"
    if _blocks(last, "tool_use"):
        yield "messages: tool_use without tool_result"


def _anthropic_schemas(body: Body) -> Iterator[str]:
    for where, schema in _schemas(body):
        for path, node in _subschemas(schema):
            for name in node.get("properties", {}):
                if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                    yield f"{where}{path}: property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$', not {name!r}"
            yield from _dangling_reference(where, path, node, schema)
    for where, function in _function_tools(body):
        root = function["parameters"] or {}
        if root.get("type") != "object":
            yield f"{where}.input_schema.type: field required"
        if combined := sorted({"oneOf", "anyOf", "allOf"} & root.keys()):
            yield f"{where}.input_schema: does not support {combined} at the top level"


def _blocks(turn: Body, kind: str) -> list[Any]:
    content = turn.get("content")
    return [block for block in content if block.get("type") == kind] if isinstance(content, list) else []


def _anthropic_turn(index: int, turn: Body, before: Body) -> Iterator[str]:
    content = turn["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not blocks:
        yield f"messages[{index}]: content must not be empty"
    for block in blocks:
        kind = block.get("type")
        call_id = block.get("id") if kind == "tool_use" else block.get("tool_use_id")
        is_bad_id = call_id is not None and not re.fullmatch(_TOOL_NAME, call_id)
        is_blank = kind == "text" and not block["text"].strip()
        is_bad_input = kind == "tool_use" and not isinstance(block["input"], dict)
        yield from _broken_rules(
            [
                (is_blank, f"messages[{index}]: text content blocks must contain non-whitespace text"),
                (is_bad_id, f"messages[{index}]: id {call_id!r} should match pattern '^[a-zA-Z0-9_-]+$'"),
                (is_bad_input, f"messages[{index}]: tool_use.input: input should be a valid dictionary"),
            ]
        )
    call_ids = [block["id"] for block in _blocks(before, "tool_use")]
    result_ids = [block["tool_use_id"] for block in _blocks(turn, "tool_result")]
    if sorted(call_ids) != sorted(result_ids):
        yield f"messages[{index}]: tool_use ids {call_ids} and tool_result ids {result_ids} do not correspond"


_GOOGLE_KEYWORDS = frozenset(
    (
        *("type", "format", "title", "description", "nullable", "enum", "items", "maxItems", "minItems", "properties"),
        *("required", "minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength", "pattern"),
        *("example", "anyOf", "propertyOrdering", "default"),
    )
)


def _google_schemas(body: Body) -> Iterator[str]:
    for where, schema in _schemas(body):
        for path, node in _subschemas(schema):
            yield from _broken_rules(_google_node(f"{where}{path}", node))
    for where, function in _function_tools(body):
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", str(function.get("name"))):
            yield f"{where}: invalid function name {function.get('name')!r}"


def _google_node(where: str, node: Body) -> _Checks:
    unknown, kind = sorted(node.keys() - _GOOGLE_KEYWORDS), node.get("type")
    are_texts = kind == "string" and all(_is_text(each) for each in node.get("enum", ()))
    missing = sorted(set(node.get("required", ())) - node.get("properties", {}).keys())
    is_odd_format = kind == "string" and node.get("format", "enum") not in ("enum", "date-time")
    return [
        (unknown, f"Invalid JSON payload received. Unknown name {unknown} at '{where}': Cannot find field."),
        (isinstance(kind, list), f"{where}.type: proto field is not repeating, cannot start list."),
        ("enum" in node and not are_texts, f"{where}.enum: only allowed for STRING type"),
        (is_odd_format, f"{where}: only 'enum' and 'date-time' are supported for STRING type"),
        ("anyOf" in node and len(node) > 1, f"{where}: when using any_of, it must be the only field set"),
        (kind == "array" and not isinstance(node.get("items"), dict), f"{where}.items: missing field."),
        (missing, f"{where}.required: property is not defined: {missing}"),
    ]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _gemini(body: Body) -> Iterator[str]:
    """Rules of Gemini's own protocol."""
    turns = body.get("contents", ())
    if not turns or turns[0].get("role") != "user":
        yield "contents: the first turn must be of the user"
    for index, turn in enumerate(turns):
        parts = turn.get("parts", ())
        is_blank = any("text" in part and not part["text"] for part in parts)
        yield from _broken_rules(
            [
                (turn.get("role") not in ("user", "model"), f"contents[{index}].role: valid roles are user and model"),
                (not parts, f"contents[{index}].parts: must include at least one parts field"),
                (is_blank, f"contents[{index}].parts: must have one initialized field"),
            ]
        )
        yield from _gemini_calls(index, turns)


def _gemini_calls(index: int, turns: Any) -> Iterator[str]:
    """A turn with calls is followed by a turn with as many responses, of the same names in the same order."""
    names = [part["functionCall"]["name"] for part in turns[index].get("parts", ()) if "functionCall" in part]
    after = turns[index + 1] if index + 1 < len(turns) else {}
    responses = [part["functionResponse"]["name"] for part in after.get("parts", ()) if "functionResponse" in part]
    if names != responses:
        yield f"contents[{index}]: function calls {names} and function responses {responses} do not correspond"
    for part in turns[index].get("parts", ()):
        if "functionResponse" in part and not isinstance(part["functionResponse"].get("response"), dict):
            yield f"contents[{index}]: function response must be an object"


_CHAT: tuple[_Rule, ...] = (_tools, _chat_messages)
_OPENAI: tuple[_Rule, ...] = (*_CHAT, _openai_schemas, _chat_ids(r".{1,40}"))
_RESPONSES: tuple[_Rule, ...] = (_tools, _openai_schemas, _responses)

_RULES: Mapping[Receiver, tuple[_Rule, ...]] = {
    "openai": _OPENAI,
    "openai-responses": _RESPONSES,
    "azure": _OPENAI,
    "azure-v1": _RESPONSES,
    "anthropic": (_tools, _anthropic),
    "gemini": (_lists, _google_schemas, _gemini),
    "gemini-openai": (*_CHAT, _google_schemas, _no_blank_answers),
    "mistral": (*_CHAT, _chat_ids(r"[a-zA-Z0-9]{9}"), _no_blank_answers, _no_fields("name"), _mistral_order),
    "groq": (*_CHAT, _arrays_with_items),
    "xai": (*_CHAT, _arrays_with_items),
    "ollama": _CHAT,
    "vllm": (*_CHAT, _arrays_with_items),
    "llama.cpp": (*_CHAT, _arrays_with_items),
}
