"""What may not be shown? Keys and tokens, told by their shape, and the values of the environment's secret variables.

What is written down loses also what only its name makes a secret, as in `{"password": "tulip"}`: a model may need that,
and a file does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from agentkit.config import secret_values

MARK = "[redacted: "
"""How every replacement begins."""

_HIDDEN = f"{MARK}secret]"

_SHORTEST_CHARS = 12
_SHORTEST_WRITTEN_CHARS = 8
_MOST_NODES = 100_000
_MOST_LEVELS = 60
_URL = "url"
_PART_FIELDS = frozenset({_URL, "detail", "name", "part"})
_NO_TEXT = re.compile(
    r"data:(?:(?:image|audio)/[a-z0-9.+-]{1,40}|application/(?:pdf|msword|vnd\.[a-z0-9.-]{1,80}));base64,[A-Za-z0-9+/=]*+"
)
"""The data of what is no text: base64 in which only chance has what looks like a key."""


def _mixed(characters: str) -> str:
    """Characters among which a letter stands by a digit, as keys have it and words joined by hyphens have not."""
    return rf"(?=[{characters}]{{0,200}}?(?:[A-Za-z]\d|\d[A-Za-z]))[{characters}]{{20,4096}}+"


def _begun(start: str, rest: str) -> str:
    """A shape that begins with these characters, and not within a word: the engine skips to where they are.

    The n of a line break that is written as an escape is no word.
    """
    return rf"{start}(?:(?<![\w-]{start})|(?<=\\[nrt]{start})){rest}"


_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("sk-", _begun("sk-", _mixed("A-Za-z0-9_-")), "API key"),
    ("k_live_", _begun("[srp]k_live_", "[A-Za-z0-9]{10,}"), "payment key"),
    ("k_test_", _begun("[srp]k_test_", "[A-Za-z0-9]{10,}"), "payment key"),
    ("gh", _begun("gh", "[pousr]_[A-Za-z0-9]{20,}"), "GitHub token"),
    ("github_pat_", _begun("github_pat_", "[A-Za-z0-9_]{20,}"), "GitHub token"),
    ("glpat-", _begun("glpat-", "[A-Za-z0-9_-]{16,}"), "GitLab token"),
    ("xox", _begun("xox", "[abeoprs]-[A-Za-z0-9-]{10,}"), "Slack token"),
    ("hooks.slack.com", _begun(r"hooks\.slack\.com", "/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"), "Slack webhook"),
    ("AKIA", _begun("AKIA", r"[A-Z0-9]{16}\b"), "AWS key"),
    ("ASIA", _begun("ASIA", r"[A-Z0-9]{16}\b"), "AWS key"),
    ("AIza", _begun("AIza", "[A-Za-z0-9_-]{30,}"), "Google key"),
    ("ya29.", _begun(r"ya29\.", "[A-Za-z0-9_-]{20,}"), "Google token"),
    ("hf_", _begun("hf_", "[A-Za-z0-9]{20,}"), "Hugging Face token"),
    ("gsk_", _begun("gsk_", "[A-Za-z0-9]{20,}"), "Groq key"),
    ("npm_", _begun("npm_", "[A-Za-z0-9]{30,}"), "npm token"),
    ("pypi-", _begun("pypi-", "[A-Za-z0-9_-]{40,}"), "PyPI token"),
    ("SG.", _begun(r"SG\.", r"[A-Za-z0-9_-]{16,200}+\.[A-Za-z0-9_-]{16,200}"), "SendGrid key"),
    ("dop_v1_", _begun("dop_v1_", "[a-f0-9]{40,}"), "DigitalOcean token"),
    (
        "eyJ",
        _begun("eyJ", r"[A-Za-z0-9_-]{8,4096}+\.eyJ[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_-]{8,4096}"),
        "JSON web token",
    ),
    ("xai-", _begun("xai-", _mixed("A-Za-z0-9")), "API key"),
    ("pplx-", _begun("pplx-", _mixed("A-Za-z0-9")), "API key"),
    ("nvapi-", _begun("nvapi-", _mixed("A-Za-z0-9_-")), "API key"),
    ("tvly-", _begun("tvly-", _mixed("A-Za-z0-9_-")), "API key"),
    ("r8_", _begun("r8_", _mixed("A-Za-z0-9")), "API key"),
    ("xapp-", _begun("xapp-", r"\d-[A-Za-z0-9-]{20,}"), "Slack token"),
    ("whsec_", _begun("whsec_", "[A-Za-z0-9+/=]{20,}"), "webhook secret"),
    ("dckr_pat_", _begun("dckr_pat_", "[A-Za-z0-9_-]{20,}"), "Docker token"),
    ("hvs.", _begun(r"hvs\.", "[A-Za-z0-9_-]{20,}"), "Vault token"),
    ("shpat_", _begun("shpat_", "[A-Fa-f0-9]{32}"), "Shopify token"),
    (":AA", r"(?:(?<![\w:/-])|(?<=\\[nrt]))\d{8,10}:AA[A-Za-z0-9_-]{33}(?![\w-])", "Telegram token"),
    ("AccountKey=", _begun("AccountKey=", "[A-Za-z0-9+/=]{40,}"), "Azure storage key"),
    (
        "PRIVATE KEY",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]|-(?!----)){0,20000}+(?:-----END [A-Z0-9 ]{0,60}-----)?",
        "private key",
    ),
    ("://", r"(?P<before>://)[^\s/:@'\"]{0,100}+:[^\s/@'\"]{1,200}+(?=@)", "name and password"),
)
_BEARER = rf"(?P<before>[Bb](?i:earer) ){_mixed('A-Za-z0-9._~+/-')}=*"
_ASSIGNED = r"""(?x) (?P<before> [AaPpSs] (?=[PpCcUuAaEe][IiCcTtSs]) (?<![A-Za-z0-9][aps]) (?<![A-Z0-9][APS])
    (?i: pi[_-]?key | ccess[_-]?(?:key|token) | uth[_-]?token | assw(?:or)?d | ecret(?:[_-]?key)? )
    ["']?\s{0,3}[=:]\s{0,3}["']?)
    (?=[A-Za-z+/_=-]{0,200}+\d)(?=[0-9+/_=-]{0,200}+[A-Za-z]) [A-Za-z0-9+/_=-]{20,4096}+ (?![(\[]|\.[A-Za-z_])"""
_SHAPES_OF_ANY_CASE: tuple[tuple[str, str, str], ...] = (
    ("bearer ", _BEARER, "token"),
    ("key", _ASSIGNED, "secret"),
    ("secret", _ASSIGNED, "secret"),
    ("token", _ASSIGNED, "secret"),
    ("passw", _ASSIGNED, "secret"),
)


_NAMES = (
    "pass(?:word|wd|phrase|code)|pwd|secret|credentials?|authorization|bearer|cookie"
    "|(?:api|access|private|secret|signing|encryption|auth|shared|account|session)[ _.-]?key"
    "|token"
)
"""What the names of secrets end with. Tokens of pages, of lists and of vocabularies are none."""

_OTHERS = "page|next|continuation|sync|stop|special|max|bos|eos|pad|unk|sep|cls|mask|cursor"
_SECRET_NAME = rf"(?i)(?:{_NAMES})\d{{0,4}}\Z"
_NO_SECRET_NAME = rf"(?i)(?:{_OTHERS})[ _.-]?token\d{{0,4}}\Z"
_NEEDLES = ("pass", "pwd", "secret", "credential", "authorization", "bearer", "cookie", "key", "token")
_NAME = rf"(?P<name>[\w\ .-]{{0,60}}?(?:{_NAMES})\d{{0,4}})"
_NAMED = (
    (  # "name": "value", also in JSON text that stands within JSON text, and as Python shows it
        ":",
        rf"""(?xsi)(?P<before>(?P<quote>\\{{0,7}}["']){_NAME}(?P=quote)\s{{0,3}}:\s{{0,3}}
        (?P<open>(?P<escape>\\{{1,7}})?["']))(?!(?P=open))
        (?P<value>(?(escape).{{1,4000}}?(?<!\\)|(?:\\.|[^\\]){{1,4000}}?))(?P<after>(?P=open))""",
    ),
    (  # name=value, as in a command, an address or a file of settings
        "=",
        rf"""(?xi)(?P<before>(?<![\w.-])(?=[\w.-]{{1,80}}+=){_NAME}=)
        (?P<value>[^\s&"'`;,()\[\]{{}}<>|\\]{{4,4000}}+)(?![(\[])(?P<after>)""",
    ),
    (  # a header
        ":",
        r"""(?xi)(?P<before>(?<![\w-])(?P<name>(?:proxy-)?authorization|x-[a-z-]{0,30}(?:key|token|secret))
        :\ {0,3}(?:(?:basic|bearer|token|digest|apikey)\ +)?)(?P<value>[^\s"'`\\\[]{4,4000}+)(?P<after>)""",
    ),
    (
        ":",
        r"""(?i)(?P<before>(?P<name>\bcookie): {0,3})(?P<value>[\w-]{1,80}+=[^\r\n"'`\\]{1,4000})(?P<after>)""",
    ),
)
_MAY_BE_NAMED = rf"""(?:{_NAMES})\d{{0,4}}(?:\\{{0,7}}["']\s{{0,3}}:\s{{0,3}}\\{{0,7}}["'\[]|[=:])"""
"""In small letters, what each of these holds, and a list behind a name."""

_NO_VALUE = r"(?s)[$%<{].*|[A-Za-z_]+(?:\.[A-Za-z_]+)+"
"""A place that is to be filled in, or a name in a program."""


@lru_cache(4_096)
def is_secret_name(name: str) -> bool:
    """Whether a name says that it names a secret: `password`, `apiKey`, `X-Auth-Token`; not `next_page_token`."""
    return re.search(_SECRET_NAME, name) is not None and re.search(_NO_SECRET_NAME, name) is None


@cache
def _compiled(shape: str, kind: str) -> tuple[re.Pattern[str], str]:
    """The shape ready to search with, and what stands in the place of what it finds."""
    pattern = re.compile(shape)
    before = r"\g<before>" if "before" in pattern.groupindex else ""
    return pattern, f"{before}{MARK}{kind}]"


def redact(text: str) -> str:
    """The text with `[redacted: what it was]` in the place of everything that is or looks like a secret."""
    return redactor()(text)


def redactor() -> Callable[[str], str]:
    """A `redact` for many texts: it looks up the environment's secrets once, now."""
    return partial(_redacted_text, secrets=spellings(secret_values()))


def written_redactor() -> Callable[[str], str]:
    """A `redactor` for what is written down, which hides also what a name within the text calls a secret."""
    return partial(_redacted_writing, secrets=spellings(secret_values()))


@lru_cache(16)
def spellings(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """How secrets stand in texts, the longest first: as they are, and as others write them down.

    As JSON, programs, addresses and pages quote them, in base64 behind and before anything, in hexadecimal digits.
    """
    found = {
        spelling for secret in secrets for spelling in (*_quoted(secret), *_encoded(secret.encode("utf-8", "replace")))
    }
    return tuple(sorted(found, key=len, reverse=True))


def _quoted(secret: str) -> Iterator[str]:
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


def _encoded(secret: bytes) -> Iterator[str]:
    """The digits, and the characters of base64 that only the secret decides, whatever stands before and behind it."""
    from base64 import b64encode

    yield from (secret.hex(), secret.hex().upper())
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(secret)) * 8 // 6
        characters = b64encode(bytes(before) + secret)[first:last].decode()
        yield from (characters, characters.replace("+", "-").replace("/", "_"))


def redact_data(value: Any, clean: Callable[[str], str]) -> Any:
    """JSON-able data that is to be written down without its secrets. JSON text in `arguments` stays JSON.

    `clean` is a `written_redactor`.
    """
    if isinstance(value, str):
        return clean(value) if _can_hide(value) else value
    if isinstance(value, dict):
        return {
            redact_data(name, clean): item if is_data(value, name) else _redacted_field(name, item, clean)
            for name, item in value.items()
        }
    return [redact_data(item, clean) for item in value] if isinstance(value, list) else value


def _can_hide(text: str) -> bool:
    """Whether a text is long enough to hold a secret."""
    return len(text) >= _SHORTEST_WRITTEN_CHARS


def is_data(part: dict[Any, Any], name: Any) -> bool:
    """Whether this field of an object is the data of a picture, a PDF or a recording, nothing but base64."""
    url = part[name] if name == _URL and part.keys() <= _PART_FIELDS else None
    return isinstance(url, str) and _NO_TEXT.fullmatch(url) is not None


def _redacted_field(name: Any, item: Any, clean: Callable[[str], str]) -> Any:
    item = _redacted_named(name, item)
    return _redacted_json(item, clean) if name == "arguments" and isinstance(item, str) else redact_data(item, clean)


def _redacted_named(name: Any, value: Any) -> Any:
    """A value without the texts that its name calls secret, itself or in a list."""
    if not isinstance(name, str) or not is_secret_name(name):
        return value
    if isinstance(value, list):
        return [_redacted_named(name, each) for each in value]
    return _HIDDEN if isinstance(value, str) and value and not value.startswith(MARK) else value


def _redacted_json(text: str, clean: Callable[[str], str]) -> str:
    """The text redacted in each of its values, or as a whole when it is no JSON."""
    redacted = clean(text)
    try:
        said = json.loads(text)
        plain = json.dumps(said, ensure_ascii=False)
        hidden = clean(json.dumps(redact_data(said, clean), ensure_ascii=False))  # also what only its key gives away
    except (ValueError, RecursionError):
        return redacted
    return text if hidden == plain and redacted == text else hidden


def redact_value(value: Any, clean: Callable[[str], str] | None = None) -> Any:
    """The value with every text in its plain containers redacted; the same object when there is nothing to hide.

    `clean` is a `redactor` that is at hand.
    """
    return _redacted(value, clean or redactor(), [_MOST_NODES], _MOST_LEVELS)


def _redacted_text(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, f"{MARK}value of a secret variable]")
    if len(text) < _SHORTEST_CHARS:
        return text
    for needle, shape, kind in _SHAPES:
        if needle in text:
            pattern, replacement = _compiled(shape, kind)
            text = pattern.sub(replacement, text)
    lowered = text.lower()
    for needle, shape, kind in _SHAPES_OF_ANY_CASE:
        if needle in lowered:
            pattern, replacement = _compiled(shape, kind)
            text = pattern.sub(replacement, text)
    return text


def _redacted_writing(text: str, secrets: Sequence[str]) -> str:
    text = _redacted_text(text, secrets)
    if may_be_named(text):
        for sign, pattern in _NAMED:
            if sign in text:
                text = re.sub(pattern, _without_value, text)
    return text


def may_be_named(text: str) -> bool:
    """Whether a text may hold the name of a secret with its value; seldom, and in vain, where it does not."""
    lowered = text.lower()
    return any(needle in lowered for needle in _NEEDLES) and re.search(_MAY_BE_NAMED, lowered) is not None


def _without_value(found: re.Match[str]) -> str:
    """What a name and its value are shown as."""
    if MARK in found["value"] or not is_secret_name(found["name"]) or re.fullmatch(_NO_VALUE, found["value"]):
        return found[0]
    return f"{found['before']}{_HIDDEN}{found['after']}"


def _redacted(value: Any, clean: Callable[[str], str], room: list[int], levels: int) -> Any:
    """`room` holds how many more nodes may be visited, `levels` how much deeper it may go."""
    room[0] -= 1
    if type(value) is str:
        hidden = clean(value)
        return value if hidden == value else hidden
    rebuild = _CONTAINERS.get(type(value))
    if rebuild is None or room[0] < 0 or levels == 0:
        return value
    items = list(value.items()) if type(value) is dict else list(value)
    redacted = [_redacted(item, clean, room, levels - 1) for item in items]
    return rebuild(redacted) if any(new is not old for new, old in zip(redacted, items, strict=True)) else value


_CONTAINERS: dict[type, Callable[[list[Any]], Any]] = {kind: kind for kind in (dict, list, tuple, set, frozenset)}
