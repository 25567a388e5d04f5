"""Rules about the tests: each states its behaviour, and nothing is mocked or patched."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
TEST_FILES = [path for path in FILES if path.name.startswith("test_")]
PATCHING = {"setattr", "delattr", "setitem", "delitem", "context"}
MOCKING = {"unittest.mock", "mock", "pytest_mock"}


def name_of(path):
    """Return the path below the project's root, as a test id."""
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path):
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def find_tests(path):
    """Yield the test functions of a file."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def imported_modules(tree):
    """Yield the modules that a file imports, including imported names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_patch(node):
    """Return whether a syntax node patches the program: `monkeypatch.setattr` and the like, or a `mocker`."""
    if isinstance(node, ast.Attribute):
        return node.attr in PATCHING and ast.unparse(node.value) == "monkeypatch"
    return isinstance(node, ast.arg) and node.arg == "mocker"


def patches(tree):
    """Return the lines on which a file patches the program."""
    return [node.lineno for node in ast.walk(tree) if is_patch(node)]


def test_every_test_states_the_behaviour():
    """The docstring of every test is one sentence that states the behaviour under test."""
    docstrings = {
        (name_of(path), test.name): ast.get_docstring(test) or "" for path in TEST_FILES for test in find_tests(path)
    }
    assert {name for name, text in docstrings.items() if not text.endswith(".") or "\n\n" in text} == set()


def test_test_names_are_unique():
    """Test names are unique in each file."""
    counts = Counter((name_of(path), test.name) for path in TEST_FILES for test in find_tests(path))
    assert [name for name, count in counts.items() if count > 1] == []


def test_nothing_is_mocked():
    """No test imports a mocking library."""
    imported = {name_of(path): set(imported_modules(parse(path))) for path in FILES}
    assert [name for name, modules in imported.items() if modules & MOCKING] == []


def test_nothing_is_patched():
    """No test patches the program, and only environment variables may be set."""
    found = {name_of(path): patches(parse(path)) for path in FILES}
    assert {name: lines for name, lines in found.items() if lines} == {}


def is_mirror(folder):
    """Return whether a folder of tests mirrors a folder of the package, or covers all of it."""
    mirrored = folder.relative_to(ROOT / "tests")
    return mirrored.parts[:1] in {("project",), ("damaged",)} or (ROOT / "agentkit" / mirrored).is_dir()


def test_folders_mirror_the_package():
    """The tests of each folder of the package are in a folder of the same name."""
    assert [name_of(folder) for folder in {path.parent for path in TEST_FILES} if not is_mirror(folder)] == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def test(monkeypatch):\n    monkeypatch.setattr(os, 'getcwd', None)", 1),
        ("def test(mocker):\n    pass", 1),
        ("with monkeypatch.context() as patch: pass", 1),
        ("def test(monkeypatch):\n    monkeypatch.setenv('A', 'b')", 0),
        ("setattr(thing, 'name', 1)", 0),
    ],
)
def test_reading_of_patches(source, count):
    """Replacing an attribute or item counts as patching, and setting a variable does not."""
    assert len(patches(ast.parse(source))) == count
