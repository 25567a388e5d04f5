"""What may not be shown? Keys and tokens, told by their shape, and the values of the environment's secret variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from agentkit.config import secret_values

MARK = "[redacted: "
"""How every replacement begins."""

_SHORTEST_CHARS = 12
_MOST_NODES = 100_000
_MOST_LEVELS = 60

_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("sk-", r"\bsk-(?:ant-|or-|proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}", "API key"),
    ("_live_", r"\b[srp]k_live_[A-Za-z0-9]{10,}", "payment key"),
    ("_test_", r"\b[sr]k_test_[A-Za-z0-9]{10,}", "payment key"),
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{20,}", "GitHub token"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{20,}", "GitHub token"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{16,}", "GitLab token"),
    ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}", "Slack token"),
    ("hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}", "Slack webhook"),
    ("KIA", r"\bAKIA[A-Z0-9]{16}\b", "AWS key"),
    ("SIA", r"\bASIA[A-Z0-9]{16}\b", "AWS key"),
    ("AIza", r"\bAIza[A-Za-z0-9_-]{30,}", "Google key"),
    ("ya29.", r"\bya29\.[A-Za-z0-9_-]{20,}", "Google token"),
    ("hf_", r"\bhf_[A-Za-z0-9]{20,}", "Hugging Face token"),
    ("gsk_", r"\bgsk_[A-Za-z0-9]{20,}", "Groq key"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{30,}", "npm token"),
    ("pypi-", r"\bpypi-[A-Za-z0-9_-]{40,}", "PyPI token"),
    ("SG.", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "SendGrid key"),
    ("dop_v1_", r"\bdop_v1_[a-f0-9]{40,}", "DigitalOcean token"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", "JSON web token"),
    ("AccountKey=", r"AccountKey=[A-Za-z0-9+/=]{40,}", "Azure storage key"),
    (
        "PRIVATE KEY",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*-----|\Z)",
        "private key",
    ),
    ("://", r"(?<=://)[^\s/:@'\"]{1,100}:[^\s/@'\"]{1,200}(?=@)", "name and password"),
    (
        "",
        r"(?P<before>[Bb]earer )[A-Za-z0-9._~+/-]{20,}=*",
        "token",
    ),
    (
        "",
        r"""(?ix) (?<![\w-]) (?P<before> (?:[\w-]{0,40}[_-])?
        (?:api_?key|access_?key|secret(?:_?key)?|auth_?token|access_?token|password|passwd)
        ["']?\s{0,3}[=:]\s{0,3}["']?) (?=[^\s"']{0,200}\d)(?=[^\s"']{0,200}[A-Za-z]) [A-Za-z0-9+/_=-]{20,200}""",
        "secret",
    ),
)
_NEEDLES_OF_ANY_CASE = ("bearer", "key", "secret", "token", "passw")
_COMPILED = tuple(
    (needle, re.compile(shape if "(?P<before>" in shape else f"(?P<before>){shape}", re.DOTALL), kind)
    for needle, shape, kind in _SHAPES
)


def redact(text: str) -> str:
    """The text with `[redacted: what it was]` in the place of everything that is or looks like a secret."""
    return _redacted_text(text, secret_values())


def redact_value(value: Any) -> Any:
    """The value with every text in its plain containers redacted; the same object when there is nothing to hide."""
    return _redacted(value, secret_values(), [_MOST_NODES], _MOST_LEVELS)


def _redacted_text(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, f"{MARK}value of a secret variable]")
    if len(text) < _SHORTEST_CHARS:
        return text
    lowered = text.lower()
    for needle, shape, kind in _COMPILED:
        if needle in text if needle else any(word in lowered for word in _NEEDLES_OF_ANY_CASE):
            text = shape.sub(rf"\g<before>{MARK}{kind}]", text)
    return text


def _redacted(value: Any, secrets: Sequence[str], room: list[int], levels: int) -> Any:
    """`room` holds how many more nodes may be visited, `levels` how much deeper it may go."""
    room[0] -= 1
    if type(value) is str:
        hidden = _redacted_text(value, secrets)
        return value if hidden == value else hidden
    rebuild = _CONTAINERS.get(type(value))
    if rebuild is None or room[0] < 0 or levels == 0:
        return value
    items = list(value.items()) if type(value) is dict else list(value)
    redacted = [_redacted(item, secrets, room, levels - 1) for item in items]
    return rebuild(redacted) if any(new is not old for new, old in zip(redacted, items, strict=True)) else value


_CONTAINERS: dict[type, Callable[[list[Any]], Any]] = {dict: dict, list: list, tuple: tuple}
