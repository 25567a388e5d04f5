"""Tests for the loading of Python files: imports, annotations, and errors with file and line."""

import sys
from typing import get_type_hints

import pytest

from agentkit import ConfigError
from agentkit.cli.loaders import run_program, split_target


@pytest.mark.parametrize(
    ("place", "file", "name"),
    [
        ("bot.py", "bot.py", ""),
        ("bot.py:clerk", "bot.py", "clerk"),
        ("bots/bot.py:", "bots/bot.py", ""),
        ("bot.txt", "bot.txt", ""),
        ("name: text", "name: text", ""),
        ("C:bot.py", "C:bot.py", ""),
    ],
)
def test_place_is_split_into_file_and_name(place, file, name):
    """A name follows the colon after a Python file; other paths are not split."""
    path, found = split_target(place)
    assert (str(path), found) == (file, name)


def test_string_annotations_are_resolved(tmp_path):
    """String annotations are resolved, and modules in the program's folder can be imported."""
    (tmp_path / "beside_it.py").write_text("PRICE = 5\n")
    program = tmp_path / "program_of_a_test.py"
    program.write_text(
        "from __future__ import annotations\nfrom beside_it import PRICE\n"
        "class Size: pass\nclass Order:\n    size: Size\n    next: Order\n"
    )
    folder = sys.path[0]
    found = run_program(program)
    assert (found["PRICE"], sys.path[0]) == (5, folder)
    assert get_type_hints(found["Order"]) == {"size": found["Size"], "next": found["Order"]}


@pytest.mark.parametrize("name", ["json.py", "__main__.py", "antigravity.py", "pip.py"])
def test_program_does_not_replace_a_module(tmp_path, name):
    """Loading a program does not change sys.modules for a module with the same name."""
    before = sys.modules.get(name.removesuffix(".py"))
    (tmp_path / name).write_text("x = __name__\n")
    assert (run_program(tmp_path / name)["x"], sys.modules.get(name.removesuffix(".py"))) == (name, before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nnix\n", "line 2: NameError: name 'nix' is not defined\nThe whole traceback: python "),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
        ("def f(:\n", "line 1: SyntaxError: invalid syntax\n"),
        ("from agentkit import Agent\nAgent('')\n", "line 2: name= takes a string that is not blank."),
    ],
)
def test_program_errors_are_reported_with_file_and_line(tmp_path, text, message):
    """An exception, exit or syntax error of a program is reported with its file and line."""
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(ConfigError) as caught:
        run_program(tmp_path / "wrong.py")
    assert str(caught.value).startswith(f"{tmp_path / 'wrong.py'}, {message}")


def test_output_during_import_goes_to_stderr(tmp_path, capsys):
    """Output that a program prints while it is imported goes to stderr."""
    (tmp_path / "talking.py").write_text("print('loaded')\n")
    run_program(tmp_path / "talking.py")
    assert capsys.readouterr() == ("", "loaded\n")
