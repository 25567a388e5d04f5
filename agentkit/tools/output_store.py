"""Storage of truncated tool output, and the tool that reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from agentkit.decisions import SafetyLevel
from agentkit.errors import ToolError
from agentkit.messages import READ_MORE
from agentkit.tooling.tool import Tool

_MAX_CHARS = 40_000
_BEFORE_CHARS = 200
_SHOWN_CHARS = 80


def read_more_tool(whole: Callable[[str], str | None]) -> Tool[..., Any]:
    """Create the tool that reads outputs that were truncated. `whole` returns the text for a handle.

    The text was an output of this conversation, so the caller has to label the results with everything that the
    conversation has read.
    """

    def read_more(handle: str, start: int = 0, max_chars: int = 10_000, find: str | None = None) -> str:
        """Read more of a tool output that was shown only in part.

        Use it when a note says that characters were left out and you need them. To look for something, give find
        instead of reading everything.

        Args:
            handle: The handle in the note.
            start: Which character to begin at; 0 is the beginning, -2000 the last 2,000 characters.
            max_chars: How many characters to read, at most 40,000.
            find: A text to jump to: reading begins shortly before its first occurrence at or after start. Upper and
                lower case count alike.

        Returns:
            A line that says which characters follow, of how many, and where to read on; then the characters.
        """
        text = whole(handle)
        if text is None:
            shown = json.dumps(handle[:_SHOWN_CHARS], ensure_ascii=False)
            raise ToolError(
                f"No output is stored under the handle {shown}. The notes of truncated outputs name handles; old ones "
                "expire. Call the tool that returned the output again."
            )
        begin = max(len(text) + start, 0) if start < 0 else min(start, len(text))
        found = ""
        if find:
            begin, found = _find_from(text, find, begin)
        end = min(begin + min(max(max_chars, 1), _MAX_CHARS), len(text))
        continuation = f"read on with start={end}" if end < len(text) else "this is the end"
        return f"[characters {begin:,} to {end:,} of {len(text):,}; {found}{continuation}]\n{text[begin:end]}"

    return Tool(read_more, READ_MORE, level=SafetyLevel.SAFE, timeout_seconds=None, labels=())


def _find_from(text: str, find: str, begin: int) -> tuple[int, str]:
    """Return the index to begin at, with context before the match, and a description of the match. Raises ToolError."""
    positions = [match.start() for match in re.finditer(re.escape(find), text, re.IGNORECASE)]
    following = [match for match in positions if match >= begin]
    if not following:
        shown = json.dumps(find[:_SHOWN_CHARS], ensure_ascii=False)
        if positions:
            text = f"does not occur from character {begin:,} on; it occurs earlier, first at {positions[0]:,}"
        else:
            text = "does not occur in this output. Try a shorter text, or read it piece by piece with start"
        raise ToolError(f"{shown} {text}.")
    line = text.rfind("\n", max(following[0] - _BEFORE_CHARS, begin), following[0])
    first = line + 1 if line >= 0 else max(following[0] - _BEFORE_CHARS, begin)
    more = f" and {len(following) - 1:,} times more, next at {following[1]:,}" if len(following) > 1 else ""
    return first, f"found at {following[0]:,}{more}; "
