"""Tests for code in manifests: names and hashes that are the same on every machine."""

import functools
import runpy
from pathlib import Path

import pytest

from agentkit.manifest.identity import approver_of, code_of, is_ours
from agentkit.safety.terminal_approver import TerminalApprover


@pytest.fixture
def named(tmp_path):
    """Return the object named `it` in a program."""

    def run(text):
        path = tmp_path / "bot.py"
        path.write_text(text, "utf-8")
        return runpy.run_path(str(path), run_name="bot")["it"]

    return run


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def it(x):\n    return x", "# first\n\ndef it(x):  # why\n\n    # how\n    return x  \n"),
        ("it = lambda x: x", "it = (lambda x: x)  # same"),
        (
            "class A:\n    def f(self):\n        return 1\nit = A()",
            "class A:\n    def f(self):\n\n        return 1\nit = A()",
        ),
        ("def f(x):\n    return x\nit = f", "if True:\n    def f(x):\n        return x\nit = f"),
        ("def it(x): return '#'", "def it(x): return '#'  # no"),
        ("def it(x, path='a'): return x", "def it(x, path='a'): return x # b"),
    ],
)
def test_formatting_does_not_change_the_hash(named, one, other):
    """Comments, empty lines and position do not change the hash of code."""
    assert code_of(named(one)) == code_of(named(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def it(x):\n    return x", "def it(x):\n    return not x"),
        ("it = lambda x: x", "it = lambda x: not x"),
        ("it = lambda x: '#a'", "it = lambda x: '#b'"),
        ("def it(x): return x", "import functools\n@functools.cache\ndef it(x): return x"),
        (
            "class A:\n    def f(self):\n        return 1\nit = A()",
            "class A:\n    def f(self):\n        return 2\nit = A()",
        ),
        ("def f(y):\n    return lambda x: y\nit = f(True)", "def f(y):\n    return lambda x: y\nit = f(False)"),
        (
            "def f(y):\n    return lambda x: y()\nit = f(lambda: 1)",
            "def f(y):\n    return lambda x: y()\nit = f(lambda: 2)",
        ),
        ("from functools import partial\nit = partial(max, 1)", "from functools import partial\nit = partial(max, 2)"),
        ("def it(x, y=1): return y", "def it(x, *, y=1): return y"),
        ("def f(x, *, y=1): return y\nit=f", "def f(x, *, y=2): return y\nit=f"),
        (
            "class A:\n    def __init__(self, n): self.n = n\n    def f(self, x): return self.n\nit = A(1).f",
            "class A:\n    def __init__(self, n): self.n = n\n    def f(self, x): return self.n\nit = A(2).f",
        ),
    ],
)
def test_changed_code_changes_the_hash(named, one, other):
    """Another text, or another number or function bound to the code, changes the hash."""
    assert code_of(named(one)) != code_of(named(other))


@pytest.mark.parametrize("text", ["'/home/me/keys'", "object()"])
def test_bound_values_are_not_listed(named, text):
    """Strings and objects bound to code are not listed, as they may be secrets or local paths."""
    made = "def f(y):\n    return lambda x: y\nit = f({})"
    assert code_of(named(made.format(text))) == code_of(named(made.format(text)))
    assert "keys" not in code_of(named(made.format(text)))


def test_code_without_a_file_is_listed_by_name():
    """Code without a file, and agentkit's code, is listed by name."""
    assert code_of(print).startswith("builtins.print sha256:")
    assert code_of(int).startswith("builtins.int sha256:")
    assert code_of(code_of) == "agentkit.manifest.identity.code_of"
    assert code_of(functools.partial(code_of, 1)) == "agentkit.manifest.identity.code_of"


@pytest.mark.parametrize(
    "text",
    [
        "def it(x):\n    return x",
        "class it:\n    pass",
        "class A:\n    def __call__(self, x):\n        return x\nit = A\nit.__qualname__ = 'TerminalApprover'",
        "class it:\n    pass\nit.__qualname__ = 'nowhere.it'",
    ],
)
def test_code_that_claims_to_be_agentkit(named, text):
    """Code that only claims to be agentkit's is listed with its hash."""
    item = named(text)
    for module in ("agentkit.safety.terminal_approver", "agentkit.nowhere"):
        item.__module__ = module
        assert code_of(item).startswith(f"not agentkit's {module}.")
        assert "sha256:" in code_of(item)
        assert not is_ours(item)


@pytest.mark.parametrize(
    ("text", "says_yes"),
    [
        ("it = lambda request: True", True),
        ("it = lambda request: 1", False),
        ("def it(request):\n    return True", True),
        ("def it(request):\n    print(request)\n    if request:\n        return True\n    return True", True),
        ("def it(request):\n    return request.tool == 'note'", False),
        ("def it(request):\n    if request:\n        return True\n    return False", False),
        ("def it(request):\n    return", False),
        ("def it(request):\n    pass", False),
        ("async def it(request):\n    return True", True),
        ("from agentkit import Approval\nit = lambda request: Approval.ALWAYS", True),
        ("from agentkit import Approval\nit = lambda request: Approval.NO", False),
        ("import agentkit\ndef it(request):\n    return agentkit.Approval.ONCE", True),
        ("class A:\n    def __call__(self, request):\n        return True\nit = A()", True),
        ("class A:\n    x = 1\n    def __call__(self, request):\n        return self.x\nit = A()", False),
        ("class A:\n    def f(self, request):\n        return True\nit = A().f", True),
        ("class A:\n    def f(self, request):\n        return True\nit = A()", False),
    ],
)
def test_approver_that_always_approves(named, text, says_yes):
    """An approver that always approves is listed as such."""
    assert approver_of(named(text)).startswith("always yes: ") is says_yes


def test_known_approvers():
    """A missing approver is `None`, and agentkit's own approvers are listed by name."""
    assert approver_of(None) is None
    assert approver_of(TerminalApprover()) == "agentkit.safety.terminal_approver.TerminalApprover"


READS = "def it(x): return x < {0}\n{0} = "


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (READS.format("MAX") + "3", READS.format("MAX") + "300"),
        (READS.format("MAX") + "3", READS.format("MAX") + "3.0"),
        (READS.format("HOSTS") + "['a']", READS.format("HOSTS") + "['a', 'b']"),
        (READS.format("HOSTS") + "{'a', 'b'}", READS.format("HOSTS") + "{'a', 'c'}"),
        (READS.format("HOSTS") + "frozenset({1})", READS.format("HOSTS") + "frozenset()"),
        (READS.format("HOST") + "'a.example'", READS.format("HOST") + "'b.example'"),
        (READS.format("ON") + "True", READS.format("ON") + "False"),
        (READS.format("BY") + "{'a': {'most': 3}}", READS.format("BY") + "{'a': {'most': 4}}"),
        ("def it(x): return f(x)\ndef f(x): return 1", "def it(x): return f(x)\ndef f(x): return 2"),
        (
            "MAX = 3\ndef it(x): return f(x)\ndef f(x): return MAX",
            "MAX = 4\ndef it(x): return f(x)\ndef f(x): return MAX",
        ),
        ("MAX = 3\ndef it(x): return [MAX for y in x]", "MAX = 4\ndef it(x): return [MAX for y in x]"),
        (
            "MAX = 3\nclass A:\n def f(self): return MAX\nit = A()",
            "MAX = 4\nclass A:\n def f(self): return MAX\nit = A()",
        ),
        ("MAX = 3\nit = lambda x: MAX", "MAX = 4\nit = lambda x: MAX"),
        ("def f(y):\n return lambda x: y\nit = f('a')", "def f(y):\n return lambda x: y\nit = f('b')"),
        ("def f(y):\n return lambda x: y\nit = f([1])", "def f(y):\n return lambda x: y\nit = f([2])"),
    ],
)
def test_values_read_by_code_are_part_of_the_hash(named, one, other):
    """Values of its module and closure, and functions that it calls, are part of the code hash."""
    assert code_of(named(one)) == code_of(named(one))
    assert code_of(named(one)) != code_of(named(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (READS.format("API_KEY") + "'a'", READS.format("API_KEY") + "'b'"),
        (READS.format("IT") + "{'password': 'a'}", READS.format("IT") + "{'password': 'b'}"),
        (READS.format("IT") + "'sk-proj-" + "a1B2" * 12 + "'", READS.format("IT") + "'sk-proj-" + "c3D4" * 12 + "'"),
        (READS.format("IT") + "{1, 2}\nOTHER = 1", READS.format("IT") + "{2, 1}\nOTHER = 2"),
        ("import os\nIT = os.getcwd() + '/a'\ndef it(x): return IT", "IT = '{cwd}/a'\nimport os\ndef it(x): return IT"),
        (
            "import os, math\ndef it(x): return os.name + math.pi",
            "import os\nimport math\ndef it(x): return os.name + math.pi",
        ),
        ("def it(x): return it(x)", "# more\ndef it(x): return it(x)"),
    ],
)
def test_irrelevant_values_do_not_change_the_code(named, one, other):
    """Secrets, values that are not read and machine-specific paths do not change the code hash."""
    assert code_of(named(one)) == code_of(named(other.replace("{cwd}", str(Path.cwd()))))


def test_hashed_values_are_bounded(named):
    """Mutually recursive functions and a huge table are hashed up to a limit."""
    chain = "\n".join(f"def f{n}(x): return f{n + 1}(x)" for n in range(300))
    text = f"{chain}\nTABLE = {{n: [n] * 10 for n in range(50_000)}}\ndef it(x): return f0(TABLE)"
    assert code_of(named(text)) == code_of(named(text))
