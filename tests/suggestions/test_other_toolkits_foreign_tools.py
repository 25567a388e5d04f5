"""Is an argument of another toolkit's tools answered with what it is called here?"""

import pytest

from agentkit import Agent, tool
from agentkit.mcp import MCPServer
from agentkit.suggestions.other_toolkits import DEFINING, SERVING, TABLES, WORKING
from agentkit.testing import ScriptedLLM


def look_up(city: str) -> str:
    """Look a city up."""
    return city


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"needs_approval": True}, "Did you mean level='SYSTEM', which is asked for;"),
        (
            {"is_enabled": lambda: True},
            "Did you mean when=, a function of the RunContext?",
        ),
        ({"retries": 3}, "What a tool raises is told to the model, which may try again;"),
        ({"defer_loading": True}, "Did you mean tools=[Toolset([function]).searchable()]?"),
        ({"max_calls": 1}, "A judge= that counts denies a call too many;"),
        ({"external_execution": True}, "Raise Postponed('a question'), of agentkit.errors, in it:"),
        ({"takes_ctx": True}, "A parameter annotated RunContext gets what the run knows,"),
        ({"max_char": 300}, "Did you mean max_chars=?"),
    ],
)
def test_arguments_of_a_tool(given, meant):
    """What other toolkits say of a tool is answered with how that is said here."""
    with pytest.raises(TypeError) as raised:
        tool(**given)(look_up)
    assert f"Tool() takes no argument {next(iter(given))}=. {meant}" in str(raised.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"tool_name": "expert"}, "Did you mean name=?"),
        ({"on_stream": print}, "Did you mean listeners= of the agent, which hear what it does as a tool, too?"),
        ({"parameters": dict}, "A tool with parameters of its own is a function that asks the agent,"),
        ({"max_turns": 3}, "A worker keeps its own limits=, max_iterations= and guardrails=;"),
        ({"needs_approval": True}, "Did you mean Rule('ask', 'its_name'), in the policy of the agent that uses it?"),
        ({"nothing": 1}, "It takes: name, description."),
    ],
)
def test_arguments_of_an_agent_as_a_tool(given, meant):
    """A tool of an agent has a name and a description, and all else is said of the agent."""
    with pytest.raises(TypeError) as raised:
        Agent("helper", llm=ScriptedLLM()).as_tool(**given)
    assert f"Agent.as_tool() takes no argument {next(iter(given))}=. {meant}" in str(raised.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"tool_filter": []}, "Tools of a server are chosen like any others: server.tools.only('one', 'two'),"),
        ({"max_retry_attempts": 3}, "A lost server is connected again at the next call;"),
        ({"elicitation_callback": print}, "A server that asks for a model or a person is told no."),
    ],
)
def test_arguments_of_a_server_of_tools(given, meant):
    """What other toolkits say of an MCP server is answered before it is started."""
    with pytest.raises(TypeError) as raised:
        MCPServer("uvx server", **given)
    assert f"MCPServer() takes no argument {next(iter(given))}=. {meant}" in str(raised.value)


def test_what_tools_take_is_no_foreign_word():
    """No argument that is taken stands among those that are not."""
    assert not {"name", "description", "level", "judge", "timeout_seconds", "max_chars", "labels"} & set(DEFINING)
    assert not {"name", "description"} & set(WORKING)
    assert not {"name", "level", "environment", "folder", "token", "headers", "login", "prefix"} & set(SERVING)
    assert TABLES["Tool"] is DEFINING
    assert TABLES["MCPServer"] is SERVING
