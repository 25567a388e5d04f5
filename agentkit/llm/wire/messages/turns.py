"""How do the parts of an answer become one that its server had paused? Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.llm.wire.messages.answers import blocks_in, decode_answer
from agentkit.llm.wire.messages.blocks import BLOCKS
from agentkit.llm.wire.messages.hosted import settled
from agentkit.llm.wire.paragraphs import Paragraphs

if TYPE_CHECKING:
    from agentkit.messages import Response

MOST_PAUSES = 10
"""How often an answer is gone on with; each part of it may be as long as was allowed for all."""


def joined(answer: Response, rest: Response) -> Response:
    """Two parts of an answer as one."""
    content = [block for part in (answer, rest) for block in blocks_in(part.raw.get("content"))]
    both = decode_answer({**rest.raw, "content": content})
    message = replace(both.message, origin=rest.message.origin)
    return replace(both, message=message, usage=answer.usage + rest.usage, model=rest.model)


def ended(answer: Response) -> Response:
    """The answer without what the server was about to do, as nobody asks it to go on."""
    message = answer.message
    blocks = () if message.tool_calls else message.extra.get(BLOCKS, ())
    if len(kept := settled(blocks)) == len(blocks):
        return answer
    return replace(answer, message=replace(message, extra={**message.extra, BLOCKS: tuple(kept)}))


def paragraphs_behind(answer: Response) -> Paragraphs:
    """What the text of the next part is told behind."""
    paragraphs = Paragraphs()
    paragraphs.add(answer.text)
    if any(block.get("type") != "text" for block in blocks_in(answer.raw.get("content"))[-1:]):
        paragraphs.interrupt()
    return paragraphs
