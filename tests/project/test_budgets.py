"""Size budgets of modules, functions and arguments, and rules about names and silenced checks."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import agentkit

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "agentkit").rglob("*.py"))
PYTHON_FILES = sorted(path for folder in ("agentkit", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
BANNED_NAMES = {
    *("util", "utils", "helper", "helpers", "common", "base", "misc", "manager", "managers", "handler", "handlers"),
}
SPLIT = "is too large: split it by meaning, as CONTRIBUTING.md explains under Budgets"
UNSUPPRESSIBLE = {"C901", "E501", "PLR0913", "PLR0917", "TID251"}
IGNORE = re.compile(r"#\s*(type:\s*ignore|noqa|ruff:|mypy:|pyright:|flake8:|pylint:|fmt:|isort:)", re.IGNORECASE)
CODED = r"(type: ignore\[[a-z-]+(, ?[a-z-]+)*\]|noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*)"
REASON = r"\s+([#-] )?\w.{9,}"
EXPLAINED_IGNORE = re.compile(f"# {CODED}{REASON}")
UNCOVERED = re.compile(r"#\s*pragma: no (cover|branch)")
EXPLAINED_UNCOVERED = re.compile(f"# pragma: no (cover|branch){REASON}")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """Return the path below the project's root, as a test id."""
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def nodes(path: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """Return the syntax nodes of these types in a file."""
    return (node for node in ast.walk(parse(path)) if isinstance(node, kinds))


def lines_of(node: ast.stmt) -> int:
    """Return the number of lines of a statement."""
    return node.end_lineno - node.lineno + 1


def lines_without_docstring(function: Function) -> int:
    """Return the number of lines of a function without its docstring and nested functions."""
    within = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    documented = [node.body[0] for node in within if ast.get_docstring(node, clean=False)]
    return lines_of(function) - sum(map(lines_of, documented))


@cache
def comments(path: Path) -> dict[str, str]:
    """Return the comments of a file by file name and line."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    return {f"{name_of(path)}:{token.start[0]}": token.string for token in tokens if token.type == tokenize.COMMENT}


def comments_that_match(pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the comments of the project that match a pattern, by file name and line."""
    paths = [path for path in PYTHON_FILES if pattern.search(path.read_text("utf-8"))]
    return {place: text for path in paths for place, text in comments(path).items() if pattern.search(text)}


def is_constructor(function: Function, owner: ast.ClassDef | None) -> bool:
    """Return whether a function is a constructor or a command, which takes settings."""
    decorators = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    if owner is None:
        return bool(re.search(r"\.(command|group)\b", decorators))
    return function.name in {"__init__", "__new__"} or "classmethod" in decorators


def counted_arguments(function: Function, owner: ast.ClassDef | None) -> int:
    """Return the number of arguments, without the keyword-only ones of a constructor."""
    is_static = any(ast.unparse(decorator) == "staticmethod" for decorator in function.decorator_list)
    implicit = owner is not None and not is_static
    positional = len(function.args.posonlyargs) + len(function.args.args) - implicit
    return positional if is_constructor(function, owner) else positional + len(function.args.kwonlyargs)


def functions(path: Path) -> Iterator[tuple[Function, ast.ClassDef | None]]:
    """Yield each function of a file, and the class of a method."""
    owners = {id(child): owner for owner in nodes(path, ast.ClassDef) for child in owner.body}
    for node in nodes(path, ast.FunctionDef, ast.AsyncFunctionDef):
        yield node, owners.get(id(node))


def test_modules_are_at_most_900_lines():
    """A module has at most 900 lines; 600 are the rule."""
    sizes = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > 900} == {}, f"Each of these {SPLIT}"


def test_functions_are_at_most_40_lines():
    """A function has at most 40 lines, not counting docstrings."""
    sizes = [
        (name_of(path), function.name, lines_without_docstring(function))
        for path in MODULES
        for function, _ in functions(path)
    ]
    assert [found for found in sizes if found[-1] > 40] == [], f"Each of these {SPLIT}"


def test_functions_take_at_most_six_arguments():
    """A function takes at most six arguments, except keyword-only arguments of a constructor."""
    counts = [
        (name_of(path), function.name, counted_arguments(function, owner))
        for path in MODULES
        for function, owner in functions(path)
    ]
    assert [found for found in counts if found[-1] > 6] == [], "Group arguments that belong together in a dataclass"


def test_folders_are_seen_by_the_contracts():
    """Every folder has an `__init__.py`, so that the contracts on layers and cycles include it."""
    folders = {path.parent for path in MODULES}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_package_has_at_most_55_public_names():
    """`agentkit` exports at most 55 names."""
    assert len(agentkit.__all__) <= 55


def test_module_names_are_specific():
    """No module is called utils, helpers, common, base, misc, manager or handler."""
    words = {name_of(path): {*path.stem.split("_"), *path.parent.name.split("_")} for path in PYTHON_FILES}
    assert [name for name, used in words.items() if used & BANNED_NAMES] == []


def test_modules_have_a_summary():
    """Every module has a docstring whose summary is not a question."""
    summaries = {name_of(path): (ast.get_docstring(parse(path)) or "").split("\n\n")[0] for path in MODULES}
    assert [name for name, summary in summaries.items() if not summary or "?" in summary] == []


def test_ignores_are_few():
    """At most ten comments silence the type checker or the linter."""
    assert len(comments_that_match(IGNORE)) <= 10


def test_every_ignore_has_a_code_and_a_reason():
    """A comment that disables a check contains a code and a reason."""
    unexplained = {
        place: text for place, text in comments_that_match(IGNORE).items() if not EXPLAINED_IGNORE.search(text)
    }
    assert unexplained == {}


def test_budgets_cannot_be_disabled():
    """No comment disables the rules on complexity, arguments, line length or banned imports."""
    silenced = {place: set(re.findall(r"[A-Z]+\d+", text)) for place, text in comments_that_match(IGNORE).items()}
    assert {place: codes for place, codes in silenced.items() if codes & UNSUPPRESSIBLE} == {}


def test_uncovered_lines_are_few_and_explained():
    """At most ten places are excluded from branch coverage, each with a reason."""
    excused = comments_that_match(UNCOVERED)
    assert len(excused) <= 10
    assert {place: text for place, text in excused.items() if not EXPLAINED_UNCOVERED.search(text)} == {}


def test_linter_keeps_the_budgets():
    """The linter is configured with the limits: complexity 8, six positional arguments, lines of 120."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]
    lint = settings["lint"]
    assert (settings["line-length"], lint["mccabe"]["max-complexity"]) == (120, 8)
    assert lint["pylint"]["max-positional-args"] == 6
    assert {"C90", "E", "PLR", "TID251", "T20"} <= set(lint["select"])


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        ("# type: ignore[attr-defined]  # the stubs lack this attribute", True),
        ("# noqa: S603 the command is a list of our own", True),
        ("# noqa: S603, S607  # the command is a list of our own", True),
        ("# type: ignore", False),
        ("# type: ignore[attr-defined]", False),
        ("# noqa", False),
        ("# noqa: S603", False),
        ("# ruff: noqa", False),
        ("# fmt: off", False),
    ],
)
def test_reading_of_ignores(text, explained):
    """A comment that disables a check is explained if text follows its code."""
    assert IGNORE.search(text)
    assert bool(EXPLAINED_IGNORE.search(text)) is explained
