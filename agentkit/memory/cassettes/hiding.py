"""What of an entry may stand in a file? The entry without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from agentkit.config import secret_values
from agentkit.redaction import redactor

_SHORTEST_CHARS = 8
_MOST_KNOWN = 1_000
_JSON = "arguments"
_URL = "url"
_IMAGE_FIELDS = frozenset({_URL, "detail"})
_PICTURE = re.compile(r"data:image/[a-z0-9.+-]{1,40};base64,[A-Za-z0-9+/=]*+")


class Hiding:
    """Redacts entries. Texts come again and again, in results and messages, and are looked through once."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] | None = None
        self._known: set[str] = set()
        self._clean: Callable[[str], str] = str

    def refresh(self) -> None:
        """Look up the environment's secrets as they are now."""
        secrets = secret_values()
        if secrets != self._secrets:
            self._secrets, self._clean = secrets, redactor()
            self._known.clear()

    def hidden(self, data: dict[str, Any]) -> dict[str, Any]:
        """The entry with every text in it redacted. JSON text in `arguments` stays JSON."""
        texts = _texts(data, self._known)
        if not texts:
            return data
        joined = "\n".join(texts)
        if self._clean(joined) != joined:
            redacted: dict[str, Any] = _hidden(data, self._clean)
            return redacted
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.update(texts)
        return data


def _texts(data: dict[str, Any], known: set[str]) -> list[str]:
    """The texts that may hold a secret, wherever they stand, but for those that are known to hold none."""
    texts: list[str] = []
    parts: list[Any] = [data]
    for part in parts:  # which grows meanwhile
        if isinstance(part, str):
            if part not in known and _can_hide(part):
                texts.append(part)
        elif isinstance(part, dict):
            parts += part.keys()
            parts += (item for name, item in part.items() if not _is_picture(part, name))
            parts += _spelled(part.get(_JSON), known)
        elif isinstance(part, list):
            parts += part
    return texts


def _can_hide(text: str) -> bool:
    return len(text) >= _SHORTEST_CHARS


def _is_picture(part: dict[Any, Any], name: Any) -> bool:
    """Whether this field of an object is the picture in an Image, which is nothing but base64."""
    url = part[name] if name == _URL and part.keys() <= _IMAGE_FIELDS else None
    return isinstance(url, str) and _PICTURE.fullmatch(url) is not None


def _spelled(text: Any, known: set[str]) -> list[Any]:
    """What JSON text says, in parts and as a whole without needless escapes; nothing for what is none, or known."""
    if not isinstance(text, str) or text in known:
        return []
    try:
        said = json.loads(text)
        return [said, json.dumps(said, ensure_ascii=False)]
    except (ValueError, RecursionError):
        return []


def _hidden(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value) if _can_hide(value) else value
    if isinstance(value, dict):
        return {
            _hidden(name, clean): item if _is_picture(value, name) else _field(name, item, clean)
            for name, item in value.items()
        }
    return [_hidden(item, clean) for item in value] if isinstance(value, list) else value


def _field(name: Any, item: Any, clean: Callable[[str], str]) -> Any:
    return _arguments(item, clean) if name == _JSON and isinstance(item, str) else _hidden(item, clean)


def _arguments(text: str, clean: Callable[[str], str]) -> str:
    """The text redacted in each of its values, or as a whole when it is no JSON."""
    redacted = clean(text)
    try:
        said = json.loads(text)
        plain = json.dumps(said, ensure_ascii=False)
        hidden = clean(json.dumps(_hidden(said, clean), ensure_ascii=False))  # also what only its key makes a secret
    except (ValueError, RecursionError):
        return redacted
    return text if hidden == plain and redacted == text else hidden
