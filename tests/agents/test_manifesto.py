"""Tests for manifestos: agent files whose text lists tools as `<TOOL: NAME>input</TOOL>`."""

import json

import pytest

from agentkit import LLM, Agent, ConfigError
from agentkit.agents.agent_file import find_listed_tools
from agentkit.testing import FakeServer, ScriptedLLM

MANIFESTO = """\
You are the clerk of a library. Write one tool call in each response, and nothing else.

<TOOL: NAME>input</TOOL> is the form of a call. These are your tools:

<TOOL: ASK_USER>a question</TOOL>
<TOOL: TELL_USER>a message</TOOL>
<TOOL: READ_README></TOOL>
<TOOL: CALCULATOR>an expression</TOOL>
<TOOL: LEND>the title§the number of days</TOOL>
<TOOL: END_RUN></TOOL>
"""


def lend(title: str, days: int = 14) -> str:
    """Lend a book."""
    return f"{title} for {days} days"


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A manifesto in a project with a README."""
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path / "state"))
    (tmp_path / "README.md").write_text("# The library\n")
    path = tmp_path / "clerk.txt"
    path.write_text(MANIFESTO)
    return path


def clerk(file, *lines, **options):
    """Return the agent of the manifesto with a scripted model."""
    return Agent.from_file(file, tools=[lend], llm=ScriptedLLM(*lines), workspace=file.parent, **options)


def test_manifesto_runs_unchanged(file):
    """The tools in a manifesto are offered by name and called as text, one per response."""
    agent = clerk(
        file,
        "<TOOL: READ_README></TOOL>",
        "<TOOL: CALCULATOR>6*7</TOOL>",
        "<TOOL: LEND>Emma § 7</TOOL>",
        "<TOOL: TELL_USER>Emma is yours for a week.</TOOL>",
        "<TOOL: END_RUN></TOOL>",
    )
    assert agent.tools.names == ("ASK_USER", "TELL_USER", "READ_README", "CALCULATOR", "LEND", "END_RUN")
    result = agent.run("I want to read Emma.")
    assert (result.status, result.output) == ("done", "Emma is yours for a week.")
    assert [used.result.status for used in result.tool_calls] == ["ok"] * 5
    assert "# The library" in result.values("READ_README")[0]
    assert result.values("LEND") == ["Emma for 7 days"]
    (request, *_) = agent.llm.requests
    assert (request.tools, request.settings.get("parallel_tool_calls")) == ((), None)
    assert request.instruction.startswith(MANIFESTO.strip())
    assert agent.session.store is not None


def test_questions_pause_the_run(file):
    """ASK_USER pauses the run, and the answer is the result of the call."""
    agent = clerk(file, "<TOOL: ASK_USER>Which book?</TOOL>", "<TOOL: END_RUN>Bye.</TOOL>")
    paused = agent.run("Hello.")
    assert paused.pending[0].question == "Which book?"
    assert paused.resume("Emma").output == "Bye."


def test_run_without_a_message_ends_with_the_text(file):
    """A run that sent no message ends with the text of the model, or with an empty answer."""
    assert clerk(file, "Bye. <TOOL: END_RUN></TOOL>").run("Hello.").output == "Bye."
    assert clerk(file, "<TOOL: END_RUN></TOOL>", session=None).run("Hello.").output == ""


def test_memory_file_is_appended_to_the_instruction(file):
    """The contents of the file `memory` are appended to the instruction."""
    (file.parent / "memory").write_text("The library closes at 6 pm.\n")
    assert clerk(file).instruction.endswith("\n\nThe library closes at 6 pm.")
    (file.parent / "memory").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match=r"The memory file .* cannot be read"):
        clerk(file)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FLY", "line 2: No tool is named 'FLY'. Manifestos can list: ASK_USER, TELL_USER, END_RUN,"),
        ("SERCH", "line 2: No tool is named 'SERCH'. Did you mean 'SEARCH'?"),
    ],
)
def test_unknown_names_are_rejected(file, name, text):
    """An unknown tool name raises an error with its line."""
    file.write_text(f"You are a bird.\n<TOOL: {name}>where</TOOL>\n")
    with pytest.raises(ConfigError) as raised:
        Agent.from_file(file)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("name", "real"), [("SEARCH", "input"), ("OPEN_URL", "input"), ("search_files", "input"), ("wikipedia", "input")]
)
def test_names_and_inputs(file, name, real):
    """Predefined and shipped tools take one string."""
    file.write_text(f"Look things up.\n<TOOL: {name}>what</TOOL>\n")
    (tool,) = Agent.from_file(file, workspace=file.parent).tools.within(Agent("x", workspace=file.parent).workspace)
    assert (tool.name, list(tool.spec.parameters["properties"])) == (name, [real])
    assert next(iter(tool.check({real: "a"}).values())) == "a"


def test_placeholders_are_not_tools():
    """A placeholder that explains the form of a call is not listed as a tool."""
    assert find_listed_tools("<TOOL: NAME>input</TOOL>\n<TOOL:Search>x</TOOL><TOOL: Search>") == {"Search": 1}


def test_manifesto_is_sent_to_a_server_as_text(file):
    """A server gets the manifesto and the descriptions of the tools as text, and no tool definitions."""
    with FakeServer("<TOOL: END_RUN>Bye.</TOOL>") as server:
        llm = LLM(base_url=server.base_url, model="m")
        agent = Agent.from_file(file, tools=[lend], llm=llm, workspace=file.parent)
        assert agent.run("Hello.").output == "Bye."
        body = server.requests[0].body
    assert "tools" not in json.loads(body)
    assert b"<TOOL: LEND>" in body
