"""How are texts, images and files told to a server, whatever forms its protocol has for them? (pure)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentkit.messages import Content, well_formed
from agentkit.parts import File, Image, worded
from agentkit.slotted import dataclass

_Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of one protocol: of a text, which is well-formed, of an image, and of a file."""

    text: Callable[[str], _Fields]
    image: Callable[[Image], _Fields]
    file: Callable[[File], _Fields]

    def content(self, content: Content) -> str | list[_Fields]:
        """What a user says: a text as it is, or its parts."""
        return well_formed(content) if isinstance(content, str) else list(map(self.part, content))

    def part(self, part: str | Image | File) -> _Fields:
        """A part of it.

        A recording has the same form everywhere: where OpenAI and Anthropic refuse it, others that speak their
        protocols may take it.
        """
        given = worded(part)
        if isinstance(given, str):
            return self.text(well_formed(given))
        if isinstance(given, Image):
            return self.image(given)
        if given.sound:
            data = given.url.partition(",")[2]
            return {"type": "input_audio", "input_audio": {"data": data, "format": given.sound}}
        return self.file(given)
