"""Tests for the signatures of functions: names, parameters, annotations and descriptions."""

from __future__ import annotations

import functools
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
import types
from typing import Annotated, Any

import pytest

from agentkit import Tool, calculator_tool
from agentkit.errors import ConfigError
from agentkit.tooling import signature as reflection
from agentkit.tooling.signature import Parameter, instance_of


def documented(first: int, second: str = "x") -> str:
    """Join two things."""
    return f"{first}{second}"


async def asynchronous(first: int) -> int:
    """Return it later."""
    return first


class Caller:
    """Calls things."""

    def __call__(self, query: str) -> str:
        """Call with a query."""
        return query

    def method(self, query: str) -> str:
        """Call by a method."""
        return query

    @classmethod
    def of_class(cls, query: str) -> str:
        """Call by the class."""
        return query

    @staticmethod
    def of_nobody(query: str) -> str:
        """Call by nobody."""
        return query


class AsyncCaller:
    """Calls things later."""

    async def _call(self, query: str) -> str:
        return query

    __call__ = _call


def read(function: Any, *, without_first: bool = False) -> tuple[Parameter, ...]:
    """Return the parameters of a function, through its signature."""
    found = reflection.signature_of(function, "demo", without_first=without_first)
    return reflection.parameters_of(found, function, "demo")


@pytest.mark.for_each(
    ("function", "name", "names", "text"),
    [
        (documented, "documented", ["first", "second"], "Join two things."),
        (asynchronous, "asynchronous", ["first"], "Return it later."),
        (Caller(), "Caller", ["query"], "Call with a query."),
        (AsyncCaller(), "AsyncCaller", ["query"], "Calls things later."),
        (Caller().method, "method", ["query"], "Call by a method."),
        (Caller.of_class, "of_class", ["query"], "Call by the class."),
        (Caller.of_nobody, "of_nobody", ["query"], "Call by nobody."),
        (functools.partial(documented, 1), "documented", ["second"], "Join two things."),
        (functools.partial(documented, second="secret"), "documented", ["first"], "Join two things."),
        (functools.partial(functools.partial(documented, 1), second="s"), "documented", [], "Join two things."),
        (functools.partial(Caller()), "Caller", ["query"], "Call with a query."),
    ],
)
def test_every_kind_of_function_can_be_read(function: Any, name: str, names: list[str], text: str) -> None:
    """The name, parameters and description of functions, methods, partials and callables are read."""
    assert reflection.name_of(function) == name
    assert [parameter.name for parameter in read(function)] == names
    assert reflection.parse_docstring(reflection.docstring_of(function)).text == text


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (documented, False),
        (asynchronous, True),
        (functools.partial(asynchronous, 1), True),
        (Caller(), False),
        (AsyncCaller(), True),
        (AsyncCaller().__call__, True),
    ],
)
def test_is_asynchronous(function: Any, *, is_async: bool) -> None:
    """A function that returns a coroutine is recognised however it is wrapped."""
    assert reflection.is_asynchronous(function) is is_async


def test_parameter_has_annotation_and_default() -> None:
    """A parameter has a resolved annotation, a default or none, and the text of its annotation."""

    def demo(a: Annotated[int, "how many"], b: list[str] = (), c=None) -> None:
        """Demonstrate."""

    a, b, c = read(demo)
    assert (a.required, a.text, b.required, b.hint, c.hint, c.default) == (
        True,
        "how many",
        False,
        list[str],
        Any,
        None,
    )


def test_wrapped_function_is_read_through_its_wrapper() -> None:
    """A decorator that sets `__wrapped__` preserves the parameters and the names in annotations."""

    @functools.wraps(documented)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return documented(*args, **kwargs)

    assert [parameter.hint for parameter in read(wrapper)] == [int, str]


def test_annotation_is_resolved_in_its_own_module() -> None:
    """A string annotation is resolved in the module of the function before the builtins."""
    elsewhere = types.FunctionType(documented.__code__, {"str": float})
    elsewhere.__annotations__.update(first="int", second="str")
    assert [parameter.hint for parameter in read(elsewhere)] == [int, float]


def annotated(hint: str) -> Any:
    """Return a function whose parameter `value` has a string annotation."""

    def demo(value):
        return value

    demo.__annotations__["value"] = hint
    return demo


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (max, "has no readable signature. Wrap it in a function, or use Tool.from_schema"),
        (annotated("Decimal"), "'Decimal' of parameter 'value' cannot be resolved .* not under TYPE_CHECKING"),
        (annotated("list[Nowhere]"), "'value' cannot be resolved .name 'Nowhere' is not defined.; define or import"),
        (annotated("1 +"), "parameter 'value' is not a type"),
        (annotated("functools.nothing"), "parameter 'value' is not a type"),
    ],
)
def test_unreadable_signature_is_rejected(function: Any, text: str) -> None:
    """A signature or annotation that cannot be resolved raises an error with the tool's name."""
    with pytest.raises(ConfigError, match=f"Tool 'demo'.*{text}"):
        read(function)


def test_lazy_annotations_may_be_unresolvable() -> None:
    """In Python 3.14, annotations are evaluated lazily: an unknown name raises the same error."""

    class Late:
        """A callable object whose signature raises an error, like that of a lazy annotation."""

        def __call__(self) -> None:
            """Do nothing."""

        @property
        def __signature__(self) -> inspect.Signature:
            raise NameError("name 'Later' is not defined")

    with pytest.raises(ConfigError, match="Later"):
        reflection.signature_of(Late(), "demo")


def test_local_names_are_resolved() -> None:
    """Classes that are local to a function can annotate the tools made in it."""

    class Local:
        """A local class."""

    class Body:
        """A class body around a function."""

        Inner = int

        def demo(self, a: Local, b: list[Inner]) -> None:
            """Take local things."""

        found = read(demo, without_first=True)

    assert [parameter.hint for parameter in Body.found] == [Local, list[int]]


def test_function_in_a_class_body_lacks_its_instance() -> None:
    """A function in a class body with a first parameter `self` or `cls` has no instance yet."""
    assert reflection.takes_instance(Caller.method)
    assert not reflection.takes_instance(Caller.of_nobody)
    assert not reflection.takes_instance(Caller().method)
    assert not reflection.takes_instance(documented)
    assert [parameter.name for parameter in read(Caller.method, without_first=True)] == ["query"]

    class Empty:
        """A class with a function that takes nothing."""

        def nothing() -> None:
            """Take nothing."""

    assert not reflection.takes_instance(Empty.nothing)


GOOGLE = """Find a book.

    Looks in two places.

    Args:
        title (str): What it is called,
            in part or whole.
        *authors: Who wrote it.

    Returns:
        The book.
    """
NUMPY = """Find a book.

    Looks in two places.

    Parameters
    ----------
    title : str
        What it is called,
        in part or whole.
    *authors
        Who wrote it.

    Returns
    -------
    Book
        The book.
    """
REST = """Find a book.

    Looks in two places.

    :param title: What it is called,
        in part or whole.
    :param authors: Who wrote it.
    :returns: The book.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["Google", "NumPy", "reST"])
def test_docstring_styles(docstring: str) -> None:
    """The description and parameters are read from Google, NumPy and reST docstrings."""

    def find(title: str, authors: str) -> None: ...

    find.__doc__ = docstring
    found = reflection.parse_docstring(reflection.docstring_of(find))
    assert found.text == "Find a book.\n\nLooks in two places."
    assert dict(found.parameters) == {"title": "What it is called,\nin part or whole.", "authors": "Who wrote it."}


@pytest.mark.for_each(
    "docstring",
    [
        None,
        "",
        "Find a book: by title or author.",
        "Find a book.\n\nNote: slow.",
        "Find.\n\nArgs:\n  no colon here",
        "Find.\n\n:param broken",
        "Find.\n\n: broken\n:param title: What.",
        ": :broken\n:returns: The book.",
    ],
)
def test_docstring_without_sections_is_the_description(docstring: str | None) -> None:
    """A docstring without readable sections is used as the description."""

    def find() -> None: ...

    find.__doc__ = docstring
    found = reflection.parse_docstring(reflection.docstring_of(find))
    assert found.text.splitlines()[:1] == (docstring or "").strip().splitlines()[:1]


def test_module_level_tool_is_pickled_by_name():
    """A module-level tool is pickled by name, and any other tool is rebuilt from its parts."""
    assert pickle.loads(pickle.dumps(calculator_tool)) is calculator_tool
    given = Tool.from_schema("join", "Join a path.", {"properties": {"path": {"type": "string"}}}, os.fspath)
    for tool in (Tool(textwrap.dedent, level="SYSTEM", max_chars=200), given):
        other = pickle.loads(pickle.dumps(tool))
        assert other is not tool
        assert (other.spec, other.level, other.max_chars) == (tool.spec, tool.level, tool.max_chars)
        assert other.function is tool.function


def test_main_module_can_be_excluded():
    """With another main module, no function is pickled by its name in it."""
    program = """
        import pickle
        from agentkit import tool
        from agentkit.tooling.signature import WITHOUT_MAIN
        @tool
        def double(number: int) -> int:
            "Twice a number."
            return 2 * number
        print(pickle.loads(pickle.dumps(double)) is double)
        WITHOUT_MAIN.set(True)
        try:
            pickle.dumps(double)
        except pickle.PicklingError:
            print("not by name")
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split("\n")[:2] == ["True", "not by name"], done.stderr


def test_instance_of_a_method() -> None:
    """A bound method returns its instance, also inside a partial; other functions return None."""
    names = ["b", "a"]
    assert instance_of(names.append) is names
    assert instance_of(functools.partial(names.append, "c")) is names
    for function in (documented, len, dict.fromkeys, functools.partial(documented, 1), lambda: 1):
        assert instance_of(function) is None
