"""Conversion of requests and JSON schemas to the form that a receiver accepts, and of its responses back (pure).

A constraint that a receiver refuses is removed from the schema and stated in a description; the arguments and answers
that come back are validated against the original schema.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.events import Event, TextDelta, ToolCallDelta
from agentkit.llm.pipeline import StageSteps, map_events
from agentkit.llm.protocols.parsing import json_or_text, sendable_name
from agentkit.messages import (
    AssistantMessage,
    Message,
    OutputSchema,
    Request,
    Response,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    with_distinct_ids,
)
from agentkit.tooling.strict_schema import (
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SCHEMA_KEYWORDS,
    resolve_reference,
    with_plain_references,
)

if TYPE_CHECKING:
    from agentkit.llm.compat.rules import Receiver


Schema = dict[str, Any]

_ALTERNATIVES = ("anyOf", "oneOf")
_ROOT_KEYWORDS = (*_ALTERNATIVES, "allOf", "enum", "const", "not", "if", "then", "else")
"""Keywords that some servers refuse at the root of a tool's schema."""

_REMOVED_SILENTLY = frozenset(
    (
        *("additionalProperties", "$schema", "$id", "$comment", "$anchor", "prefixItems", "discriminator", "examples"),
        *("unevaluatedProperties", "unevaluatedItems", "deprecated", "readOnly", "writeOnly", "$defs", "definitions"),
        *("enumNames", "markdownDescription"),
    )
)
"""Keywords that can be removed without a note: they do not describe the value, or it is described in another way."""

_MAX_NOTE_CHARS = 600
_MAX_CHOICES_NOTED = 100
_MAX_MERGED_LEVELS = 8
_MAX_EXPANDED_LEVELS = 3
"""How often a recursive definition is repeated where references are refused."""

_MAX_NAME_CHARS = 64


def root_object(schema: Mapping[str, Any]) -> tuple[Schema, str]:
    """The schema of a tool's arguments with a plain object at its root, and a note on the constraints removed.

    The properties of all alternatives are offered; only those that every alternative requires stay required.
    """
    merged = _merged(dict(schema), schema, 0)
    removed = {name: schema[name] for name in _ROOT_KEYWORDS if name in schema and name != "allOf"}
    note = _constraints_note(removed) if removed else ""
    properties_only = {name: value for name, value in merged.items() if name not in _ROOT_KEYWORDS and name != "$ref"}
    return {**properties_only, "type": "object", "properties": properties_only.get("properties", {})}, note


def _merged(schema: Schema, root: Any, level: int) -> Schema:
    """The schema with the properties and required names of its references, `allOf`, `anyOf` and `oneOf`."""
    if level > _MAX_MERGED_LEVELS:
        return schema
    parts = [resolve_reference(str(schema["$ref"]), root)] if "$ref" in schema else []
    mandatory = [
        _merged(each, root, level + 1) for each in (*parts, *schema.get("allOf", ())) if _is_object_schema(each)
    ]
    groups = [
        [_merged(each, root, level + 1) for each in schema.get(name, ()) if _is_object_schema(each)]
        for name in _ALTERNATIVES
    ]
    if not mandatory and not any(groups):
        return schema
    alternatives = [each for group in groups for each in group]
    property_maps = [each.get("properties", {}) for each in (schema, *mandatory, *alternatives)]
    names = dict.fromkeys(name for properties in property_maps for name in properties)
    merged = {
        **schema,
        "properties": {name: _union_schema(p[name] for p in property_maps if name in p) for name in names},
    }
    required = [*schema.get("required", ()), *(name for each in mandatory for name in each.get("required", ()))]
    required += [name for group in groups for name in _required_by_all(group)]
    if required:
        merged["required"] = list(dict.fromkeys(required))
    closed = [each.get("additionalProperties") for each in (*mandatory, *alternatives)]
    if merged.get("additionalProperties") is not False and all(each is False for each in closed):
        merged["additionalProperties"] = False
    return merged


def _is_object_schema(schema: Any) -> bool:
    """Whether an alternative describes an object; others, such as null, cannot be the arguments of a tool."""
    return isinstance(schema, dict) and schema.get("type", "object") == "object"


def _required_by_all(schemas: list[Schema]) -> list[str]:
    """The names that all the schemas require."""
    lists = [each.get("required", []) for each in schemas]
    return [name for name in lists[0] if all(name in each for each in lists)] if lists else []


def _union_schema(schemas: Iterable[Any]) -> Any:
    """One schema that accepts what any of the schemas accepts."""
    distinct = list({json.dumps(each, sort_keys=True): each for each in schemas}.values())
    if len(distinct) == 1:
        return distinct[0]
    choices = [_text_choices(each) for each in distinct]
    if all(choices):
        return {"enum": list(dict.fromkeys(choice for each in choices for choice in each))}
    return {"anyOf": distinct}


def _text_choices(schema: Any) -> list[str]:
    """The choices of a schema of texts, if it states nothing else."""
    if not isinstance(schema, dict) or not schema.keys() <= {"type", "const", "enum"}:
        return []
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return choices if all(isinstance(each, str) for each in choices) else []


def _constraints_note(constraints: Mapping[str, Any]) -> str:
    """A sentence in brackets on removed constraints."""
    text = "; ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in constraints.items())
    return f"(Must fit {text})" if len(text) <= _MAX_NOTE_CHARS else f"(Must fit {text[:_MAX_NOTE_CHARS]}…)"


class SchemaRewriter:
    """Rewrites one schema for a receiver. `renamed` maps the names of properties that were changed to the originals."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver, self._has_rules = receiver, receiver.adapts_schemas
        self.renamed: dict[str, str] = {}
        self._root: Schema = {}
        self._expanding: list[str] = []

    def arguments(self, schema: Mapping[str, Any]) -> tuple[Schema, str]:
        """The schema of a tool's arguments, and a note on the constraints removed from its root."""
        plain, note = root_object(with_plain_references(dict(schema)))
        if plain.get("additionalProperties") is False:
            del plain["additionalProperties"]  # unknown arguments are refused when a call is validated
        return self.rewrite(_without_null_defaults(plain)), note

    def rewrite(self, schema: Mapping[str, Any]) -> Schema:
        """A schema with the rules applied at every level."""
        self._root = with_plain_references(dict(schema))
        body = self._root
        if not self._receiver.references:
            body = {name: value for name, value in body.items() if name != "$defs"}
        rewritten: Schema = self._node(body)
        return rewritten

    def _node(self, schema: Any) -> Any:
        if schema is True:
            return {}
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema and not self._receiver.references:
            return self._expand_reference(schema)
        new = _without_empty_lists(schema)
        if self._has_rules:
            new = self._adapt_node(new)
        else:
            _adapt_arrays(new)
        self._descend(new)
        return new

    def _descend(self, new: Schema) -> None:
        for key in new.keys() & {*MAP_KEYWORDS, "definitions"}:
            new[key] = {name: self._node(inner) for name, inner in new[key].items()}
        for key in new.keys() & {*LIST_KEYWORDS}:
            new[key] = [self._node(inner) for inner in new[key]]
        for key in new.keys() & {*SCHEMA_KEYWORDS}:
            new[key] = new[key] if isinstance(new[key], bool) else self._node(new[key])
        if self._receiver.property_names and "properties" in new:
            self._rename_properties(new)

    def _adapt_node(self, new: Schema) -> Schema:
        """One level of a schema with the rules of the receiver applied; its description states what was removed."""
        self._adapt_types(new)
        notes = [self._adapt_choices(new), self._adapt_format(new)]
        _adapt_arrays(new)
        notes.append(self._drop_refused(new))
        if text := " ".join(filter(None, notes)):
            new["description"] = f"{new.get('description', '')} {text}".strip()
        return _with_merged_alternatives(new) if self._receiver.single_types and "anyOf" in new else new

    def _expand_reference(self, schema: Schema) -> Any:
        """A reference replaced by its target; recursion ends after a few levels with any value."""
        name = schema["$ref"]
        others = {key: value for key, value in schema.items() if key != "$ref"}
        target = resolve_reference(str(name), self._root)
        if not isinstance(target, dict) or self._expanding.count(name) >= _MAX_EXPANDED_LEVELS:
            kind = {"type": target["type"]} if isinstance(target, dict) and isinstance(target.get("type"), str) else {}
            return self._node({**kind, **others})
        self._expanding.append(name)
        try:
            return self._node({**{key: value for key, value in target.items() if key != "$defs"}, **others})
        finally:
            self._expanding.pop()

    def _adapt_types(self, new: Schema) -> None:
        """Replace a list of types by alternatives, and `oneOf` by `anyOf`, where the originals are refused."""
        if self._refuses("oneOf") and "oneOf" in new and "anyOf" not in new:
            new["anyOf"] = new.pop("oneOf")
        if self._refuses("allOf") and len(new.get("allOf", ())) == 1 and isinstance(new["allOf"][0], dict):
            single = new.pop("allOf")[0]
            new.update({key: value for key, value in single.items() if key not in new})
        kinds = new.get("type")
        if not self._receiver.single_types or not isinstance(kinds, list):
            return
        del new["type"]
        if len(kinds) == 1:
            new["type"] = kinds[0]
        elif "anyOf" not in new:
            annotations: Schema = {name: new.pop(name) for name in ("title", "description", "default") if name in new}
            inner = dict(new)
            new.clear()
            new.update(annotations, anyOf=[_narrow_to_type(inner, kind) for kind in kinds])

    def _refuses(self, keyword: str) -> bool:
        known = self._receiver.known_keywords
        return keyword in self._receiver.keywords or (known is not None and keyword not in known)

    def _adapt_choices(self, new: Schema) -> str:
        """Move choices that are not texts to the description where they are refused."""
        if not self._receiver.string_choices or not new.keys() & {"enum", "const"}:
            return ""
        choices = [new.pop("const")] if "const" in new else new["enum"]
        new.pop("enum", None)
        texts = [each for each in choices if isinstance(each, str) and each]
        kind = new.get("type", "string")
        if len(texts) == len([each for each in choices if each is not None]) and kind == "string":
            string = {"type": "string", "enum": texts}
            new.update({"anyOf": [string, {"type": "null"}]} if None in choices else string)
            if "anyOf" in new:
                new.pop("type", None)
            return ""
        shown = ", ".join(json.dumps(each, ensure_ascii=False) for each in choices[:_MAX_CHOICES_NOTED])
        return f"(One of {shown})"

    def _adapt_format(self, new: Schema) -> str:
        accepted = self._receiver.formats
        if accepted is None or "format" not in new or new["format"] in accepted:
            return ""
        return f"(format: {new.pop('format')})"

    def _drop_refused(self, new: Schema) -> str:
        known = self._receiver.known_keywords
        refused = self._receiver.keywords & new.keys() | (set() if known is None else new.keys() - known)
        dropped = {name: new.pop(name) for name in sorted(refused)}
        mentioned = {
            name: value for name, value in dropped.items() if name not in _REMOVED_SILENTLY and name[:2] != "x-"
        }
        return _constraints_note(mentioned) if mentioned else ""

    def _rename_properties(self, new: Schema) -> None:
        """Rename properties whose names are refused; their descriptions state the original names."""
        pattern = self._receiver.property_names
        changed = {name: sendable_property(name) for name in new["properties"] if not re.fullmatch(pattern, name)}
        if not changed:
            return
        self.renamed |= {sent: name for name, sent in changed.items()}
        new["properties"] = {
            changed.get(name, name): _with_original_name(inner, name) if name in changed else inner
            for name, inner in new["properties"].items()
        }
        if "required" in new:
            new["required"] = [changed.get(name, name) for name in new["required"]]


def _adapt_arrays(new: Schema) -> None:
    """State what the items of an array are: anything, or what a fixed tuple has in its places."""
    kinds = new.get("type")
    is_array = "array" in (kinds if isinstance(kinds, list) else [kinds]) or "prefixItems" in new
    if not is_array or isinstance(new.get("items"), dict):
        return
    prefix_items = new.get("prefixItems", ())
    if new.get("items") is False:
        new.setdefault("maxItems", len(prefix_items))
    new["items"] = _union_schema(prefix_items) if prefix_items else {}


def _without_null_defaults(schema: Schema) -> Schema:
    """An object's schema without null as the type and default of optional properties: the model leaves them out."""
    required = schema.get("required") or ()
    new = {}
    for name, inner in (schema.get("properties") or {}).items():
        simplified = inner
        if isinstance(inner, dict) and name not in required and inner.get("default", ...) is None:
            simplified = {key: value for key, value in inner.items() if key != "default"}
            others = [each for each in simplified.get("anyOf", ()) if each != {"type": "null"}]
            if len(others) == 1 and isinstance(others[0], dict) and not simplified.keys() & others[0].keys():
                simplified = {**others[0], **{key: value for key, value in simplified.items() if key != "anyOf"}}
            elif (
                isinstance(kinds := simplified.get("type"), list)
                and "enum" not in simplified
                and "const" not in simplified
            ):
                kinds = [kind for kind in kinds if kind != "null"]
                simplified["type"] = kinds[0] if len(kinds) == 1 else kinds
        new[name] = (
            _without_null_defaults(simplified)
            if isinstance(simplified, dict) and "properties" in simplified
            else simplified
        )
    return {**schema, "properties": new} if new else schema


def _without_empty_lists(schema: Schema) -> Schema:
    """A copy of a schema without empty and repeated entries of lists, which all servers refuse."""
    new = {name: value for name, value in schema.items() if value != [] or name not in _NOT_EMPTY}
    if isinstance(required := new.get("required"), list):
        properties = new.get("properties") or {}
        new["required"] = [name for name in dict.fromkeys(required) if name in properties or not properties]
    if isinstance(choices := new.get("enum"), list):
        new["enum"] = list({json.dumps(each, sort_keys=True): each for each in choices}.values())
    return new


_NOT_EMPTY = frozenset({"anyOf", "oneOf", "allOf", "enum"})


def _with_merged_alternatives(schema: Schema) -> Schema:
    """Move the keywords next to `anyOf` into the alternatives: Google's servers refuse them next to it."""
    inner = {name: value for name, value in schema.items() if name not in ("anyOf", "description", "$defs")}
    description = {"description": schema["description"]} if "description" in schema else {}
    choices = [{**inner, **each} if each != {"type": "null"} else each for each in schema["anyOf"]]
    first, *others = choices
    return {"anyOf": [{**first, **description} if description and "description" not in first else first, *others]}


def _narrow_to_type(schema: Schema, kind: Any) -> Schema:
    """A schema for one of several types; null has no constraints."""
    if kind == "null":
        return {"type": "null"}
    choices = {"enum": [each for each in schema["enum"] if each is not None]} if "enum" in schema else {}
    return {**schema, **choices, "type": kind}


def _with_original_name(schema: Any, name: str) -> Any:
    """A property's schema whose description starts with the original name."""
    if not isinstance(schema, dict):
        return schema
    return {**schema, "description": f"{name}: {schema.get('description', '')}".removesuffix(": ").strip()}


def sendable_property(name: str) -> str:
    """A name of the characters that every provider accepts. A digest makes it distinct, and reversible by a table."""
    import hashlib

    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    folded = unicodedata.normalize("NFKD", name.replace("đ", "d").replace("Đ", "D")).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^a-zA-Z0-9]+", "_", folded).strip("_")[: _MAX_NAME_CHARS - _DIGEST_CHARS - 1]
    return f"{readable or 'p'}_{digest}"


def keywords_in(schema: Any) -> Iterator[str]:
    """Yield the keywords used anywhere in a schema."""
    if isinstance(schema, dict):
        yield from schema
        for key in schema.keys() & {*MAP_KEYWORDS, "definitions"}:
            for inner in schema[key].values():
                yield from keywords_in(inner)
        for key in schema.keys() & {*LIST_KEYWORDS}:
            for inner in schema[key]:
                yield from keywords_in(inner)
        for key in schema.keys() & {*SCHEMA_KEYWORDS}:
            yield from keywords_in(schema[key])


_MAX_CACHED = 2_000
_UNCHANGED: Mapping[str, str] = {}
_DIGEST_CHARS = 8
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_CONTENTS = frozenset({"output", "content", "parts"})
"""Keys of original contents in `extra`, in any protocol."""

_PARTICIPANT = r"[^\s<|\\/>]{1,64}"
_CUT_MARK = " […] (continued in the instruction)"
_CONTINUED = "The description of the tool {name} continues:"


def sendable_id(call_id: str, pattern: str, chars: int) -> str:
    """A tool-call id that matches `pattern`: the id itself, or else one of at most `chars` characters derived from it.

    Equal ids have equal replacements, so that results still belong to their calls.
    """
    if re.fullmatch(pattern, call_id):
        return call_id
    from hashlib import sha256

    number = int.from_bytes(sha256(call_id.encode("utf-8", "surrogatepass")).digest(), "big")
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[: chars - _DIGEST_CHARS - 1]
    readable_id = f"{readable}_{_to_base36(number, _DIGEST_CHARS)}"
    return readable_id if re.fullmatch(pattern, readable_id) else _to_base36(number, chars)


def _to_base36(number: int, count: int) -> str:
    digits = []
    for _ in range(count):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


@dataclass(frozen=True, slots=True)
class _ConvertedTool:
    """A tool as sent, the rest of a description that is too long, and original names by sent names of properties."""

    spec: ToolSpec
    remainder: str
    renamed: Mapping[str, str]


class Converter:
    """Converts requests for one receiver. Converted tools are cached, so that their encodings can be, too.

    `origin` identifies the endpoint: data of other providers in messages is not sent to it. `is_strict` means that it
    enforces schemas.
    """

    def __init__(self, receiver: Receiver, origin: str = "", *, is_strict: bool = True) -> None:
        self.receiver, self._origin, self._is_strict = receiver, origin, is_strict
        self._tools: dict[int, tuple[ToolSpec, _ConvertedTool]] = {}
        self._outputs: dict[int, tuple[OutputSchema, OutputSchema, Mapping[str, str]]] = {}

    def message(self, message: Message | ToolSpec) -> Message | ToolSpec:
        """A message with ids that the receiver accepts, and without the data of other providers."""
        if isinstance(message, ToolMessage):
            call_id = sendable_id(message.call_id, self.receiver.call_ids, self.receiver.call_id_chars)
            return message if call_id == message.call_id else replace(message, call_id=call_id)
        if isinstance(message, UserMessage) and message.name and not self._supports_name(message.name):
            content = message.content
            named_content = f"{message.name}: {content}" if isinstance(content, str) else (f"{message.name}:", *content)
            return replace(message, content=named_content, name="")
        return self._answer(message) if isinstance(message, AssistantMessage) else message

    def _answer(self, message: AssistantMessage) -> AssistantMessage:
        if not (message.extra or message.tool_calls or message.name):
            return message
        if message.origin != self._origin and (message.extra or any(call.extra for call in message.tool_calls)):
            calls = tuple(replace(call, extra={}) for call in message.tool_calls)
            message = replace(message, extra={}, tool_calls=calls)
        if message.name and not self._supports_name(message.name):
            message = replace(message, name="")
        ids = [sendable_id(call.id, self.receiver.call_ids, self.receiver.call_id_chars) for call in message.tool_calls]
        if ids == [call.id for call in message.tool_calls]:
            return message
        pairs = zip(ids, message.tool_calls, strict=True)
        return replace(message, tool_calls=tuple(replace(call, id=call_id) for call_id, call in pairs))

    def _is_empty(self, message: Message) -> bool:
        """Whether nothing of a model's message is sent: no text, no calls, no data; many servers refuse it then."""
        if not isinstance(message, AssistantMessage) or message.tool_calls or message.text.strip():
            return False
        return message.origin != self._origin or _CONTENTS.isdisjoint(message.extra)

    def _supports_name(self, name: str) -> bool:
        """Whether a participant's name can be sent in a field."""
        return self.receiver.message_names and re.fullmatch(_PARTICIPANT, name) is not None

    def request(self, request: Request) -> tuple[Request, ReceiverNames | None]:
        """The request with tools, schemas and names that the receiver accepts, and without empty assistant messages.

        With it the names that were changed; None, as usual, if no name was changed.
        """
        changed: dict[str, Any] = {}
        messages = request.messages if _has_paired_results(request.messages) else list(_pair_results(request.messages))
        # An inline check, because it runs over the whole conversation at each request.
        texts = (each for each in messages if type(each) is AssistantMessage and not each.tool_calls)
        if any(map(self._is_empty, texts)):
            messages = [message for message in messages if not self._is_empty(message)]
        if messages is not request.messages:
            changed["messages"] = messages
        tools, answers = [self._tool(tool) for tool in request.tools], _UNCHANGED
        if tools:
            changed["tools"] = tuple(tool.spec for tool in tools)
            if any(tool.remainder for tool in tools):
                changed["instruction"] = _with_remainders(request.instruction, tools)
        if request.output_schema:
            _, changed["output_schema"], answers = self._output(request.output_schema)
        properties = {sent: name for tool in tools for sent, name in tool.renamed.items()}
        pairs = zip(request.tools, tools, strict=True)
        renamed = {tool.spec.name: spec.name for spec, tool in pairs if tool.spec.name != spec.name}
        names = ReceiverNames(renamed, properties, answers) if renamed or properties or answers else None
        if names:
            changed |= names.outgoing(changed.get("messages", request.messages), request.settings)
        return (replace(request, **changed) if changed else request), names

    def _tool(self, tool: ToolSpec) -> _ConvertedTool:
        cached = self._tools.get(id(tool))
        if cached is None:
            if len(self._tools) > _MAX_CACHED:
                self._tools = {}
            cached = self._tools[id(tool)] = tool, self._convert_tool(tool)
        return cached[1]

    def _convert_tool(self, tool: ToolSpec) -> _ConvertedTool:
        if tool.hosted is not None:
            return _ConvertedTool(tool, "", {})
        receiver, rewriter = self.receiver, SchemaRewriter(self.receiver)
        parameters, note = rewriter.arguments(tool.parameters)
        strict, strict_schema = None, tool.strict if self._is_strict else None
        if strict_schema is not None and not note and tool.name not in receiver.lenient_tools:
            strict = rewriter.rewrite(strict_schema)
        description, remainder = f"{tool.description} {note}".strip() if note else tool.description, ""
        if 0 < receiver.description_chars < len(description):
            description, remainder = _split_description(description, receiver.description_chars)
        name = tool.name if re.fullmatch(receiver.tool_names, tool.name) else _tool_name(tool.name, receiver.tool_names)
        original = (tool.name, tool.description, tool.parameters, strict_schema)
        if (name, description, parameters, strict) == original:
            return _ConvertedTool(tool, "", {})
        return _ConvertedTool(ToolSpec(name, description, parameters, strict), remainder, rewriter.renamed)

    def _output(self, output: OutputSchema) -> tuple[OutputSchema, OutputSchema, Mapping[str, str]]:
        cached = self._outputs.get(id(output))
        if cached is None:
            if len(self._outputs) > _MAX_CACHED:
                self._outputs = {}
            rewriter = SchemaRewriter(self.receiver)
            schema = rewriter.rewrite(output.schema)
            strict = output.strict and not self.receiver.lenient_answers
            is_same = schema == output.schema and strict == output.strict
            sent = output if is_same else OutputSchema(output.name, schema, strict)
            cached = self._outputs[id(output)] = output, sent, rewriter.renamed
        return cached


def _has_paired_results(messages: Sequence[Message]) -> bool:
    """Whether each call is followed by its one result, as all servers require."""
    waiting: list[str] = []
    for message in messages:
        if type(message) is ToolMessage:
            if message.call_id not in waiting:
                return False
            waiting.remove(message.call_id)
        elif waiting:
            return False
        elif type(message) is AssistantMessage and message.tool_calls:
            waiting = [call.id for call in message.tool_calls]
            if len({*waiting}) < len(waiting):
                return False
    return not waiting


def _pair_results(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages with each call followed by one result, for histories that were cut, merged or written by hand.

    A call without a result gets one that says so. A result without a call is a user message.
    """
    used: set[int] = set()
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if id(message) not in used:
                yield UserMessage(
                    (f"{_ORPHAN_RESULT.format(message.name or 'a tool')}\n{message.content}", *message.attachments)
                )
            continue
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            yield message
            continue
        distinct = with_distinct_ids(message, set())
        yield distinct
        later = [each for each in messages[place + 1 :] if isinstance(each, ToolMessage) and id(each) not in used]
        for original, call in zip(message.tool_calls, distinct.tool_calls, strict=True):
            result = next((each for each in later if each.call_id == original.id and id(each) not in used), None)
            used.add(id(result))
            yield replace(result, call_id=call.id) if result else ToolMessage(call.id, call.name, _NO_RESULT)


_NO_RESULT = "This call has no result: it was not executed, or its result was lost."
_ORPHAN_RESULT = "[The result of a call of {} that is not part of this conversation. No user said this.]"


def _split_description(text: str, max_chars: int) -> tuple[str, str]:
    """The part of a description that a server accepts, cut between words, and the rest."""
    head = text[: max_chars - len(_CUT_MARK)]
    end = head.rfind(" ")
    head = head[:end] if end > max_chars // 2 else head
    return f"{head}{_CUT_MARK}", text[len(head) :].strip()


def _with_remainders(instruction: str, tools: Iterable[_ConvertedTool]) -> str:
    """The instruction, followed by the rests of descriptions that are too long."""
    remainders = [f"{_CONTINUED.format(name=tool.spec.name)}\n{tool.remainder}" for tool in tools if tool.remainder]
    return "\n\n".join(filter(None, [instruction, *remainders]))


def _tool_name(name: str, pattern: str) -> str:
    """A tool name that matches `pattern`, with a digest so that names stay distinct."""
    from hashlib import sha256

    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    shortened = f"{sendable_name(name)[: 63 - _DIGEST_CHARS - 1]}_{digest}"
    return shortened if re.fullmatch(pattern, shortened) else f"t_{shortened}"[:63]


class ReceiverNames:
    """The names changed in a request: original names by sent names of tools, of properties, and in the answer."""

    def __init__(self, tools: Mapping[str, str], properties: Mapping[str, str], answers: Mapping[str, str]) -> None:
        self.tools, self.properties, self.answers = tools, properties, answers
        self._sent_tools = {name: sent for sent, name in tools.items()}
        self._sent_properties = {name: sent for sent, name in properties.items()}

    def restored(self, steps: StageSteps[Response], *, streaming: bool) -> StageSteps[Response]:
        """The steps that answer a request, with the original names in their events and in the response."""
        restoration = Restoration(self)
        response = yield from map_events(steps, restoration.events)
        if streaming:
            yield from restoration.flush()
        return restoration.response(response)

    def outgoing(self, messages: Sequence[Message], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The changed fields of a request whose messages and settings use the original names."""
        changed: dict[str, Any] = {"messages": [self._rename_in_message(message) for message in messages]}
        choice = settings.get("tool_choice")
        if isinstance(choice, str) and choice in self._sent_tools:
            changed["settings"] = {**settings, "tool_choice": self._sent_tools[choice]}
        return changed

    def _rename_in_message(self, message: Message) -> Message:
        if isinstance(message, ToolMessage) and message.name in self._sent_tools:
            return replace(message, name=self._sent_tools[message.name])
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            return message
        calls = tuple(map(self._rename_in_call, message.tool_calls))
        return message if calls == message.tool_calls else replace(message, tool_calls=calls)

    def _rename_in_call(self, call: ToolCall) -> ToolCall:
        arguments = call.arguments
        if any(name in arguments or json.dumps(name)[1:-1] in arguments for name in self._sent_properties):
            parsed = json_or_text(arguments)
            if not isinstance(parsed, str):
                arguments = json.dumps(_rename_keys(parsed, self._sent_properties), ensure_ascii=False)
        return replace(call, name=self._sent_tools.get(call.name, call.name), arguments=arguments)


def _rename_keys(value: Any, names: Mapping[str, str]) -> Any:
    """A JSON value with keys replaced at every level."""
    if isinstance(value, dict):
        return {names.get(name, name): _rename_keys(inner, names) for name, inner in value.items()}
    return [_rename_keys(each, names) for each in value] if isinstance(value, list) else value


class Restoration:
    """Restores the original names in a response: of tools, of properties in arguments, and of those in an answer."""

    def __init__(self, names: ReceiverNames) -> None:
        self._names = names
        self._text = _KeyReplacer(names.answers)
        self._calls: dict[int, _KeyReplacer] = {}

    def response(self, response: Response) -> Response:
        """The response with the original names."""
        message = response.message
        calls = tuple(map(self._call, message.tool_calls))
        text = _KeyReplacer(self._names.answers).rewrite(message.text)
        return replace(response, message=replace(message, text=text, tool_calls=calls))

    def _call(self, call: ToolCall) -> ToolCall:
        arguments = _KeyReplacer(self._names.properties).rewrite(call.arguments)
        return replace(call, name=self._names.tools.get(call.name, call.name), arguments=arguments)

    def events(self, event: Event) -> Iterator[Event]:
        """The events to emit for an event; text that could be the start of a changed name is held back."""
        if isinstance(event, TextDelta):
            if text := self._text.feed(event.text):
                yield TextDelta(text)
        elif isinstance(event, ToolCallDelta):
            replacer = self._calls.setdefault(event.index, _KeyReplacer(self._names.properties))
            name = self._names.tools.get(event.name, event.name)
            yield replace(event, name=name, arguments=replacer.feed(event.arguments))
        else:
            yield event

    def flush(self) -> Iterator[Event]:
        """The events for the text that was held back."""
        if text := self._text.flush():
            yield TextDelta(text)
        yield from (ToolCallDelta(at, "", remainder) for at, each in self._calls.items() if (remainder := each.flush()))


class _KeyReplacer:
    """Replaces quoted names in JSON text, whole or in chunks."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._by_token = {f'"{sent}"': json.dumps(name, ensure_ascii=False) for sent, name in names.items()}
        self._longest = max(map(len, self._by_token), default=0)
        self._pattern = re.compile("|".join(map(re.escape, self._by_token)))
        self._buffer = ""

    def rewrite(self, text: str) -> str:
        """The text with all names replaced."""
        return self._pattern.sub(lambda found: self._by_token[found[0]], text) if self._by_token else text

    def feed(self, chunk: str) -> str:
        """The text that is certain after another chunk."""
        if not self._by_token:
            return chunk
        text = self._buffer + chunk
        starts = (at for at in range(max(len(text) - self._longest + 1, 0), len(text)) if text[at] == '"')
        end = next((at for at in starts if self._is_start(text[at:])), len(text))
        self._buffer = text[end:]
        return self.rewrite(text[:end])

    def flush(self) -> str:
        """The text held back."""
        rest, self._buffer = self._buffer, ""
        return rest

    def _is_start(self, text: str) -> bool:
        return any(token.startswith(text) and token != text for token in self._by_token)
