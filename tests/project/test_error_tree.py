"""The documented tree of exceptions matches the classes."""

import ast
import builtins
import inspect
import re
from pathlib import Path

import pytest

from agentkit import errors

pytestmark = pytest.mark.rule

PACKAGE = Path(errors.__file__).parent
BRANCH = re.compile(r"^(?P<indent>(?:│   |    )*)(?:├── |└── )(?P<name>\w+)\s*(?:also an? (?P<other>\w+))?")


def drawn_tree():
    """Return the documented tree: each exception's parent, and its builtin base."""
    path, drawing = ["AgentKitError"], {}
    for match in filter(None, map(BRANCH.match, errors.__doc__.splitlines())):
        depth = len(match["indent"]) // 4 + 1
        path[depth:] = [match["name"]]
        drawing[match["name"]] = (path[depth - 1], match["other"])
    return drawing


def real_tree():
    """Return the class tree: each exception's parent, and its builtin base."""
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
    ]
    bases = {cls.__name__: [base.__name__ for base in cls.__bases__] for cls in classes}
    assert bases.pop("AgentKitError") == ["Exception"]
    return {name: (parent, *(others or [None])) for name, (parent, *others) in bases.items()}


def public_exceptions(path):
    """Return the public exceptions of a module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            names = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if any(is_exception(name) for name in names):
                yield node.name


def is_exception(name):
    """Return whether the name is that of a builtin exception or of an agentkit exception."""
    value = getattr(errors, name, getattr(builtins, name, None))
    return inspect.isclass(value) and issubclass(value, BaseException)


def test_drawing_is_the_class_tree():
    """The tree in the docstring of `agentkit.errors` matches its classes."""
    assert drawn_tree() == real_tree()


def test_error_tree_has_every_branch():
    """The error tree has five branches."""
    branches = [name for name, (parent, _) in drawn_tree().items() if parent == "AgentKitError"]
    assert branches == ["ConfigError", "ModelError", "ToolError", "RunError", "SessionError"]


# Exempt: `agentkit.testing` raises AssertionErrors for pytest, the guard raises to untrusted code in a child process,
# and errors of typed answers and of the server's requests are handled in their folders.
def test_exceptions_are_defined_in_one_module():
    """Every public exception is defined in `agentkit.errors`."""
    paths = [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name not in {"errors.py", "output_types.py"} and not {"testing", "guard", "server"} & set(path.parts)
    ]
    found = {path.relative_to(PACKAGE).as_posix(): list(public_exceptions(path)) for path in paths}
    assert {name: classes for name, classes in found.items() if classes} == {}


@pytest.mark.parametrize("name", sorted(real_tree()))
def test_exception_is_documented(name):
    """Every exception has a docstring."""
    assert getattr(errors, name).__doc__
