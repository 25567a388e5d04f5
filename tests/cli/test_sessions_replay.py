"""Tests for `agentkit replay`: recorded runs, and programs that run on recorded answers."""

import pytest

from agentkit.testing import ScriptedLLM, record

PROGRAM = """
import sys

from agentkit import LLM
from beside import question

print(LLM().chat(question), sys.argv[1:], __name__)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a program, a module, and a cassette of a run."""
    with record(tmp_path / "trip.cassette"):
        ScriptedLLM("Hello.").chat("Hi.")
    (tmp_path / "beside.py").write_text("question = 'Hi.'\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def replay(command, folder, *arguments, program=None, options=()):
    """Run the program in the folder on the cassette."""
    if program is not None:
        (folder / "program.py").write_text(program)
    return command("replay", *options, str(folder / "trip.cassette"), str(folder / "program.py"), *arguments)


def test_recorded_runs_are_replayed(command, cassette):
    """Without a program, recorded answers are written to stdout, and tool calls to stderr."""
    out, err, code = command("replay", str(cassette))
    assert code == 0
    assert "It is 42.\n" in out
    assert "> How much is 6*7?" in err
    assert 'calculator(expression="6*7") → 42  [allow: level]' in err
    assert "Limit reached: cost" in err
    assert "+new" in err


def test_program_runs_without_a_key(process, folder):
    """A program runs with its arguments and local modules on the recorded answers, without a key."""
    out, err, code = replay(process, folder, "--fast", "-h")
    assert (out, err, code) == ("Hello. ['--fast', '-h'] __main__\n", "", 0)


def test_changed_program_fails_with_the_difference(command, folder):
    """A program that sends another request, or leaves recorded ones unused, fails with the difference."""
    _, err, code = replay(command, folder, program="from agentkit import LLM\nLLM().chat('Bye.')\n")
    assert (code, "+user: Bye." in err, "Traceback" in err) == (1, True, False)
    _, err, code = replay(command, folder, program="pass")
    assert (code, "not used" in err) == (1, True)
    assert replay(command, folder, program="pass", options=["--partial"]) == ("", "", 0)


@pytest.mark.parametrize(
    ("ending", "code", "expected"),
    [("3", 3, ""), ("'It broke.'", 1, "It broke."), ("0", 1, "not used"), ("None", 1, "not used")],
)
def test_exit_code_of_the_program(command, folder, ending, code, expected):
    """The exit code is that of the program; a program that exits with 0 must use all recorded answers."""
    _, err, ended = replay(command, folder, program=f"raise SystemExit({ending})")
    assert ended == code
    assert expected in err


@pytest.mark.parametrize(
    ("program", "first", "last"),
    [
        ("def ask():\n    raise KeyError('x')\n\nask()", ", line 4, in <module>\n    ask()", "KeyError: 'x'"),
        ("Buy milk.", ", line 1\n    Buy milk.", "SyntaxError: invalid syntax"),
    ],
)
def test_traceback_starts_in_the_program(command, folder, program, first, last):
    """The traceback of a program starts in the program."""
    _, err, code = replay(command, folder, program=program)
    lines = err.splitlines()
    found = next(index for index, line in enumerate(lines) if line.startswith("  File"))
    assert "\n".join(lines[found : found + 2]) == f'  File "{folder / "program.py"}"{first}'
    assert (lines[-1], code) == (last, 1)


def test_missing_program_is_a_usage_error(command, folder):
    """A missing program is a usage error."""
    _, err, code = command("replay", str(folder / "trip.cassette"), "no_such.py")
    assert (code, "no_such.py" in err) == (2, True)
