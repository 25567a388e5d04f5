"""What of an entry may stand in a file? The entry without secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentkit.config import secret_values
from agentkit.memory.codec import Data, to_line
from agentkit.redaction import may_be_named, redact_data, redactor, spellings, written_redactor

_ESCAPE = "\\u"
"""What JSON text within JSON text can spell anything with."""


class Hiding:
    """Redacts entries. Most of them hold nothing secret, which is seen in their lines at once."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] | None = None
        self._clean: Callable[[str], str] = str
        self._shapes: Callable[[str], str] = str
        self._spelled: tuple[str, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Look up the environment's secrets as they are now."""
        secrets = secret_values()
        if secrets is not self._secrets:
            self._secrets, self._clean, self._shapes = secrets, written_redactor(), redactor()
            self._spelled = spellings(secrets)

    def line(self, data: Data) -> str:
        """The entry as a line, without what is or looks like a secret. Raises SessionError."""
        line = to_line(data)
        return to_line(self.hidden(data)) if self._may_hide(line) else line

    def hidden(self, data: dict[str, Any]) -> dict[str, Any]:
        """The entry with every text in it redacted. JSON text in `arguments` stays JSON."""
        redacted: dict[str, Any] = redact_data(data, self._clean)
        return redacted

    def _may_hide(self, line: str) -> bool:
        """Whether anything in a line may be secret, however it is spelled."""
        if _ESCAPE in line or may_be_named(line) or any(secret in line for secret in self._spelled):
            return True
        return self._shapes(line) != line
