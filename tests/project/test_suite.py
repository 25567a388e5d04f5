"""Do the tests prove something about the real thing, and say what?"""

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
TEST_FILES = [path for path in FILES if path.name.startswith("test_")]
PATCHING = {"setattr", "delattr", "setitem", "delitem", "context"}
MOCKING = {"unittest.mock", "mock", "pytest_mock"}


def name_of(path):
    """The path below the project's root, as a test id."""
    return path.relative_to(ROOT).as_posix()


def find_tests(path):
    """The test functions of a file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def imported_modules(tree):
    """The modules that a file imports, with the names taken from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_patch(node):
    """Whether a syntax node replaces a part of the program: `monkeypatch.setattr` and its like, or a `mocker`."""
    if isinstance(node, ast.Attribute):
        return node.attr in PATCHING and ast.unparse(node.value) == "monkeypatch"
    return isinstance(node, ast.arg) and node.arg == "mocker"


def patches(tree):
    """The lines on which a file replaces a part of the program."""
    return [node.lineno for node in ast.walk(tree) if is_patch(node)]


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_every_test_says_what_it_proves(path):
    """The docstring of every test is one sentence that could stand in the manual."""
    docstrings = {test.name: ast.get_docstring(test) or "" for test in find_tests(path)}
    assert {name for name, text in docstrings.items() if not text.endswith(".") or "\n\n" in text} == set()


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_no_test_hides_another(path):
    """Two tests of one file never bear the same name."""
    assert [name for name, count in Counter(test.name for test in find_tests(path)).items() if count > 1] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_mocked(path):
    """No test imports a mocking library."""
    assert MOCKING.isdisjoint(imported_modules(ast.parse(path.read_text("utf-8"))))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_patched(path):
    """No test replaces a part of the program; only environment variables may be set."""
    assert patches(ast.parse(path.read_text("utf-8"))) == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in TEST_FILES}), ids=name_of)
def test_folders_mirror_the_package(folder):
    """The tests of a folder of the package are in the folder of the same name; two folders test all of the package."""
    mirrored = folder.relative_to(ROOT / "tests")
    is_mirror = mirrored.parts[:1] in {("project",), ("damaged",)} or (ROOT / "agentkit" / mirrored).is_dir()
    assert is_mirror, f"There is no folder agentkit/{mirrored}: put these tests where their source is"


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
    """Replacing an attribute or an item counts as patching, setting a variable does not."""
    assert len(patches(ast.parse(source))) == count
