"""Rules of receivers, what each protocol and provider accepts in a request, and adjustments of request bodies (pure).

Sources are the providers' API references and the refusals that their users report. A rule that is missing here is
learnt from the first refusal that names it; see `agentkit.llm.compat`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentkit._dataclass import dataclass
from agentkit.llm.protocols.parsing import camel_case

if TYPE_CHECKING:
    from agentkit.llm.endpoint import Endpoint


ANY_ID = r".+"
NAMES = r"[a-zA-Z0-9_-]{1,64}"
"""Tool names that every provider but Google accepts; call ids that Anthropic accepts."""

PROPERTY_NAMES = r"[a-zA-Z0-9_.-]{1,64}"
GOOGLE_FORMATS = frozenset({"enum", "date-time"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """The rules that a server applies to requests. Patterns are regular expressions for a whole text.

    The rules that hold for all servers are not listed: the schema of a tool describes an object, without alternatives
    at its root; arrays state what their items are; call ids are not empty; no assistant message is empty.

    Attributes:
        tool_names: Pattern of tool names.
        description_chars: Maximum length of a tool's description; 0 if it is unlimited.
        call_ids: Pattern of tool-call ids.
        call_id_chars: Length of the ids that replace others.
        message_names: Whether messages can have the names of participants.
        property_names: Pattern of the names of properties in schemas; any name if it is empty.
        string_choices: Whether the values of `enum` must be texts.
        formats: Accepted values of `format`; None if any is.
        keywords: Keywords of JSON schema that are refused.
        known_keywords: Keywords of JSON schema that are accepted; None if unknown ones are ignored.
        strict_order: Whether the order of roles is checked: a model's message follows results, a user's is the last.
        single_types: Whether `type` must be one type, and not a list.
        references: Whether `$ref` is accepted.
        lenient_tools: Names of tools whose schemas are refused in strict mode.
        lenient_answers: Whether the schemas of answers are refused in strict mode.
    """

    tool_names: str = NAMES
    description_chars: int = 0
    call_ids: str = ANY_ID
    call_id_chars: int = 40
    message_names: bool = False
    property_names: str = ""
    string_choices: bool = False
    formats: frozenset[str] | None = None
    keywords: frozenset[str] = frozenset()
    known_keywords: frozenset[str] | None = None
    strict_order: bool = False
    single_types: bool = False
    references: bool = True
    lenient_tools: frozenset[str] = frozenset()
    lenient_answers: bool = False

    @property
    def adapts_schemas(self) -> bool:
        """Whether the receiver refuses keywords or values of a JSON schema that other receivers accept."""
        is_restricted = self.string_choices or self.single_types or not self.references or bool(self.keywords)
        return is_restricted or self.formats is not None or self.known_keywords is not None

    def learning(self, rules: Mapping[str, Any]) -> Receiver:
        """The receiver with further rules; sets of keywords and of tools grow."""
        merged = {
            name: getattr(self, name) | value if name in ("keywords", "lenient_tools") else value
            for name, value in rules.items()
        }
        return replace(self, **merged)


_MISTRAL = {"call_ids": r"[a-zA-Z0-9]{9}", "call_id_chars": 9, "message_names": False}
_CLAUDE = {"call_ids": NAMES, "property_names": PROPERTY_NAMES}
_GOOGLE = {
    "tool_names": r"[a-zA-Z_][a-zA-Z0-9_-]{0,62}",
    "message_names": False,
    "string_choices": True,
    "formats": GOOGLE_FORMATS,
    "single_types": True,
    "references": False,
    "known_keywords": frozenset(
        (
            *("type", "format", "title", "description", "nullable", "enum", "items", "maxItems", "minItems", "default"),
            *("properties", "required", "minProperties", "maxProperties", "minimum", "maximum", "minLength"),
            *("maxLength", "pattern", "example", "anyOf", "propertyOrdering"),
        )
    ),
}

_PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "chat": {"call_ids": r".{1,40}", "call_id_chars": 40, "description_chars": 1_024, "message_names": True},
    "responses": {"call_ids": r".{1,64}", "call_id_chars": 64, "description_chars": 1_024},
    "messages": {**_CLAUDE, "call_id_chars": 64},
    "gemini": _GOOGLE,
}
"""The rules of each protocol."""

_PROVIDERS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("chat", "gemini"): _GOOGLE,
    ("chat", "mistral"): {**_MISTRAL, "strict_order": True},
}
"""The rules of a provider in one protocol, in addition to those of the protocol."""

_HOSTS = (
    (re.compile(r"(?:^|\.)googleapis\.com$"), "gemini"),
    (re.compile(r"(?:^|\.)mistral\.ai$"), "mistral"),
)
"""Providers by host, for base URLs of endpoints that do not name their provider."""

_MODELS = (
    (re.compile(r"mi[sx]tral|ministral|magistral|codestral|devstral|pixtral|voxtral", re.IGNORECASE), _MISTRAL),
    (re.compile(r"\bgemini-", re.IGNORECASE), _GOOGLE),
    (re.compile(r"\bclaude-", re.IGNORECASE), _CLAUDE),
)
"""The rules that a model, or the provider behind a router, has on every server of the chat protocol."""


def receiver_of(endpoint: Endpoint) -> Receiver:
    """The rules that apply to requests to an endpoint, as far as they are known."""
    protocol = endpoint.protocol
    rules = {**_PROTOCOLS.get(protocol, {}), **_PROVIDERS.get((protocol, _provider(endpoint)), {})}
    for model, model_rules in _MODELS if protocol == "chat" else ():
        if model.search(endpoint.model):
            rules |= model_rules
    return Receiver(**rules)


def _provider(endpoint: Endpoint) -> str:
    """The provider by host, or else by name."""
    host = urlsplit(endpoint.base_url).hostname or ""
    return next((name for pattern, name in _HOSTS if pattern.search(host)), endpoint.provider)


Body = dict[str, Any]

NESTED_FIELDS = ("tool_calls", "content")
"""Fields of messages and items that contain nested objects."""

_UNSUPPORTED = (
    r"(?i)unsupported|not supported|not support|unrecognized|unrecognised|unknown|unexpected|not permitted|not allowed"
    r"|extra inputs|extra fields|extra_forbidden|no such|cannot be used|incompatible"
)
_WRONG_VALUE = (
    r"(?i)(supported|valid|allowed|permitted) values|(must|should|to) be (one|between|in|less|greater|at)|one of"
    r"|invalid value|invalid_value"
)


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A change to request bodies that a server would reject. `name` describes and identifies it.

    If `keeps_strict` is false, schemas are not sent in strict mode. If `is_lasting` is false, the change applies to one
    request only. If `is_slow` is true, it parses files in a subprocess. `parts` are the digests of the message parts
    that it affects, if it affects only some; `for_parts` makes the same adjustment for other parts. `rules` are rules
    of the receiver, fields of `Receiver`, under which the request is converted again.
    """

    name: str
    apply: Callable[[Body], Body]
    keeps_strict: bool = True
    is_lasting: bool = True
    is_slow: bool = False
    parts: tuple[str, ...] = ()
    for_parts: Callable[[Iterable[str]], Adjustment] | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)


def joined(adjustment: Adjustment, earlier: Adjustment | None) -> Adjustment:
    """Merge an adjustment with an earlier one of the same name for other parts of messages."""
    if earlier is None or adjustment.for_parts is None:
        return adjustment
    return adjustment.for_parts((*earlier.parts, *adjustment.parts))


def rule(name: str, **rules: Any) -> Adjustment:
    """An adjustment that adds rules of the receiver."""
    return Adjustment(name, lambda body: body, rules=rules)


def drop(name: str) -> Adjustment:
    """Drop a top-level parameter."""
    return Adjustment(f"{name} is left out", lambda body: without(body, name))


def rename(old: str, new: str) -> Adjustment:
    """Rename a top-level parameter."""
    return Adjustment(
        f"{old} is sent as {new}", lambda body: {(new if key == old else key): value for key, value in body.items()}
    )


def drop_entry_field(entries: str, name: str) -> Adjustment:
    """Drop a field from every message or item, and from its nested objects."""

    def apply(body: Body) -> Body:
        return {**body, entries: [without_inside(entry, name) for entry in body[entries]]}

    return Adjustment(f"{entries} are sent without {name}", apply)


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """A rejected body, the server's message, and the settings that the user made."""

    body: Body
    text: str
    parameter: str
    chosen: Collection[str]

    @property
    def is_unsupported(self) -> bool:
        """Whether something is rejected as unsupported, whatever its value."""
        is_of_value = re.search(_WRONG_VALUE, self.text) and not re.search(r"(?i)unknown field", self.text)
        return bool(re.search(_UNSUPPORTED, self.text)) and not is_of_value

    def names(self, parameter: str) -> bool:
        """Whether the text names the parameter, in snake case or camel case.

        A short word must be marked as a name, since it could be plain text.
        """
        word = re.escape(parameter)
        if "_" in parameter:
            word = rf"(?:{word}|{re.escape(camel_case(parameter))})"
        if "_" in parameter or len(parameter) > 7:
            return bool(re.search(rf"\b{word}\b", self.text))
        return bool(re.search(rf"['\"`.]{word}\b|\b(parameter|argument|field|option)s?:? {word}\b", self.text))


def without(fields: Body, name: str) -> Body:
    """The fields without one."""
    return {key: value for key, value in fields.items() if key != name}


def without_inside(entry: Body, name: str) -> Body:
    """A message, item or tool without a field, also one level below."""
    new = without(entry, name)
    for nested in NESTED_FIELDS:
        if isinstance(new.get(nested), list):
            new[nested] = [without(part, name) if isinstance(part, dict) else part for part in new[nested]]
    if "function" in new:
        new["function"] = without(new["function"], name)
    return new
