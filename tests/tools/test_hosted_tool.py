"""Tests for hosted tools, which the provider runs."""

import pickle

import pytest

from agentkit import Agent, SafetyLevel, core_tools, web_tools
from agentkit.code_mode import program_tool
from agentkit.decisions import Label
from agentkit.errors import ConfigError
from agentkit.manifest import manifest_of
from agentkit.mcp import ToolServer
from agentkit.tools.hosted import HostedTool

DECLARED = [
    (HostedTool("web_search"), "web_search", SafetyLevel.NETWORK, {Label.UNTRUSTED}),
    (HostedTool("code_execution"), "code_execution", SafetyLevel.SAFE, set()),
    (HostedTool("file_search", vector_store_ids=["vs_1"]), "file_search", SafetyLevel.SAFE, {Label.PRIVATE}),
    (HostedTool("mcp", server_label="wiki"), "wiki", SafetyLevel.SYSTEM, {Label.UNTRUSTED}),
    (HostedTool("web_fetch_20260318", name="web_fetch"), "web_fetch", SafetyLevel.NETWORK, {Label.UNTRUSTED}),
    (HostedTool("web_search", level="system", labels=["private"]), "web_search", SafetyLevel.SYSTEM, {Label.PRIVATE}),
]


@pytest.mark.parametrize(("tool", "name", "level", "labels"), DECLARED)
def test_name_level_and_labels(tool, name, level, labels):
    """A hosted tool has a name, a default level and labels."""
    assert (tool.name, tool.level, tool.labels) == (name, level, frozenset(labels))


def test_settings_are_copied_into_the_request():
    """The settings are copied when the tool is created and sent in the request."""
    domains = ["who.int"]
    tool = HostedTool("web_search", allowed_domains=domains)
    domains.append("evil.example")
    assert tool.spec.hosted == {"type": "web_search", "allowed_domains": ["who.int"]}
    assert tool.to_openai_tool() == tool.spec.hosted
    assert repr(tool) == "HostedTool('web_search', level=NETWORK)"


def test_hosted_tool_in_a_toolset():
    """A toolset can add, select and remove a hosted tool by name and by level."""
    tools = core_tools + HostedTool("web_search") + HostedTool("code_execution")
    assert tools.up_to("safe").names == (*core_tools.names, "code_execution")
    assert tools.without("web_search", "code_execution") == core_tools


def test_duplicate_name_is_rejected():
    """A hosted tool with the name of another tool raises an error that says how to remove one."""
    with pytest.raises(ConfigError, match=r"remove one with \.without\('web_search'\)"):
        Agent("reporter", [web_tools, HostedTool("web_search")])
    assert Agent("reporter", [web_tools.without("web_search"), HostedTool("web_search")]).name == "reporter"


def test_direct_call_is_rejected():
    """A direct call raises an error which says that the provider runs the tool."""
    with pytest.raises(ConfigError, match="run by the provider"):
        HostedTool("web_search")()
    assert "run by the provider" in HostedTool("web_search").invoke().error


@pytest.mark.for_each(
    ("given", "says"),
    [
        ({"kind": ""}, "takes the type of the tool"),
        ({"kind": 3}, "takes the type of the tool"),
        ({"kind": "websearch"}, r"Did you mean HostedTool\('web_search'\)"),
        ({"kind": "Code-Execution"}, r"Did you mean HostedTool\('code_execution'\)"),
        ({"kind": "web_search", "allowed_domains": {"who.int"}}, "must be JSON data"),
        ({"kind": "web_search", "budget": float("nan")}, "must be JSON data"),
        ({"kind": "web_search", "allowed_domains": "who.int"}, "takes a list of host names"),
        ({"kind": "web_search", "allowed_domains": ["https://who.int"]}, "without a scheme"),
        ({"kind": "web_search", "allowed_domains": [3]}, "takes a list of host names"),
        ({"kind": "web_search", "user_location": "Hue"}, "takes a dictionary"),
        ({"kind": "my search"}, "name"),
        ({"kind": "web_search", "level": "high"}, "safety level"),
    ],
)
def test_invalid_settings_are_rejected(given, says):
    """Invalid settings raise an error when the tool is created."""
    with pytest.raises(ConfigError, match=says):
        HostedTool(**given)


@pytest.mark.parametrize("serve", [program_tool, ToolServer])
def test_hosted_tool_is_rejected_by_programs_and_mcp(serve):
    """Passing a hosted tool to a program tool or MCP server raises an error."""
    with pytest.raises(ConfigError, match="'web_search' is run by"):
        serve([*core_tools, HostedTool("web_search")])


@pytest.mark.parametrize(
    ("tool", "hosts"),
    [
        (HostedTool("web_search"), ["any"]),
        (HostedTool("web_search", allowed_domains=["who.int", "un.org"]), ["un.org", "who.int"]),
        (
            HostedTool("mcp", server_label="wiki", server_url="https://user:key@wiki.example:8443/mcp"),
            ["wiki.example:8443"],
        ),
        (HostedTool("code_execution"), []),
    ],
)
def test_manifest_contains_hosts_and_maker(tool, hosts):
    """The manifest lists the allowed domains and names the provider as the maker of the tool."""
    facts = manifest_of(Agent("reporter", [tool])).facts
    assert facts["agents", "reporter", "tools", tool.name, "hosts"] == hosts
    assert facts["agents", "reporter", "tools", tool.name, "made_by"] == "provider"


def test_manifest_changes_with_the_settings():
    """Different settings give different definitions in the manifest."""
    path = ("agents", "reporter", "tools", "web_search", "definition")
    messages = {
        manifest_of(Agent("reporter", [HostedTool("web_search", **settings)])).facts[path]
        for settings in ({}, {"search_context_size": "high"})
    }
    assert len(messages) == 2


def test_hosted_tool_can_be_pickled():
    """An agent with hosted tools can be pickled."""
    tool = pickle.loads(pickle.dumps(HostedTool("web_search", allowed_domains=["who.int"])))
    assert tool.spec.hosted == {"type": "web_search", "allowed_domains": ["who.int"]}
