"""Is the agent found that a file holds, and nothing else of the file run?"""

import sys

import click
import pytest

from agentkit import Agent
from agentkit.cli.manifest import agent_in
from agentkit.errors import ConfigError

TWO = """from agentkit import Agent
from agentkit.code_mode import program_tool
clerk = Agent('clerk')
bot = Agent('bot'{})
"""


@pytest.fixture
def write(tmp_path):
    """Write a file; gives its path as text."""

    def written(text, name="bot.py"):
        (tmp_path / name).write_text(text, "utf-8")
        return str(tmp_path / name)

    return written


def refused(named):
    """What is said of a file without an agent."""
    with pytest.raises((ConfigError, click.UsageError)) as caught:
        agent_in(named)
    return str(caught.value)


def test_the_only_agent(write, tmp_path):
    """The one agent at the top of a program is meant, under whatever names."""
    found, folder = agent_in(write("from agentkit import Agent\nbot = Agent('bot')\nsame = bot\n"))
    assert (found.name, folder) == ("bot", tmp_path)


@pytest.mark.parametrize("given", [", tools=[clerk]", ", tools=[program_tool([clerk])]", ", handoffs=[clerk]"])
def test_the_leading_agent(write, given):
    """Of several agents the one that sets the others to work is meant."""
    assert agent_in(write(TWO.format(given)))[0].name == "bot"


def test_the_named_agent(write):
    """Of several agents one can be named."""
    path = write(TWO.format(""))
    assert agent_in(f"{path}:clerk")[0].name == "clerk"
    assert refused(path) == f"{path} has clerk, bot, so the choice is ambiguous. Name one: {path}:NAME."
    for other in ("nobody", "Agent"):
        assert f"There is no Agent {other!r} in {path}; it has clerk, bot." in refused(f"{path}:{other}")


def test_no_agent(write):
    """A program without an agent at its top is told so."""
    path = write("x = 1\n")
    assert refused(path) == f"There is no Agent in {path}. Define one at module level, for example: it = Agent(...)"


def test_a_text_file(write, tmp_path):
    """An agent's text file describes the agent."""
    found, folder = agent_in(write("tools: core\n\nBe brief.\n", "clerk.txt"))
    assert (found.name, found.instruction, folder) == ("clerk", "Be brief.", tmp_path)


def test_no_file(tmp_path):
    """A file that is not there is told so, and so is a folder."""
    assert refused(str(tmp_path / "bot.py:x")) == (
        f"The file {str(tmp_path / 'bot.py')!r} does not exist. "
        "Name a Python program, as in bot.py, or an agent's text file."
    )
    assert "does not exist" in refused(str(tmp_path))


def test_what_is_beside_the_program(write):
    """A program imports what is in its own folder, and the command's own path is as it was."""
    write("NAME = 'clerk'\n", "beside_of_manifest.py")
    path, before = (
        write("import beside_of_manifest\nfrom agentkit import Agent\nbot = Agent(beside_of_manifest.NAME)\n"),
        [*sys.path],
    )
    assert agent_in(path)[0].name == "clerk"
    assert sys.path == before
    del sys.modules["beside_of_manifest"]


def test_nothing_is_run(write):
    """What a program does when it is run it does not do when it is looked at, and no key is needed."""
    made = "from agentkit import LLM, Agent\nbot = Agent('bot', llm=LLM('openai'))\n"
    text = f"{made}if __name__ == '__main__':\n    raise SystemExit(1)\n"
    assert isinstance(agent_in(write(text))[0], Agent)


@pytest.mark.parametrize("call", ["bot('Hi')", "bot.run('Hi')", "list(bot.stream('Hi'))"])
def test_a_program_that_runs_its_agent(write, call):
    """An agent that is run while its program is imported gets no answer, and the program is told where."""
    path = write(f"from agentkit import LLM, Agent\nbot = Agent('bot', llm=LLM('openai'))\n{call}\n")
    assert refused(path) == (
        f"{path}, line 3: {path} runs an agent while it is imported. "
        'Put code that runs an agent below the line: if __name__ == "__main__":'
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "\nimport there_is_no_such_module\n",
            "line 2: ModuleNotFoundError: No module named 'there_is_no_such_module'",
        ),
        ("x = 1\nx =\n", "line 2: SyntaxError: invalid syntax"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
        ("raise ValueError\n", "line 1: ValueError\nThe whole traceback: python "),
        ("from agentkit import Agent\n\nAgent('')\n", "line 3: name= takes a string that is not blank."),
        ("\0", "SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_a_program_that_cannot_be_imported(write, text, words):
    """A program that fails while it is imported is told by its line and what Python says."""
    assert words in refused(write(text))


def test_a_manifest_is_no_program(write):
    """A manifest in the place of the program is refused: as text, it would be an agent's instruction."""
    assert "neither a program nor an agent's text file. Did you mean:" in refused(write("{}", "bot.json"))
