"""Tests for the guarded language: what code can do, what is refused, and how errors are reported."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from agentkit.sandbox.guard import PersistentNamespace, run
from agentkit.sandbox.guard.module_facades import TABLE

HERE = Path(__file__).parent
MARKER = "MARKER_ESCAPED"


def rows(name):
    """Return the rows of a data file of this folder."""
    return [json.loads(line) for line in (HERE / name).read_text("utf-8").splitlines()]


ORDINARY = rows("ordinary.jsonl")
ESCAPES = rows("escapes.jsonl")


def outcome(code):
    """Return the outcome of a run and its standard output."""
    printed = []
    ending = run(code, lambda stream, text: printed.append(text) if stream == "stdout" else None)
    return ending, "".join(printed)


@pytest.mark.for_each("row", ORDINARY, ids=range(len(ORDINARY)))
def test_ordinary_code_prints_the_same_as_in_python(row):
    """Code as models write it runs under guard and prints the same as in Python."""
    ending, printed = outcome(row["code"])
    assert printed == row["stdout"], ending.text()
    assert ending.ok == row["ok"]


@pytest.mark.slow
def test_ordinary_rows_match_python():
    """The expected output of the ordinary rows is that of Python itself."""
    for row in ORDINARY:
        command = [sys.executable, "-I", "-"]
        done = subprocess.run(command, input=row["code"], capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.returncode == 0) == (row["stdout"], row["ok"])


def test_corpora_are_large():
    """There are hundreds of rows of each sort."""
    assert len(ORDINARY) >= 200
    assert len({row["code"] for row in ESCAPES}) >= 250


def test_escapes_are_stopped():
    """No known escape from the language prints its marker."""
    assert [row for row in ESCAPES if MARKER in outcome(row["code"])[1].splitlines()] == []


def wrapped(code, how):
    """Return variants of the code that must not change what it may do."""
    indented = "".join(f"    {line}\n" for line in code.splitlines())
    return [
        f"def _wrapped():\n{indented}_wrapped()\n",
        f"if True:\n{indented}",
        f"for _ in range(1):\n{indented}",
        f"while True:\n{indented}    break\n",
        f"try:\n{indented}finally:\n    pass\n",
        f"class Wrapped:\n{indented}",
        code.replace("    ", "\t"),
        code.replace("\n", "\r\n"),
        f"# comment\n\n{code}\n\n",
        code.replace("_", "\uff3f", 1),
        code.replace("a", "\uff41", 1),
        f"with __import__('contextlib').nullcontext():\n{indented}",
        f"match 1:\n    case _:\n{''.join('    ' + line + chr(10) for line in indented.splitlines())}",
        f"exec({code!r})\n",
        f"import math\n{code}",
        code.replace("x =", "y = x ="),
    ][how]


def test_mutated_escapes_are_stopped():
    """Escapes are also stopped when they are wrapped, indented, spelled or joined differently."""
    chance = Random(20261122)
    for _ in range(1500):
        code = wrapped(chance.choice(ESCAPES)["code"], chance.randrange(16))
        if chance.random() < 0.3:
            code = wrapped(code, chance.randrange(16))
        if chance.random() < 0.2:
            code = chance.choice(ESCAPES)["code"] + code
        _, printed = outcome(code)
        assert MARKER not in printed.splitlines(), code


def test_last_expression_is_returned():
    """The value of a last expression is returned and not printed."""
    assert outcome("x = 2\nx * 21")[0].value == "42"
    assert outcome("print('a')")[0].value is None
    assert outcome("'a'") == (outcome("'a'")[0], "")
    assert outcome("")[0].ok


@pytest.mark.for_each(
    ("code", "kind", "line", "expected"),
    [
        ("x = 1\nx = (", "syntax", 2, "SyntaxError"),
        ("x = '\0'", "syntax", None, "null bytes"),
        ("x = '\ud800'", "syntax", None, "surrogates"),
        ("(" * 250 + "1" + ")" * 250, "syntax", None, ""),
        ("-" * 3000 + "1", "syntax", None, "nested too deeply"),
        ("\n\nimport os", "refused", 3, "module 'os' is not available here"),
        ("\nimport os", "refused", 2, "read_file tool"),
        ("import requests", "refused", 1, "fetch_url"),
        ("import subprocess", "refused", 1, "run_shell"),
        ("open('x')", "refused", 1, "read_file tool"),
        ("input()", "refused", 1, "nobody can be asked"),
        ("try:\n    1\nexcept* ValueError:\n    pass", "refused", 1, "except*"),
        ("from math import nope", "refused", 1, "module 'math' has no 'nope' here"),
        ("import math\nmath.nope", "refused", 2, "available: acos"),
        ("import math\nmath.pi = 3", "refused", 2, "cannot be set"),
        ("x.__globals__", "refused", 1, "'__globals__'"),
        ("def f():\n    return 1 / 0\nf()", "raised", 2, "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "raised", None, "exit(3)"),
        ("class E(Exception):\n    def __str__(self): return 1 / 0\nraise E", "raised", 3, "cannot be shown"),
        ("x = '\f'\n1 / 0", "raised", 2, "line 2: `1 / 0`"),
        ("class E(Exception):\n    def __str__(self): exit()\nraise E", "raised", 3, "cannot be shown"),
        ("raise KeyboardInterrupt", "raised", 1, "KeyboardInterrupt"),
        ("def f(n): return f(n + 1)\nf(0)", "raised", 1, "RecursionError"),
        ("class A:\n    def __repr__(self): return 1 / 0\nA()", "raised", 2, "ZeroDivisionError"),
    ],
)
def test_error_has_type_line_and_reason(code, kind, line, expected):
    """An error has its type, its line and an explanation."""
    ending, _ = outcome(code)
    assert (ending.kind, ending.line) == (kind, line) or line is None
    assert ending.kind == kind
    assert expected in ending.text()


def test_traceback_contains_only_lines_of_the_program():
    """A traceback contains only lines of the program, outermost first."""
    ending, _ = outcome("import statistics\ndef f(x):\n    return statistics.mean(x)\ndef g():\n    f([])\ng()")
    assert ending.trace == ("line 6, in <module>", "line 5, in g")
    assert (ending.line, ending.source) == (3, "return statistics.mean(x)")
    assert "mean requires at least one data point" in ending.message
    assert ending.text().splitlines()[-1] == ending.message


def test_ok_has_no_text():
    """A successful run has an empty text."""
    assert outcome("1")[0].text() == ""


def test_output_before_an_error_is_returned():
    """Output printed before an error is returned."""
    assert outcome("print('a')\n1 / 0")[1] == "a\n"


def test_streams_are_separate():
    """Standard error is returned separately."""
    written = []
    run("import sys\nprint('a')\nprint('b', file=sys.stderr)", lambda *piece: written.append(piece))
    assert written == [("stdout", "a\n"), ("stderr", "b\n")]


@pytest.mark.for_each("name", sorted(TABLE.keys() - {"__future__"}))
def test_every_module_can_be_imported(name):
    """Each available module can be imported, in all three forms."""
    ending, printed = outcome(f"import {name}\nimport {name} as m\nfrom {name} import *\nprint(m)")
    assert ending.ok, ending.text()
    assert printed == f"<module {name!r}>\n"


@pytest.mark.parametrize("name", ["os", "pathlib", "threading", "requests", "nope"])
def test_missing_module_is_reported_briefly(name):
    """The error lists the available modules once, in at most 400 characters."""
    text = outcome(f"import {name}")[0]
    assert len(f"{text.message} {text.hint}") <= 400
    assert text.text().count("available: ") == 1


def test_runs_are_isolated():
    """A run sees nothing of another run."""
    outcome("import json\nx = 1")
    assert outcome("x")[0].message == "NameError: name 'x' is not defined"


def test_host_streams_are_unchanged():
    """A run does not change the host's standard output."""
    before = (sys.stdout, sys.stderr, Path.cwd())
    outcome("print('x')\nimport contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): print(1)")
    assert (sys.stdout, sys.stderr, Path.cwd()) == before


@pytest.mark.for_each("row", rows("details.jsonl"), ids=lambda row: repr(row["code"][:40]))
def test_replaced_functions_match_python(row):
    """Replaced functions and guarded attributes return the same as Python's own."""
    ending, printed = outcome(row["code"])
    assert ending.ok, ending.text()
    assert row["stdout"] in {printed, None}


@pytest.mark.for_each("row", rows("refusals.jsonl"), ids=lambda row: repr(row["code"][:40]))
def test_refusal_suggests_an_alternative(row):
    """The error of a refused run explains what was refused and suggests an alternative."""
    ending, _ = outcome(row["code"])
    assert ending.kind in {"refused", "syntax"} or not row["said"]
    assert row["said"] in ending.text()


def test_programs_share_their_variables():
    """Programs of one namespace share their variables; each has a separate outcome, also one that fails."""
    printed = []
    persistent_namespace = PersistentNamespace(lambda _, text: printed.append(text))
    outcomes = [persistent_namespace.run(code) for code in ("x = 6\nx", "y = x * 7; 1 / 0", "x +", "print(x, y)\ny")]
    expected = [("ok", "6"), ("raised", None), ("syntax", None), ("ok", "42")]
    assert [(each.kind, each.value) for each in outcomes] == expected
    assert "".join(printed) == "6 42\n"
