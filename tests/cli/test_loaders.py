"""Is a Python file run once as an import would run it, and told by its line when that fails?"""

import sys
from typing import get_type_hints

import pytest

from agentkit import ConfigError
from agentkit.cli.loaders import names_in, parted


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
def test_a_place_is_a_file_and_a_name(place, file, name):
    """A name stands behind the colon of a Python file, and nowhere else."""
    path, found = parted(place)
    assert (str(path), found) == (file, name)


def test_what_annotations_mean_is_found(tmp_path):
    """Annotations that are texts are read among the program's names, also behind those of modules beside it."""
    (tmp_path / "beside_it.py").write_text("PRICE = 5\n")
    program = tmp_path / "program_of_a_test.py"
    program.write_text(
        "from __future__ import annotations\nfrom beside_it import PRICE\n"
        "class Size: pass\nclass Order:\n    size: Size\n    next: Order\n"
    )
    folder = sys.path[0]
    found = names_in(program)
    assert (found["PRICE"], sys.path[0]) == (5, folder)
    assert get_type_hints(found["Order"]) == {"size": found["Size"], "next": found["Order"]}


@pytest.mark.parametrize("name", ["json.py", "__main__.py", "antigravity.py", "pip.py"])
def test_a_program_takes_no_modules_place(tmp_path, name):
    """A program with the name of a module that is there, or could be imported later, leaves that where it is."""
    before = sys.modules.get(name.removesuffix(".py"))
    (tmp_path / name).write_text("x = __name__\n")
    assert (names_in(tmp_path / name)["x"], sys.modules.get(name.removesuffix(".py"))) == (name, before)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nnix\n", "line 2: NameError: name 'nix' is not defined\nThe whole traceback: python "),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
        ("def f(:\n", "line 1: SyntaxError: invalid syntax\n"),
        ("from agentkit import Agent\nAgent('')\n", "line 2: name= takes a string that is not blank."),
    ],
)
def test_what_fails_is_told_by_its_line(tmp_path, text, told):
    """What a program raises, leaves with, or is misspelt in, is told with file and line."""
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(ConfigError) as caught:
        names_in(tmp_path / "wrong.py")
    assert str(caught.value).startswith(f"{tmp_path / 'wrong.py'}, {told}")


def test_what_it_prints_is_no_answer(tmp_path, capsys):
    """What a program prints while it is loaded goes to stderr, as stdout is the answer's or a protocol's."""
    (tmp_path / "talking.py").write_text("print('loaded')\n")
    names_in(tmp_path / "talking.py")
    assert capsys.readouterr() == ("", "loaded\n")
