"""Rules of receivers learnt from refusals: about ids, names, schemas and reasoning items (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from agentkit.llm.compat.adjustments import Adjustment, Body, RequestRefusal, rule, without
from agentkit.llm.compat.receivers import GOOGLE_FORMATS, NAMES, PROPERTY_NAMES
from agentkit.llm.compat.schemas import keywords_in

_IDS_NAMED = r"(?i)\b(?:tool[ _]?call[ _]?ids?|call_id|tool_?use_?id|tool_calls?\W*\[?\d*\]?\W*id)\b"
_ID_REFUSED = r"(?i)length|characters?|pattern|invalid|must be|match"
_PROPERTIES_NAMED = (
    r"(?i)propert(?:y|ies)(?:[ .'\"]\w+)*[ :'\"]*(?:keys?|names?)? should match|property keys?|property names?"
)
_SCHEMA_NAMED = r"(?i)schema|function|tool|parameter|format|generation_config|unknown name"
_CHOICES = (
    r"(?i)enum\b.{0,120}(?:type_string|string type|must be (?:a )?string|only allowed for string|starting an object)"
)
_FORMATS_NAMED = r"(?i)only .{0,10}enum.{0,20}date-time.{0,20} (?:are|is) supported|format\b.{0,60}not supported for"
_DESCRIPTION = (
    r"(?i)description\b.{0,200}?(?:maximum length|max(?:imum)?|at most|too long|longer than)\D{0,40}(\d{2,6})"
)
_NO_TYPE_LIST = r"(?i)field is not repeating, cannot start list"
_NO_REFERENCE = r"(?i)\$ref|\$defs|unknown name \"?ref"
_WRONG_SCHEMA = r"(?i)invalid[ _](?:json[ _]?)?schema|invalid_function_parameters|invalid_json_schema"
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
_UNSTORED = ("reasoning", "message", "function_call", "")
"""Types of items whose ids refer to nothing, because the server stores no responses."""


def other_ids(refusal: RequestRefusal) -> Adjustment | None:
    """Shorter or plainer tool-call ids."""
    if not re.search(_IDS_NAMED, f"{refusal.text} {refusal.parameter}") or not re.search(_ID_REFUSED, refusal.text):
        return None
    found = _NUMBER.search(refusal.text)
    chars = int(found[1]) if found else 40
    if chars <= 9:
        return rule(
            f"ids of tool calls have {chars} letters or digits", call_ids=f"[a-zA-Z0-9]{{{chars}}}", call_id_chars=chars
        )
    if found is None:
        return rule("ids of tool calls have plain characters", call_ids=NAMES, call_id_chars=40)
    return rule(
        f"ids of tool calls have at most {chars} characters",
        call_ids=f"[a-zA-Z0-9_-]{{1,{chars}}}",
        call_id_chars=chars,
    )


def plain_properties(refusal: RequestRefusal) -> Adjustment | None:
    """Property names of plain characters."""
    is_about = re.search(_PROPERTIES_NAMED, refusal.text) and re.search(r"match|pattern|characters", refusal.text)
    return rule("properties are sent under plain names", property_names=PROPERTY_NAMES) if is_about else None


def simpler_schemas(refusal: RequestRefusal) -> Adjustment | None:
    """Schemas without choices, formats, lists of types or keywords that the server does not know."""
    text = refusal.text
    if re.search(_FORMATS_NAMED, text):
        return rule("formats are described in words", formats=GOOGLE_FORMATS)
    if re.search(_CHOICES, text):
        return rule("choices that are not texts are described in words", string_choices=True)
    if re.search(_NO_TYPE_LIST, text) and "type" in text:
        return rule("lists of types are sent as alternatives", single_types=True)
    if not (refusal.is_unsupported and re.search(_SCHEMA_NAMED, text)):
        return None
    used = {keyword for schema in _schemas(refusal.body) for keyword in keywords_in(schema)}
    if used & {"$ref", "$defs"} and re.search(_NO_REFERENCE, text):
        return rule("references in schemas are replaced by their targets", references=False)
    named = sorted(filter(refusal.names, used - _KEPT))
    return rule(f"schemas are sent without {named[0]}", keywords=frozenset(named[:1])) if named else None


_KEPT = frozenset(
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


def shorter_descriptions(refusal: RequestRefusal) -> Adjustment | None:
    """Descriptions of tools up to the length that the server states; the rest is in the instruction."""
    found = re.search(_DESCRIPTION, f"{refusal.parameter} {refusal.text}", re.DOTALL)
    if found is None or not refusal.body.get("tools"):
        return None
    return rule(f"descriptions of tools have at most {found[1]} characters", description_chars=int(found[1]))


def lenient_schemas(refusal: RequestRefusal) -> Adjustment | None:
    """The schema that strict mode refuses is sent without it; other schemas stay strict."""
    text = f"{refusal.text} {refusal.parameter}"
    if not re.search(_WRONG_SCHEMA, text):
        return None
    names = [name for name in _strict_names(refusal.body) if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]
    if names:
        return rule(f"the schema of {names[0]} is not sent as strict", lenient_tools=frozenset(names[:1]))
    if _has_strict_answer(refusal.body) and re.search(r"response_format|text\.format|json_schema", text):
        return rule("schemas of answers are not sent as strict", lenient_answers=True)
    return None


def _tools(body: Body) -> Iterator[Body]:
    return ({**tool, **tool.get("function", {})} for tool in body.get("tools", ()))


def _strict_names(body: Body) -> list[str]:
    return [str(tool.get("name")) for tool in _tools(body) if tool.get("strict")]


def _answer_format(body: Body) -> Any:
    outer = (
        body.get("response_format", {}).get("json_schema") if isinstance(body.get("response_format"), dict) else None
    )
    return outer or (body["text"].get("format") if isinstance(body.get("text"), dict) else None) or {}


def _has_strict_answer(body: Body) -> bool:
    return bool(_answer_format(body).get("strict"))


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


def _without_reasoning(digests: Iterable[str]) -> Adjustment:
    """An adjustment that removes these reasoning items, and ids of items that refer to stored ones."""
    known = tuple(dict.fromkeys(digests))[-_MAX_DIGESTS:]
    left_out = frozenset(known)

    def apply(body: Body) -> Body:
        items = [item for item in body["input"] if not (_is_reasoning(item) and _digest(item) in left_out)]
        if len(items) == len(body["input"]):
            return body
        return {**body, "input": [without(item, "id") if item.get("type", "") in _UNSTORED else item for item in items]}

    name = "reasoning of other models and accounts is not sent back"
    return Adjustment(name, apply, parts=known, of_parts=_without_reasoning)


def _unnumbered(body: Body) -> Body:
    return {
        **body,
        "input": [without(each, "id") if each.get("type", "") in _UNSTORED else each for each in body["input"]],
    }


def no_reasoning(refusal: RequestRefusal) -> Adjustment | None:
    """Leave out the reasoning items of the conversation; without any, the ids of items that need them."""
    items = refusal.body.get("input")
    if not isinstance(items, list) or not _REASONING.search(refusal.text):
        return None
    digests = [_digest(item) for item in items if _is_reasoning(item)]
    if digests:
        return _without_reasoning(digests)
    has_ids = _unnumbered(refusal.body) != refusal.body
    return Adjustment("items are sent without ids", _unnumbered) if has_ids else None


def no_generation_setting(refusal: RequestRefusal) -> Adjustment | None:
    """A setting of Gemini's generation that the server does not know is left out."""
    settings = refusal.body.get("generationConfig")
    if not isinstance(settings, dict) or not refusal.is_unsupported:
        return None
    named = next((name for name in settings if name not in _WANTED and refusal.names(name)), None)

    def apply(body: Body) -> Body:
        return {**body, "generationConfig": without(body.get("generationConfig", {}), str(named))}

    return Adjustment(f"{named} is left out", apply) if named else None


_WANTED = frozenset({"responseJsonSchema", "responseMimeType", "responseModalities", "maxOutputTokens"})
"""Settings without which the request would be another one, or would cost more."""

RULE_LESSONS = (
    no_generation_setting,
    no_reasoning,
    other_ids,
    plain_properties,
    shorter_descriptions,
    simpler_schemas,
    lenient_schemas,
)
