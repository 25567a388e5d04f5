"""Adjustments of requests: known ones by model family, and those learnt from refusals (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from agentkit.errors import Rejected
from agentkit.llm.compat.anthropic import MANUAL_THINKING, anthropic_adjustment, with_lower_max_tokens
from agentkit.llm.compat.content_fallback import handle_files, handle_images, handle_named_files
from agentkit.llm.compat.conversion import keywords_in
from agentkit.llm.compat.rules import (
    GOOGLE_FORMATS,
    NAMES,
    NESTED_FIELDS,
    PROPERTY_NAMES,
    Adjustment,
    Body,
    RequestRefusal,
    drop,
    drop_entry_field,
    rename,
    rule,
    without,
    without_inside,
)
from agentkit.llm.protocols.parsing import camel_case
from agentkit.llm.request_settings import LIMITS, OF_TOOLS

_CALL_ID_NAMED = r"(?i)\b(?:tool[ _]?call[ _]?ids?|call_id|tool_?use_?id|tool_calls?\W*\[?\d*\]?\W*id)\b"
_ID_REFUSED = r"(?i)length|characters?|pattern|invalid|must be|match"
_PROPERTIES_NAMED = (
    r"(?i)propert(?:y|ies)(?:[ .'\"]\w+)*[ :'\"]*(?:keys?|names?)? should match|property keys?|property names?"
)
_SCHEMA_NAMED = r"(?i)schema|function|tool|parameter|format|generation_config|unknown name"
_ENUM_REFUSED = (
    r"(?i)enum\b.{0,120}(?:type_string|string type|must be (?:a )?string|only allowed for string|starting an object)"
)
_FORMATS_NAMED = r"(?i)only .{0,10}enum.{0,20}date-time.{0,20} (?:are|is) supported|format\b.{0,60}not supported for"
_DESCRIPTION = (
    r"(?i)description\b.{0,200}?(?:maximum length|max(?:imum)?|at most|too long|longer than)\D{0,40}(\d{2,6})"
)
_TYPE_LIST_REFUSED = r"(?i)field is not repeating, cannot start list"
_REFERENCE_REFUSED = r"(?i)\$ref|\$defs|unknown name \"?ref"
_SCHEMA_REFUSED = r"(?i)invalid[ _](?:json[ _]?)?schema|invalid_function_parameters|invalid_json_schema"
_NUMBER = re.compile(r"(?:\b(?:length|most|than)\D{0,12}|\{(?:\d,)?)(\d{1,3})\b")

_REASONING = re.compile(
    r"invalid_encrypted_content|encrypted content\b.{0,90}(?:could not|cannot|not be|did not|mismatch)"
    r"|not persisted when|item with id 'rs_"
    r"|without its required '?(?:reasoning|following)'?"
    r"|only be provided to a reasoning|reasoning (?:input )?items? (?:can|are|is) (?:only|not)"
    r"|organization(?:_id)? (?:did|does) not match",
    re.IGNORECASE | re.DOTALL,
)
"""Refusals of reasoning items that another model or account wrote, or whose neighbours are missing."""

_DIGEST_CHARS = 16
_MAX_DIGESTS = 10_000
_UNSTORED_TYPES = ("reasoning", "message", "function_call", "")
"""Types of items whose ids refer to nothing, because the server stores no responses."""


def handle_call_ids(refusal: RequestRefusal) -> Adjustment | None:
    """Shorter or plainer tool-call ids."""
    if not re.search(_CALL_ID_NAMED, f"{refusal.text} {refusal.parameter}") or not re.search(_ID_REFUSED, refusal.text):
        return None
    match = _NUMBER.search(refusal.text)
    chars = int(match[1]) if match else 40
    if chars <= 9:
        return rule(
            f"ids of tool calls have {chars} letters or digits", call_ids=f"[a-zA-Z0-9]{{{chars}}}", call_id_chars=chars
        )
    if match is None:
        return rule("ids of tool calls have plain characters", call_ids=NAMES, call_id_chars=40)
    return rule(
        f"ids of tool calls have at most {chars} characters",
        call_ids=f"[a-zA-Z0-9_-]{{1,{chars}}}",
        call_id_chars=chars,
    )


def handle_property_names(refusal: RequestRefusal) -> Adjustment | None:
    """Property names of plain characters."""
    is_match = re.search(_PROPERTIES_NAMED, refusal.text) and re.search(r"match|pattern|characters", refusal.text)
    return rule("properties are sent under plain names", property_names=PROPERTY_NAMES) if is_match else None


def handle_schema_keywords(refusal: RequestRefusal) -> Adjustment | None:
    """Schemas without choices, formats, lists of types or keywords that the server does not know."""
    text = refusal.text
    if re.search(_FORMATS_NAMED, text):
        return rule("formats are described in words", formats=GOOGLE_FORMATS)
    if re.search(_ENUM_REFUSED, text):
        return rule("choices that are not strings are described in words", string_choices=True)
    if re.search(_TYPE_LIST_REFUSED, text) and "type" in text:
        return rule("lists of types are sent as alternatives", single_types=True)
    if not (refusal.is_unsupported and re.search(_SCHEMA_NAMED, text)):
        return None
    used = {keyword for schema in _schemas(refusal.body) for keyword in keywords_in(schema)}
    if used & {"$ref", "$defs"} and re.search(_REFERENCE_REFUSED, text):
        return rule("references in schemas are replaced by their targets", references=False)
    refused_keywords = sorted(filter(refusal.names, used - _ESSENTIAL_KEYWORDS))
    return (
        rule(f"schemas are sent without {refused_keywords[0]}", keywords=frozenset(refused_keywords[:1]))
        if refused_keywords
        else None
    )


_ESSENTIAL_KEYWORDS = frozenset(
    (
        "type",
        "properties",
        "required",
        "items",
        "description",
        "title",
        "anyOf",
        "enum",
        "format",
        "default",
        "$ref",
        "$defs",
    )
)
"""Keywords that are not removed as a whole: the schema would have another meaning, or they are plain words."""


def handle_descriptions(refusal: RequestRefusal) -> Adjustment | None:
    """Descriptions of tools up to the length that the server states; the rest is in the instruction."""
    match = re.search(_DESCRIPTION, f"{refusal.parameter} {refusal.text}", re.DOTALL)
    if match is None or not refusal.body.get("tools"):
        return None
    return rule(f"descriptions of tools have at most {match[1]} characters", description_chars=int(match[1]))


def handle_strict_schemas(refusal: RequestRefusal) -> Adjustment | None:
    """The schema that strict mode refuses is sent without it; other schemas stay strict."""
    text = f"{refusal.text} {refusal.parameter}"
    if not re.search(_SCHEMA_REFUSED, text):
        return None
    strict = [str(tool.get("name")) for tool in _tools(refusal.body) if tool.get("strict")]
    names = [name for name in strict if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]
    if names:
        return rule(f"the schema of {names[0]} is not sent as strict", lenient_tools=frozenset(names[:1]))
    if _answer_format(refusal.body).get("strict") and re.search(r"response_format|text\.format|json_schema", text):
        return rule("schemas of answers are not sent as strict", lenient_answers=True)
    return None


def _tools(body: Body) -> Iterator[Body]:
    return ({**tool, **tool.get("function", {})} for tool in body.get("tools", ()))


def _answer_format(body: Body) -> Any:
    outer = (
        body.get("response_format", {}).get("json_schema") if isinstance(body.get("response_format"), dict) else None
    )
    return outer or (body["text"].get("format") if isinstance(body.get("text"), dict) else None) or {}


def _schemas(body: Body) -> Iterator[Any]:
    """The schemas in a request, of tools and of the answer, in every protocol."""
    for tool in _tools(body):
        yield tool.get("parameters", tool.get("input_schema"))
        for function in tool.get("functionDeclarations", ()):
            yield function.get("parametersJsonSchema")
    yield _answer_format(body).get("schema")


def _digest(item: Body) -> str:
    import hashlib

    text = str(item.get("encrypted_content") or item.get("id") or item.get("summary"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]


def _is_reasoning(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "reasoning"


def _drop_reasoning(digests: Iterable[str]) -> Adjustment:
    """An adjustment that removes these reasoning items, and ids of items that refer to stored ones."""
    known = tuple(dict.fromkeys(digests))[-_MAX_DIGESTS:]
    dropped = frozenset(known)

    def apply(body: Body) -> Body:
        items = [item for item in body["input"] if not (_is_reasoning(item) and _digest(item) in dropped)]
        if len(items) == len(body["input"]):
            return body
        return {
            **body,
            "input": [without(item, "id") if item.get("type", "") in _UNSTORED_TYPES else item for item in items],
        }

    name = "reasoning of other models and accounts is not sent back"
    return Adjustment(name, apply, parts=known, for_parts=_drop_reasoning)


def _drop_item_ids(body: Body) -> Body:
    return {
        **body,
        "input": [without(each, "id") if each.get("type", "") in _UNSTORED_TYPES else each for each in body["input"]],
    }


def handle_reasoning(refusal: RequestRefusal) -> Adjustment | None:
    """Leave out the reasoning items of the conversation; without any, the ids of items that need them."""
    items = refusal.body.get("input")
    if not isinstance(items, list) or not _REASONING.search(refusal.text):
        return None
    digests = [_digest(item) for item in items if _is_reasoning(item)]
    if digests:
        return _drop_reasoning(digests)
    has_ids = _drop_item_ids(refusal.body) != refusal.body
    return Adjustment("items are sent without ids", _drop_item_ids) if has_ids else None


def handle_generation_config(refusal: RequestRefusal) -> Adjustment | None:
    """A setting of Gemini's generation that the server does not know is left out."""
    settings = refusal.body.get("generationConfig")
    if not isinstance(settings, dict) or not refusal.is_unsupported:
        return None
    setting = next((name for name in settings if name not in _ESSENTIAL_SETTINGS and refusal.names(name)), None)

    def apply(body: Body) -> Body:
        return {**body, "generationConfig": without(body.get("generationConfig", {}), str(setting))}

    return Adjustment(f"{setting} is left out", apply) if setting else None


_ESSENTIAL_SETTINGS = frozenset({"responseJsonSchema", "responseMimeType", "responseModalities", "maxOutputTokens"})
"""Settings without which the request would be another one, or would cost more."""

RULE_HANDLERS = (
    handle_generation_config,
    handle_reasoning,
    handle_call_ids,
    handle_property_names,
    handle_descriptions,
    handle_schema_keywords,
    handle_strict_schemas,
)


ESSENTIAL = frozenset(
    {
        *("model", "messages", "input", "instructions", "system", "tools", "stream"),
        *("response_format", "text", "output_config"),
        *("previous_response_id", "conversation", "prompt", "mcp_servers"),
        *("web_search_options", "plugins", "modalities", "audio"),
        *("moderation", "safe_prompt", "safety_settings"),
    }
)
"""Parameters that are never dropped, because the request would no longer be the one that was made.

They determine the content of the response, the resources available to it, and its moderation.
"""

_DEFAULT_PARAMETERS = {"store", "include", "stream_options", "reasoning_effort"}
"""Parameters that agentkit adds itself; they are dropped whatever reason the server gives."""

_ESSENTIAL_FIELDS = {
    *("role", "content", "type", "name", "arguments", "output", "call_id", "tool_calls", "tool_call_id"),
    *("function", "text", "image_url", "file", "filename", "file_data", "file_url", "input_audio"),
    *("input", "source", "tool_use_id"),
}

_ENTRY_FIELD = (
    r"\b(?P<entries>messages|input)[.\[]\d+\]?\.(?:\w+[.\[\]]+)*(?P<field>\w+)"
    r"|property '(?P<property>\w+)' is unsupported"
)


def _insert_assistant_messages(body: Body) -> Body:
    """Insert an assistant message between each tool result and a user message that follows it."""
    entries: list[Body] = []
    for entry in body["messages"]:
        if entries and (entries[-1].get("role"), entry.get("role")) == ("tool", "user"):
            entries.append({"role": "assistant", "content": "OK."})
        entries.append(entry)
    return {**body, "messages": entries}


def _alternate_roles(*, keeps_first: bool) -> Callable[[Body], Body]:
    """Convert system messages, all or all but the first, to user messages, and join adjacent user messages."""

    def apply(body: Body) -> Body:
        entries: list[Body] = []
        for entry in body["messages"]:
            is_instruction = entry.get("role") == "system" and (entries or not keeps_first)
            sent = {**entry, "role": "user"} if is_instruction else entry
            if entries and entries[-1].get("role") == sent.get("role") == "user":
                entries[-1] = {**sent, "content": _join_contents(entries[-1]["content"], sent["content"])}
            else:
                entries.append(sent)
        return {**body, "messages": entries}

    return apply


def _join_contents(first: str | list[Body], second: str | list[Body]) -> str | list[Body]:
    """Join two contents."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in (first, second)]
    return [*parts[0], *parts[1]]


def _change_assistant_messages(add: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """Apply a change to every assistant message."""
    return lambda body: {
        **body,
        "messages": [add(entry) if entry.get("role") == "assistant" else entry for entry in body["messages"]],
    }


def _add_reasoning(entry: Body) -> Body:
    return entry if entry.get("reasoning_content") else {**entry, "reasoning_content": " "}


def _add_signature(entry: Body) -> Body:
    """Add a signature to the first call, which Google requires for calls that it did not sign itself."""
    calls = entry.get("tool_calls")
    if not calls or any("extra_content" in call for call in calls):
        return entry
    return {**entry, "tool_calls": [{**calls[0], "extra_content": _SIGNATURE_PLACEHOLDER}, *calls[1:]]}


_SIGNATURE_PLACEHOLDER = {"google": {"thought_signature": "skip_thought_signature_validator"}}

_REQUIREMENTS: tuple[tuple[str, Adjustment], ...] = (
    (
        # DeepSeek; Moonshot, which treats an empty text as missing
        r"(?i)reasoning_content\b.{0,60} (?:missing|must be)|(?:missing|requires) .?reasoning_content",
        Adjustment("answers without reasoning_content get a blank one", _change_assistant_messages(_add_reasoning)),
    ),
    (
        r"missing a thought_signature",
        Adjustment("calls without thought_signature get a placeholder", _change_assistant_messages(_add_signature)),
    ),
    (
        r"(?i)role:? .?user.? after (?:role )?.?tool",  # Mistral, and other servers with its models
        Adjustment("an answer is inserted between a tool and a user", _insert_assistant_messages),
    ),
    (
        # chat templates of Mistral's models, on any server
        r"(?i)after the optional system message, conversation roles must alternate",
        Adjustment("consecutive messages of a user are joined", _alternate_roles(keeps_first=True)),
    ),
    (
        # Gemma and older models, on any server; Google; o1-mini; Bedrock
        (
            r"(?i)\bsystem (?:role|message|prompt)s? (?:is |are )?not supported|roles must alternate"
            r"|developer instruction is not enabled|only user(?:,| and) assistant[\w ]{0,20} roles are supported"
            r"|(?:not|n't) support (?:the )?['\"`]?system\b"
        ),
        Adjustment("the instruction is sent as a user message", _alternate_roles(keeps_first=False)),
    ),
)
"""Requirements of servers on messages: fields of assistant messages that are missing in messages of other providers
or written by hand, and the order of roles."""

STRICT_DISABLED = Adjustment("schemas of tools are not sent as strict", lambda body: body, keeps_strict=False)

NO_EFFORT = Adjustment(
    "reasoning_effort is 'none' if there are tools",
    lambda body: {"reasoning_effort": "none", **body} if "tools" in body else body,
)
STRICT_OMITTED = Adjustment(
    "tools are sent without strict",
    lambda body: (
        {**body, "tools": [without_inside(tool, "strict") for tool in body["tools"]]} if "tools" in body else body
    ),
)

_ENCRYPTED = "reasoning.encrypted_content"


def _drop_encrypted_reasoning(body: Body) -> Body:
    included = [each for each in body.get("include", ()) if each != _ENCRYPTED]
    return {**body, "include": included} if included else without(body, "include")


_REASONING_OMITTED = Adjustment("reasoning is not requested", _drop_encrypted_reasoning)
"""Models without reasoning reject the request for it; other values of `include` were set by the user."""

_FAMILIES: tuple[tuple[str, str, str, Adjustment], ...] = (
    # model, protocol, parameter in the body, adjustment
    (r"^(gpt-[5-9]|o\d)", "chat", "max_tokens", rename("max_tokens", "max_completion_tokens")),
    (r"^(gpt-5\.[6-9]|gpt-[6-9])", "chat", "tools", NO_EFFORT),
    (r"^(gpt-[34]|chatgpt)", "responses", "include", _REASONING_OMITTED),
    (r"^claude-(3|\w+-4-([0-5]\b|20))", "messages", "thinking", MANUAL_THINKING),
)


def _order_for_mistral(body: Body) -> Body:
    """The messages in the order that Mistral accepts; a model's message at the end is marked as to be continued."""
    entries: list[Body] = []
    for entry in body["messages"]:
        before = entries[-1].get("role") if entries else ""
        is_instruction = entry.get("role") == "system" and before in ("assistant", "tool")
        entries.append({**entry, "role": "user"} if is_instruction else entry)
    if entries and entries[-1].get("role") == "assistant":
        entries[-1] = {**entries[-1], "prefix": True}
    return _insert_assistant_messages({**body, "messages": entries})


def apply_known_adjustments(body: Body, model: str, protocol: str, *, strict_order: bool = False) -> Body:
    """Apply the known adjustments for the model's family, and drop tool settings if there are no tools."""
    if strict_order:
        body = _order_for_mistral(body)
    if "tools" not in body and not OF_TOOLS.isdisjoint(body):
        body = {name: value for name, value in body.items() if name not in OF_TOOLS}
    for family, wire, parameter, adjustment in _FAMILIES:
        if wire == protocol and parameter in body and re.match(family, model):
            body = adjustment.apply(body)
    return body


def adjustment_for(body: Body, error: Rejected, chosen: Collection[str] = ()) -> Adjustment | None:
    """The adjustment for a rejection that names something in `body` as not supported; None if nothing helps.

    `chosen` are the settings that the user made. If the *value* of one of these is wrong, the user must correct it, so
    that nothing is learnt from the rejection.
    """
    handlers = _HANDLERS_BY_STATUS.get(error.status or 0, ())
    if error.is_too_long:
        return with_lower_max_tokens(body, str(error), chosen)
    refusal = RequestRefusal(body, f"{error} {error.code or ''}", error.parameter or "", chosen)
    return next(filter(None, (handler(refusal) for handler in handlers)), None)


def _handle_token_limit(refusal: RequestRefusal) -> Adjustment | None:
    """Rename the token limit, which has two names in Chat Completions."""
    old, new = "max_tokens", "max_completion_tokens"
    if old in refusal.body and new in refusal.text:
        return rename(old, new)
    is_named = refusal.parameter == new or refusal.names(new)
    return rename(new, old) if new in refusal.body and is_named and refusal.is_unsupported else None


def _handle_effort(refusal: RequestRefusal) -> Adjustment | None:
    """Disable reasoning for models that accept tools only without it."""
    is_open = "tools" in refusal.body and "reasoning_effort" not in refusal.body
    return NO_EFFORT if is_open and "reasoning_effort" in refusal.text else None


def _handle_strict(refusal: RequestRefusal) -> Adjustment | None:
    """Send schemas in non-strict mode if strict mode rejects them; drop `strict` if the server does not know it."""
    tools = [{**tool, **tool.get("function", {})} for tool in refusal.body.get("tools", ())]
    if "invalid_function_parameters" in refusal.text and any(tool.get("strict") for tool in tools):
        return STRICT_DISABLED
    is_named = refusal.parameter.endswith("strict") or refusal.names("strict")
    return STRICT_OMITTED if is_named and refusal.is_unsupported and any("strict" in tool for tool in tools) else None


def _handle_field(refusal: RequestRefusal) -> Adjustment | None:
    """Drop a field of messages that the server rejects, although others require it."""
    match = re.search(_ENTRY_FIELD, f"{refusal.parameter} {refusal.text}")
    if match is None or not refusal.is_unsupported:
        return None
    entries, field = match["entries"] or "messages", match["field"] or match["property"]
    return drop_entry_field(entries, field) if field in _optional_fields(refusal.body, entries) else None


def _handle_field_name(refusal: RequestRefusal) -> Adjustment | None:
    """Like `_handle_field`, for servers that give only the name of the field, or describe its place in free text."""
    entries = "messages" if "messages" in refusal.body else "input"
    field = next(filter(refusal.names, sorted(_optional_fields(refusal.body, entries))), None)
    return drop_entry_field(entries, field) if field and refusal.is_unsupported else None


def _optional_fields(body: Body, entries: str) -> set[str]:
    """The optional fields of messages or items, and of the objects one level below."""
    items = [entry for entry in body.get(entries, ()) if isinstance(entry, dict)]
    lists = [entry[name] for entry in items for name in NESTED_FIELDS if isinstance(entry.get(name), list)]
    below = [part for parts in lists for part in parts if isinstance(part, dict)]
    return {name for fields in (*items, *below) for name in fields} - _ESSENTIAL_FIELDS


def _handle_requirement(refusal: RequestRefusal) -> Adjustment | None:
    """Adjust messages to a requirement of the server."""
    adjustments = (adjustment for words, adjustment in _REQUIREMENTS if re.search(words, refusal.text))
    return next(adjustments, None) if "messages" in refusal.body else None


def _handle_parameter(refusal: RequestRefusal) -> Adjustment | None:
    """Drop the parameter that the rejection names, in its `parameter` field or in its text."""
    top = re.split(r"[.\[]", refusal.parameter)[0]
    essential = ESSENTIAL | LIMITS
    droppable = [name for name in refusal.body if name not in essential]
    top = next((name for name in droppable if top in (name, camel_case(name))), top)
    parameter = top if top in refusal.body else next(filter(refusal.names, droppable), None)
    if parameter == "include" and _ENCRYPTED in refusal.body["include"]:
        return _REASONING_OMITTED
    is_default = parameter in _DEFAULT_PARAMETERS and parameter not in refusal.chosen
    return (
        drop(parameter) if parameter and parameter not in essential and (is_default or refusal.is_unsupported) else None
    )


_HANDLERS = (
    *(
        anthropic_adjustment,
        *RULE_HANDLERS,
        _handle_requirement,
        handle_named_files,
        handle_images,
        handle_files,
        _handle_token_limit,
        _handle_effort,
        _handle_strict,
    ),
    *(_handle_field, _handle_parameter),
    _handle_field_name,
)
_CONTENT_HANDLERS = (handle_named_files, handle_images)
_HANDLERS_BY_STATUS = {
    **dict.fromkeys((400, 422), _HANDLERS),
    404: (handle_reasoning, *_CONTENT_HANDLERS),
    **dict.fromkeys((500, 501), _CONTENT_HANDLERS),
}
