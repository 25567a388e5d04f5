"""Which code is this? Its name, and a hash of its text: what it does cannot be told, that it has changed can."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import io
import linecache
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentkit.capabilities.orders import ALWAYS_YES
from agentkit.lines import split_lines

OURS = "agentkit."
"""What the name of our own code begins with."""

PRETENDED = "not agentkit's "
"""What stands before the name of code that says it is ours, and is not."""

_FOLDER = Path(__file__).parents[1]

_YES = frozenset({"Approval.ONCE", "Approval.RUN", "Approval.ALWAYS"})
_Written = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def code_of(thing: Any) -> str:
    """`module.name sha256:…` of a function, a class, or an object of one; of ours the name alone.

    Hashed are its own text without comments, and the numbers and functions that it was made with: neither what it
    calls nor texts, which may be secret, or a path of this machine.
    """
    bearer = _bearer(thing)
    name = f"{module_of(thing)}.{bearer.__qualname__}"
    if name.startswith(OURS):
        return name
    written = [*_texts(bearer), *_made_with(thing)]
    digest = hashlib.sha256("\0".join(written).encode("utf-8", "backslashreplace")).hexdigest()
    return f"{name} sha256:{digest}"


def module_of(thing: Any) -> str:
    """The module of a function, a class, or the class of an object; of one that only says it is ours, so."""
    bearer = _bearer(thing)
    module = str(getattr(bearer, "__module__", None) or "builtins")
    return module if not module.startswith(OURS) or _is_written_by_us(bearer) else f"{PRETENDED}{module}"


def is_ours(thing: Any) -> bool:
    """Whether a function, a class or an object of one is ours."""
    return module_of(thing).startswith(OURS)


def _is_written_by_us(bearer: Any) -> bool:
    """Whether code that says it is ours is: it was written in our folder, or our module has it."""
    if inspect.isfunction(bearer):
        return Path(bearer.__code__.co_filename).is_relative_to(_FOLDER)
    found: Any = sys.modules.get(bearer.__module__)
    for name in bearer.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is bearer


def approver_of(approve: Callable[..., Any] | None) -> str | None:
    """The code of an approver; what stands there to say yes to everything is told so."""
    if approve is None:
        return None
    found = [node for node, _ in _found(_bearer(approve))]
    says_yes = bool(found) and all(map(_says_yes, found))
    return f"{ALWAYS_YES if says_yes else ''}{code_of(approve)}"


def _bearer(thing: Any) -> Any:
    """The function or class whose text tells what `thing` does."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    if inspect.ismethod(thing):
        return thing.__func__
    return thing if inspect.isroutine(thing) or isinstance(thing, type) else type(thing)


def _texts(bearer: Any) -> list[str]:
    """The text of a function or a class without comments; of several on one line, that of all."""
    return [_without_comments(text) for _, text in _found(bearer)]


def _found(bearer: Any) -> Iterator[tuple[_Written, str]]:
    """Where a function or a class was written, as a tree and as text; nothing of what has no text."""
    file = _file_of(bearer)
    linecache.checkcache(file)
    source = "".join(linecache.getlines(file))
    lines = split_lines(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda) and _is_meant(node, "<lambda>", bearer):
            yield node, f"({ast.get_source_segment(source, node)})"
        elif isinstance(node, _Written) and _is_meant(node, getattr(node, "name", ""), bearer):
            yield node, textwrap.dedent("\n".join(lines[_first_line(node) - 1 : node.end_lineno]))


def _file_of(bearer: Any) -> str:
    """The file that a function, or a method of a class, says it is from: a module that is gone cannot be asked."""
    functions = vars(bearer).values() if isinstance(bearer, type) else (bearer,)
    files = (each.__code__.co_filename for each in functions if inspect.isfunction(each))
    return next(files, "")


def _is_meant(node: _Written, name: str, bearer: Any) -> bool:
    if isinstance(bearer, type):
        return isinstance(node, ast.ClassDef) and name == bearer.__name__
    code = bearer.__code__
    return (_first_line(node), name) == (code.co_firstlineno, code.co_name)


def _first_line(node: _Written) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _without_comments(text: str) -> str:
    """The lines of a text that say something."""
    lines = split_lines(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _made_with(thing: Any) -> Iterator[str]:
    """The numbers and functions that code is bound to: arguments of partials, what it closes over, fields."""
    if isinstance(thing, functools.partial):
        yield from map(_plain, (*thing.args, *thing.keywords.values()))
        yield from _made_with(thing.func)
    elif inspect.ismethod(thing):
        yield from _made_with(thing.__self__)
    elif inspect.isfunction(thing):
        yield from map(_plain, (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()))
        yield from (_plain(cell.cell_contents) for cell in thing.__closure__ or ())
    elif not isinstance(thing, type):
        yield from map(_plain, getattr(thing, "__dict__", {}).values())


def _plain(value: Any) -> str:
    """A value, as far as it is the same on every machine and no secret."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return "\n".join([value.__qualname__, *_texts(value)]) if inspect.isfunction(value) else type(value).__name__


def _says_yes(node: _Written) -> bool:
    """Whether all that the code answers is a yes, as far as it stands there."""
    if isinstance(node, ast.Lambda):
        return _is_yes(node.body)
    if isinstance(node, ast.ClassDef):
        calls = [each for each in node.body if isinstance(each, _Written) and getattr(each, "name", "") == "__call__"]
        return bool(calls) and all(map(_says_yes, calls))
    answers = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return bool(answers) and all(answer is not None and _is_yes(answer) for answer in answers)


def _is_yes(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition("agentkit.")[2] in _YES or (
        isinstance(node, ast.Constant) and node.value is True
    )
