"""What of an entry may stand in a file? The entry without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from agentkit.config import secret_values
from agentkit.redaction import redactor

_SHORTEST_CHARS = 8
_LONG_CHARS = 200
_MOST_KNOWN = 1_000
_JSON = "arguments"
_IMAGE = "data:image/"


class Hiding:
    """Redacts entries. Long texts come again and again, in results and messages, and are looked through once."""

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
        texts = [text for text in _texts(data) if text not in self._known]
        joined = "\n".join(texts)
        if self._clean(joined) != joined:
            redacted: dict[str, Any] = _hidden(data, self._clean)
            return redacted
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.update(text for text in texts if len(text) >= _LONG_CHARS)
        return data


def _texts(value: Any) -> Iterator[str]:
    """The texts that may hold a secret, wherever they stand."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if _can_hide(part):
                yield part
        elif isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _can_hide(text: str) -> bool:
    return len(text) >= _SHORTEST_CHARS and not text.startswith(_IMAGE)


def _hidden(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value) if _can_hide(value) else value
    if isinstance(value, dict):
        return {
            name: _arguments(item, clean) if name == _JSON and isinstance(item, str) else _hidden(item, clean)
            for name, item in value.items()
        }
    return [_hidden(item, clean) for item in value] if isinstance(value, list) else value


def _arguments(text: str, clean: Callable[[str], str]) -> str:
    """The text redacted in each of its values, or as a whole when it is no JSON."""
    if (redacted := clean(text)) == text:
        return text
    try:
        return json.dumps(_hidden(json.loads(text), clean), ensure_ascii=False)
    except (ValueError, RecursionError):
        return redacted
