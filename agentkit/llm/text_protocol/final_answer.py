"""How is a typed answer given where no schema is taken but a tool's? By a call, which is read as the text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from agentkit.events import Event, ResponseReceived, TextDelta, ToolCallDelta
from agentkit.messages import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentkit.messages import OutputSchema, Request, Response

_NAME = "final_answer"
_DESCRIPTION = "Give the final answer. Use it once, when everything that it needs is known."
_ORDER = """\
# Answer

Give your {answer} by calling the tool {name}: the arguments of the call are the answer. Call it alone, and write \
nothing beside it."""


def can_be_called(request: Request) -> bool:
    """Whether its answer can be given by a call: arguments are always an object, and a setting may forbid all calls."""
    output = request.output_schema
    is_object = output is not None and output.schema.get("type") == "object"
    return is_object and request.settings.get("tool_choice") != "none"


class FinalAnswer:
    """One answer that is to be given by calling one more tool, and that nobody else sees as a call.

    A model that writes its answer as text all the same is let be: whoever reads the answer says whether it will do.
    """

    def __init__(self, request: Request, output: OutputSchema) -> None:
        self.name = _free_name({spec.name for spec in request.tools})
        self.request = _with_tool(request, output, self.name)
        self._has_others = bool(request.tools)
        self._answers: dict[int, None] = {}
        self._numbers: dict[int, int] = {}

    def response(self, response: Response) -> Response:
        """The response whose text is the answer.

        Beside calls of other tools the answer is left out: it was given before their results were known, so they are
        used first, and the model is asked again. Calls where no tool was on offer come to nothing.
        """
        message = response.message
        answers = [call for call in message.tool_calls if call.name == self.name]
        others = tuple(call for call in message.tool_calls if call.name != self.name)
        if not answers:
            return response
        if others and self._has_others:
            return replace(response, message=replace(message, tool_calls=others))
        # What was said otherwise than it stands here is not sent back as it was.
        message = replace(message, text=answers[0].arguments or message.text, tool_calls=(), extra={})
        is_cut = response.finish_reason == "length"
        return replace(response, message=message, finish_reason="length" if is_cut else "stop")

    def events(self, event: Event) -> Iterator[Event]:
        """The events that stand for one of the provider's. The pieces of the answer are text as soon as they come."""
        if isinstance(event, ToolCallDelta):
            yield from self._piece(event)
        elif isinstance(event, ResponseReceived):
            yield ResponseReceived(self.response(event.response))
        else:
            yield event

    def _piece(self, piece: ToolCallDelta) -> Iterator[Event]:
        """A piece of a call. Of several answers the first one counts; the other calls are numbered without them."""
        if piece.name == self.name:
            self._answers.setdefault(piece.index)
        if piece.index not in self._answers:
            yield replace(piece, index=self._numbers.setdefault(piece.index, len(self._numbers)))
        elif piece.arguments and piece.index == next(iter(self._answers)):
            yield TextDelta(piece.arguments)


def _with_tool(request: Request, output: OutputSchema, name: str) -> Request:
    """The request without its output schema: one more tool takes what fits it."""
    tool = ToolSpec(name, _DESCRIPTION, output.schema, output.schema if output.strict else None)
    order = _ORDER.format(name=name, answer="final answer, once you need no other tool," if request.tools else "answer")
    instruction = "\n\n".join(filter(None, [request.instruction, order]))
    return replace(request, instruction=instruction, tools=(*request.tools, tool), output_schema=None)


def _free_name(taken: Collection[str]) -> str:
    """A name that no tool of the user bears."""
    names = (_NAME if number == 1 else f"{_NAME}_{number}" for number in count(1))
    return next(name for name in names if name not in taken)
