"""What may not be shown? Keys and tokens, told by their shape, and the values of the environment's secret variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from agentkit.config import secret_values

MARK = "[redacted: "
"""How every replacement begins."""

_SHORTEST_CHARS = 12
_MOST_NODES = 100_000
_MOST_LEVELS = 60


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
    ("AccountKey=", _begun("AccountKey=", "[A-Za-z0-9+/=]{40,}"), "Azure storage key"),
    (
        "PRIVATE KEY",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]|-(?!----)){0,20000}+(?:-----END [A-Z0-9 ]{0,60}-----)?",
        "private key",
    ),
    ("://", r"(?P<before>://)[^\s/:@'\"]{0,100}+:[^\s/@'\"]{1,200}+(?=@)", "name and password"),
)
_SHAPES_OF_ANY_CASE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("bearer ",),
        rf"(?P<before>[Bb](?i:earer) ){_mixed('A-Za-z0-9._~+/-')}=*",
        "token",
    ),
    (
        ("key", "secret", "token", "passw"),
        r"""(?x) (?P<before> [AaPpSs] (?=[PpCcUuAaEe][IiCcTtSs]) (?<![A-Za-z0-9][aps]) (?<![A-Z0-9][APS])
        (?i: pi[_-]?key | ccess[_-]?(?:key|token) | uth[_-]?token | assw(?:or)?d | ecret(?:[_-]?key)? )
        ["']?\s{0,3}[=:]\s{0,3}["']?)
        (?=[A-Za-z+/_=-]{0,200}+\d)(?=[0-9+/_=-]{0,200}+[A-Za-z]) [A-Za-z0-9+/_=-]{20,4096}+ (?![(\[]|\.[A-Za-z_])""",
        "secret",
    ),
)


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
    return partial(_redacted_text, secrets=secret_values())


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
    for needles, shape, kind in _SHAPES_OF_ANY_CASE:
        if any(needle in lowered for needle in needles):
            pattern, replacement = _compiled(shape, kind)
            text = pattern.sub(replacement, text)
    return text


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
