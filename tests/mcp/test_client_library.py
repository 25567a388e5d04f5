"""Tests for the resources and prompts of a server, and the tools that read them."""

import asyncio
import json
import pickle

import pytest

from agentkit import Agent
from agentkit.decisions import Label
from agentkit.errors import ToolError, ToolTimeout
from agentkit.mcp import MCPServer, Prompt, PromptArgument, Resource, connect
from agentkit.testing import ScriptedLLM, call


def named(server, name):
    """Return a tool of a server by its name."""
    return server.tools.find(name)


def test_resources_are_listed_and_read(library):
    """Resources and templates are listed, and read by their URI as text or image."""
    with MCPServer(library) as server:
        assert server.resources() == (
            Resource("notes://rules", "rules", "The house rules.", "text/markdown"),
            Resource("notes://logo", "logo", "", "image/png"),
            Resource("notes://{name}/length", "length", "How long a name is.", "text/plain", is_template=True),
        )
        assert server.read("notes://rules") == "Be kind."
        assert [str(each) for each in server.read("notes://logo")] == ["[image/png, 18 bytes]"]
        assert server.read("notes://tulip/length") == "5"
        with pytest.raises(ToolError, match="The server refused"):
            server.read("notes://none")
        assert server.tools.names == ()


def test_prompts_of_a_server(library):
    """A server's prompt can be passed to an agent."""
    with MCPServer(library) as server:
        code, lines = PromptArgument("code", is_required=True), PromptArgument("lines")
        assert server.prompts() == (Prompt("review", "Asks for a review.", (code, lines)),)
        prompt = server.prompt("review", code="x = 1", lines=2)
        assert prompt == "Review these 2 lines: x = 1"
        agent = Agent("helper", llm=ScriptedLLM("Fine."))
        assert agent(prompt) == "Fine."
        assert agent.history[0]["content"] == prompt
        with pytest.raises(ToolError, match="The server refused"):
            server.prompt("review")


def test_async_reading(library):
    """Resources and prompts can be read asynchronously."""

    async def together():
        return await asyncio.gather(
            server.aresources(), server.aread("notes://rules"), server.aprompts(), server.aprompt("review", code="x")
        )

    with MCPServer(library) as server:
        blocking = server.resources(), server.read("notes://rules"), server.prompts(), server.prompt("review", code="x")
        assert tuple(asyncio.run(together())) == blocking


def test_server_without_resources_and_prompts(plain):
    """A server without resources and prompts receives no requests for them."""
    assert (plain.resources(), plain.prompts()) == ((), ())


def test_reading_times_out(words, messages):
    """Reading that exceeds the timeout is cancelled, and the server stays usable."""
    with MCPServer(words, timeout_seconds=0.3) as server:
        _ = server.tools  # connecting has a longer time limit than reading
        with pytest.raises(ToolTimeout, match=r"0\.3 seconds"):
            server.read("wait://")
        messages("notifications/cancelled")
        assert server.read("a://") == "a://"


def test_reading_after_a_crash(plain):
    """A server crash fails the reading, and the next one restarts the server."""
    with pytest.raises(ToolError, match=r"ended before it answered. It wrote: I fall"):
        plain.read("crash://")
    assert plain.read("a://") == "a://"


@pytest.mark.parametrize(
    ("level", "labels", "egress"),
    [
        ("safe", {Label.UNTRUSTED}, False),
        ("network", {Label.UNTRUSTED}, True),
        ({"read_resource": "safe"}, {Label.UNTRUSTED}, False),
        ("system", {Label.UNTRUSTED, Label.PRIVATE}, True),
    ],
)
def test_model_reads_resources(library, level, labels, egress):
    """A model reads resources with two tools, with the policy and labels of the server's tools."""
    with MCPServer(library, level=level, resources=True) as server:
        assert server.tools.names == ("list_resources", "read_resource")
        read = named(server, "read_resource")
        result = read.invoke({"uri": "notes://rules"})
        assert (result.content, result.labels) == ("Be kind.", labels)
        assert read.judge({"uri": "notes://rules"}).egress is egress
        assert read(uri="notes://rules") == "Be kind."
        assert read.invoke({"uri": "notes://logo"}).images
        assert read.invoke({"uri": "notes://none"}).status == "failed"


def test_resource_tools(library):
    """A model lists and reads resources with tools, which need approval like any other tool."""
    with MCPServer(library, resources=True) as server:
        tool = named(server, "list_resources")
        assert tool() == asyncio.run(tool.ainvoke()).content
        assert json.loads(tool().splitlines()[0])["uri"] == "notes://rules"
        assert asyncio.run(named(server, "read_resource").ainvoke({"uri": "notes://rules"})).content == "Be kind."
        agent = Agent("helper", [server], llm=ScriptedLLM(call("list_resources"), "I may not."))
        assert agent.run("What is there?").tool_calls[0].result.status == "denied"


def test_new_resources_are_not_a_change(library, tmp_path):
    """New resources do not count as a change of the accepted server."""
    with MCPServer(library, pins=tmp_path, resources=True, level="safe") as server:
        assert len(server.tools) == 2
    library.resource("notes://more", name="more")(lambda: "More.")
    with MCPServer(library, pins=tmp_path, resources=True, level="safe") as server:
        assert server.changes == ()
        assert named(server, "read_resource").judge({"uri": "notes://more"}).allowed
        assert "notes://more" in named(server, "list_resources")()


def test_resource_tool_names(foreign, library):
    """A resource tool is prefixed with its server's name if its own name is taken."""

    @foreign.tool()
    def read_resource() -> str:
        """Read."""
        return "mine"

    with MCPServer(foreign, "sums", resources=True) as server:
        assert server.tools.names == ("add", "read_resource", "list_resources", "sums_read_resource")
        assert server.tool_named("read_resource")() == "mine"
    one, two = MCPServer(library, "one", resources=True), MCPServer(library, "two", resources=True)
    with one, two:
        tools = connect(one, two)
        assert tools.names == tuple(f"{who}_{what}_resource{s}" for who in ("one", "two") for what, s in READING)
    with MCPServer(library, "one", prefix=True, resources=True) as server:
        assert server.tools.names == ("one_list_resources", "one_read_resource")


READING = (("list", "s"), ("read", ""))


def test_reading_tool_can_be_pickled(words):
    """A reading tool can be pickled and used in another process."""
    with MCPServer(words, resources=True) as server:
        copy = pickle.loads(pickle.dumps(named(server, "read_resource")))
        assert copy(uri="a://") == "a://"
        copy.server.close()
