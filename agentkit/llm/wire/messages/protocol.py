"""How do requests and responses of the Messages protocol look as a whole? (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.llm.wire.hosted import declared
from agentkit.llm.wire.messages.answers import MessagesReader, decode_answer
from agentkit.llm.wire.messages.blocks import encode_message, in_turns
from agentkit.llm.wire.messages.caching import marked
from agentkit.llm.wire.messages.hosted import container_entry, going_on
from agentkit.llm.wire.messages.schemas import constrained, rooted
from agentkit.llm.wire.messages.settings import entered
from agentkit.llm.wire.writing import Written
from agentkit.messages import well_formed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentkit.messages import Request, Response, ToolSpec


class Messages:
    """The protocol whose conversations are turns of content blocks, and which has a cache that is asked for.

    Of its two versions the older is spoken: they differ in what is not sent here, in the newer one no model takes a
    temperature, and of the older one every server has heard.
    """

    name = "messages"
    path = "/messages"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    streaming: Mapping[str, Any] = {"stream": True}

    def encode(self, request: Request, model: str, *, strict: bool, before: Written | None = None) -> dict[str, Any]:
        """The request as the body of a POST to `path`. How long the answer may be is said always: it must be."""
        before = before or Written()
        orders, turns = in_turns(before.entries(request.messages, encode_message))
        body: dict[str, Any] = {"model": model, "messages": turns}
        for container in before.entries(going_on(request.messages), container_entry):
            body |= container
        instruction = "\n\n".join(order for order in (request.instruction, *orders) if order.strip())
        if instruction:
            body["system"] = well_formed(instruction)
        if request.tools:
            body["tools"] = before.entries(request.tools, _strict_tool if strict else _plain_tool)
        if request.output_schema:
            body["output_config"] = {
                "format": {"type": "json_schema", "schema": constrained(request.output_schema.schema)}
            }
        return marked(entered(body, request.settings))

    def decode(self, data: Mapping[str, Any]) -> Response:
        """The response in a whole body. Raises ModelError when there is none."""
        return decode_answer(data)

    def reader(self) -> MessagesReader:
        """A reader for one streamed response."""
        return MessagesReader()


def _plain_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    if tool.hosted is not None:
        return (declared(tool, Messages.name),)
    schema, note = rooted(tool.parameters)
    description = " ".join(filter(None, (tool.description, note)))
    return ({"name": tool.name, **({"description": description} if description else {}), "input_schema": schema},)


def _strict_tool(tool: ToolSpec) -> tuple[dict[str, Any]]:
    (told,) = _plain_tool(tool)
    if tool.strict_parameters is None:
        return (told,)
    return ({**told, "input_schema": constrained(tool.strict_parameters), "strict": True},)
