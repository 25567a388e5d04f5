"""What is a tool that the provider runs?"""

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
def test_a_hosted_tool_has_a_name_a_level_and_labels_like_any_other(tool, name, level, labels):
    """What reaches nobody but the provider is SAFE, and anything else NETWORK, until it is said otherwise."""
    assert (tool.name, tool.level, tool.labels) == (name, level, frozenset(labels))


def test_its_settings_are_declared_as_they_are():
    """What is said of a tool goes into the request, as it was when the tool was made."""
    domains = ["who.int"]
    tool = HostedTool("web_search", allowed_domains=domains)
    domains.append("evil.example")
    assert tool.spec.hosted == {"type": "web_search", "allowed_domains": ["who.int"]}
    assert tool.to_openai_tool() == tool.spec.hosted
    assert repr(tool) == "HostedTool('web_search', level=NETWORK)"


def test_it_stands_in_a_toolset_beside_others():
    """A toolset adds, chooses and leaves it out by name and by level."""
    tools = core_tools + HostedTool("web_search") + HostedTool("code_execution")
    assert tools.up_to("safe").names == (*core_tools.names, "code_execution")
    assert tools.without("web_search", "code_execution") == core_tools


def test_it_takes_the_place_of_a_tool_of_that_name():
    """Beside our search a provider's is one too many, and the error says which to leave out and how."""
    with pytest.raises(ConfigError, match=r"remove one with \.without\('web_search'\)"):
        Agent("reporter", [web_tools, HostedTool("web_search")])
    assert Agent("reporter", [web_tools.without("web_search"), HostedTool("web_search")]).name == "reporter"


def test_nobody_else_can_call_it():
    """A direct call says who runs the tool."""
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
def test_what_cannot_be_sent_is_refused_when_it_is_made(given, says):
    """A mistake is told where it was made, before any run."""
    with pytest.raises(ConfigError, match=says):
        HostedTool(**given)


@pytest.mark.parametrize("serve", [program_tool, ToolServer])
def test_programs_and_mcp_clients_cannot_have_it(serve):
    """What only a provider can run is refused where something else would have to run it."""
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
def test_a_manifest_says_what_it_reaches(tool, hosts):
    """The domains that are named are all that a search may bring, and the provider is who made the tool."""
    facts = manifest_of(Agent("reporter", [tool])).facts
    assert facts["agents", "reporter", "tools", tool.name, "hosts"] == hosts
    assert facts["agents", "reporter", "tools", tool.name, "made_by"] == "provider"


def test_a_manifest_tells_other_settings_apart():
    """Settings are part of the definition, so that a change of them is seen."""
    path = ("agents", "reporter", "tools", "web_search", "definition")
    told = {
        manifest_of(Agent("reporter", [HostedTool("web_search", **settings)])).facts[path]
        for settings in ({}, {"search_context_size": "high"})
    }
    assert len(told) == 2


def test_it_can_be_pickled():
    """An agent that runs elsewhere takes its hosted tools along."""
    tool = pickle.loads(pickle.dumps(HostedTool("web_search", allowed_domains=["who.int"])))
    assert tool.spec.hosted == {"type": "web_search", "allowed_domains": ["who.int"]}
