"""Tests for the agent that a file defines, which is found without running the program's main block."""

import sys

import click
import pytest

from agentkit import Agent
from agentkit.cli.manifest import load_agent
from agentkit.errors import ConfigError

TWO = """from agentkit import Agent
from agentkit.code_mode import program_tool
clerk = Agent('clerk')
bot = Agent('bot'{})
"""


@pytest.fixture
def write(tmp_path):
    """Write a file; return its path as a string."""

    def written(text, name="bot.py"):
        (tmp_path / name).write_text(text, "utf-8")
        return str(tmp_path / name)

    return written


def refused(named):
    """Return the error message for this agent reference."""
    with pytest.raises((ConfigError, click.UsageError)) as caught:
        load_agent(named)
    return str(caught.value)


def test_only_agent(write, tmp_path):
    """The only agent of a program is returned, even if it has several names."""
    found, folder = load_agent(write("from agentkit import Agent\nbot = Agent('bot')\nsame = bot\n"))
    assert (found.name, folder) == ("bot", tmp_path)


@pytest.mark.parametrize("given", [", tools=[clerk]", ", tools=[program_tool([clerk])]", ", handoffs=[clerk]"])
def test_leading_agent(write, given):
    """Of several agents, the one that calls the others is returned."""
    assert load_agent(write(TWO.format(given)))[0].name == "bot"


def test_named_agent(write):
    """One of several agents can be named."""
    path = write(TWO.format(""))
    assert load_agent(f"{path}:clerk")[0].name == "clerk"
    assert refused(path) == f"{path} has clerk, bot, so the choice is ambiguous. Name one: {path}:NAME."
    for other in ("nobody", "Agent"):
        assert f"There is no Agent {other!r} in {path}; it has clerk, bot." in refused(f"{path}:{other}")


def test_program_without_an_agent(write):
    """A program without an agent at module level raises an error."""
    path = write("x = 1\n")
    assert refused(path) == f"There is no Agent in {path}. Define one at module level, for example: it = Agent(...)"


def test_text_file(write, tmp_path):
    """A text file that describes an agent is accepted."""
    found, folder = load_agent(write("tools: core\n\nBe brief.\n", "clerk.txt"))
    assert (found.name, found.instruction, folder) == ("clerk", "Be brief.", tmp_path)


def test_missing_file(tmp_path):
    """A missing file or a folder raises an error."""
    assert refused(str(tmp_path / "bot.py:x")) == (
        f"The file {str(tmp_path / 'bot.py')!r} does not exist. "
        "Name a Python program, as in bot.py, or an agent's text file."
    )
    assert "does not exist" in refused(str(tmp_path))


def test_program_imports_modules_from_its_folder(write):
    """A program can import modules from its own folder, and sys.path is restored."""
    write("NAME = 'clerk'\n", "beside_of_manifest.py")
    path, before = (
        write("import beside_of_manifest\nfrom agentkit import Agent\nbot = Agent(beside_of_manifest.NAME)\n"),
        [*sys.path],
    )
    assert load_agent(path)[0].name == "clerk"
    assert sys.path == before
    del sys.modules["beside_of_manifest"]


def test_main_block_is_not_run(write):
    """Code below `__name__ == "__main__"` is not run, and no API key is needed."""
    made = "from agentkit import LLM, Agent\nbot = Agent('bot', llm=LLM('openai'))\n"
    text = f"{made}if __name__ == '__main__':\n    raise SystemExit(1)\n"
    assert isinstance(load_agent(write(text))[0], Agent)


@pytest.mark.parametrize("call", ["bot('Hi')", "bot.run('Hi')", "list(bot.stream('Hi'))"])
def test_program_that_runs_its_agent_on_import(write, call):
    """A program that runs an agent while it is imported raises an error with the line."""
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
def test_program_that_fails_on_import(write, text, words):
    """A program that fails on import raises an error with its line and the Python error."""
    assert words in refused(write(text))


def test_manifest_in_place_of_a_program_is_rejected(write):
    """A manifest in place of a program is rejected."""
    assert "neither a program nor an agent's text file. Did you mean:" in refused(write("{}", "bot.json"))
