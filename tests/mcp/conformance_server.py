"""A server for the official conformance suite, with the tools, resources and prompts that it names."""

import asyncio
import sys
from base64 import b64encode

from agentkit import File, Image, Tool
from agentkit.http_security import open_listener, origin_of
from agentkit.mcp import ToolServer, calling_client
from agentkit.mcp.sdk.server import PATH, MCPAuth, over_http

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5E"
    "rkJggg=="
)
WAV = "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
PDF = f"data:application/pdf;base64,{b64encode(b'%PDF-1.4').decode()}"


def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


def test_image_content() -> Image:
    """Return a picture."""
    return Image(PNG)


def test_audio_content() -> File:
    """Return a recording."""
    return File(WAV)


def test_embedded_resource() -> File:
    """Return a file."""
    return File(PDF, "embedded.pdf")


def test_multiple_content_types() -> list:
    """Return a text, a picture and a file."""
    return ["Multiple content types test:", Image(PNG), File(PDF, "mixed.pdf")]


async def test_tool_with_logging() -> str:
    """Send three log messages."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await calling_client().log(text)
        await asyncio.sleep(0.05)
    return "Logged."


async def test_tool_with_progress() -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await calling_client().progress(done, 100)
        await asyncio.sleep(0.05)
    return "Done."


def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


async def test_sampling(prompt: str) -> str:
    """Ask the client's model."""
    return f"LLM response: {await calling_client().sample(prompt, max_tokens=100)}"


async def test_elicitation(message: str) -> str:
    """Ask the person at the client for a name and an address."""
    fields = {"username": {"type": "string"}, "email": {"type": "string"}}
    return f"User response: {await calling_client().ask(message, fields, required=fields)}"


async def test_elicitation_sep1034_defaults() -> str:
    """Ask with a default for each field."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await calling_client().ask('Who is it?', fields)}"


async def test_elicitation_sep1330_enums() -> str:
    """Ask for choices, in all the ways in which they can be described."""
    names, titled = ["option1", "option2", "option3"], [("value1", "First"), ("value2", "Second"), ("value3", "Third")]
    choices = [{"const": value, "title": title} for value, title in titled]
    old = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    fields = {
        "untitledSingle": {"type": "string", "enum": names},
        "titledSingle": {"type": "string", "oneOf": choices},
        "legacyEnum": {"type": "string", **old},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": names}},
        "titledMulti": {"type": "array", "items": {"anyOf": choices}},
    }
    return f"Elicitation completed: {await calling_client().ask('Which?', fields)}"


async def test_reconnection() -> str:
    """End the response before the result is there."""
    await asyncio.sleep(0.1)
    await calling_client().disconnect()
    await asyncio.sleep(0.3)
    return "Reconnected."


ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": ADDRESS},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
TOOLS = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_logging,
    test_tool_with_progress,
    test_error_handling,
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_reconnection,
    Tool.from_schema("json_schema_2020_12_tool", "A tool with its own schema.", SCHEMA, lambda **given: str(given)),
]


def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


def static_binary() -> Image:
    """A picture."""
    return Image(PNG)


def template(number: str) -> dict:
    """Data about a number."""
    return {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}


def watched() -> str:
    """A text with subscribers."""
    return "Nothing has changed."


RESOURCES = {
    "test://static-text": static_text,
    "test://static-binary": static_binary,
    "test://template/{number}/data": template,
    "test://watched-resource": watched,
}


def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def embedded_resource(**given: str) -> list:
    """Return a prompt with a file."""
    return [File(PDF, given["resourceUri"]), "Please process the embedded resource above."]


EMBEDDING = Tool.from_schema(
    "test_prompt_with_embedded_resource",
    "A prompt with a file.",
    {"type": "object", "properties": {"resourceUri": {"type": "string"}}, "required": ["resourceUri"]},
    embedded_resource,
)


def test_prompt_with_image() -> list:
    """A prompt with a picture."""
    return [Image(PNG), "Please analyze the image above."]


PROMPTS = [test_simple_prompt, test_prompt_with_arguments, EMBEDDING, test_prompt_with_image]


class OpenGate(MCPAuth):
    """A gate that checks host and origin, but no token, because the suite sends none."""

    def is_authorized(self, _headers):
        """Accept any headers."""
        return True


async def main():
    """Serve on a free port, and print the address."""
    served = ToolServer(TOOLS, name="conformance", safety="system", resources=RESOURCES, prompts=PROMPTS)
    with open_listener("127.0.0.1", 0) as listener:
        sys.stdout.write(f"{origin_of(listener)}{PATH}\n")
        sys.stdout.flush()
        await over_http(served.protocol_server(), listener, OpenGate())


if __name__ == "__main__":
    asyncio.run(main())
