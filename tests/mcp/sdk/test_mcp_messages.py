"""Tests for everything that an MCP server may send, and for unusable tools."""

import asyncio
import json
import logging
import subprocess
import sys

import pytest
from mcp import types
from mcp.server import Server

from agentkit.content import Image
from agentkit.errors import ConfigError, ToolError
from agentkit.installation import install_command
from agentkit.mcp import MCPServer
from agentkit.mcp.connection_target import Target, target_of
from agentkit.mcp.sdk.session import MCPConnection, ToolOutput, _State, open_connection


def offering(*blocks, structured=None, failed=False, pages=1):
    """Return a server with one tool, offered in pages."""

    async def on_list_tools(context, parameters):
        page = int(parameters.cursor or 0) if parameters else 0
        tool = types.Tool(name=f"say{page}", title="Says.", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool], next_cursor=str(page + 1) if page + 1 < pages else None)

    async def on_call_tool(context, parameters):
        return types.CallToolResult(content=[*blocks], structured_content=structured, is_error=failed)

    return Server("says", on_list_tools=on_list_tools, on_call_tool=on_call_tool)


def answer_of(server):
    """Return the server's answer to a call."""

    async def ask():
        async with open_connection(target_of(server)) as connection:
            return await connection.call("say0", {})

    return asyncio.run(ask())


PICTURE = types.ImageContent(data="aGVsbG8=", mime_type="image/png")
SEEN = [Image("data:image/png;base64,aGVsbG8=")]
SOUND = types.AudioContent(data="aGVsbG8=", mime_type="audio/wav")
LINK = types.ResourceLink(name="a", uri="file:///a.txt")
TEXT = types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///a.txt", text="inside"))
BLOB = types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///b.bin", blob="aGVsbG8="))


@pytest.mark.for_each(
    ("blocks", "value"),
    [
        ([types.TextContent(text="one"), types.TextContent(text="two")], "one\ntwo"),
        ([PICTURE], SEEN),
        ([types.TextContent(text="one"), PICTURE, LINK], ["one", *SEEN, "[a link to file:///a.txt]"]),
        ([SOUND], "[audio, audio/wav, 6 bytes: not shown]"),
        ([LINK], "[a link to file:///a.txt]"),
        ([TEXT], "inside"),
        ([BLOB], "[binary data of file:///b.bin]"),
        ([], ""),
    ],
)
def test_content_blocks(blocks, value):
    """Text is returned unchanged, images are returned as images, and other content is named."""
    assert answer_of(offering(*blocks)) == ToolOutput(value, failed=False)


def test_structured_content():
    """Structured content is returned as JSON if there is no text content."""
    assert answer_of(offering(structured={"city": "Huế"})).value == '{"city": "Huế"}'
    assert answer_of(offering(types.TextContent(text="Huế"), structured={"city": "Huế"})).value == "Huế"


def test_failure_without_a_message():
    """A failed call without a message raises an error."""
    with MCPServer(offering(failed=True)) as server, pytest.raises(ToolError, match="without a reason"):
        server.call("say0")


def test_failure_with_an_image():
    """The error of a failed call contains its text and names its image."""
    failing = offering(types.TextContent(text="The page is gone."), PICTURE, failed=True)
    with MCPServer(failing) as server, pytest.raises(ToolError, match=r"gone\.\n\[image/png, 6 bytes\]"):
        server.call("say0")


def test_tools_in_pages():
    """A list of tools may have several pages; a tool without a description is described by its title."""
    with MCPServer(offering(pages=3)) as server:
        assert [each.name for each in server.definitions] == ["say0", "say1", "say2"]
        assert server.tools[0].description == "Says."


def test_too_many_tools():
    """A server that lists tools endlessly raises an error."""
    with MCPServer(offering(pages=1_000_000)) as server, pytest.raises(ConfigError, match="more than 1000 tools"):
        _ = server.tools


def test_too_many_tools_on_one_page():
    """A server that offers more than 1,000 tools raises a ConfigError."""
    tools = [types.Tool(name=f"t{number}", input_schema={"type": "object"}) for number in range(1_001)]

    async def on_list_tools(context, parameters):
        return types.ListToolsResult(tools=tools)

    with (
        MCPServer(Server("many", on_list_tools=on_list_tools)) as server,
        pytest.raises(ConfigError, match="1000 tools"),
    ):
        _ = server.tools


def holding(pages=1, **others):
    """Return a server whose only resource on each page is a note."""

    async def on_list_resources(context, parameters):
        page = int(parameters.cursor or 0) if parameters else 0
        note = types.Resource(name=f"note{page}", title="A note.", uri=f"notes://{page}")
        return types.ListResourcesResult(resources=[note], next_cursor=str(page + 1) if page + 1 < pages else None)

    return Server("holds", on_list_resources=on_list_resources, **others)


def test_resources_in_pages():
    """Resources may be listed in pages, and by a server without templates and tools."""
    with MCPServer(holding(pages=3)) as server:
        assert len(server) == 0
        assert [(each.name, each.description) for each in server.resources()] == [
            (f"note{page}", "A note.") for page in range(3)
        ]
        assert server.prompts() == ()


def test_too_many_resources():
    """A server that lists resources endlessly raises a ToolError."""
    with MCPServer(holding(pages=1_000_000)) as server, pytest.raises(ToolError, match="10000 resources, or has too"):
        server.resources()


def test_failing_resource_templates():
    """A failing list of resource templates raises a ToolError."""

    async def on_list_resource_templates(context, parameters):
        raise ValueError("The shelf is broken.")

    server = MCPServer(holding(on_list_resource_templates=on_list_resource_templates))
    with server, pytest.raises(ToolError, match="The server refused"):
        server.resources()


def test_prompt_with_model_messages():
    """A prompt with model messages is returned as one string with the role of each message."""

    async def on_get_prompt(context, parameters):
        output_lines = [("user", "1 + 1?"), ("assistant", "2."), ("user", f"{parameters.arguments['sum']}?")]
        messages = [types.PromptMessage(role=role, content=types.TextContent(text=text)) for role, text in output_lines]
        return types.GetPromptResult(messages=messages)

    with MCPServer(Server("sums", on_get_prompt=on_get_prompt)) as server:
        assert server.prompt("add", sum="2 + 2") == "User: 1 + 1?\n\nAssistant: 2.\n\nUser: 2 + 2?"


def test_tools_without_a_schema():
    """A server without any usable tool schema raises an error that names a tool."""

    async def on_list_tools(context, parameters):
        return types.ListToolsResult(
            tools=[types.Tool(name="bad", input_schema={"type": "object", "properties": {"a": 3}})]
        )

    with MCPServer(Server("odd", on_list_tools=on_list_tools)) as server, pytest.raises(ConfigError, match="'bad'"):
        _ = server.tools


def test_rejected_call_quotes_the_server():
    """The error of a refused call quotes the server, and the connection stays open."""
    with MCPServer(Server("silent", on_list_tools=offering().get_request_handler("tools/list").handler)) as server:
        assert len(server) == 1
        with pytest.raises(ToolError, match="The server refused"):
            server.call("say0")


def test_result_that_violates_the_output_schema():
    """A result that violates the tool's output schema raises a ToolError."""
    tool = types.Tool(name="say0", input_schema={"type": "object"}, output_schema={"type": "object", "required": ["a"]})

    async def on_list_tools(context, parameters):
        return types.ListToolsResult(tools=[tool])

    async def on_call_tool(context, parameters):
        return types.CallToolResult(content=[], structured_content={"b": 1})

    with MCPServer(Server("liar", on_list_tools=on_list_tools, on_call_tool=on_call_tool)) as server:
        assert len(server) == 1
        with pytest.raises(ToolError, match="cannot be used"):
            server.call("say0")


def test_object_that_is_not_a_server_is_rejected():
    """An object that is not a server raises a ConfigError with its type."""

    async def reach():
        async with open_connection(Target("a", "a", program=3)):
            raise AssertionError

    with pytest.raises(ConfigError, match="got a int"):
        asyncio.run(reach())


def test_package_logs_are_not_printed():
    """The log messages of the MCP package are not printed by default."""
    answer_of(offering())
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("mcp").handlers)


def test_broken_connection():
    """An error in the transport raises a ToolError and marks the connection as lost."""

    class Broken:
        async def list_tools(self, **_):
            raise OSError("The cable is gone.")

    async def ask():
        connection = MCPConnection(Broken(), _State())
        with pytest.raises(ToolError, match="cannot be reached: The cable is gone"):
            await connection.definitions()
        assert connection.lost

    asyncio.run(ask())


def test_server_error_does_not_reveal_secrets(protecting):
    """A server receives the token and headers with each request, and its error does not reveal them."""
    shown = []

    async def echoing(scope, receive, send):
        headers = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
        shown.append((headers.get("x-key"), headers.get("authorization")))
        fields = {"code": -32000, "message": f"refused {shown[-1]}"}
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "error": fields}).encode()
        await send({"type": "http.response.start", "status": 400, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})

    secrets = {"headers": {"X-Key": "tulip-tulip"}, "token": "rose-rose-rose"}
    with (
        protecting.listening() as (listener, origin),
        protecting.running(listener, echoing),
        MCPServer(origin, "far", **secrets) as server,
        pytest.raises(ConfigError, match=r"\*\*\*") as caught,
    ):
        _ = server.tools
    assert ("tulip-tulip", "Bearer rose-rose-rose") in shown
    assert not [word for word in ("tulip", "rose") if word in f"{caught.value} {server!r} {server.target}"]


WITHOUT = """
import sys
sys.modules["mcp"] = None
from agentkit import core_tools
from agentkit.errors import MissingExtra
from agentkit.mcp import MCPServer, serve
for use in (lambda: MCPServer("true").tools, lambda: serve(core_tools)):
    try:
        use()
    except MissingExtra as error:
        print(error)
"""


def test_missing_package_is_reported():
    """Without the extra, the first use raises an error that explains how to install it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count(install_command("mcp")) == 2


SECRETS = {"BELL_TOKEN": "tulip-4711-rose", "BELL_API_KEY": "ghp_" + "a1B2" * 9}
FALLS = "import os, sys; sys.stderr.write(f'\\x1b]0;me\\x07{os.environ}'); sys.exit(3)"


def test_command_secrets_are_removed_from_results(words):
    """Secrets in a command's environment are removed from its results."""
    with MCPServer(words, "plain", environment={**SECRETS, "BELL_PLACE": "Hue"}) as server:
        result = server.call("environment")
    assert "Hue" in result
    assert not any(secret in result for secret in SECRETS.values())


def test_output_of_a_crashed_command_is_redacted():
    """A crashed command's output is reported without its secrets and without terminal escapes."""
    with (
        MCPServer([sys.executable, "-S", "-c", FALLS], "plain", environment=SECRETS) as server,
        pytest.raises(ConfigError, match="It wrote") as caught,
    ):
        _ = server.tools
    assert "BELL_TOKEN" in str(caught.value)
    assert not any(each in str(caught.value) for each in (*SECRETS.values(), "\x1b", "\x07"))


def test_constant_change_notifications_are_throttled():
    """A server that constantly announces changed tools is listed only once in a while."""
    looks = []

    async def look():
        looks.append(1)
        state.changed.set()

    async def watch():
        state.changed.set()
        async with asyncio.timeout(0.5):
            await MCPConnection(None, state).watch(look)

    state = _State()
    with pytest.raises(TimeoutError):
        asyncio.run(watch())
    assert len(looks) == 1
