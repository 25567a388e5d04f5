"""Redaction of keys and tokens, by their shape and by the values of secret environment variables.

Stored text is also searched for values whose name identifies a secret, as in `{"password": "tulip"}`: a model can need
such a value, a file does not.
"""

from __future__ import annotations

import json
import re
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from enum import Enum
from functools import cache, lru_cache, partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

from agentkit.settings import secret_values
from agentkit.text_encoding import read_table

MARK = "[redacted: "
"""The beginning of every replacement."""

_REDACTED = f"{MARK}secret]"

_MIN_CHARS = 12
_MIN_WRITTEN_CHARS = 8
_MAX_NODES = 100_000
_MAX_LEVELS = 60
_URL = "url"
_PART_FIELDS = frozenset({_URL, "detail", "name", "part"})
_BASE64_FILE = re.compile(
    r"data:(?:(?:image|audio)/[a-z0-9.+-]{1,40}|application/(?:pdf|msword|vnd\.[a-z0-9.-]{1,80}));base64,[A-Za-z0-9+/=]*+"
)
"""Base64 data of binary files, in which anything that resembles a key is a coincidence."""


def _mixed_pattern(characters: str, least: int = 20, most: int = 4_096) -> str:
    """Pattern of characters with a letter next to a digit, as in keys and unlike hyphenated words."""
    near = min(most - 2, 200)
    return rf"(?=[{characters}]{{0,{near}}}?(?:[A-Za-z]\d|\d[A-Za-z]))[{characters}]{{{least},{most}}}+"


_MIXED = re.compile(r"\{mixed (\S+?)((?: \d+)*)\}")


@cache
def key_formats() -> tuple[tuple[str, str, str], ...]:
    """Keys as (required substring, pattern, description), from redaction.txt.

    The match is stricter directly after a word character.
    """

    def expand(match: re.Match[str]) -> str:
        return _mixed_pattern(match[1], *map(int, match[2].split()))

    rows = read_table(Path(__file__).with_suffix(".txt"))
    return tuple((needle, _MIXED.sub(expand, shape), kind) for kind, needle, shape in rows)


_NEVER_GLUED = frozenset(
    {"sk_", "SK", "key-", "fc-", "fw_", "cio", "oy2", "re_", "rnd_", "pat", "secret_", "-us", "1//0", "AZDO", "Q~"}
    | {"NRAL", ".", ".atlasv1.", "SG.", "sl.", "dp.", "EAA", "EAAA", "LTAI", "api_org_", "sha256~", "v1.0-", "eyJ"}
)
"""Substrings that also occur in ordinary names, such as `task_`, `cache-key-` and `MSG.`: never matched inside a word.
"""

_SURELY_KEY = re.compile(
    r"sk-(?:ant|proj|or-v1|svcacct|admin|lf|kimi|cp)-|"
    r"sk-(?=[a-z0-9]{0,100}[A-Z])(?=[A-Z0-9]{0,100}[a-z])(?=[A-Za-z]{0,100}\d)[A-Za-z0-9]{32}"
)
"""Keys recognised even after a word character; words such as `task-…` and `risk-…` end with the same letters."""

_MAX_GLUED, _MIN_GLUED = 24, 20
"""Maximum length of a word before a key, and minimum length of the key in that case."""

_KEY_CHARS = "_~.+/=$,-"
_DIGITS_AND_SIGNS = f"0123456789{_KEY_CHARS}"
_KINDS_OF_CHARS = bytes(ord("x" if chr(code).isalnum() or chr(code) in _KEY_CHARS else " ") for code in range(128)) + (
    b" " * 128
)
_LONG_WORD = b"x" * 15
"""A run of letters, digits and `_KEY_CHARS`, such as every key contains; only these runs are searched for needles."""

_IN_WORD = re.compile(r"[\w-]+")
_DIGIT_BY_LETTER = re.compile(r"[A-Za-z]\d|\d[A-Za-z]")

_SHAPES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    ((":AA",), r"(?:(?<![\w:/-])|(?<=\\[nrt]))\d{8,10}:AA[A-Za-z0-9_-]{33}(?![\w-])", "Telegram token"),
    (
        ("sig=",),
        r"(?P<before>(?<![A-Za-z0-9])sig=)(?:[A-Za-z0-9+/]|%2[BbFf]){43}(?:%3[Dd]|=)",
        "signature of a shared address",
    ),
    (
        ("PRIVATE KEY",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]|-(?!----)){0,20000}+(?:-----END [A-Z0-9 ]{0,60}-----)?",
        "private key",
    ),
    (("://",), r"(?P<before>://)[^\s/:@'\"]{0,100}+:[^\s/@'\"]{1,200}+(?=@)", "name and password"),
)
_BEARER = rf"(?P<before>[Bb](?i:earer) ){_mixed_pattern('A-Za-z0-9._~+/-')}=*"
_ASSIGNED = r"""(?x) (?P<before> [AaPpSs] (?=[PpCcUuAaEe][IiCcTtSs]) (?<![A-Za-z0-9][aps]) (?<![A-Z0-9][APS])
    (?i: pi[_-]?key | ccess[_-]?(?:key|token) | uth[_-]?token | assw(?:or)?d | ecret(?:[_-]?key)? )
    ["']?\s{0,3}[=:]\s{0,3}["']?)
    (?=[A-Za-z+/_=-]{0,200}+\d)(?=[0-9+/_=-]{0,200}+[A-Za-z]) [A-Za-z0-9+/_=-]{20,4096}+ (?![(\[]|\.[A-Za-z_])"""
_SHAPES_OF_ANY_CASE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("bearer ",), _BEARER, "token"),
    (
        ("pi_key", "pikey", "pi-key", "ccess", "uth_token", "uthtoken", "uth-token", "assw", "ecret"),
        _ASSIGNED,
        "secret",
    ),
)
"""Formats whose value is a long word."""


_KEYS = ("api", "access", "private", "secret", "signing", "encryption", "auth", "shared", "account", "session")
_NAMES = (
    "pass(?:word|wd|phrase|code)|pwd|secret|credentials?|authorization|bearer|cookie"
    f"|(?:{'|'.join(_KEYS)})[ _.-]?key"
    "|token"
)
"""Endings of names of secrets. Page, list and vocabulary tokens are excluded."""

_ORDINARY_TOKENS = "page|next|continuation|sync|stop|special|max|bos|eos|pad|unk|sep|cls|mask|cursor"
_SECRET_NAME = rf"(?i)(?:{_NAMES})\d{{0,4}}\Z"
_ORDINARY_TOKEN_NAME = rf"(?i)(?:{_ORDINARY_TOKENS})[ _.-]?token\d{{0,4}}\Z"
_NEEDLES = ("pass", "pwd", "secret", "credential", "authorization", "bearer", "cookie", "key", "token")
_NAME = rf"(?P<name>[\w\ .-]{{0,60}}?(?:{_NAMES})\d{{0,4}})"
_NAMED = (
    (  # "name": "value", also in JSON nested in JSON text and in Python's repr
        ":",
        rf"""(?xsi)(?P<before>(?P<quote>\\{{0,7}}["']){_NAME}(?P=quote)\s{{0,3}}:\s{{0,3}}
        (?P<open>(?P<escape>\\{{1,7}})?["']))(?!(?P=open))
        (?P<value>(?(escape).{{1,4000}}?(?<!\\)|(?:\\.|[^\\]){{1,4000}}?))(?P<after>(?P=open))""",
    ),
    (  # name=value, as in a command, a URL or a settings file
        "=",
        rf"""(?xi)(?P<before>(?<![\w.-])(?=[\w.-]{{1,80}}+=){_NAME}=)
        (?P<value>[^\s&"'`;,()\[\]{{}}<>|\\]{{4,4000}}+)(?![(\[])(?P<after>)""",
    ),
    (  # a header
        ":",
        r"""(?xi)(?P<before>(?<![\w-])(?P<name>(?:proxy-)?authorization|x-[a-z-]{0,30}(?:key|token|secret))
        :\ {0,3}(?:(?:basic|bearer|token|digest|apikey)\ +)?)(?P<value>[^\s"'`\\\[]{4,4000}+)(?P<after>)""",
    ),
    (":", r"""(?i)(?P<before>(?P<name>\bcookie): {0,3})(?P<value>[\w-]{1,80}+=[^\r\n"'`\\]{1,4000})(?P<after>)"""),
)
_NAMED_PREFILTER = re.compile(rf"""(?:{_NAMES}|key)\d{{0,4}}(?:\\{{0,7}}["']\s{{0,3}}:\s{{0,3}}\\{{0,7}}["'\[]|[=:])""")
"""Prefilter in lower case, from a needle on, for the patterns above and for a list after a name."""

_PLACEHOLDER = r"(?s)[$%<{].*|[A-Za-z_]+(?:\.[A-Za-z_]+)+"
"""A placeholder, or a dotted name in a program."""


@lru_cache(4_096)
def is_secret_name(name: str) -> bool:
    """Whether a name identifies a secret: `password`, `apiKey`, `X-Auth-Token`; not `next_page_token`."""
    return re.search(_SECRET_NAME, name) is not None and re.search(_ORDINARY_TOKEN_NAME, name) is None


@cache
def _compile(shape: str, kind: str) -> tuple[re.Pattern[str], str]:
    """The compiled pattern and its replacement."""
    pattern = re.compile(shape)
    before = r"\g<before>" if "before" in pattern.groupindex else ""
    return pattern, f"{before}{MARK}{kind}]"


def redact(text: str) -> str:
    """Replace everything that is or resembles a secret by `[redacted: <kind>]`."""
    return redactor()(text)


def redactor() -> Callable[[str], str]:
    """Return a `redact` function for many texts, which reads the environment's secrets once."""
    return partial(_redact_text, secrets=spellings(secret_values()))


def stored_text_redactor() -> Callable[[str], str]:
    """Return a `redactor` for stored text, which also redacts values whose name in the text identifies a secret."""
    return _cached_redactor(secret_values())


@lru_cache(4)
def _cached_redactor(secrets: tuple[str, ...]) -> Callable[[str], str]:
    return partial(_redact_stored, secrets=spellings(secrets))


def value_redactor(values: tuple[str, ...]) -> Callable[[str], str]:
    """Return a function that replaces these values, in any spelling, by `[redacted: secret]`."""
    found = spellings(values)

    def clean(text: str) -> str:
        for each in found:
            text = text.replace(each, _REDACTED)
        return text

    return clean


@lru_cache(16)
def spellings(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """All spellings of the secrets, longest first: unchanged, quoted and encoded.

    Includes quoting for JSON, programs, URLs and HTML, base64 at any offset, and hexadecimal.
    """
    found = {
        spelling
        for secret in secrets
        for spelling in (*_quoted_spellings(secret), *_encoded_spellings(secret.encode("utf-8", "replace")))
    }
    return tuple(sorted(found, key=len, reverse=True))


def _quoted_spellings(secret: str) -> Iterator[str]:
    from html import escape
    from urllib.parse import quote, quote_plus

    plain, ascii_only = (json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
    yield from (secret, plain, ascii_only, json.dumps(plain, ensure_ascii=False)[1:-1], json.dumps(ascii_only)[1:-1])
    if not secret.isalnum() or not secret.isascii():
        yield from (repr(secret)[1:-1], ascii(secret)[1:-1], repr(secret.encode("utf-8", "replace"))[2:-1])
        yield from (escape(secret), escape(secret, quote=False))
        for address in (
            quote(secret, errors="replace"),
            quote(secret, "", errors="replace"),
            quote_plus(secret, errors="replace"),
        ):
            yield from (address, re.sub("%..", lambda sign: sign[0].lower(), address))


def _encoded_spellings(secret: bytes) -> Iterator[str]:
    """The hexadecimal digits, and the base64 characters that depend only on the secret, at each of three offsets."""
    from base64 import b64encode

    yield from (secret.hex(), secret.hex().upper())
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(secret)) * 8 // 6
        characters = b64encode(bytes(before) + secret)[first:last].decode()
        yield from (characters, characters.replace("+", "-").replace("/", "_"))


def redact_data(value: Any, clean: Callable[[str], str]) -> Any:
    """Redact JSON-compatible data before it is stored. JSON text in `arguments` remains valid JSON.

    `clean` is a `stored_text_redactor`.
    """
    if isinstance(value, str):
        return clean(value) if _is_long_enough(value) else value
    if isinstance(value, dict):
        return {
            redact_data(name, clean): item if is_binary_data(value, name) else _redact_field(name, item, clean)
            for name, item in value.items()
        }
    return [redact_data(item, clean) for item in value] if isinstance(value, list) else value


def _is_long_enough(text: str) -> bool:
    """Whether a text is long enough to contain a secret."""
    return len(text) >= _MIN_WRITTEN_CHARS


def is_binary_data(part: dict[Any, Any], name: Any) -> bool:
    """Whether this field of an object is the base64 data of an image, PDF or recording."""
    url = part[name] if name == _URL and part.keys() <= _PART_FIELDS else None
    return isinstance(url, str) and _BASE64_FILE.fullmatch(url) is not None


def _redact_field(name: Any, item: Any, clean: Callable[[str], str]) -> Any:
    item = _redact_named(name, item)
    return _redact_json(item, clean) if name == "arguments" and isinstance(item, str) else redact_data(item, clean)


def _redact_named(name: Any, value: Any) -> Any:
    """Replace strings whose name identifies a secret, directly or in a list."""
    if not isinstance(name, str) or not is_secret_name(name):
        return value
    if isinstance(value, list):
        return [_redact_named(name, each) for each in value]
    return _REDACTED if isinstance(value, str) and value and not value.startswith(MARK) else value


def _redact_json(text: str, clean: Callable[[str], str]) -> str:
    """Redact each value of JSON text, or the whole text if it is not JSON."""
    redacted = clean(text)
    try:
        parsed = json.loads(text)
        plain = json.dumps(parsed, ensure_ascii=False)
        cleaned = clean(json.dumps(redact_data(parsed, clean), ensure_ascii=False))  # and secrets known by their key
    except (ValueError, RecursionError):
        return redacted
    return text if cleaned == plain and redacted == text else cleaned


def redact_value(value: Any, clean: Callable[[str], str] | None = None) -> Any:
    """Redact every string in the value; returns the same object if nothing was redacted.

    Searches containers and records: dataclasses, named tuples, pydantic models and attrs classes. Other objects are
    left unchanged, as are records whose class sets `keeps_secrets = True`.

    `clean` is an existing `redactor`.
    """
    return _redact_nested(value, clean or redactor(), [_MAX_NODES], _MAX_LEVELS)


def _redact_text(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, f"{MARK}value of a secret variable]")
    if len(text) < _MIN_CHARS:
        return text
    words = "\n".join(_long_words(text))
    if words:
        for needle, shape, kind in key_formats():
            if needle in words:
                text = _compile(shape, kind)[0].sub(partial(_without_key, needle, kind), text)
        text = _without_shapes(text, text.lower(), _SHAPES_OF_ANY_CASE)
    return _without_shapes(text, text, _SHAPES)


def _long_words(text: str) -> list[str]:
    """Runs of at least 15 characters of keys, with a letter: scanning bytes is faster than a regular expression."""
    kinds = text.encode("ascii", "replace").translate(_KINDS_OF_CHARS)  # one byte for each character of the text
    words, start = list[str](), kinds.find(_LONG_WORD)
    while start >= 0:
        end = kinds.find(b" ", start)
        end = end if end >= 0 else len(text)
        word = text[start:end]
        if word.strip(_DIGITS_AND_SIGNS):  # numbers and lines of signs are frequent, and not keys
            words.append(word)
        start = kinds.find(_LONG_WORD, end)
    return words


def _without_shapes(text: str, searched: str, shapes: Iterable[tuple[tuple[str, ...], str, str]]) -> str:
    for needles, shape, kind in shapes:
        for needle in needles:
            if needle in searched:
                pattern, replacement = _compile(shape, kind)
                text = pattern.sub(replacement, text)
                break
    return text


def _without_key(needle: str, kind: str, found: re.Match[str]) -> str:
    """Replacement of a text that resembles a key; inside a word, only an unambiguous key is replaced."""
    text, start = found.string, found.start()
    before = text[max(start - _MAX_GLUED - 1, 0) : start]
    is_glued = before[-1:] == "-" or before[-1:].isalnum() or before[-1:] == "_"
    if is_glued and before[-2:] not in {r"\n", r"\r", r"\t"}:  # the n of an escaped line break
        is_sure = needle != "sk-" or _SURELY_KEY.match(found[0])
        is_key = is_sure and needle not in _NEVER_GLUED and len(found[0]) >= _MIN_GLUED
        if not is_key or not _DIGIT_BY_LETTER.search(found[0], len(needle)) or _is_long(before):
            return found[0]
    return f"{MARK}{kind}]"


def _is_long(before: str) -> bool:
    """Whether the preceding text belongs to a long run of key characters, in which a match is a coincidence."""
    return len(before) > _MAX_GLUED and _IN_WORD.fullmatch(before) is not None


def _redact_stored(text: str, secrets: Sequence[str]) -> str:
    text = _redact_text(text, secrets)
    if may_name_secret(text):
        for sign, pattern in _NAMED:
            if sign in text:
                text = re.sub(pattern, _without_value, text)
    return text


def may_name_secret(text: str) -> bool:
    """Whether a text can contain the name of a secret with its value. False positives are rare and harmless."""
    lowered = text.lower()
    for needle in _NEEDLES:  # finding words first takes a fraction of the time of one search of the whole text
        at = lowered.find(needle)
        while at >= 0:
            if _NAMED_PREFILTER.match(lowered, at) and (
                needle != "key" or _ends_with_kind(lowered[max(at - 20, 0) : at])
            ):
                return True
            at = lowered.find(needle, at + len(needle))
    return False


def _ends_with_kind(before: str) -> bool:
    """Whether the text before `key` makes it the name of a secret: of an API key, but not of a primary key."""
    return before.endswith(_KEYS) or (before.endswith((" ", "_", ".", "-")) and before[:-1].endswith(_KEYS))


def _without_value(found: re.Match[str]) -> str:
    """Replacement of a name and its value."""
    if MARK in found["value"] or not is_secret_name(found["name"]) or re.fullmatch(_PLACEHOLDER, found["value"]):
        return found[0]
    return f"{found['before']}{_REDACTED}{found['after']}"


def _redact_nested(value: Any, clean: Callable[[str], str], nodes_left: list[int], levels: int) -> Any:
    """Recursive redaction; `nodes_left` is the number of nodes left to visit, `levels` the remaining depth."""
    nodes_left[0] -= 1
    if isinstance(value, str) and not isinstance(value, Enum):
        hidden = clean(value)
        return value if hidden == value else hidden
    if nodes_left[0] < 0 or levels == 0 or type(value) in _WITHOUT_TEXT:
        return value
    rebuild = _CONTAINERS.get(type(value)) or _rebuilder(value)
    if rebuild is None:
        return value
    items = list(value.items()) if isinstance(value, dict) else _items(value)
    redacted = [_redact_nested(item, clean, nodes_left, levels - 1) for item in items]
    if not any(new is not old for new, old in zip(redacted, items, strict=True)):
        return value
    try:
        return rebuild(redacted)
    except (
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        RuntimeError,
    ):  # a foreign class that cannot be rebuilt: return redacted text instead of the secret
        return clean(str(value))


_WITHOUT_TEXT = frozenset({int, float, bool, type(None), bytes, complex})
_CONTAINERS: dict[type, Callable[[list[Any]], Any]] = {kind: kind for kind in (dict, list, tuple, set, frozenset)}


def _items(value: Any) -> list[Any]:
    """The parts of a value: its elements, or the names and values of its attributes."""
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    return list(value.items()) if isinstance(value, MappingProxyType) else _attributes(value)


def _rebuilder(value: Any) -> Callable[[list[Any]], Any] | None:
    """Return a function that rebuilds the value from other parts; None if the value is not a container."""
    if isinstance(value, dict | list | set | deque):
        return partial(_refill, value)
    if isinstance(value, tuple):
        return getattr(type(value), "_make", type(value))
    if isinstance(value, frozenset):
        return type(value)
    if isinstance(value, MappingProxyType):
        return dict
    kind = type(value)
    is_record = any(hasattr(kind, mark) for mark in _RECORDS) or isinstance(value, _PLAIN_OBJECTS)
    return partial(_with_attributes, value) if is_record and not getattr(kind, "keeps_secrets", False) else None


_RECORDS = ("__dataclass_fields__", "__attrs_attrs__", "__pydantic_fields__")
"""Marker attributes of record classes: dataclasses, attrs and pydantic."""
_PLAIN_OBJECTS = (SimpleNamespace, UserDict, UserList)


def _refill(value: Any, parts: list[Any]) -> Any:
    """A copy of a container (such as a `defaultdict`) with other contents."""
    other = copy(value)
    other.clear()
    if isinstance(value, dict):
        for name, item in parts:
            other[name] = item
    elif isinstance(value, set):
        other.update(parts)
    else:
        other.extend(parts)
    return other


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """The attributes of an object, including those in slots."""
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    named = [name for name in slots if name not in {"__dict__", "__weakref__"} and hasattr(value, name)]
    return [*getattr(value, "__dict__", {}).items(), *((name, getattr(value, name)) for name in named)]


def _slots(kind: type) -> list[str]:
    """The names of the slots of a class after name mangling."""
    slots = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else [*slots]
    private = f"_{kind.__name__.lstrip('_')}"
    return [f"{private}{name}" if name.startswith("__") and not name.endswith("__") else name for name in names]


def _with_attributes(value: Any, parts: list[Any]) -> Any:
    """A copy of an object with these attributes, even if it is frozen; `__init__` is not called."""
    kind: Any = type(value)
    other = kind.__new__(kind)
    for name, item in parts:
        object.__setattr__(other, name, item)
    return other
